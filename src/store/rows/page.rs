//! What pages of events and texts of steps have in common, wherever the log is kept.

use crate::domain::event::Event;

/// A page of events ends after so many bytes.
pub(crate) const PAGE_BYTES: usize = 64 * 1024;

/// Joins the deltas of the step that begins first.
#[derive(Debug, Default)]
pub(crate) struct JoinedDeltas {
    step: Option<u32>,
    pub(crate) text: String,
}

impl JoinedDeltas {
    /// Adds the text of an event, if it is of this step.
    pub(crate) fn add(&mut self, event: &Event) {
        if let Event::Delta { index, text, .. } = event
            && *self.step.get_or_insert(*index) == *index
        {
            self.text.push_str(text);
        }
    }
}
