//! The batch object of the API and of webhooks (DESIGN §3), with the members of `OpenAI`'s batches.

use super::account::QuotaKind;
use super::batch::{Batch, BatchCounts, BatchEndpoint, BatchFault, BatchSource, BatchStatus};
use super::id::{BatchId, FileId};
use serde::Serialize;
use std::collections::BTreeMap;

/// The window that `OpenAI`'s clients name.
pub const COMPLETION_WINDOW: &str = "24h";

/// The same, seconds.
pub const COMPLETION_WINDOW_S: u64 = 24 * HOUR_S;

const HOUR_S: u64 = 3_600;

/// A batch; times are unix seconds. Members about files are `null` if its lines came in the request.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub struct BatchObject {
    id: BatchId,
    object: &'static str,
    endpoint: Option<BatchEndpoint>,
    errors: Option<BatchFaultList>,
    input_file_id: Option<FileId>,
    completion_window: Option<String>,
    /// Status.
    pub status: BatchStatus,
    output_file_id: Option<FileId>,
    error_file_id: Option<FileId>,
    created_at: u64,
    in_progress_at: Option<u64>,
    expires_at: Option<u64>,
    finalizing_at: Option<u64>,
    cancelling_at: Option<u64>,
    completed_at: Option<u64>,
    failed_at: Option<u64>,
    expired_at: Option<u64>,
    cancelled_at: Option<u64>,
    request_counts: BatchCounts,
    metadata: Option<BTreeMap<String, String>>,
    concurrency: u32,
    /// The exhausted quota that the remaining lines wait for.
    waiting_for: Option<QuotaKind>,
}

/// Why a file was refused.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
struct BatchFaultList {
    object: &'static str,
    data: Vec<BatchFault>,
}

impl From<Batch> for BatchObject {
    fn from(batch: Batch) -> Self {
        let seconds = |millis: u64| millis / 1_000;
        let status = match batch.status {
            BatchStatus::Expiring => BatchStatus::Finalizing,
            _ if batch.lacks_files() => BatchStatus::Finalizing,
            status => status,
        };
        let lines_ended_at = batch.finished_at_ms.map(seconds);
        let files_at_ms = batch.source.as_ref().and_then(|source| source.files_at_ms);
        let ended_at = files_at_ms.map(seconds).or(lines_ended_at);
        let created_at = seconds(batch.created_at_ms);
        let window_ms = batch.expires_at_ms.map(|at_ms| at_ms.saturating_sub(batch.created_at_ms));
        let has_files = batch.source.is_some() && batch.status != BatchStatus::Failed;
        let mut object = Self {
            id: batch.id,
            object: "batch",
            endpoint: None,
            errors: None,
            input_file_id: None,
            completion_window: window_ms.map(seconds).map(window_text),
            status,
            output_file_id: None,
            error_file_id: None,
            created_at,
            in_progress_at: (status != BatchStatus::Failed).then_some(created_at),
            expires_at: batch.expires_at_ms.map(seconds),
            finalizing_at: lines_ended_at.filter(|_| has_files),
            cancelling_at: batch.cancelling_at_ms.map(seconds),
            completed_at: ended_at.filter(|_| status == BatchStatus::Completed),
            failed_at: ended_at.filter(|_| status == BatchStatus::Failed),
            expired_at: ended_at.filter(|_| status == BatchStatus::Expired),
            cancelled_at: ended_at.filter(|_| status == BatchStatus::Cancelled),
            request_counts: batch.counts,
            metadata: None,
            concurrency: batch.concurrency,
            waiting_for: batch.waiting_for,
        };
        if let Some(source) = batch.source {
            object.add_source(source);
        }
        object
    }
}

/// A window as `OpenAI` writes it.
fn window_text(window_s: u64) -> String {
    if window_s.is_multiple_of(HOUR_S) { format!("{}h", window_s / HOUR_S) } else { format!("{window_s}s") }
}

impl BatchObject {
    fn add_source(&mut self, source: BatchSource) {
        self.endpoint = Some(source.endpoint);
        self.input_file_id = Some(source.input_file);
        self.completion_window.get_or_insert_with(|| COMPLETION_WINDOW.to_owned());
        self.metadata = Some(source.metadata);
        if !source.faults.is_empty() {
            self.errors = Some(BatchFaultList { object: "list", data: source.faults });
        }
        if source.files_at_ms.is_some() {
            self.output_file_id = source.output_file;
            self.error_file_id = source.error_file;
        }
    }
}
