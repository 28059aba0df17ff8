//! What retention does to the log of an ended job, and the note that lets its chain go on. Pure.

use crate::domain::event::{Event, Record};
use crate::domain::id::JobId;
use crate::domain::log_chain::{
    ChainLink, FoldKind, FoldNote, LogChain, LogRecord, LogSigningKey, RecordPlace,
};
use crate::ports::StoreError;
use crate::store::rows::fold::{FoldPlan, plan};
use crate::store::rows::job::JobRow;
use std::collections::{HashMap, HashSet};

/// A job with its records, or why they cannot be read.
pub(crate) type ReadLog = Result<(JobRow, Vec<LogRecord>), String>;

/// Gets the log of each job.
pub(crate) type EachLog<'e> = dyn FnMut(JobId, ReadLog) + 'e;

/// Changes of a log whose deltas are joined.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogChanges {
    pub(crate) remove: Vec<RecordPlace>,
    /// Records with another text, or with another link.
    pub(crate) write: Vec<LogRecord>,
    /// The note for the row; `None`: it stays as it is.
    pub(crate) note: Option<FoldNote>,
}

/// The newest records of an ended job's log.
pub(crate) struct LogEnd {
    /// The terminal event.
    pub(crate) terminal: LogRecord,
    /// The record before it, if there is one, and its link.
    pub(crate) before: Option<(RecordPlace, Option<ChainLink>)>,
}

impl JobRow {
    /// The log of the job with these records.
    pub(crate) fn log_chain(&self, records: Vec<LogRecord>) -> LogChain {
        let (job, is_ended) = (self.id(), self.job.status.is_terminal());
        let is_imported = self.job.imported_at_ms.is_some();
        LogChain { job, is_ended, is_imported, head: self.job.log_head, fold: self.fold, records }
    }
}

/// Joins the deltas of each step. `keeps_marks`: the engine may continue this job. Fails if a record was
/// changed since it was written: a fold would hide it.
pub(crate) fn join_deltas(
    log: &LogChain,
    keeps_marks: bool,
    now_ms: u64,
    key: Option<&LogSigningKey>,
) -> Result<LogChanges, StoreError> {
    let records = log.records.iter().map(|found| Ok((found.place, read(found)?)));
    let FoldPlan { remove, write } = plan(records.collect::<Result<Vec<_>, StoreError>>()?, keeps_marks);
    if remove.is_empty() && write.is_empty() {
        return Ok(LogChanges::default());
    }
    let removed: HashSet<RecordPlace> = remove.iter().copied().collect();
    let joined = write.iter().map(|(place, event)| Ok((*place, json(event)?)));
    let joined = joined.collect::<Result<HashMap<_, _>, StoreError>>()?;
    let before_end = log.records.split_last().map_or(&[][..], |(_, before)| before);
    let left = before_end.iter().filter(|found| !removed.contains(&found.place));
    let left = left.map(|found| (found.place, joined.get(&found.place).unwrap_or(&found.body).clone()));
    let left: Vec<_> = left.collect();
    let public_key = key.map(LogSigningKey::public_key);
    let folded = log.fold(FoldKind::Deltas, &left, now_ms, public_key.as_slice());
    let Some(folded) = folded.map_err(|fault| StoreError::Corrupt(format!("its log: {fault}")))? else {
        let write = joined.into_iter().map(|(place, body)| LogRecord { place, body, link: None });
        return Ok(LogChanges { remove, write: write.collect(), note: None });
    };
    let links: HashMap<RecordPlace, ChainLink> = folded.links.into_iter().collect();
    let old: HashMap<RecordPlace, &LogRecord> = before_end.iter().map(|found| (found.place, found)).collect();
    let write =
        left.into_iter().map(|(place, body)| LogRecord { place, body, link: links.get(&place).copied() });
    let write = write.filter(|new| old.get(&new.place).is_none_or(|old| *old != new));
    Ok(LogChanges { remove, write: write.collect(), note: Some(signed(folded.note, key)) })
}

/// The note about a log that is cut to its terminal event, if it is chained.
pub(crate) fn cut_note(
    row: &JobRow,
    end: &LogEnd,
    now_ms: u64,
    key: Option<&LogSigningKey>,
) -> Result<Option<FoldNote>, StoreError> {
    let LogEnd { terminal, before } = end;
    let (Some(link), Some((place, of_before))) = (terminal.link, before) else { return Ok(row.fold) };
    let cut = match (row.fold, of_before) {
        (Some(note), _) if *place <= note.to => (note.to, note.after),
        (_, Some(of_before)) => (*place, *of_before),
        (_, None) => return Err(StoreError::Corrupt(format!("its log: {place} has lost its link"))),
    };
    if cut.1.after(terminal.place, terminal.body.as_bytes()) != link {
        return Err(StoreError::Corrupt(format!("its log: {} was changed", terminal.place)));
    }
    let start = ChainLink::start(row.id());
    Ok(Some(signed(FoldNote::new(FoldKind::Cut, row.id(), cut, start, now_ms), key)))
}

fn signed(note: FoldNote, key: Option<&LogSigningKey>) -> FoldNote {
    match key {
        Some(key) => note.signed(key.sign(&note.message())),
        None => note,
    }
}

fn read(found: &LogRecord) -> Result<Record, StoreError> {
    found.parse().map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn json(event: &Event) -> Result<String, StoreError> {
    serde_json::to_string(event).map_err(|error| StoreError::Corrupt(error.to_string()))
}
