//! Assembles one content block from its pieces and decides what of it goes back with the history.

use super::event::BlockDelta;
use crate::domain::tool::ToolCall;
use serde_json::{Map, Value, json};

/// How the dialect treats a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    /// A call of one of this server's tools.
    Call,
    /// A call of one of the provider's tools, which runs it.
    OwnCall,
    /// Arrives whole, and goes back unchanged.
    Opaque,
    /// Not needed after this answer.
    Discarded,
}

/// A block so far.
#[derive(Debug)]
pub(super) struct ContentBlock {
    index: Option<u64>,
    kind: BlockKind,
    /// The fields of its first event.
    fields: Map<String, Value>,
    /// The text or the reasoning.
    text: String,
    signature: String,
    /// Arguments that arrived in pieces.
    input: String,
    citations: Vec<Value>,
}

fn text_of(fields: &mut Map<String, Value>, key: &str) -> String {
    match fields.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

impl ContentBlock {
    /// A block as its first event shows it.
    pub(super) fn new(index: Option<u64>, mut fields: Map<String, Value>) -> Self {
        let kind = kind_of(fields.get("type").and_then(Value::as_str).unwrap_or_default());
        let (mut text, mut signature, mut citations) = (String::new(), String::new(), Vec::new());
        match kind {
            BlockKind::Text => {
                text = text_of(&mut fields, "text");
                if let Some(Value::Array(sources)) = fields.remove("citations") {
                    citations = sources;
                }
            }
            BlockKind::Thinking => {
                text = text_of(&mut fields, "thinking");
                signature = text_of(&mut fields, "signature");
            }
            _ => {}
        }
        Self { index, kind, fields, text, signature, input: String::new(), citations }
    }

    /// A block without its first event.
    pub(super) fn of_piece(index: Option<u64>, piece: &BlockDelta) -> Option<Self> {
        let kind = match piece {
            BlockDelta::Text(_) | BlockDelta::Citation(_) => "text",
            BlockDelta::Thinking(_) | BlockDelta::Signature(_) => "thinking",
            BlockDelta::Input(_) => return None,
        };
        Some(Self::new(index, Map::from_iter([("type".to_owned(), json!(kind))])))
    }

    /// Its place in the message.
    pub(super) fn index(&self) -> Option<u64> {
        self.index
    }

    /// Whether a call of this server's tools.
    pub(super) fn is_call(&self) -> bool {
        self.kind == BlockKind::Call
    }

    /// Whether all of it is kept and so has to be counted.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.kind, BlockKind::Call | BlockKind::OwnCall | BlockKind::Opaque)
    }

    /// Text that readers see.
    pub(super) fn text(&self) -> &str {
        if self.kind == BlockKind::Text { &self.text } else { "" }
    }

    /// Reasoning that readers see.
    pub(super) fn thinking(&self) -> &str {
        if self.kind == BlockKind::Thinking { &self.text } else { "" }
    }

    /// Adds a piece; a piece of another kind than the block is ignored.
    pub(super) fn append(&mut self, piece: BlockDelta) {
        match (self.kind, piece) {
            (BlockKind::Text, BlockDelta::Text(text)) | (BlockKind::Thinking, BlockDelta::Thinking(text)) => {
                self.text.push_str(&text);
            }
            (BlockKind::Thinking, BlockDelta::Signature(part)) => self.signature.push_str(&part),
            (BlockKind::Call | BlockKind::OwnCall, BlockDelta::Input(json)) => self.input.push_str(&json),
            (BlockKind::Text, BlockDelta::Citation(source)) => self.citations.push(source),
            _ => {}
        }
    }

    /// Bytes of the arguments that arrived in pieces.
    pub(super) fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// The name of the tool that is called, if this is a call.
    pub(super) fn called_name(&self) -> Option<&str> {
        let name = self.fields.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        name.filter(|_| self.is_call())
    }

    /// The arguments in pieces behind these bytes, and how many bytes are before them. Leading spaces alone
    /// are no arguments.
    pub(super) fn input_behind(&self, bytes: usize) -> (usize, &str) {
        let is_blank = |text: Option<&str>| text.unwrap_or_default().trim().is_empty();
        match bytes {
            _ if is_blank(Some(&self.input)) => (0, ""),
            bytes if is_blank(self.input.get(..bytes)) => (0, &self.input),
            bytes => (bytes, self.input.get(bytes..).unwrap_or_default()),
        }
    }

    /// The call with the provider's id; `None` for other blocks and for a call without a name.
    pub(super) fn call(&self) -> Option<ToolCall> {
        let name = self.called_name()?.to_owned();
        let id_ref = self.fields.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(ToolCall { id_ref, name, arguments: self.arguments() })
    }

    /// The arguments in pieces, or else those of the first event.
    fn arguments(&self) -> String {
        match self.fields.get("input") {
            _ if !self.input.trim().is_empty() => self.input.clone(),
            Some(Value::String(text)) => text.clone(),
            Some(input) if !input.is_null() => input.to_string(),
            _ => "{}".to_owned(),
        }
    }

    /// Whether text and calls alone would lose a part of it.
    pub(super) fn needs_echo(&self) -> bool {
        match self.kind {
            BlockKind::Text => !self.citations.is_empty(),
            BlockKind::Thinking => !self.signature.is_empty(),
            BlockKind::OwnCall | BlockKind::Opaque => true,
            BlockKind::Call | BlockKind::Discarded => false,
        }
    }

    /// Its id, if it is a call of the provider's own tools.
    pub(super) fn own_call(&self) -> Option<&str> {
        self.fields.get("id").and_then(Value::as_str).filter(|_| self.kind == BlockKind::OwnCall)
    }

    /// The id of the call that it answers, if it is a result of the provider's own tools.
    pub(super) fn answers(&self) -> Option<&str> {
        self.fields.get("tool_use_id").and_then(Value::as_str).filter(|_| self.kind == BlockKind::Opaque)
    }

    /// The block as it goes back; `None` if providers refuse it or do not need it. A call gets the given id.
    pub(super) fn echo(&self, id: Option<&str>) -> Option<Value> {
        match self.kind {
            BlockKind::Text if self.citations.is_empty() => {
                (!self.text.trim().is_empty()).then(|| json!({"type": "text", "text": self.text}))
            }
            BlockKind::Text => Some(json!({"type": "text", "text": self.text, "citations": self.citations})),
            BlockKind::Thinking => (!self.signature.is_empty())
                .then(|| json!({"type": "thinking", "thinking": self.text, "signature": self.signature})),
            BlockKind::Call | BlockKind::OwnCall => {
                let mut fields = self.fields.clone();
                fields.insert("input".to_owned(), ToolCall::object_of(&self.arguments()));
                if let Some(id) = id {
                    fields.insert("id".to_owned(), json!(id));
                }
                Some(Value::Object(fields))
            }
            BlockKind::Opaque => Some(Value::Object(self.fields.clone())),
            BlockKind::Discarded => None,
        }
    }
}

fn kind_of(word: &str) -> BlockKind {
    match word {
        "text" => BlockKind::Text,
        "thinking" => BlockKind::Thinking,
        "tool_use" => BlockKind::Call,
        "server_tool_use" | "mcp_tool_use" => BlockKind::OwnCall,
        "redacted_thinking" | "container_upload" => BlockKind::Opaque,
        result if result.ends_with("_tool_result") => BlockKind::Opaque,
        _ => BlockKind::Discarded,
    }
}
