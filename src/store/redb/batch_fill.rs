//! Storing a batch: its lines piece by piece, then all of it in one transaction. Owns what becomes of lines whose batch
//! was never accepted: they are forgotten, and nothing of them ever ran.

use super::act::{Act, SMALL};
use super::batch_row::{BatchRow, LineRow};
use super::keys::{LineKey, OwnedBatchKey};
use super::submit::spec_bytes;
use super::table::ReadableTable;
use super::transaction::Transaction;
use super::value;
use crate::domain::batch::{Batch, BatchCounts, BatchStatus};
use crate::domain::id::{BatchId, JobId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Idempotent, NewBatch, NewLine, StoreError};

/// These lines, from this number on.
pub(super) struct Fill {
    pub(super) batch: BatchId,
    pub(super) first: u32,
    pub(super) lines: Vec<NewLine>,
}

impl Act for Fill {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.refuse_low_disk()?;
        let batch = self.batch;
        transaction.tables.filling.insert(&batch.to_bytes(), ())?;
        for (line, new) in (self.first..).zip(&self.lines) {
            let row = LineRow {
                custom_id: new.custom_id.clone(),
                spec: Some(new.spec.clone()),
                job: None,
                has_ended: false,
            };
            transaction.put_line(LineKey { batch, line }, &row)?;
        }
        transaction.touch();
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }

    fn weight(&self) -> usize {
        self.lines.iter().map(|line| spec_bytes(&line.spec).saturating_add(SMALL)).sum()
    }
}

/// Lines that lead nowhere.
pub(super) struct Abandon(pub(super) BatchId);

impl Act for Abandon {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.abandon(self.0)
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

/// The batch, unless its key was seen before.
pub(super) struct Accept {
    pub(super) batch: NewBatch,
    pub(super) key: Option<IdempotencyKey>,
}

impl Act for Accept {
    type Out = Idempotent<Batch>;

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
        if transaction.tables.filling.get(&id.to_bytes())?.is_none() {
            return Err(StoreError::Abandoned);
        }
        transaction.make_room(u64::from(self.batch.lines))?;
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
        self.tables.filling.remove(&new.id.to_bytes())?;
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
        self.begin_lines(&mut row)?;
        self.put_batch(&row)?;
        Ok(row.batch)
    }

    /// Writes a line.
    pub(super) fn put_line(&mut self, key: LineKey, row: &LineRow) -> Result<(), StoreError> {
        self.tables.batch_lines.insert(&key.encode(), value::encode(row)?.as_slice())?;
        Ok(())
    }
}
