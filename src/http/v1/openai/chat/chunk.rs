//! The chunks of a streamed chat completion, made from the events of its job.
//!
//! A step that broke off was already sent: the model's next text must repeat it, else the stream cannot go
//! on.

use super::super::usage::CompletionUsage;
use super::completion::{ChatAnswerCall, finish_reason};
use super::request::ChunkOptions;
use super::steps::{BREAK, completion_id, handed_over};
use crate::domain::event::{Event, FinishReason, StepKind};
use crate::domain::id::JobId;
use crate::domain::job::Job;
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
    tool_calls: Option<[ChunkCall; 1]>,
}

#[derive(Serialize)]
struct ChunkCall {
    index: u32,
    #[serde(flatten)]
    call: ChatAnswerCall,
}

/// Makes the chunks of one stream.
pub(super) struct ChunkWriter {
    job: JobId,
    id: String,
    created: u64,
    model: String,
    options: ChunkOptions,
    has_begun: bool,
    /// The newest text step: its index, and its text as far as it was sent.
    step: Option<(u32, String)>,
    /// The text of a step that broke off, which the client has and the next one has not repeated yet.
    lost: Option<String>,
    /// A tool was called since the last text.
    is_after_call: bool,
    calls: u32,
    /// The text that is sent at the end.
    held: String,
}

/// Why a stream cannot show the rest of its job.
#[derive(Debug)]
pub(super) enum ChunkEnd {
    /// The answer is complete.
    Complete,
    /// The job ended without an answer, or its answer began anew.
    Failed(ApiError),
}

impl ChunkWriter {
    pub(super) fn new(job: &Job, options: ChunkOptions) -> Self {
        Self {
            job: job.id,
            id: completion_id(job.id),
            created: job.created_at_ms / 1_000,
            model: job.model.clone(),
            options,
            has_begun: false,
            step: None,
            lost: None,
            is_after_call: false,
            calls: 0,
            held: String::new(),
        }
    }

    /// Appends the chunks of an event; `Some` when it is the last one.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, event: Event) -> Option<ChunkEnd> {
        match event {
            Event::Delta { kind: StepKind::Thinking, text, .. } => self.thinking(out, &text),
            Event::Delta { index, kind: StepKind::Text, text, .. } => return self.text(out, index, &text),
            Event::StepDiscarded { index } => self.discard(index),
            Event::ToolCall { .. } | Event::Done { .. } if self.lost.is_some() => {
                return Some(ChunkEnd::Failed(self.restarted()));
            }
            Event::ToolCall { call, is_client, .. } => {
                self.is_after_call = true;
                if is_client {
                    let call = handed_over(self.job, self.calls, call).into();
                    let tool_calls = Some([ChunkCall { index: self.calls, call }]);
                    self.calls = self.calls.saturating_add(1);
                    self.chunk(out, ChunkDelta { tool_calls, ..ChunkDelta::default() }, None);
                }
            }
            Event::ToolResult { .. } => self.is_after_call = true,
            Event::Done { finish_reason, usage, .. } => {
                self.finish(out, finish_reason, usage);
                return Some(ChunkEnd::Complete);
            }
            Event::Error { content, code } => return Some(ChunkEnd::Failed(failure::of_job(code, content))),
            Event::Status { .. }
            | Event::WaitingApproval { .. }
            | Event::Summary { .. }
            | Event::AgentStep(_) => {}
        }
        None
    }

    fn thinking(&mut self, out: &mut Vec<u8>, text: &str) {
        // Text that turned out to be reasoning is not sent again.
        if self.lost.as_deref().is_some_and(|lost| lost.trim() == text.trim()) {
            self.lost = None;
            return;
        }
        self.chunk(out, ChunkDelta { reasoning_content: Some(text), ..ChunkDelta::default() }, None);
    }

    fn text(&mut self, out: &mut Vec<u8>, index: u32, text: &str) -> Option<ChunkEnd> {
        let is_new = self.step.as_ref().is_none_or(|(newest, _)| *newest != index);
        let had_text = self.step.is_some();
        let is_after_call = std::mem::take(&mut self.is_after_call);
        match &mut self.step {
            Some((newest, whole)) if *newest == index => whole.push_str(text),
            step => *step = Some((index, text.to_owned())),
        }
        if self.options.final_text_only {
            if is_after_call {
                self.held.clear();
            }
            self.held.push_str(text);
            return None;
        }
        let text = match self.lost.take() {
            None => text,
            Some(lost) => match (lost.strip_prefix(text), text.strip_prefix(lost.as_str())) {
                (Some(""), _) => return None,
                (Some(rest), _) => {
                    self.lost = Some(rest.to_owned());
                    return None;
                }
                (None, Some(new)) => new,
                (None, None) => return Some(ChunkEnd::Failed(self.restarted())),
            },
        };
        if is_new && is_after_call && had_text {
            self.chunk(out, ChunkDelta { content: Some(BREAK), ..ChunkDelta::default() }, None);
        }
        self.chunk(out, ChunkDelta { content: Some(text), ..ChunkDelta::default() }, None);
        None
    }

    fn discard(&mut self, index: u32) {
        match self.step.take_if(|(newest, _)| *newest == index) {
            Some((_, whole)) if self.options.final_text_only => {
                let kept = self.held.len().saturating_sub(whole.len());
                self.held.truncate(kept);
            }
            Some((_, whole)) if whole.trim().is_empty() && self.lost.is_none() => {}
            // What an earlier attempt had sent beyond this one is still to be repeated.
            Some((_, whole)) => {
                let rest = self.lost.take().unwrap_or_default();
                self.lost = Some(whole + &rest);
            }
            None => {}
        }
    }

    fn restarted(&self) -> ApiError {
        let message = format!(
            "the model's answer broke off and began anew with another text; the job goes on: GET /v1/jobs/{}",
            self.job
        );
        let (status, code) = (hyper::StatusCode::BAD_GATEWAY, "answer_restarted");
        ApiError::Refused { status, code, message }
    }

    fn finish(&mut self, out: &mut Vec<u8>, reason: FinishReason, usage: Usage) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.chunk(out, ChunkDelta { content: Some(&held), ..ChunkDelta::default() }, None);
        }
        self.chunk(out, ChunkDelta::default(), Some(finish_reason(reason)));
        if self.options.include_usage {
            self.send(out, Vec::new(), Some(usage.into()));
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
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

    fn send(&self, out: &mut Vec<u8>, choices: Vec<StreamedChoice<'_>>, usage: Option<CompletionUsage>) {
        let chunk = ChatChunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices,
            usage: self.options.include_usage.then(|| usage.map_or(ChunkUsage::Later, ChunkUsage::Total)),
        };
        out.extend_from_slice(b"data: ");
        match serde_json::to_vec(&chunk) {
            Ok(text) => out.extend(text),
            Err(error) => tracing::error!(job = %self.job, %error, "a chunk cannot be written as JSON"),
        }
        out.extend_from_slice(b"\n\n");
    }
}
