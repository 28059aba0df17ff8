//! The open database, which the writer thread may replace while readers go on.

use crate::ports::StoreError;
use crate::store::redb::file::medium::Medium;
use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};
use std::sync::{PoisonError, RwLock};

/// The open database, which the writer may replace under the readers.
pub(crate) struct DatabaseHandle(RwLock<HandleState>);

enum HandleState {
    Open(Database),
    /// It is being reopened, or that failed, with the error for callers.
    Broken(StoreError),
    Closed,
}

impl HandleState {
    fn database(&self) -> Result<&Database, StoreError> {
        match self {
            Self::Open(database) => Ok(database),
            Self::Broken(error) => Err(error.clone()),
            Self::Closed => Err(StoreError::Closed),
        }
    }
}

impl DatabaseHandle {
    pub(crate) fn new(database: Database) -> Self {
        Self(RwLock::new(HandleState::Open(database)))
    }

    /// Runs `reader` on the committed state. Holds the lock during the read, so a read must be short and must
    /// not block.
    pub(crate) fn read<T>(
        &self,
        reader: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        reader(&state.database()?.begin_read()?)
    }

    /// A snapshot of the committed state for a long read. It blocks the reopening of a broken store, so the
    /// caller has to check [`DatabaseHandle::is_open`].
    pub(crate) fn snapshot(&self) -> Result<ReadTransaction, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Ok(state.database()?.begin_read()?)
    }

    /// Whether reads and writes are possible.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.0.read().unwrap_or_else(PoisonError::into_inner), HandleState::Open(_))
    }

    /// A write transaction, for the writer thread only.
    pub(crate) fn write(&self) -> Result<WriteTransaction, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Ok(state.database()?.begin_write()?)
    }

    /// Closes the database and opens the medium again: redb refuses writes after an I/O error until then.
    /// While the medium accepts no writes, the old database stays open for reads. While the file is repaired,
    /// reads fail with [`StoreError::Recovering`].
    pub(crate) fn reopen(&self, medium: &dyn Medium, cache_bytes: usize) -> Result<(), StoreError> {
        medium.takes_writes()?;
        // The old database must be closed first: it holds the file's lock.
        drop(self.replace(HandleState::Broken(StoreError::Recovering)));
        match medium.open(cache_bytes) {
            Ok(database) => {
                drop(self.replace(HandleState::Open(database)));
                Ok(())
            }
            Err(error) => {
                let error = StoreError::from(error);
                drop(self.replace(HandleState::Broken(error.clone())));
                Err(error)
            }
        }
    }

    /// Swaps the state. Holds the lock for the swap only: closing and repairing a file takes seconds, and
    /// readers must not wait for it.
    fn replace(&self, state: HandleState) -> HandleState {
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), state)
    }

    /// Closes the database for good.
    pub(crate) fn close(&self) {
        drop(self.replace(HandleState::Closed));
    }
}
