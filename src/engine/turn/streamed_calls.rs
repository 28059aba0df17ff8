//! Calls for the client whose arguments are streamed into the log before the answer is complete.

use super::state::{OpenStep, TurnState};
use crate::domain::event::{Event, Record, StepKind};
use crate::domain::tool::ToolCall;
use serde::de::IgnoredAny;

/// A piece of a call of the open answer.
#[derive(Debug, Clone, Copy)]
pub struct CallPiece<'a> {
    /// Which call of the answer, from 0.
    pub place: usize,
    /// Name of the function.
    pub name: &'a str,
    /// Bytes of the arguments before the piece.
    pub offset: usize,
    /// The piece.
    pub arguments: &'a str,
}

impl TurnState {
    /// The records of a piece of a call for the client. There are none if it does not continue the newest
    /// step: readers show one call after the other, so a call begins once the one before is complete. The
    /// sealed call brings what is missing.
    pub fn call_piece(&self, piece: CallPiece<'_>) -> Vec<Record> {
        let CallPiece { place, name, offset, arguments } = piece;
        let (count, last) = (self.streamed_calls().count(), self.streamed_calls().last());
        let mut records = Vec::new();
        let index = match last {
            Some(step)
                if place.checked_add(1) == Some(count)
                    && step.text.len() == offset
                    && self.open.last().is_some_and(|newest| newest.index == step.index) =>
            {
                step.index
            }
            _ if place == count && offset == 0 && last.is_none_or(OpenStep::has_whole_json) => {
                records.push(Event::CallBegun { index: self.next_index, name: name.to_owned() }.into());
                self.next_index
            }
            _ => return records,
        };
        if !arguments.is_empty() {
            let (kind, text) = (StepKind::Arguments, arguments.to_owned());
            records.push(Event::Delta { index, kind, offset: offset as u64, first_seq: 0, text }.into());
        }
        records
    }

    /// The streamed calls of the open answer.
    pub(super) fn streamed_calls(&self) -> impl Iterator<Item = &OpenStep> {
        self.open.iter().filter(|step| step.kind == StepKind::Arguments)
    }
}

impl OpenStep {
    /// Whether these are the first pieces of this call.
    pub(super) fn begins(&self, call: &ToolCall) -> bool {
        self.name == call.name && call.arguments.starts_with(&self.text)
    }

    fn has_whole_json(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.text).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::FinishReason;
    use crate::domain::usage::Usage;
    use crate::ports::Completion;

    #[derive(Default)]
    struct Answer {
        turn: TurnState,
        log: Vec<Record>,
    }

    impl Answer {
        fn add(&mut self, records: Vec<Record>) {
            for record in records {
                self.turn.apply(&record);
                self.log.push(record);
            }
        }

        fn piece(&mut self, place: usize, name: &str, (offset, arguments): (usize, &str)) -> usize {
            let records = self.turn.call_piece(CallPiece { place, name, offset, arguments });
            let count = records.len();
            self.add(records);
            count
        }

        fn seal(&mut self, calls: &[(&str, &str)]) -> Vec<(u32, String)> {
            let call = |(name, arguments): &(&str, &str)| ToolCall {
                id_ref: String::new(),
                name: (*name).to_owned(),
                arguments: (*arguments).to_owned(),
            };
            let completion = Completion::new(calls.iter().map(call).collect(), FinishReason::ToolCalls);
            let records = self.turn.seal(completion, true, Usage::default(), &|_| true);
            let shown = records.iter().filter_map(|record| match record {
                Record::Event(Event::ToolCall { index, call, .. }) => Some((*index, call.arguments.clone())),
                Record::Event(Event::StepDiscarded { index }) => Some((*index, "discarded".to_owned())),
                _ => None,
            });
            let shown = shown.collect();
            self.add(records);
            shown
        }
    }

    #[test]
    fn a_call_has_the_step_of_its_pieces() {
        let mut answer = Answer::default();
        answer.add(vec![answer.turn.delta(StepKind::Text, "Let me look.")]);
        assert_eq!(answer.piece(0, "look", (0, "")), 1);
        assert_eq!(answer.piece(0, "look", (0, "{\"n\":")), 1);
        assert_eq!(answer.piece(0, "look", (5, "1}")), 1);
        assert_eq!(answer.piece(1, "look", (0, "{")), 2, "the call before is complete");
        let sealed = answer.seal(&[("look", "{\"n\":1}"), ("look", "{}"), ("look", "{\"n\":3}")]);
        let expected = [(1, "{\"n\":1}"), (2, "{}"), (3, "{\"n\":3}")].map(|(i, text)| (i, text.to_owned()));
        assert_eq!(sealed, expected);
        assert_eq!(answer.turn, TurnState::fold(&answer.log));
        assert!(answer.turn.open.is_empty());
    }

    #[test]
    fn pieces_that_do_not_continue_the_log_are_left_to_the_sealed_call() {
        let mut answer = Answer::default();
        assert_eq!(answer.piece(1, "b", (0, "{}")), 0, "the call before it is not streamed");
        assert_eq!(answer.piece(0, "a", (0, "{\"n\":")), 2);
        assert_eq!(answer.piece(1, "b", (0, "{")), 0, "the call before it is not complete");
        assert_eq!(answer.piece(0, "a", (5, "1}")), 1);
        assert_eq!(answer.piece(1, "b", (1, "}")), 0, "its beginning is missing");
        assert_eq!(answer.piece(0, "a", (9, "x")), 0, "a piece is missing");
        answer.add(vec![answer.turn.delta(StepKind::Text, "And now?")]);
        assert_eq!(answer.piece(0, "a", (7, " ")), 0, "a text is between");
        let expected = [(0, "{\"n\":1} "), (2, "{}")].map(|(index, text)| (index, text.to_owned()));
        assert_eq!(answer.seal(&[("a", "{\"n\":1} "), ("b", "{}")]), expected);
    }

    #[test]
    fn pieces_of_another_call_than_the_sealed_one_are_discarded() {
        let mut answer = Answer::default();
        answer.piece(0, "a", (0, "{\"n\":1"));
        let expected = [(0, "discarded"), (1, "{}")].map(|(index, text)| (index, text.to_owned()));
        assert_eq!(answer.seal(&[("a", "{}")]), expected);
        assert_eq!(answer.turn, TurnState::fold(&answer.log));
    }

    #[test]
    fn a_streamed_call_that_broke_off_is_discarded_like_text() {
        let mut answer = Answer::default();
        answer.piece(0, "a", (0, "{\"n\":1"));
        let indices: Vec<u32> = answer.turn.open.iter().map(|step| step.index).collect();
        answer.add(TurnState::discard(&indices));
        assert!(answer.turn.open.is_empty());
        assert_eq!(answer.piece(0, "a", (0, "{")), 2, "the next answer begins anew");
        assert_eq!(answer.seal(&[("a", "{}")]), [(1, "{}".to_owned())]);
    }
}
