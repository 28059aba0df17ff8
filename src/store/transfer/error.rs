//! Why rows cannot move.

use crate::ports::StoreError;
use crate::store::postgres::DatabaseError;
use crate::store::postgres::PoolError;
use crate::store::redb::OpenError;
use std::io;
use std::path::PathBuf;

/// Why a migration, a backup or a check of a database failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The file cannot be opened.
    #[error(transparent)]
    File(#[from] OpenError),
    /// The database cannot be read or filled.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A row cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no store.
    #[error("there is no store at '{}'", .0.display())]
    NoFile(PathBuf),
    /// Rows move between a file and a database only.
    #[error("one of both stores has to be a file, and the other one a database")]
    SameKind,
    /// There is a store where the new one would be.
    #[error("'{}' is there already", .0.display())]
    Exists(PathBuf),
    /// The unfinished file is of another migration.
    #[error("'{}' is a part of another migration ({source_name}), or its source has changed since", path.display())]
    OtherPart {
        /// The file.
        path: PathBuf,
        /// Its source.
        source_name: String,
    },
    /// A file cannot be written.
    #[error("cannot write '{}': {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl TransferError {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::File(OpenError::Locked { .. }) => "a server runs over this file: stop it first",
            Self::File(error) => error.advice(),
            Self::Database(error) => error.advice(),
            Self::Store(StoreError::Corrupt(_)) => "nanoclaw check names all rows that cannot be read",
            Self::Store(StoreError::Full) => {
                "make room, and run the same command again: it continues where it stopped"
            }
            Self::Store(_) => "run the same command again: it continues where it stopped",
            Self::NoFile(_) => "name its directory with --data-dir",
            Self::SameKind => {
                "copy a file with: nanoclaw backup; copy a database with its own tools, for example pg_dump"
            }
            Self::Exists(_) => "name another file, or move this one away",
            Self::OtherPart { .. } => "remove this file, and begin again",
            Self::Io { .. } => "name a file in a directory that you may write to",
        }
    }
}

impl From<PoolError> for TransferError {
    fn from(error: PoolError) -> Self {
        Self::Database(error.into())
    }
}
