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

/// Maximum size of a joined delta, bytes.
const PIECE_BYTES: usize = 64 * 1024;

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
                self.append_piece(job, tail, piece)
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
        tail.seq = tail.seq.saturating_add(1);
        tail.sub = 0;
        self.write_event(job, tail.seq, event)
    }

    fn append_mark(&mut self, job: JobId, tail: &mut LogTail, mark: &EngineMark) -> Result<(), StoreError> {
        self.flush(job, tail)?;
        tail.sub = tail.sub.saturating_add(1);
        let key = LogKey { job, seq: tail.seq, sub: tail.sub };
        self.log.put_row(&key.encode(), mark)?;
        Ok(())
    }

    fn append_piece(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        mut piece: PendingDelta,
    ) -> Result<(), StoreError> {
        if tail.piece.as_mut().is_some_and(|earlier| earlier.join(&piece)) {
            return Ok(());
        }
        self.flush(job, tail)?;
        tail.seq = tail.seq.saturating_add(1);
        tail.sub = 0;
        let first = match tail.step {
            Some((index, first)) if index == piece.index && piece.offset > 0 => first,
            _ => tail.seq,
        };
        tail.step = Some((piece.index, first));
        piece.first_seq = first;
        tail.piece = Some(piece);
        Ok(())
    }

    /// Writes the delta that waits in the tail, if any.
    pub(crate) fn flush(&mut self, job: JobId, tail: &mut LogTail) -> Result<(), StoreError> {
        match tail.piece.take() {
            Some(piece) => self.write_event(job, tail.seq, &piece.into_event()),
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

    fn write_event(&mut self, job: JobId, seq: u64, event: &Event) -> Result<(), StoreError> {
        let key = LogKey { job, seq, sub: 0 };
        self.log.put_row(&key.encode(), event)?;
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

impl PendingDelta {
    /// Joins the next delta if it continues this one.
    fn join(&mut self, next: &Self) -> bool {
        let end = self.offset.checked_add(self.text.len() as u64);
        let adjacent = self.index == next.index && self.kind == next.kind && end == Some(next.offset);
        let fits = self.text.len().saturating_add(next.text.len()) <= PIECE_BYTES;
        if adjacent && fits {
            self.text.push_str(&next.text);
        }
        adjacent && fits
    }

    fn into_event(self) -> Event {
        let Self { index, kind, offset, first_seq, text } = self;
        Event::Delta { index, kind, offset, first_seq, text }
    }
}
