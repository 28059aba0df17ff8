//! Batches: many jobs that were accepted together and are counted together. Owns how a batch stands; refuses to hold its
//! lines, which may be many.

use super::id::{BatchId, UserId};
use super::webhook::WebhookUrl;
use serde::{Deserialize, Serialize};

/// Where a batch stands.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    /// Its lines are being worked on.
    InProgress,
    /// Every line has ended.
    Completed,
    /// No further line begins; those that run are being stopped.
    Cancelling,
    /// Cancelled, and nothing of it runs any more.
    Cancelled,
}

impl BatchStatus {
    /// Whether nothing of it runs or will run.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// How many of its lines stand where.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchCounts {
    /// All of them.
    pub total: u32,
    /// Lines whose job has its answer.
    pub completed: u32,
    /// Lines whose job failed, was cancelled, or never began because the batch was cancelled.
    pub failed: u32,
}

impl BatchCounts {
    /// Lines that have not ended.
    pub fn open(self) -> u32 {
        self.total.saturating_sub(self.completed).saturating_sub(self.failed)
    }
}

/// How a batch stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Its id.
    pub id: BatchId,
    /// Whose it is.
    pub user: UserId,
    /// Where it stands.
    pub status: BatchStatus,
    /// When it was accepted, unix milliseconds.
    pub created_at_ms: u64,
    /// When somebody asked for its end, unix milliseconds.
    pub cancelling_at_ms: Option<u64>,
    /// When its last line ended, unix milliseconds.
    pub finished_at_ms: Option<u64>,
    /// Its lines.
    pub counts: BatchCounts,
    /// Jobs of it that may be in the queue or running at once.
    pub concurrency: u32,
    /// Told when the batch has ended.
    #[serde(default)]
    pub webhook_url: Option<WebhookUrl>,
}
