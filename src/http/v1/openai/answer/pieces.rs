//! The pieces of a streamed answer, made from the events of its job.
//!
//! A step that broke off was already sent: the model's next text or call must repeat it, else the stream
//! cannot go on.

use super::ending::AnswerEnding;
use super::parts::{BREAK, handed_over};
use super::sent_calls::{Contradiction, SentCalls};
use crate::domain::event::{Event, StepKind};
use crate::domain::id::JobId;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use crate::http::v1::openai::failure;

/// Writes the pieces of an answer in the form of one API.
pub(crate) trait AnswerWriter: Send {
    /// A piece of reasoning.
    fn thinking(&mut self, out: &mut Vec<u8>, text: &str);
    /// A piece of the text.
    fn text(&mut self, out: &mut Vec<u8>, text: &str);
    /// A whole call that is handed to the client; `place` counts from 0.
    fn call(&mut self, out: &mut Vec<u8>, place: u32, call: ToolCall);
    /// The beginning of a call, without arguments. Calls and texts follow each other: one begins when the
    /// arguments of the one before are complete.
    fn begin_call(&mut self, out: &mut Vec<u8>, place: u32, call: ToolCall);
    /// A piece of the arguments of a call that has begun.
    fn arguments(&mut self, out: &mut Vec<u8>, place: u32, text: &str);
    /// The end of a call that has begun.
    fn end_call(&mut self, out: &mut Vec<u8>, place: u32);
    /// The end of the answer.
    fn finish(&mut self, out: &mut Vec<u8>, ending: AnswerEnding, usage: Usage);
    /// The answer ends early.
    fn fail(&mut self, out: &mut Vec<u8>, error: &ApiError);
    /// There was nothing to send for some time.
    fn silence(&mut self, out: &mut Vec<u8>);
}

/// The pieces of one stream.
pub(crate) struct AnswerPieces {
    job: JobId,
    writer: Box<dyn AnswerWriter>,
    /// The text is sent at the end, without that before calls of the server's tools.
    final_text_only: bool,
    /// The newest text step: its index, and its text as far as it was sent.
    step: Option<(u32, String)>,
    /// The text of a step that broke off, which the client has and the next one has not repeated yet.
    lost: Option<String>,
    /// A tool was called since the last text.
    is_after_call: bool,
    calls: SentCalls,
    /// Texts that came before the end of a call.
    behind_calls: Vec<Event>,
    /// The text that is sent at the end.
    held: String,
}

/// Why a stream cannot show the rest of its job.
#[derive(Debug)]
pub(crate) enum AnswerEnd {
    /// The answer is complete.
    Complete,
    /// The job ended without an answer, or its answer began anew.
    Failed(ApiError),
}

impl AnswerPieces {
    pub(crate) fn new(job: JobId, writer: Box<dyn AnswerWriter>, final_text_only: bool) -> Self {
        Self {
            job,
            writer,
            final_text_only,
            step: None,
            lost: None,
            is_after_call: false,
            calls: SentCalls::default(),
            behind_calls: Vec::new(),
            held: String::new(),
        }
    }

    /// The writer.
    pub(super) fn writer(&mut self) -> &mut dyn AnswerWriter {
        &mut *self.writer
    }

