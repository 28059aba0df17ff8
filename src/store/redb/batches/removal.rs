//! Removes batches that were never accepted, and ended ones for retention or their user. The row goes at
//! once; the lines go piece by piece while the store is idle.

use crate::domain::id::{BatchId, UserId};
use crate::ports::{BatchError, StoreError};
use crate::store::redb::codec::keys::batches::{BatchBytes, BatchLineBytes, BatchLineKey, OwnedBatchKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::batch::{BatchRow, job_id};

/// Bits of an id behind its time.
const TIME_SHIFT: u32 = 80;
/// Batches of one transaction.
const SWEEP_BATCHES: usize = 16;
/// Lines of one transaction.
const SWEEP_LINES: usize = 1_000;
/// Maximum weight of the lines of one transaction, bytes; the last one may exceed it.
const SWEEP_BYTES: usize = 4 * 1024 * 1024;

impl Transaction<'_> {
    /// Removes a batch that was never accepted.
    pub(crate) fn abandon(&mut self, batch: BatchId) -> Result<(), StoreError> {
        if self.tables.unaccepted_batches.remove(&batch.to_bytes())?.is_some() {
            self.tables.removed_batches.insert(&batch.to_bytes(), ())?;
            self.mark_dirty();
        }
        Ok(())
    }

    /// Removes batches that ended before `before_ms`. Returns whether more work is left.
    pub(crate) fn forget_batches(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        // Ids start with the time of acceptance, which is before the end: skip younger batches.
        let last = BatchId::from_bits(u128::from(before_ms) << TIME_SHIFT).to_bytes();
        let mut old = Vec::new();
        for entry in self.tables.batches.range::<&BatchBytes>(..&last)? {
            let Ok(row) = values::decode::<BatchRow>(entry?.1.value()) else { continue };
            if row.batch.finished_at_ms.is_some_and(|finished| finished < before_ms) {
                old.push(row);
            }
            if old.len() >= SWEEP_BATCHES {
                break;
            }
        }
        for row in &old {
            self.forget_batch(row)?;
        }
        Ok(!old.is_empty())
    }

    /// Removes a batch of a user, if it has ended. Returns whether the user had it.
    pub(crate) fn delete_batch(&mut self, user: UserId, batch: BatchId) -> Result<bool, BatchError> {
        let Some(row) = self.find_batch(batch)?.filter(|row| row.batch.user == user) else {
            return Ok(false);
        };
        if !row.batch.status.is_terminal() {
            return Err(BatchError::NotEnded);
        }
        self.forget_batch(&row)?;
        self.clear_removed_batches()?;
        Ok(true)
    }

    /// Removes the row of a batch. Its lines are removed later.
    fn forget_batch(&mut self, row: &BatchRow) -> Result<(), StoreError> {
        let (batch, user) = (row.batch.id, row.batch.user);
        let owned = OwnedBatchKey { user, batch }.encode();
        self.tables.batches_owned.remove(&owned)?;
        self.tables.batches_without_files.remove(&owned)?;
        self.tables.batches.remove(&batch.to_bytes())?;
        self.tables.removed_batches.insert(&batch.to_bytes(), ())?;
        self.mark_dirty();
        Ok(())
    }

    /// A removed line needs its images no longer, unless it is a job, which keeps them.
    fn release_line_images(&mut self, user: UserId, key: BatchLineKey) -> Result<(), StoreError> {
        let job = job_id(key.batch, key.line);
        if self.tables.jobs.get(&job.to_bytes())?.is_some() {
            return Ok(());
        }
        self.release_images(user, job.into())
    }

    /// Removes some lines of removed batches. Returns whether more are left.
    pub(crate) fn clear_removed_batches(&mut self) -> Result<bool, StoreError> {
        let Some(batch) =
            self.tables.removed_batches.first()?.map(|(key, _)| BatchId::from_bytes(*key.value()))
        else {
            return Ok(false);
        };
        let (first, last) = BatchLineKey::all_of(batch);
        let (mut keys, mut freed) = (Vec::new(), 0_usize);
        for entry in self.tables.batch_lines.range::<&BatchLineBytes>(&first..=&last)?.take(SWEEP_LINES) {
            let (key, line) = entry?;
            keys.push(*key.value());
            freed = freed.saturating_add(line.value().len());
            if freed >= SWEEP_BYTES {
                break;
            }
        }
        let user = self.tables.batch_owners.get(&batch.to_bytes())?.map(|user| UserId(user.value()));
        for key in &keys {
            self.tables.batch_lines.remove(key)?;
            if let Some(user) = user {
                self.release_line_images(user, BatchLineKey::decode(key))?;
            }
        }
        self.count_freed(freed);
        if keys.is_empty() {
            self.tables.batch_ended.retain_in::<&BatchLineBytes>(&first..=&last, |_, _| false)?;
            self.tables.batch_active.retain_in::<&BatchLineBytes>(&first..=&last, |_, _| false)?;
            self.tables.removed_batches.remove(&batch.to_bytes())?;
            self.tables.batch_owners.remove(&batch.to_bytes())?;
        }
        Ok(true)
    }
}
