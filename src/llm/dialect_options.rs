//! The options that all dialects share.

use super::answer_output::AnswerLimits;
use crate::domain::secret::Secret;
use crate::net::CallTimeouts;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Options of a model, in addition to its endpoint.
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

/// Timeouts of a call to a model. Providers with a queue send comments for minutes, so an answer without
/// progress stalls after five idle timeouts only.
pub(super) fn call_timeouts(connect: Duration, idle: Duration) -> CallTimeouts {
    CallTimeouts { connect, dial: connect, idle, stall: idle.saturating_mul(5) }
}
