//! What the kernel's refusals mean to a client. Owns the words; refuses to retry.

use crate::ports::FileError;
use rustix::io::Errno;

/// The refusal of an act on what the client calls `shown`.
pub(super) fn refused(error: Errno, shown: &str) -> FileError {
    let kind = |what: &str| FileError::WrongKind(format!("'{shown}' {what}"));
    match error {
        Errno::NOENT => FileError::NotFound(shown.to_owned()),
        Errno::EXIST | Errno::NOTEMPTY => FileError::Exists(shown.to_owned()),
        Errno::LOOP => kind("is a symbolic link, or lies behind one; links are not followed"),
        Errno::NOTDIR => kind("is no directory, or lies below what is none"),
        Errno::ISDIR => kind("is a directory"),
        Errno::XDEV => kind("lies on another file system"),
        Errno::NXIO | Errno::NODEV => kind("is neither a file nor a directory"),
        Errno::ACCESS | Errno::PERM => kind("is closed by its permissions"),
        Errno::TXTBSY | Errno::BUSY => kind("is in use"),
        Errno::NAMETOOLONG => FileError::BadPath("the path is too long".to_owned()),
        Errno::NOSPC | Errno::DQUOT => FileError::Full,
        other => FileError::Io(other.to_string()),
    }
}

/// The same of an error of the standard library.
pub(super) fn refused_io(error: &std::io::Error, shown: &str) -> FileError {
    match Errno::from_io_error(error) {
        Some(errno) => refused(errno, shown),
        None => FileError::Io(error.to_string()),
    }
}
