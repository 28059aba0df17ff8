//! Jobs: the request (`JobSpec`, immutable), the state (`Job`, a cached fold of the log) and the allowed
//! transitions.

use super::event::{Event, FailureCode};
use super::handed_approvals::HandedApprovals;
use super::id::{BatchId, ConversationId, JobId, ProjectId, ScheduleId, UserId};
use super::job_conditions::JobConditions;
use super::job_input::InputPreview;
use super::job_wait::JobWait;
use super::log_chain::ChainLink;
use super::message::Message;
use super::model_settings::{ClientFunction, ModelSettings};
use super::response_request::ResponseRequest;
use super::tool::{Strictness, ToolCall, ToolChoice};
use super::trace_ids::TraceParent;
use super::usage::Usage;
use super::webhook::WebhookUrl;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Status of a job.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// Accepted; not running.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Tool calls wait for an approval; no worker holds it.
    Waiting,
    /// Ended with an answer.
    Succeeded,
    /// Ended without an answer.
    Failed,
    /// Cancelled by a user.
    Cancelled,
}

impl JobStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Waiting, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// Whether the job has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Whether the transition to `next` is allowed. `Running → Queued` is a released or lost lease, or
    /// another attempt; `Failed → Queued` is a retry that a user requested.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Running | Self::Cancelled | Self::Failed),
            Self::Waiting => matches!(next, Self::Queued | Self::Cancelled | Self::Failed),
            Self::Running => next != Self::Running,
            Self::Failed => next == Self::Queued,
            Self::Succeeded | Self::Cancelled => false,
        }
    }

    /// Name in the API.
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

/// Priority from 0 (first) to 9 (last).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Priority(u8);

impl TryFrom<u64> for Priority {
    type Error = &'static str;

    fn try_from(level: u64) -> Result<Self, Self::Error> {
        Self::new(level).ok_or("a priority is a number from 0 to 9")
    }
}

impl Priority {
    /// Default priority.
    pub const DEFAULT: Self = Self(5);

    /// The priority of this level; `None` above 9.
    pub fn new(level: u64) -> Option<Self> {
        u8::try_from(level).ok().filter(|l| *l <= 9).map(Self)
    }

    /// Level, 0 to 9.
    pub fn level(self) -> u8 {
        self.0
    }
}

/// What happens when the client that streams a submission disconnects.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDisconnect {
    /// The job continues.
    #[default]
    Continue,
    /// The job is cancelled.
    Cancel,
}

/// What happens to calls that need an approval.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// The job waits, up to `approval_timeout_s`.
    #[default]
    Wait,
    /// They are denied at once, and the model is informed.
    AutoDeny,
}

/// Origin of a job.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobOrigin {
    /// A client submitted it, alone or in a batch.
    #[default]
    Client,
    /// A schedule fired.
    Schedule {
        /// The schedule. Missing in jobs of early versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schedule: Option<ScheduleId>,
    },
    /// Another job's model started it. It runs beside its conversation, and its answer joins the conversation
    /// when it is ready.
    Agent {
        /// The parent job.
        parent: JobId,
    },
}

impl JobOrigin {
    /// Whether a client submitted it.
    pub fn is_client(&self) -> bool {
        *self == Self::Client
    }

    /// The parent job; such a job runs beside its conversation.
    pub fn parent(&self) -> Option<JobId> {
        match self {
            Self::Agent { parent } => Some(*parent),
            Self::Client | Self::Schedule { .. } => None,
        }
    }

    /// The schedule that started it.
    pub fn schedule(&self) -> Option<ScheduleId> {
        match self {
            Self::Schedule { schedule } => *schedule,
            Self::Client | Self::Agent { .. } => None,
        }
    }
}

/// Tool calls that wait for an approval.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// Undecided calls.
    pub calls: Vec<ToolCall>,
    /// When they expire and count as denied, unix milliseconds.
    pub expires_at_ms: u64,
}

