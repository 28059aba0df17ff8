//! Records of a job's log (DESIGN §4). The store numbers events; HTTP renders them.
//!
//! *Events* are what clients see: their `seq` starts at 1 and has no gap. *Marks* are what the engine needs
//! to continue after a crash: they stand between events and have no `seq`, so that clients can count.

use super::call_times::{AgentModelCall, CallTimes};
use super::id::JobId;
use super::log_chain::ChainLink;
use super::message::ProviderReplay;
use super::tool::ToolCall;
use super::usage::{Usage, UsageByModel};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One record of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Record {
    /// A numbered event that clients see.
    Event(Event),
    /// An unnumbered mark for the engine.
    Mark(EngineMark),
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl EngineMark {
    /// Tokens of no step that the job itself used.
    pub fn spent(model: impl Into<String>, usage: Usage) -> Self {
        Self::Spent { model: model.into(), usage, agent: None }
    }

    /// The end of a model call without anything that a provider or the clock adds.
    pub fn model_finished(finish_reason: FinishReason, usage: Usage, model: Option<String>) -> Self {
        Self::ModelFinished {
            finish_reason,
            usage,
            model,
            response_model: None,
            echo: None,
            stop_sequence: None,
            times: None,
        }
    }
}

impl From<EngineMark> for Record {
    fn from(mark: EngineMark) -> Self {
        Self::Mark(mark)
    }
}

impl Record {
    /// The record with these times, if it is the end of a model call.
    #[must_use]
    pub fn with_model_times(mut self, of_call: Option<CallTimes>) -> Self {
        if let Self::Mark(EngineMark::ModelFinished { times, .. } | EngineMark::ModelFailed { times, .. }) =
            &mut self
        {
            *times = of_call;
        }
        self
    }

    /// The record with the end of this tool call, if it holds the call's result and no end yet.
    #[must_use]
    pub fn with_tool_end(mut self, call: &str, at_ms: u64) -> Self {
        if let Self::Event(Event::ToolResult { id_ref, ended_at_ms, .. })
        | Self::Mark(EngineMark::ToolFinished { id_ref, ended_at_ms, .. }) = &mut self
            && id_ref == call
        {
            ended_at_ms.get_or_insert(at_ms);
        }
        self
    }

    /// The record with the times of another one of its kind. Others stay as they are.
    #[must_use]
    pub fn with_times_of(mut self, other: &Self) -> Self {
        use EngineMark::{ModelFailed, ModelFinished, ToolFinished};
        match (&mut self, other) {
            (
                Self::Mark(ModelFinished { times, .. } | ModelFailed { times, .. }),
                Self::Mark(ModelFinished { times: others, .. } | ModelFailed { times: others, .. }),
            ) => *times = *others,
            (
                Self::Event(Event::ToolResult { ended_at_ms, .. })
                | Self::Mark(ToolFinished { ended_at_ms, .. }),
                Self::Event(Event::ToolResult { ended_at_ms: others, .. })
                | Self::Mark(ToolFinished { ended_at_ms: others, .. }),
            ) => *ended_at_ms = *others,
            _ => {}
        }
        self
    }
}

impl UsageByModel {
    /// Adds the usage in a log record. `job_model` applies to records without a model.
    pub fn add_record(&mut self, record: &Record, job_model: &str) {
        let Record::Mark(mark) = record else { return };
        let (model, usage) = match mark {
            EngineMark::ModelFinished { usage, model, .. } | EngineMark::ModelFailed { usage, model, .. } => {
                (model.as_deref(), *usage)
            }
            EngineMark::Spent { model, usage, .. } => (Some(model.as_str()), *usage),
            _ => return,
        };
        self.add(model.unwrap_or(job_model), usage);
    }
}

/// Kind of a streamed step.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// The model's reasoning.
    Thinking,
    /// The model's answer.
    Text,
    /// The arguments of a call that the client runs, as the model writes them.
    Arguments,
}

/// Status in a `status` event.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusPhase {
    /// Accepted; waits for a worker.
    Queued,
    /// A worker started or resumed it.
    Running,
    /// A model call failed and will be repeated, or the run failed and another attempt follows.
    Retrying,
    /// Tool calls wait for an approval.
    #[serde(rename = "waiting_approval")]
    WaitingApproval,
}

/// A step of a sub-agent.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStep {
    /// The tool call that the agent works for.
    pub id_ref: String,
    /// Name of the agent.
    pub agent: String,
    /// Index, from 0 for each agent.
    pub index: u32,
    /// What the agent did.
    #[serde(flatten)]
    pub act: AgentAction,
}

impl AgentStep {
    /// Whether the agent calls a tool.
    pub fn is_tool_call(&self) -> bool {
        matches!(self.act, AgentAction::ToolCall { .. })
    }
}

