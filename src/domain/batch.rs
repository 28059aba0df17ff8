//! Batches: jobs that are accepted and counted together. Their lines are stored elsewhere, because there may
//! be many.

use super::account::QuotaKind;
use super::id::{BatchId, FileId, UserId};
use super::job::Job;
use super::webhook::WebhookUrl;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// All lines have ended, and the files with their results are being written. Only clients see it.
    Finalizing,
    /// Its file was refused: no line ever starts.
    Failed,
    /// Its time is over: no further line starts, running ones are being stopped. Clients see `finalizing`.
    #[cfg_attr(test, schemars(skip))]
    Expiring,
    /// Its time was over before all lines had ended.
    Expired,
}

impl BatchStatus {
    /// Whether all its jobs have ended and none will start.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Failed | Self::Expired)
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
    /// Lines whose job failed, was cancelled, or never started because the batch was cancelled or expired.
    pub failed: u32,
}

impl BatchCounts {
    /// Lines that have not ended.
    pub fn open(self) -> u32 {
        self.total.saturating_sub(self.completed).saturating_sub(self.failed)
    }
}

/// The route that the lines of a file are for, and the form of their answers.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchEndpoint {
    /// Chat completions.
    #[serde(rename = "/v1/chat/completions")]
    ChatCompletions,
    /// Responses.
    #[serde(rename = "/v1/responses")]
    Responses,
    /// Jobs of this server.
    #[serde(rename = "/v1/jobs")]
    Jobs,
}

impl BatchEndpoint {
    /// All endpoints.
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Responses, Self::Jobs];

    /// Its path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Jobs => "/v1/jobs",
        }
    }
}

/// Why a file was refused.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchFault {
    /// Machine-readable code.
    pub code: String,
    /// Line of the file, from 1; `None`: the whole file.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// The field.
    pub param: Option<String>,
}

/// The file that a batch was made from, and the files with its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSource {
    /// The file with the lines; it may be deleted by now.
    pub input_file: FileId,
    /// What the lines are.
    pub endpoint: BatchEndpoint,
    /// The client's own pairs.
    pub metadata: BTreeMap<String, String>,
    /// Lifetime of the files with results, seconds; `None`: as other files.
    pub output_expires_after_s: Option<u64>,
    /// Why the file was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<BatchFault>,
    /// When the files with results were written, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_at_ms: Option<u64>,
    /// Results of lines that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_file: Option<FileId>,
    /// Results of other lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_file: Option<FileId>,
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
    /// When it expires, unix milliseconds; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
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
    /// The file that it was made from; `None`: its lines came in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BatchSource>,
}

impl Batch {
    /// Whether it expired before this job ended.
    pub fn has_expired(&self, job: &Job) -> bool {
        self.status == BatchStatus::Expired && job.finished_at_ms >= self.expires_at_ms
    }

    /// Whether all lines have ended and the files with their results are not written yet.
    pub fn lacks_files(&self) -> bool {
        self.status.is_terminal() && self.misses_files()
    }

    /// Whether files with results are still to be written, after its end or now.
    pub fn misses_files(&self) -> bool {
        self.status != BatchStatus::Failed
            && self.source.as_ref().is_some_and(|source| source.files_at_ms.is_none())
    }
}
