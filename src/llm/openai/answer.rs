//! An answer as its chunks make it. Owns what counts as a complete one; refuses to invent an end that the provider
//! did not send.

use super::Bounds;
use super::calls::Calls;
use super::chunk::{CallPiece, Choice, Chunk};
use super::echo::Details;
use crate::domain::event::FinishReason;
use crate::domain::usage::Usage;
use crate::llm::json::{self, Halves};
use crate::llm::text_calls::TextCalls;
use crate::llm::wire::failure::{Teller, unavailable};
use crate::llm::wire::tether;
use crate::ports::{self, ChunkSink, Completion, ModelError, ModelRequest};
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
    sink: ChunkSink<'a>,
    bounds: Bounds,
    teller: &'a Teller,
    request: &'a ModelRequest,
    bytes: usize,
    calls: Calls,
    in_text: Option<TextCalls>,
    details: Details,
    thinking: Halves,
    text: Halves,
    garbled: bool,
    end: Option<End>,
    usage: Usage,
    told_usage: bool,
}

impl<'a> Answer<'a> {
    /// Nothing yet.
    pub(super) fn new(
        sink: ChunkSink<'a>,
        bounds: Bounds,
        teller: &'a Teller,
        request: &'a ModelRequest,
    ) -> Self {
        Self {
            sink,
            bounds,
            teller,
            request,
            bytes: 0,
            calls: Calls::new(bounds),
            in_text: None,
            details: Details::default(),
            thinking: Halves::default(),
            text: Halves::default(),
            garbled: false,
            end: None,
            usage: Usage::default(),
            told_usage: false,
        }
    }

    /// Takes calls that the model writes as text for calls, while it may call at all.
    pub(super) fn reading_text_calls(mut self) -> Self {
        let names = self.request.tools.iter().map(|tool| tool.name.to_string());
        self.in_text = self.request.may_call.then(|| TextCalls::new(names.collect()));
        self
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
        let Some(chunk) = Chunk::read(json) else {
            // A word between chunks is no chunk that was cut in two; without a finish reason it is a failure still.
            if !json.trim_start().starts_with(['{', '[']) {
                self.garbled = true;
                return Ok(());
            }
            return Err(unavailable("the model's provider sent something that is not a chat completion"));
        };
        self.absorb_usage(&chunk)?;
        for choice in chunk.choices() {
            self.absorb_choice(choice, chunk.is_halved())?;
        }
        match chunk.error() {
            Some(error) => Err(self.teller.error_object(error)),
            None => Ok(()),
        }
    }

    /// What an error means that came as an event of this name.
    pub(super) fn failure(&self, json: &str) -> ModelError {
        let value = json::parse(json).map_or_else(|| Value::from(json), |parsed| parsed.value);
        self.teller.error_object(&value)
    }

    /// The last report holds; what a server measured holds only until something is reported.
    fn absorb_usage(&mut self, chunk: &Chunk) -> Result<(), ModelError> {
        let reported = chunk.spent();
        self.told_usage |= reported.is_some();
        let Some(spent) = reported.or_else(|| chunk.measured().filter(|_| !self.told_usage)) else {
            return Ok(());
        };
        let usage = spent.over(self.usage);
        if usage == self.usage {
            return Ok(());
        }
        self.usage = usage;
        self.tell(ports::Chunk::Spent(usage))
    }

    fn absorb_choice(&mut self, choice: Choice<'_>, halved: bool) -> Result<(), ModelError> {
        let delta = choice.delta();
        let thinking = delta.thinking();
        let thinking = self.thinking.join(&thinking, halved).into_owned();
        self.hand_on_thinking(&thinking)?;
        let text = delta.text();
        let text = self.text.join(&text, halved).into_owned();
        self.hand_on(&text)?;
        for piece in delta.calls() {
            let added = self.calls.add(piece, halved)?;
            self.count(added)?;
        }
        self.details.add(delta.details(), halved, self.bounds.output_bytes);
        if let Some(word) = choice.finish_word() {
            // The first one holds: some providers repeat it, some send a lesser one after it.
            self.end = self.end.or(Some(read_end(&word)));
        }
        Ok(())
    }

    fn hand_on_thinking(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        self.tell(ports::Chunk::Thinking(text))
    }

    fn hand_on(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        let Some(in_text) = &mut self.in_text else { return self.tell(ports::Chunk::Text(text)) };
        let text = in_text.push(text);
        self.take_text_calls(&text)
    }

    /// Hands on what is certainly text, and keeps what is certainly a call.
    fn take_text_calls(&mut self, text: &str) -> Result<(), ModelError> {
        if !text.is_empty() {
            self.tell(ports::Chunk::Text(text))?;
        }
        for call in self.in_text.as_mut().map(TextCalls::take).unwrap_or_default() {
            let piece = CallPiece { name: call.name, arguments: call.arguments, ..CallPiece::default() };
            self.calls.add(piece, false)?;
        }
        Ok(())
    }

    fn tell(&mut self, chunk: ports::Chunk<'_>) -> Result<(), ModelError> {
        if (self.sink)(chunk).is_break() { Err(ModelError::Stopped) } else { Ok(()) }
    }

    fn count(&mut self, added: usize) -> Result<(), ModelError> {
        if added > 0 {
            tether::grow();
        }
        self.bytes = self.bytes.saturating_add(added);
        self.bounds.check_output(self.bytes)
    }

    /// The completion; `done` tells whether the stream ended with `[DONE]`.
    pub(super) fn finish(mut self, done: bool) -> Result<Completion, ModelError> {
        let reason = match self.end {
            Some(End::Finished(reason)) => reason,
            Some(End::Failed) => {
                return Err(unavailable("the model's provider gave up in the middle of its answer"));
            }
            None if done && !self.garbled => FinishReason::Stop,
            None => return Err(unavailable("the model's answer was cut off")),
        };
        self.let_go()?;
        let finish_reason = match reason {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Stop,
            other => other,
        };
        let (tool_calls, extras) = self.calls.finish(&self.request.messages);
        let echo = self.details.finish(&self.request.model, extras);
        Ok(Completion { tool_calls, finish_reason, echo })
    }

    /// Hands on what was held back.
    fn let_go(&mut self) -> Result<(), ModelError> {
        let (thinking, text) = (self.thinking.end(), self.text.end());
        self.hand_on_thinking(thinking)?;
        self.hand_on(text)?;
        let rest = self.in_text.as_mut().map(TextCalls::finish).unwrap_or_default();
        self.take_text_calls(&rest)
    }
}

fn read_end(word: &str) -> End {
    match word {
        "length" | "max_tokens" | "model_length" | "max_output_tokens" => End::Finished(FinishReason::Length),
        "tool_calls" | "tool_call" | "function_call" | "tool_use" => End::Finished(FinishReason::ToolCalls),
        "content_filter" | "content_filtered" | "sensitive" | "safety" | "recitation" | "blocklist"
        | "prohibited_content" => End::Finished(FinishReason::ContentFilter),
        // DeepSeek, GLM, OpenRouter; vLLM; Moonshot; Gemini.
        "insufficient_system_resource"
        | "network_error"
        | "error"
        | "abort"
        | "engine_overloaded"
        | "malformed_function_call" => End::Failed,
        _ => End::Finished(FinishReason::Stop),
    }
}