/// Kind of a sub-agent's step.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentAction {
    /// Complete reasoning.
    Thinking {
        /// The text.
        content: String,
    },
    /// Complete answer text.
    Text {
        /// The text.
        content: String,
    },
    /// A tool call.
    ToolCall {
        /// Tool name.
        name: String,
        /// Arguments, a JSON text.
        arguments: String,
    },
    /// A tool result.
    ToolResult {
        /// Tool name.
        name: String,
        /// Result, a JSON text.
        content: String,
    },
}

/// Why the model stopped, and how a finished job ended.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// `max_tokens` was reached.
    Length,
    /// The model wants tools to run first.
    ToolCalls,
    /// The provider withheld the rest.
    ContentFilter,
    /// Closing answer after `max_steps` model calls.
    MaxSteps,
    /// Closing answer after one tool call failed again and again.
    RepeatedFailure,
}

impl FinishReason {
    /// Whether a part of the answer is missing.
    pub fn is_cut_off(self) -> bool {
        matches!(self, Self::Length | Self::ContentFilter)
    }
}

/// Why a job ended without an answer; the `code` of its `error` event.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// A user cancelled it.
    Cancelled,
    /// `timeout_s` was reached.
    Timeout,
    /// The provider failed more often than the retry limit, or refused this server: key, account.
    ProviderError,
    /// The provider refused the request and would refuse it again.
    InvalidRequest,
    /// The provider's content filter refused the request.
    ContentFilter,
    /// The provider limited requests more often than the retry limit.
    RateLimited,
    /// The model is no longer configured, or its provider does not know it.
    ModelNotFound,
    /// The prompt exceeds the model's context window, and nothing may be left out.
    ContextTooLong,
    /// `max_total_tokens` was reached.
    MaxTotalTokens,
    /// `max_cost_micros` was reached.
    MaxCost,
    /// A job that it comes after did not succeed.
    DependencyFailed,
    /// `deadline_at` was reached.
    DeadlineExceeded,
    /// `expires_at` was reached before it started.
    Expired,
    /// The answer exceeded `limits.output_bytes`.
    OutputTooLarge,
    /// The server crashed three times in a row while the job ran.
    Poison,
    /// A stored record that is needed is damaged.
    DamagedData,
    /// Internal error; see the server's log.
    Internal,
}

impl FailureCode {
    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::ProviderError => "provider_error",
            Self::InvalidRequest => "invalid_request",
            Self::ContentFilter => "content_filter",
            Self::RateLimited => "rate_limited",
            Self::ModelNotFound => "model_not_found",
            Self::ContextTooLong => "context_too_long",
            Self::MaxTotalTokens => "max_total_tokens",
            Self::MaxCost => "max_cost",
            Self::DependencyFailed => "dependency_failed",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Expired => "expired",
            Self::OutputTooLarge => "output_too_large",
            Self::Poison => "poison",
            Self::DamagedData => "damaged_data",
            Self::Internal => "internal",
        }
    }
}

