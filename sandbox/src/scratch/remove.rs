//! Removes a tree that a hostile guest left, a part at a time.
//!
//! The removal follows no link, even if a guest lives on and exchanges names. It does not recurse, and holds
//! at most two descriptors and a thousand names. The directories inside a directory are moved up to the root
//! of the tree, then the directory is removed. Entries that cannot be removed are skipped, and the first
//! error is returned.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::clock::now;
use crate::tree::make_accessible;

const PRIVATE: Mode = Mode::RWXU;
/// Maximal name collisions with entries of the guest. More would be a programming error.
const MAX_COLLISIONS: u32 = 1_000_000;
/// Names in memory at once: a directory may have millions.
const NAMES_AT_ONCE: usize = 1_024;
/// Skipped entries of one directory before the rest of it is given up.
const MAX_STUCK: usize = 1_024;

type NamedEntry = (CString, FileType);

/// Removes a directory with its contents, at once. Returns the first error if entries stay.
pub(crate) fn remove_tree(path: &Path) -> rustix::io::Result<()> {
    TreeRemoval::new(path.to_owned()).remove_for(Duration::MAX).map(drop)
}

/// Whether a part of a tree is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalProgress {
    Done,
    /// The time is over.
    Unfinished,
}

/// The removal of a directory with its contents.
#[derive(Debug)]
pub(crate) struct TreeRemoval {
    path: PathBuf,
    /// Keeps other servers from removing it, too.
    held: Option<OwnedFd>,
    /// Directories that were moved up so far.
    moved: u64,
    /// The end of the present turn; `None`: it has none.
    turn_end: Option<Instant>,
    /// Whether the last turn has removed or moved anything.
    has_progressed: bool,
}

impl TreeRemoval {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self::holding(path, None)
    }

    /// Of a directory that this server holds until the removal ends.
    pub(crate) fn holding(path: PathBuf, held: Option<OwnedFd>) -> Self {
        Self { path, held, moved: 0, turn_end: None, has_progressed: true }
    }

    /// Whether another server may remove it, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.held.is_none()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes for about this time, or until the end if the last turn was spent on entries that stay. Returns
    /// the first error if entries stay.
    pub(crate) fn remove_for(&mut self, turn: Duration) -> rustix::io::Result<RemovalProgress> {
        let turn = if std::mem::take(&mut self.has_progressed) { turn } else { Duration::MAX };
        self.turn_end = now().checked_add(turn);
        let root = open_directory(rustix::fs::CWD, &to_cstring(&self.path)?)?;
        let progress = self.for_each_entry(&root, |removal, (name, kind)| {
            if *kind == FileType::Directory {
                removal.remove_directory(root.as_fd(), name)
            } else {
                unlink(root.as_fd(), name)
            }
        });
        finish(progress, rustix::fs::CWD, &to_cstring(&self.path)?)
    }

    /// Removes one directory of `root`: deletes its files and moves its directories up into `root`.
    fn remove_directory(&mut self, root: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<RemovalProgress> {
        let directory = open_directory(root, name)?;
        let progress = self.for_each_entry(&directory, |removal, (inner, kind)| {
            if *kind == FileType::Directory {
                move_up(directory.as_fd(), inner, root, &mut removal.moved)
            } else {
                unlink(directory.as_fd(), inner)
            }
        });
        drop(directory);
        finish(progress, root, name)
    }

    /// Calls `remove_entry` until no entry is left or the turn is over, for a bounded number of names at a
    /// time. An entry that stays is skipped from then on. Returns the first error.
    fn for_each_entry(
        &mut self,
        directory: &OwnedFd,
        mut remove_entry: impl FnMut(&mut Self, &NamedEntry) -> rustix::io::Result<RemovalProgress>,
    ) -> rustix::io::Result<RemovalProgress> {
        let mut stuck: HashSet<CString> = HashSet::new();
        let mut first_error = Ok(RemovalProgress::Done);
        loop {
            let names = names_in(directory, &stuck)?;
            if names.is_empty() || stuck.len() > MAX_STUCK {
                return first_error;
            }
            for entry in names {
                if self.turn_end.is_some_and(|end| now() >= end) {
                    return Ok(RemovalProgress::Unfinished);
                }
                match remove_entry(self, &entry) {
                    Ok(RemovalProgress::Done) => self.has_progressed = true,
                    Ok(RemovalProgress::Unfinished) => return Ok(RemovalProgress::Unfinished),
                    Err(error) => {
                        first_error = first_error.and(Err(error));
                        stuck.insert(entry.0);
                    }
                }
            }
        }
    }
}

