//! The object of a whole chat completion.

use super::super::answer::finished::FinishedAnswer;
use super::super::usage::CompletionUsage;
use crate::domain::event::{FinishReason, StepKind};
use crate::domain::id::JobId;
use crate::domain::tool::ToolCall;
use serde::Serialize;

/// What ids of completions begin with, before the id of the job.
const PREFIX: &str = "chatcmpl-";

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ChatCompletion {
    /// `chatcmpl-` and the id of the job.
    pub(super) id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: CompletionUsage,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct ChatChoice {
    index: u32,
    message: ChatAnswer,
    logprobs: Option<bool>,
    finish_reason: &'static str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct ChatAnswer {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatAnswerCall>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(super) struct ChatAnswerCall {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: ChatAnswerFunction,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(super) struct ChatAnswerFunction {
    pub(super) name: String,
    pub(super) arguments: String,
}

impl From<ToolCall> for ChatAnswerCall {
    fn from(call: ToolCall) -> Self {
        let function = ChatAnswerFunction { name: call.name, arguments: call.arguments };
        Self { id: call.id_ref, kind: "function", function }
    }
}

impl ChatCompletion {
    pub(super) fn new(answer: FinishedAnswer) -> Self {
        let FinishedAnswer { job, parts, ending } = answer;
        let (text, reasoning) = (parts.joined(StepKind::Text), parts.joined(StepKind::Thinking));
        let calls = parts.calls;
        let content = (!text.is_empty() || calls.is_empty()).then_some(text);
        let message = ChatAnswer {
            role: "assistant",
            content,
            refusal: None,
            reasoning_content: reasoning,
            tool_calls: calls.into_iter().map(ChatAnswerCall::from).collect(),
        };
        let finish_reason = finish_reason(ending.reason);
        let choice = ChatChoice { index: 0, message, logprobs: None, finish_reason };
        Self {
            id: completion_id(job.id),
            object: "chat.completion",
            created: job.created_at_ms / 1_000,
            model: job.model,
            choices: vec![choice],
            usage: job.usage.into(),
        }
    }
}

/// The id of a job's completion.
pub(super) fn completion_id(job: JobId) -> String {
    format!("{PREFIX}{job}")
}

/// The job of a completion's id.
pub(super) fn job_of(id: &str) -> Option<JobId> {
    id.strip_prefix(PREFIX)?.parse().ok()
}

/// The reason in the words of chat completions. A closing answer is an answer.
pub(super) fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::MaxSteps | FinishReason::RepeatedFailure => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
    }
}
