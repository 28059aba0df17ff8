//! Jobs: what was asked (`JobSpec`, immutable), how it stands (`Job`, a cached fold of its log) and which states follow
//! which. Refuses to know who stores or runs them.

use super::event::{Event, FailureCode};
use super::id::{BatchId, ConversationId, JobId, ProjectId, UserId};
use super::message::Message;
use super::tool::{Strictness, ToolCall, ToolChoice};
use super::usage::Usage;
use super::webhook::WebhookUrl;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a job stands.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// Accepted; not running.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Calls of its tools wait for somebody's approval; no worker holds it.
    Waiting,
    /// Ended with an answer.
    Succeeded,
    /// Ended without one.
    Failed,
    /// Ended because somebody asked for it.
    Cancelled,
}

impl JobStatus {
    /// Whether nothing follows.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// The state machine: whether `next` may follow. `Running → Queued` is a lease given back or lost, or another
    /// attempt; `Failed → Queued` somebody's wish to try again.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Running | Self::Cancelled | Self::Failed),
            Self::Waiting => matches!(next, Self::Queued | Self::Cancelled | Self::Failed),
            Self::Running => next != Self::Running,
            Self::Failed => next == Self::Queued,
            Self::Succeeded | Self::Cancelled => false,
        }
    }

    /// The word that clients read and write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// 0 (first) to 9 (last).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    /// What a job gets that names none.
    pub const DEFAULT: Self = Self(5);

    /// The priority, if it is one.
    pub fn new(level: u64) -> Option<Self> {
        u8::try_from(level).ok().filter(|l| *l <= 9).map(Self)
    }

    /// 0 to 9.
    pub fn level(self) -> u8 {
        self.0
    }
}

/// What happens to a job when the client that streams its submission goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Continue,
    /// It is cancelled.
    Cancel,
}

/// What calls that need approval mean when nobody may be there to give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// The job waits, up to `approval_timeout_s`.
    #[default]
    Wait,
    /// They are denied at once, and the model is told.
    AutoDeny,
}

/// Where a job comes from.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobOrigin {
    /// Somebody submitted it, by itself or in a batch.
    #[default]
    Client,
    /// A schedule fired.
    Schedule,
    /// Another job's model asked for it: it runs beside its conversation, not in turn with it, and its answer comes into
    /// the conversation when it is there.
    Agent {
        /// That job.
        parent: JobId,
    },
}

impl JobOrigin {
    /// Whether somebody submitted it.
    pub fn is_client(&self) -> bool {
        *self == Self::Client
    }

    /// The job whose model asked for it: it then runs beside its conversation.
    pub fn parent(&self) -> Option<JobId> {
        match self {
            Self::Agent { parent } => Some(*parent),
            Self::Client | Self::Schedule => None,
        }
    }
}

/// Calls that wait for somebody's approval.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// Which; those that were decided are not among them.
    pub calls: Vec<ToolCall>,
    /// When they count as denied, unix milliseconds.
    pub expires_at_ms: u64,
}

/// What was asked: validated, complete (no default is looked up later), never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// At least one message.
    pub input: Vec<Message>,
    /// A configured model's id.
    pub model: String,
    /// Jobs that share it run one after the other and see each other's messages.
    pub conversation_id: Option<ConversationId>,
    /// The project that its tools work in; was the user's when the job was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Put before the history.
    pub system_prompt: Option<String>,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Bound of one answer.
    pub max_tokens: Option<u32>,
    /// Whether the model is asked to think first.
    pub thinking: bool,
    /// What the model may call.
    pub tools: ToolChoice,
    /// The level for code when the call names none.
    pub strictness: Option<Strictness>,
    /// Model calls before the closing one.
    pub max_steps: u32,
    /// Wall time of one run, from its claim; time in which the server is down does not count.
    pub timeout_s: u64,
    /// Bound over all calls, prompt and completion.
    pub max_total_tokens: Option<u64>,
    /// Order among other jobs.
    pub priority: Priority,
    /// Not before this time, unix milliseconds.
    pub run_at_ms: Option<u64>,
    /// Runs that may fail for a reason that another run may mend, the last one included; at least 1.
    #[serde(default = "one")]
    pub max_attempts: u32,
    /// What a vanished client means.
    pub on_disconnect: OnDisconnect,
    /// The client's own labels, handed back unread.
    pub metadata: BTreeMap<String, String>,
    /// Where its end is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<WebhookUrl>,
    /// What calls that need approval mean.
    #[serde(default)]
    pub approval: ApprovalMode,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "JobOrigin::is_client")]
    pub origin: JobOrigin,
}

fn one() -> u32 {
    1
}

/// A line of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchLine {
    /// Which batch.
    pub batch: BatchId,
    /// Which line, counted from 0.
    pub line: u32,
}

/// Why a job has no answer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// For programs.
    pub code: FailureCode,
    /// For people.
    pub message: String,
}

