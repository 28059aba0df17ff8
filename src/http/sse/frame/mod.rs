//! Renders pages of the log as frames (DESIGN §4). The log holds deltas; a cumulative frame is made for one
//! reader when it is about to be sent.

use crate::domain::event::{Event, SequencedEvent, StepKind};
use crate::domain::steps::StepId;
use crate::http::sse::event::{FrameError, GapFrame, StepFrame, StreamFormat, write, write_event};
use crate::http::sse::long_frame::{LongFrame, LongStep};
use crate::ports::{EventPage, StoreError};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;

/// Up to this size the text of a step is kept between pages. The frame of a longer text is rendered piece
/// by piece while it is sent, so that a reader needs memory for one page only.
const HELD_BYTES: usize = 64 * 1024;

/// How the text of a step is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextMode {
    /// All of the step so far. The newest frame of a page replaces older ones. Calls come whole.
    Cumulative,
    /// Each delta with its offset.
    Delta,
}

/// Reads the text of a step: `(first_seq, up_to)` as [`crate::ports::Store::step_text`] takes them.
pub(crate) type EarlierText<'a> = &'a dyn Fn(u64, u64) -> Result<String, StoreError>;

/// Output of a page.
#[derive(Debug)]
pub(crate) enum PagePart {
    /// Whole frames, one after the other.
    Frames(Bytes),
    /// One frame that is rendered while it is sent.
    Long(LongFrame),
}

/// Renders the pages of one reader, in order.
#[derive(Debug)]
pub(crate) struct FrameRenderer {
    wire: StreamFormat,
    text: TextMode,
    held: Option<Arc<StepText>>,
    /// The newest event that the reader has, if known.
    cursor: Option<u64>,
    /// Where the reader resumed, until its first frame is written.
    resumed_after: Option<u64>,
    held_bytes: usize,
    /// The long frame at the end of the last page, if the log continues. If the step continues too, a newer
    /// frame replaces it.
    unsent: Option<LongFrame>,
}

/// The text of the current step.
#[derive(Debug, Clone)]
pub(crate) struct StepText {
    index: u32,
    text: String,
}

/// Where a page begins, and all that its frames depend on beside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RenderPosition {
    pub(crate) after: u64,
    pub(crate) resumed_after: Option<u64>,
    wire: StreamFormat,
    text: TextMode,
}

/// A delta of the log.
#[derive(Clone, Copy)]
struct TextPiece<'a> {
    seq: u64,
    index: u32,
    kind: StepKind,
    offset: u64,
    first_seq: u64,
    text: &'a str,
}

impl FrameRenderer {
    pub(crate) fn new(wire: StreamFormat, text: TextMode) -> Self {
        Self {
            wire,
            text,
            held: None,
            cursor: None,
            resumed_after: None,
            held_bytes: HELD_BYTES,
            unsent: None,
        }
    }

    /// Renders what follows this event, and reports gaps in the log.
    pub(crate) fn after(self, cursor: u64) -> Self {
        Self { cursor: Some(cursor), resumed_after: Some(cursor).filter(|cursor| *cursor > 0), ..self }
    }

    /// Whether the next page can be rendered without reading earlier text.
    pub(crate) fn has_step_text(&self) -> bool {
        self.text == TextMode::Delta || self.held.is_some()
    }

    /// Where the next page begins. `None`: it also depends on an unsent frame of the last one.
    pub(crate) fn position(&self) -> Option<RenderPosition> {
        let Self { wire, text, resumed_after, .. } = *self;
        let after = self.cursor.filter(|_| self.unsent.is_none())?;
        Some(RenderPosition { after, resumed_after, wire, text })
    }

    /// The text of the step that the last page has ended in.
    pub(crate) fn step_text(&self) -> Option<Arc<StepText>> {
        self.held.clone()
    }

    /// Continues behind a page that another renderer has rendered, in which this step was the last one.
    pub(crate) fn skip_to(&mut self, cursor: u64, step: Option<Arc<StepText>>) {
        (self.cursor, self.resumed_after, self.held) = (Some(cursor), None, step);
    }

    /// The frames of a page, in order. A page that ends inside a long text may have none; a later page has
    /// it.
    pub(crate) fn render(
        &mut self,
        page: &EventPage,
        earlier: EarlierText<'_>,
    ) -> Result<Vec<PagePart>, FrameError> {
        let mut parts = PageParts::default();
        let newest = newest_pieces(&page.events);
        let next = page.events.first().and_then(piece);
        if let Some(unsent) = self.unsent.take()
            && next.is_none_or(|piece| piece.index != unsent.index())
        {
            parts.long(unsent);
        }
        for (position, numbered) in page.events.iter().enumerate() {
            self.write_gap(parts.frames(), numbered)?;
            match piece(numbered) {
                Some(piece) if self.text == TextMode::Cumulative => {
                    let last = newest.get(&piece.index) == Some(&position);
                    self.tell(&mut parts, piece, last, earlier)?;
                }
                // The frame of the whole call follows.
                None if self.text == TextMode::Cumulative && is_call_piece(&numbered.event) => {}
                _ => {
                    self.held = None;
                    self.resumed_after = None;
                    write_event(parts.frames(), self.wire, numbered)?;
                }
            }
        }
        if page.events.last().is_some_and(|last| last.seq < page.last_seq) {
            self.unsent = parts.take_long();
        }
        let parts = parts.into_vec();
        if !parts.is_empty() {
            self.resumed_after = None;
        }
        Ok(parts)
    }

