//! Active leases in memory, and the ends of their logs. Leases that a failed commit touched are removed and
//! read from the store again.

use crate::domain::event::{Event, Record, StepKind};
use crate::domain::id::JobId;
use crate::domain::job::JobSpec;
use crate::domain::log_chain::{ChainLink, RecordPlace};
use crate::ports::{CancelToken, Lease};
use crate::store::rows::job::JobRow;
use std::collections::HashMap;
use std::sync::Arc;

/// All leases, by job.
pub(crate) type Leases = HashMap<JobId, LeasedJob>;

/// The leases of a transaction.
#[derive(Debug, Default)]
pub(crate) struct ClaimedLeases {
    /// Of jobs that the transaction accepts and whose first step is to ask the model: the answer can only be
    /// written after the commit, so their workers need not wait for it.
    pub(crate) early: Vec<Lease>,
    /// Those that exist with the commit.
    pub(crate) committed: Vec<Lease>,
}

impl ClaimedLeases {
    /// How many jobs are leased.
    pub(crate) fn len(&self) -> usize {
        self.early.len().saturating_add(self.committed.len())
    }

    /// All of them, for a caller that waits for the commit.
    pub(crate) fn into_all(self) -> Vec<Lease> {
        self.early.into_iter().chain(self.committed).collect()
    }
}

/// One lease. Cheap to clone: a transaction works on a copy, and the commit makes the copy the lease.
#[derive(Debug, Clone)]
pub(crate) struct LeasedJob {
    pub(crate) row: Arc<JobRow>,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) cancel: CancelToken,
    pub(crate) tail: LogTail,
}

/// The end of a job's log.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogTail {
    /// The newest event.
    pub(crate) seq: u64,
    /// Marks after it.
    pub(crate) sub: u32,
    /// The step that the newest delta belongs to, and the `seq` of its first.
    pub(crate) step: Option<(u32, u64)>,
    /// A delta that has its `seq` but is not written yet: the next may join it.
    pub(crate) piece: Option<PendingDelta>,
    /// The link of the newest record that is written, or where the chain starts; `None`: the log has no
    /// chain, as its job's row says.
    pub(crate) link: Option<ChainLink>,
}

impl LogTail {
    /// Where the log of a new job begins.
    pub(crate) fn start(row: &JobRow) -> Self {
        Self { link: row.chain_start(), ..Self::default() }
    }

    /// Gives a record its place in the log. A delta waits for adjacent ones of the same commit, until
    /// [`LogTail::take_delta`].
    pub(crate) fn place(&mut self, record: &Record, placed: &mut Vec<PlacedRecord>) {
        match record {
            Record::Event(Event::Delta { index, kind, offset, text, .. }) => {
                let (index, kind, offset, text) = (*index, *kind, *offset, text.clone());
                let piece = PendingDelta { index, kind, offset, first_seq: 0, text };
                placed.extend(self.add_delta(piece).map(PlacedRecord::event));
            }
            Record::Event(event) => {
                placed.extend(self.take_delta().map(PlacedRecord::event));
                placed.push(PlacedRecord::event((self.next_event(), event.clone())));
            }
            Record::Mark(_) => {
                placed.extend(self.take_delta().map(PlacedRecord::event));
                let sub = self.next_mark();
                let place = RecordPlace { seq: self.seq, sub };
                placed.push(PlacedRecord { place, record: record.clone() });
            }
        }
    }

    /// Where a log ends. `newest_first`: its newest records, each event read.
    pub(crate) fn read<E>(newest_first: impl Iterator<Item = Result<TailRecord, E>>) -> Result<Self, E> {
        let mut tail = Self::default();
        for (nth, entry) in newest_first.take(TAIL_RECORDS).enumerate() {
            let TailRecord { place, event, link } = entry?;
            if nth == 0 {
                (tail.seq, tail.sub, tail.link) = (place.seq, place.sub, link);
            }
            match event {
                Some(Event::Delta { index, first_seq, .. }) => tail.step = Some((index, first_seq)),
                Some(Event::Status { .. }) | None => continue,
                Some(_) => {}
            }
            break;
        }
        Ok(tail)
    }

    /// Numbers the next event. A waiting delta has to be taken before.
    pub(crate) fn next_event(&mut self) -> u64 {
        self.seq = self.seq.saturating_add(1);
        self.sub = 0;
        self.seq
    }

    /// Numbers the next mark behind the newest event. A waiting delta has to be taken before.
    pub(crate) fn next_mark(&mut self) -> u32 {
        self.sub = self.sub.saturating_add(1);
        self.sub
    }

    /// Takes the delta that waits here, if any: it is the newest event.
    pub(crate) fn take_delta(&mut self) -> Option<(u64, Event)> {
        self.piece.take().map(|piece| (self.seq, piece.into_event()))
    }

    /// Adds a delta, which waits here for adjacent ones. Returns the earlier one that waited, if it is
    /// another.
    pub(crate) fn add_delta(&mut self, mut piece: PendingDelta) -> Option<(u64, Event)> {
        if self.piece.as_mut().is_some_and(|earlier| earlier.join(&piece)) {
            return None;
        }
        let earlier = self.take_delta();
        let seq = self.next_event();
        piece.first_seq = match self.step {
            Some((index, first)) if index == piece.index && piece.offset > 0 => first,
            _ => seq,
        };
        self.step = Some((piece.index, piece.first_seq));
        self.piece = Some(piece);
        earlier
    }
}

/// Maximum entries that are read to find the last step of a log: status events and marks may follow it.
pub(crate) const TAIL_RECORDS: usize = 64;

/// A record near the end of a log.
pub(crate) struct TailRecord {
    pub(crate) place: RecordPlace,
    /// Unless it is a mark.
    pub(crate) event: Option<Event>,
    pub(crate) link: Option<ChainLink>,
}

/// A record with its place in a log.
#[derive(Debug, Clone)]
pub(crate) struct PlacedRecord {
    pub(crate) place: RecordPlace,
    pub(crate) record: Record,
}

impl PlacedRecord {
    pub(crate) fn event((seq, event): (u64, Event)) -> Self {
        Self { place: RecordPlace::event(seq), record: Record::Event(event) }
    }
}

/// The text of the newest model call that produced any, complete or not.
#[derive(Debug, Default)]
pub(crate) struct AnswerText {
    pub(crate) text: String,
    step: Option<u32>,
}

impl AnswerText {
    /// Takes the next event of the log.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Delta { index, kind: StepKind::Text, text, .. } => {
                if self.step.replace(*index) != Some(*index) {
                    self.text.clear();
                }
                self.text.push_str(text);
            }
            Event::StepDiscarded { index } if self.step == Some(*index) => self.text.clear(),
            _ => {}
        }
    }
}

/// Maximum size of a joined delta, bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// A delta that waits for adjacent deltas.
#[derive(Debug, Clone)]
pub(crate) struct PendingDelta {
    pub(crate) index: u32,
    pub(crate) kind: StepKind,
    pub(crate) offset: u64,
    pub(crate) first_seq: u64,
    pub(crate) text: String,
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
