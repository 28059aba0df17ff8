//! What became of every call of a tool, for whoever has to answer for it. Owns the trait and the entry; refuses to decide
//! what is a secret (the recorder does).

use super::store::StoreError;
use crate::domain::id::{JobId, ProjectId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When it ended, unix milliseconds.
    pub time_ms: u64,
    /// Whose.
    pub user: UserId,
    /// Which job's; absent for a call that an operator made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Which project it worked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// The call, as its result names it; a sub-agent's after its parent's: `call_1/agent0_call2`.
    pub id_ref: String,
    /// The tool, as the model named it.
    pub tool: String,
    /// What it was called with, secrets masked; a text when it was no JSON object.
    pub arguments: Value,
    /// Whether it did what it was asked for.
    pub success: bool,
    /// The result as the model got it, cut at 1,000 characters, secrets masked.
    pub result: String,
    /// How long it ran, milliseconds.
    pub duration_ms: u64,
    /// The sandbox's level, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Why it did not run: refused, duplicate, cached, cancelled, denied, or interrupted by the end of the server
    /// (whether it took effect is unknown); absent when it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// Entries of a job.
#[derive(Debug, Default)]
pub struct AuditPage {
    /// Oldest first.
    pub entries: Vec<AuditEntry>,
    /// There are older ones, or may be: looking for them ended at a bound.
    pub has_more: bool,
}

/// The audit log.
pub trait Audit: Send + Sync {
    /// Writes an entry. What cannot be written is logged, and never in the way of a job.
    fn record(&self, entry: &AuditEntry);
    /// The newest entries of a job of this user that are still kept, at most `max`. Nothing from before `since_ms` is
    /// looked for.
    fn of_job(&self, user: UserId, job: JobId, since_ms: u64, max: usize) -> Result<AuditPage, StoreError>;
}
