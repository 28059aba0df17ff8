//! Events as clients read them (DESIGN §4). Owns both wire forms and both text modes; pure: refuses stores, sockets and
//! clocks. The log holds deltas; a cumulative frame is made here, for one reader, when it is about to be sent.

use super::long_frame::{LongFrame, Told};
use crate::domain::event::{Event, FailureCode, FinishReason, SequencedEvent, StatusPhase, StepKind};
use crate::domain::id::MessageId;
use crate::domain::usage::Usage;
use crate::ports::{EventPage, StoreError};
use serde::{Serialize, Serializer};
use std::collections::HashMap;

/// A step's text is kept between pages up to this size; the frame of a longer one is made piece by piece while it is
/// sent, so that memory per reader stays within one page.
const HELD_BYTES: usize = 64 * 1024;

/// How frames are laid on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// `id:`, `event:`, `data:`.
    Sse,
    /// `{"id","event","data"}`, one per line.
    Ndjson,
}

/// How the text of a step is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// All of the step so far; the newest frame of a page stands for the older ones.
    Cumulative,
    /// Each piece with its offset.
    Delta,
}

/// Why a page has no frames.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The text before the page could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The text before the page does not meet the page: showing it would be a lie.
    #[error("step {index} has {found} bytes where {expected} were expected")]
    Torn {
        /// The step.
        index: u32,
        /// What the newest piece says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// A frame could not be written as JSON.
    #[error("a frame is not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Reads the text of a step: `(first_seq, up_to)` as [`crate::ports::Store::step_text`] takes them.
pub(crate) type Earlier<'a> = &'a dyn Fn(u64, u64) -> Result<String, StoreError>;

/// A part of what a page comes to.
#[derive(Debug)]
pub(crate) enum Part {
    /// Whole frames, one after the other.
    Frames(Vec<u8>),
    /// One frame that is made while it is sent.
    Long(LongFrame),
}

/// Renders one reader's pages, in order.
#[derive(Debug)]
pub(crate) struct Renderer {
    wire: Wire,
    text: Text,
    held: Option<Held>,
    /// The newest event that the reader has; `None`: nobody said.
    cursor: Option<u64>,
    /// Texts up to this size are held, bytes.
    held_bytes: usize,
    /// The frame that the last page ended in, while the log goes on behind it: if the step goes on as well, a newer
    /// frame stands for this one.
    unsent: Option<LongFrame>,
}

/// The step that the reader is in the middle of.
#[derive(Debug)]
struct Held {
    index: u32,
    text: String,
}

/// A piece of text as the log holds it.
#[derive(Clone, Copy)]
struct Piece<'a> {
    seq: u64,
    index: u32,
    kind: StepKind,
    offset: u64,
    first_seq: u64,
    text: &'a str,
}

impl Renderer {
    pub(crate) fn new(wire: Wire, text: Text) -> Self {
        Self { wire, text, held: None, cursor: None, held_bytes: HELD_BYTES, unsent: None }
    }

    /// Renders what comes after this event, and tells of events that are no longer there.
    pub(crate) fn after(self, cursor: u64) -> Self {
        Self { cursor: Some(cursor), ..self }
    }

    /// Whether the next page can be rendered without reading earlier text.
    pub(crate) fn is_light(&self) -> bool {
        self.text == Text::Delta || self.held.is_some()
    }

    /// The frames of a page, in order. A page that ends amid a long text may have none: one that follows has it.
    pub(crate) fn render(&mut self, page: &EventPage, earlier: Earlier<'_>) -> Result<Vec<Part>, Error> {
        let mut parts = Parts::default();
        let newest = newest_pieces(&page.events);
        let next = page.events.first().and_then(piece);
        if let Some(unsent) = self.unsent.take()
            && next.is_none_or(|piece| piece.index != unsent.index())
        {
            parts.long(unsent);
        }
        for (position, numbered) in page.events.iter().enumerate() {
            self.tell_gap(parts.frames(), numbered)?;
            match piece(numbered) {
                Some(piece) if self.text == Text::Cumulative => {
                    let last = newest.get(&piece.index) == Some(&position);
                    self.tell(&mut parts, piece, last, earlier)?;
                }
                _ => {
                    self.held = None;
                    write_event(parts.frames(), self.wire, numbered)?;
                }
            }
        }
        if page.events.last().is_some_and(|last| last.seq < page.last_seq) {
            self.unsent = parts.take_long();
        }
        Ok(parts.into_vec())
    }

