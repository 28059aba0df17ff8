//! Events as clients read them (DESIGN §4). Owns both wire forms and both text modes; pure: refuses stores, sockets and
//! clocks. The log holds deltas; a cumulative frame is made here, for one reader, when it is about to be sent.

use crate::domain::event::{Event, SequencedEvent, StepKind};
use crate::domain::steps::StepId;
use crate::http::sse::event::{FrameError, GapFrame, StepFrame, StreamFormat, write, write_event};
use crate::http::sse::long_frame::{LongFrame, LongStep};
use crate::ports::{EventPage, StoreError};
use std::collections::HashMap;

/// A step's text is kept between pages up to this size; the frame of a longer one is made piece by piece while it is
/// sent, so that memory per reader stays within one page.
const HELD_BYTES: usize = 64 * 1024;

/// How the text of a step is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextMode {
    /// All of the step so far; the newest frame of a page stands for the older ones.
    Cumulative,
    /// Each piece with its offset.
    Delta,
}

/// Reads the text of a step: `(first_seq, up_to)` as [`crate::ports::Store::step_text`] takes them.
pub(crate) type EarlierText<'a> = &'a dyn Fn(u64, u64) -> Result<String, StoreError>;

/// A part of what a page comes to.
#[derive(Debug)]
pub(crate) enum PagePart {
    /// Whole frames, one after the other.
    Frames(Vec<u8>),
    /// One frame that is made while it is sent.
    Long(LongFrame),
}

/// Renders one reader's pages, in order.
#[derive(Debug)]
pub(crate) struct FrameRenderer {
    wire: StreamFormat,
    text: TextMode,
    held: Option<StepText>,
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
struct StepText {
    index: u32,
    text: String,
}

/// A piece of text as the log holds it.
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
        Self { wire, text, held: None, cursor: None, held_bytes: HELD_BYTES, unsent: None }
    }

    /// Renders what comes after this event, and tells of events that are no longer there.
    pub(crate) fn after(self, cursor: u64) -> Self {
        Self { cursor: Some(cursor), ..self }
    }

    /// Whether the next page can be rendered without reading earlier text.
    pub(crate) fn is_light(&self) -> bool {
        self.text == TextMode::Delta || self.held.is_some()
    }

    /// The frames of a page, in order. A page that ends amid a long text may have none: one that follows has it.
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
            self.tell_gap(parts.frames(), numbered)?;
            match piece(numbered) {
                Some(piece) if self.text == TextMode::Cumulative => {
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

    /// Retention leaves holes. Where it folded deltas, the text that follows is whole: only a reader who counts the pieces
    /// has to know. Where it cut the log, a hole lies before the terminal event, and every reader has to.
    fn tell_gap(&mut self, out: &mut Vec<u8>, next: &SequencedEvent) -> Result<(), FrameError> {
        let Some(cursor) = self.cursor.replace(next.seq) else { return Ok(()) };
        let (from, to) = (cursor.saturating_add(1), next.seq.saturating_sub(1));
        let is_told = self.text == TextMode::Delta || next.event.is_terminal();
        if from > to || !is_told {
            return Ok(());
        }
        self.held = None;
        write(out, self.wire, to, "gap", &GapFrame { from, to })
    }

    /// Adds the piece to the step's text. Text that is not held is fetched when the page's last piece is reached.
    fn gather(
        &mut self,
        piece: TextPiece<'_>,
        last: bool,
        earlier: EarlierText<'_>,
    ) -> Result<(), FrameError> {
        match &mut self.held {
            Some(held) if held.index == piece.index && held.text.len() as u64 == piece.offset => {
                held.text.push_str(piece.text);
            }
            _ if piece.offset == 0 => {
                self.held = Some(StepText { index: piece.index, text: piece.text.to_owned() });
            }
            _ if last => {
                let text = earlier(piece.first_seq, piece.seq)?;
                let expected = piece.end();
                if text.len() as u64 != expected {
                    return Err(FrameError::Torn { index: piece.index, expected, found: text.len() as u64 });
                }
                self.held = Some(StepText { index: piece.index, text });
            }
            _ => {}
        }
        Ok(())
    }

    fn cumulative(&self, out: &mut Vec<u8>, piece: TextPiece<'_>) -> Result<(), FrameError> {
        let content = self.held.as_ref().map_or("", |held| held.text.as_str());
        write(out, self.wire, piece.seq, "process_step", &piece.step(content))
    }

    fn long(&self, piece: TextPiece<'_>) -> Result<LongFrame, FrameError> {
        let mut empty = Vec::new();
        write(&mut empty, self.wire, piece.seq, "process_step", &piece.step(""))?;
        let TextPiece { seq, index, first_seq, .. } = piece;
        Ok(LongFrame::new(LongStep { index, first_seq, up_to: seq, bytes: piece.end() }, empty))
    }
}

impl<'a> TextPiece<'a> {
    /// The length of the step's text up to the end of this piece, bytes.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.text.len() as u64)
    }

    fn step(&self, content: &'a str) -> StepFrame<'a> {
        StepFrame { id: StepId(self.index), index: self.index, kind: self.kind, content }
    }
}

/// What a page has come to so far.
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

    /// The long frame that stands at the end, if one does.
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
            self.over.push(PagePart::Frames(std::mem::take(&mut self.frames)));
        }
    }

    fn into_vec(mut self) -> Vec<PagePart> {
        self.close();
        self.over
    }
}

/// For each step with text in the page, the position of its newest piece.
fn newest_pieces(page: &[SequencedEvent]) -> HashMap<u32, usize> {
    let positions = page.iter().enumerate();
    positions.filter_map(|(at, numbered)| piece(numbered).map(|piece| (piece.index, at))).collect()
}

fn piece(numbered: &SequencedEvent) -> Option<TextPiece<'_>> {
    match &numbered.event {
        Event::Delta { index, kind, offset, first_seq, text } => {
            let (index, kind, offset, first_seq) = (*index, *kind, *offset, *first_seq);
            Some(TextPiece { seq: numbered.seq, index, kind, offset, first_seq, text })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
