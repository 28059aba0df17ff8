//! Shrinks ended jobs by stages: complete, deltas folded, log cut, removed. Removes expired files, too. One
//! call does the work of one small transaction; [`crate::store::rows::sweeper`] decides when.
//!
//! The index of ended jobs is sorted by stage, then by end: due jobs are found quickly among any number of
//! jobs. An entry whose job was deleted or runs again is dropped when it is due.

use crate::domain::event::Event;
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::domain::log_chain::{FoldNote, RecordPlace};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{EndedBytes, EndedKey, LogKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::jobs::chain;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::JobRow;
use crate::store::rows::log_fold::{LogChanges, cut_note, join_deltas};
use crate::store::rows::sweeper::RetentionSweep;

/// Complete. These bytes are on disk.
pub(crate) const WHOLE: u8 = 0;
/// The deltas of each step are joined to one.
pub(crate) const FOLDED: u8 = 1;
/// The log contains the terminal event only.
pub(crate) const CUT: u8 = 2;
/// All stages.
pub(crate) const STAGES: [u8; 3] = [WHOLE, FOLDED, CUT];

/// Jobs of one transaction.
const SWEEP_JOBS: usize = 200;
/// Bytes that one transaction reads; the last job may exceed it.
const SWEEP_BYTES: usize = 4 * 1024 * 1024;

/// Data that retention removes from a job.
#[derive(Debug, Clone, Copy)]
enum RetentionAction {
    Deltas,
    Events,
    All,
}

impl RetentionSweep {
    /// The actions that are due, by stage. The largest comes first, because a removed job needs no fold.
    fn due_actions(&self) -> impl Iterator<Item = (RetentionAction, u8, u64)> {
        let due_actions: [(RetentionAction, Option<u64>, &'static [u8]); 3] = [
            (RetentionAction::All, self.jobs_before_ms, &STAGES),
            (RetentionAction::Events, self.events_before_ms, &[WHOLE, FOLDED]),
            (RetentionAction::Deltas, self.deltas_before_ms, &[WHOLE]),
        ];
        let stages = |(action, before_ms, stages): (RetentionAction, Option<u64>, &'static [u8])| {
            stages.iter().filter_map(move |stage| Some((action, *stage, before_ms?)))
        };
        due_actions.into_iter().flat_map(stages)
    }
}

impl Transaction<'_> {
    /// Applies retention to some ended jobs. Returns whether more is due.
    pub(crate) fn sweep(&mut self, sweep: &RetentionSweep) -> Result<bool, StoreError> {
        let (mut jobs, mut bytes) = (0, 0);
        match self.make_due_checkpoint() {
            Err(StoreError::Corrupt(reason)) => tracing::error!(reason, "the last checkpoint cannot be read"),
            made => made?,
        }
        let mut more = self.clear_removed_batches()? | self.clear_removed_conversations()?;
        if let Some(before_ms) = sweep.jobs_before_ms {
            more |= self.forget_batches(before_ms)? | self.forget_old_items(before_ms)?;
        }
        if let Some(before_ms) = sweep.files_before_ms {
            more |= self.forget_expired_files(before_ms)?;
        }
        for (action, stage, before_ms) in sweep.due_actions() {
            for key in self.due(stage, before_ms)? {
                if jobs >= SWEEP_JOBS || bytes >= SWEEP_BYTES {
                    return Ok(true);
                }
                jobs += 1;
                bytes += self.shrink(key, action)?;
            }
        }
        Ok(more || jobs >= SWEEP_JOBS)
    }

    /// The first jobs of a stage that ended before this time.
    fn due(&self, stage: u8, before_ms: u64) -> Result<Vec<EndedKey>, StoreError> {
        let key = |finished_at_ms| EndedKey { stage, finished_at_ms, job: JobId::from_bits(0) }.encode();
        let ended = self.tables.ended.range::<&EndedBytes>(&key(0)..&key(before_ms))?;
        ended.take(SWEEP_JOBS).map(|entry| Ok(EndedKey::decode(entry?.0.value()))).collect()
    }

    /// Applies retention to a job. Returns the number of bytes read. An unreadable job leaves the index and
    /// stays, so that it does not block the others.
    fn shrink(&mut self, key: EndedKey, action: RetentionAction) -> Result<usize, StoreError> {
        let shrunk = match self.find_row(key.job) {
            Ok(Some(row)) if is_of(&key, &row) => self.shrink_row(key, &row, action),
            Ok(_) => self.leave_index(key),
            Err(error) => Err(error),
        };
        match shrunk {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %key.job, reason, "ended job cannot be read; retention skips it");
                self.leave_index(key)
            }
            other => other,
        }
    }

    fn shrink_row(
        &mut self,
        key: EndedKey,
        row: &JobRow,
        action: RetentionAction,
    ) -> Result<usize, StoreError> {
        let (stage, bytes) = match action {
            RetentionAction::All => return self.forget(key.job).map(|_| SWEEP_BYTES / SWEEP_JOBS),
            RetentionAction::Events => {
                let (bytes, fold) = self.cut_log(key.job, Some(row))?;
                self.put_fold(row, fold)?;
                (CUT, bytes)
            }
            RetentionAction::Deltas => (FOLDED, self.fold_log(row)?),
        };
        self.leave_index(key)?;
        self.tables.ended.insert(&EndedKey { stage, ..key }.encode(), ())?;
        Ok(bytes)
    }

    fn leave_index(&mut self, key: EndedKey) -> Result<usize, StoreError> {
        self.mark_dirty();
        self.tables.ended.remove(&key.encode())?;
        Ok(0)
    }

    /// Removes all but the terminal event. Returns the note about it, for the row.
    fn cut_log(&mut self, job: JobId, row: Option<&JobRow>) -> Result<(usize, Option<FoldNote>), StoreError> {
        let end = chain::end(&self.tables.log, job)?;
        if !is_terminal(&end.terminal.body) {
            return Err(StoreError::Corrupt("its log does not end".to_owned()));
        }
        let note = row.map(|row| cut_note(row, &end, self.now_ms, self.log_key)).transpose()?.flatten();
        let RecordPlace { seq, sub } = end.terminal.place;
        let (first, terminal) = (LogKey { job, seq: 0, sub: 0 }, LogKey { job, seq, sub });
        Ok((self.free_log(first.encode(), terminal.encode())?, note))
    }

    /// Writes the note about a fold into the row, if it is another one.
    fn put_fold(&mut self, row: &JobRow, fold: Option<FoldNote>) -> Result<(), StoreError> {
        if fold == row.fold { Ok(()) } else { self.put_row(&JobRow { fold, ..row.clone() }) }
    }

    /// Removes the output of an ended job; its terminal event stays.
    pub(crate) fn erase_output(&mut self, job: JobId) -> Result<(), StoreError> {
        let freed = self.tables.outputs.remove(&job.to_bytes())?.map_or(0, |bytes| bytes.value().len());
        self.count_freed(freed);
        let row = self.find_readable_row(job)?;
        let fold = match self.cut_log(job, row.as_ref()) {
            Err(StoreError::Corrupt(_)) => {
                self.free_log(LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode())?;
                None
            }
            cut => cut?.1,
        };
        let Some(row) = row else { return Ok(()) };
        if row.has_output || row.fold != fold {
            self.put_row(&JobRow { has_output: false, fold, ..row.clone() })?;
        }
        let Some(finished_at_ms) = row.job.finished_at_ms else { return Ok(()) };
        for stage in [WHOLE, FOLDED] {
            self.tables.ended.remove(&EndedKey { stage, finished_at_ms, job }.encode())?;
        }
        self.tables.ended.insert(&EndedKey { stage: CUT, finished_at_ms, job }.encode(), ())?;
        Ok(())
    }

    /// Joins the deltas of each step. Only a failed job may run again, so only it needs its marks.
    fn fold_log(&mut self, row: &JobRow) -> Result<usize, StoreError> {
        let log = row.log_chain(chain::records(&self.tables.log, row.id())?);
        let read = log.records.iter().map(|record| record.body.len()).sum();
        let keeps_marks = row.job.status == JobStatus::Failed;
        let LogChanges { remove, write, note } = join_deltas(&log, keeps_marks, self.now_ms, self.log_key)?;
        let mut freed = 0_usize;
        let key = |RecordPlace { seq, sub }| LogKey { job: row.id(), seq, sub }.encode();
        for place in remove {
            freed += self.tables.log.remove(&key(place))?.map_or(0, |bytes| bytes.value().len());
        }
        for record in write {
            let stored = values::encode_record_text(&record.body, record.link);
            let old = self.tables.log.insert(&key(record.place), stored.as_slice())?;
            freed = (freed + old.map_or(0, |bytes| bytes.value().len())).saturating_sub(stored.len());
        }
        self.count_freed(freed);
        self.put_fold(row, note.or(row.fold))?;
        Ok(read)
    }
}

/// Whether this is a terminal event.
fn is_terminal(body: &str) -> bool {
    serde_json::from_str::<Event>(body).is_ok_and(|event| event.is_terminal())
}

/// Whether the entry still matches the row: a job that ran again has another end.
fn is_of(key: &EndedKey, row: &JobRow) -> bool {
    row.job.status.is_terminal() && row.job.finished_at_ms == Some(key.finished_at_ms)
}
