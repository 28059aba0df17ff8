//! An answer as its chunks make it. Owns what counts as a complete one; refuses to invent an end that the provider
//! did not send.

use super::Bounds;
use super::calls::Calls;
use super::chunk::{Choice, Chunk};
use crate::domain::event::FinishReason;
use crate::domain::usage::Usage;
use crate::llm::wire::failure::{Teller, unavailable};
use crate::ports::{self, Completion, ModelError, ModelRequest, Sink};
use serde_json::Value;

/// How a stream said that it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A finish reason that is an answer's.
    Finished(FinishReason),
    /// A finish reason that means a failure of the provider.
    Failed,
}

/// The answer so far.
pub(super) struct Answer<'a> {
    sink: Sink<'a>,
    bounds: Bounds,
    teller: &'a Teller,
    request: &'a ModelRequest,
    bytes: usize,
    calls: Calls,
    end: Option<End>,
    usage: Usage,
}

impl<'a> Answer<'a> {
    /// Nothing yet.
    pub(super) fn new(sink: Sink<'a>, bounds: Bounds, teller: &'a Teller, request: &'a ModelRequest) -> Self {
        let calls = Calls::new(bounds);
        Self { sink, bounds, teller, request, bytes: 0, calls, end: None, usage: Usage::default() }
    }

    /// What to tell of a failed read.
    pub(super) fn teller(&self) -> &Teller {
        self.teller
    }

    /// Whether a finish reason has come.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Takes in a chunk, or a whole answer.
    pub(super) fn absorb(&mut self, json: &str) -> Result<(), ModelError> {
        let chunk: Chunk = serde_json::from_str(json)
            .map_err(|_| unavailable("the model's provider sent something that is not a chat completion"))?;
        if let Some(usage) = chunk.usage().filter(|usage| *usage != self.usage) {
            self.usage = usage;
            self.tell(ports::Chunk::Spent(usage))?;
        }
        for choice in chunk.choices.iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.absorb_choice(choice)?;
        }
        match &chunk.error {
            Some(error) if !error.is_null() => Err(self.teller.error_object(error)),
            _ if chunk.object.as_deref() == Some("error") => Err(self.failure(json)),
            _ => Ok(()),
        }
    }

    /// What an error means that is not wrapped in `error`.
    pub(super) fn failure(&self, json: &str) -> ModelError {
        let value: Value = serde_json::from_str(json).unwrap_or_else(|_| Value::from(json));
        self.teller.error_object(value.get("error").unwrap_or(&value))
    }

    fn absorb_choice(&mut self, choice: &Choice) -> Result<(), ModelError> {
        if let Some(delta) = &choice.delta {
            self.hand_on(ports::Chunk::Thinking(delta.thinking()))?;
            self.hand_on(ports::Chunk::Text(&delta.text()))?;
            for piece in delta.tool_calls.iter().flatten() {
                let added = self.calls.add(piece)?;
                self.count(added)?;
            }
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            // The first one holds: some providers repeat it, some send a lesser one after it.
            Some(word) => self.end = self.end.or(Some(read_end(word))),
        }
        Ok(())
    }

    fn hand_on(&mut self, chunk: ports::Chunk<'_>) -> Result<(), ModelError> {
        if let ports::Chunk::Thinking(text) | ports::Chunk::Text(text) = chunk {
            if text.is_empty() {
                return Ok(());
            }
            self.count(text.len())?;
        }
        self.tell(chunk)
    }

    fn tell(&mut self, chunk: ports::Chunk<'_>) -> Result<(), ModelError> {
        if (self.sink)(chunk).is_break() { Err(ModelError::Stopped) } else { Ok(()) }
    }

    fn count(&mut self, added: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(added);
        let bound = self.bounds.output_bytes;
        if self.bytes > bound {
            return Err(ModelError::TooLarge(format!("the model's answer is longer than {bound} bytes")));
        }
        Ok(())
    }

    /// The completion; `done` tells whether the stream ended with `[DONE]`.
    pub(super) fn finish(self, done: bool) -> Result<Completion, ModelError> {
        let reason = match self.end {
            Some(End::Finished(reason)) => reason,
            Some(End::Failed) => {
                return Err(unavailable("the model's provider gave up in the middle of its answer"));
            }
            None if done => FinishReason::Stop,
            None => return Err(unavailable("the model's answer was cut off")),
        };
        let finish_reason = match reason {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Stop,
            other => other,
        };
        let tool_calls = self.calls.finish(&self.request.messages);
        Ok(Completion { tool_calls, finish_reason, echo: None })
    }
}

fn read_end(word: &str) -> End {
    match word {
        "length" | "max_tokens" | "model_length" => End::Finished(FinishReason::Length),
        "tool_calls" | "function_call" | "tool_use" => End::Finished(FinishReason::ToolCalls),
        "content_filter" | "sensitive" | "safety" => End::Finished(FinishReason::ContentFilter),
        // DeepSeek, GLM, OpenRouter.
        "insufficient_system_resource" | "network_error" | "error" => End::Failed,
        _ => End::Finished(FinishReason::Stop),
    }
}
