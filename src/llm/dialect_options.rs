//! The options that all dialects share, and the limits of one answer.

use crate::domain::secret::Secret;
use crate::net::CallTimeouts;
use crate::ports::ModelError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a dialect needs to know beside the endpoint.
#[derive(Debug, Clone)]
pub(super) struct DialectOptions {
    /// The API key; empty for none.
    pub(super) key: Secret,
    /// The model's name at the provider.
    pub(super) upstream_id: String,
    /// The provider's limit of one answer, tokens.
    pub(super) max_output_tokens: Option<u32>,
    /// Fields that are added to every request or replace the dialect's.
    pub(super) extra_body: Map<String, Value>,
    /// Validated headers that replace the dialect's in every request.
    pub(super) extra_headers: BTreeMap<String, Secret>,
    /// Whether tool calls in the text are recognized.
    pub(super) text_calls: bool,
    /// Timeouts of a call.
    pub(super) timeouts: CallTimeouts,
    /// Limits of an answer.
    pub(super) limits: AnswerLimits,
}

/// Limits of one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerLimits {
    /// Text, thinking and arguments together, bytes.
    pub(super) output_bytes: usize,
    /// Number of tool calls.
    pub(super) tool_calls: usize,
    /// Arguments of one call, bytes.
    pub(super) tool_arguments_bytes: usize,
}

impl AnswerLimits {
    /// Fails when an answer of this size is too large.
    pub(super) fn check_output(&self, bytes: usize) -> Result<(), ModelError> {
        let bound = self.output_bytes;
        within(bytes, bound, || format!("the model's answer is longer than {bound} bytes"))
    }

    /// Fails when an answer has too many calls.
    pub(super) fn check_calls(&self, count: usize) -> Result<(), ModelError> {
        let bound = self.tool_calls;
        within(count, bound, || format!("the model asked for more than {bound} tool calls at once"))
    }

    /// Fails when the arguments of a call are too large.
    pub(super) fn check_arguments(&self, bytes: usize) -> Result<(), ModelError> {
        let bound = self.tool_arguments_bytes;
        within(bytes, bound, || format!("the arguments of a tool call are longer than {bound} bytes"))
    }
}

fn within(size: usize, bound: usize, told: impl FnOnce() -> String) -> Result<(), ModelError> {
    if size > bound { Err(ModelError::TooLarge(told())) } else { Ok(()) }
}

/// Timeouts of a call to a model. Anything but progress (comments, pings, empty pieces) is accepted for five idle timeouts:
/// providers whose callers wait in line send comments for minutes.
pub(super) fn call_timeouts(connect: Duration, idle: Duration) -> CallTimeouts {
    CallTimeouts { connect, dial: connect, idle, stall: idle.saturating_mul(5) }
}
