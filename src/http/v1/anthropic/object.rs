//! The object of a whole message, and the parts that its stream shares with it.

use super::tools;
use crate::domain::event::{FinishReason, StepKind};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::http::v1::openai::answer::ending::AnswerEnding;
use crate::http::v1::openai::answer::finished::FinishedAnswer;
use serde::Serialize;
use serde_json::Value;

/// What the client sees of the model's reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingView {
    /// Nothing: it was not asked for.
    Hidden,
    Shown,
    /// Blocks without their text.
    Omitted,
}

/// A message. Fields that are always `null` belong to the type of the API.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct MessageObject {
    /// `msg_` and the number of the job.
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: String,
    content: Vec<MessageBlock>,
    stop_reason: Option<&'static str>,
    /// The text of `stop_sequences` that ended the answer, if the model's provider says so.
    stop_sequence: Option<String>,
    stop_details: Option<Value>,
    container: Option<Value>,
    usage: MessageUsage,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessageBlock {
    Text { text: String, citations: Option<Vec<Value>> },
    Thinking { thinking: String, signature: String },
    ToolUse { id: String, name: String, input: Value, caller: CallOrigin },
}

/// Who calls a tool: always the model itself.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct CallOrigin {
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Tokens of all model calls of the job.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct MessageUsage {
    /// Without those from the provider's cache.
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation: Option<Value>,
    output_tokens_details: OutputTokensDetails,
    server_tool_use: Option<Value>,
    service_tier: Option<Value>,
    inference_geo: Option<Value>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct OutputTokensDetails {
    thinking_tokens: u64,
}

/// The answer of `/v1/messages/count_tokens`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct TokenCountResponse {
    /// An estimate.
    pub(super) input_tokens: u64,
}

impl From<Usage> for MessageUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.prompt_tokens.saturating_sub(usage.cached_tokens),
            output_tokens: usage.completion_tokens,
            cache_read_input_tokens: usage.cached_tokens,
            output_tokens_details: OutputTokensDetails { thinking_tokens: usage.reasoning_tokens },
            ..Self::default()
        }
    }
}

impl MessageBlock {
    pub(super) fn text(text: String) -> Self {
        Self::Text { text, citations: None }
    }

    pub(super) fn tool_use(call: &ToolCall, input: Value) -> Self {
        let (id, name) = (tools::shown_id(&call.id_ref), call.name.clone());
        Self::ToolUse { id, name, input, caller: CallOrigin { kind: "direct" } }
    }
}

impl MessageObject {
    pub(super) fn new(answer: FinishedAnswer, view: ThinkingView) -> Self {
        let FinishedAnswer { job, parts, ending } = answer;
        let mut content = Vec::new();
        for (kind, text) in parts.texts {
            match (kind, view) {
                (StepKind::Text, _) => match content.last_mut() {
                    // Reasoning that is not shown stood between them.
                    Some(MessageBlock::Text { text: before, .. }) => before.push_str(&text),
                    _ => content.push(MessageBlock::text(text)),
                },
                (StepKind::Thinking, ThinkingView::Hidden) | (StepKind::Arguments, _) => {}
                (StepKind::Thinking, view) => {
                    let thinking = if view == ThinkingView::Shown { text } else { String::new() };
                    content.push(MessageBlock::Thinking { thinking, signature: signature(job.id) });
                }
            }
        }
        let calls = parts.calls.iter();
        content.extend(calls.map(|call| MessageBlock::tool_use(call, ToolCall::object_of(&call.arguments))));
        let (stop_reason, usage) = (Some(stop_reason(&ending)), job.usage.into());
        Self { content, stop_reason, stop_sequence: ending.stop_sequence, usage, ..Self::begun(&job, 0) }
    }

    /// The message before its first block, with an estimate of its prompt's tokens.
    pub(super) fn begun(job: &Job, input_tokens: u64) -> Self {
        Self {
            id: job.id.message_id().to_string(),
            kind: "message",
            role: "assistant",
            model: job.model.clone(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            stop_details: None,
            container: None,
            usage: MessageUsage { input_tokens, ..MessageUsage::default() },
        }
    }
}

/// The signature of this server's thinking blocks. What a provider signed stays in the job's log, and calls
/// that come back lead to it.
pub(super) fn signature(job: JobId) -> String {
    job.to_string()
}

/// The reason in the words of this API. A closing answer is an answer.
pub(super) fn stop_reason(ending: &AnswerEnding) -> &'static str {
    match ending.reason {
        FinishReason::Stop if ending.stop_sequence.is_some() => "stop_sequence",
        FinishReason::Stop | FinishReason::MaxSteps | FinishReason::RepeatedFailure => "end_turn",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::ContentFilter => "refusal",
    }
}
