//! Errors of opening the store, and how errors of redb become errors of the port.
//!
//! The writer distinguishes two kinds. After `Io` and `Full`, redb refuses writes until the file is reopened.
//! After `Corrupt`, only one value could not be written or read. `Recovering` is what redb answers between
//! the error and the reopening.

use crate::ports::StoreError;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why the store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has locked the file.
    #[error("cannot open store '{path}': {} has it open", process(*.holder))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The id of the process, if the kernel tells.
        holder: Option<u32>,
    },
    /// A newer build wrote the file; this one would damage it.
    #[error("cannot open store '{path}': its schema is version {found}, this build knows up to {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u64,
        /// Newest version that this build reads.
        known: u64,
    },
    /// An older build wrote the file, and only a server changes its layout.
    #[error("cannot read store '{path}': an older version has written it")]
    Older {
        /// The file.
        path: PathBuf,
    },
    /// An older build wrote the file; its layout is not changed without a copy.
    #[error(
        "cannot copy store '{path}' before its migration: {source}; make room or check the directory, then start again"
    )]
    NoCopy {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system refused the file.
    #[error("cannot open store '{path}': {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no store, or recovery failed.
    #[error("cannot open store '{path}': {reason}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl OpenError {
    /// The file is locked; looks for the process.
    pub(crate) fn locked(path: PathBuf) -> Self {
        let holder = lock_holder(&path);
        Self::Locked { path, holder }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Locked { .. } => {
                "a server runs over this directory: stop it first, or to back it up name it with --server"
            }
            Self::Newer { .. } => {
                "use the version that has written it, or restore a backup from before: nanoclaw restore FILE"
            }
            Self::Older { .. } => "start the server once over this file (nanoclaw serve), and stop it again",
            Self::NoCopy { source, .. } | Self::Io { source, .. } => {
                file_advice(source).unwrap_or("see: nanoclaw doctor, and the log of the kernel (dmesg)")
            }
            Self::Unusable { .. } => DAMAGED_ADVICE,
        }
    }
}

const DAMAGED_ADVICE: &str =
    "restore a backup (nanoclaw restore FILE), or move the file away and start with --new-store";

/// What to do about an error of the file system, if its kind tells.
pub fn file_advice(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run this as the user that owns it, or give it to this user (chown)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: free some space on it"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the disk is mounted read-only; after an error the kernel does that: see dmesg"
        }
        io::ErrorKind::NotFound => {
            "mount its disk, or restore a backup (nanoclaw restore FILE); serve --new-store starts with an empty one"
        }
        io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory => DAMAGED_ADVICE,
        _ => return None,
    })
}

fn process(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

/// The process that holds a lock on the file, from `/proc/locks`.
fn lock_holder(path: &Path) -> Option<u32> {
    let (locks, file) = (std::fs::read_to_string("/proc/locks").ok()?, path.metadata().ok()?);
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let holder = words.next()?.parse().ok()?;
        (words.next()? == place && holder > 0).then_some(holder)
    })
}

impl From<redb::StorageError> for StoreError {
    fn from(error: redb::StorageError) -> Self {
        match error {
            redb::StorageError::Corrupted(_) | redb::StorageError::ValueTooLarge(_) => {
                Self::Corrupt(error.to_string())
            }
            redb::StorageError::Io(error) => error.into(),
            // The writer has met an I/O error and is about to reopen the file.
            redb::StorageError::PreviousIo => Self::Recovering,
            other => Self::Io(other.to_string()),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error.to_string()),
        }
    }
}

impl From<redb::DatabaseError> for StoreError {
    fn from(error: redb::DatabaseError) -> Self {
        match error {
            redb::DatabaseError::Storage(redb::StorageError::Io(error)) => error.into(),
            other => Self::Io(other.to_string()),
        }
    }
}

impl From<redb::TableError> for StoreError {
    fn from(error: redb::TableError) -> Self {
        match error {
            redb::TableError::Storage(storage) => storage.into(),
            other => Self::Corrupt(other.to_string()),
        }
    }
}

impl From<redb::TransactionError> for StoreError {
    fn from(error: redb::TransactionError) -> Self {
        match error {
            redb::TransactionError::Storage(
                error @ (redb::StorageError::Io(_) | redb::StorageError::PreviousIo),
            ) => error.into(),
            other => Self::Io(other.to_string()),
        }
    }
}

impl From<redb::CommitError> for StoreError {
    fn from(error: redb::CommitError) -> Self {
        match error {
            // redb has rolled back and accepts the next transaction. After any other error it does not.
            redb::CommitError::TransactionPoisoned => Self::Corrupt(error.to_string()),
            redb::CommitError::Storage(redb::StorageError::Io(error)) => error.into(),
            other => Self::Io(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_error_is_recognized_by_its_kind_in_every_wrapper() {
        let full = || redb::StorageError::Io(io::Error::from_raw_os_error(28));
        let quota = || redb::StorageError::Io(io::ErrorKind::QuotaExceeded.into());
        for error in [full, quota] {
            assert_eq!(StoreError::from(error()), StoreError::Full);
            assert_eq!(StoreError::from(redb::TableError::Storage(error())), StoreError::Full);
            assert_eq!(StoreError::from(redb::TransactionError::Storage(error())), StoreError::Full);
            assert_eq!(StoreError::from(redb::CommitError::Storage(error())), StoreError::Full);
            assert_eq!(StoreError::from(redb::DatabaseError::Storage(error())), StoreError::Full);
        }
        let other = redb::CommitError::Storage(redb::StorageError::Io(io::Error::other("disk full?")));
        assert!(matches!(StoreError::from(other), StoreError::Io(_)), "words prove nothing");
    }

    #[test]
    fn a_read_between_an_error_of_the_writer_and_the_reopening_finds_a_recovering_store() {
        let previous = || redb::StorageError::PreviousIo;
        assert_eq!(StoreError::from(previous()), StoreError::Recovering);
        assert_eq!(StoreError::from(redb::TableError::Storage(previous())), StoreError::Recovering);
        assert_eq!(StoreError::from(redb::TransactionError::Storage(previous())), StoreError::Recovering);
    }
}
