//! What can go wrong at the door, and how redb's errors read to callers. Owns both; refuses to retry anything.
//!
//! The writer tells two kinds apart: `Io` means that redb takes no more writes until the file is reopened, `Corrupt`
//! that one value could not be written or read and everything else goes on.

use crate::ports::StoreError;
use std::io;
use std::path::PathBuf;

/// Why the store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the file.
    #[error("cannot open store '{path}': another process has it open")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A newer build wrote the file; this one would damage it.
    #[error("cannot open store '{path}': its schema is version {found}, this build knows up to {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// What the file says.
        found: u64,
        /// What this build knows.
        known: u64,
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

impl From<redb::StorageError> for StoreError {
    fn from(error: redb::StorageError) -> Self {
        match error {
            redb::StorageError::Corrupted(_) | redb::StorageError::ValueTooLarge(_) => {
                Self::Corrupt(error.to_string())
            }
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
        Self::Io(error.to_string())
    }
}

impl From<redb::CommitError> for StoreError {
    fn from(error: redb::CommitError) -> Self {
        match error {
            // Rolled back, and redb takes the next transaction; after any other error it does not.
            redb::CommitError::TransactionPoisoned => Self::Corrupt(error.to_string()),
            other => Self::Io(other.to_string()),
        }
    }
}
