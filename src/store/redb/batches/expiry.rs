//! Open batches whose time is over: they end with what was answered until then. The scheduler looks for them
//! every few seconds.

use crate::domain::batch::BatchStatus;
use crate::domain::id::BatchId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::batches::{BatchExpiryBytes, BatchExpiryKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::EXPIRING_BATCHES;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::batch::BatchRow;

/// The keys of batches that have expired by now end before this one.
fn end_of_due(now_ms: u64) -> BatchExpiryBytes {
    let expires_at_ms = now_ms.saturating_add(1);
    BatchExpiryKey { expires_at_ms, batch: BatchId::from_bits(0) }.encode()
}

/// Whether the time of an open batch is over.
pub(crate) fn is_any_due(reading: &ReadTransaction, now_ms: u64) -> Result<bool, StoreError> {
    let open = EXPIRING_BATCHES.read(reading)?.skipping_damaged();
    Ok(open.range::<&BatchExpiryBytes>(..&end_of_due(now_ms))?.next().transpose()?.is_some())
}

impl Transaction<'_> {
    /// Lists a new batch among those that expire, if it does.
    pub(crate) fn list_expiry(&mut self, row: &BatchRow) -> Result<(), StoreError> {
        if let Some(expires_at_ms) = row.due_ms() {
            let key = BatchExpiryKey { expires_at_ms, batch: row.batch.id };
            self.tables.expiring_batches.insert(&key.encode(), ())?;
        }
        Ok(())
    }

    /// Removes a batch that ends, or is stopped, from those that expire.
    pub(crate) fn forget_expiry(&mut self, row: &BatchRow) -> Result<(), StoreError> {
        if let Some(expires_at_ms) = row.batch.expires_at_ms {
            let key = BatchExpiryKey { expires_at_ms, batch: row.batch.id };
            self.tables.expiring_batches.remove(&key.encode())?;
        }
        Ok(())
    }
}

/// Expires the open batch whose time was over first. Returns whether there was one.
pub(crate) fn expire_due_batch(transaction: &mut Transaction<'_>) -> Result<bool, StoreError> {
    let due = end_of_due(transaction.now_ms);
    let first = transaction.tables.expiring_batches.range::<&BatchExpiryBytes>(..&due)?.next().transpose()?;
    let Some(key) = first.map(|(key, _)| BatchExpiryKey::decode(key.value())) else { return Ok(false) };
    transaction.tables.expiring_batches.remove(&key.encode())?;
    transaction.mark_dirty();
    match transaction.find_batch(key.batch) {
        Ok(Some(row)) if row.due_ms() == Some(key.expires_at_ms) => {
            tracing::info!(batch = %key.batch, user = row.batch.user.0, "batch expired");
            transaction.stop_batch(row, BatchStatus::Expiring)?;
        }
        Ok(_) => {}
        Err(StoreError::Corrupt(reason)) => {
            tracing::error!(batch = %key.batch, reason, "batch cannot be read; it does not expire");
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}
