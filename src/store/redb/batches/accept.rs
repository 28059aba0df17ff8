//! Stores the lines of a batch piece by piece, then accepts the batch in one transaction. The lines of a
//! batch that is never accepted are removed; none of them ever runs.

use crate::domain::batch::{Batch, BatchCounts, BatchStatus};
use crate::domain::id::{BatchId, JobId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Idempotent, NewBatch, NewLine, StoreError};
use crate::store::redb::batches::row::{BatchLineRow, BatchRow};
use crate::store::redb::codec::keys::batches::{BatchLineKey, OwnedBatchKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::jobs::submit::spec_bytes;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::{BASE_WEIGHT, StoreWrite};

/// These lines, from this number on.
pub(crate) struct AddBatchLines {
    pub(crate) batch: BatchId,
    pub(crate) first: u32,
    pub(crate) lines: Vec<NewLine>,
}

impl StoreWrite for AddBatchLines {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.refuse_low_disk()?;
        let batch = self.batch;
        transaction.tables.unaccepted_batches.insert(&batch.to_bytes(), ())?;
        for (line, new) in (self.first..).zip(&self.lines) {
            let row = BatchLineRow {
                custom_id: new.custom_id.clone(),
                spec: Some(new.spec.clone()),
                job: None,
                has_ended: false,
            };
            transaction.put_line(BatchLineKey { batch, line }, &row)?;
        }
        transaction.mark_dirty();
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }

    fn weight(&self) -> usize {
        self.lines.iter().map(|line| spec_bytes(&line.spec).saturating_add(BASE_WEIGHT)).sum()
    }
}

/// Lines that lead nowhere.
pub(crate) struct AbandonBatch(pub(crate) BatchId);

impl StoreWrite for AbandonBatch {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.abandon(self.0)
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

/// The batch, unless its key was seen before.
pub(crate) struct AcceptBatch {
    pub(crate) batch: NewBatch,
    pub(crate) key: Option<IdempotencyKey>,
}

impl StoreWrite for AcceptBatch {
    type Output = Idempotent<Batch>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Idempotent<Batch>, StoreError> {
        let NewBatch { id, user, .. } = self.batch;
        if let Some(key) = &self.key {
            match transaction.recall(user, key)? {
                Some(WebhookSubject::Batch(before)) => {
                    let before = transaction.find_batch(before)?.ok_or(StoreError::KeySpent)?;
                    transaction.abandon(id)?;
                    return Ok(Idempotent::Replayed(before.batch));
                }
                Some(WebhookSubject::Job(_)) => return Err(StoreError::KeyReused),
                None => {}
            }
        }
        if transaction.tables.unaccepted_batches.get(&id.to_bytes())?.is_none() {
            return Err(StoreError::Abandoned);
        }
        transaction.check_queue_limit(u64::from(self.batch.lines))?;
        if let Some(key) = &self.key {
            transaction.remember(user, key, WebhookSubject::Batch(id))?;
        }
        transaction.accept_batch(&self.batch).map(Idempotent::New)
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

impl Transaction<'_> {
    fn accept_batch(&mut self, new: &NewBatch) -> Result<Batch, StoreError> {
        self.tables.unaccepted_batches.remove(&new.id.to_bytes())?;
        let batch = Batch {
            id: new.id,
            user: new.user,
            status: BatchStatus::InProgress,
            created_at_ms: new.created_at_ms,
            cancelling_at_ms: None,
            finished_at_ms: None,
            counts: BatchCounts { total: new.lines, ..BatchCounts::default() },
            concurrency: new.concurrency.max(1),
            webhook_url: new.webhook_url.clone(),
        };
        self.tables.batches_owned.insert(&OwnedBatchKey { user: new.user, batch: new.id }.encode(), ())?;
        // Lines count as unfinished jobs from here on; each hands its share over to its job.
        self.counters.unfinished = self.counters.unfinished.saturating_add(u64::from(new.lines));
        let mut row = BatchRow { batch, next_line: 0, active: 0, ended: 0, retried: 0 };
        self.start_lines(&mut row)?;
        self.put_batch(&row)?;
        Ok(row.batch)
    }

    /// Writes a line.
    pub(crate) fn put_line(&mut self, key: BatchLineKey, row: &BatchLineRow) -> Result<(), StoreError> {
        self.tables.batch_lines.insert(&key.encode(), values::encode(row)?.as_slice())?;
        Ok(())
    }
}
