//! Translates errors of system calls for clients.

use crate::ports::FileError;
use rustix::io::Errno;

/// The error for a failed operation on the path that the client knows as `shown`.
pub(super) fn file_error(error: Errno, shown: &str) -> FileError {
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

/// The same for an error of the standard library.
pub(super) fn io_error(error: &std::io::Error, shown: &str) -> FileError {
    match Errno::from_io_error(error) {
        Some(errno) => file_error(errno, shown),
        None => FileError::Io(error.to_string()),
    }
}
