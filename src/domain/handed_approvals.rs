//! Approvals that a job hands to its client, instead of waiting for them.

use super::id::JobId;
use super::tool::ToolCall;
use serde::{Deserialize, Serialize};

/// How a job without anybody who waits for it asks for approvals: it ends with the calls that need one, and a
/// later job goes on with the decisions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandedApprovals {
    /// Tools whose calls need an approval in this job, beside those of the configuration. What the job starts
    /// gets them as [`super::job_rights::JobRights::approval_tools`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Calls of an earlier job that this one begins with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<DecidedCall>,
}

/// A call of an earlier job, and the decision about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedCall {
    /// What asked for the decision; absent in jobs of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ApprovalRequestRef>,
    /// The call.
    pub call: ToolCall,
    /// Whether it may run.
    pub approve: bool,
    /// Reason for the model; used for denials only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A request for an approval: the job that ended with it, and its place among the items of the response. One
/// job alone may act on it (P3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApprovalRequestRef {
    /// The job.
    pub job: JobId,
    /// From 0.
    pub place: u64,
}
