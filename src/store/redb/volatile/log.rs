//! The log of a job in memory. It numbers its records as the log on disk does. What was read once does not
//! change: until then adjacent deltas become one.

use crate::domain::event::{EngineMark, Event, Record, SequencedEvent};
use crate::domain::log_chain::RecordPlace;
use crate::ports::EventPage;
use crate::store::rows::lease::{LogTail, PendingDelta, PlacedRecord};
use crate::store::rows::page::{JoinedDeltas, PAGE_BYTES};

/// The log of a job in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct VolatileLog {
    entries: Vec<PlacedRecord>,
    tail: LogTail,
}

impl VolatileLog {
    /// Appends one record.
    pub(crate) fn append(&mut self, record: Record) {
        match record {
            Record::Event(Event::Delta { index, kind, offset, text, .. }) => {
                let piece = PendingDelta { index, kind, offset, first_seq: 0, text };
                let earlier = self.tail.add_delta(piece);
                self.push(earlier);
            }
            Record::Event(event) => {
                self.flush();
                let seq = self.tail.next_event();
                self.push(Some((seq, event)));
            }
            Record::Mark(mark) => {
                self.flush();
                let sub = self.tail.next_mark();
                let place = RecordPlace { seq: self.tail.seq, sub };
                self.entries.push(PlacedRecord { place, record: mark.into() });
            }
        }
    }

    /// The newest event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.tail.seq
    }

    /// Events after the cursor: at most `max`, or about 64 KiB.
    pub(crate) fn events(&mut self, after: u64, max: usize) -> EventPage {
        self.flush();
        let (mut events, mut bytes) = (Vec::new(), 0_usize);
        for (seq, event) in self.events_after(after) {
            if events.len() >= max || bytes >= PAGE_BYTES {
                break;
            }
            bytes = bytes.saturating_add(if let Event::Delta { text, .. } = event { text.len() } else { 0 });
            events.push(SequencedEvent::new(seq, event.clone()));
        }
        EventPage { events, last_seq: self.tail.seq }
    }

    /// Text of the step that begins at `first_seq`.
    pub(crate) fn step_text(&mut self, first_seq: u64, up_to: u64) -> String {
        self.flush();
        let mut step_text = JoinedDeltas::default();
        let events = self.events_after(first_seq.saturating_sub(1));
        for (_, event) in events.take_while(|(seq, _)| *seq <= up_to.max(first_seq)) {
            step_text.add(event);
        }
        step_text.text
    }

    /// The whole log, without the contents that the log on disk leaves out.
    pub(crate) fn records(&mut self) -> Vec<Record> {
        self.flush();
        let mut records: Vec<_> = self.entries.iter().map(|entry| entry.record.clone()).collect();
        for record in &mut records {
            if let Record::Mark(EngineMark::ToolWhole { content, .. }) = record {
                content.clear();
            }
        }
        records
    }

    /// The whole log with its numbers, and its end. Nothing is linked yet.
    pub(crate) fn numbered(&mut self) -> (Vec<PlacedRecord>, LogTail) {
        self.flush();
        (self.entries.clone(), self.tail.clone())
    }

    fn events_after(&self, after: u64) -> impl Iterator<Item = (u64, &Event)> {
        let from = self.entries.partition_point(|entry| entry.place.seq <= after);
        self.entries.iter().skip(from).filter_map(|entry| match &entry.record {
            Record::Event(event) => Some((entry.place.seq, event)),
            Record::Mark(_) => None,
        })
    }

    fn flush(&mut self) {
        let waiting = self.tail.take_delta();
        self.push(waiting);
    }

    fn push(&mut self, event: Option<(u64, Event)>) {
        self.entries.extend(event.map(PlacedRecord::event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::{StatusPhase, StepKind};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Act {
        Say(String),
        Step,
        Mark,
        Status,
        Read,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            4 => "[a-z]{1,4}".prop_map(Act::Say),
            1 => Just(Act::Step),
            1 => Just(Act::Mark),
            1 => Just(Act::Status),
            2 => Just(Act::Read),
        ];
        prop::collection::vec(act, 0..40)
    }

    fn status() -> Record {
        Event::Status { status: StatusPhase::Running, attempt: 1, reason: None }.into()
    }

    proptest! {
        /// Readers see each event once, without a gap, and all text; what they saw never changes.
        #[test]
        fn p2_what_was_read_is_a_prefix_of_what_is_read_later(acts in acts()) {
            let (mut log, mut seen) = (VolatileLog::default(), Vec::new());
            let (mut index, mut offset, mut said, mut marks) = (0, 0_u64, String::new(), 0);
            for act in acts {
                match act {
                    Act::Say(text) => {
                        said.push_str(&text);
                        let length = text.len() as u64;
                        let kind = StepKind::Text;
                        log.append(Event::Delta { index, kind, offset, first_seq: 0, text }.into());
                        offset += length;
                    }
                    Act::Step => (index, offset) = (index + 1, 0),
                    Act::Mark => {
                        marks += 1;
                        log.append(EngineMark::ToolStarted { id_ref: "call".to_owned() }.into());
                    }
                    Act::Status => log.append(status()),
                    Act::Read => {
                        let page = log.events(seen.len() as u64, 3);
                        prop_assert_eq!(page.last_seq, log.last_seq());
                        seen.extend(page.events);
                    }
                }
            }
            let all = log.events(0, usize::MAX).events;
            prop_assert!(all.starts_with(&seen));
            prop_assert!(all.iter().map(|event| event.seq).eq(1..=log.last_seq()));
            let text: String = all.iter().filter_map(|event| match &event.event {
                Event::Delta { text, .. } => Some(text.as_str()),
                _ => None,
            }).collect();
            prop_assert_eq!(text, said);
            prop_assert_eq!(log.records().len(), all.len() + marks);
        }
    }

    #[test]
    fn a_step_has_the_text_of_its_deltas() {
        let mut log = VolatileLog::default();
        let mut say = |index, offset, text: &str| {
            let (kind, text) = (StepKind::Text, text.to_owned());
            log.append(Event::Delta { index, kind, offset, first_seq: 0, text }.into());
            log.events(0, 1).last_seq
        };
        assert_eq!((say(0, 0, "ab"), say(0, 2, "cd"), say(1, 0, "next")), (1, 2, 3));
        assert_eq!((log.step_text(1, 3), log.step_text(3, 3)), ("abcd".to_owned(), "next".to_owned()));
        assert_eq!(log.step_text(1, 1), "ab");
    }
}
