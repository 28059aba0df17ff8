//! Signed checkpoints over the heads of ended jobs: one a day, and on request.

use crate::domain::id::JobId;
use crate::domain::log_chain::{LogCheckpoint, StoredCheckpoint};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{CheckpointBytes, EndedBytes, EndedKey, checkpoint_key};
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::retention::sweep::STAGES;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::checkpoint::{CHECKPOINT_JOBS, CheckpointWindow, EndedHead, is_due, note_other_key};

/// The newest checkpoint.
pub(crate) fn newest(
    table: &impl ReadableTable<&'static CheckpointBytes, RawBytes>,
) -> Result<Option<LogCheckpoint>, StoreError> {
    let newest = table.iter()?.next_back().transpose()?;
    newest.map(|(_, bytes)| Ok(values::decode::<StoredCheckpoint>(bytes.value())?.checkpoint)).transpose()
}

/// Checkpoints behind this number, oldest first.
pub(crate) fn after(
    table: &impl ReadableTable<&'static CheckpointBytes, RawBytes>,
    number: u64,
    limit: usize,
) -> Result<Vec<StoredCheckpoint>, StoreError> {
    let first = checkpoint_key(number.saturating_add(1));
    let found = table.range::<&CheckpointBytes>(&first..=&checkpoint_key(u64::MAX))?;
    found.take(limit).map(|entry| values::decode(entry?.1.value())).collect()
}

impl Transaction<'_> {
    /// Makes the checkpoint of this day, if the last one is a day old.
    pub(crate) fn make_due_checkpoint(&mut self) -> Result<(), StoreError> {
        let newest = newest(&self.tables.log_checkpoints)?;
        if is_due(newest.as_ref(), self.now_ms) { self.make_checkpoint().map(drop) } else { Ok(()) }
    }

    /// Makes a checkpoint of the jobs that have ended or come as imports since the last one. `None`: there
    /// are none, or the server has not set its key.
    pub(crate) fn make_checkpoint(&mut self) -> Result<Option<LogCheckpoint>, StoreError> {
        let Some(key) = self.log_key else { return Ok(None) };
        let before = newest(&self.tables.log_checkpoints)?;
        note_other_key(before.as_ref(), key);
        let window = CheckpointWindow::new(before.as_ref(), self.now_ms, self.take_imports()?);
        let ended = self.ended_in(&window)?;
        let Some((through_ms, heads)) = window.cover(&ended) else { return Ok(None) };
        let made = StoredCheckpoint::new(before.as_ref(), heads, (self.now_ms, through_ms), key);
        self.mark_dirty();
        self.tables.log_checkpoints.put_row(&checkpoint_key(made.checkpoint.number), &made)?;
        Ok(Some(made.checkpoint))
    }

    /// Takes imports from the list of those that the next checkpoint looks at. Some may have been removed.
    fn take_imports(&mut self) -> Result<Vec<EndedHead>, StoreError> {
        let listed = self.tables.checkpoint_imports.iter()?.take(CHECKPOINT_JOBS);
        let listed = listed.map(|entry| Ok(JobId::from_bytes(*entry?.0.value())));
        let listed: Vec<JobId> = listed.collect::<Result<_, StoreError>>()?;
        let mut taken = Vec::with_capacity(listed.len());
        for job in listed {
            self.mark_dirty();
            self.tables.checkpoint_imports.remove(&job.to_bytes())?;
            let row = self.find_readable_row(job)?;
            let finished_at_ms = row.as_ref().and_then(|row| row.job.finished_at_ms).unwrap_or_default();
            taken.push(EndedHead { finished_at_ms, job, head: row.and_then(|row| row.job.log_head) });
        }
        Ok(taken)
    }

    /// The first jobs of a window by their ends, with all that ended together with the last of them.
    fn ended_in(&self, window: &CheckpointWindow) -> Result<Vec<EndedHead>, StoreError> {
        let Some(last_taken) = window.room.checked_sub(1) else { return Ok(Vec::new()) };
        let mut found: Vec<(u64, JobId)> = Vec::new();
        for stage in STAGES {
            let key = |finished_at_ms, bits| EndedKey { stage, finished_at_ms, job: JobId::from_bits(bits) };
            let first = key(window.after_ms.saturating_add(1), 0).encode();
            let last = key(window.until_ms, u128::MAX).encode();
            let (mut of_stage, mut last_ms) = (0_usize, 0);
            for entry in self.tables.ended.range::<&EndedBytes>(&first..=&last)? {
                let EndedKey { finished_at_ms, job, .. } = EndedKey::decode(entry?.0.value());
                if of_stage > last_taken && finished_at_ms > last_ms {
                    break;
                }
                (of_stage, last_ms) = (of_stage.saturating_add(1), finished_at_ms);
                found.push((finished_at_ms, job));
            }
        }
        found.sort_unstable();
        if let Some((last_ms, _)) = found.get(last_taken).copied() {
            found.retain(|(finished_at_ms, _)| *finished_at_ms <= last_ms);
        }
        let head = |(finished_at_ms, job): (u64, JobId)| {
            // An entry of the index may be older than the last run of its job.
            let row = self.find_readable_row(job)?;
            let row = row.filter(|row| row.job.finished_at_ms == Some(finished_at_ms));
            Ok(EndedHead { finished_at_ms, job, head: row.and_then(|row| row.job.log_head) })
        };
        found.into_iter().map(head).collect()
    }
}
