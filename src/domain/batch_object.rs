//! The batch object of the API and of webhooks (DESIGN §3).

use super::account::QuotaKind;
use super::batch::{Batch, BatchCounts, BatchStatus};
use super::id::BatchId;
use serde::Serialize;

/// A batch; times are unix seconds.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub struct BatchObject {
    id: BatchId,
    object: &'static str,
    /// Status.
    pub status: BatchStatus,
    created_at: u64,
    cancelling_at: Option<u64>,
    completed_at: Option<u64>,
    cancelled_at: Option<u64>,
    request_counts: BatchCounts,
    concurrency: u32,
    /// The exhausted quota that the remaining lines wait for.
    waiting_for: Option<QuotaKind>,
}

impl From<Batch> for BatchObject {
    fn from(batch: Batch) -> Self {
        let seconds = |millis: u64| millis / 1_000;
        let finished_at = batch.finished_at_ms.map(seconds);
        Self {
            id: batch.id,
            object: "batch",
            status: batch.status,
            created_at: seconds(batch.created_at_ms),
            cancelling_at: batch.cancelling_at_ms.map(seconds),
            completed_at: finished_at.filter(|_| batch.status == BatchStatus::Completed),
            cancelled_at: finished_at.filter(|_| batch.status == BatchStatus::Cancelled),
            request_counts: batch.counts,
            concurrency: batch.concurrency,
            waiting_for: batch.waiting_for,
        }
    }
}
