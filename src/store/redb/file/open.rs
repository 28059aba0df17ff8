//! Opens the database; a file that another process has locked is tried again for a while.

use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::medium::Medium;
use redb::{Database, DatabaseError};
use std::path::Path;
use std::time::Duration;

/// How often a locked file is tried, and the pause between two tries.
pub(crate) const LOCK_TRIES: u32 = 20;
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Opens the file; one that is locked is tried again for a while. When a predecessor is killed while it
/// starts a program, the program inherits the lock until its exec.
pub(crate) fn open_with_retry(medium: &dyn Medium, cache_bytes: usize) -> Result<Database, DatabaseError> {
    medium.drop_unsynced()?;
    let mut tries = LOCK_TRIES;
    loop {
        match medium.open(cache_bytes) {
            Err(DatabaseError::DatabaseAlreadyOpen) if tries > 1 => std::thread::park_timeout(LOCK_PAUSE),
            outcome => return outcome,
        }
        tries -= 1;
    }
}

pub(crate) fn refused(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::locked(path),
        DatabaseError::Storage(redb::StorageError::Io(source)) => OpenError::Io { path, source },
        other => OpenError::Unusable { path, reason: other.to_string() },
    }
}

/// Whether the disk has no room for what redb had to write.
pub(crate) fn is_full(error: &DatabaseError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let DatabaseError::Storage(redb::StorageError::Io(error)) = error else { return false };
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
