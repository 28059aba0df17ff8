//! Which batches wait to get the files with their results, and whose turn it is to write them.

use super::error::ApiError;
use super::shared_threads::{SharedThreads, ThreadPlace};
use super::shares::ShareOwner;
use crate::domain::id::BatchId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Batches whose ends are waited for, and the turns to write files.
pub(crate) struct ResultFileTasks {
    batches: Mutex<HashSet<BatchId>>,
    turns: Arc<SharedThreads>,
}

impl Default for ResultFileTasks {
    fn default() -> Self {
        Self { batches: Mutex::default(), turns: SharedThreads::for_result_files() }
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

    /// Waits until this user may write.
    pub(crate) async fn turn(&self, owner: Option<ShareOwner>) -> Result<ThreadPlace, ApiError> {
        self.turns.turn(owner).await
    }
}