    /// Appends the pieces of an event; `Some` when it is the last one.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, event: Event) -> Option<AnswerEnd> {
        match event {
            Event::CallBegun { .. } | Event::ToolCall { .. } | Event::Done { .. } if self.lost.is_some() => {
                return Some(AnswerEnd::Failed(self.restarted()));
            }
            Event::CallBegun { .. }
            | Event::Delta { kind: StepKind::Arguments, .. }
            | Event::ToolCall { is_client: true, .. } => return self.client_call(out, event),
            Event::ToolCall { .. } | Event::ToolResult { .. } => self.is_after_call = true,
            event @ Event::Delta { .. } if self.calls.has_open() => self.behind_calls.push(event),
            Event::Delta { kind: StepKind::Thinking, text, .. } => self.thinking(out, &text),
            Event::Delta { index, kind: StepKind::Text, text, .. } => return self.text(out, index, &text),
            Event::StepDiscarded { index } => self.discard(index),
            Event::Done { .. } if self.calls.has_lost() => return Some(AnswerEnd::Failed(self.restarted())),
            Event::Done { finish_reason, usage, stop_sequence, .. } => {
                let held = std::mem::take(&mut self.held);
                if !held.is_empty() {
                    self.writer.text(out, &held);
                }
                self.writer.finish(out, AnswerEnding { reason: finish_reason, stop_sequence }, usage);
                return Some(AnswerEnd::Complete);
            }
            Event::Error { content, code, retry_after_ms } => {
                return Some(AnswerEnd::Failed(failure::of_job(code, content, retry_after_ms)));
            }
            Event::Status { .. }
            | Event::WaitingApproval { .. }
            | Event::Summary { .. }
            | Event::AgentStep { .. } => {}
        }
        None
    }

    /// Writes what an event says about a call of the client; `Some` if the stream cannot go on.
    fn client_call(&mut self, out: &mut Vec<u8>, event: Event) -> Option<AnswerEnd> {
        let written = match event {
            Event::CallBegun { index, name } => self.begin_call(out, index, name),
            Event::Delta { index, text, .. } => self.calls.add(index, &text).map(|new| {
                if let Some((place, new)) = new {
                    self.writer.arguments(out, place, new);
                }
            }),
            Event::ToolCall { index, call, .. } => self.end_call(out, index, call),
            _ => Ok(()),
        };
        if written == Err(Contradiction) {
            return Some(AnswerEnd::Failed(self.restarted()));
        }
        if self.calls.has_open() {
            return None;
        }
        std::mem::take(&mut self.behind_calls).into_iter().find_map(|event| self.write(out, event))
    }

    fn begin_call(&mut self, out: &mut Vec<u8>, index: u32, name: String) -> Result<(), Contradiction> {
        if let Some(place) = self.calls.begin(index, &name)? {
            let call = ToolCall { id_ref: String::new(), name, arguments: String::new() };
            self.writer.begin_call(out, place, handed_over(self.job, place, call));
        }
        Ok(())
    }

    fn end_call(&mut self, out: &mut Vec<u8>, index: u32, call: ToolCall) -> Result<(), Contradiction> {
        self.is_after_call = true;
        if let Some((place, rest)) = self.calls.end(index, &call)? {
            self.writer.arguments(out, place, &rest);
            self.writer.end_call(out, place);
        } else {
            let place = self.calls.next_place();
            self.writer.call(out, place, handed_over(self.job, place, call));
        }
        Ok(())
    }

    fn thinking(&mut self, out: &mut Vec<u8>, text: &str) {
        // Text that turned out to be reasoning is not sent again.
        if self.lost.as_deref().is_some_and(|lost| lost.trim() == text.trim()) {
            self.lost = None;
            return;
        }
        self.writer.thinking(out, text);
    }

    fn text(&mut self, out: &mut Vec<u8>, index: u32, text: &str) -> Option<AnswerEnd> {
        let is_new = self.step.as_ref().is_none_or(|(newest, _)| *newest != index);
        let had_text = self.step.is_some();
        let is_after_call = std::mem::take(&mut self.is_after_call);
        match &mut self.step {
            Some((newest, whole)) if *newest == index => whole.push_str(text),
            step => *step = Some((index, text.to_owned())),
        }
        if self.final_text_only {
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
                (None, None) => return Some(AnswerEnd::Failed(self.restarted())),
            },
        };
        if is_new && is_after_call && had_text {
            self.writer.text(out, BREAK);
        }
        self.writer.text(out, text);
        None
    }

    fn discard(&mut self, index: u32) {
        self.calls.lose(index);
        self.behind_calls
            .retain(|event| !matches!(event, Event::Delta { index: step, .. } if *step == index));
        match self.step.take_if(|(newest, _)| *newest == index) {
            Some((_, whole)) if self.final_text_only => {
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
}
