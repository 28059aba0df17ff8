//! Counts a directory tree while others may change it.
//!
//! The count follows no link, never leaves the tree, and gives its owner access to a directory that cannot be
//! listed or searched. Files without a name are not in the tree: `run::held_files` counts those.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::clock::now;

/// Longer paths inside the tree are opened in several steps.
const MAX_PATH_BYTES: usize = 1_024;
/// Descriptors that one count may hold. A deeper tree is not counted completely.
const MAX_ANCHORS: usize = 128;
/// The unit of a file's blocks, and the largest part of the last block that a file leaves unused.
pub(crate) const BLOCK_BYTES: u64 = 512;
const MAX_UNUSED_BYTES: u64 = 4_095;

/// What a directory tree holds, without its root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeCount {
    /// Names of regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Links, pipes and sockets.
    pub others: u64,
    /// Bytes of all regular files: their sizes, or their disk blocks where those hold more. A file with
    /// several names counts once.
    pub bytes: u64,
    /// The tree has more entries than wanted, or is too deep: the numbers are too low.
    pub is_cut: bool,
}

impl TreeCount {
    /// Files, directories and others.
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.others
    }
}

/// Counts the tree below `root`. Stops as soon as it has more than `max_entries`.
pub fn count_tree(root: impl AsFd, max_entries: u64) -> io::Result<TreeCount> {
    count_tree_until(root, max_entries, None)
}

/// The same, with an error if it takes until `end`.
pub(crate) fn count_tree_until(
    root: impl AsFd,
    max_entries: u64,
    end: Option<Instant>,
) -> io::Result<TreeCount> {
    let root = Rc::new(open_inside(root.as_fd(), c".")?);
    let mut counter = TreeCounter {
        count: TreeCount::default(),
        max_entries,
        end,
        shared_files: HashSet::new(),
        pending: Vec::new(),
    };
    let mut anchors = 0;
    counter.enter(&root, &TreePosition { anchor: Rc::clone(&root), path: c".".to_owned() });
    while !counter.count.is_cut {
        let Some(TreePosition { anchor, path }) = counter.pending.pop() else { break };
        // Removed or moved since it was listed: the next count finds it at its new place.
        let Ok(directory) = open_inside(anchor.as_fd(), &path) else { continue };
        let directory = Rc::new(directory);
        let is_long = path.to_bytes().len() > MAX_PATH_BYTES;
        let position = if is_long {
            TreePosition { anchor: Rc::clone(&directory), path: c".".to_owned() }
        } else {
            TreePosition { anchor, path }
        };
        anchors += usize::from(is_long);
        counter.count.is_cut = anchors > MAX_ANCHORS;
        counter.enter(&directory, &position);
    }
    if counter.is_late() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(counter.count) }
}

/// A directory: a path below an open one.
struct TreePosition {
    anchor: Rc<OwnedFd>,
    path: CString,
}

struct TreeCounter {
    count: TreeCount,
    max_entries: u64,
    end: Option<Instant>,
    /// Files with several names that were counted: device and number.
    shared_files: HashSet<(u32, u32, u64)>,
    pending: Vec<TreePosition>,
}

impl TreeCounter {
    fn is_late(&self) -> bool {
        self.end.is_some_and(|end| now() >= end)
    }

    fn enter(&mut self, directory: &OwnedFd, position: &TreePosition) {
        let Ok(entries) = Dir::read_from(directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let is_directory = self.add(directory, name, entry.file_type());
            if self.count.entries() > self.max_entries || self.is_late() {
                self.count.is_cut = true;
                return;
            }
            let parts: [&[u8]; 2] = [position.path.to_bytes(), name.to_bytes()];
            if let (true, Ok(path)) = (is_directory, CString::new(parts.join(&b'/'))) {
                self.pending.push(TreePosition { anchor: Rc::clone(&position.anchor), path });
            }
        }
    }

    /// Counts one entry. Returns whether it is a directory.
    fn add(&mut self, directory: &OwnedFd, name: &CStr, listed: FileType) -> bool {
        let (kind, bytes) = match listed {
            FileType::RegularFile | FileType::Unknown => {
                let wanted = StatxFlags::BASIC_STATS;
                let stat = || rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted);
                match with_access(directory.as_fd(), stat) {
                    Ok(stat) => (FileType::from_raw_mode(stat.stx_mode.into()), self.bytes(&stat)),
                    // Removed since it was listed.
                    Err(_) => return false,
                }
            }
            other => (other, 0),
        };
        match kind {
            FileType::Directory => self.count.directories += 1,
            FileType::RegularFile => {
                self.count.files += 1;
                self.count.bytes = self.count.bytes.saturating_add(bytes);
            }
            _ => self.count.others += 1,
        }
        kind == FileType::Directory
    }

    /// What a file stores; nothing if it was counted under another name.
    fn bytes(&mut self, stat: &Statx) -> u64 {
        let file = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        if stat.stx_nlink > 1 && !self.shared_files.insert(file) {
            return 0;
        }
        // Blocks may be reserved beyond the end of a file.
        let blocks = stat.stx_blocks.saturating_mul(BLOCK_BYTES);
        stat.stx_size.max(blocks.saturating_sub(MAX_UNUSED_BYTES))
    }
}