/// How a job stands: what `GET /v1/jobs/{id}` shows, less the answer's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub user: UserId,
    /// Where it stands.
    pub status: JobStatus,
    /// Runs begun, 0 before the first.
    pub attempt: u32,
    /// Runs that a crash cut off, in a row; three make it poison.
    pub crashes: u32,
    /// Runs that failed and were to be tried again.
    #[serde(default)]
    pub failed_runs: u32,
    /// Rises with every claim; fences out a worker that lost its lease.
    pub epoch: u64,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// First claim, unix milliseconds.
    pub started_at_ms: Option<u64>,
    /// End, unix milliseconds.
    pub finished_at_ms: Option<u64>,
    /// From the spec.
    pub model: String,
    /// From the spec.
    pub conversation_id: Option<ConversationId>,
    /// From the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// From the spec.
    pub priority: Priority,
    /// From the spec.
    pub run_at_ms: Option<u64>,
    /// From the spec.
    pub metadata: BTreeMap<String, String>,
    /// From the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<WebhookUrl>,
    /// From the spec.
    #[serde(default, skip_serializing_if = "JobOrigin::is_client")]
    pub origin: JobOrigin,
    /// What it waits for, while it is `waiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
    /// The line of a batch that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchLine>,
    /// Tokens spent so far.
    pub usage: Usage,
    /// Set when it ended without an answer.
    pub error: Option<JobError>,
    /// Cancellation was asked for and is under way.
    pub cancel_requested: bool,
    /// The newest event's `seq` as of the last state change; exact once ended.
    pub last_event_id: u64,
}

impl Job {
    /// A job that has just been accepted.
    pub fn queued(id: JobId, user: UserId, created_at_ms: u64, spec: &JobSpec) -> Self {
        Self {
            id,
            user,
            status: JobStatus::Queued,
            attempt: 0,
            crashes: 0,
            failed_runs: 0,
            epoch: 0,
            created_at_ms,
            started_at_ms: None,
            finished_at_ms: None,
            model: spec.model.clone(),
            conversation_id: spec.conversation_id.clone(),
            project_id: spec.project_id,
            priority: spec.priority,
            run_at_ms: spec.run_at_ms,
            metadata: spec.metadata.clone(),
            webhook_url: spec.webhook_url.clone(),
            origin: spec.origin,
            approval: None,
            batch: None,
            usage: Usage::default(),
            error: None,
            cancel_requested: false,
            last_event_id: 0,
        }
    }
}

/// What stands for the oldest turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationSummary {
    /// The text.
    pub content: String,
    /// The newest turn that it stands for: [`ConversationTurn::number`].
    pub through: u64,
}

/// What one job added to its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationTurn {
    /// Rises from turn to turn of a conversation.
    pub number: u64,
    /// What was asked and answered; the oldest part may be missing where it was too long.
    pub messages: Vec<Message>,
}

/// What a conversation hands to its next job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// What stands for the turns before `turns`.
    pub summary: Option<String>,
    /// The turns, oldest first.
    pub turns: Vec<ConversationTurn>,
    /// Whether the conversation has no title yet.
    pub wants_title: bool,
}

impl History {
    /// The messages of all turns, oldest first.
    pub fn into_messages(self) -> Vec<Message> {
        self.turns.into_iter().flat_map(|turn| turn.messages).collect()
    }
}

/// How a job ends: the terminal event and everything that is written with it, in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOutcome {
    /// `done` or `error`, nothing else.
    pub event: Event,
    /// The answer's text; what there is of it when the job failed.
    pub output_text: String,
    /// What the conversation gains: the model's messages and the tools' results, in order.
    pub messages: Vec<Message>,
    /// What stands for the conversation's oldest turns from now on.
    pub summary: Option<ConversationSummary>,
}

impl JobOutcome {
    /// The state that the terminal event means.
    pub fn status(&self) -> JobStatus {
        match &self.event {
            Event::Error { code: FailureCode::Cancelled, .. } => JobStatus::Cancelled,
            Event::Error { .. } => JobStatus::Failed,
            _ => JobStatus::Succeeded,
        }
    }

    /// The error object that the terminal event means.
    pub fn error(&self) -> Option<JobError> {
        match &self.event {
            Event::Error { content, code } => Some(JobError { code: *code, message: content.clone() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JobStatus::{Cancelled, Failed, Queued, Running, Succeeded};
    use super::*;

    #[test]
    fn p4_nothing_follows_an_end_but_a_wish_to_try_again() {
        for end in [Succeeded, Failed, Cancelled] {
            for next in [Queued, Running, Succeeded, Failed, Cancelled] {
                assert_eq!(end.may_become(next), (end, next) == (Failed, Queued), "{end:?} -> {next:?}");
            }
        }
    }

    #[test]
    fn a_queued_job_never_succeeds_without_running() {
        assert!(!Queued.may_become(Succeeded));
        assert!(Queued.may_become(Running) && Queued.may_become(Cancelled));
        assert!(Running.may_become(Queued), "a lost lease");
    }

    #[test]
    fn priorities_end_at_nine() {
        assert_eq!(Priority::new(9).map(Priority::level), Some(9));
        assert_eq!(Priority::new(10), None);
    }
}
