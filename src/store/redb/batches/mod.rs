//! The port [`Batches`] on the store.

use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::ports::{
    BatchError, BatchFiles, BatchPage, Batches, ChangeWatch, Idempotent, NewBatch, NewLine, ResultPage,
    StoreError, Ticket,
};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::WAITING_BATCHES;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::weight::BASE_WEIGHT;
use crate::store::rows::weight::spec_bytes;

pub(crate) mod accept;
mod expiry;
mod files;
pub(crate) mod lines;
pub(crate) mod read;
pub(crate) mod removal;
mod waiting;

impl Batches for RedbStore {
    fn fill(&self, batch: (UserId, BatchId), first: u32, lines: Vec<NewLine>) -> Ticket<()> {
        let weight = lines.iter().map(|line| spec_bytes(&line.spec).saturating_add(BASE_WEIGHT)).sum();
        let options = WriteOptions { weight, ..WriteOptions::default() };
        self.push(options, move |transaction| transaction.add_batch_lines(batch, first, &lines))
    }

    fn abandon(&self, batch: BatchId) -> Ticket<()> {
        self.push(WriteOptions::default(), move |transaction| transaction.abandon(batch))
    }

    fn accept(&self, batch: NewBatch, key: Option<IdempotencyKey>) -> Ticket<Idempotent<Batch>, BatchError> {
        self.push(WriteOptions::default(), move |transaction| transaction.accept_batch(&batch, key.as_ref()))
    }

    fn attach_files(&self, user: UserId, batch: BatchId, files: BatchFiles) -> Ticket<Option<Batch>> {
        self.push(WriteOptions::default(), move |transaction| {
            transaction.attach_batch_files((user, batch), &files)
        })
    }

    fn resume_waiting(&self) -> Ticket<bool> {
        match self.read(|reading| Ok(WAITING_BATCHES.read(reading)?.skipping_damaged().first()?.is_none())) {
            Ok(true) => Ticket::resolved(Ok(false)),
            Ok(false) => self.push(WriteOptions::default(), waiting::resume_waiting_batches),
            Err(error) => Ticket::resolved(Err(error)),
        }
    }

    fn expire_due(&self) -> Ticket<bool> {
        let now_ms = self.shared.clock.now_ms();
        match self.read(|reading| expiry::is_any_due(reading, now_ms)) {
            Ok(true) if self.is_clock_trusted() => {
                self.push(WriteOptions::default(), expiry::expire_due_batch)
            }
            Ok(_) => Ticket::resolved(Ok(false)),
            Err(error) => Ticket::resolved(Err(error)),
        }
    }

    fn cancel_batch(&self, user: UserId, batch: BatchId) -> Ticket<Option<Batch>> {
        self.offer(WriteOptions::default(), move |transaction| transaction.cancel_batch(user, batch))
    }

    fn delete_batch(&self, user: UserId, batch: BatchId) -> Ticket<bool, BatchError> {
        self.offer(WriteOptions::default(), move |transaction| transaction.delete_batch(user, batch))
    }

    fn batch(&self, user: UserId, batch: BatchId) -> Result<Option<Batch>, StoreError> {
        let row = self.read(|reading| read::row(reading, batch))?;
        Ok(row.map(|row| row.batch).filter(|batch| batch.user == user))
    }

    fn batches_without_files(&self) -> Result<Vec<(UserId, BatchId)>, StoreError> {
        self.read(files::without_files)
    }

    fn batches(&self, user: UserId, before: Option<BatchId>, limit: usize) -> Result<BatchPage, StoreError> {
        self.read(|reading| read::batches(reading, user, before, limit))
    }

    fn results(&self, batch: BatchId, from: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.read(|reading| read::results(reading, batch, from, max))
    }

    fn ended(&self, batch: BatchId, after: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.read(|reading| read::ended(reading, batch, after, max))
    }

    fn watch_batch(&self, batch: BatchId) -> ChangeWatch {
        let receiver = self.shared.batch_watches.subscribe(batch);
        // Subscribed first, read second, as for jobs.
        if let Ok(new_seqs) = self.read(|reading| read::new_seqs(reading, batch)) {
            self.shared.batch_watches.bump(batch, new_seqs);
        }
        receiver
    }
}
