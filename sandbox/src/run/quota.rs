//! Limits what a running guest stores in its directory.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::count_schedule::{CountSchedule, TreeSize};
use crate::clock::now;
use crate::limits::RunLimits;
use crate::program::{ExceededLimit, WorkdirLimit};
use crate::tree::{TreeCount, count_tree};

/// Free space and free inodes that a run must leave, unless less was free at its start.
const FLOOR_BYTES: u64 = 256 * 1024 * 1024;
const FLOOR_INODES: u64 = 1_000;
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
    /// The file system lost more space than all runs together may use, or is nearly full.
    FileSystem,
}

/// The directory of one run and its limits.
pub(crate) struct DirectoryQuota {
    root: OwnedFd,
    /// The limit of the tree; `None` for a directory that the caller counts itself.
    tree: Option<TreeLimit>,
    /// What the file system had free at the start of the run.
    free_at_start: TreeSize,
    /// The limits of all runs that may run at once.
    all_runs: TreeSize,
    schedule: CountSchedule,
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
    /// For the directory at `root`. It is counted if it has a limit; the file system is checked always.
    pub(crate) fn new(
        root: &Path,
        tree: Option<TreeLimit>,
        limits: &RunLimits,
        max_parallel: usize,
    ) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let max = TreeSize { bytes: limits.own_directory_bytes, entries: limits.own_directory_entries };
        let free_at_start = TreeSize::free(&rustix::fs::fstatvfs(&root)?);
        let counted = tree.as_ref().map_or(UNLIMITED, TreeLimit::max);
        Ok(Self {
            root,
            tree,
            free_at_start,
            all_runs: max.times(u64::try_from(max_parallel).unwrap_or(u64::MAX)),
            schedule: CountSchedule::new(counted, free_at_start),
        })
    }

    /// The time until the next check.
    pub(crate) fn pause(&self, elapsed: Duration) -> Duration {
        self.schedule.pause(elapsed)
    }

    /// The exceeded limit, if it is time for a check.
    pub(crate) fn exceeded(&mut self, elapsed: Duration) -> Option<QuotaExcess> {
        if !self.pause(elapsed).is_zero() {
            return None;
        }
        let free = rustix::fs::fstatvfs(&self.root).map_or(self.free_at_start, |stat| TreeSize::free(&stat));
        if exceeds_file_system(self.free_at_start, free, self.all_runs) {
            return Some(QuotaExcess::FileSystem);
        }
        if !self.schedule.is_due(elapsed, free) {
            return None;
        }
        let start = now();
        let count = self.count_tree();
        let size = count
            .map_or(TreeSize::default(), |count| TreeSize { bytes: count.bytes, entries: count.entries() });
        self.schedule.record(elapsed, start.elapsed(), size, free);
        self.tree.as_ref()?.exceeded(&count?)
    }

    /// The exceeded limit after the run, when nothing changes any more: a changing tree can hide entries from
    /// a count.
    pub(crate) fn exceeded_at_end(&self) -> Option<QuotaExcess> {
        self.tree.as_ref()?.exceeded(&self.count_tree()?)
    }

    fn count_tree(&self) -> Option<TreeCount> {
        count_tree(&self.root, self.tree.as_ref()?.max().entries).ok()
    }
}

fn exceeds_file_system(before: TreeSize, left: TreeSize, all_runs: TreeSize) -> bool {
    let lost = before.minus(left);
    let fell_below = |before: u64, left: u64, floor: u64| left < before && left < floor.min(before / 2);
    lost.bytes > all_runs.bytes
        || lost.entries > all_runs.entries
        || fell_below(before.bytes, left.bytes, FLOOR_BYTES)
        || fell_below(before.entries, left.entries, FLOOR_INODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_if_the_file_system_loses_space_or_is_nearly_full() {
        let of = |bytes: u64, entries: u64| TreeSize { bytes, entries };
        let start = of(10 << 30, 100_000);
        let max = of(2 << 30, 20_000);
        assert!(!exceeds_file_system(start, of(9 << 30, 90_000), max));
        assert!(exceeds_file_system(start, of(7 << 30, 90_000), max));
        assert!(exceeds_file_system(start, of(9 << 30, 70_000), max));
        assert!(exceeds_file_system(start, of(200 << 20, 90_000), UNLIMITED));
        assert!(exceeds_file_system(start, of(9 << 30, 900), UNLIMITED));
        let full = of(10 << 20, 100);
        assert!(!exceeds_file_system(full, of(9 << 20, 90), UNLIMITED), "little to begin with is no fault");
    }
}
