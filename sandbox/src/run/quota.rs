//! Limits what a running guest stores in its directory.
//!
//! The count of the tree follows no link, never leaves the tree, and enters directories that the guest made
//! unreadable. Files without a name are not in the tree: the free space of the file system limits those.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatVfs, StatxFlags};
use rustix::io::Errno;

use crate::clock::now;
use crate::limits::RunLimits;
use crate::program::{ExceededLimit, WorkdirLimit};

/// The minimal time between two checks.
const PAUSE: Duration = Duration::from_millis(50);
/// Counting may take at most one part in this number of a run's time: after a long count the next one is
/// delayed.
const COUNT_SHARE: u32 = 10;
/// Longer paths inside the tree are opened in several steps.
const MAX_PATH_BYTES: usize = 1_024;
/// Descriptors that one count may hold. A deeper tree counts as too many entries.
const MAX_ANCHORS: usize = 128;
/// Free space and free inodes that a run must leave, unless less was free at its start.
const FLOOR_BYTES: u64 = 256 * 1024 * 1024;
const FLOOR_INODES: u64 = 1_000;

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
    root: Rc<OwnedFd>,
    /// The limit of the tree; `None` for a directory that the caller counts itself.
    tree: Option<TreeLimit>,
    at_start: StatVfs,
    /// The limits of all runs that may run at once.
    all_runs: TreeUsage,
    next_check: Duration,
    next_count: Duration,
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

    fn max_entries(&self) -> u64 {
        match self {
            Self::Private { entries, .. } => *entries,
            Self::Workdir(limit) => limit.max_entries(),
        }
    }

    fn exceeded(&self, now: TreeUsage) -> Option<QuotaExcess> {
        match self {
            Self::Private { entries, .. } if now.entries > *entries => Some(QuotaExcess::Entries),
            Self::Private { bytes, .. } => (now.bytes > *bytes).then_some(QuotaExcess::Bytes),
            Self::Workdir(limit) => limit.check(now.bytes, now.entries).map(QuotaExcess::Workdir),
        }
    }
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TreeUsage {
    bytes: u64,
    entries: u64,
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
        let runs = u64::try_from(max_parallel).unwrap_or(u64::MAX);
        let max = TreeUsage { bytes: limits.own_directory_bytes, entries: limits.own_directory_entries };
        Ok(Self {
            at_start: rustix::fs::fstatvfs(&root)?,
            root: Rc::new(root),
            tree,
            all_runs: TreeUsage {
                bytes: max.bytes.saturating_mul(runs),
                entries: max.entries.saturating_mul(runs),
            },
            next_check: PAUSE,
            next_count: PAUSE,
        })
    }

    /// The exceeded limit, if it is time for a check. The file system is checked often, the tree as often as
    /// it is cheap.
    pub(crate) fn exceeded(&mut self, elapsed: Duration) -> Option<QuotaExcess> {
        if elapsed < self.next_check {
            return None;
        }
        self.next_check = elapsed + PAUSE;
        if let Some(excess) = self.check_file_system() {
            return Some(excess);
        }
        if elapsed < self.next_count {
            return None;
        }
        let start = now();
        let excess = self.count_tree();
        self.next_count = elapsed + start.elapsed() * COUNT_SHARE + PAUSE;
        excess
    }

    /// The exceeded limit after the run, when nothing changes any more: a changing tree can hide entries from
    /// a count.
    pub(crate) fn exceeded_at_end(&self) -> Option<QuotaExcess> {
        self.count_tree()
    }

    fn check_file_system(&self) -> Option<QuotaExcess> {
        let now = rustix::fs::fstatvfs(&self.root).ok()?;
        exceeds_file_system(&self.at_start, &now, self.all_runs).then_some(QuotaExcess::FileSystem)
    }

    fn count_tree(&self) -> Option<QuotaExcess> {
        let limit = self.tree.as_ref()?;
        limit.exceeded(count(&self.root, limit.max_entries()))
    }
}

fn exceeds_file_system(start: &StatVfs, now: &StatVfs, all_runs: TreeUsage) -> bool {
    let free = |stat: &StatVfs| stat.f_bavail.saturating_mul(stat.f_frsize);
    let (before, left) = (free(start), free(now));
    let fell_below = |before: u64, left: u64, floor: u64| left < before && left < floor.min(before / 2);
    before.saturating_sub(left) > all_runs.bytes
        || start.f_favail.saturating_sub(now.f_favail) > all_runs.entries
        || fell_below(before, left, FLOOR_BYTES)
        || fell_below(start.f_favail, now.f_favail, FLOOR_INODES)
}