    /// Adds the delta to its step. The last delta of a step in the page produces the frame.
    fn tell(
        &mut self,
        parts: &mut PageParts,
        piece: TextPiece<'_>,
        last: bool,
        earlier: EarlierText<'_>,
    ) -> Result<(), FrameError> {
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

    /// Reports a gap left by retention. Folded deltas matter to readers in delta mode only. A gap before
    /// the terminal event means that the log was cut, which every reader has to know.
    fn write_gap(&mut self, out: &mut Vec<u8>, next: &SequencedEvent) -> Result<(), FrameError> {
        let Some(cursor) = self.cursor.replace(next.seq) else { return Ok(()) };
        let (from, to) = (cursor.saturating_add(1), next.seq.saturating_sub(1));
        let is_told = self.text == TextMode::Delta || next.event.is_terminal();
        if from > to || !is_told {
            return Ok(());
        }
        self.held = None;
        write(out, self.wire, to, "gap", &GapFrame { from, to })
    }

    /// Adds the delta to the text of its step. Earlier text is fetched at the last delta of the page.
    fn gather(
        &mut self,
        piece: TextPiece<'_>,
        last: bool,
        earlier: EarlierText<'_>,
    ) -> Result<(), FrameError> {
        match &mut self.held {
            Some(held) if held.index == piece.index && held.text.len() as u64 == piece.offset => {
                Arc::make_mut(held).text.push_str(piece.text);
            }
            _ if piece.offset == 0 => {
                self.held = Some(Arc::new(StepText { index: piece.index, text: piece.text.to_owned() }));
            }
            _ if last => {
                let text = earlier(piece.first_seq, piece.seq)?;
                let expected = piece.end();
                if text.len() as u64 != expected {
                    return Err(FrameError::Torn { index: piece.index, expected, found: text.len() as u64 });
                }
                self.held = Some(Arc::new(StepText { index: piece.index, text }));
            }
            _ => {}
        }
        Ok(())
    }

    fn cumulative(&mut self, out: &mut Vec<u8>, piece: TextPiece<'_>) -> Result<(), FrameError> {
        let merged = self.merged(piece.seq);
        self.resumed_after = None;
        let content = self.held.as_ref().map_or("", |held| held.text.as_str());
        write(out, self.wire, piece.seq, "process_step", &StepFrame { merged, ..piece.step(content) })
    }

    /// How many events between the cursor and this one the first cumulative frame after a resume contains.
    fn merged(&self, seq: u64) -> Option<u64> {
        let after = self.resumed_after?;
        Some(seq.saturating_sub(after.saturating_add(1))).filter(|merged| *merged > 0)
    }

    fn long(&self, piece: TextPiece<'_>) -> Result<LongFrame, FrameError> {
        let mut empty = Vec::new();
        write(
            &mut empty,
            self.wire,
            piece.seq,
            "process_step",
            &StepFrame { merged: self.merged(piece.seq), ..piece.step("") },
        )?;
        let TextPiece { seq, index, first_seq, .. } = piece;
        Ok(LongFrame::new(LongStep { index, first_seq, up_to: seq, bytes: piece.end() }, empty))
    }
}

impl<'a> TextPiece<'a> {
    /// The length of the step's text including this delta, bytes.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.text.len() as u64)
    }

    fn step(&self, content: &'a str) -> StepFrame<'a> {
        StepFrame { id: StepId(self.index), index: self.index, kind: self.kind, content, merged: None }
    }
}

#[derive(Default)]
struct PageParts {
    over: Vec<PagePart>,
    frames: Vec<u8>,
}

impl PageParts {
    /// Where the next whole frame is written.
    fn frames(&mut self) -> &mut Vec<u8> {
        &mut self.frames
    }

    fn long(&mut self, frame: LongFrame) {
        self.close();
        self.over.push(PagePart::Long(frame));
    }

    /// The long frame at the end, if there is one.
    fn take_long(&mut self) -> Option<LongFrame> {
        self.close();
        match self.over.pop()? {
            PagePart::Long(frame) => Some(frame),
            frames @ PagePart::Frames(_) => {
                self.over.push(frames);
                None
            }
        }
    }

    fn close(&mut self) {
        if !self.frames.is_empty() {
            self.over.push(PagePart::Frames(std::mem::take(&mut self.frames).into()));
        }
    }

    fn into_vec(mut self) -> Vec<PagePart> {
        self.close();
        self.over
    }
}

/// For each step, the position of its newest delta in the page.
fn newest_pieces(page: &[SequencedEvent]) -> HashMap<u32, usize> {
    let positions = page.iter().enumerate();
    positions.filter_map(|(at, numbered)| piece(numbered).map(|piece| (piece.index, at))).collect()
}

fn is_call_piece(event: &Event) -> bool {
    matches!(event, Event::CallBegun { .. } | Event::Delta { kind: StepKind::Arguments, .. })
}

/// The delta of a text.
fn piece(numbered: &SequencedEvent) -> Option<TextPiece<'_>> {
    match &numbered.event {
        event if is_call_piece(event) => None,
        Event::Delta { index, kind, offset, first_seq, text } => {
            let (index, kind, offset, first_seq) = (*index, *kind, *offset, *first_seq);
            Some(TextPiece { seq: numbered.seq, index, kind, offset, first_seq, text })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
