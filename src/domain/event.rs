//! The event log's vocabulary (DESIGN §4). Owns what is recorded of a job; refuses to number it (the store does)
//! and to render it (HTTP does).
//!
//! A job's log holds two kinds of record. *Events* are what clients see: they carry a `seq` that starts at 1 and has
//! no gap. *Marks* are what only the engine needs to go on after a crash: they stand between events and have no `seq`,
//! so that a client which counts ids misses nothing.

use super::message::ProviderReplay;
use super::tool::ToolCall;
use super::usage::Usage;
use serde::{Deserialize, Serialize};

/// One record of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Record {
    /// Seen by clients, numbered.
    Event(Event),
    /// For the engine alone, not numbered.
    Mark(EngineMark),
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl From<EngineMark> for Record {
    fn from(mark: EngineMark) -> Self {
        Self::Mark(mark)
    }
}

/// The kinds of streamed step.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// The model's reasoning.
    Thinking,
    /// The model's answer.
    Text,
}

/// What a `status` event tells.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusPhase {
    /// Accepted, waiting for a worker.
    Queued,
    /// A worker has begun, or has gone on.
    Running,
    /// A call to the model failed and will be made again, or a run failed and another attempt will follow.
    Retrying,
    /// Calls of tools wait for somebody's approval.
    #[serde(rename = "waiting_approval")]
    WaitingApproval,
}

/// What an agent that works for a tool call did.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStep {
    /// The call that it works for.
    pub id_ref: String,
    /// Its name.
    pub agent: String,
    /// Counted from 0 for each agent.
    pub index: u32,
    /// What it did.
    #[serde(flatten)]
    pub act: AgentAction,
}

/// The kinds of an agent's steps.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentAction {
    /// It thought, whole.
    Thinking {
        /// What.
        content: String,
    },
    /// It said, whole.
    Text {
        /// What.
        content: String,
    },
    /// It asked for a tool.
    ToolCall {
        /// The tool.
        name: String,
        /// A JSON text.
        arguments: String,
    },
    /// The tool answered.
    ToolResult {
        /// The tool.
        name: String,
        /// A JSON text.
        content: String,
    },
}

/// Why the model stopped, and so how a finished job ended.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had said all.
    Stop,
    /// It ran into `max_tokens`.
    Length,
    /// It wants tools run first.
    ToolCalls,
    /// The provider withheld the rest.
    ContentFilter,
    /// The answer is the closing one after `max_steps` model calls.
    MaxSteps,
    /// The answer is the closing one of a run that made the same failing call again and again.
    RepeatedFailure,
}

/// Why a job ended without an answer; also the `code` of its `error` event.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// Somebody asked for it.
    Cancelled,
    /// `timeout_s` was up.
    Timeout,
    /// The provider refused, or failed more often than the retry budget allows.
    ProviderError,
    /// The job names a model that the configuration no longer has.
    ModelNotFound,
    /// The prompt does not fit into the model's context window, and nothing of it may be left out.
    ContextTooLong,
    /// `max_total_tokens` were spent.
    MaxTotalTokens,
    /// The answer passed `limits.output_bytes`.
    OutputTooLarge,
    /// The job was running at three crashes in a row.
    Poison,
    /// A fault of this server; the log has details.
    Internal,
}

impl FailureCode {
    /// The word that clients read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::ProviderError => "provider_error",
            Self::ModelNotFound => "model_not_found",
            Self::ContextTooLong => "context_too_long",
            Self::MaxTotalTokens => "max_total_tokens",
            Self::OutputTooLarge => "output_too_large",
            Self::Poison => "poison",
            Self::Internal => "internal",
        }
    }
}

