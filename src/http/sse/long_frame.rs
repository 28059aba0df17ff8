//! A cumulative frame that is too long to hold in memory, rendered from the log piece by piece while it is
//! sent.

use super::event::FrameError;
use crate::domain::event::{Event, SequencedEvent};

/// Bytes behind the text in a frame: `"}` and a blank line, or `"}}` and a line break.
pub(crate) const TAIL_BYTES: usize = 4;

/// The step of the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongStep {
    pub(crate) index: u32,
    /// The step's first event.
    pub(crate) first_seq: u64,
    /// The last event in the frame.
    pub(crate) up_to: u64,
    /// The text's length, bytes.
    pub(crate) bytes: u64,
}

/// The frame and how much of it was sent.
#[derive(Debug)]
pub(crate) struct LongFrame {
    told: LongStep,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The last event that was read.
    cursor: u64,
    /// Bytes of the text so far.
    found: u64,
    is_whole: bool,
}

impl LongFrame {
    /// `empty` is the frame with an empty text.
    pub(crate) fn new(told: LongStep, mut empty: Vec<u8>) -> Self {
        let tail = empty.split_off(empty.len().saturating_sub(TAIL_BYTES));
        Self { told, head: empty, tail, cursor: told.first_seq.saturating_sub(1), found: 0, is_whole: false }
    }

    /// The next piece begins after this event.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Whether the last piece was returned.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn index(&self) -> u32 {
        self.told.index
    }

    /// The next piece, from the next page of the log. A text of the wrong length is an error.
    pub(crate) fn piece(&mut self, page: &[SequencedEvent]) -> Result<Vec<u8>, FrameError> {
        let mut out = std::mem::take(&mut self.head);
        for numbered in page.iter().take_while(|numbered| numbered.seq <= self.told.up_to) {
            self.cursor = numbered.seq;
            if let Event::Delta { index, text, .. } = &numbered.event
                && *index == self.told.index
            {
                self.found = self.found.saturating_add(text.len() as u64);
                out.extend_from_slice(inside(&serde_json::to_string(text)?));
            }
        }
        if self.cursor >= self.told.up_to || page.is_empty() {
            let LongStep { index, bytes: expected, .. } = self.told;
            if self.found != expected {
                return Err(FrameError::Torn { index, expected, found: self.found });
            }
            out.append(&mut self.tail);
            self.is_whole = true;
        }
        Ok(out)
    }
}

/// A JSON string without its quotes.
fn inside(quoted: &str) -> &[u8] {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::StepKind;

    const EMPTY: &str = "id: 9\nevent: process_step\ndata: {\"id\":\"step-0\",\"content\":\"\"}\n\n";

    fn delta(seq: u64, index: u32, text: &str) -> SequencedEvent {
        let text = text.to_owned();
        SequencedEvent::new(seq, Event::Delta { index, kind: StepKind::Text, offset: 0, first_seq: 2, text })
    }

    fn frame(bytes: u64) -> LongFrame {
        LongFrame::new(LongStep { index: 0, first_seq: 2, up_to: 5, bytes }, EMPTY.into())
    }

    #[test]
    fn a_long_frame_contains_only_its_own_step_up_to_its_length() {
        let mut frame = frame(6);
        let mut out = Vec::new();
        for page in [vec![delta(2, 0, "a\n")], vec![delta(3, 1, "no"), delta(4, 0, "\"b")], vec![]] {
            assert!(!frame.is_whole());
            if page.is_empty() {
                assert_eq!(frame.cursor(), 4);
                out.extend(frame.piece(&[delta(5, 0, "é"), delta(6, 0, "later")]).unwrap());
            } else {
                out.extend(frame.piece(&page).unwrap());
            }
        }
        assert!(frame.is_whole());
        let wanted = EMPTY.replace("\"content\":\"\"", r#""content":"a\n\"bé""#);
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn missing_step_text_is_an_error() {
        let torn = frame(6).piece(&[]);
        assert!(
            matches!(torn, Err(FrameError::Torn { index: 0, expected: 6, found: 0 })),
            "a log that is gone"
        );
        let torn = frame(6).piece(&[delta(5, 0, "é")]);
        assert!(matches!(torn, Err(FrameError::Torn { found: 2, .. })), "{torn:?}");
    }
}
