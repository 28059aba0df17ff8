//! The private directory of a lenient run: made before, removed after, whatever a hostile guest left in it.
//!
//! Owns: removal that never follows a link, never recurses, and holds two descriptors at most. A directory inside
//! the private one is not descended into: its own directories are moved up next to it, and then it is removed.
//! The guest is dead by then, so nothing races with the removal.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::Error;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The start of every private directory's name; process id and a number follow.
const PREFIX: &str = "nanoclaw-run-";
const PRIVATE: Mode = Mode::RWXU;
/// The longest run of name collisions with what a guest left: more can only be our own mistake.
const MAX_COLLISIONS: u32 = 1_000_000;

/// A directory of one run's own. Removed when dropped, at the latest.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    removed: bool,
}

impl Scratch {
    /// Makes one below `parent`, for this user alone.
    pub(crate) fn make(parent: &Path) -> Result<Self, Error> {
        let fail = |source: Errno| Error::MakeScratch { path: parent.to_owned(), source: source.into() };
        let parent =
            parent.canonicalize().map_err(|source| Error::MakeScratch { path: parent.to_owned(), source })?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match rustix::fs::mkdir(&path, PRIVATE) {
                Ok(()) => return Ok(Self { path, removed: false }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with everything in it.
    pub(crate) fn remove(mut self) -> Result<(), Error> {
        self.removed = true;
        remove_tree(&self.path)
            .map_err(|source| Error::RemoveScratch { path: self.path.clone(), source: source.into() })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.removed {
            // A run that failed half-way has its own error to report; the directory is the lesser matter.
            remove_tree(&self.path).ok();
        }
    }
}

/// Removes what runs of dead servers left below `parent` (a `kill -9` leaves no time to clean up).
pub(crate) fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw)
        else {
            continue;
        };
        if rustix::process::test_kill_process(owner) == Err(Errno::SRCH) {
            // Another user's, or being swept by another server: not ours to worry about.
            remove_tree(&entry.path()).ok();
        }
    }
}

fn remove_tree(path: &Path) -> rustix::io::Result<()> {
    let root = open_directory(rustix::fs::CWD, &to_cstring(path)?)?;
    let mut moved = 0;
    loop {
        let names = names_in(&root)?;
        if names.is_empty() {
            break;
        }
        for (name, kind) in names {
            if kind == FileType::Directory {
                remove_directory(root.as_fd(), &name, &mut moved)?;
            } else {
                unlink(root.as_fd(), &name)?;
            }
        }
    }
    rustix::fs::unlinkat(rustix::fs::CWD, path, AtFlags::REMOVEDIR)
}

/// Empties one directory of `root` — files go, directories move up into `root` — and removes it.
fn remove_directory(root: BorrowedFd<'_>, name: &CStr, moved: &mut u64) -> rustix::io::Result<()> {
    let directory = open_directory(root, name)?;
    for (inner, kind) in names_in(&directory)? {
        if kind == FileType::Directory {
            move_up(directory.as_fd(), &inner, root, moved)?;
        } else {
            unlink(directory.as_fd(), &inner)?;
        }
    }
    drop(directory);
    rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR)
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
            // Without write permission on the directory itself its `..` cannot change.
            Err(Errno::ACCESS) => rustix::fs::chmodat(from, name, PRIVATE, AtFlags::empty())?,
            Err(Errno::PERM) => soften(from, name)?,
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

/// Opens a directory that a guest may have made unreadable. Links are never followed.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, PRIVATE, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        other => other,
    }
}

fn unlink(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::PERM) => {
            soften(directory, name)?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        Err(Errno::ACCESS) => {
            rustix::fs::fchmod(directory, PRIVATE)?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        other => other,
    }
}

/// Takes the immutable and append-only bits from a directory's entry and from the directory.
fn soften(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    clear_flags(directory)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let entry = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    clear_flags(entry.as_fd())
}

fn clear_flags(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let flags = ioctl_getflags(descriptor)?;
    let hard = IFlags::IMMUTABLE | IFlags::APPEND;
    if flags.intersects(hard) { ioctl_setflags(descriptor, flags - hard) } else { Ok(()) }
}

fn names_in(directory: &OwnedFd) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
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
    }
    Ok(names)
}

fn to_cstring(path: &Path) -> rustix::io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|_: std::ffi::NulError| Errno::INVAL)
}

/// Checks a directory that the caller gives instead of a private one.
pub(crate) fn check_workdir(path: &Path) -> Result<PathBuf, Error> {
    let bad = |reason: String| Error::BadWorkdir { path: path.to_owned(), reason };
    let real = path.canonicalize().map_err(|error: io::Error| bad(error.to_string()))?;
    if !real.is_dir() {
        return Err(bad("it is not a directory".to_owned()));
    }
    if real.parent().is_none() {
        return Err(bad("it is the root directory".to_owned()));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a chain of directories without ever naming a long path.
    fn dig(root: &Path, depth: u32) {
        let mut here = open_directory(rustix::fs::CWD, &to_cstring(root).unwrap()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&here, c"d", PRIVATE).unwrap();
            here = open_directory(here.as_fd(), c"d").unwrap();
        }
    }

    #[test]
    fn a_deep_tree_with_links_and_hostile_names_goes_away() {
        let home = tempfile::tempdir().unwrap();
        let outside = home.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("keep"), "kept").unwrap();
        let scratch = Scratch::make(home.path()).unwrap();
        let root = scratch.path().to_owned();
        dig(&root, 5_000);
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::fs::create_dir_all(root.join(".moved-1/x/y")).unwrap();
        std::fs::create_dir_all(root.join("d2/.moved-3/z")).unwrap();
        std::fs::write(root.join("d2/file"), "x").unwrap();
        rustix::fs::chmod(root.join("d2/.moved-3"), Mode::empty()).unwrap();
        scratch.remove().unwrap();
        assert!(!root.exists());
        assert_eq!(std::fs::read_to_string(outside.join("keep")).unwrap(), "kept");
    }

    #[test]
    fn a_dropped_directory_is_removed_too() {
        let home = tempfile::tempdir().unwrap();
        let path = Scratch::make(home.path()).unwrap().path().to_owned();
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_server_s_directory_is_swept_and_a_live_one_s_kept() {
        let home = tempfile::tempdir().unwrap();
        let live = Scratch::make(home.path()).unwrap();
        let dead = home.path().join(format!("{PREFIX}{}-0", i32::MAX));
        std::fs::create_dir_all(dead.join("x")).unwrap();
        sweep(home.path());
        assert!(live.path().exists() && !dead.exists());
    }

    #[test]
    fn the_root_is_no_workdir() {
        assert!(check_workdir(Path::new("/")).is_err());
        assert!(check_workdir(Path::new("/dev/null")).is_err());
    }
}