/// Counts a tree; stops once it has more than `max_entries`.
fn count(root: &Rc<OwnedFd>, max_entries: u64) -> TreeUsage {
    let mut count = TreeUsage::default();
    let mut anchors = 0;
    let mut pending: Vec<(Rc<OwnedFd>, CString)> = vec![(Rc::clone(root), c".".to_owned())];
    while let Some((anchor, path)) = pending.pop() {
        // Removed or moved since it was listed: the next count finds it at its new place.
        let Ok(directory) = open_inside(&anchor, &path) else { continue };
        let restart = path.to_bytes().len() > MAX_PATH_BYTES;
        anchors += usize::from(restart);
        let directory = Rc::new(directory);
        let (anchor, prefix) =
            if restart { (Rc::clone(&directory), c".".to_owned()) } else { (anchor, path) };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Some(is_directory) = add(&mut count, &directory, name, entry.file_type()) else { continue };
            if is_directory {
                pending.extend(join(&prefix, name).map(|path| (Rc::clone(&anchor), path)));
            }
            if count.entries > max_entries {
                return count;
            }
        }
        if anchors > MAX_ANCHORS {
            count.entries = u64::MAX;
            return count;
        }
    }
    count
}

/// Adds one entry. Returns whether it is a directory; `None` if it is gone.
fn add(count: &mut TreeUsage, directory: &OwnedFd, name: &CStr, kind: FileType) -> Option<bool> {
    count.entries += 1;
    if kind == FileType::Directory {
        return Some(true);
    }
    let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::BLOCKS;
    let stat = rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    // A file with several names counts once.
    let names = u64::from(stat.stx_nlink).max(1);
    count.bytes = count.bytes.saturating_add(stat.stx_blocks.saturating_mul(512) / names);
    Some(FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory)
}

fn join(prefix: &CStr, name: &CStr) -> Option<CString> {
    let parts: [&[u8]; 2] = [prefix.to_bytes(), name.to_bytes()];
    CString::new(parts.join(&b'/')).ok()
}

/// Opens a directory of the tree while the guest may move it. Follows no link and never leaves the tree.
fn open_inside(anchor: &OwnedFd, path: &CStr) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |flags: OFlags| {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(anchor.as_fd(), path, flags, Mode::empty(), resolve)
    };
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            // The guest made it unreadable. The O_PATH descriptor names this directory even if the path
            // changes now.
            let directory = open(OFlags::PATH)?;
            let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
            rustix::fs::chmod(OsStr::from_bytes(itself.as_bytes()), Mode::RWXU)?;
            open(OFlags::RDONLY)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(root: &Path, max_entries: u64) -> TreeUsage {
        let root = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        count(&Rc::new(root), max_entries)
    }

    #[test]
    fn the_quota_counts_every_entry_and_follows_no_symlink() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("a/b")).unwrap();
        std::fs::write(home.path().join("a/b/file"), vec![1; 1 << 20]).unwrap();
        std::fs::hard_link(home.path().join("a/b/file"), home.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", home.path().join("out")).unwrap();
        let count = counted(home.path(), 1_000);
        assert_eq!(count.entries, 5);
        assert!((1 << 20..1 << 21).contains(&count.bytes), "{count:?}");
        assert_eq!(counted(home.path(), 2).entries, 3, "it stops early");
    }

    #[test]
    fn a_deep_tree_is_counted_completely() {
        let home = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut here = rustix::fs::open(home.path(), flags, Mode::empty()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&here, c"dd", Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, c"dd", flags, Mode::empty()).unwrap();
        }
        rustix::fs::mkdirat(&here, c"last", Mode::RWXU).unwrap();
        assert_eq!(counted(home.path(), 10_000).entries, 3_001);
        assert_eq!(crate::scratch::remove_tree(&home.path().join("dd")), Ok(()));
    }

    #[test]
    fn a_run_ends_if_the_file_system_loses_space_or_is_nearly_full() {
        let home = tempfile::tempdir().unwrap();
        let like = rustix::fs::statvfs(home.path()).unwrap();
        let of = |free: u64, inodes: u64| StatVfs { f_frsize: 1, f_bavail: free, f_favail: inodes, ..like };
        let start = of(10 << 30, 100_000);
        let max = TreeUsage { bytes: 2 << 30, entries: 20_000 };
        let any = TreeUsage { bytes: u64::MAX, entries: u64::MAX };
        assert!(!exceeds_file_system(&start, &of(9 << 30, 90_000), max));
        assert!(exceeds_file_system(&start, &of(7 << 30, 90_000), max));
        assert!(exceeds_file_system(&start, &of(9 << 30, 70_000), max));
        assert!(exceeds_file_system(&start, &of(200 << 20, 90_000), any));
        assert!(exceeds_file_system(&start, &of(9 << 30, 900), any));
        let full = of(10 << 20, 100);
        assert!(!exceeds_file_system(&full, &of(9 << 20, 90), any), "little to begin with is no fault");
    }
}