/// A validated request with all defaults filled in; immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// At least one message.
    pub input: Vec<Message>,
    /// Configured model id.
    pub model: String,
    /// Jobs of one conversation run in turn and share its messages.
    pub conversation_id: Option<ConversationId>,
    /// Project of its tools; the user owned it when the job was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// System prompt.
    pub system_prompt: Option<String>,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Maximum tokens of one answer.
    pub max_tokens: Option<u32>,
    /// Whether the model thinks first.
    pub thinking: bool,
    /// Tools that the model may call.
    pub tools: ToolChoice,
    /// Functions that the client runs itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<ClientFunction>,
    /// Further settings of the model calls.
    #[serde(default, skip_serializing_if = "ModelSettings::is_default")]
    pub settings: ModelSettings,
    /// Whether the model gets the messages alone, without the preamble.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_plain: bool,
    /// The most calls of this server's tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The request to `/v1/responses` that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseRequest>,
    /// Whether it is listed as a stored chat completion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stored_completion: bool,
    /// Calls that need an approval are handed to the client, which decides in its next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_approvals: Option<HandedApprovals>,
    /// Tools whose calls need an approval in this job, beside those of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval_tools: Vec<String>,
    /// Sandbox level for calls that name none.
    pub strictness: Option<Strictness>,
    /// Maximum model calls before the closing one.
    pub max_steps: u32,
    /// Wall time of one run from its claim; downtime does not count.
    pub timeout_s: u64,
    /// Maximum tokens over all calls, prompt and completion.
    pub max_total_tokens: Option<u64>,
    /// Priority.
    pub priority: Priority,
    /// Earliest start, unix milliseconds.
    pub run_at_ms: Option<u64>,
    /// Maximum runs, counting those that failed for a temporary reason; at least 1.
    #[serde(default = "one")]
    pub max_attempts: u32,
    /// What happens when the streaming client disconnects.
    pub on_disconnect: OnDisconnect,
    /// The client's labels, returned as given.
    pub metadata: BTreeMap<String, String>,
    /// URL for the webhook at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<WebhookUrl>,
    /// What happens to calls that need an approval.
    #[serde(default)]
    pub approval: ApprovalMode,
    /// Origin.
    #[serde(default, skip_serializing_if = "JobOrigin::is_client")]
    pub origin: JobOrigin,
    /// When it may start, by when it has to end, and what it may cost.
    #[serde(default, skip_serializing_if = "JobConditions::is_default")]
    pub conditions: JobConditions,
    /// The client's span, if it has named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceParent>,
}

impl JobSpec {
    /// What no server accepts in a request, whatever its limits are. `of_job`: the job that it made.
    pub fn fault(&self, of_job: JobId) -> Option<&'static str> {
        let Self { temperature, max_steps, timeout_s, max_attempts, conditions, .. } = self;
        let mut named = BTreeSet::from([of_job]);
        if temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
            Some("'temperature' is not from 0 to 2")
        } else if [u64::from(*max_steps), *timeout_s, u64::from(*max_attempts)].contains(&0) {
            Some("'max_steps', 'timeout_s' and 'max_attempts' are at least 1")
        } else if !conditions.after.iter().all(|job| named.insert(*job)) {
            Some("'after' names a job twice, or the job itself")
        } else {
            None
        }
    }

    /// Whether its first call of the model takes the request only, and nothing else that is stored.
    pub fn is_self_contained(&self) -> bool {
        self.conversation_id.is_none()
            && self.run_at_ms.is_none()
            && self.handed_approvals.is_none()
            && self.origin.is_client()
            && self.conditions.is_default()
            && !Message::have_images(&self.input)
    }

    /// A client's request for one run without a conversation; every field that is not named here has its
    /// default.
    pub fn new(model: String, input: Vec<Message>, max_steps: u32, timeout_s: u64) -> Self {
        Self {
            input,
            model,
            conversation_id: None,
            project_id: None,
            system_prompt: None,
            temperature: None,
            max_tokens: None,
            thinking: false,
            tools: ToolChoice::Default,
            functions: Vec::new(),
            settings: ModelSettings::default(),
            is_plain: false,
            max_tool_calls: None,
            response: None,
            is_stored_completion: false,
            handed_approvals: None,
            approval_tools: Vec::new(),
            strictness: None,
            max_steps,
            timeout_s,
            max_total_tokens: None,
            priority: Priority::DEFAULT,
            run_at_ms: None,
            max_attempts: one(),
            on_disconnect: OnDisconnect::default(),
            metadata: BTreeMap::new(),
            webhook_url: None,
            approval: ApprovalMode::default(),
            origin: JobOrigin::default(),
            conditions: JobConditions::default(),
            trace_parent: None,
        }
    }
}

fn one() -> u32 {
    1
}

/// Reference to a batch line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchLine {
    /// The batch.
    pub batch: BatchId,
    /// Line number, from 0.
    pub line: u32,
}

/// Why a job failed.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// Code for programs.
    pub code: FailureCode,
    /// Message for users.
    pub message: String,
}

