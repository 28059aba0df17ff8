//! Arranges the conversation as this dialect requires: user and assistant take turns, each call has its
//! result, and there are no empty texts and no ids of other providers.

use crate::domain::image::Image;
use crate::domain::message::{Message, ProviderReplay};
use crate::domain::tool::ToolCall;
use crate::domain::user_parts::{self, UserPart};
use crate::llm::images::base64;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// The first message of a conversation that does not begin with the user.
const OPENING: &str = "(The conversation begins here.)";
/// The result of a call that has none.
const NO_RESULT: &str = r#"{"success":false,"error":"there is no result of this call"}"#;
/// The longest name of a tool, characters.
const NAME_CHARS: usize = 128;

/// The conversation, arranged.
pub(super) struct AnthropicMessages {
    /// The system prompt.
    pub(super) system: Vec<Value>,
    /// `messages`.
    pub(super) messages: Vec<Value>,
    /// The names of the tools that were called.
    pub(super) tools_called: Vec<String>,
    /// Whether the model may think. A turn that has begun without thinking cannot continue with it.
    pub(super) may_think: bool,
}

#[derive(Debug)]
enum AnthropicTurn {
    User {
        /// The ids of the calls in the turn before, in their order.
        expected: Vec<String>,
        results: HashMap<String, Value>,
        blocks: Vec<Value>,
    },
    Assistant {
        calls: Vec<String>,
        blocks: Vec<Value>,
    },
}

impl AnthropicMessages {
    /// Arranges the messages for the model of this configured id.
    pub(super) fn arrange(messages: &[Message], model: &str) -> Self {
        let mut builder =
            TurnBuilder { model, system: Vec::new(), turns: Vec::new(), ids: AnthropicIds::default() };
        for message in messages {
            builder.take(message);
        }
        if !matches!(builder.turns.first(), Some(AnthropicTurn::User { .. })) {
            let blocks = vec![text(OPENING)];
            builder
                .turns
                .insert(0, AnthropicTurn::User { expected: Vec::new(), results: HashMap::new(), blocks });
        }
        if matches!(builder.turns.last(), Some(AnthropicTurn::Assistant { calls, .. }) if !calls.is_empty()) {
            builder.user();
        }
        let may_think = may_think(&builder.turns);
        let mut messages: Vec<Value> = builder.turns.into_iter().map(AnthropicTurn::into_message).collect();
        trim_last(&mut messages);
        Self { system: builder.system, messages, tools_called: builder.ids.tools, may_think }
    }
}

/// Adds the blocks of a paused answer as the last message.
pub(super) fn continue_with(messages: &mut Vec<Value>, content_blocks: Vec<Value>) {
    let last = messages.last_mut().filter(|last| last.get("role") == Some(&json!("assistant")));
    match last.and_then(|last| last.get_mut("content")).and_then(Value::as_array_mut) {
        Some(content) => content.extend(content_blocks),
        None => messages.push(json!({"role": "assistant", "content": content_blocks})),
    }
    trim_last(messages);
}

