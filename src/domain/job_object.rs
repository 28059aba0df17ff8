//! A job as clients see it (DESIGN §3): in answers, in lists, in webhooks. Owns the object's shape; refuses to show what is
//! the server's own (user, epoch), and to read anything.

use super::id::{ConversationId, JobId, ProjectId};
use super::job::{Job, JobError, JobStatus};
use super::tool::ToolCall;
use super::usage::Usage;
use serde::Serialize;
use std::collections::BTreeMap;

/// The answer's text, or its absence.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output {
    /// In lists: twenty answers can be large, and each job has its own address.
    LeftOut,
    /// `null` until the job has ended.
    Told(Option<String>),
}

impl Output {
    fn is_left_out(&self) -> bool {
        matches!(self, Self::LeftOut)
    }
}

/// What the job waits for.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PendingApproval"))]
#[derive(Debug, Serialize)]
struct Approval {
    /// The calls that nobody has decided about.
    calls: Vec<ToolCall>,
    /// When they count as denied, unix seconds.
    expires_at: u64,
}

/// The job object.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub struct JobObject {
    id: JobId,
    object: &'static str,
    /// Where it stands.
    pub status: JobStatus,
    attempt: u32,
    created_at: u64,
    started_at: Option<u64>,
    finished_at: Option<u64>,
    model: String,
    conversation_id: Option<ConversationId>,
    /// The job whose model asked for this one.
    parent_id: Option<JobId>,
    project_id: Option<ProjectId>,
    #[serde(skip_serializing_if = "Output::is_left_out")]
    output_text: Output,
    usage: Usage,
    error: Option<JobError>,
    /// While the job is `waiting`.
    approval: Option<Approval>,
    metadata: BTreeMap<String, String>,
    last_event_id: u64,
}

impl JobObject {
    /// The job without its answer, for lists.
    pub fn brief(job: Job) -> Self {
        Self {
            id: job.id,
            object: "job",
            status: job.status,
            attempt: job.attempt,
            created_at: seconds(job.created_at_ms),
            started_at: job.started_at_ms.map(seconds),
            finished_at: job.finished_at_ms.map(seconds),
            model: job.model,
            conversation_id: job.conversation_id,
            parent_id: job.origin.parent(),
            project_id: job.project_id,
            output_text: Output::LeftOut,
            usage: job.usage,
            error: job.error,
            approval: job
                .approval
                .map(|pending| Approval { calls: pending.calls, expires_at: seconds(pending.expires_at_ms) }),
            metadata: job.metadata,
            last_event_id: job.last_event_id,
        }
    }

    /// The job with its answer, as far as there is one.
    pub fn whole(job: Job, output_text: Option<String>) -> Self {
        let mut object = Self::brief(job);
        object.output_text = Output::Told(output_text);
        object
    }

    /// A job that was stored a moment ago.
    pub fn fresh(job: Job) -> Self {
        Self::whole(job, None)
    }
}

fn seconds(millis: u64) -> u64 {
    millis / 1_000
}
