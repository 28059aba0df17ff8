//! The job object of the API and of webhooks (DESIGN §3).

use super::id::{BatchId, ConversationId, JobId, ProjectId, ScheduleId};
use super::job::{Job, JobError, JobStatus};
use super::job_conditions::OnFailure;
use super::job_wait::JobWaitReason;
use super::log_chain::ChainLink;
use super::message::Message;
use super::tool::{ToolCall, ToolChoice};
use super::usage::Usage;
use serde::Serialize;
use std::collections::BTreeMap;

/// The answer's text in a job object.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output {
    /// Left out of lists, because answers can be large.
    LeftOut,
    /// `null` until the job has ended.
    Told(Option<String>),
}

impl Output {
    fn is_left_out(&self) -> bool {
        matches!(self, Self::LeftOut)
    }
}

/// Waiting approvals of a job.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PendingApproval"))]
#[derive(Debug, Serialize)]
struct Approval {
    /// Undecided calls.
    calls: Vec<ToolCall>,
    /// Expiry, unix seconds.
    expires_at: u64,
}

/// What a job waits for that is queued or waiting.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JobWait"))]
#[derive(Debug, Serialize)]
struct ShownWait {
    reason: JobWaitReason,
    /// When that ends at the latest, unix seconds; `null` if nobody knows.
    until: Option<u64>,
    /// The job of the conversation before it, or the first one of `after` that has not ended.
    after_job: Option<JobId>,
}

/// The input in a job object, in the form of a request.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ShownInput"))]
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(#[cfg_attr(test, schemars(with = "Vec<BTreeMap<String, serde_json::Value>>"))] Vec<Message>),
}

/// The job object.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub struct JobObject {
    id: JobId,
    object: &'static str,
    /// Status.
    pub status: JobStatus,
    attempt: u32,
    created_at: u64,
    started_at: Option<u64>,
    finished_at: Option<u64>,
    model: String,
    conversation_id: Option<ConversationId>,
    /// The parent job, for background jobs.
    parent_id: Option<JobId>,
    project_id: Option<ProjectId>,
    /// The batch whose line it is.
    batch_id: Option<BatchId>,
    /// The schedule that started it.
    schedule_id: Option<ScheduleId>,
    /// The newest user message, at most 1 KiB of it; with `?include=input` the whole input. `null` when the
    /// message was deleted.
    input: Option<Input>,
    /// Whether the input is more than `input` shows.
    input_truncated: bool,
    /// Tools of the request; `null` is the default set.
    tools: ToolChoice,
    #[serde(skip_serializing_if = "Output::is_left_out")]
    output_text: Output,
    usage: Usage,
    error: Option<JobError>,
    /// Waiting approvals, while the status is `waiting`.
    approval: Option<Approval>,
    /// What it waits for, while the status is `queued` or `waiting`.
    waits_for: Option<ShownWait>,
    /// Jobs that have to end before it starts.
    after: Vec<JobId>,
    /// What happens if one of them does not succeed.
    on_failure: OnFailure,
    /// When it fails unless it has ended, unix seconds.
    deadline_at: Option<u64>,
    /// When it fails unless it has started, unix seconds.
    expires_at: Option<u64>,
    /// Maximum cost, millionths of the currency of the prices.
    max_cost_micros: Option<u64>,
    metadata: BTreeMap<String, String>,
    last_event_id: u64,
    /// Head of the hash chain of its log, once it has ended: it proves each record. `null` for jobs that an
    /// earlier version has begun.
    log_head: Option<ChainLink>,
    /// When it was imported from another server, unix seconds; absent for jobs that ran here.
    #[serde(skip_serializing_if = "Option::is_none")]
    imported_at: Option<u64>,
}

impl JobObject {
    /// The object without the answer, for lists.
    pub fn brief(job: Job) -> Self {
        let input_truncated = job.input.as_ref().is_some_and(|input| input.is_cut);
        Self {
            input: job.input.map(|input| Input::Text(input.text)),
            input_truncated,
            tools: job.tools,
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
            batch_id: job.batch.map(|line| line.batch),
            schedule_id: job.origin.schedule(),
            output_text: Output::LeftOut,
            usage: job.usage,
            error: job.error,
            approval: job
                .approval
                .map(|pending| Approval { calls: pending.calls, expires_at: seconds(pending.expires_at_ms) }),
            waits_for: job.waits_for.map(|wait| ShownWait {
                reason: wait.reason,
                until: wait.until_ms.map(seconds),
                after_job: wait.after_job,
            }),
            after: job.conditions.after,
            on_failure: job.conditions.on_failure,
            deadline_at: job.conditions.deadline_ms.map(seconds),
            expires_at: job.conditions.expires_at_ms.map(seconds),
            max_cost_micros: job.conditions.max_cost_micros,
            metadata: job.metadata,
            last_event_id: job.last_event_id,
            log_head: job.log_head,
            imported_at: job.imported_at_ms.map(seconds),
        }
    }

    /// The object with the answer, as far as there is one.
    pub fn with_output(job: Job, output_text: Option<String>) -> Self {
        let mut object = Self::brief(job);
        object.output_text = Output::Told(output_text);
        object
    }

    /// Shows the whole input, in place of its start. Does nothing when the start is not shown either.
    #[must_use]
    pub fn with_input(mut self, messages: Vec<Message>) -> Self {
        if self.input.is_some() {
            self.input_truncated = false;
            self.input = Some(match messages.as_slice() {
                [Message::User { content, attachments, images }]
                    if attachments.is_empty() && images.is_empty() =>
                {
                    Input::Text(content.clone())
                }
                _ => Input::Messages(messages),
            });
        }
        self
    }

    /// The object of a job that was just stored.
    pub fn fresh(job: Job) -> Self {
        Self::with_output(job, None)
    }
}

fn seconds(millis: u64) -> u64 {
    millis / 1_000
}
