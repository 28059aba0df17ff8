//! The open database, which the writer thread may replace while readers go on.

use crate::ports::StoreError;
use crate::store::redb::file::medium::Medium;
use redb::{Database, DatabaseError, ReadTransaction, ReadableDatabase, WriteTransaction};
use std::sync::{PoisonError, RwLock};

/// The open database, which the writer may replace under the readers.
pub(crate) struct DatabaseHandle(RwLock<HandleState>);

enum HandleState {
    Open(Database),
    /// Open for reads; writes fail with this error.
    ReadOnly(Database, StoreError),
    /// It is being reopened, or that failed, with the error for callers.
    Broken(StoreError),
    Closed,
}

impl HandleState {
    fn database(&self) -> Result<&Database, StoreError> {
        match self {
            Self::Open(database) | Self::ReadOnly(database, _) => Ok(database),
            Self::Broken(error) => Err(error.clone()),
            Self::Closed => Err(StoreError::Closed),
        }
    }
}

impl DatabaseHandle {
    pub(crate) fn new(database: Database) -> Self {
        Self(RwLock::new(HandleState::Open(database)))
    }

    /// A database that is open for reads only. Writes fail with this error until it is reopened.
    pub(crate) fn read_only(database: Database, error: StoreError) -> Self {
        Self(RwLock::new(HandleState::ReadOnly(database, error)))
    }

    /// Runs `reader` on the committed state. Holds the lock during the read, so a read must be short and must
    /// not block.
    pub(crate) fn read<T>(
        &self,
        reader: impl FnOnce(ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        reader(state.database()?.begin_read()?)
    }

    /// A snapshot of the committed state for a long read. It blocks the reopening of a broken store, so the
    /// caller has to check [`DatabaseHandle::is_open`].
    pub(crate) fn snapshot(&self) -> Result<ReadTransaction, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Ok(state.database()?.begin_read()?)
    }

    /// Whether reads are possible.
    pub(crate) fn is_open(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).database().is_ok()
    }

    /// A write transaction, for the writer thread only.
    pub(crate) fn write(&self) -> Result<WriteTransaction, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            HandleState::ReadOnly(_, error) => Err(error.clone()),
            state => Ok(state.database()?.begin_write()?),
        }
    }

    /// Closes the database and opens the medium again: redb refuses writes after an I/O error until then.
    /// While the file is repaired, reads fail with [`StoreError::Recovering`].
    pub(crate) fn reopen(&self, medium: &dyn Medium, cache_bytes: usize) -> Result<(), StoreError> {
        self.replace_by(medium, |medium| Ok(HandleState::Open(medium.open(cache_bytes)?)))
    }

    /// While the medium accepts no writes because of this error, opens it for reads: after an I/O error redb
    /// reads only what it has in memory.
    pub(crate) fn reopen_for_reading(
        &self,
        medium: &dyn Medium,
        cache_bytes: usize,
        error: &StoreError,
    ) -> Result<(), StoreError> {
        if matches!(*self.0.read().unwrap_or_else(PoisonError::into_inner), HandleState::ReadOnly(..)) {
            return Ok(());
        }
        let read_only = |database| HandleState::ReadOnly(database, error.clone());
        self.replace_by(medium, |medium| Ok(read_only(medium.open_for_reading(cache_bytes)?)))
    }

    fn replace_by(
        &self,
        medium: &dyn Medium,
        open: impl FnOnce(&dyn Medium) -> Result<HandleState, DatabaseError>,
    ) -> Result<(), StoreError> {
        // The old database must be closed first: it holds the file's lock.
        drop(self.replace(HandleState::Broken(StoreError::Recovering)));
        let opened = medium.drop_unsynced().map_err(StoreError::from).and_then(|()| Ok(open(medium)?));
        let (state, outcome) = match opened {
            Ok(state) => (state, Ok(())),
            Err(error) => (HandleState::Broken(error.clone()), Err(error)),
        };
        drop(self.replace(state));
        outcome
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
