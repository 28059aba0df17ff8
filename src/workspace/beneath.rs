//! Opens paths beneath a directory descriptor: no links, no `..`, no magic links, no other mount.
//!
//! Commands of jobs may swap any file at any moment. The kernel resolves the complete path at once, and every
//! later check uses the descriptor, so there is no gap between check and use.

use super::errors::file_error;
use crate::ports::FileError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Resolution flags of every path.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Attempts of a resolution that a concurrent change disturbs.
const TRIES: u32 = 64;

/// Mode of directories. Commands of jobs run with the same effective user, so both sides can use each
/// other's files.
pub(super) const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Mode of files; see [`DIRECTORY_MODE`].
pub(super) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens a path; a link is refused.
pub(super) fn open<P: Arg + Copy>(at: impl AsFd, path: P, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        match rustix::fs::openat2(at.as_fd(), path, flags, Mode::empty(), RESOLVE) {
            // A concurrent rename made the resolution uncertain.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::BUSY)
}

/// Opens a directory.
pub(super) fn open_directory<P: Arg + Copy>(at: impl AsFd, path: P) -> rustix::io::Result<OwnedFd> {
    open(at, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a regular file for reading and returns its size. Never blocks on a pipe.
pub(super) fn open_file(at: impl AsFd, path: &str) -> Result<(File, u64), FileError> {
    let fail = |error| file_error(error, path);
    let opened = open(at, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(fail)?;
    let stat = rustix::fs::fstat(&opened).map_err(fail)?;
    match kind(&stat) {
        FileType::RegularFile => Ok((File::from(opened), size(&stat))),
        FileType::Directory => Err(fail(Errno::ISDIR)),
        _ => Err(fail(Errno::NXIO)),
    }
}

/// Opens a directory, creating missing ones. `count` is called for each missing directory before the first is
/// created.
pub(super) fn provide_directory(
    at: impl AsFd,
    path: &str,
    count: &mut dyn FnMut() -> Result<(), FileError>,
) -> Result<OwnedFd, FileError> {
    let fail = |error| file_error(error, path);
    let mut directory = open_directory(at.as_fd(), ".").map_err(fail)?;
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.peek() {
        match open_directory(&directory, *segment) {
            Err(Errno::NOENT) => break,
            other => directory = other.map_err(fail)?,
        }
        segments.next();
    }
    // Reserve all first: if the quota lacks room for the last one, none is created.
    segments.clone().try_for_each(|_| count())?;
    for segment in segments {
        directory = make_and_open(&directory, segment).map_err(fail)?;
    }
    Ok(directory)
}

/// Creates the directory above the users' directories, unless it exists; the disk has it when this returns.
pub(super) fn make_root(root: &Path) -> std::io::Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    let mode = DIRECTORY_MODE.as_raw_mode();
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(root)?;
    for above in root.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        sync_names(File::open(above)?)?;
    }
    Ok(())
}

/// Flushes the names in a directory to the disk. A file system that cannot do this for directories keeps them
/// in its own way.
pub(super) fn sync_names(directory: impl AsFd) -> rustix::io::Result<()> {
    match rustix::fs::fsync(directory) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}

/// Creates a directory, unless it exists, and opens it. A new one is on the disk before this returns.
pub(super) fn make_and_open(at: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match rustix::fs::mkdirat(at.as_fd(), name, DIRECTORY_MODE) {
            Ok(()) => sync_names(at.as_fd())?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        match open_directory(at.as_fd(), name) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
    }
    Err(Errno::BUSY)
}

/// Restores the owner's rights on a directory; other file types are left alone.
pub(super) fn unlock<P: Arg + Copy>(at: impl AsFd, name: P) -> rustix::io::Result<()> {
    let descriptor = open(at, name, OFlags::PATH | OFlags::DIRECTORY)?;
    // The descriptor refers to this directory, even if the name now refers to another file.
    rustix::fs::chmod(own_path(&descriptor), DIRECTORY_MODE)
}

/// Moves an entry to a name that does not exist; fails with `EXIST` if it does.
pub(super) fn rename_new<P: Arg + Copy, T: Arg + Copy>(
    (from, name): (impl AsFd, P),
    (to, target): (impl AsFd, T),
) -> rustix::io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    match rustix::fs::renameat_with(from, name, to, target, RenameFlags::NOREPLACE) {
        // Network file systems cannot. A directory that is moved into itself fails again.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_checked((from, name), (to, target)),
        other => other,
    }
}

/// The same in two steps. Between them another program may make a directory of this name, which stays unless
/// it is empty.
pub(super) fn rename_checked<P: Arg + Copy, T: Arg + Copy>(
    (from, name): (impl AsFd, P),
    (to, target): (impl AsFd, T),
) -> rustix::io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    if kind(&stat_at(from, name)?) == FileType::RegularFile {
        match rustix::fs::linkat(from, name, to, target, AtFlags::empty()) {
            Ok(()) => return rustix::fs::unlinkat(from, name, AtFlags::empty()),
            // No hard links here.
            Err(Errno::PERM | Errno::NOTSUP | Errno::MLINK) => {}
            Err(error) => return Err(error),
        }
    }
    match stat_at(to, target) {
        Err(Errno::NOENT) => rustix::fs::renameat(from, name, to, target),
        Ok(_) => Err(Errno::EXIST),
        Err(error) => Err(error),
    }
}

/// A path of the descriptor, for calls that take no descriptor.
pub(super) fn own_path(descriptor: impl AsFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

/// Status of a name; links are not followed.
pub(super) fn stat_at<P: Arg>(at: impl AsFd, name: P) -> rustix::io::Result<Stat> {
    rustix::fs::statat(at.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
}

/// File type.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Size, bytes.
pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
