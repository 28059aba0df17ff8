//! Batches and their lines.

use crate::domain::id::{BatchId, UserId};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::batches::{BatchExpiryKey, BatchLineBytes, BatchLineKey, OwnedBatchKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{
    BATCH_ACTIVE, BATCH_ENDED, BATCH_LINES, BATCH_OWNERS, BATCHES, REMOVED_BATCHES, Tables,
    UNACCEPTED_BATCHES,
};
use crate::store::redb::codec::values;
use crate::store::redb::transfer::{EachRow, RedbRow, document, scan, stored};
use crate::store::rows::batch::BatchLineRow;
use crate::store::rows::transfer::batches::{TransferBatch, TransferLine, TransferRemovedBatch};
use crate::store::rows::transfer::documents::JsonDocument;
use std::collections::HashMap;

impl RedbRow for TransferBatch {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(BATCHES, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let batch = &self.0.value.batch;
        let (key, owned) =
            (batch.id.to_bytes(), OwnedBatchKey { user: batch.user, batch: batch.id }.encode());
        tables.batches.insert(&key, stored(&self.0).as_slice())?;
        tables.batches_owned.insert(&owned, ())?;
        tables.batch_owners.insert(&key, batch.user.0)?;
        if let Some(expires_at_ms) = self.0.value.due_ms() {
            let key = BatchExpiryKey { expires_at_ms, batch: batch.id };
            tables.expiring_batches.insert(&key.encode(), ())?;
        }
        if batch.misses_files() {
            tables.batches_without_files.insert(&owned, ())?;
        }
        if batch.waiting_for.is_some() {
            tables.waiting_batches.insert(&owned, ())?;
        }
        Ok(())
    }
}

/// The numbers of a batch's lines in the order of their ends.
fn ends(reading: &ReadTransaction, batch: BatchId) -> Result<HashMap<u32, u32>, StoreError> {
    let (first, last) = BatchLineKey::all_of(batch);
    let ended = BATCH_ENDED.read(reading)?;
    ended
        .range::<&BatchLineBytes>(&first..=&last)?
        .map(|entry| {
            let (key, line) = entry?;
            Ok((line.value(), BatchLineKey::decode(key.value()).line))
        })
        .collect()
}

impl RedbRow for TransferLine {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let active = BATCH_ACTIVE.read(reading)?;
        let mut of_batch: Option<(BatchId, HashMap<u32, u32>)> = None;
        scan(BATCH_LINES, reading, |key, bytes| {
            let BatchLineKey { batch, line } = BatchLineKey::decode(key);
            if of_batch.as_ref().is_none_or(|(before, _)| *before != batch) {
                of_batch = Some((batch, ends(reading, batch)?));
            }
            let ended = of_batch.as_ref().and_then(|(_, ends)| ends.get(&line).copied());
            let BatchLineRow { custom_id, spec, job, has_ended: _ } = values::decode(bytes)?;
            let spec = spec.map(JsonDocument::of).transpose()?;
            let is_active = active.get(key)?.is_some();
            each(Self { batch, line, custom_id, spec, job, is_active, ended })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let Self { batch, line, custom_id, spec, job, is_active, ended } = self;
        let key = BatchLineKey { batch, line }.encode();
        let row =
            BatchLineRow { custom_id, spec: spec.map(|spec| spec.value), job, has_ended: ended.is_some() };
        tables.batch_lines.put_row(&key, &row)?;
        if let Some(job) = job.filter(|_| is_active) {
            tables.batch_active.insert(&key, &job.to_bytes())?;
        }
        if let Some(number) = ended {
            tables.batch_ended.insert(&BatchLineKey { batch, line: number }.encode(), line)?;
        }
        Ok(())
    }
}

impl RedbRow for TransferRemovedBatch {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let owners = BATCH_OWNERS.read(reading)?;
        // A start removes batches that were never accepted.
        for table in [REMOVED_BATCHES, UNACCEPTED_BATCHES] {
            scan(table, reading, |key, ()| {
                let user = UserId(owners.get(key)?.map_or(0, |user| user.value()));
                each(Self { batch: BatchId::from_bytes(*key), user })
            })?;
        }
        Ok(())
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = self.batch.to_bytes();
        tables.removed_batches.insert(&key, ())?;
        tables.batch_owners.insert(&key, self.user.0)?;
        Ok(())
    }
}
