//! Deleting batches whose time is over, with their lines. Their jobs go their own way. Refuses batches that have not ended.

use super::batch_row::BatchRow;
use super::keys::{BatchBytes, LineBytes, LineKey, OwnedBatchKey};
use super::transaction::Transaction;
use super::value;
use crate::domain::id::BatchId;
use crate::ports::StoreError;
use redb::ReadableTable;

/// Bits of an id behind its time.
const TIME_SHIFT: u32 = 80;
/// Batches of one transaction.
const SWEEP_BATCHES: usize = 4;

impl Transaction<'_> {
    /// Forgets some of the batches that ended before then.
    pub(super) fn forget_batches(&mut self, before_ms: u64) -> Result<(), StoreError> {
        // Ids begin with the time of acceptance, which is before the end: younger ones need no look.
        let last = BatchId::from_bits(u128::from(before_ms) << TIME_SHIFT).to_bytes();
        let mut old = Vec::new();
        for entry in self.tables.batches.range::<&BatchBytes>(..&last)? {
            let Ok(row) = value::decode::<BatchRow>(entry?.1.value()) else { continue };
            if row.batch.finished_at_ms.is_some_and(|finished| finished < before_ms) {
                old.push(row);
            }
            if old.len() >= SWEEP_BATCHES {
                break;
            }
        }
        old.iter().try_for_each(|row| self.forget_batch(row))
    }

    fn forget_batch(&mut self, row: &BatchRow) -> Result<(), StoreError> {
        let (batch, user) = (row.batch.id, row.batch.user);
        let (first, last) = LineKey::all_of(batch);
        let mut freed = 0;
        self.tables.batch_lines.retain_in::<&LineBytes, _>(&first..=&last, |key, line| {
            freed += key.len() + line.len();
            false
        })?;
        self.tables.batch_ended.retain_in::<&LineBytes, _>(&first..=&last, |_, _| false)?;
        self.tables.batches_owned.remove(&OwnedBatchKey { user, batch }.encode())?;
        self.tables.batches.remove(&batch.to_bytes())?;
        self.count_freed(freed);
        Ok(())
    }
}
