//! Makes a change to a file of a command.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;

use super::change::AttributeChange;
use super::own_dirs::{OwnFile, own_link};
use crate::policy::LISTABLE_MODE;

/// The set-id bits and the sticky bit.
const SPECIAL_BITS: u32 = 0o7_000;
const ALL_BITS: u32 = 0o7_777;
/// The id that keeps an owner.
const UNCHANGED: u32 = u32::MAX;

/// Changes a file. Only files, directories and links have attributes that a command may change. A directory
/// silently keeps the rights to list and search it, as the kernel keeps set-id bits away: a server without
/// privileges could not count what it holds.
pub(super) fn apply(file: &OwnFile, change: AttributeChange) -> Result<(), Errno> {
    let kind = FileType::from_raw_mode(file.stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
        return Err(Errno::PERM);
    }
    match change {
        AttributeChange::Mode(_) if kind == FileType::Symlink => Err(Errno::OPNOTSUPP),
        AttributeChange::Mode(mode) => {
            // A directory keeps the bits that it inherited from its parent.
            let kept = if kind == FileType::Directory { file.stat.st_mode & SPECIAL_BITS } else { 0 };
            if mode & SPECIAL_BITS & !kept != 0 {
                return Err(Errno::PERM);
            }
            let listable = if kind == FileType::Directory { file.stat.st_mode & LISTABLE_MODE } else { 0 };
            let mode = mode | listable;
            let mode = Mode::from_raw_mode(mode & ALL_BITS);
            // Older kernels change the mode of such a descriptor only through its link.
            rustix::fs::chmodat(CWD, own_link(file.file.as_fd()), mode, AtFlags::empty())
        }
        AttributeChange::Times(times) => rustix::fs::utimensat(&file.file, c"", &times, AtFlags::EMPTY_PATH),
        AttributeChange::Owner { user, group } => {
            let keeps = |id, present| id == UNCHANGED || id == present;
            let changes_nothing = keeps(user, file.stat.st_uid) && keeps(group, file.stat.st_gid);
            if changes_nothing { Ok(()) } else { Err(Errno::PERM) }
        }
    }
}
