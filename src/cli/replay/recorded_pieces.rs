//! The pieces of a model's answer that a recorded log has.

use crate::domain::event::{Event, StepKind};
use crate::ports::Chunk;

/// Makes pieces of one answer from its records.
#[derive(Default)]
pub(super) struct RecordedPieces<'a> {
    /// Steps and names of the calls that were streamed.
    calls: Vec<(u32, &'a str)>,
}

impl<'a> RecordedPieces<'a> {
    /// The piece that this event was made from, if it was made from one.
    pub(super) fn of(&mut self, event: &'a Event) -> Option<Chunk<'a>> {
        match event {
            Event::Delta { kind: StepKind::Text, text, .. } => Some(Chunk::Text(text)),
            Event::Delta { kind: StepKind::Thinking, text, .. } => Some(Chunk::Thinking(text)),
            Event::CallBegun { index, name } => {
                self.calls.push((*index, name));
                self.call(0, "")
            }
            Event::Delta { kind: StepKind::Arguments, offset, text, .. } => {
                self.call(usize::try_from(*offset).ok()?, text)
            }
            // The end of the answer discards calls that it does not have.
            Event::StepDiscarded { index } if self.calls.iter().any(|(step, _)| step == index) => None,
            Event::StepDiscarded { .. } => Some(Chunk::TextWasThinking),
            _ => None,
        }
    }

    fn call(&self, offset: usize, arguments: &'a str) -> Option<Chunk<'a>> {
        let (_, name) = self.calls.last()?;
        Some(Chunk::Call { place: self.calls.len().checked_sub(1)?, name, offset, arguments })
    }
}
