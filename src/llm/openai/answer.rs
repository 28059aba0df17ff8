//! Builds an answer from its chunks. An answer without an end that the provider sent is an error.

use super::calls::CallAssembler;
use super::chunk::{CallDelta, ChunkChoice, OpenAiChunk};
use super::replay_data::ReasoningDetails;
use crate::domain::event::FinishReason;
use crate::domain::usage::Usage;
use crate::llm::answer_output::{AnswerOutput, cut_off, reason_by_calls};
use crate::llm::json::{self, SurrogateJoiner};
use crate::llm::sse::SseEvent;
use crate::llm::text_calls::TextCalls;
use crate::llm::think_tags::{TaggedPiece, ThinkTags};
use crate::llm::transport::body::{self, AnswerCollector};
use crate::llm::transport::error_mapper::{ErrorMapper, ProviderFailure, unavailable};
use crate::net::CallSlot;
use crate::ports::{Chunk, Completion, ModelError, ModelRequest};
use serde_json::Value;
use std::io::Read;

/// The data of the event that ends a stream.
const DONE: &str = "[DONE]";

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
    output: AnswerOutput<'a>,
    errors: &'a ErrorMapper,
    request: &'a ModelRequest,
    calls: CallAssembler,
    /// Finds the reasoning that the model writes as text.
    think_tags: ThinkTags,
    /// Finds the calls that the model writes as text.
    text_calls: Option<TextCalls>,
    details: ReasoningDetails,
    thinking: SurrogateJoiner,
    text: SurrogateJoiner,
    /// There was text between the chunks.
    is_garbled: bool,
    end: Option<StreamEnd>,
    stop_sequence: Option<String>,
    /// The model that answers, as the first chunk with a name says.
    model: Option<String>,
    usage: Usage,
    has_reported: bool,
}

impl<'a> OpenAiAnswer<'a> {
    /// An empty answer.
    pub(super) fn new(
        output: AnswerOutput<'a>,
        errors: &'a ErrorMapper,
        request: &'a ModelRequest,
        has_text_calls: bool,
    ) -> Self {
        Self {
            calls: CallAssembler::new(output.limits),
            output,
            errors,
            request,
            think_tags: ThinkTags::default(),
            text_calls: has_text_calls.then(|| text_calls(request)),
            details: ReasoningDetails::default(),
            thinking: SurrogateJoiner::default(),
            text: SurrogateJoiner::default(),
            is_garbled: false,
            end: None,
            stop_sequence: None,
            model: None,
            usage: Usage::default(),
            has_reported: false,
        }
    }

    /// Reads a body to its end and returns the completion.
    pub(super) fn read(
        mut self,
        mut body: impl Read,
        slot: &CallSlot,
    ) -> Result<Completion, ProviderFailure> {
        let output_bytes = self.output.limits.output_bytes;
        let is_done = body::read(&mut body, slot, &mut self, output_bytes)?;
        Ok(self.finish(is_done)?)
    }

    /// Adds a chunk or a whole answer.
    fn absorb(&mut self, json: &str) -> Result<(), ProviderFailure> {
        let Some(chunk) = OpenAiChunk::read(json) else {
            // Text between chunks is ignored; without a finish reason the answer fails at its end.
            if !json.trim_start().starts_with(['{', '[']) {
                self.is_garbled = true;
                return Ok(());
            }
            let message = "the model's provider sent something that is not a chat completion";
            return Err(unavailable(message).into());
        };
        if self.model.is_none() {
            self.model = chunk.model().map(str::to_owned);
        }
        self.absorb_usage(&chunk)?;
        for choice in chunk.choices() {
            self.absorb_choice(choice, chunk.is_halved())?;
        }
        match chunk.error() {
            Some(error) => Err(self.errors.error_object(error)),
            None => Ok(()),
        }
    }

    /// The failure that an `error` event reports.
    fn failure(&self, json: &str) -> ProviderFailure {
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
        self.output.emit(Chunk::Spent(usage))
    }

    fn absorb_choice(&mut self, choice: ChunkChoice<'_>, halved: bool) -> Result<(), ModelError> {
        let delta = choice.delta();
        let thinking = self.thinking.join(&delta.thinking(), halved).into_owned();
        self.emit_thinking(&thinking)?;
        let text = self.text.join(&delta.text(), halved).into_owned();
        self.emit_text(&text)?;
        let pieces = delta.calls();
        if !pieces.is_empty() && self.calls.is_empty() {
            // What was held back stands before the calls.
            let held = self.think_tags.finish();
            self.emit_tagged(held)?;
        }
        for piece in pieces {
            let added = self.calls.add(piece, halved)?;
            self.output.count(added)?;
            if let Some(news) = self.calls.news() {
                self.output.emit(news)?;
            }
        }
        self.details.add(delta.details(), halved, self.output.limits.output_bytes);
        if let Some(text) = choice.stop_sequence() {
            self.stop_sequence = Some(text.to_owned());
        }
        if let Some(word) = choice.finish_word() {
            // The first one counts: some providers repeat it, some send a less specific one after it.
            self.end = self.end.or(Some(read_end(&word)));
        }
        Ok(())
    }

