//! Passes the pieces of an answer to its reader, within the limits of an answer. Both dialects use it.

use super::transport::error_mapper::unavailable;
use crate::domain::event::FinishReason;
use crate::ports::{Chunk, ChunkSink, ModelError};

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
    /// Fails when an answer has too many calls.
    pub(super) fn check_calls(&self, count: usize) -> Result<(), ModelError> {
        let limit = self.tool_calls;
        check(count, limit, || format!("the model asked for more than {limit} tool calls at once"))
    }

    /// Fails when the arguments of a call are too large.
    pub(super) fn check_arguments(&self, bytes: usize) -> Result<(), ModelError> {
        let limit = self.tool_arguments_bytes;
        check(bytes, limit, || format!("the arguments of a tool call are longer than {limit} bytes"))
    }
}

fn check(size: usize, limit: usize, message: impl FnOnce() -> String) -> Result<(), ModelError> {
    if size > limit { Err(ModelError::TooLarge(message())) } else { Ok(()) }
}

/// The reader of an answer, and the size of what it has got.
pub(super) struct AnswerOutput<'a> {
    sink: ChunkSink<'a>,
    pub(super) limits: AnswerLimits,
    pub(super) bytes: usize,
}

impl<'a> AnswerOutput<'a> {
    pub(super) fn new(sink: ChunkSink<'a>, limits: AnswerLimits) -> Self {
        Self { sink, limits, bytes: 0 }
    }

    /// Counts bytes of the answer. Fails when it is too large.
    pub(super) fn count(&mut self, added: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(added);
        let limit = self.limits.output_bytes;
        check(self.bytes, limit, || format!("the model's answer is longer than {limit} bytes"))
    }

    /// Passes a piece to the reader. An empty text is dropped.
    pub(super) fn emit(&mut self, chunk: Chunk<'_>) -> Result<(), ModelError> {
        let is_empty = matches!(chunk, Chunk::Text("") | Chunk::Thinking(""));
        if !is_empty && (self.sink)(chunk).is_break() { Err(ModelError::Stopped) } else { Ok(()) }
    }
}

/// The finish reason that agrees with the calls of the answer.
pub(super) fn reason_by_calls(reason: FinishReason, has_calls: bool) -> FinishReason {
    match reason {
        FinishReason::Stop if has_calls => FinishReason::ToolCalls,
        FinishReason::ToolCalls if !has_calls => FinishReason::Stop,
        other => other,
    }
}

/// The error of an answer without an end that the provider sent.
pub(super) fn cut_off() -> ModelError {
    unavailable("the model's answer was cut off")
}
