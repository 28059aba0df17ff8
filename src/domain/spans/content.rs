//! Prompts and answers as attributes, with limits of their size.

use crate::domain::characters::beginning;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use serde_json::{Value, json};

/// Longest text, bytes.
const TEXT_BYTES: usize = 16 * 1_024;
/// Longest id or name of a call, bytes: models may invent them.
const NAME_BYTES: usize = 256;
/// All texts of one job, bytes.
const JOB_BYTES: usize = 1_024 * 1_024;
/// Messages of an input; the newest ones stay.
const MESSAGES: usize = 64;

/// The text, or as much of it as fits, with an ellipsis.
pub(super) fn text_cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", beginning(text, max_bytes))
}

/// Makes content until a job has had its share.
#[derive(Debug)]
pub(super) struct SpanContent {
    left_bytes: usize,
}

impl SpanContent {
    /// With the share of one job.
    pub(super) fn new() -> Self {
        Self { left_bytes: JOB_BYTES }
    }

    /// The text within the limits.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.cut(text, TEXT_BYTES)
    }

    fn cut(&mut self, text: &str, max_bytes: usize) -> String {
        let cut = text_cut(text, max_bytes.min(self.left_bytes));
        self.left_bytes = self.left_bytes.saturating_sub(cut.len());
        cut
    }

    /// A text as the list of parts that the conventions want.
    pub(super) fn parts(&mut self, text: &str) -> Vec<Value> {
        if text.is_empty() { Vec::new() } else { vec![json!({"type": "text", "content": self.text(text)})] }
    }

    /// `gen_ai.input.messages`.
    pub(super) fn input(&mut self, messages: &[Message]) -> Value {
        let newest = messages.get(messages.len().saturating_sub(MESSAGES)..).unwrap_or_default();
        newest.iter().map(|message| self.message(message)).collect()
    }

    /// `gen_ai.output.messages` of one answer.
    pub(super) fn output(&mut self, text: &str, calls: &[ToolCall], finish_reason: &str) -> Value {
        let mut parts = self.parts(text);
        parts.extend(calls.iter().map(|call| self.call(call)));
        // The conventions have the singular here.
        let finish_reason = if finish_reason == "tool_calls" { "tool_call" } else { finish_reason };
        json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])
    }

    fn call(&mut self, call: &ToolCall) -> Value {
        let (id, name) = (self.cut(&call.id_ref, NAME_BYTES), self.cut(&call.name, NAME_BYTES));
        let arguments = self.text(&call.arguments);
        let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
        json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
    }

    fn message(&mut self, message: &Message) -> Value {
        let (role, parts) = match message {
            Message::System { content } => ("system", self.parts(content)),
            Message::User { content, attachments, images } => {
                let mut parts = self.parts(&Message::user_text(content, attachments));
                // Images stay where they are.
                parts.extend(images.iter().map(|_| json!({"type": "image"})));
                ("user", parts)
            }
            Message::Assistant { content, tool_calls, .. } => {
                let mut parts = self.parts(content);
                parts.extend(tool_calls.iter().map(|call| self.call(call)));
                ("assistant", parts)
            }
            Message::Tool { id_ref, content, .. } => {
                let response = self.text(content);
                ("tool", vec![json!({"type": "tool_call_response", "id": id_ref, "response": response})])
            }
        };
        json!({"role": role, "parts": parts})
    }
}
