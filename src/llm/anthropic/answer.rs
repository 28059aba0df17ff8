//! Builds an answer and its usage from its events. An answer without an end that the provider sent is an
//! error.

use super::block::ContentBlock;
use super::event::{AnthropicEvent, AnthropicUsage, BlockDelta, MessageHead};
use crate::domain::event::FinishReason;
use crate::domain::message::ProviderReplay;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::llm::answer_output::{AnswerOutput, cut_off, reason_by_calls};
use crate::llm::call_ids::CallIds;
use crate::llm::json::SurrogateJoiner;
use crate::llm::sse::SseEvent;
use crate::llm::transport::body::{self, AnswerCollector};
use crate::llm::transport::error_mapper::{ErrorMapper, ProviderFailure, unavailable};
use crate::net::CallSlot;
use crate::ports::{Chunk, Completion, ModelError, ModelRequest};
use serde_json::Value;
use std::io::Read;

/// The most blocks of one answer.
const BLOCKS: usize = 10_000;

/// The end of a message as its stop reason says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageEnd {
    Finished(FinishReason),
    /// The provider wants another request that continues the message.
    Paused,
}

/// The answer so far: one message, or several when the provider pauses.
pub(super) struct AnthropicAnswer<'a> {
    output: AnswerOutput<'a>,
    errors: &'a ErrorMapper,
    request: &'a ModelRequest,
    blocks: Vec<ContentBlock>,
    /// Blocks of earlier messages.
    earlier: usize,
    end: Option<MessageEnd>,
    tokens: AnthropicUsage,
    /// Usage of earlier messages.
    spent: Usage,
    reported: Usage,
    container: Option<String>,
    /// The model that answers, as the first message with a name says.
    model: Option<String>,
    stop_sequence: Option<String>,
    surrogates: SurrogateJoiner,
}

impl<'a> AnthropicAnswer<'a> {
    /// An empty answer.
    pub(super) fn new(output: AnswerOutput<'a>, errors: &'a ErrorMapper, request: &'a ModelRequest) -> Self {
        Self {
            output,
            errors,
            request,
            blocks: Vec::new(),
            earlier: 0,
            end: None,
            tokens: AnthropicUsage::default(),
            spent: Usage::default(),
            reported: Usage::default(),
            container: None,
            model: None,
            stop_sequence: None,
            surrogates: SurrogateJoiner::default(),
        }
    }

    /// Whether the provider wants a request that continues the answer. It does not while calls of this
    /// server's tools wait.
    pub(super) fn is_paused(&self) -> bool {
        let has_content = self.blocks.iter().any(|block| block.echo(None).is_some());
        self.end == Some(MessageEnd::Paused) && has_content && !self.blocks.iter().any(ContentBlock::is_call)
    }

    /// Begins the next message of the answer; returns the blocks so far.
    pub(super) fn begin_continuation(&mut self) -> Vec<Value> {
        self.earlier = self.blocks.len();
        self.end = None;
        self.spent += std::mem::take(&mut self.tokens).usage();
        self.blocks.iter().filter_map(|block| block.echo(None)).collect()
    }

    /// The container that the provider's own tools run in.
    pub(super) fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Reads the body of one message to its end.
    pub(super) fn read(&mut self, body: &mut dyn Read, slot: &CallSlot) -> Result<(), ProviderFailure> {
        let output_bytes = self.output.limits.output_bytes;
        let is_done = body::read(body, slot, self, output_bytes)?;
        if self.end.is_none() && !is_done {
            return Err(cut_off().into());
        }
        self.end.get_or_insert(MessageEnd::Finished(FinishReason::Stop));
        Ok(())
    }

    fn absorb(&mut self, event: AnthropicEvent, bytes: usize) -> Result<bool, ProviderFailure> {
        match event {
            AnthropicEvent::Begun(head) => self.begin(head)?,
            AnthropicEvent::BlockBegun { index, block } => {
                self.begin_block(ContentBlock::new(index, block), bytes)?;
            }
            AnthropicEvent::BlockPiece { index, piece } => self.extend_block(index, piece, bytes)?,
            AnthropicEvent::Ending(head) => self.update(head)?,
            AnthropicEvent::Ended => return Ok(true),
            AnthropicEvent::Failed(event) => return Err(self.errors.error_object(&event)),
            AnthropicEvent::Other => {}
        }
        Ok(false)
    }