/// If the assistant's message is the last one, it must not end in white space.
fn trim_last(messages: &mut [Value]) {
    let last = messages.last_mut().filter(|last| last.get("role") == Some(&json!("assistant")));
    let block = last.and_then(|last| last.pointer_mut("/content")?.as_array_mut()?.last_mut());
    if let Some(Value::String(text)) = block.and_then(|block| block.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn is_thinking(block: &Value) -> bool {
    matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

fn is_blank_text(block: &Value) -> bool {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    is_text && block.get("text").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
}

/// The assistant's turn since the last user message must begin with thinking, or do without it.
fn may_think(turns: &[AnthropicTurn]) -> bool {
    let last_user = turns
        .iter()
        .rposition(|turn| matches!(turn, AnthropicTurn::User { expected, .. } if expected.is_empty()));
    let since = turns.get(last_user.unwrap_or(0)..).unwrap_or_default();
    let content_blocks = since.iter().find_map(|turn| match turn {
        AnthropicTurn::Assistant { blocks, .. } => Some(blocks),
        AnthropicTurn::User { .. } => None,
    });
    content_blocks.is_none_or(|blocks| blocks.first().is_some_and(is_thinking))
}

impl AnthropicTurn {
    fn into_message(self) -> Value {
        match self {
            Self::Assistant { blocks, .. } => json!({"role": "assistant", "content": blocks}),
            Self::User { expected, mut results, blocks } => {
                let result = |id: String| results.remove(&id).unwrap_or_else(|| result(&id, NO_RESULT));
                let content: Vec<Value> = expected.into_iter().map(result).chain(blocks).collect();
                json!({"role": "user", "content": content})
            }
        }
    }
}

fn result(id: &str, content: &str) -> Value {
    let parsed: Option<Value> = serde_json::from_str(content).ok();
    let failed = parsed.and_then(|parsed| parsed.get("success").and_then(Value::as_bool)) == Some(false);
    if failed {
        return json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": true});
    }
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

struct TurnBuilder<'a> {
    model: &'a str,
    system: Vec<Value>,
    turns: Vec<AnthropicTurn>,
    ids: AnthropicIds,
}

impl TurnBuilder<'_> {
    fn take(&mut self, message: &Message) {
        match message {
            Message::System { content } if content.trim().is_empty() => {}
            Message::System { content } if self.turns.is_empty() => self.system.push(text(content)),
            Message::System { content } => self.say(content),
            Message::User { content, attachments, images } => {
                for part in user_parts::in_order(content, attachments, images) {
                    match part {
                        UserPart::Text(words) => self.say(&words),
                        UserPart::Image(image) => self.show(image),
                    }
                }
            }
            Message::Tool { id_ref, name, content } => self.answer(id_ref, name, content),
            Message::Assistant { content, tool_calls, echo, .. } => {
                self.assistant(content, tool_calls, echo.as_ref());
            }
        }
    }

    fn say(&mut self, words: &str) {
        if words.trim().is_empty() {
            return;
        }
        if let Some(AnthropicTurn::User { blocks, .. }) = self.user() {
            blocks.push(text(words));
        }
    }

    fn show(&mut self, image: &Image) {
        let Some(data) = base64(image) else { return };
        let source = json!({"type": "base64", "media_type": image.media_type.as_str(), "data": data});
        if let Some(AnthropicTurn::User { blocks, .. }) = self.user() {
            blocks.push(json!({"type": "image", "source": source}));
        }
    }

    fn answer(&mut self, id_ref: &str, name: &str, content: &str) {
        let id = self.ids.latest.get(id_ref).cloned().unwrap_or_default();
        if let Some(AnthropicTurn::User { expected, results, .. }) = self.user()
            && expected.contains(&id)
            && !results.contains_key(&id)
        {
            results.insert(id.clone(), result(&id, content));
            return;
        }
        // Its call is not sent.
        self.say(&format!("(Result of an earlier call of {name}: {content})"));
    }

    /// The user's turn. A new one begins after the assistant's.
    fn user(&mut self) -> Option<&mut AnthropicTurn> {
        let expected = match self.turns.last() {
            Some(AnthropicTurn::User { .. }) => None,
            Some(AnthropicTurn::Assistant { calls, .. }) => Some(calls.clone()),
            None => Some(Vec::new()),
        };
        if let Some(expected) = expected {
            self.turns.push(AnthropicTurn::User { expected, results: HashMap::new(), blocks: Vec::new() });
        }
        self.turns.last_mut()
    }

    fn assistant(&mut self, content: &str, tool_calls: &[ToolCall], echo: Option<&ProviderReplay>) {
        let mut wanted: Vec<&ToolCall> = tool_calls.iter().collect();
        let (mut content_blocks, mut called) = (Vec::new(), Vec::new());
        let parts = echo.filter(|echo| echo.model == self.model).and_then(|echo| echo.parts.as_array());
        let plain = [text(content)];
        for part in parts.map_or(plain.as_slice(), Vec::as_slice) {
            if part.get("type").and_then(Value::as_str) != Some("tool_use") {
                content_blocks.push(part.clone());
                continue;
            }
            let id = part.get("id").and_then(Value::as_str);
            let Some(at) = wanted.iter().position(|call| Some(call.id_ref.as_str()) == id) else { continue };
            let mut part = part.clone();
            if let Some(id) = part.get_mut("id") {
                *id = json!(self.ids.assign(wanted.remove(at), &mut called));
                content_blocks.push(part);
            }
        }
        for call in wanted {
            let id = self.ids.assign(call, &mut called);
            let (name, input) = (tool_name(&call.name), ToolCall::object_of(&call.arguments));
            content_blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        }
        content_blocks.retain(|block| !is_blank_text(block));
        while content_blocks.last().is_some_and(is_thinking) {
            content_blocks.pop(); // providers refuse it as the last block
        }
        if content_blocks.is_empty() {
            return;
        }
        match self.turns.last_mut() {
            Some(AnthropicTurn::Assistant { calls, blocks }) => {
                calls.append(&mut called);
                blocks.append(&mut content_blocks);
            }
            _ => self.turns.push(AnthropicTurn::Assistant { calls: called, blocks: content_blocks }),
        }
    }
}

/// Letters, digits, `_` and `-`; never empty.
fn valid_word(text: &str, empty: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    if text.is_empty() { empty.to_owned() } else { text.chars().take(NAME_CHARS).map(replace).collect() }
}

fn tool_name(name: &str) -> String {
    valid_word(name, "unnamed")
}

/// Wire ids of calls. They use a narrow alphabet, and each one is used once.
#[derive(Debug, Default)]
struct AnthropicIds {
    latest: HashMap<String, String>,
    taken: HashSet<String>,
    tools: Vec<String>,
}

impl AnthropicIds {
    /// A wire id for a call. Its result uses the same id.
    fn assign(&mut self, call: &ToolCall, called: &mut Vec<String>) -> String {
        let wire_id = valid_word(&call.id_ref, "call");
        let mut id = wire_id.clone();
        let mut number = 1_usize;
        while !self.taken.insert(id.clone()) {
            number = number.saturating_add(1);
            id = format!("{wire_id}_{number}");
        }
        self.latest.insert(call.id_ref.clone(), id.clone());
        called.push(id.clone());
        let name = tool_name(&call.name);
        if !self.tools.contains(&name) {
            self.tools.push(name);
        }
        id
    }
}
