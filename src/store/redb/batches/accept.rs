//! Stores the lines of a batch piece by piece, then accepts the batch in one transaction. The lines of a
//! batch that is never accepted are removed; none of them ever runs.

use crate::domain::batch::{Batch, BatchCounts, BatchStatus};
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{BatchError, Idempotent, NewBatch, NewLine, NewWork, StoreError};
use crate::store::redb::codec::keys::batches::{BatchLineKey, OwnedBatchKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::batch::{BatchLineRow, BatchRow, accepted, job_id};
use crate::store::rows::idempotency::KeyUse;

impl Transaction<'_> {
    /// Stores lines of a batch, from this number on.
    pub(crate) fn add_batch_lines(
        &mut self,
        (user, batch): (UserId, BatchId),
        first: u32,
        lines: &[NewLine],
    ) -> Result<(), StoreError> {
        self.refuse_low_disk()?;
        self.tables.unaccepted_batches.insert(&batch.to_bytes(), ())?;
        self.tables.batch_owners.insert(&batch.to_bytes(), &user.0)?;
        for (line, new) in (first..).zip(lines) {
            // The line becomes this job, which then has them.
            self.keep_images(user, job_id(batch, line).into(), &new.spec.input)?;
            let row = BatchLineRow {
                custom_id: new.custom_id.clone(),
                spec: Some(new.spec.clone()),
                job: None,
                has_ended: false,
            };
            self.put_line(BatchLineKey { batch, line }, &row)?;
        }
        self.mark_dirty();
        Ok(())
    }
}

impl Transaction<'_> {
    /// Accepts a batch, unless its idempotency key is known.
    pub(crate) fn accept_batch(
        &mut self,
        batch: &NewBatch,
        key: Option<&IdempotencyKey>,
    ) -> Result<Idempotent<Batch>, BatchError> {
        let NewBatch { id, user, .. } = *batch;
        if let Some(key) = key {
            match self.key_use(user, key)? {
                KeyUse::Same(WebhookSubject::Batch(before)) => {
                    let before = self.find_batch(before)?.ok_or(BatchError::KeySpent)?;
                    self.abandon(id)?;
                    return Ok(Idempotent::Replayed(before.batch));
                }
                KeyUse::Same(WebhookSubject::Job(_)) | KeyUse::Other => return Err(BatchError::KeyReused),
                KeyUse::Never => {}
            }
        }
        let is_refused = batch.source.as_ref().is_some_and(|source| !source.faults.is_empty());
        if !is_refused && self.tables.unaccepted_batches.get(&id.to_bytes())?.is_none() {
            return Err(BatchError::Abandoned);
        }
        let jobs = u64::from(batch.lines);
        self.check_queue_limit(jobs, |limit| BatchError::QueueFull { limit })?;
        // The lines are stored already.
        self.admit_work::<BatchError>(user, NewWork { jobs, bytes: 0 })?;
        if let Some(key) = key {
            self.remember(user, key, WebhookSubject::Batch(id))?;
        }
        let started = if is_refused { self.refuse_batch(batch) } else { self.start_batch(batch) };
        Ok(Idempotent::New(started?))
    }

    /// Stores a batch whose file was refused.
    fn refuse_batch(&mut self, new: &NewBatch) -> Result<Batch, StoreError> {
        self.abandon(new.id)?;
        let batch = Batch {
            status: BatchStatus::Failed,
            finished_at_ms: Some(self.now_ms),
            counts: BatchCounts::default(),
            ..accepted(new)
        };
        self.tables.batch_owners.insert(&new.id.to_bytes(), &new.user.0)?;
        self.tables.batches_owned.insert(&OwnedBatchKey { user: new.user, batch: new.id }.encode(), ())?;
        if let Some(url) = &new.webhook_url {
            self.report(new.user, WebhookSubject::Batch(new.id), url)?;
        }
        let row = BatchRow { batch, next_line: 0, active: 0, ended: 0, retried: 0 };
        self.put_batch(&row)?;
        Ok(row.batch)
    }

    fn start_batch(&mut self, new: &NewBatch) -> Result<Batch, StoreError> {
        self.tables.unaccepted_batches.remove(&new.id.to_bytes())?;
        let owned = OwnedBatchKey { user: new.user, batch: new.id }.encode();
        let batch = accepted(new);
        if batch.source.is_some() {
            self.tables.batches_without_files.insert(&owned, ())?;
        }
        self.tables.batches_owned.insert(&owned, ())?;
        // Lines count as unfinished jobs from here on; each hands its share over to its job.
        self.counters.unfinished = self.counters.unfinished.saturating_add(u64::from(new.lines));
        let mut row = BatchRow { batch, next_line: 0, active: 0, ended: 0, retried: 0 };
        self.list_expiry(&row)?;
        self.start_lines(&mut row)?;
        self.put_batch(&row)?;
        Ok(row.batch)
    }

    /// Writes a line.
    pub(crate) fn put_line(&mut self, key: BatchLineKey, row: &BatchLineRow) -> Result<(), StoreError> {
        self.tables.batch_lines.put_row(&key.encode(), row)?;
        Ok(())
    }
}
