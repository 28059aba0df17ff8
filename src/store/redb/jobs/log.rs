//! Writes the log of a job: events are numbered without a gap, marks stand between them, and adjacent deltas
//! that linger together become one.

use crate::domain::event::{Event, Record};
use crate::domain::id::JobId;
use crate::domain::log_chain::RecordPlace;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{LogBytes, LogKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::codec::values;
use crate::store::rows::lease::{AnswerText, LogTail, PlacedRecord, TailRecord};

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
        placed.iter().try_for_each(|placed| self.write(job, tail, placed))
    }

    /// Writes a record that has its place, and links it to the one before.
    pub(crate) fn write(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        placed: &PlacedRecord,
    ) -> Result<(), StoreError> {
        let RecordPlace { seq, sub } = placed.place;
        let key = LogKey { job, seq, sub }.encode();
        match &mut tail.link {
            Some(link) => self.log.put_linked(&key, &placed.record, (link, placed.place)),
            None => self.log.put_row(&key, &placed.record).map(drop),
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
        let placed = PlacedRecord::event((tail.next_event(), event.clone()));
        self.write(job, tail, &placed)
    }

    /// Writes the delta that waits in the tail, if any.
    pub(crate) fn flush(&mut self, job: JobId, tail: &mut LogTail) -> Result<(), StoreError> {
        match tail.take_delta() {
            Some(delta) => self.write(job, tail, &PlacedRecord::event(delta)),
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

    /// Where the log of a job ends, read from the log itself.
    pub(crate) fn tail(&self, job: JobId) -> Result<LogTail, StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        LogTail::read(self.log.range::<&LogBytes>(&first..=&last)?.rev().map(|entry| {
            let (key, bytes) = entry?;
            let LogKey { seq, sub, .. } = LogKey::decode(key.value());
            let event = if sub == 0 { Some(values::decode(bytes.value())?) } else { None };
            Ok(TailRecord { place: RecordPlace { seq, sub }, event, link: values::link(bytes.value()) })
        }))
    }
}
