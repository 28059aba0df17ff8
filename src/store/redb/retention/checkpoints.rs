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
use crate::store::rows::checkpoint::{CHECKPOINT_JOBS, EndedHead, LAG_MS, is_due, note_other_key, window};

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

    /// Makes a checkpoint of the jobs that have ended since the last one. `None`: there are none, or the
    /// server has not set its key.
    pub(crate) fn make_checkpoint(&mut self) -> Result<Option<LogCheckpoint>, StoreError> {
        let Some(key) = self.log_key else { return Ok(None) };
        let before = newest(&self.tables.log_checkpoints)?;
        note_other_key(before.as_ref(), key);
        let after_ms = before.as_ref().map_or(0, |before| before.through_ms);
        let until_ms = self.now_ms.saturating_sub(LAG_MS);
        let ended = self.ended_between(after_ms, until_ms)?;
        let Some((through_ms, heads)) = window(ended, until_ms) else { return Ok(None) };
        let made = StoredCheckpoint::new(before.as_ref(), heads, (self.now_ms, through_ms), key);
        self.mark_dirty();
        self.tables.log_checkpoints.put_row(&checkpoint_key(made.checkpoint.number), &made)?;
        Ok(Some(made.checkpoint))
    }

    /// Jobs that ended after one time and not after another, by their ends: one more than a checkpoint takes.
    fn ended_between(&self, after_ms: u64, until_ms: u64) -> Result<Vec<EndedHead>, StoreError> {
        let mut found: Vec<(u64, JobId)> = Vec::new();
        for stage in STAGES {
            let key = |finished_at_ms, bits| EndedKey { stage, finished_at_ms, job: JobId::from_bits(bits) };
            let (first, last) =
                (key(after_ms.saturating_add(1), 0).encode(), key(until_ms, u128::MAX).encode());
            for entry in self.tables.ended.range::<&EndedBytes>(&first..=&last)?.take(CHECKPOINT_JOBS + 1) {
                let EndedKey { finished_at_ms, job, .. } = EndedKey::decode(entry?.0.value());
                found.push((finished_at_ms, job));
            }
        }
        found.sort_unstable();
        found.truncate(CHECKPOINT_JOBS + 1);
        let head = |(finished_at_ms, job): (u64, JobId)| {
            let row = match self.find_row(job) {
                Err(StoreError::Corrupt(_)) => None,
                row => row?,
            };
            // An entry of the index may be older than the last run of its job.
            let row = row.filter(|row| row.job.finished_at_ms == Some(finished_at_ms));
            Ok(EndedHead { finished_at_ms, job, head: row.and_then(|row| row.job.log_head) })
        };
        found.into_iter().map(head).collect()
    }
}