/// What clients see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The job changed its status.
    Status {
        /// The new status.
        status: StatusPhase,
        /// Attempt, from 1; 0 before the first run.
        attempt: u32,
        /// Reason, when the change is unusual.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Tool calls wait for an approval; sent as a `status` with [`StatusPhase::WaitingApproval`].
    WaitingApproval {
        /// As in [`Event::Status`].
        attempt: u32,
        /// Text for users: what waits, and how to decide.
        reason: String,
        /// Ids of the waiting calls.
        calls: Vec<String>,
    },
    /// The model began a call that the client runs. Its arguments follow as deltas of this step, and the
    /// whole call as a [`Event::ToolCall`] of this step. No other call begins before they are complete.
    CallBegun {
        /// Step index.
        index: u32,
        /// Name of the function.
        name: String,
    },
    /// A piece of a thinking or text step, or of a call's arguments.
    Delta {
        /// Step index within the job.
        index: u32,
        /// What the step is.
        kind: StepKind,
        /// UTF-8 bytes of the step before this piece.
        offset: u64,
        /// `seq` of the step's first piece. The store fills it in, so that readers find the start at once.
        #[serde(default)]
        first_seq: u64,
        /// The piece; never empty.
        text: String,
    },
    /// The model called a tool.
    ToolCall {
        /// Step index.
        index: u32,
        /// The call.
        #[serde(flatten)]
        call: ToolCall,
        /// The client runs it: the job ends with it, and there is no result.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_client: bool,
    },
    /// A tool returned a result.
    ToolResult {
        /// Step index.
        index: u32,
        /// Id of the call.
        id_ref: String,
        /// Tool name.
        name: String,
        /// Result, a JSON text: `{"success","data","error","execution_time"}`.
        content: String,
        /// The call did not run: a duplicate, or interrupted with unknown outcome.
        skipped: bool,
        /// When the call ended, unix milliseconds; absent for a call that was not made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_at_ms: Option<u64>,
    },
    /// The step of this index was cut off; clients drop it.
    StepDiscarded {
        /// Step index.
        index: u32,
    },
    /// The oldest messages are no longer sent to the model; this text replaces them.
    Summary {
        /// The model's summary, or a stub.
        content: String,
        /// How many of the newest messages of history and input are still sent.
        #[serde(rename = "kept")]
        kept_messages: usize,
        /// How many of the oldest messages of this job are no longer sent.
        #[serde(rename = "said")]
        omitted_messages: usize,
        /// The summary failed for some messages, so the text does not cover them. It applies to this job
        /// only.
        #[serde(default)]
        is_stub: bool,
    },
    /// A step of a sub-agent.
    AgentStep {
        /// The step.
        #[serde(flatten)]
        step: AgentStep,
        /// Of a tool result: when the tool ran. Older logs have no times.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<CallTimes>,
    },
    /// The job succeeded. Terminal.
    Done {
        /// Id of the stored answer, `msg_…`.
        message_id: super::id::MessageId,
        /// Completion tokens of the whole job.
        token_count: u64,
        /// Suggested title when the conversation has none.
        suggested_title: Option<String>,
        /// Tokens of the whole job.
        usage: Usage,
        /// How the answer ended.
        finish_reason: FinishReason,
        /// The text of the request's `stop` that ended the answer, if the provider has said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_sequence: Option<String>,
    },
    /// The job ended without an answer. Terminal.
    Error {
        /// Message for users.
        content: String,
        /// Code for programs.
        code: FailureCode,
        /// When the provider may be asked again, if it has said so, milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
}

impl Event {
    /// Whether no event may follow (P4).
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Error { .. })
    }
}

/// Records for the engine only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub enum EngineMark {
    /// A model call ended well: all steps since the last such mark are complete.
    ModelFinished {
        /// Why the model stopped.
        finish_reason: FinishReason,
        /// Usage of the call.
        usage: Usage,
        /// The model that answered; absent for the job's own model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The model that answered, as its provider names it, if it is not the one that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_model: Option<String>,
        /// Opaque data that the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<ProviderReplay>,
        /// As in [`Event::Done`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_sequence: Option<String>,
        /// When the model was called; absent for an answer that stands for a call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<CallTimes>,
    },
    /// A model call failed: all steps since the last such mark are discarded.
    ModelFailed {
        /// Message for clients.
        message: String,
        /// Error code of the job if there is no retry.
        code: FailureCode,
        /// Whether a retry may help.
        retryable: bool,
        /// Whether another model may succeed.
        #[serde(default)]
        elsewhere: bool,
        /// Usage of the failed call.
        #[serde(default)]
        usage: Usage,
        /// The model that was called; absent for the job's own model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// When it was called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<CallTimes>,
    },
    /// What tools said in the prompt when the job began to run: the list of skills, the memory; and the
    /// answers of other jobs that it shows. All its prompts have the same texts.
    Instructions {
        /// The texts in their order.
        texts: Vec<String>,
        /// The answers, as the prompt shows them.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        results: BTreeMap<JobId, String>,
    },
    /// The engine switched to this model after failures of the previous one.
    ModelSwitched {
        /// Configured model id.
        model: String,
    },
    /// The newest answer does not have the form that the request wants: its text is discarded, and the model
    /// is asked for another one.
    AnswerRefused {
        /// What is wrong with it, for the model.
        fault: String,
    },
    /// Tokens that belong to no step: a summary, a title, an answer lost in a crash.
    Spent {
        /// Configured model id.
        model: String,
        /// Usage.
        usage: Usage,
        /// The sub-agent's call that used them, also if it failed and used none. Absent in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentModelCall>,
    },
    /// The job was returned to the queue to wait. Counted failures stay.
    Deferred,
    /// A tool is about to run; recorded only for tools that are not idempotent.
    ToolStarted {
        /// Id of the call.
        id_ref: String,
    },
    /// Calls wait for an approval.
    ApprovalAsked {
        /// Ids of the calls.
        id_refs: Vec<String>,
    },
    /// Calls were approved.
    Approved {
        /// Ids of the calls.
        id_refs: Vec<String>,
        /// Tools whose later calls need no approval in this job.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        always: Vec<String>,
    },
    /// Calls were denied.
    Denied {
        /// Ids of the calls.
        id_refs: Vec<String>,
        /// Reason for the model.
        reason: String,
    },
    /// The model has seen this version of a file: it read or wrote it.
    FileSeen {
        /// Path below the workspace.
        path: String,
        /// Digest of the content.
        version: String,
    },
    /// The full text of a result that was cut for the model.
    ToolWhole {
        /// Its handle: [`super::handle::ResultHandle`].
        handle: String,
        /// The text.
        content: String,
    },
    /// A tool returned before its turn in call order.
    ToolFinished {
        /// Id of the call.
        id_ref: String,
        /// Result, a JSON text.
        content: String,
        /// See [`Event::ToolResult`].
        skipped: bool,
        /// See [`Event::ToolResult`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_at_ms: Option<u64>,
    },
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencedEvent {
    /// Number within the job: 1, 2, 3 …
    pub seq: u64,
    /// The event.
    pub event: Event,
    /// Of a terminal event: the head of the log that ends with it, if the log is chained.
    pub log_head: Option<ChainLink>,
}