    /// Some gateways start again when their provider breaks off. Text that readers have seen cannot be
    /// withdrawn, so such an answer fails.
    fn begin(&mut self, head: MessageHead) -> Result<(), ModelError> {
        let current = self.blocks.get(self.earlier..).unwrap_or_default();
        if current.iter().any(|block| !block.text().is_empty()) {
            return Err(unavailable("the model's provider began its answer anew in the middle of it"));
        }
        self.blocks.truncate(self.earlier);
        (self.end, self.stop_sequence) = (None, None);
        self.update(head)
    }

    fn update(&mut self, head: MessageHead) -> Result<(), ModelError> {
        self.tokens.replace(head.tokens);
        self.container = head.container.or(self.container.take());
        self.model = self.model.take().or(head.model);
        self.stop_sequence = self.stop_sequence.take().or(head.stop_sequence);
        // The first stop reason counts, as in the other dialect.
        self.end = self.end.or(head.stop_reason.as_deref().map(read_end));
        let mut usage = self.spent;
        usage += self.tokens.usage();
        if usage != self.reported {
            self.reported = usage;
            self.output.emit(Chunk::Spent(usage))?;
        }
        Ok(())
    }

    fn begin_block(&mut self, block: ContentBlock, bytes: usize) -> Result<(), ModelError> {
        if self.blocks.len() >= BLOCKS {
            return Err(ModelError::TooLarge(format!("the model's answer has more than {BLOCKS} blocks")));
        }
        if block.is_call() {
            let calls = self.blocks.iter().filter(|block| block.is_call()).count();
            self.output.limits.check_calls(calls.saturating_add(1))?;
            self.output.limits.check_arguments(block.call().map_or(0, |call| call.arguments.len()))?;
        }
        // Blocks that go back unchanged count with all their bytes.
        self.output.count(if block.is_kept() {
            bytes
        } else {
            block.text().len() + block.thinking().len()
        })?;
        let (text, thinking) = (block.text().to_owned(), block.thinking().to_owned());
        self.blocks.push(block);
        self.output.emit(Chunk::Text(&text))?;
        self.output.emit(Chunk::Thinking(&thinking))?;
        self.emit_call(self.blocks.len().saturating_sub(1), 0)
    }

    /// Passes on what the arguments of this block have behind these bytes, if it is a call.
    fn emit_call(&mut self, at: usize, bytes: usize) -> Result<(), ModelError> {
        let Some(block) = self.blocks.get(at) else { return Ok(()) };
        let Some(name) = block.called_name() else { return Ok(()) };
        let before = self.blocks.get(..at).unwrap_or_default();
        let place = before.iter().filter(|block| block.called_name().is_some()).count();
        let (offset, arguments) = block.input_behind(bytes);
        self.output.emit(Chunk::Call { place, name, offset, arguments })
    }

    fn extend_block(
        &mut self,
        index: Option<u64>,
        piece: BlockDelta,
        bytes: usize,
    ) -> Result<(), ModelError> {
        if self.open_block(index).is_none() {
            match ContentBlock::of_piece(index, &piece) {
                Some(block) => self.begin_block(block, 0)?,
                None => return Ok(()),
            }
        }
        self.output.count(match &piece {
            BlockDelta::Text(text) | BlockDelta::Thinking(text) | BlockDelta::Input(text) => text.len(),
            BlockDelta::Signature(_) | BlockDelta::Citation(_) => bytes,
        })?;
        let emitted = match &piece {
            BlockDelta::Text(text) | BlockDelta::Thinking(text) => text.clone(),
            _ => String::new(),
        };
        let Some(at) = self.open_block(index) else { return Ok(()) };
        let Some(block) = self.blocks.get_mut(at) else { return Ok(()) };
        let (text, thinking, input) = (block.text().len(), block.thinking().len(), block.input_bytes());
        block.append(piece);
        let (has_text, has_thought) = (block.text().len() > text, block.thinking().len() > thinking);
        let has_input = block.input_bytes() > input;
        self.output.limits.check_arguments(block.input_bytes())?;
        if has_text {
            self.output.emit(Chunk::Text(&emitted))?;
        }
        if has_thought {
            self.output.emit(Chunk::Thinking(&emitted))?;
        }
        if has_input { self.emit_call(at, input) } else { Ok(()) }
    }