/// Opens a directory of the tree while others may move it. Follows no link and never leaves the tree.
fn open_inside(anchor: impl AsFd, path: &CStr) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |flags: OFlags| {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(anchor.as_fd(), path, flags, Mode::empty(), resolve)
    };
    let inside = || match open(OFlags::RDONLY) {
        // It was made unreadable. The O_PATH descriptor names this directory even if the path changes now.
        Err(Errno::ACCESS) => {
            open(OFlags::PATH).and_then(|directory| with_access(directory.as_fd(), || open(OFlags::RDONLY)))
        }
        other => other,
    };
    match (path.to_bytes().iter().rposition(|byte| *byte == b'/'), inside()) {
        (Some(end), Err(Errno::ACCESS)) => {
            let (parent, name) = path.to_bytes().split_at(end);
            let parent = open_inside(anchor.as_fd(), &CString::new(parent).unwrap_or_default())?;
            open_inside(parent, &CString::new(name.get(1..).unwrap_or_default()).unwrap_or_default())
        }
        (None, Err(Errno::ACCESS)) => with_access(anchor.as_fd(), inside),
        (_, other) => other,
    }
}

/// Uses a directory; once more, with all rights of its owner, if a right is missing.
fn with_access<T>(
    directory: BorrowedFd<'_>,
    work: impl Fn() -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    work().or_else(|error| {
        if error != Errno::ACCESS {
            return Err(error);
        }
        make_accessible(directory)?;
        work()
    })
}

/// Gives the owner every right on a directory that is open, if only by `O_PATH`. No name is looked up again:
/// it might lead elsewhere by now.
pub(crate) fn make_accessible(directory: impl AsFd) -> rustix::io::Result<()> {
    let directory = directory.as_fd();
    let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode) | Mode::RWXU;
    rustix::fs::chmod(OsStr::from_bytes(itself.as_bytes()), mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    #[test]
    fn p8_a_count_ends_with_its_time() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("a/b/c")).unwrap();
        let root = std::fs::File::open(home.path()).unwrap();
        let late = count_tree_until(&root, u64::MAX, Some(now())).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let in_time =
            count_tree_until(&root, u64::MAX, now().checked_add(std::time::Duration::from_secs(600)));
        assert_eq!(in_time.unwrap().directories, 3);
    }

    fn counted(root: &Path, max_entries: u64) -> TreeCount {
        let root = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        count_tree(&root, max_entries).unwrap()
    }

    #[test]
    fn every_entry_counts_and_no_symlink_is_followed() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("a/b")).unwrap();
        std::fs::write(home.path().join("a/b/file"), vec![1; 1_000_000]).unwrap();
        std::fs::write(home.path().join("small"), "12345").unwrap();
        symlink("/usr", home.path().join("out")).unwrap();
        let all = TreeCount { files: 2, directories: 2, others: 1, bytes: 1_000_005, is_cut: false };
        assert_eq!(counted(home.path(), 5), all);
        let cut = counted(home.path(), 2);
        assert_eq!((cut.entries(), cut.is_cut), (3, true), "it stops early");
    }

    #[test]
    fn a_file_with_several_names_counts_its_bytes_once() {
        let home = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("file"), vec![1; 1_000]).unwrap();
        std::fs::hard_link(home.path().join("file"), home.path().join("again")).unwrap();
        std::fs::hard_link(home.path().join("file"), outside.path().join("kept")).unwrap();
        let count = counted(home.path(), 100);
        assert_eq!((count.files, count.bytes), (2, 1_000));
    }

    #[test]
    fn space_reserved_beyond_the_end_of_a_file_counts() {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("file")).unwrap();
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        // Not every file system can do this.
        if rustix::fs::fallocate(&file, flags, 0, 1 << 20).is_ok() {
            assert!((1_000_000..1_100_000).contains(&counted(home.path(), 100).bytes));
        }
    }

    #[test]
    fn a_directory_without_rights_is_counted() {
        for mode in [0o300, 0o400, 0o000] {
            for is_root in [false, true] {
                let home = tempfile::tempdir().unwrap();
                let root = home.path().join("root");
                std::fs::create_dir_all(root.join("hidden/only directories")).unwrap();
                std::fs::write(root.join("hidden/only directories/file"), "x").unwrap();
                let hidden = if is_root { root.clone() } else { root.join("hidden") };
                let opened =
                    rustix::fs::open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
                std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(mode)).unwrap();
                let count = count_tree(&opened, 100).unwrap();
                assert_eq!((count.entries(), count.bytes), (3, 1), "{mode:o}, {is_root}");
            }
        }
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
        assert_eq!(counted(home.path(), 10_000).entries(), 3_001);
        assert_eq!(crate::scratch::remove_tree(&home.path().join("dd")), Ok(()));
    }
}
