//! The events of a streamed message.

use super::object::{MessageBlock, MessageObject, MessageUsage, ThinkingView, signature, stop_reason};
use super::request::MessagesForm;
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use crate::http::middleware::request_id::RequestId;
use crate::http::response::error::AnthropicErrorResponse;
use crate::http::v1::openai::answer::ending::AnswerEnding;
use crate::http::v1::openai::answer::pieces::AnswerWriter;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessageEvent<'a> {
    MessageStart { message: &'a MessageObject },
    ContentBlockStart { index: u32, content_block: &'a MessageBlock },
    ContentBlockDelta { index: u32, delta: MessageBlockDelta<'a> },
    ContentBlockStop { index: u32 },
    MessageDelta { delta: &'a MessageEnding, usage: &'a MessageUsage },
    MessageStop,
    Ping,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum MessageBlockDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

#[derive(Serialize)]
struct MessageEnding {
    stop_reason: &'static str,
    stop_sequence: Option<String>,
    stop_details: Option<Value>,
    container: Option<Value>,
}

impl MessageEvent<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Ping => "ping",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Text,
    Thinking,
    /// The call of this place.
    Call {
        place: u32,
        has_input: bool,
    },
}

/// Writes the events of one stream.
pub(super) struct MessageEventWriter {
    job: JobId,
    request_id: RequestId,
    view: ThinkingView,
    /// The message, until it was sent.
    message: Option<MessageObject>,
    /// The block that is open.
    open: Option<OpenBlock>,
    /// The index of the next block.
    next: u32,
}

impl MessageEventWriter {
    pub(super) fn new(job: &Job, form: &MessagesForm, request_id: RequestId) -> Self {
        let message = Some(MessageObject::begun(job, form.input_tokens));
        Self { job: job.id, request_id, view: form.thinking, message, open: None, next: 0 }
    }

    fn send(&self, out: &mut Vec<u8>, event: &MessageEvent<'_>) {
        self.frame(out, event.name(), event);
    }

    fn frame(&self, out: &mut Vec<u8>, name: &str, data: &impl Serialize) {
        out.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
        match serde_json::to_vec(data) {
            Ok(text) => out.extend(text),
            Err(error) => tracing::error!(job = %self.job, %error, "an event cannot be written as JSON"),
        }
        out.extend_from_slice(b"\n\n");
    }

    /// Sends the message without its blocks, once.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(message) = self.message.take() {
            self.send(out, &MessageEvent::MessageStart { message: &message });
        }
    }

    /// The index of the open block.
    fn current(&self) -> u32 {
        self.next.saturating_sub(1)
    }

    fn start(&mut self, out: &mut Vec<u8>, block: &MessageBlock) {
        self.begin(out);
        self.close(out);
        self.send(out, &MessageEvent::ContentBlockStart { index: self.next, content_block: block });
        self.next = self.next.saturating_add(1);
    }

    fn delta(&self, out: &mut Vec<u8>, delta: MessageBlockDelta<'_>) {
        self.send(out, &MessageEvent::ContentBlockDelta { index: self.current(), delta });
    }

    /// Opens a block of this kind, unless one is open.
    fn reach(&mut self, out: &mut Vec<u8>, kind: OpenBlock, block: &MessageBlock) {
        if self.open != Some(kind) {
            self.start(out, block);
            self.open = Some(kind);
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        match self.open.take() {
            None => return,
            Some(OpenBlock::Thinking) => {
                self.delta(out, MessageBlockDelta::Signature { signature: &signature(self.job) });
            }
            Some(OpenBlock::Call { has_input: false, .. }) => {
                self.delta(out, MessageBlockDelta::InputJson { partial_json: "{}" });
            }
            Some(OpenBlock::Text | OpenBlock::Call { .. }) => {}
        }
        self.send(out, &MessageEvent::ContentBlockStop { index: self.current() });
    }
}

impl AnswerWriter for MessageEventWriter {
    fn thinking(&mut self, out: &mut Vec<u8>, text: &str) {
        if self.view != ThinkingView::Hidden {
            let block = MessageBlock::Thinking { thinking: String::new(), signature: String::new() };
            self.reach(out, OpenBlock::Thinking, &block);
        }
        if self.view == ThinkingView::Shown {
            self.delta(out, MessageBlockDelta::Thinking { thinking: text });
        }
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        self.reach(out, OpenBlock::Text, &MessageBlock::text(String::new()));
        self.delta(out, MessageBlockDelta::Text { text });
    }

    fn call(&mut self, out: &mut Vec<u8>, _: u32, call: ToolCall) {
        self.start(out, &MessageBlock::tool_use(&call, Map::new().into()));
        let input = ToolCall::object_of(&call.arguments).to_string();
        self.delta(out, MessageBlockDelta::InputJson { partial_json: &input });
        self.send(out, &MessageEvent::ContentBlockStop { index: self.current() });
    }

    fn begin_call(&mut self, out: &mut Vec<u8>, place: u32, call: ToolCall) {
        self.start(out, &MessageBlock::tool_use(&call, Map::new().into()));
        self.open = Some(OpenBlock::Call { place, has_input: false });
    }

    fn arguments(&mut self, out: &mut Vec<u8>, place: u32, text: &str) {
        // Only blanks can follow arguments that are complete, and so the block's end.
        if let Some(OpenBlock::Call { place: open, has_input }) = &mut self.open
            && *open == place
            && !text.is_empty()
        {
            *has_input = true;
            self.delta(out, MessageBlockDelta::InputJson { partial_json: text });
        }
    }

    fn end_call(&mut self, out: &mut Vec<u8>, place: u32) {
        if matches!(self.open, Some(OpenBlock::Call { place: open, .. }) if open == place) {
            self.close(out);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, ending: AnswerEnding, usage: Usage) {
        self.begin(out);
        self.close(out);
        let delta = MessageEnding {
            stop_reason: stop_reason(&ending),
            stop_sequence: ending.stop_sequence,
            stop_details: None,
            container: None,
        };
        self.send(out, &MessageEvent::MessageDelta { delta: &delta, usage: &usage.into() });
        self.send(out, &MessageEvent::MessageStop);
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &ApiError) {
        self.frame(out, "error", &AnthropicErrorResponse::of(error, Some(&self.request_id)));
    }

    fn silence(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.send(out, &MessageEvent::Ping);
    }
}