/// What clients see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The job went into another phase.
    Status {
        /// Which.
        status: StatusPhase,
        /// Counted from 1 at the first run; 0 while it has never run.
        attempt: u32,
        /// Why, when it is not the ordinary way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Calls of tools wait for somebody's approval; clients read it as a `status` of [`StatusPhase::WaitingApproval`].
    WaitingApproval {
        /// As in [`Event::Status`].
        attempt: u32,
        /// For people: what waits, and how it is decided.
        reason: String,
        /// Which calls.
        calls: Vec<String>,
    },
    /// A piece of a thinking or text step.
    Delta {
        /// The step's index within the job.
        index: u32,
        /// Thinking or text.
        kind: StepKind,
        /// UTF-8 bytes of the step before this piece.
        offset: u64,
        /// The `seq` of the step's first piece; the store fills it in, so that readers find the start at once.
        #[serde(default)]
        first_seq: u64,
        /// The piece, never empty.
        text: String,
    },
    /// The model asked for a tool.
    ToolCall {
        /// The step's index.
        index: u32,
        /// The call.
        #[serde(flatten)]
        call: ToolCall,
    },
    /// A tool answered.
    ToolResult {
        /// The step's index.
        index: u32,
        /// The call that it answers.
        id_ref: String,
        /// The tool.
        name: String,
        /// The result, a JSON text: `{"success","data","error","execution_time"}`.
        content: String,
        /// The call was not run (a duplicate, or interrupted with unknown outcome).
        skipped: bool,
    },
    /// The step of this index was cut off; drop it.
    StepDiscarded {
        /// The step's index.
        index: u32,
    },
    /// The oldest messages were left out of what the model is sent from here on; this stands for them.
    Summary {
        /// The model's summary of them, or a word on what was left out.
        content: String,
        /// Of the history and the input, so many of the newest messages are still sent.
        kept: usize,
        /// Of what this job has said and done, so many of the oldest messages are not sent any more.
        said: usize,
        /// Of some messages a summary could not be had: the content does not tell of them. It stands for this job alone.
        #[serde(default)]
        is_stub: bool,
    },
    /// An agent that works for a tool call did something.
    AgentStep(AgentStep),
    /// The job has its answer. Terminal.
    Done {
        /// The stored answer, `msg_…`.
        message_id: super::id::MessageId,
        /// Completion tokens of the whole job.
        token_count: u64,
        /// A title for the conversation, when it has none yet.
        suggested_title: Option<String>,
        /// Tokens of the whole job.
        usage: Usage,
        /// How the answer ended.
        finish_reason: FinishReason,
    },
    /// The job ended without an answer. Terminal.
    Error {
        /// For people.
        content: String,
        /// For programs.
        code: FailureCode,
    },
}

impl Event {
    /// Whether no event may follow (P4).
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Error { .. })
    }
}

/// What only the engine needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub enum EngineMark {
    /// A call to the model ended well: the steps since the last such mark are complete.
    ModelFinished {
        /// How it stopped.
        finish_reason: FinishReason,
        /// What it cost.
        usage: Usage,
        /// Who answered; the model that the job names when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What its provider wants back with the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<ProviderReplay>,
    },
    /// A call to the model failed: the steps since the last such mark are to be discarded.
    ModelFailed {
        /// What the client may be told.
        message: String,
        /// What the job fails with when it is not tried again.
        code: FailureCode,
        /// Whether another try can help.
        retryable: bool,
        /// Whether another model may do what this one cannot.
        #[serde(default)]
        elsewhere: bool,
        /// What it cost all the same.
        #[serde(default)]
        usage: Usage,
        /// Who was asked; the model that the job names when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// From here on this model is asked: the one before it failed too often.
    ModelSwitched {
        /// A configured model's id.
        model: String,
    },
    /// Spent on something that is no step of the job: a summary, a title, an answer that a crash cut off.
    Spent {
        /// A configured model's id.
        model: String,
        /// What it cost.
        usage: Usage,
    },
    /// The job was given back to wait; its next run goes on with the failures counted so far.
    Deferred,
    /// The tool is about to run; recorded only for tools that are not idempotent.
    ToolStarted {
        /// Which call.
        id_ref: String,
    },
    /// Calls wait for somebody's approval.
    ApprovalAsked {
        /// Which.
        id_refs: Vec<String>,
    },
    /// Calls may be made.
    Approved {
        /// Which.
        id_refs: Vec<String>,
    },
    /// Calls may not be made.
    Denied {
        /// Which.
        id_refs: Vec<String>,
        /// Why, for the model.
        reason: String,
    },
    /// A tool's result was too long for the model: this is what was cut of it, whole.
    ToolWhole {
        /// What names it: [`super::handle::ResultHandle`].
        handle: String,
        /// The text.
        content: String,
    },
    /// The tool has answered, before its turn in call order.
    ToolFinished {
        /// Which call.
        id_ref: String,
        /// The result, a JSON text.
        content: String,
        /// See [`Event::ToolResult`].
        skipped: bool,
    },
}

/// An event with the number under which clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencedEvent {
    /// 1, 2, 3 … within the job.
    pub seq: u64,
    /// The event.
    pub event: Event,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_through_json() {
        let records: Vec<Record> = vec![
            Event::Delta { index: 2, kind: StepKind::Text, offset: 3, first_seq: 4, text: "é\u{0}".into() }
                .into(),
            EngineMark::ToolStarted { id_ref: "call_1".into() }.into(),
            Event::Error { content: "x".into(), code: FailureCode::MaxTotalTokens }.into(),
        ];
        for record in records {
            let text = serde_json::to_string(&record).expect("serialises");
            assert_eq!(serde_json::from_str::<Record>(&text).expect("parses"), record, "{text}");
        }
    }
}
