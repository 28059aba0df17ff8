//! Batches: jobs that are accepted and counted together. Their lines are stored elsewhere, because there may
//! be many.

use super::account::QuotaKind;
use super::id::{BatchId, UserId};
use super::webhook::WebhookUrl;
use serde::{Deserialize, Serialize};

/// Status of a batch.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    /// Lines are being processed.
    InProgress,
    /// All lines have ended.
    Completed,
    /// Cancelled: no further line starts, running ones are being stopped.
    Cancelling,
    /// Cancelled, and all jobs have ended.
    Cancelled,
}

impl BatchStatus {
    /// Whether all its jobs have ended and none will start.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// Number of lines by state.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchCounts {
    /// All lines.
    pub total: u32,
    /// Lines whose job succeeded.
    pub completed: u32,
    /// Lines whose job failed, was cancelled, or never started because the batch was cancelled.
    pub failed: u32,
}

impl BatchCounts {
    /// Lines that have not ended.
    pub fn open(self) -> u32 {
        self.total.saturating_sub(self.completed).saturating_sub(self.failed)
    }
}

/// State of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Id.
    pub id: BatchId,
    /// Owner.
    pub user: UserId,
    /// Status.
    pub status: BatchStatus,
    /// When the server accepted it, unix milliseconds.
    pub created_at_ms: u64,
    /// When it was cancelled, unix milliseconds.
    pub cancelling_at_ms: Option<u64>,
    /// When its last line ended, unix milliseconds.
    pub finished_at_ms: Option<u64>,
    /// Line counts.
    pub counts: BatchCounts,
    /// How many of its jobs may be queued or running at once.
    pub concurrency: u32,
    /// Receives a webhook when the batch ends.
    #[serde(default)]
    pub webhook_url: Option<WebhookUrl>,
    /// The exhausted quota that the remaining lines wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<QuotaKind>,
}
