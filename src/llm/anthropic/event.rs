//! Reads one event of a stream. Unknown events and fields of odd types are ignored.

use crate::domain::usage::Usage;
use crate::llm::json;
use serde_json::{Map, Value};

/// An event of a stream.
#[derive(Debug)]
pub(super) enum AnthropicEvent {
    /// A message begins.
    Begun(MessageHead),
    /// A block of it begins.
    BlockBegun {
        /// Its place in the message.
        index: Option<u64>,
        /// The block so far.
        block: Map<String, Value>,
    },
    /// A block continues.
    BlockPiece {
        /// Its place in the message.
        index: Option<u64>,
        /// The new piece.
        piece: BlockDelta,
    },
    /// The message is about to end.
    Ending(MessageHead),
    /// The message has ended.
    Ended,
    /// The answer failed; the whole event.
    Failed(Value),
    /// A ping, the end of a block, or an unknown event.
    Other,
}

/// A message without its blocks.
#[derive(Debug, Default)]
pub(super) struct MessageHead {
    /// Its usage so far.
    pub(super) tokens: AnthropicUsage,
    pub(super) stop_reason: Option<String>,
    /// The text of the request that ended the answer.
    pub(super) stop_sequence: Option<String>,
    /// The model that answers.
    pub(super) model: Option<String>,
    /// The container in which the provider's own tools ran.
    pub(super) container: Option<String>,
}

/// A piece of a block.
#[derive(Debug)]
pub(super) enum BlockDelta {
    Text(String),
    Thinking(String),
    /// The signature of the reasoning, whole.
    Signature(String),
    /// A piece of a call's arguments.
    Input(String),
    /// A source of the text.
    Citation(Value),
}

/// Token counts as the provider reports them; later ones replace earlier ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnthropicUsage {
    input: Option<u64>,
    cache_written: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
}

impl AnthropicEvent {
    /// Reads the data of an event with this name, and whether it has placeholders for lone surrogates
    /// ([`json::SurrogateJoiner`]); `None` if it is no JSON object.
    pub(super) fn read(name: &str, text: &str) -> Option<(Self, bool)> {
        let json::ParsedJson { mut value, halved } = json::parse(text)?;
        let kind = match value.as_object()?.get("type").and_then(Value::as_str) {
            Some(kind) => kind.to_owned(),
            None if has_error(&value) => "error".to_owned(),
            None => name.to_owned(),
        };
        let index = value.get("index").and_then(Value::as_u64);
        let event = match kind.as_str() {
            "message_start" => Self::Begun(value.get("message").map(MessageHead::read).unwrap_or_default()),
            "content_block_start" => match value.get_mut("content_block").map(Value::take) {
                Some(Value::Object(block)) => Self::BlockBegun { index, block },
                _ => Self::Other,
            },
            "content_block_delta" => {
                let piece = value.get("delta").and_then(BlockDelta::read);
                piece.map_or(Self::Other, |piece| Self::BlockPiece { index, piece })
            }
            "message_delta" => Self::Ending(MessageHead::of_delta(&value)),
            "message_stop" => Self::Ended,
            "error" => Self::Failed(value),
            _ => Self::Other,
        };
        Some((event, halved))
    }

    /// The same event with its text changed.
    pub(super) fn map_texts(self, change: impl FnOnce(String) -> String) -> Self {
        let Self::BlockPiece { index, piece } = self else { return self };
        let piece = match piece {
            BlockDelta::Text(text) => BlockDelta::Text(change(text)),
            BlockDelta::Thinking(text) => BlockDelta::Thinking(change(text)),
            BlockDelta::Input(text) => BlockDelta::Input(change(text)),
            other => other,
        };
        Self::BlockPiece { index, piece }
    }

    /// A whole message as the events of a stream; `None` if it is no message.
    pub(super) fn read_whole(text: &str) -> Option<Vec<Self>> {
        let mut value = json::parse(&json::without_halves(text))?.value;
        if value.get("type").and_then(Value::as_str) == Some("error") || has_error(&value) {
            return Some(vec![Self::Failed(value)]);
        }
        let head = MessageHead::read(&value);
        let Value::Array(content) = value.get_mut("content")?.take() else { return None };
        let mut events = vec![Self::Begun(MessageHead::default())];
        for (index, block) in (0_u64..).zip(content) {
            if let Value::Object(block) = block {
                events.push(Self::BlockBegun { index: Some(index), block });
            }
        }
        events.push(Self::Ending(head));
        Some(events)
    }
}

fn has_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
}

impl MessageHead {
    fn read(message: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        Self {
            tokens: message.get("usage").map(AnthropicUsage::read).unwrap_or_default(),
            stop_reason: text(message.get("stop_reason")).filter(|reason| !reason.is_empty()),
            stop_sequence: text(message.get("stop_sequence")),
            model: text(message.get("model")).filter(|name| !name.is_empty()),
            container: text(message.pointer("/container/id")),
        }
    }

    fn of_delta(event: &Value) -> Self {
        let head = event.get("delta").map(Self::read).unwrap_or_default();
        Self { tokens: event.get("usage").map(AnthropicUsage::read).unwrap_or_default(), ..head }
    }
}

impl BlockDelta {
    fn read(delta: &Value) -> Option<Self> {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(match delta.get("type").and_then(Value::as_str)? {
            "text_delta" => Self::Text(text("text")),
            "thinking_delta" => Self::Thinking(text("thinking")),
            "signature_delta" => Self::Signature(text("signature")),
            "input_json_delta" => Self::Input(text("partial_json")),
            "citations_delta" => Self::Citation(delta.get("citation")?.clone()),
            _ => return None,
        })
    }
}

impl AnthropicUsage {
    fn read(usage: &Value) -> Self {
        let count = |key: &str| usage.get(key).and_then(Value::as_u64);
        Self {
            input: count("input_tokens"),
            cache_written: count("cache_creation_input_tokens"),
            cache_read: count("cache_read_input_tokens"),
            output: count("output_tokens"),
        }
    }

    /// A 0 after a number is ignored: such a provider has stopped counting.
    pub(super) fn replace(&mut self, newer: Self) {
        let known = |new: Option<u64>, old: Option<u64>| new.filter(|count| *count > 0).or(old);
        *self = Self {
            input: known(newer.input, self.input),
            cache_written: known(newer.cache_written, self.cache_written),
            cache_read: known(newer.cache_read, self.cache_read),
            output: known(newer.output, self.output),
        };
    }

    /// The usage as this server counts it: tokens of the cache belong to the prompt.
    pub(super) fn usage(self) -> Usage {
        let prompt = [self.input, self.cache_written, self.cache_read].into_iter().flatten();
        let usage = Usage::new(prompt.fold(0, u64::saturating_add), self.output.unwrap_or(0));
        Usage { cached_tokens: self.cache_read.unwrap_or(0), ..usage }
    }
}
