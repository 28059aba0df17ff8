//! Limits what a running guest stores: in its directory, and in files without a name that it holds open.
//!
//! Other programs use the same file system. A guest is ended for its own growth only, never for what they
//! take.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::count_schedule::{CountSchedule, TreeSize};
use super::descendants::Descendants;
use super::held_files::HeldBytes;
use super::reserve::Reserve;
use super::unseen::{UnseenBytes, written_bytes};
use crate::clock::now;
use crate::limits::RunLimits;
use crate::options::FreeSpace;
use crate::program::{ExceededLimit, WorkdirLimit};
use crate::tree::{TreeCount, count_tree_until};

/// The limit of a directory that is not counted.
const UNLIMITED: TreeSize = TreeSize { bytes: u64::MAX, entries: u64::MAX };

/// Which limit is exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuotaExcess {
    /// `own_directory_bytes`.
    Bytes,
    /// `own_directory_entries`.
    Entries,
    /// A limit of the caller: its name and a message.
    Workdir(ExceededLimit),
    /// The guest took space that the file system has to keep free.
    FileSystem,
}

/// The directory of one run and its limits.
pub(crate) struct DirectoryQuota {
    root: OwnedFd,
    device: u64,
    /// The limit of the tree; `None` for a directory that the caller counts itself.
    tree: Option<TreeLimit>,
    /// The last known free space.
    free: TreeSize,
    reserve: Reserve,
    unseen: UnseenBytes,
    /// The largest file that the run can make.
    max_file_bytes: u64,
    schedule: CountSchedule,
    /// The end of the run's time: a count of a large tree stops then.
    run_end: Option<Instant>,
}

/// The limit of a tree.
#[derive(Clone, Debug)]
pub(crate) enum TreeLimit {
    /// Of a private directory.
    Private { bytes: u64, entries: u64 },
    /// Of a directory of the caller.
    Workdir(WorkdirLimit),
}

impl TreeLimit {
    /// The limit of a run's directory, if it is counted.
    pub(crate) fn of(is_private: bool, limits: &RunLimits, workdir: Option<&WorkdirLimit>) -> Option<Self> {
        if is_private { Some(Self::private(limits)) } else { workdir.cloned().map(Self::Workdir) }
    }

    /// The limit of a private directory.
    pub(crate) fn private(limits: &RunLimits) -> Self {
        Self::Private { bytes: limits.own_directory_bytes, entries: limits.own_directory_entries }
    }

    fn max(&self) -> TreeSize {
        match self {
            Self::Private { bytes, entries } => TreeSize { bytes: *bytes, entries: *entries },
            Self::Workdir(limit) => TreeSize { bytes: limit.max_bytes(), entries: limit.max_entries() },
        }
    }

    fn exceeded(&self, now: &TreeCount) -> Option<QuotaExcess> {
        // A tree that is not counted completely has too many entries, or is too deep.
        let entries = if now.is_cut { self.max().entries.saturating_add(1) } else { now.entries() };
        match self {
            Self::Private { entries: max, .. } if entries > *max => Some(QuotaExcess::Entries),
            Self::Private { bytes, .. } => (now.bytes > *bytes).then_some(QuotaExcess::Bytes),
            Self::Workdir(limit) => limit.check(now.bytes, entries).map(QuotaExcess::Workdir),
        }
    }
}

