//! Removes a tree that a hostile guest left. The guest is dead, so nothing changes the tree meanwhile.
//!
//! The removal follows no link, does not recurse, and holds at most two descriptors and a thousand names. The
//! directories inside a directory are moved up to the root of the tree, then the directory is removed.
//! Entries that cannot be removed are skipped, and the first error is returned.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

const PRIVATE: Mode = Mode::RWXU;
/// Maximal name collisions with entries of the guest. More would be a programming error.
const MAX_COLLISIONS: u32 = 1_000_000;
/// Names in memory at once: a directory may have millions.
const NAMES_AT_ONCE: usize = 1_024;
/// Skipped entries of one directory before the rest of it is given up.
const MAX_STUCK: usize = 1_024;

type NamedEntry = (CString, FileType);

/// Removes a directory with its contents. Returns the first error if entries stay.
pub(crate) fn remove_tree(path: &Path) -> rustix::io::Result<()> {
    let root = open_directory(rustix::fs::CWD, &to_cstring(path)?)?;
    let mut moved = 0;
    let removal = for_each_entry(&root, |(name, kind)| {
        if *kind == FileType::Directory {
            remove_directory(root.as_fd(), name, &mut moved)
        } else {
            unlink(root.as_fd(), name)
        }
    });
    removal.and(rustix::fs::unlinkat(rustix::fs::CWD, path, AtFlags::REMOVEDIR))
}

/// Removes one directory of `root`: deletes its files and moves its directories up into `root`.
fn remove_directory(root: BorrowedFd<'_>, name: &CStr, moved: &mut u64) -> rustix::io::Result<()> {
    let directory = open_directory(root, name)?;
    let removal = for_each_entry(&directory, |(inner, kind)| {
        if *kind == FileType::Directory {
            move_up(directory.as_fd(), inner, root, moved)
        } else {
            unlink(directory.as_fd(), inner)
        }
    });
    drop(directory);
    removal.and(rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR))
}

/// Calls `remove_entry` until no entry is left, for a bounded number of names at a time. An entry that stays
/// is skipped from then on. Returns the first error.
fn for_each_entry(
    directory: &OwnedFd,
    mut remove_entry: impl FnMut(&NamedEntry) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mut stuck: HashSet<CString> = HashSet::new();
    let mut first_error = Ok(());
    loop {
        let names = names_in(directory, &stuck)?;
        if names.is_empty() || stuck.len() > MAX_STUCK {
            return first_error;
        }
        for entry in names {
            if let Err(error) = remove_entry(&entry) {
                first_error = first_error.and(Err(error));
                stuck.insert(entry.0);
            }
        }
    }
}

fn move_up(
    from: BorrowedFd<'_>,
    name: &CStr,
    root: BorrowedFd<'_>,
    moved: &mut u64,
) -> rustix::io::Result<()> {
    for _ in 0..MAX_COLLISIONS {
        *moved += 1;
        let target = CString::new(format!(".moved-{moved}")).map_err(|_| Errno::INVAL)?;
        match rustix::fs::renameat_with(from, name, root, &target, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            // Moving a directory changes its `..`, which needs write permission on it.
            Err(Errno::ACCESS) => rustix::fs::chmodat(from, name, PRIVATE, AtFlags::empty())?,
            Err(Errno::PERM) => clear_immutable(from, name)?,
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

/// Opens a directory and makes it accessible again if the guest has changed its mode. Follows no link.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, PRIVATE, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        other => other,
    }?;
    // Removing entries needs write and search permission, too. If this fails, removing the entries reports
    // it.
    rustix::fs::fchmod(&opened, PRIVATE).ok();
    Ok(opened)
}

fn unlink(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::PERM) => {
            clear_immutable(directory, name)?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        Err(Errno::ACCESS) => {
            rustix::fs::fchmod(directory, PRIVATE)?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        other => other,
    }
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
            let outcome = for_each_entry(&directory, |(name, kind)| {
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
