//! Writing a job's log. Owns numbering (events without gap, marks between them), the joining of deltas that linger
//! together, and `first_seq`; refuses terminal events that do not come with an ending (P4).

use super::keys::{LogBytes, LogKey};
use super::lease::{Piece, Tail};
use super::schema::Tables;
use super::table::ReadableTable;
use super::value;
use crate::domain::event::{EngineMark, Event, Record, StepKind};
use crate::domain::id::JobId;
use crate::ports::{StoreError, Urgency};

/// A joined delta grows no larger than this.
const PIECE_BYTES: usize = 64 * 1024;

/// How far back a claim looks for the step that a log ends in: status events and marks may stand behind it.
const TAIL_RECORDS: usize = 64;

impl Tables<'_> {
    /// Appends one record. Deltas that need not be durable at once wait in the tail for [`Tables::flush`].
    pub(super) fn append(
        &mut self,
        job: JobId,
        tail: &mut Tail,
        record: &Record,
        urgency: Urgency,
    ) -> Result<(), StoreError> {
        match record {
            Record::Event(Event::Delta { index, kind, offset, text, .. }) => {
                let piece =
                    Piece { index: *index, kind: *kind, offset: *offset, first_seq: 0, text: text.clone() };
                self.append_piece(job, tail, piece, urgency)
            }
            Record::Event(event) => self.append_event(job, tail, event),
            Record::Mark(mark) => self.append_mark(job, tail, mark),
        }
    }

    /// Appends an event that is no delta.
    pub(super) fn append_event(
        &mut self,
        job: JobId,
        tail: &mut Tail,
        event: &Event,
    ) -> Result<(), StoreError> {
        self.flush(job, tail)?;
        tail.seq = tail.seq.saturating_add(1);
        tail.sub = 0;
        self.write_event(job, tail.seq, event)
    }

    fn append_mark(&mut self, job: JobId, tail: &mut Tail, mark: &EngineMark) -> Result<(), StoreError> {
        self.flush(job, tail)?;
        tail.sub = tail.sub.saturating_add(1);
        let key = LogKey { job, seq: tail.seq, sub: tail.sub };
        self.log.insert(&key.encode(), value::encode(mark)?.as_slice())?;
        Ok(())
    }

    fn append_piece(
        &mut self,
        job: JobId,
        tail: &mut Tail,
        mut piece: Piece,
        urgency: Urgency,
    ) -> Result<(), StoreError> {
        if urgency == Urgency::Soon && tail.piece.as_mut().is_some_and(|earlier| earlier.join(&piece)) {
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
        match urgency {
            Urgency::Soon => tail.piece = Some(piece),
            Urgency::Now => self.write_event(job, tail.seq, &piece.into_event())?,
        }
        Ok(())
    }

    /// Writes the delta that waits in the tail, if one does.
    pub(super) fn flush(&mut self, job: JobId, tail: &mut Tail) -> Result<(), StoreError> {
        match tail.piece.take() {
            Some(piece) => self.write_event(job, tail.seq, &piece.into_event()),
            None => Ok(()),
        }
    }

    /// What the job has said last, as far as it came: the text of its newest call to the model that said anything.
    pub(super) fn said(&self, job: JobId) -> Result<String, StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        let (mut said, mut step) = (String::new(), None);
        for entry in self.log.range::<&LogBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            if LogKey::decode(key.value()).sub > 0 {
                continue;
            }
            match value::decode(bytes.value())? {
                Event::Delta { index, kind: StepKind::Text, text, .. } => {
                    if step.replace(index) != Some(index) {
                        said.clear();
                    }
                    said.push_str(&text);
                }
                Event::StepDiscarded { index } if step == Some(index) => said.clear(),
                _ => {}
            }
        }
        Ok(said)
    }

    fn write_event(&mut self, job: JobId, seq: u64, event: &Event) -> Result<(), StoreError> {
        let key = LogKey { job, seq, sub: 0 };
        self.log.insert(&key.encode(), value::encode(event)?.as_slice())?;
        Ok(())
    }

    /// Where the log of a job ends, read from the log itself.
    pub(super) fn tail(&self, job: JobId) -> Result<Tail, StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        let mut tail = Tail::default();
        let newest_first = self.log.range::<&LogBytes>(&first..=&last)?.rev().take(TAIL_RECORDS);
        for (place, entry) in newest_first.enumerate() {
            let (key, bytes) = entry?;
            let key = LogKey::decode(key.value());
            if place == 0 {
                (tail.seq, tail.sub) = (key.seq, key.sub);
            }
            if key.sub > 0 {
                continue;
            }
            match value::decode(bytes.value())? {
                Event::Delta { index, first_seq, .. } => tail.step = Some((index, first_seq)),
                Event::Status { .. } => continue,
                _ => {}
            }
            break;
        }
        Ok(tail)
    }
}

impl Piece {
    /// Takes in the next delta if it goes on where this one ends.
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
