//! An answer as its events make it. Owns what counts as a complete one, and what it cost; refuses to invent an end that
//! the provider did not send.

use super::block::Block;
use super::event::{Event, Head, Piece, Tokens};
use super::failure;
use crate::domain::event::FinishReason;
use crate::domain::message::ProviderReplay;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::llm::ids::Ids;
use crate::llm::json::Halves;
use crate::llm::sse;
use crate::llm::terms::Bounds;
use crate::llm::wire::body::Listener;
use crate::llm::wire::failure::{Teller, unavailable};
use crate::llm::wire::tether;
use crate::ports::{Chunk, ChunkSink, Completion, ModelError, ModelRequest};
use serde_json::Value;

/// The most blocks of one answer.
const BLOCKS: usize = 10_000;

/// How a message said that it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished(FinishReason),
    /// The provider wants to be asked to go on.
    Paused,
}

/// The answer so far: one message, or several when the provider pauses.
pub(super) struct Answer<'a> {
    sink: ChunkSink<'a>,
    bounds: Bounds,
    teller: &'a Teller,
    request: &'a ModelRequest,
    bytes: usize,
    blocks: Vec<Block>,
    /// So many of them are of messages before this one.
    earlier: usize,
    end: Option<End>,
    tokens: Tokens,
    /// What the messages before this one have cost.
    spent: Usage,
    told: Usage,
    container: Option<String>,
    /// Of a character that was cut in two between two pieces.
    halves: Halves,
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
            blocks: Vec::new(),
            earlier: 0,
            end: None,
            tokens: Tokens::default(),
            spent: Usage::default(),
            told: Usage::default(),
            container: None,
            halves: Halves::default(),
        }
    }

    /// Whether the provider wants to be asked to go on. Not while there are calls that only this server can run.
    pub(super) fn is_paused(&self) -> bool {
        let has_said = self.blocks.iter().any(|block| block.echo(None).is_some());
        self.end == Some(End::Paused) && has_said && !self.blocks.iter().any(Block::is_call)
    }

    /// Ends the message, so that another one goes on; returns what has been said so far.
    pub(super) fn turn_page(&mut self) -> Vec<Value> {
        self.earlier = self.blocks.len();
        self.end = None;
        self.spent += std::mem::take(&mut self.tokens).usage();
        self.blocks.iter().filter_map(|block| block.echo(None)).collect()
    }

    /// The container that the provider's own tools run in.
    pub(super) fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Whether the message is whole; `done` tells whether its stream said so.
    pub(super) fn check_end(&mut self, done: bool) -> Result<(), ModelError> {
        match self.end {
            None if !done => Err(unavailable("the model's answer was cut off")),
            end => {
                self.end = end.or(Some(End::Finished(FinishReason::Stop)));
                Ok(())
            }
        }
    }

    fn absorb(&mut self, event: Event, bytes: usize) -> Result<bool, ModelError> {
        match event {
            Event::Begun(head) => self.begin(head)?,
            Event::BlockBegun { index, block } => self.begin_block(Block::new(index, block), bytes)?,
            Event::BlockPiece { index, piece } => self.go_on(index, piece, bytes)?,
            Event::Ending(head) => self.learn(head)?,
            Event::Ended => return Ok(true),
            Event::Failed(event) => return Err(failure::read(self.teller, &event)),
            Event::Other => {}
        }
        Ok(false)
    }

    /// Some gateways begin anew when their provider breaks off; what came before is no part of the answer then. Text
    /// cannot be taken back from readers, so that is a broken answer.
    fn begin(&mut self, head: Head) -> Result<(), ModelError> {
        let of_this = self.blocks.get(self.earlier..).unwrap_or_default();
        if of_this.iter().any(|block| !block.text().is_empty()) {
            return Err(unavailable("the model's provider began its answer anew in the middle of it"));
        }
        self.blocks.truncate(self.earlier);
        self.end = None;
        self.learn(head)
    }

    fn learn(&mut self, head: Head) -> Result<(), ModelError> {
        self.tokens.replace(head.tokens);
        self.container = head.container.or(self.container.take());
        // The first one holds, as in the other dialect.
        self.end = self.end.or(head.stop_reason.as_deref().map(read_end));
        let mut usage = self.spent;
        usage += self.tokens.usage();
        if usage != self.told {
            self.told = usage;
            self.tell(Chunk::Spent(usage))?;
        }
        Ok(())
    }

    fn begin_block(&mut self, block: Block, bytes: usize) -> Result<(), ModelError> {
        if self.blocks.len() >= BLOCKS {
            return Err(ModelError::TooLarge(format!("the model's answer has more than {BLOCKS} blocks")));
        }
        if block.is_call() {
            let calls = self.blocks.iter().filter(|block| block.is_call()).count();
            self.bounds.check_calls(calls.saturating_add(1))?;
            self.bounds.check_arguments(block.call().map_or(0, |call| call.arguments.len()))?;
        }
        // Of what is kept as it came, all counts.
        self.count(if block.is_kept() { bytes } else { block.text().len() + block.thinking().len() })?;
        let (text, thinking) = (block.text().to_owned(), block.thinking().to_owned());
        self.blocks.push(block);
        self.hand_on(Chunk::Text(&text))?;
        self.hand_on(Chunk::Thinking(&thinking))
    }

    fn go_on(&mut self, index: Option<u64>, piece: Piece, bytes: usize) -> Result<(), ModelError> {
        if !self.has_open(index) {
            match Block::of_piece(index, &piece) {
                Some(block) => self.begin_block(block, 0)?,
                None => return Ok(()),
            }
        }
        self.count(match &piece {
            Piece::Text(text) | Piece::Thinking(text) | Piece::Input(text) => text.len(),
            Piece::Signature(_) | Piece::Citation(_) => bytes,
        })?;
        let shown = match &piece {
            Piece::Text(text) | Piece::Thinking(text) => text.clone(),
            _ => String::new(),
        };
        let Some(block) = open(&mut self.blocks, self.earlier, index) else { return Ok(()) };
        let (text, thinking) = (block.text().len(), block.thinking().len());
        block.take(piece);
        let (has_text, has_thought) = (block.text().len() > text, block.thinking().len() > thinking);
        self.bounds.check_arguments(block.input_bytes())?;
        if has_text {
            self.hand_on(Chunk::Text(&shown))?;
        }
        if has_thought {
            self.hand_on(Chunk::Thinking(&shown))?;
        }
        Ok(())
    }

    fn has_open(&mut self, index: Option<u64>) -> bool {
        open(&mut self.blocks, self.earlier, index).is_some()
    }

    fn hand_on(&mut self, chunk: Chunk<'_>) -> Result<(), ModelError> {
        match chunk {
            Chunk::Text("") | Chunk::Thinking("") => Ok(()),
            chunk => self.tell(chunk),
        }
    }

    fn tell(&mut self, chunk: Chunk<'_>) -> Result<(), ModelError> {
        if (self.sink)(chunk).is_break() { Err(ModelError::Stopped) } else { Ok(()) }
    }

    fn count(&mut self, added: usize) -> Result<(), ModelError> {
        if added > 0 {
            tether::grow();
        }
        self.bytes = self.bytes.saturating_add(added);
        self.bounds.check_output(self.bytes)
    }

    /// The completion.
    pub(super) fn finish(self) -> Result<Completion, ModelError> {
        let mut ids = Ids::of(&self.request.messages);
        let mut named = |call: ToolCall| ToolCall { id_ref: ids.give(call.id_ref), ..call };
        let calls: Vec<Option<ToolCall>> =
            self.blocks.iter().map(|block| block.call().map(&mut named)).collect();
        let has_calls = calls.iter().any(Option::is_some);
        let finish_reason = match self.end {
            None => return Err(unavailable("the model's answer was cut off")),
            Some(End::Finished(FinishReason::Stop) | End::Paused) if has_calls => FinishReason::ToolCalls,
            Some(End::Finished(FinishReason::ToolCalls)) if !has_calls => FinishReason::Stop,
            Some(End::Finished(reason)) => reason,
            // It never came to an end of its own.
            Some(End::Paused) => FinishReason::Length,
        };
        let echo = self.echo(&calls, finish_reason);
        Ok(Completion { tool_calls: calls.into_iter().flatten().collect(), finish_reason, echo })
    }

    /// What the history must carry back; nothing when text and calls say it all.
    fn echo(&self, calls: &[Option<ToolCall>], finish_reason: FinishReason) -> Option<ProviderReplay> {
        // A call of the provider's own tools without its result is refused, unless it waits for a result of ours.
        let is_left = |block: &Block| {
            let own = block.own_call().filter(|_| finish_reason != FinishReason::ToolCalls);
            own.is_some_and(|id| !self.blocks.iter().any(|other| other.answers() == Some(id)))
        };
        let kept = self
            .blocks
            .iter()
            .zip(calls)
            .filter(|(block, call)| !is_left(block) && (call.is_some() || !block.is_call()));
        let kept: Vec<_> = kept.collect();
        if !kept.iter().any(|(block, _)| block.needs_echo()) {
            return None;
        }
        let parts =
            kept.iter().filter_map(|(block, call)| block.echo(call.as_ref().map(|c| c.id_ref.as_str())));
        Some(ProviderReplay { model: self.request.model.clone(), parts: parts.collect() })
    }
}

