//! The answer of a job as the endpoint of its line would have given it. Job, chat completion and response
//! have the same text and usage.

use crate::domain::batch::BatchEndpoint;
use crate::domain::event::{Event, FinishReason};
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_object::JobObject;
use crate::domain::usage::Usage;
use crate::http::v1::jobs::view;
use crate::ports::{Store, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;

/// An answer.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum LineAnswer {
    Completion(Box<LineCompletion>),
    Response(Box<LineResponse>),
    Job(Box<JobObject>),
}

impl LineAnswer {
    /// The answer of a job that succeeded. Reads the store.
    pub(crate) fn read(store: &dyn Store, job: Job, endpoint: BatchEndpoint) -> Result<Self, StoreError> {
        if endpoint == BatchEndpoint::Jobs {
            return Ok(Self::Job(Box::new(view::read(store, job)?)));
        }
        let text = store.output(job.id)?.unwrap_or_default();
        let reason = finish_reason(store, &job)?;
        Ok(match endpoint {
            BatchEndpoint::Responses => Self::Response(Box::new(LineResponse::new(job, text, reason))),
            _ => Self::Completion(Box::new(LineCompletion::new(job, text, reason))),
        })
    }
}

/// Why the answer ended, as its last event says.
fn finish_reason(store: &dyn Store, job: &Job) -> Result<FinishReason, StoreError> {
    let last = store.events(job.id, job.last_event_id.saturating_sub(1), 1)?.events.pop();
    Ok(match last.map(|last| last.event) {
        Some(Event::Done { finish_reason, .. }) => finish_reason,
        _ => FinishReason::Stop,
    })
}

/// A chat completion.
#[derive(Serialize)]
pub(crate) struct LineCompletion {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: [CompletionChoice; 1],
    usage: LineCompletionUsage,
}

#[derive(Serialize)]
struct CompletionChoice {
    index: u32,
    message: CompletionMessage,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct CompletionMessage {
    role: &'static str,
    content: String,
    refusal: Option<()>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "as `OpenAI` names them")]
struct LineCompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

impl LineCompletion {
    fn new(job: Job, text: String, reason: FinishReason) -> Self {
        let finish_reason = match reason {
            FinishReason::Length => "length",
            FinishReason::ContentFilter => "content_filter",
            _ => "stop",
        };
        let Usage { prompt_tokens, completion_tokens, total_tokens, .. } = job.usage;
        let message = CompletionMessage { role: "assistant", content: text, refusal: None };
        Self {
            id: format!("chatcmpl-{}", job.id),
            object: "chat.completion",
            created: job.created_at_ms / 1_000,
            model: job.model,
            choices: [CompletionChoice { index: 0, message, logprobs: None, finish_reason }],
            usage: LineCompletionUsage { prompt_tokens, completion_tokens, total_tokens },
        }
    }
}

/// A response.
#[derive(Serialize)]
pub(crate) struct LineResponse {
    id: String,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: Option<()>,
    incomplete_details: Option<IncompleteReason>,
    instructions: Option<()>,
    model: String,
    output: [ResponseMessage; 1],
    parallel_tool_calls: bool,
    tool_choice: &'static str,
    tools: [(); 0],
    metadata: BTreeMap<String, String>,
    usage: ResponseUsage,
}

#[derive(Serialize)]
struct IncompleteReason {
    reason: &'static str,
}

#[derive(Serialize)]
struct ResponseMessage {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    status: &'static str,
    content: [ResponseText; 1],
}

#[derive(Serialize)]
struct ResponseText {
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
    annotations: [(); 0],
}

#[derive(Serialize)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: CachedTokens,
    output_tokens: u64,
    output_tokens_details: ReasoningTokens,
    total_tokens: u64,
}

#[derive(Serialize)]
struct CachedTokens {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct ReasoningTokens {
    reasoning_tokens: u64,
}

impl LineResponse {
    fn new(job: Job, text: String, reason: FinishReason) -> Self {
        let incomplete = match reason {
            FinishReason::Length => Some("max_output_tokens"),
            FinishReason::ContentFilter => Some("content_filter"),
            _ => None,
        };
        let status = if incomplete.is_some() { "incomplete" } else { "completed" };
        let content = [ResponseText { kind: "output_text", text, annotations: [] }];
        let id = job.id.message_id().to_string();
        Self {
            id: format!("resp_{}", job.id),
            object: "response",
            created_at: job.created_at_ms / 1_000,
            status,
            error: None,
            incomplete_details: incomplete.map(|reason| IncompleteReason { reason }),
            instructions: None,
            model: job.model,
            output: [ResponseMessage { id, kind: "message", role: "assistant", status, content }],
            parallel_tool_calls: true,
            tool_choice: "auto",
            tools: [],
            metadata: job.metadata,
            usage: ResponseUsage {
                input_tokens: job.usage.prompt_tokens,
                input_tokens_details: CachedTokens { cached_tokens: 0, cache_write_tokens: 0 },
                output_tokens: job.usage.completion_tokens,
                output_tokens_details: ReasoningTokens { reasoning_tokens: 0 },
                total_tokens: job.usage.total_tokens,
            },
        }
    }
}

/// The form of request ids in results of `OpenAI`.
pub(crate) fn request_id(job: JobId) -> String {
    job.to_string().replacen(JobId::PREFIX, "batch_req_", 1)
}

/// The status of a job's result.
pub(crate) fn status_code(job: &Job) -> u16 {
    match job.status {
        JobStatus::Succeeded => 200,
        JobStatus::Cancelled => 499,
        _ => 500,
    }
}
