//! What every dialect is told of its provider. Owns the bounds of one answer and the words for passing them; refuses to
//! know where the provider is.

use super::wire::tether::Patience;
use crate::domain::secret::Secret;
use crate::ports::ModelError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a provider needs beside its endpoint.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// The key; empty for none.
    pub(super) key: Secret,
    /// What the provider is asked for.
    pub(super) upstream_id: String,
    /// The provider's bound of one answer, tokens.
    pub(super) max_output_tokens: Option<u32>,
    /// Fields that are added to every request, or replace what the dialect would send.
    pub(super) extra_body: Map<String, Value>,
    /// Headers over the dialect's in every request; they have been checked.
    pub(super) extra_headers: BTreeMap<String, Secret>,
    /// Whether calls that are written as text are taken for calls.
    pub(super) text_calls: bool,
    /// How long to wait.
    pub(super) patience: Patience,
    /// How much to take.
    pub(super) bounds: Bounds,
}

/// Bounds of one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Text, thinking and arguments together, bytes.
    pub(super) output_bytes: usize,
    /// Calls.
    pub(super) tool_calls: usize,
    /// Arguments of one call, bytes.
    pub(super) tool_arguments_bytes: usize,
}

impl Bounds {
    /// Whether an answer may have so many bytes.
    pub(super) fn check_output(&self, bytes: usize) -> Result<(), ModelError> {
        let bound = self.output_bytes;
        within(bytes, bound, || format!("the model's answer is longer than {bound} bytes"))
    }

    /// Whether an answer may have so many calls.
    pub(super) fn check_calls(&self, count: usize) -> Result<(), ModelError> {
        let bound = self.tool_calls;
        within(count, bound, || format!("the model asked for more than {bound} tool calls at once"))
    }

    /// Whether the arguments of a call may have so many bytes.
    pub(super) fn check_arguments(&self, bytes: usize) -> Result<(), ModelError> {
        let bound = self.tool_arguments_bytes;
        within(bytes, bound, || format!("the arguments of a tool call are longer than {bound} bytes"))
    }
}

fn within(size: usize, bound: usize, told: impl FnOnce() -> String) -> Result<(), ModelError> {
    if size > bound { Err(ModelError::TooLarge(told())) } else { Ok(()) }
}
