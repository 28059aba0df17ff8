//! Writes the log of a job: events are numbered without a gap, marks stand between them, and adjacent deltas
//! that linger together become one.

use crate::domain::event::{EngineMark, Event, Record, StepKind};
use crate::domain::id::JobId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{LogBytes, LogKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::codec::values;
use crate::store::redb::queue::lease::{LogTail, PendingDelta};

/// Maximum entries that a claim reads to find the last step of a log: status events and marks may follow it.
const TAIL_RECORDS: usize = 64;

impl Tables<'_> {
    /// Appends one record. A delta waits in the tail for adjacent ones of the same transaction, until
    /// [`Tables::flush`].
    pub(crate) fn append(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        record: &Record,
    ) -> Result<(), StoreError> {
        match record {
            Record::Event(Event::Delta { index, kind, offset, text, .. }) => {
                let piece = PendingDelta {
                    index: *index,
                    kind: *kind,
                    offset: *offset,
                    first_seq: 0,
                    text: text.clone(),
                };
                match tail.add_delta(piece) {
                    Some((seq, earlier)) => self.write_event(job, seq, &earlier),
                    None => Ok(()),
                }
            }
            Record::Event(event) => self.append_event(job, tail, event),
            Record::Mark(mark) => self.append_mark(job, tail, mark),
        }
    }

    /// Appends an event other than a delta.
    pub(crate) fn append_event(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        event: &Event,
    ) -> Result<(), StoreError> {
        self.flush(job, tail)?;
        self.write_event(job, tail.next_event(), event)
    }

    fn append_mark(&mut self, job: JobId, tail: &mut LogTail, mark: &EngineMark) -> Result<(), StoreError> {
        self.flush(job, tail)?;
        let sub = tail.next_mark();
        self.write_mark(LogKey { job, seq: tail.seq, sub }, mark)
    }

    /// Writes the delta that waits in the tail, if any.
    pub(crate) fn flush(&mut self, job: JobId, tail: &mut LogTail) -> Result<(), StoreError> {
        match tail.take_delta() {
            Some((seq, event)) => self.write_event(job, seq, &event),
            None => Ok(()),
        }
    }

    /// The text of the newest model call that produced any, complete or not.
    pub(crate) fn answer_text(&self, job: JobId) -> Result<String, StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        let (mut answer_text, mut step) = (String::new(), None);
        for entry in self.log.range::<&LogBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            if LogKey::decode(key.value()).sub > 0 {
                continue;
            }
            match values::decode(bytes.value())? {
                Event::Delta { index, kind: StepKind::Text, text, .. } => {
                    if step.replace(index) != Some(index) {
                        answer_text.clear();
                    }
                    answer_text.push_str(&text);
                }
                Event::StepDiscarded { index } if step == Some(index) => answer_text.clear(),
                _ => {}
            }
        }
        Ok(answer_text)
    }

    /// Writes an event that has its number.
    pub(crate) fn write_event(&mut self, job: JobId, seq: u64, event: &Event) -> Result<(), StoreError> {
        let key = LogKey { job, seq, sub: 0 };
        self.log.put_row(&key.encode(), event)?;
        Ok(())
    }

    /// Writes a mark that has its place.
    pub(crate) fn write_mark(&mut self, key: LogKey, mark: &EngineMark) -> Result<(), StoreError> {
        self.log.put_row(&key.encode(), mark)?;
        Ok(())
    }

    /// Where the log of a job ends, read from the log itself.
    pub(crate) fn tail(&self, job: JobId) -> Result<LogTail, StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        let mut tail = LogTail::default();
        let newest_first = self.log.range::<&LogBytes>(&first..=&last)?.rev().take(TAIL_RECORDS);
        for (nth, entry) in newest_first.enumerate() {
            let (key, bytes) = entry?;
            let key = LogKey::decode(key.value());
            if nth == 0 {
                (tail.seq, tail.sub) = (key.seq, key.sub);
            }
            if key.sub > 0 {
                continue;
            }
            match values::decode(bytes.value())? {
                Event::Delta { index, first_seq, .. } => tail.step = Some((index, first_seq)),
                Event::Status { .. } => continue,
                _ => {}
            }
            break;
        }
        Ok(tail)
    }
}