    /// Adds the piece to its step; the step's last piece in the page brings the frame.
    fn tell(
        &mut self,
        parts: &mut Parts,
        piece: Piece<'_>,
        last: bool,
        earlier: Earlier<'_>,
    ) -> Result<(), Error> {
        if piece.end() > self.held_bytes as u64 {
            self.held = None;
            if last {
                parts.long(self.long(piece)?);
            }
            return Ok(());
        }
        self.gather(piece, last, earlier)?;
        if last {
            self.cumulative(parts.frames(), piece)?;
        }
        Ok(())
    }

    /// Retention leaves holes. Where it folded deltas, the text that follows is whole: only a reader who counts the pieces
    /// has to know. Where it cut the log, a hole lies before the terminal event, and every reader has to.
    fn tell_gap(&mut self, out: &mut Vec<u8>, next: &SequencedEvent) -> Result<(), Error> {
        let Some(cursor) = self.cursor.replace(next.seq) else { return Ok(()) };
        let (from, to) = (cursor.saturating_add(1), next.seq.saturating_sub(1));
        let is_told = self.text == Text::Delta || next.event.is_terminal();
        if from > to || !is_told {
            return Ok(());
        }
        self.held = None;
        write(out, self.wire, to, "gap", &Gap { from, to })
    }

    /// Adds the piece to the step's text. Text that is not held is fetched when the page's last piece is reached.
    fn gather(&mut self, piece: Piece<'_>, last: bool, earlier: Earlier<'_>) -> Result<(), Error> {
        match &mut self.held {
            Some(held) if held.index == piece.index && held.text.len() as u64 == piece.offset => {
                held.text.push_str(piece.text);
            }
            _ if piece.offset == 0 => {
                self.held = Some(Held { index: piece.index, text: piece.text.to_owned() });
            }
            _ if last => {
                let text = earlier(piece.first_seq, piece.seq)?;
                let expected = piece.end();
                if text.len() as u64 != expected {
                    return Err(Error::Torn { index: piece.index, expected, found: text.len() as u64 });
                }
                self.held = Some(Held { index: piece.index, text });
            }
            _ => {}
        }
        Ok(())
    }

    fn cumulative(&self, out: &mut Vec<u8>, piece: Piece<'_>) -> Result<(), Error> {
        let content = self.held.as_ref().map_or("", |held| held.text.as_str());
        write(out, self.wire, piece.seq, "process_step", &piece.step(content))
    }

    fn long(&self, piece: Piece<'_>) -> Result<LongFrame, Error> {
        let mut empty = Vec::new();
        write(&mut empty, self.wire, piece.seq, "process_step", &piece.step(""))?;
        let Piece { seq, index, first_seq, .. } = piece;
        Ok(LongFrame::new(Told { index, first_seq, up_to: seq, bytes: piece.end() }, empty))
    }
}

impl<'a> Piece<'a> {
    /// The length of the step's text up to the end of this piece, bytes.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.text.len() as u64)
    }

    fn step(&self, content: &'a str) -> Step<'a> {
        Step { id: StepId(self.index), index: self.index, kind: self.kind, content }
    }
}

/// What a page has come to so far.
#[derive(Default)]
struct Parts {
    over: Vec<Part>,
    frames: Vec<u8>,
}

impl Parts {
    /// Where the next whole frame is written.
    fn frames(&mut self) -> &mut Vec<u8> {
        &mut self.frames
    }

    fn long(&mut self, frame: LongFrame) {
        self.close();
        self.over.push(Part::Long(frame));
    }

    /// The long frame that stands at the end, if one does.
    fn take_long(&mut self) -> Option<LongFrame> {
        self.close();
        match self.over.pop()? {
            Part::Long(frame) => Some(frame),
            frames @ Part::Frames(_) => {
                self.over.push(frames);
                None
            }
        }
    }

    fn close(&mut self) {
        if !self.frames.is_empty() {
            self.over.push(Part::Frames(std::mem::take(&mut self.frames)));
        }
    }

    fn into_vec(mut self) -> Vec<Part> {
        self.close();
        self.over
    }
}

/// For each step with text in the page, the position of its newest piece.
fn newest_pieces(page: &[SequencedEvent]) -> HashMap<u32, usize> {
    let positions = page.iter().enumerate();
    positions.filter_map(|(at, numbered)| piece(numbered).map(|piece| (piece.index, at))).collect()
}

