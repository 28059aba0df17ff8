//! Which batches wait to get the files with their results, and whose turn it is to write them.

use crate::domain::id::BatchId;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// Batches whose ends are waited for, and the one permit to write files.
pub(crate) struct ResultFileTasks {
    batches: Mutex<HashSet<BatchId>>,
    turn: Semaphore,
}

impl Default for ResultFileTasks {
    fn default() -> Self {
        Self { batches: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl ResultFileTasks {
    /// Returns whether nothing waited for this batch yet.
    pub(crate) fn begin(&self, batch: BatchId) -> bool {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).insert(batch)
    }

    pub(crate) fn end(&self, batch: BatchId) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).remove(&batch);
    }

    /// The permit; an error when it never comes.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.turn.acquire().await
    }
}
