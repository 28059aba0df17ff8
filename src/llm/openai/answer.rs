//! Builds an answer from its chunks. An answer without an end that the provider sent is an error.

use super::calls::CallAssembler;
use super::chunk::{CallDelta, ChunkChoice, OpenAiChunk};
use super::replay_data::ReasoningDetails;
use crate::domain::event::FinishReason;
use crate::domain::usage::Usage;
use crate::llm::dialect_options::AnswerLimits;
use crate::llm::json::{self, SurrogateJoiner};
use crate::llm::text_calls::TextCalls;
use crate::llm::transport::error_mapper::{ErrorMapper, ProviderFailure, unavailable};
use crate::ports::{self, ChunkSink, Completion, ModelError, ModelRequest};
use serde_json::Value;

/// The end of a stream as its finish reason says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    /// The answer is complete.
    Finished(FinishReason),
    /// The provider failed.
    Failed,
}

/// The answer so far.
pub(super) struct OpenAiAnswer<'a> {
    sink: ChunkSink<'a>,
    limits: AnswerLimits,
    errors: &'a ErrorMapper,
    request: &'a ModelRequest,
    bytes: usize,
    calls: CallAssembler,
    in_text: Option<TextCalls>,
    details: ReasoningDetails,
    thinking: SurrogateJoiner,
    text: SurrogateJoiner,
    garbled: bool,
    end: Option<StreamEnd>,
    usage: Usage,
    has_reported: bool,
}

impl<'a> OpenAiAnswer<'a> {
    /// An empty answer.
    pub(super) fn new(
        sink: ChunkSink<'a>,
        limits: AnswerLimits,
        errors: &'a ErrorMapper,
        request: &'a ModelRequest,
    ) -> Self {
        Self {
            sink,
            limits,
            errors,
            request,
            bytes: 0,
            calls: CallAssembler::new(limits),
            in_text: None,
            details: ReasoningDetails::default(),
            thinking: SurrogateJoiner::default(),
            text: SurrogateJoiner::default(),
            garbled: false,
            end: None,
            usage: Usage::default(),
            has_reported: false,
        }
    }

    /// Also recognizes tool calls that the model writes as text, if it may call tools.
    pub(super) fn reading_text_calls(mut self) -> Self {
        let names = self.request.tools.iter().map(|tool| tool.name.to_string());
        self.in_text = self.request.may_call.then(|| TextCalls::new(names.collect()));
        self
    }

    /// Maps failures of its provider.
    pub(super) fn errors(&self) -> &ErrorMapper {
        self.errors
    }

    /// Size of the answer so far, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a finish reason has arrived.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Adds a chunk or a whole answer.
    pub(super) fn absorb(&mut self, json: &str) -> Result<(), ProviderFailure> {
        let Some(chunk) = OpenAiChunk::read(json) else {
            // Text between chunks is ignored; without a finish reason the answer fails at its end.
            if !json.trim_start().starts_with(['{', '[']) {
                self.garbled = true;
                return Ok(());
            }
            let message = "the model's provider sent something that is not a chat completion";
            return Err(unavailable(message).into());
        };
        self.absorb_usage(&chunk)?;
        for choice in chunk.choices() {
            self.absorb_choice(choice, chunk.is_halved())?;
        }
        match chunk.error() {
            Some(error) => Err(self.errors.error_object(error)),
            None => Ok(()),
        }
    }

    /// The failure that an `error` event means.
    pub(super) fn failure(&self, json: &str) -> ProviderFailure {
        let value = json::parse(json).map_or_else(|| Value::from(json), |parsed| parsed.value);
        self.errors.error_object(&value)
    }

    /// The last report counts; a server's own measurement counts until there is a report.
    fn absorb_usage(&mut self, chunk: &OpenAiChunk) -> Result<(), ModelError> {
        let reported = chunk.spent();
        self.has_reported |= reported.is_some();
        let Some(spent) = reported.or_else(|| chunk.measured().filter(|_| !self.has_reported)) else {
            return Ok(());
        };
        let usage = spent.over(self.usage);
        if usage == self.usage {
            return Ok(());
        }
        self.usage = usage;
        self.emit(ports::Chunk::Spent(usage))
    }

