//! The own directories of a command, and the files beneath them.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::caller::PATH_ONLY;
use crate::policy::PathRule;

/// How often a file is looked for that is moved meanwhile.
const ATTEMPTS: usize = 16;
/// What the kernel appends to the path of a file without a name.
const DELETED: &[u8] = b" (deleted)";

/// The directories that a command may write to.
#[derive(Debug)]
pub(crate) struct OwnDirs(Vec<OwnedFd>);

/// A file beneath an own directory, opened without following links.
#[derive(Debug)]
pub(super) struct OwnFile {
    pub(super) file: OwnedFd,
    pub(super) stat: Stat,
}

impl OwnDirs {
    /// Opens the own directories among these rules.
    pub(crate) fn open(rules: &[PathRule]) -> rustix::io::Result<Self> {
        let own = rules.iter().filter(|rule| rule.access.is_own()).map(|rule| rule.path.as_path());
        let open = |path: &Path| rustix::fs::open(path, PATH_ONLY | OFlags::DIRECTORY, Mode::empty());
        own.map(open).collect::<rustix::io::Result<_>>().map(Self)
    }

    /// Opens a file again beneath an own directory: EPERM for every other file.
    ///
    /// The path is only a hint. It counts that the kernel finds the same file under it, beneath the
    /// directory, on the same mount, without links.
    pub(super) fn reopen(&self, file: &OwnedFd) -> Result<OwnFile, Errno> {
        let stat = rustix::fs::fstat(file)?;
        for _ in 0..ATTEMPTS {
            let path = path_of(file.as_fd())?;
            let mut is_inside = false;
            for directory in &self.0 {
                let root = path_of(directory.as_fd())?;
                let Some(below) = below(path.to_bytes(), root.to_bytes()) else { continue };
                is_inside = true;
                if let Some(found) = reopen_below(directory, below, &stat)? {
                    return Ok(found);
                }
                // A file that lost its last name has no path any more: no name leads to it.
                if stat.st_nlink == 0 && path.to_bytes().ends_with(DELETED) {
                    return Ok(OwnFile { file: file.try_clone().map_err(|_| Errno::MFILE)?, stat });
                }
            }
            if !is_inside {
                return Err(Errno::PERM);
            }
        }
        Err(Errno::PERM)
    }
}

/// The file at a path beneath a directory if it is the wanted one.
fn reopen_below(directory: &OwnedFd, below: &[u8], wanted: &Stat) -> Result<Option<OwnFile>, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let flags = PATH_ONLY | OFlags::NOFOLLOW;
    let file = match rustix::fs::openat2(directory, below, flags, Mode::empty(), resolve) {
        Ok(file) => file,
        // Moved, or replaced by a link.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN) => return Ok(None),
        Err(Errno::XDEV) => return Err(Errno::PERM),
        Err(error) => return Err(error),
    };
    let stat = rustix::fs::fstat(&file)?;
    let is_same = (stat.st_dev, stat.st_ino) == (wanted.st_dev, wanted.st_ino);
    Ok(is_same.then_some(OwnFile { file, stat }))
}

/// The present path of an open file.
fn path_of(file: BorrowedFd<'_>) -> Result<CString, Errno> {
    rustix::fs::readlink(own_link(file), Vec::new())
}

/// The link to a descriptor of this process.
pub(super) fn own_link(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The part of a path below a directory; `.` for the directory itself.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(directory)? {
        [] => Some(b"."),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PathAccess;

    fn own_dirs(path: &Path) -> OwnDirs {
        OwnDirs::open(&[PathRule { path: path.to_owned(), access: PathAccess::OwnTree }]).unwrap()
    }

    fn named(path: &Path) -> OwnedFd {
        rustix::fs::open(path, PATH_ONLY, Mode::empty()).unwrap()
    }

    #[test]
    fn only_files_beneath_an_own_directory_are_reopened() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        std::fs::create_dir_all(own.join("sub")).unwrap();
        std::fs::create_dir(home.path().join("own-sibling")).unwrap();
        std::fs::write(own.join("sub/file (deleted)"), "").unwrap();
        std::fs::write(home.path().join("outside"), "").unwrap();
        std::os::unix::fs::symlink(home.path().join("outside"), own.join("link")).unwrap();
        let dirs = own_dirs(&own);
        for inside in [own.clone(), own.join("sub"), own.join("sub/file (deleted)")] {
            assert!(dirs.reopen(&named(&inside)).is_ok(), "{}", inside.display());
        }
        for outside in [home.path(), &home.path().join("own-sibling"), &own.join("link"), Path::new("/")] {
            assert_eq!(dirs.reopen(&named(outside)).unwrap_err(), Errno::PERM, "{}", outside.display());
        }
    }

    #[test]
    fn a_moved_or_deleted_file_is_found_and_an_own_directory_may_move() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("a"), "").unwrap();
        std::fs::write(home.path().join("b"), "").unwrap();
        let dirs = own_dirs(&own);
        let (file, other) = (named(&own.join("a")), named(&home.path().join("b")));
        std::fs::rename(&own, home.path().join("moved")).unwrap();
        assert!(dirs.reopen(&file).is_ok());
        std::fs::remove_file(home.path().join("moved/a")).unwrap();
        std::fs::remove_file(home.path().join("b")).unwrap();
        assert!(dirs.reopen(&file).is_ok());
        assert_eq!(dirs.reopen(&other).unwrap_err(), Errno::PERM);
    }
}
