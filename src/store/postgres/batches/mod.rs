//! The port [`Batches`] on the store.
//!
//! The row of a batch is locked before its counts change. A group of writes counts the ends of lines at its
//! end, batch by batch in the order of their ids, so that nodes which run the same batches do not wait for
//! each other in a circle.

use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::ports::{
    BatchError, BatchFiles, BatchPage, Batches, ChangeWatch, Idempotent, NewBatch, NewLine, ResultPage,
    StoreError, Ticket,
};
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;

mod accept;
mod files;
mod lines;
mod read;
mod removal;
mod row;
mod stop;
pub(crate) mod unstarted;
mod waiting;

impl Batches for PostgresStore {
    fn fill(&self, batch: (UserId, BatchId), first: u32, lines: Vec<NewLine>) -> Ticket<()> {
        self.write(async move |act: &mut Act<'_>| act.add_batch_lines(batch, first, &lines).await)
    }

    fn abandon(&self, batch: BatchId) -> Ticket<()> {
        self.write(async move |act: &mut Act<'_>| act.abandon(batch).await)
    }

    fn accept(&self, batch: NewBatch, key: Option<IdempotencyKey>) -> Ticket<Idempotent<Batch>, BatchError> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.accept_batch(&batch, key.as_ref()).await
        })
    }

    fn cancel_batch(&self, user: UserId, batch: BatchId) -> Ticket<Option<Batch>> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.cancel_batch(user, batch).await
        })
    }

    fn delete_batch(&self, user: UserId, batch: BatchId) -> Ticket<bool, BatchError> {
        self.write(async move |act: &mut Act<'_>| act.delete_batch(user, batch).await)
    }

    fn attach_files(&self, user: UserId, batch: BatchId, files: BatchFiles) -> Ticket<Option<Batch>> {
        self.write(async move |act: &mut Act<'_>| act.attach_batch_files((user, batch), &files).await)
    }

    fn resume_waiting(&self) -> Ticket<bool> {
        match self.read(async |session: &SqlSession<'_>| waiting::is_any_waiting(session).await) {
            Ok(false) => Ticket::resolved(Ok(false)),
            Ok(true) => self.push(WriteOptions::default(), async move |act: &mut Act<'_>| {
                act.resume_waiting_batches().await
            }),
            Err(error) => Ticket::resolved(Err(error)),
        }
    }

    fn expire_due(&self) -> Ticket<bool> {
        let now_ms = self.shared.now_ms();
        match self.read(async |session: &SqlSession<'_>| stop::is_any_due(session, now_ms).await) {
            Ok(true) if self.is_clock_trusted() => self
                .push(WriteOptions::default(), async move |act: &mut Act<'_>| act.expire_due_batch().await),
            Ok(_) => Ticket::resolved(Ok(false)),
            Err(error) => Ticket::resolved(Err(error)),
        }
    }

    fn batch(&self, user: UserId, batch: BatchId) -> Result<Option<Batch>, StoreError> {
        let row = self.read(async |session: &SqlSession<'_>| row::find(session, batch).await)?;
        Ok(row.map(|row| row.batch).filter(|batch| batch.user == user))
    }

    fn batches_without_files(&self) -> Result<Vec<(UserId, BatchId)>, StoreError> {
        self.read(async |session: &SqlSession<'_>| files::without_files(session, false).await)
    }

    fn ended_batches_without_files(&self) -> Result<Vec<(UserId, BatchId)>, StoreError> {
        self.read(async |session: &SqlSession<'_>| files::without_files(session, true).await)
    }

    fn batches(&self, user: UserId, before: Option<BatchId>, limit: usize) -> Result<BatchPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| read::batches(session, user, before, limit).await)
    }

    fn results(&self, batch: BatchId, from: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| read::results(session, batch, from, max).await)
    }

    fn ended(&self, batch: BatchId, after: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| read::ended(session, batch, after, max).await)
    }

    fn watch_batch(&self, batch: BatchId) -> ChangeWatch {
        let receiver = self.shared.batch_watches.subscribe(batch);
        // Subscribed first, read second, as for jobs.
        if let Ok(new_seqs) = self.read(async |session: &SqlSession<'_>| read::new_seqs(session, batch).await)
        {
            self.shared.batch_watches.bump(batch, new_seqs);
        }
        receiver
    }
}
