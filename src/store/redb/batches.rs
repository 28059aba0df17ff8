//! The store's side of [`Batches`].

use super::{RedbStore, batch_fill, batch_read, batch_run};
use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::ports::{
    BatchPage, Batches, ChangeWatch, Idempotent, NewBatch, NewLine, ResultPage, StoreError, Ticket,
};

impl Batches for RedbStore {
    fn fill(&self, batch: BatchId, first: u32, lines: Vec<NewLine>) -> Ticket<()> {
        self.push(batch_fill::Fill { batch, first, lines })
    }

    fn abandon(&self, batch: BatchId) -> Ticket<()> {
        self.push(batch_fill::Abandon(batch))
    }

    fn accept(&self, batch: NewBatch, key: Option<IdempotencyKey>) -> Ticket<Idempotent<Batch>> {
        self.push(batch_fill::Accept { batch, key })
    }

    fn cancel_batch(&self, user: UserId, batch: BatchId) -> Ticket<Option<Batch>> {
        self.offer(batch_run::CancelBatch { user, batch })
    }

    fn batch(&self, user: UserId, batch: BatchId) -> Result<Option<Batch>, StoreError> {
        let row = self.shared.handle.read(|reading| batch_read::row(reading, batch))?;
        Ok(row.map(|row| row.batch).filter(|batch| batch.user == user))
    }

    fn batches(&self, user: UserId, before: Option<BatchId>, limit: usize) -> Result<BatchPage, StoreError> {
        self.shared.handle.read(|reading| batch_read::batches(reading, user, before, limit))
    }

    fn results(&self, batch: BatchId, from: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.shared.handle.read(|reading| batch_read::results(reading, batch, from, max))
    }

    fn ended(&self, batch: BatchId, after: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.shared.handle.read(|reading| batch_read::ended(reading, batch, after, max))
    }

    fn watch_batch(&self, batch: BatchId) -> ChangeWatch {
        let receiver = self.shared.batch_watches.subscribe(batch);
        // Subscribed first, read second, as for jobs.
        if let Ok(news) = self.shared.handle.read(|reading| batch_read::news(reading, batch)) {
            self.shared.batch_watches.bump(batch, news);
        }
        receiver
    }
}
