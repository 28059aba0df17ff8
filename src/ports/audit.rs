//! The audit log: one entry for every tool call. The implementation masks secrets.

use super::store_error::StoreError;
use crate::domain::id::{JobId, ProjectId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One tool call.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When the call ended, unix milliseconds.
    pub time_ms: u64,
    /// Owner of the job.
    pub user: UserId,
    /// The job; absent for a call that the operator made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The project that the call worked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// Id of the call, as in its result. Calls of a sub-agent carry their parent's id: `call_1/agent0_call2`.
    pub id_ref: String,
    /// Tool name as the model gave it.
    pub tool: String,
    /// Arguments with secrets masked; a string when they were not a JSON object.
    pub arguments: Value,
    /// Whether the tool succeeded.
    pub success: bool,
    /// The result that the model got, cut at 1,000 characters, secrets masked.
    pub result: String,
    /// Run time, milliseconds.
    pub duration_ms: u64,
    /// Sandbox level, for tools that run code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The reason why the call did not run: refused, duplicate, cached, cancelled or denied. `interrupted`
    /// means that the server ended during the call, so its effect is unknown. Absent when the call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// Audit entries of one job.
#[derive(Debug, Default)]
pub struct AuditPage {
    /// Oldest first.
    pub entries: Vec<AuditEntry>,
    /// Older entries exist or may exist: the search stopped at a limit.
    pub has_more: bool,
}

/// The entries of a store that several nodes share. Their secrets are masked already.
pub trait AuditRows: Send + Sync {
    /// Stores an entry soon. Blocks only while many writes wait; a failure is logged.
    fn append_entry(&self, entry: AuditEntry);
    /// The newest entries of a user's job, at most `max`.
    fn entries_of_job(&self, user: UserId, job: JobId, max: usize) -> Result<AuditPage, StoreError>;
}

/// Writes and reads audit entries.
pub trait Audit: Send + Sync {
    /// Writes an entry. A failure is logged and never affects the job.
    fn record(&self, entry: &AuditEntry);
    /// The newest stored entries of a user's job, at most `max`. Skips files from before `since_ms` (unix
    /// milliseconds).
    fn of_job(&self, user: UserId, job: JobId, since_ms: u64, max: usize) -> Result<AuditPage, StoreError>;
}
