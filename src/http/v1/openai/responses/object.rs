//! The response object.

use super::ids::response_id;
use crate::domain::event::{FailureCode, FinishReason};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::response_request::ResponseRequest;
use crate::domain::usage::Usage;
use serde_json::{Map, Value, json};

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResponseEnd {
    Answered { reason: FinishReason, usage: Usage },
    Failed { code: FailureCode, message: String, retry_after_ms: Option<u64> },
}

/// All of a response but its output.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) job: JobId,
    created_at: u64,
    model: String,
    shown: Map<String, Value>,
    pub(super) is_background: bool,
    pub(super) has_started: bool,
    pub(super) end: Option<ResponseEnd>,
    pub(super) finished_at_ms: Option<u64>,
    /// The tokens of a job that ended.
    pub(super) usage: Option<Usage>,
}

impl ResponseHead {
    pub(super) fn new(job: &Job, request: &ResponseRequest) -> Self {
        Self {
            job: job.id,
            created_at: job.created_at_ms / 1_000,
            model: job.model.clone(),
            shown: request.shown.clone(),
            is_background: request.is_background,
            has_started: false,
            end: None,
            finished_at_ms: None,
            usage: None,
        }
    }

    /// The status in `OpenAI`'s words.
    pub(super) fn state(&self) -> &'static str {
        match &self.end {
            Some(ResponseEnd::Answered { reason, .. }) if reason.is_cut_off() => "incomplete",
            Some(ResponseEnd::Answered { .. }) => "completed",
            Some(ResponseEnd::Failed { code: FailureCode::Cancelled, .. }) => "cancelled",
            Some(ResponseEnd::Failed { .. }) => "failed",
            None if self.is_background && !self.has_started => "queued",
            None => "in_progress",
        }
    }

    /// The response object.
    pub(super) fn to_json(&self, output: &[Value]) -> Value {
        let mut object = self.shown.clone();
        let (mut incomplete, mut error, mut usage) = (Value::Null, Value::Null, None);
        match &self.end {
            Some(ResponseEnd::Answered { reason, usage: used }) => {
                usage = Some(*used);
                match reason {
                    FinishReason::Length => incomplete = json!({"reason": "max_output_tokens"}),
                    FinishReason::ContentFilter => incomplete = json!({"reason": "content_filter"}),
                    _ => {}
                }
            }
            Some(ResponseEnd::Failed { code, message, .. }) => {
                usage = self.usage;
                if *code != FailureCode::Cancelled {
                    error = json!({"code": error_code(*code), "message": format!("{}: {message}", code.as_str())});
                }
            }
            None => {}
        }
        let completed_at = self.finished_at_ms.filter(|_| self.end.is_some()).map(|at| at / 1_000);
        for (name, value) in [
            ("id", json!(response_id(self.job))),
            ("object", json!("response")),
            ("created_at", json!(self.created_at)),
            ("completed_at", json!(completed_at)),
            ("status", json!(self.state())),
            ("model", json!(self.model)),
            ("output", json!(output)),
            ("error", error),
            ("incomplete_details", incomplete),
            ("usage", usage.map(usage_json).unwrap_or_default()),
        ] {
            object.insert(name.to_owned(), value);
        }
        Value::Object(object)
    }
}

/// The code in `OpenAI`'s closed list; the message begins with our own.
fn error_code(code: FailureCode) -> &'static str {
    match code {
        FailureCode::ContextTooLong
        | FailureCode::ModelNotFound
        | FailureCode::InvalidRequest
        | FailureCode::ContentFilter => "invalid_prompt",
        FailureCode::RateLimited => "rate_limit_exceeded",
        _ => "server_error",
    }
}

/// Token counts in the form of responses.
pub(super) fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    })
}