/// State of a job: what `GET /v1/jobs/{id}` shows without the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Id.
    pub id: JobId,
    /// Owner.
    pub user: UserId,
    /// Status.
    pub status: JobStatus,
    /// Started runs; 0 before the first.
    pub attempt: u32,
    /// Consecutive crashes during runs; three make the job poison.
    pub crashes: u32,
    /// Failed runs that were followed by another attempt.
    #[serde(default)]
    pub failed_runs: u32,
    /// Rises with every claim; fences out workers that lost their lease.
    pub epoch: u64,
    /// Acceptance, unix milliseconds.
    pub created_at_ms: u64,
    /// First claim, unix milliseconds.
    pub started_at_ms: Option<u64>,
    /// End, unix milliseconds.
    pub finished_at_ms: Option<u64>,
    /// Model of the request.
    pub model: String,
    /// Conversation of the request.
    pub conversation_id: Option<ConversationId>,
    /// Project of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Priority of the request.
    pub priority: Priority,
    /// Earliest start of the request.
    pub run_at_ms: Option<u64>,
    /// Labels of the request.
    pub metadata: BTreeMap<String, String>,
    /// URL for the webhook at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<WebhookUrl>,
    /// Start of the request's input. Missing in jobs of early versions and when the message was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputPreview>,
    /// Tools of the request.
    #[serde(default, skip_serializing_if = "ToolChoice::is_default")]
    pub tools: ToolChoice,
    /// Origin of the request.
    #[serde(default, skip_serializing_if = "JobOrigin::is_client")]
    pub origin: JobOrigin,
    /// Conditions of the request. A retry drops the times that have passed.
    #[serde(default, skip_serializing_if = "JobConditions::is_default")]
    pub conditions: JobConditions,
    /// Waiting approvals, while the status is `waiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
    /// The batch line that it was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchLine>,
    /// Tokens used so far.
    pub usage: Usage,
    /// Error of a job that ended without an answer.
    pub error: Option<JobError>,
    /// A cancellation is in progress.
    pub cancel_requested: bool,
    /// Newest `seq` as of the last status change; exact once ended.
    pub last_event_id: u64,
    /// Head of the log's hash chain, once ended; absent if an earlier version has begun the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_head: Option<ChainLink>,
    /// When it came from another server, unix milliseconds. Such a job does not run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_at_ms: Option<u64>,
    /// What it waits for. Not stored: it follows from its place in the queues.
    #[serde(skip)]
    pub waits_for: Option<JobWait>,
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
            input: Some(InputPreview::of(&spec.input)),
            tools: spec.tools.clone(),
            origin: spec.origin,
            conditions: spec.conditions.clone(),
            approval: None,
            batch: None,
            usage: Usage::default(),
            error: None,
            cancel_requested: false,
            last_event_id: 0,
            log_head: None,
            imported_at_ms: None,
            waits_for: None,
        }
    }
}

/// Summary that replaces the oldest turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationSummary {
    /// The text.
    pub content: String,
    /// The newest turn that it replaces: [`ConversationTurn::number`].
    pub through: u64,
}

/// Messages that one job added to its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationTurn {
    /// Position; rises within a conversation.
    pub number: u64,
    /// Question and answer messages. The oldest part is missing where they were too long.
    pub messages: Vec<Message>,
}

/// Messages that a conversation passes to its next job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Summary of the turns before `turns`.
    pub summary: Option<String>,
    /// The turns, oldest first.
    pub turns: Vec<ConversationTurn>,
    /// Whether the conversation has no title yet.
    pub wants_title: bool,
}

impl History {
    /// All messages, oldest first.
    pub fn into_messages(self) -> Vec<Message> {
        self.turns.into_iter().flat_map(|turn| turn.messages).collect()
    }
}

/// End of a job: the terminal event and all that is written in its transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOutcome {
    /// `done` or `error`.
    pub event: Event,
    /// The answer's text; a partial one when the job failed.
    pub output_text: String,
    /// Messages that the conversation gains, in order.
    pub messages: Vec<Message>,
    /// New summary of the conversation's oldest turns.
    pub summary: Option<ConversationSummary>,
}

impl JobOutcome {
    /// Status that the terminal event stands for.
    pub fn status(&self) -> JobStatus {
        match &self.event {
            Event::Error { code: FailureCode::Cancelled, .. } => JobStatus::Cancelled,
            Event::Error { .. } => JobStatus::Failed,
            _ => JobStatus::Succeeded,
        }
    }

    /// Error object that the terminal event stands for.
    pub fn error(&self) -> Option<JobError> {
        match &self.event {
            Event::Error { content, code, .. } => Some(JobError { code: *code, message: content.clone() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JobStatus::{Cancelled, Failed, Queued, Running, Succeeded};
    use super::*;

    #[test]
    fn p4_an_ended_job_changes_only_from_failed_to_queued() {
        for end in [Succeeded, Failed, Cancelled] {
            for next in [Queued, Running, Succeeded, Failed, Cancelled] {
                assert_eq!(end.may_become(next), (end, next) == (Failed, Queued), "{end:?} -> {next:?}");
            }
        }
    }

    #[test]
    fn a_job_of_an_early_version_names_no_schedule() {
        let origin: JobOrigin = serde_json::from_str(r#"{"kind":"schedule"}"#).unwrap();
        assert_eq!(origin, JobOrigin::Schedule { schedule: None });
        assert_eq!(serde_json::to_string(&origin).unwrap(), r#"{"kind":"schedule"}"#);
    }

    #[test]
    fn a_queued_job_never_succeeds_without_running() {
        assert!(!Queued.may_become(Succeeded));
        assert!(Queued.may_become(Running) && Queued.may_become(Cancelled));
        assert!(Running.may_become(Queued), "a lost lease");
    }

    #[test]
    fn the_highest_priority_is_nine() {
        assert_eq!(Priority::new(9).map(Priority::level), Some(9));
        assert_eq!(Priority::new(10), None);
    }
}