impl Listener for Answer<'_> {
    fn hear(&mut self, event: &sse::Event) -> Result<bool, ModelError> {
        let json = event.data.trim();
        // Gateways of the other dialect end their streams so.
        if json == "[DONE]" {
            return Ok(true);
        }
        if event.name == "ping" {
            return Ok(false);
        }
        let Some((read, halved)) = Event::read(&event.name, json) else {
            return Err(match event.name.as_str() {
                "error" => failure::read(self.teller, &Value::from(json)),
                _ => unavailable("the model's provider sent something that is not a message"),
            });
        };
        let read = read.map_texts(|text| self.halves.join(&text, halved).into_owned());
        self.absorb(read, json.len())
    }

    fn hear_whole(&mut self, json: &str) -> Result<(), ModelError> {
        let events = Event::read_whole(json)
            .ok_or_else(|| unavailable("the model's provider sent something that is not a message"))?;
        for event in events {
            self.absorb(event, 0)?;
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn teller(&self) -> &Teller {
        self.teller
    }
}

/// The block of this message that a piece belongs to: the one of this place, or the last when it names none.
fn open(blocks: &mut [Block], earlier: usize, index: Option<u64>) -> Option<&mut Block> {
    let mut of_this = blocks.get_mut(earlier..)?.iter_mut().rev();
    if index.is_none() { of_this.next() } else { of_this.find(|block| block.index() == index) }
}

fn read_end(word: &str) -> End {
    End::Finished(match word {
        "pause_turn" => return End::Paused,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    })
}