    fn absorb_choice(&mut self, choice: ChunkChoice<'_>, halved: bool) -> Result<(), ModelError> {
        let delta = choice.delta();
        let thinking = delta.thinking();
        let thinking = self.thinking.join(&thinking, halved).into_owned();
        self.emit_thinking(&thinking)?;
        let text = delta.text();
        let text = self.text.join(&text, halved).into_owned();
        self.emit_text(&text)?;
        for piece in delta.calls() {
            let added = self.calls.add(piece, halved)?;
            self.count(added)?;
        }
        self.details.add(delta.details(), halved, self.limits.output_bytes);
        if let Some(word) = choice.finish_word() {
            // The first one counts: some providers repeat it, some send a less specific one after it.
            self.end = self.end.or(Some(read_end(&word)));
        }
        Ok(())
    }

    fn emit_thinking(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        self.emit(ports::Chunk::Thinking(text))
    }

    fn emit_text(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        let Some(in_text) = &mut self.in_text else { return self.emit(ports::Chunk::Text(text)) };
        let text = in_text.push(text);
        self.take_text_calls(&text)
    }

    /// Emits text, and collects the calls that were found in it.
    fn take_text_calls(&mut self, text: &str) -> Result<(), ModelError> {
        if !text.is_empty() {
            self.emit(ports::Chunk::Text(text))?;
        }
        for call in self.in_text.as_mut().map(TextCalls::take).unwrap_or_default() {
            let piece = CallDelta { name: call.name, arguments: call.arguments, ..CallDelta::default() };
            self.calls.add(piece, false)?;
        }
        Ok(())
    }

    fn emit(&mut self, chunk: ports::Chunk<'_>) -> Result<(), ModelError> {
        if (self.sink)(chunk).is_break() { Err(ModelError::Stopped) } else { Ok(()) }
    }

    fn count(&mut self, added: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(added);
        self.limits.check_output(self.bytes)
    }

    /// The completion. `done`: the stream ended with `[DONE]`.
    pub(super) fn finish(mut self, done: bool) -> Result<Completion, ModelError> {
        let reason = match self.end {
            Some(StreamEnd::Finished(reason)) => reason,
            Some(StreamEnd::Failed) => {
                return Err(unavailable("the model's provider gave up in the middle of its answer"));
            }
            None if done && !self.garbled => FinishReason::Stop,
            None => return Err(unavailable("the model's answer was cut off")),
        };
        self.flush()?;
        let finish_reason = match reason {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Stop,
            other => other,
        };
        let (tool_calls, extras) = self.calls.finish(&self.request.messages);
        let echo = self.details.finish(&self.request.model, extras);
        Ok(Completion { tool_calls, finish_reason, echo })
    }

    /// Emits what was held back.
    fn flush(&mut self) -> Result<(), ModelError> {
        let (thinking, text) = (self.thinking.end(), self.text.end());
        self.emit_thinking(thinking)?;
        self.emit_text(text)?;
        let rest = self.in_text.as_mut().map(TextCalls::finish).unwrap_or_default();
        self.take_text_calls(&rest)
    }
}

fn read_end(word: &str) -> StreamEnd {
    match word {
        "length" | "max_tokens" | "model_length" | "max_output_tokens" => {
            StreamEnd::Finished(FinishReason::Length)
        }
        "tool_calls" | "tool_call" | "function_call" | "tool_use" => {
            StreamEnd::Finished(FinishReason::ToolCalls)
        }
        "content_filter" | "content_filtered" | "sensitive" | "safety" | "recitation" | "blocklist"
        | "prohibited_content" => StreamEnd::Finished(FinishReason::ContentFilter),
        // DeepSeek, GLM, OpenRouter; vLLM; Moonshot; Gemini.
        "insufficient_system_resource"
        | "network_error"
        | "error"
        | "abort"
        | "engine_overloaded"
        | "malformed_function_call" => StreamEnd::Failed,
        _ => StreamEnd::Finished(FinishReason::Stop),
    }
}