fn piece(numbered: &SequencedEvent) -> Option<Piece<'_>> {
    match &numbered.event {
        Event::Delta { index, kind, offset, first_seq, text } => {
            let (index, kind, offset, first_seq) = (*index, *kind, *offset, *first_seq);
            Some(Piece { seq: numbered.seq, index, kind, offset, first_seq, text })
        }
        _ => None,
    }
}

/// An event that is told as it is stored.
fn write_event(out: &mut Vec<u8>, wire: Wire, numbered: &SequencedEvent) -> Result<(), Error> {
    let seq = numbered.seq;
    match &numbered.event {
        Event::Status { status, attempt, reason } => {
            let reason = reason.as_deref();
            let calls = None;
            write(out, wire, seq, "status", &Phased { status: *status, attempt: *attempt, reason, calls })
        }
        Event::WaitingApproval { attempt, reason, calls } => {
            let (reason, calls) = (Some(reason.as_str()), Some(calls.as_slice()));
            let status = StatusPhase::WaitingApproval;
            write(out, wire, seq, "status", &Phased { status, attempt: *attempt, reason, calls })
        }
        Event::Delta { index, kind, offset, text, .. } => {
            let delta =
                Appended { id: StepId(*index), index: *index, kind: *kind, delta: text, offset: *offset };
            write(out, wire, seq, "process_step", &delta)
        }
        Event::ToolCall { index, call } => {
            let (id_ref, name, arguments) = (&*call.id_ref, &*call.name, &*call.arguments);
            let kind = "tool_call";
            let step = ToolCall { id: StepId(*index), index: *index, kind, id_ref, name, arguments };
            write(out, wire, seq, "process_step", &step)
        }
        Event::ToolResult { index, id_ref, name, content, skipped } => {
            let (id, kind, skipped) = (StepId(*index), "tool_result", *skipped);
            let step = ToolResult { id, index: *index, kind, id_ref, name, content, skipped };
            write(out, wire, seq, "process_step", &step)
        }
        Event::StepDiscarded { index } => {
            write(out, wire, seq, "step_discarded", &Discarded { id: StepId(*index) })
        }
        Event::Summary { content, .. } => write(out, wire, seq, "summary", &Summary { content }),
        Event::AgentStep(step) => write(out, wire, seq, "agent_step", step),
        Event::Done { message_id, token_count, suggested_title, usage, finish_reason } => {
            let done = Done {
                message_id: *message_id,
                token_count: *token_count,
                suggested_title: suggested_title.as_deref(),
                usage: *usage,
                finish_reason: *finish_reason,
            };
            write(out, wire, seq, "done", &done)
        }
        Event::Error { content, code } => write(out, wire, seq, "error", &Failure { content, code: *code }),
    }
}

/// One frame. JSON escapes every line break inside, so `data` is one line.
fn write(
    out: &mut Vec<u8>,
    wire: Wire,
    seq: u64,
    name: &'static str,
    data: &impl Serialize,
) -> Result<(), Error> {
    match wire {
        Wire::Sse => {
            out.extend_from_slice(format!("id: {seq}\nevent: {name}\ndata: ").as_bytes());
            serde_json::to_writer(&mut *out, data)?;
            out.extend_from_slice(b"\n\n");
        }
        Wire::Ndjson => {
            serde_json::to_writer(&mut *out, &Line { id: seq, event: name, data })?;
            out.push(b'\n');
        }
    }
    Ok(())
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(with = "String"))]
pub(crate) struct StepId(u32);

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("step-{}", self.0))
    }
}

#[derive(Serialize)]
struct Line<'a, T> {
    id: u64,
    event: &'static str,
    data: &'a T,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Gap {
    from: u64,
    to: u64,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Phased<'a> {
    status: StatusPhase,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The calls that wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<&'a [String]>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Step<'a> {
    id: StepId,
    index: u32,
    #[serde(rename = "type")]
    kind: StepKind,
    content: &'a str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Appended<'a> {
    id: StepId,
    index: u32,
    #[serde(rename = "type")]
    kind: StepKind,
    delta: &'a str,
    offset: u64,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ToolCall<'a> {
    id: StepId,
    index: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    id_ref: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ToolResult<'a> {
    id: StepId,
    index: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    id_ref: &'a str,
    name: &'a str,
    content: &'a str,
    skipped: bool,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Discarded {
    id: StepId,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Done<'a> {
    message_id: MessageId,
    token_count: u64,
    suggested_title: Option<&'a str>,
    usage: Usage,
    finish_reason: FinishReason,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Summary<'a> {
    content: &'a str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Failure<'a> {
    content: &'a str,
    code: FailureCode,
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
