//! Verifies the chain of a log, and names the first record that does not belong to it.

use super::super::id::JobId;
use super::fold_note::{FoldKind, FoldNote, FoldedLog};
use super::key::LogPublicKey;
use super::link::{ChainLink, RecordPlace};
use super::record::LogRecord;

/// The log of a job as it is stored, and what the job says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChain {
    /// The job.
    pub job: JobId,
    /// Whether it has ended.
    pub is_ended: bool,
    /// Whether it ended on another server, whose key may have signed the note about a fold.
    pub is_imported: bool,
    /// The head that the job names, once it has ended.
    pub head: Option<ChainLink>,
    /// What retention has folded.
    pub fold: Option<FoldNote>,
    /// The records, in order of their places.
    pub records: Vec<LogRecord>,
}

/// What a log without a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainVerdict {
    /// A version without chains has written it, or a part of it.
    NotChained,
    /// Each record is as it was written.
    Intact {
        /// The link of the newest record: of an ended job, its head.
        head: ChainLink,
        /// What retention has done to it.
        fold: Option<FoldKind>,
    },
    /// The same of an imported log that was folded on its own server: the key that is known here has not
    /// signed the note about that.
    IntactAsImported {
        /// The head.
        head: ChainLink,
        /// What retention has done to it there.
        fold: FoldKind,
    },
}

/// The first fault of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The record is not the one that was written.
    #[error("{0} was changed")]
    Changed(RecordPlace),
    /// The number of the record is missing.
    #[error("{0} is missing")]
    Missing(RecordPlace),
    /// The record does not follow the one before: marks have no numbers that show how many there were.
    #[error("{place} was changed, or the last mark after {before} is missing")]
    ChangedOrMissing {
        /// The event.
        place: RecordPlace,
        /// The record before it.
        before: RecordPlace,
    },
    /// The record of this place stands elsewhere.
    #[error("{place} was moved: it stands as {found}")]
    Moved {
        /// Its place.
        place: RecordPlace,
        /// Where it stands.
        found: RecordPlace,
    },
    /// The records are a whole chain with another end than the job says.
    #[error(
        "the log up to {last} does not have the head that the job names: records after it are missing, or were \
         changed with their links"
    )]
    OtherHead {
        /// The newest record.
        last: RecordPlace,
    },
    /// There is no record.
    #[error("all records are missing")]
    NoRecords,
    /// The job has ended, and names no head.
    #[error("the job has lost the head of its log")]
    NoHead,
    /// The folded part of the log is not what its note says.
    #[error("the records before {0} are not those that its fold has left")]
    NotAsFolded(RecordPlace),
    /// The note about the fold is not of the server with the key.
    #[error("the note about the fold up to {0} was not signed by the server's key")]
    Unsigned(RecordPlace),
}

impl ChainFault {
    /// Name in the API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Changed(_) => "changed",
            Self::Missing(_) | Self::NoRecords => "missing",
            Self::ChangedOrMissing { .. } => "changed_or_missing",
            Self::Moved { .. } => "moved",
            Self::OtherHead { .. } => "other_head",
            Self::NoHead => "no_head",
            Self::NotAsFolded(_) => "not_as_folded",
            Self::Unsigned(_) => "unsigned",
        }
    }

    /// The record that is at fault, if it is one.
    pub fn place(&self) -> Option<RecordPlace> {
        match self {
            Self::Changed(place)
            | Self::Missing(place)
            | Self::NotAsFolded(place)
            | Self::Unsigned(place)
            | Self::ChangedOrMissing { place, .. }
            | Self::Moved { place, .. }
            | Self::OtherHead { last: place } => Some(*place),
            Self::NoRecords | Self::NoHead => None,
        }
    }
}

/// The state of a walk along the chain.
struct ChainWalk<'l> {
    log: &'l LogChain,
    /// The newest record so far.
    place: Option<RecordPlace>,
    /// Its link, or where the chain starts.
    link: ChainLink,
}

impl LogChain {
    /// Compares each record with the chain, and the end of the chain with what the job says. `keys`: one of
    /// them must have signed the note about a fold; empty: none is known here.
    pub fn verify(&self, keys: &[LogPublicKey]) -> Result<ChainVerdict, ChainFault> {
        let Some(last) = self.records.last() else {
            return if self.head.is_some() {
                Err(ChainFault::NoRecords)
            } else {
                Ok(ChainVerdict::NotChained)
            };
        };
        // A record without a link in a log without a head was written by an earlier version.
        if self.head.is_none() && self.records.iter().any(|record| record.link.is_none()) {
            return Ok(ChainVerdict::NotChained);
        }
        let is_unsigned =
            |note: &&FoldNote| !keys.is_empty() && !keys.iter().any(|key| note.is_signed_by(key));
        let unsigned = self.fold.as_ref().filter(is_unsigned);
        if let Some(note) = unsigned.filter(|_| !self.is_imported) {
            return Err(ChainFault::Unsigned(note.to));
        }
        let head = self.walk(&self.records)?.link;
        match self.head {
            Some(named) if named != head => Err(ChainFault::OtherHead { last: last.place }),
            None if self.is_ended => Err(ChainFault::NoHead),
            _ => Ok(match unsigned {
                Some(note) => ChainVerdict::IntactAsImported { head, fold: note.kind },
                None => ChainVerdict::Intact { head, fold: self.fold.map(|note| note.kind) },
            }),
        }
    }