    fn emit_thinking(&mut self, text: &str) -> Result<(), ModelError> {
        if !text.is_empty() {
            self.think_tags.note_reasoning();
        }
        self.output.count(text.len())?;
        self.output.emit(Chunk::Thinking(text))
    }

    fn emit_text(&mut self, text: &str) -> Result<(), ModelError> {
        self.output.count(text.len())?;
        let pieces = self.think_tags.push(text);
        self.emit_tagged(pieces)
    }

    fn emit_tagged(&mut self, pieces: Vec<TaggedPiece>) -> Result<(), ModelError> {
        for piece in pieces {
            match piece {
                TaggedPiece::Thinking(text) => self.output.emit(Chunk::Thinking(&text))?,
                TaggedPiece::Text(text) => {
                    let text = self.text_calls.as_mut().map_or_else(|| text.clone(), |scan| scan.push(&text));
                    self.emit_scanned(&text)?;
                }
                TaggedPiece::TextWasThinking => {
                    let request = self.request;
                    let scan =
                        self.text_calls.as_mut().map(|scan| std::mem::replace(scan, text_calls(request)));
                    let held = scan.map(|mut scan| scan.finish()).unwrap_or_default();
                    self.output.emit(Chunk::Text(&held))?;
                    self.output.emit(Chunk::TextWasThinking)?;
                }
            }
        }
        Ok(())
    }

    /// Emits text, and adds the calls that were found before it.
    fn emit_scanned(&mut self, text: &str) -> Result<(), ModelError> {
        self.output.emit(Chunk::Text(text))?;
        for call in self.text_calls.as_mut().map(TextCalls::take).unwrap_or_default() {
            let piece = CallDelta { name: call.name, arguments: call.arguments, ..CallDelta::default() };
            self.calls.add(piece, false)?;
        }
        Ok(())
    }

    /// The completion. `is_done`: the stream ended with `[DONE]`.
    fn finish(mut self, is_done: bool) -> Result<Completion, ModelError> {
        let reason = match self.end {
            Some(StreamEnd::Finished(reason)) => reason,
            Some(StreamEnd::Failed) => {
                return Err(unavailable("the model's provider gave up in the middle of its answer"));
            }
            None if is_done && !self.is_garbled => FinishReason::Stop,
            None => return Err(cut_off()),
        };
        self.flush()?;
        let finish_reason = reason_by_calls(reason, !self.calls.is_empty());
        let (tool_calls, extras) = self.calls.finish(&self.request.messages);
        let echo = self.details.finish(&self.request.model, extras);
        let stop_sequence = self.request.named_stop(self.stop_sequence);
        Ok(Completion { tool_calls, finish_reason, stop_sequence, echo, response_model: self.model })
    }

    /// Emits what was held back.
    fn flush(&mut self) -> Result<(), ModelError> {
        let (thinking, text) = (self.thinking.end(), self.text.end());
        self.emit_thinking(thinking)?;
        self.emit_text(text)?;
        let held = self.think_tags.finish();
        self.emit_tagged(held)?;
        let rest = self.text_calls.as_mut().map(TextCalls::finish).unwrap_or_default();
        self.emit_scanned(&rest)
    }
}

impl AnswerCollector for OpenAiAnswer<'_> {
    fn collect(&mut self, event: &SseEvent) -> Result<bool, ProviderFailure> {
        match event.data.trim() {
            DONE => return Ok(true),
            error if event.name == "error" => return Err(self.failure(error)),
            chunk => self.absorb(chunk)?,
        }
        Ok(false)
    }

    fn collect_whole(&mut self, json: &str) -> Result<(), ProviderFailure> {
        self.absorb(json)
    }

    fn caught_up(&mut self) -> Result<(), ModelError> {
        self.output.emit(Chunk::CaughtUp)
    }

    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn bytes(&self) -> usize {
        self.output.bytes
    }

    fn errors(&self) -> &ErrorMapper {
        self.errors
    }
}

/// A scanner for calls of the request's tools.
fn text_calls(request: &ModelRequest) -> TextCalls {
    TextCalls::new(request.tools.iter().map(|tool| tool.name.to_string()).collect())
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