impl SequencedEvent {
    /// An event of a log that is not chained, or not stored.
    pub fn new(seq: u64, event: Event) -> Self {
        Self { seq, event, log_head: None }
    }

    /// An event with the link of its record. Only that of a terminal event is shown.
    pub fn linked(seq: u64, event: Event, link: Option<ChainLink>) -> Self {
        let log_head = link.filter(|_| event.is_terminal());
        Self { seq, event, log_head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_of_an_older_log_lasts_for_its_calls_only() {
        let old = r#"{"mark":"approved","id_refs":["a"]}"#;
        let read: Record = serde_json::from_str(old).expect("parses");
        assert_eq!(read, EngineMark::Approved { id_refs: vec!["a".into()], always: Vec::new() }.into());
        assert_eq!(serde_json::to_string(&read).expect("serialises"), old, "and is written as before");
    }

    #[test]
    fn the_model_that_has_answered_is_written_only_if_it_is_another_one() {
        let plain = r#"{"mark":"model_finished","finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
        let read: Record = serde_json::from_str(plain).expect("an older log");
        assert_eq!(read, EngineMark::model_finished(FinishReason::Stop, Usage::new(1, 1), None).into());
        assert!(!serde_json::to_string(&read).expect("serialises").contains("response_model"));
        let named = plain.replace("}}", r#"},"response_model":"m-1"}"#);
        let Record::Mark(EngineMark::ModelFinished { response_model, .. }) =
            serde_json::from_str(&named).expect("parses")
        else {
            panic!("another record")
        };
        assert_eq!(response_model.as_deref(), Some("m-1"));
        let of_a_newer_version = plain.replace("}}", r#"},"not_known_yet":1}"#);
        assert_eq!(serde_json::from_str::<Record>(&of_a_newer_version).expect("parses"), read);
    }

    #[test]
    fn steps_of_agents_in_older_logs_have_no_times() {
        for old in [
            r#"{"event":"agent_step","id_ref":"a","agent":"x","index":0,"type":"text","content":"hi"}"#,
            r#"{"mark":"spent","model":"m","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#,
        ] {
            let read: Record = serde_json::from_str(old).expect("parses");
            let again = serde_json::to_value(&read).expect("serialises");
            assert!(again.get("times").is_none() && again.get("agent").is_none_or(|agent| agent == "x"));
        }
    }

    #[test]
    fn records_round_trip_through_json() {
        let (kind, text) = (StepKind::Arguments, "{\"n\":".to_owned());
        let act = AgentAction::ToolResult { name: "bash".into(), content: "{}".into() };
        let step = AgentStep { id_ref: "call_1".into(), agent: "x".into(), index: 7, act };
        let times = CallTimes { started_at_ms: 1, ended_at_ms: 2 };
        let (id_ref, response_model) = ("call_1".to_owned(), Some("m-1".to_owned()));
        let agent = AgentModelCall { id_ref, agent: "x".into(), response_model, has_failed: true, times };
        let records: Vec<Record> = vec![
            Event::CallBegun { index: 3, name: "look".into() }.into(),
            Event::Delta { index: 3, kind, offset: 0, first_seq: 5, text }.into(),
            Event::Delta { index: 2, kind: StepKind::Text, offset: 3, first_seq: 4, text: "é\u{0}".into() }
                .into(),
            EngineMark::ToolStarted { id_ref: "call_1".into() }.into(),
            Event::AgentStep { step, times: Some(times) }.into(),
            EngineMark::Spent { model: "m".into(), usage: Usage::new(1, 2), agent: Some(agent) }.into(),
            EngineMark::Approved { id_refs: vec!["call_1".into()], always: vec!["bash".into()] }.into(),
            Event::Error { content: "x".into(), code: FailureCode::MaxTotalTokens, retry_after_ms: None }
                .into(),
        ];
        for record in records {
            let text = serde_json::to_string(&record).expect("serialises");
            assert_eq!(serde_json::from_str::<Record>(&text).expect("parses"), record, "{text}");
        }
    }
}
