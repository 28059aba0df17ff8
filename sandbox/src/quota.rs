//! How much a running guest has put into its private directory, and when that is too much.
//!
//! Owns: the bounded count of a tree that its owner is changing, and the floor under the file system's free space.
//! The count follows no link, leaves the tree nowhere, and sees into directories that the guest made unreadable.
//! What has no name any more is not in the tree: the file system's own figures bound that.

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

/// The least time between two counts.
const PAUSE: Duration = Duration::from_millis(50);
/// A count may take one part in so many of a run's time: after a long one the next comes late.
const COUNT_SHARE: u32 = 10;
/// Paths inside the tree are opened in pieces no longer than this.
const LONGEST_PATH: usize = 1_024;
/// Descriptors that one count may hold. Deeper than these reach no program goes: it counts as too many entries.
const MAX_ANCHORS: usize = 128;
/// Free space and free inodes that a run may not use up, unless there was little to begin with.
const FLOOR_BYTES: u64 = 256 * 1024 * 1024;
const FLOOR_INODES: u64 = 1_000;

/// Which bound was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// `own_directory_bytes`.
    Bytes,
    /// `own_directory_entries`.
    Entries,
    /// The file system itself lost more than all runs together may use, or is nearly full.
    FileSystem,
}

/// One run's directory and what it may hold.
pub(crate) struct Quota {
    root: Rc<OwnedFd>,
    /// What the tree may hold; none for a directory that is the caller's, with who knows what in it.
    tree: Option<Count>,
    at_start: StatVfs,
    /// What all runs that may run at once can use together.
    all_runs: Count,
    next_look: Duration,
    next_count: Duration,
}

/// What one count found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    bytes: u64,
    entries: u64,
}