/// Removes the directory itself once it is empty.
fn finish(
    progress: rustix::io::Result<RemovalProgress>,
    parent: BorrowedFd<'_>,
    name: &CStr,
) -> rustix::io::Result<RemovalProgress> {
    if progress == Ok(RemovalProgress::Unfinished) {
        return progress;
    }
    progress.and(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map(|()| RemovalProgress::Done))
}

fn move_up(
    from: BorrowedFd<'_>,
    name: &CStr,
    root: BorrowedFd<'_>,
    moved: &mut u64,
) -> rustix::io::Result<RemovalProgress> {
    for _ in 0..MAX_COLLISIONS {
        *moved += 1;
        let target = CString::new(format!(".moved-{moved}")).map_err(|_| Errno::INVAL)?;
        match rustix::fs::renameat_with(from, name, root, &target, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            // Moving a directory changes its `..`, which needs write permission on it.
            Err(Errno::ACCESS) => make_accessible(&open_path(from, name)?)?,
            Err(Errno::PERM) => clear_immutable(from, name)?,
            other => return other.map(|()| RemovalProgress::Done),
        }
    }
    Err(Errno::EXIST)
}

/// Opens a directory and makes it accessible again if the guest has changed its mode. Follows no link.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            make_accessible(&open_path(parent, name)?)?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        other => other,
    }?;
    // Removing entries needs write and search permission, too. If this fails, removing the entries reports
    // it.
    rustix::fs::fchmod(&opened, PRIVATE).ok();
    Ok(opened)
}

/// Opens a directory whatever its mode is. Follows no link.
fn open_path(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn unlink(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<RemovalProgress> {
    let removed = match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::PERM) => {
            clear_immutable(directory, name)?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        Err(Errno::ACCESS) => {
            rustix::fs::fchmod(directory, PRIVATE)?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        other => other,
    };
    removed.map(|()| RemovalProgress::Done)
}

/// Clears the immutable and append-only flags of a directory and of one entry.
fn clear_immutable(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    clear_flags(directory)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let entry = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    clear_flags(entry.as_fd())
}

fn clear_flags(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let flags = ioctl_getflags(descriptor)?;
    let protected = IFlags::IMMUTABLE | IFlags::APPEND;
    if flags.intersects(protected) { ioctl_setflags(descriptor, flags - protected) } else { Ok(()) }
}

/// Some names of a directory, without the skipped ones.
fn names_in(directory: &OwnedFd, stuck: &HashSet<CString>) -> rustix::io::Result<Vec<NamedEntry>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." || stuck.contains(name) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        names.push((name.to_owned(), kind));
        if names.len() == NAMES_AT_ONCE {
            break;
        }
    }
    Ok(names)
}