    /// What a fold leaves of a verified log: these records, in order, and the last one, which is terminal.
    /// `None`: the log is not chained, or there is nothing before its end. Fails if the log has a fault: a
    /// fold would hide it.
    pub fn fold(
        &self,
        kind: FoldKind,
        left: &[(RecordPlace, String)],
        at_ms: u64,
        keys: &[LogPublicKey],
    ) -> Result<Option<FoldedLog>, ChainFault> {
        let Some((_, before_end)) = self.records.split_last() else { return Ok(None) };
        if self.verify(keys)? == ChainVerdict::NotChained {
            return Ok(None);
        }
        let end = self.walk(before_end)?;
        let Some(to) = end.place else { return Ok(None) };
        let mut link = ChainLink::start(self.job);
        let mut links = Vec::with_capacity(left.len());
        for (place, body) in left {
            link = link.after(*place, body.as_bytes());
            links.push((*place, link));
        }
        let note = FoldNote::new(kind, self.job, (to, end.link), link, at_ms);
        Ok(Some(FoldedLog { links, note }))
    }

    /// Walks along the records, and over the fold.
    fn walk<'l>(&'l self, records: &'l [LogRecord]) -> Result<ChainWalk<'l>, ChainFault> {
        let folded = self.fold.map_or(0, |note| records.partition_point(|record| record.place <= note.to));
        let (left, whole) = records.split_at_checked(folded).unwrap_or((records, &[]));
        let mut walk = ChainWalk { log: self, place: None, link: ChainLink::start(self.job) };
        left.iter().try_for_each(|record| walk.take(record))?;
        if let Some(note) = &self.fold {
            if note.left != walk.link || note.before != ChainLink::start(self.job) {
                return Err(ChainFault::NotAsFolded(note.to.next_event()));
            }
            (walk.place, walk.link) = (Some(note.to), note.after);
        }
        for record in whole {
            walk.refuse_gap(record.place)?;
            walk.take(record)?;
        }
        Ok(walk)
    }
}

impl ChainWalk<'_> {
    /// Refuses a record whose number does not follow the one before.
    fn refuse_gap(&self, next: RecordPlace) -> Result<(), ChainFault> {
        let Some(place) = self.place else {
            return if next == RecordPlace::FIRST { Ok(()) } else { Err(self.absent(RecordPlace::FIRST)) };
        };
        if place.is_followed_by(next) {
            return Ok(());
        }
        let expected = if next.seq == place.seq { place.next_mark() } else { place.next_event() };
        Err(self.absent(expected))
    }

    /// The fault that nothing stands at a place where something must.
    fn absent(&self, place: RecordPlace) -> ChainFault {
        match self.elsewhere(place, None) {
            Some(found) => ChainFault::Moved { place, found },
            None => ChainFault::Missing(place),
        }
    }

    /// Takes the next record, if it has its link.
    fn take(&mut self, record: &LogRecord) -> Result<(), ChainFault> {
        let link = self.link.after(record.place, record.body.as_bytes());
        if record.link != Some(link) {
            return Err(self.fault(record));
        }
        (self.place, self.link) = (Some(record.place), link);
        Ok(())
    }

    fn fault(&self, record: &LogRecord) -> ChainFault {
        let place = record.place;
        if let Some(found) = self.elsewhere(place, record.link) {
            return ChainFault::Moved { place, found };
        }
        // Its own bytes may differ, or the link that it follows: then a mark before it is missing.
        match self.place {
            Some(before) if place.sub == 0 => ChainFault::ChangedOrMissing { place, before },
            _ => ChainFault::Changed(place),
        }
    }

    /// Where the record of this place stands, if not there. It may have its link with it, or have left it.
    fn elsewhere(&self, place: RecordPlace, left_link: Option<ChainLink>) -> Option<RecordPlace> {
        let others = self.log.records.iter().filter(|record| record.place != place);
        let is_it = |record: &&LogRecord| {
            let link = Some(self.link.after(place, record.body.as_bytes()));
            link == record.link || link == left_link
        };
        others.into_iter().find(is_it).map(|record| record.place)
    }
}