impl Quota {
    /// Of the directory at `root`, for a sandbox with so many runs at once. Only a private one is counted.
    pub(crate) fn new(
        root: &Path,
        is_private: bool,
        limits: &RunLimits,
        max_parallel: usize,
    ) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let runs = u64::try_from(max_parallel).unwrap_or(u64::MAX);
        let most = Count { bytes: limits.own_directory_bytes, entries: limits.own_directory_entries };
        Ok(Self {
            at_start: rustix::fs::fstatvfs(&root)?,
            root: Rc::new(root),
            tree: is_private.then_some(most),
            all_runs: Count {
                bytes: most.bytes.saturating_mul(runs),
                entries: most.entries.saturating_mul(runs),
            },
            next_look: PAUSE,
            next_count: PAUSE,
        })
    }

    /// What is passed, if it is time to look again. The file system is asked often, the tree as often as it is cheap.
    pub(crate) fn exceeded(&mut self, elapsed: Duration) -> Option<Excess> {
        if elapsed < self.next_look {
            return None;
        }
        self.next_look = elapsed + PAUSE;
        if let Some(excess) = self.look_at_file_system() {
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

    /// What is passed at the end, when nothing moves any more: a tree that changes can hide from a count.
    pub(crate) fn exceeded_at_end(&self) -> Option<Excess> {
        self.count_tree()
    }

    fn look_at_file_system(&self) -> Option<Excess> {
        let now = rustix::fs::fstatvfs(&self.root).ok()?;
        file_system_suffers(&self.at_start, &now, self.all_runs).then_some(Excess::FileSystem)
    }

    fn count_tree(&self) -> Option<Excess> {
        let most = self.tree?;
        let count = count(&self.root, most.entries);
        if count.entries > most.entries {
            Some(Excess::Entries)
        } else {
            (count.bytes > most.bytes).then_some(Excess::Bytes)
        }
    }
}

fn file_system_suffers(start: &StatVfs, now: &StatVfs, all_runs: Count) -> bool {
    let free = |stat: &StatVfs| stat.f_bavail.saturating_mul(stat.f_frsize);
    let (before, left) = (free(start), free(now));
    let fell_below = |before: u64, left: u64, floor: u64| left < before && left < floor.min(before / 2);
    before.saturating_sub(left) > all_runs.bytes
        || start.f_favail.saturating_sub(now.f_favail) > all_runs.entries
        || fell_below(before, left, FLOOR_BYTES)
        || fell_below(start.f_favail, now.f_favail, FLOOR_INODES)
}

/// Counts a tree; ends early once it has more than `most` entries.
fn count(root: &Rc<OwnedFd>, most: u64) -> Count {
    let mut count = Count::default();
    let mut anchors = 0;
    let mut pending: Vec<(Rc<OwnedFd>, CString)> = vec![(Rc::clone(root), c".".to_owned())];
    while let Some((anchor, path)) = pending.pop() {
        // Gone or moved since it was seen: the next count finds it where it is then.
        let Ok(directory) = open_inside(&anchor, &path) else { continue };
        let restart = path.to_bytes().len() > LONGEST_PATH;
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
            if count.entries > most {
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

/// Adds one entry; says whether it is a directory, nothing if it is gone.
fn add(count: &mut Count, directory: &OwnedFd, name: &CStr, kind: FileType) -> Option<bool> {
    count.entries += 1;
    if kind == FileType::Directory {
        return Some(true);
    }
    let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::BLOCKS;
    let stat = rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    // A file with many names is one file.
    let names = u64::from(stat.stx_nlink).max(1);
    count.bytes = count.bytes.saturating_add(stat.stx_blocks.saturating_mul(512) / names);
    Some(FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory)
}

fn join(prefix: &CStr, name: &CStr) -> Option<CString> {
    let parts: [&[u8]; 2] = [prefix.to_bytes(), name.to_bytes()];
    CString::new(parts.join(&b'/')).ok()
}

/// Opens a directory of the tree while its owner may be moving it: no link is followed, no step leads out.
fn open_inside(anchor: &OwnedFd, path: &CStr) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |flags: OFlags| {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(anchor.as_fd(), path, flags, Mode::empty(), resolve)
    };
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            // Made unreadable. The bare descriptor names this very directory, whatever stands at the path by now.
            let bare = open(OFlags::PATH)?;
            let itself = format!("/proc/self/fd/{}", bare.as_raw_fd());
            rustix::fs::chmod(OsStr::from_bytes(itself.as_bytes()), Mode::RWXU)?;
            open(OFlags::RDONLY)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(root: &Path, most: u64) -> Count {
        let root = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        count(&Rc::new(root), most)
    }

    #[test]
    fn files_links_and_directories_count_and_links_are_not_followed() {
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
    fn depth_hides_nothing() {
        let home = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut here = rustix::fs::open(home.path(), flags, Mode::empty()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&here, c"dd", Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, c"dd", flags, Mode::empty()).unwrap();
        }
        rustix::fs::mkdirat(&here, c"last", Mode::RWXU).unwrap();
        assert_eq!(counted(home.path(), 10_000).entries, 3_001);
        assert_eq!(crate::scratch::remove_now(&home.path().join("dd")), Ok(()));
    }

    #[test]
    fn a_file_system_that_lost_much_or_is_nearly_full_ends_the_run() {
        let home = tempfile::tempdir().unwrap();
        let like = rustix::fs::statvfs(home.path()).unwrap();
        let of = |free: u64, inodes: u64| StatVfs { f_frsize: 1, f_bavail: free, f_favail: inodes, ..like };
        let start = of(10 << 30, 100_000);
        let most = Count { bytes: 2 << 30, entries: 20_000 };
        let any = Count { bytes: u64::MAX, entries: u64::MAX };
        assert!(!file_system_suffers(&start, &of(9 << 30, 90_000), most));
        assert!(file_system_suffers(&start, &of(7 << 30, 90_000), most));
        assert!(file_system_suffers(&start, &of(9 << 30, 70_000), most));
        assert!(file_system_suffers(&start, &of(200 << 20, 90_000), any));
        assert!(file_system_suffers(&start, &of(9 << 30, 900), any));
        let full = of(10 << 20, 100);
        assert!(!file_system_suffers(&full, &of(9 << 20, 90), any), "little to begin with is no fault");
    }
}