fn to_cstring(path: &Path) -> rustix::io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|_: std::ffi::NulError| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Runs as a user whom permissions bind: `nobody` when the tests run as root. The ids change in this
    /// thread alone.
    fn as_a_plain_user(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let nobody = rustix::process::Uid::from_raw(65_534);
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                }
                work();
            });
        });
    }

    /// Makes a chain of directories without ever naming a long path.
    fn make_deep_tree(root: &Path, depth: u32) {
        let mut here = open_directory(rustix::fs::CWD, &to_cstring(root).unwrap()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&here, c"d", PRIVATE).unwrap();
            here = open_directory(here.as_fd(), c"d").unwrap();
        }
    }

    #[test]
    fn the_repair_of_modes_follows_no_link() {
        as_a_plain_user(|| {
            let home = tempfile::tempdir().unwrap();
            let [from, root, outside] = ["from", "root", "outside"].map(|name| home.path().join(name));
            for path in [&from, &root, &outside] {
                std::fs::create_dir(path).unwrap();
            }
            std::os::unix::fs::symlink(&outside, from.join("d")).unwrap();
            let [from, root] = [&from, &root].map(|path| File::open(path).unwrap());
            let locked = Mode::RUSR | Mode::XUSR;
            rustix::fs::chmod(&outside, locked).unwrap();
            rustix::fs::fchmod(&from, locked).unwrap();
            // A guest that lives has put a link in the place of the directory that was listed.
            assert!(move_up(from.as_fd(), c"d", root.as_fd(), &mut 0).is_err());
            let mode = rustix::fs::stat(&outside).unwrap().st_mode;
            assert_eq!(Mode::from_raw_mode(mode), locked, "the mode of what the link leads to has changed");
            rustix::fs::fchmod(&from, PRIVATE).unwrap();
            rustix::fs::chmod(&outside, PRIVATE).unwrap();
        });
    }

    #[test]
    fn a_deep_tree_with_links_and_hostile_names_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let outside = home.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("keep"), "kept").unwrap();
        let root = home.path().join("tree");
        std::fs::create_dir(&root).unwrap();
        make_deep_tree(&root, 5_000);
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::fs::create_dir_all(root.join(".moved-1/x/y")).unwrap();
        std::fs::create_dir_all(root.join("d2/.moved-3/z")).unwrap();
        std::fs::write(root.join("d2/file"), "x").unwrap();
        rustix::fs::chmod(root.join("d2/.moved-3"), Mode::empty()).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists());
        assert_eq!(std::fs::read_to_string(outside.join("keep")).unwrap(), "kept");
    }

    #[test]
    fn an_unprivileged_user_removes_directories_of_every_mode() {
        as_a_plain_user(|| {
            let home = tempfile::tempdir().unwrap();
            for mode in (0..0o1000).step_by(0o20) {
                let root = home.path().join(format!("{mode:o}"));
                std::fs::create_dir_all(root.join("a/b/c")).unwrap();
                std::fs::write(root.join("a/b/c/file"), "x").unwrap();
                for inner in ["a/b/c", "a/b", "a"] {
                    rustix::fs::chmod(root.join(inner), Mode::from_raw_mode(mode)).unwrap();
                }
                rustix::fs::mkdir(root.join("m"), Mode::from_raw_mode(mode)).unwrap();
                remove_tree(&root).unwrap_or_else(|error| panic!("mode {mode:o}: {error}"));
                assert!(!root.exists());
            }
        });
    }

    #[test]
    fn entries_that_cannot_be_removed_do_not_stop_the_removal_of_others() {
        as_a_plain_user(|| {
            let home = tempfile::tempdir().unwrap();
            let root = home.path().join("tree");
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            for number in 0..3_000 {
                std::fs::write(root.join(format!("a/{number}")), "").unwrap();
            }
            let mut taken = 0;
            let directory = open_directory(rustix::fs::CWD, &to_cstring(&root.join("a")).unwrap()).unwrap();
            let mut removal = TreeRemoval::new(root);
            let outcome = removal.for_each_entry(&directory, |_, (name, kind)| {
                if *kind == FileType::Directory || name.to_bytes().starts_with(b"1") {
                    return Err(Errno::BUSY);
                }
                taken += 1;
                unlink(directory.as_fd(), name)
            });
            assert_eq!(outcome, Err(Errno::BUSY));
            assert!(taken > 1_500, "{taken}");
        });
    }
}