    /// The position of the block that a delta belongs to: the one with this index, or the last one without
    /// an index.
    fn open_block(&self, index: Option<u64>) -> Option<usize> {
        let current = self.blocks.get(self.earlier..)?;
        let at = current.iter().rposition(|block| index.is_none() || block.index() == index)?;
        self.earlier.checked_add(at)
    }

    /// The completion.
    pub(super) fn finish(mut self) -> Result<Completion, ModelError> {
        let mut ids = CallIds::of(&self.request.messages);
        let mut named = |call: ToolCall| ToolCall { id_ref: ids.assign(call.id_ref), ..call };
        let calls: Vec<Option<ToolCall>> =
            self.blocks.iter().map(|block| block.call().map(&mut named)).collect();
        let has_calls = calls.iter().any(Option::is_some);
        let finish_reason = match self.end {
            None => return Err(cut_off()),
            Some(MessageEnd::Paused) if has_calls => FinishReason::ToolCalls,
            // The answer never ended by itself.
            Some(MessageEnd::Paused) => FinishReason::Length,
            Some(MessageEnd::Finished(reason)) => reason_by_calls(reason, has_calls),
        };
        let stop_sequence = self.request.named_stop(self.stop_sequence.take());
        let echo = self.echo(&calls, finish_reason);
        let tool_calls = calls.into_iter().flatten().collect();
        Ok(Completion { tool_calls, finish_reason, stop_sequence, echo, response_model: self.model })
    }

    /// The blocks that must go back with the history; `None` if text and calls are enough.
    fn echo(&self, calls: &[Option<ToolCall>], finish_reason: FinishReason) -> Option<ProviderReplay> {
        // Providers refuse a call of their own tools without a result, unless a call of ours waits too.
        let is_unanswered = |block: &ContentBlock| {
            let own = block.own_call().filter(|_| finish_reason != FinishReason::ToolCalls);
            own.is_some_and(|id| !self.blocks.iter().any(|other| other.answers() == Some(id)))
        };
        let kept = self
            .blocks
            .iter()
            .zip(calls)
            .filter(|(block, call)| !is_unanswered(block) && (call.is_some() || !block.is_call()));
        let kept: Vec<_> = kept.collect();
        if !kept.iter().any(|(block, _)| block.needs_echo()) {
            return None;
        }
        let parts =
            kept.iter().filter_map(|(block, call)| block.echo(call.as_ref().map(|c| c.id_ref.as_str())));
        Some(ProviderReplay { model: self.request.model.clone(), parts: parts.collect() })
    }
}

impl AnswerCollector for AnthropicAnswer<'_> {
    fn collect(&mut self, event: &SseEvent) -> Result<bool, ProviderFailure> {
        let json = event.data.trim();
        // Gateways of the other dialect end their streams like this.
        if json == "[DONE]" {
            return Ok(true);
        }
        if event.name == "ping" {
            return Ok(false);
        }
        let Some((read, halved)) = AnthropicEvent::read(&event.name, json) else {
            return Err(match event.name.as_str() {
                "error" => self.errors.error_object(&Value::from(json)),
                _ => unavailable("the model's provider sent something that is not a message").into(),
            });
        };
        let read = read.map_texts(|text| self.surrogates.join(&text, halved).into_owned());
        self.absorb(read, json.len())
    }

    fn collect_whole(&mut self, json: &str) -> Result<(), ProviderFailure> {
        let events = AnthropicEvent::read_whole(json)
            .ok_or_else(|| unavailable("the model's provider sent something that is not a message"))?;
        for event in events {
            self.absorb(event, 0)?;
        }
        Ok(())
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

fn read_end(word: &str) -> MessageEnd {
    MessageEnd::Finished(match word {
        "pause_turn" => return MessageEnd::Paused,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    })
}
