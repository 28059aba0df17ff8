//! A database file that remembers a failed sync. After one, Linux may keep pages that never reached the disk
//! in its cache as if they were written: nothing may be read or built on them.

use crate::store::atomic_file::with_suffix;
use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a sync of a file has failed since its cached pages were last dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct SyncFailure(Arc<SyncFailureState>);

#[derive(Debug, Default)]
struct SyncFailureState {
    has_failed: AtomicBool,
    /// A file beside the store: like the cached pages, it outlives the process.
    marker: Option<PathBuf>,
}

impl SyncFailure {
    /// For a store that a later process opens again.
    pub(crate) fn beside(store: &Path) -> Self {
        let marker = Some(with_suffix(store, ".unsynced"));
        Self(Arc::new(SyncFailureState { has_failed: AtomicBool::new(false), marker }))
    }

    /// Records a failed sync.
    pub(crate) fn record(&self, error: &io::Error) {
        self.0.has_failed.store(true, Ordering::SeqCst);
        let Some(marker) = &self.0.marker else { return };
        tracing::error!(%error, "sync of the store failed; its cached pages are dropped before it is used again");
        if let Err(error) = File::create(marker) {
            tracing::error!(%error, marker = %marker.display(), "cannot mark the store as unsynced");
        }
    }

    /// Whether a sync has failed, in this process or in one before.
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.has_failed.load(Ordering::SeqCst)
            || self.0.marker.as_ref().is_some_and(|marker| marker.exists())
    }

    /// Fails if a sync has failed: the file has to be written again from its start.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_recorded() { Err(io::Error::other("a sync of the file failed")) } else { Ok(()) }
    }

    /// Forgets the failure, once the cached pages are gone.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match self.0.marker.as_ref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.0.has_failed.store(false, Ordering::SeqCst),
        }
        Ok(())
    }
}

/// The backend of redb, which records each failed sync. redb ignores those of a closing database.
#[derive(Debug)]
pub(crate) struct CheckedFile {
    file: FileBackend,
    failure: SyncFailure,
    is_draft: bool,
}

impl CheckedFile {
    pub(crate) fn new(file: File, failure: SyncFailure) -> Result<Self, DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, failure, is_draft: false })
    }

    /// A file that does not have its name yet. The caller syncs it once, when it is complete: a crash before
    /// that leaves no store, so nothing else needs a sync.
    pub(crate) fn draft(file: File) -> Result<Self, DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, failure: SyncFailure::default(), is_draft: true })
    }
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_draft {
            return Ok(());
        }
        self.file.sync_data().inspect_err(|error| self.failure.record(error))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
