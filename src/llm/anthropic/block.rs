//! One block of a message's content, put together from its pieces. Owns what of it must come back with the history;
//! refuses to know the other blocks.

use super::event::Piece;
use crate::domain::tool::ToolCall;
use serde_json::{Map, Value, json};

/// What the dialect does with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// A call of one of this server's tools.
    Call,
    /// A call of one of the provider's tools, which runs it.
    OwnCall,
    /// Comes whole, and must come back as it was.
    Sealed,
    /// Of no use to anybody later.
    Passing,
}

/// A block so far.
#[derive(Debug)]
pub(super) struct Block {
    index: Option<u64>,
    kind: Kind,
    /// As it began.
    fields: Map<String, Value>,
    /// The text or the reasoning.
    text: String,
    signature: String,
    /// Arguments that came in pieces.
    input: String,
    citations: Vec<Value>,
}

fn text_of(fields: &mut Map<String, Value>, key: &str) -> String {
    match fields.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

impl Block {
    /// A block as its first event shows it.
    pub(super) fn new(index: Option<u64>, mut fields: Map<String, Value>) -> Self {
        let kind = kind_of(fields.get("type").and_then(Value::as_str).unwrap_or_default());
        let (mut text, mut signature, mut citations) = (String::new(), String::new(), Vec::new());
        match kind {
            Kind::Text => {
                text = text_of(&mut fields, "text");
                if let Some(Value::Array(sources)) = fields.remove("citations") {
                    citations = sources;
                }
            }
            Kind::Thinking => {
                text = text_of(&mut fields, "thinking");
                signature = text_of(&mut fields, "signature");
            }
            _ => {}
        }
        Self { index, kind, fields, text, signature, input: String::new(), citations }
    }

    /// A block whose beginning was lost.
    pub(super) fn of_piece(index: Option<u64>, piece: &Piece) -> Option<Self> {
        let kind = match piece {
            Piece::Text(_) | Piece::Citation(_) => "text",
            Piece::Thinking(_) | Piece::Signature(_) => "thinking",
            Piece::Input(_) => return None,
        };
        Some(Self::new(index, Map::from_iter([("type".to_owned(), json!(kind))])))
    }

    /// Its place in the message.
    pub(super) fn index(&self) -> Option<u64> {
        self.index
    }

    /// Whether a call of this server's tools.
    pub(super) fn is_call(&self) -> bool {
        self.kind == Kind::Call
    }

    /// Whether it is kept as it came, and so has to be counted.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.kind, Kind::Call | Kind::OwnCall | Kind::Sealed)
    }

    /// Text that readers see.
    pub(super) fn text(&self) -> &str {
        if self.kind == Kind::Text { &self.text } else { "" }
    }

    /// Reasoning that readers see.
    pub(super) fn thinking(&self) -> &str {
        if self.kind == Kind::Thinking { &self.text } else { "" }
    }

    /// Takes a piece in; one of another kind than the block is passed over.
    pub(super) fn take(&mut self, piece: Piece) {
        match (self.kind, piece) {
            (Kind::Text, Piece::Text(text)) | (Kind::Thinking, Piece::Thinking(text)) => {
                self.text.push_str(&text);
            }
            (Kind::Thinking, Piece::Signature(seal)) => self.signature.push_str(&seal),
            (Kind::Call | Kind::OwnCall, Piece::Input(json)) => self.input.push_str(&json),
            (Kind::Text, Piece::Citation(source)) => self.citations.push(source),
            _ => {}
        }
    }

    /// How many bytes of arguments have come in pieces.
    pub(super) fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// The call that it is, with the provider's id for it; `None` when it names no tool.
    pub(super) fn call(&self) -> Option<ToolCall> {
        let text = |key: &str| self.fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = Some(text("name")).filter(|name| self.is_call() && !name.is_empty())?;
        Some(ToolCall { id_ref: text("id"), name, arguments: self.arguments() })
    }

    /// The arguments in pieces, or else those that the block began with.
    fn arguments(&self) -> String {
        match self.fields.get("input") {
            _ if !self.input.trim().is_empty() => self.input.clone(),
            Some(Value::String(text)) => text.clone(),
            Some(input) if !input.is_null() => input.to_string(),
            _ => "{}".to_owned(),
        }
    }

    /// Whether plain text and plain calls cannot say what it says.
    pub(super) fn needs_echo(&self) -> bool {
        match self.kind {
            Kind::Text => !self.citations.is_empty(),
            Kind::Thinking => !self.signature.is_empty(),
            Kind::OwnCall | Kind::Sealed => true,
            Kind::Call | Kind::Passing => false,
        }
    }

    /// The call of the provider's own tools that it is.
    pub(super) fn own_call(&self) -> Option<&str> {
        self.fields.get("id").and_then(Value::as_str).filter(|_| self.kind == Kind::OwnCall)
    }

    /// The call of the provider's own tools that it answers.
    pub(super) fn answers(&self) -> Option<&str> {
        self.fields.get("tool_use_id").and_then(Value::as_str).filter(|_| self.kind == Kind::Sealed)
    }

    /// The block as it is sent back; `None` for what providers refuse or do not miss. A call bears the given id.
    pub(super) fn echo(&self, id: Option<&str>) -> Option<Value> {
        match self.kind {
            Kind::Text if self.citations.is_empty() => {
                (!self.text.trim().is_empty()).then(|| json!({"type": "text", "text": self.text}))
            }
            Kind::Text => Some(json!({"type": "text", "text": self.text, "citations": self.citations})),
            Kind::Thinking => (!self.signature.is_empty())
                .then(|| json!({"type": "thinking", "thinking": self.text, "signature": self.signature})),
            Kind::Call | Kind::OwnCall => {
                let mut fields = self.fields.clone();
                fields.insert("input".to_owned(), arguments(&self.arguments()));
                if let Some(id) = id {
                    fields.insert("id".to_owned(), json!(id));
                }
                Some(Value::Object(fields))
            }
            Kind::Sealed => Some(Value::Object(self.fields.clone())),
            Kind::Passing => None,
        }
    }
}

fn kind_of(word: &str) -> Kind {
    match word {
        "text" => Kind::Text,
        "thinking" => Kind::Thinking,
        "tool_use" => Kind::Call,
        "server_tool_use" | "mcp_tool_use" => Kind::OwnCall,
        "redacted_thinking" | "container_upload" => Kind::Sealed,
        result if result.ends_with("_tool_result") => Kind::Sealed,
        _ => Kind::Passing,
    }
}

/// Providers want an object; of malformed arguments the tool's result has told the model what was wrong.
pub(super) fn arguments(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(object @ Value::Object(_)) => object,
        _ if text.trim().is_empty() => json!({}),
        _ => json!({"malformed_arguments": text}),
    }
}
