//! The chunks of a streamed chat completion.

use super::super::answer::ending::AnswerEnding;
use super::super::answer::pieces::AnswerWriter;
use super::super::usage::CompletionUsage;
use super::completion::{ChatAnswerCall, completion_id, finish_reason};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use crate::http::v1::openai::failure;
use serde::Serialize;

#[derive(Serialize)]
struct ChatChunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<StreamedChoice<'a>>,
    /// Absent unless the client asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ChunkUsage>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChunkUsage {
    /// `null`: the last chunk has it.
    Later,
    Total(CompletionUsage),
}

#[derive(Serialize)]
struct StreamedChoice<'a> {
    index: u32,
    delta: ChunkDelta<'a>,
    logprobs: Option<bool>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct ChunkDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ChunkCall<'a>; 1]>,
}

#[derive(Serialize)]
struct ChunkCall<'a> {
    index: u32,
    #[serde(flatten)]
    part: ChunkCallPart<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChunkCallPart<'a> {
    /// The call, or its beginning.
    Call(ChatAnswerCall),
    Piece {
        function: ChunkArguments<'a>,
    },
}

#[derive(Serialize)]
struct ChunkArguments<'a> {
    arguments: &'a str,
}

/// Makes the chunks of one stream.
pub(super) struct ChunkWriter {
    job: JobId,
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    has_begun: bool,
}

impl ChunkWriter {
    pub(super) fn new(job: &Job, include_usage: bool) -> Self {
        Self {
            job: job.id,
            id: completion_id(job.id),
            created: job.created_at_ms / 1_000,
            model: job.model.clone(),
            include_usage,
            has_begun: false,
        }
    }

    /// Writes a chunk, after the one that names the role.
    fn chunk(&mut self, out: &mut Vec<u8>, delta: ChunkDelta<'_>, finish_reason: Option<&'static str>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let content = delta.tool_calls.is_none().then_some("");
            let role = ChunkDelta { role: Some("assistant"), content, ..ChunkDelta::default() };
            self.send(
                out,
                vec![StreamedChoice { index: 0, delta: role, logprobs: None, finish_reason: None }],
                None,
            );
        }
        self.send(out, vec![StreamedChoice { index: 0, delta, logprobs: None, finish_reason }], None);
    }

    fn call_part(&mut self, out: &mut Vec<u8>, index: u32, part: ChunkCallPart<'_>) {
        let tool_calls = Some([ChunkCall { index, part }]);
        self.chunk(out, ChunkDelta { tool_calls, ..ChunkDelta::default() }, None);
    }

    fn send(&self, out: &mut Vec<u8>, choices: Vec<StreamedChoice<'_>>, usage: Option<CompletionUsage>) {
        let chunk = ChatChunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices,
            usage: self.include_usage.then(|| usage.map_or(ChunkUsage::Later, ChunkUsage::Total)),
        };
        out.extend_from_slice(b"data: ");
        match serde_json::to_vec(&chunk) {
            Ok(text) => out.extend(text),
            Err(error) => tracing::error!(job = %self.job, %error, "a chunk cannot be written as JSON"),
        }
        out.extend_from_slice(b"\n\n");
    }
}

impl AnswerWriter for ChunkWriter {
    fn thinking(&mut self, out: &mut Vec<u8>, text: &str) {
        self.chunk(out, ChunkDelta { reasoning_content: Some(text), ..ChunkDelta::default() }, None);
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        self.chunk(out, ChunkDelta { content: Some(text), ..ChunkDelta::default() }, None);
    }

    fn call(&mut self, out: &mut Vec<u8>, place: u32, call: ToolCall) {
        self.call_part(out, place, ChunkCallPart::Call(call.into()));
    }

    fn begin_call(&mut self, out: &mut Vec<u8>, place: u32, call: ToolCall) {
        self.call(out, place, call);
    }

    fn arguments(&mut self, out: &mut Vec<u8>, place: u32, text: &str) {
        if !text.is_empty() {
            self.call_part(out, place, ChunkCallPart::Piece { function: ChunkArguments { arguments: text } });
        }
    }

    fn end_call(&mut self, _: &mut Vec<u8>, _: u32) {}

    fn finish(&mut self, out: &mut Vec<u8>, ending: AnswerEnding, usage: Usage) {
        self.chunk(out, ChunkDelta::default(), Some(finish_reason(ending.reason)));
        if self.include_usage {
            self.send(out, Vec::new(), Some(usage.into()));
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &ApiError) {
        out.extend(failure::frame(error));
    }

    fn silence(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": keep-alive\n\n");
    }
}
