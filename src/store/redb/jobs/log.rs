//! Writes the log of a job: events are numbered without a gap, marks stand between them, and adjacent deltas
//! that linger together become one.

use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::id::JobId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{LogBytes, LogKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::codec::values;
use crate::store::rows::lease::{AnswerText, LogTail, PlacedRecord};

impl Tables<'_> {
    /// Appends one record. A delta waits in the tail for adjacent ones of the same transaction, until
    /// [`Tables::flush`].
    pub(crate) fn append(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        record: &Record,
    ) -> Result<(), StoreError> {
        let mut placed = Vec::new();
        tail.place(record, &mut placed);
        placed.iter().try_for_each(|placed| self.write(job, placed))
    }

    fn write(&mut self, job: JobId, placed: &PlacedRecord) -> Result<(), StoreError> {
        match &placed.record {
            Record::Event(event) => self.write_event(job, placed.seq, event),
            Record::Mark(mark) => self.write_mark(LogKey { job, seq: placed.seq, sub: placed.sub }, mark),
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
        let mut answer = AnswerText::default();
        for entry in self.log.range::<&LogBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            if LogKey::decode(key.value()).sub == 0 {
                answer.add(&values::decode(bytes.value())?);
            }
        }
        Ok(answer.text)
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
        LogTail::read(self.log.range::<&LogBytes>(&first..=&last)?.rev().map(|entry| {
            let (key, bytes) = entry?;
            let LogKey { seq, sub, .. } = LogKey::decode(key.value());
            let event = if sub == 0 { Some(values::decode(bytes.value())?) } else { None };
            Ok((seq, sub, event))
        }))
    }
}