impl DirectoryQuota {
    /// For the directory at `root` of a run with these limits. It is counted if it has a limit of its own, or
    /// while its file system is nearly full.
    pub(crate) fn new(
        root: &Path,
        limits: &RunLimits,
        tree: Option<TreeLimit>,
        kept_free: FreeSpace,
    ) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let device = rustix::fs::fstat(&root)?.st_dev;
        let stat = rustix::fs::fstatvfs(&root)?;
        let free = TreeSize::free(&stat);
        let floor = kept_free.floor_bytes(stat.f_blocks.saturating_mul(stat.f_frsize));
        // A private directory is empty now. Another one is counted when the file system is nearly full.
        let own = matches!(tree, Some(TreeLimit::Private { .. })).then(TreeSize::default);
        let schedule = CountSchedule::new(tree.as_ref().map_or(UNLIMITED, TreeLimit::max), free);
        let unseen = UnseenBytes::new(free.bytes, own.map(|own| own.bytes));
        let (reserve, max_file_bytes) = (Reserve::new(floor, free, own), limits.file_size_bytes);
        Ok(Self { root, device, tree, free, reserve, unseen, max_file_bytes, schedule, run_end: None })
    }

    /// For a run that ends after this time.
    pub(crate) fn ending_after(self, timeout: Duration) -> Self {
        Self { run_end: now().checked_add(timeout), ..self }
    }

    /// The time until the next check.
    pub(crate) fn pause(&self, elapsed: Duration) -> Duration {
        self.schedule.pause(elapsed)
    }

    /// The limit that the guest with this process id exceeds, if it is time for a check. The guest is ended
    /// soon if it has more than `max_tasks` threads.
    pub(crate) fn exceeded(&mut self, guest: i32, max_tasks: u64, elapsed: Duration) -> Option<QuotaExcess> {
        if !self.pause(elapsed).is_zero() {
            return None;
        }
        self.free = rustix::fs::fstatvfs(&self.root).map_or(self.free, |stat| TreeSize::free(&stat));
        let free = self.free;
        let is_near = self.reserve.is_near(free);
        let is_due = self.schedule.is_due(elapsed, free, self.reserve.margin(free));
        if !(is_due || is_near && self.schedule.may_count(elapsed, free)) {
            return None;
        }
        let start = now();
        let count = if is_near || self.tree.is_some() {
            let guest = Descendants::of(guest, max_tasks);
            if guest.tasks > max_tasks { None } else { self.own_use(&guest, elapsed) }
        } else {
            None
        };
        let size = count.map(|count| TreeSize { bytes: count.bytes, entries: count.entries() });
        self.schedule.record(elapsed, start.elapsed(), size.unwrap_or_default(), free);
        let excess = self.tree.as_ref().and_then(|tree| tree.exceeded(&count?));
        excess.or_else(|| self.reserve.is_taken(free, size?).then_some(QuotaExcess::FileSystem))
    }

    /// The exceeded limit after the run, when nothing changes any more: a changing tree can hide entries from
    /// a count.
    pub(crate) fn exceeded_at_end(&self) -> Option<QuotaExcess> {
        let tree = self.tree.as_ref()?;
        tree.exceeded(&self.count_tree(None)?)
    }

    /// The limit of the tree that the guest with this process id exceeds, whatever the schedule.
    pub(crate) fn exceeded_now(
        &mut self,
        guest: i32,
        max_tasks: u64,
        elapsed: Duration,
    ) -> Option<QuotaExcess> {
        self.free = rustix::fs::fstatvfs(&self.root).map_or(self.free, |stat| TreeSize::free(&stat));
        let count = self.own_use(&Descendants::of(guest, max_tasks), elapsed)?;
        self.tree.as_ref()?.exceeded(&count)
    }

    /// What the run stores now: its tree, files without a name, and what it hides.
    fn own_use(&mut self, guest: &Descendants, elapsed: Duration) -> Option<TreeCount> {
        let count = self.count_tree(self.run_end)?;
        let may_hide = self.unseen.may_hide(self.free.bytes);
        let held = HeldBytes::of(guest, &self.root, self.device, may_hide.then_some(self.max_file_bytes));
        let listed = count.bytes.saturating_add(held.measured);
        let unseen = self.unseen.charge(elapsed, listed, held.unmeasured, || written_bytes(guest));
        Some(TreeCount { bytes: listed.saturating_add(unseen), ..count })
    }

    fn count_tree(&self, end: Option<Instant>) -> Option<TreeCount> {
        let max = self.tree.as_ref().map_or(UNLIMITED, TreeLimit::max);
        count_tree_until(&self.root, max.entries, end).ok()
    }
}
