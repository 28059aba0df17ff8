//! One batch in memory, whose reads are counted.

use crate::domain::batch::{Batch, BatchCounts, BatchStatus};
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::ports::{
    BatchError, BatchFiles, BatchPage, Batches, ChangeWatch, Idempotent, LineOutcome, LineResult, NewBatch,
    NewLine, ResultPage, StoreError, Ticket,
};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::watch;

/// A batch of 100 lines, some of which have ended.
#[derive(Debug)]
pub(crate) struct MemoryBatch {
    ended: watch::Sender<u64>,
    result_reads: AtomicU32,
    row_reads: AtomicU32,
}

const LINES: u32 = 100;

impl MemoryBatch {
    pub(crate) const ID: BatchId = BatchId::from_bits(7);

    pub(crate) fn new() -> Self {
        Self {
            ended: watch::Sender::new(0),
            result_reads: AtomicU32::default(),
            row_reads: AtomicU32::default(),
        }
    }

    /// So many lines have ended.
    pub(crate) fn end_lines(&self, count: u32) {
        self.ended.send_replace(count.into());
    }

    /// Reads of results, and of the batch itself.
    pub(crate) fn reads(&self) -> [u32; 2] {
        [&self.result_reads, &self.row_reads].map(|reads| reads.load(Ordering::SeqCst))
    }

    fn ended_lines(&self) -> u32 {
        u32::try_from(*self.ended.borrow()).expect("few lines")
    }
}

impl Batches for MemoryBatch {
    fn fill(&self, _: (UserId, BatchId), _: u32, _: Vec<NewLine>) -> Ticket<()> {
        unreachable!("it has all its lines")
    }
    fn abandon(&self, _: BatchId) -> Ticket<()> {
        unreachable!("it is accepted")
    }
    fn accept(&self, _: NewBatch, _: Option<IdempotencyKey>) -> Ticket<Idempotent<Batch>, BatchError> {
        unreachable!("there is one batch")
    }
    fn cancel_batch(&self, _: UserId, _: BatchId) -> Ticket<Option<Batch>> {
        unreachable!("it is only read")
    }
    fn delete_batch(&self, _: UserId, _: BatchId) -> Ticket<bool, BatchError> {
        unreachable!("it is only read")
    }
    fn attach_files(&self, _: UserId, _: BatchId, _: BatchFiles) -> Ticket<Option<Batch>> {
        unreachable!("it has no files")
    }
    fn batches_without_files(&self) -> Result<Vec<(UserId, BatchId)>, StoreError> {
        Ok(Vec::new())
    }
    fn resume_waiting(&self) -> Ticket<bool> {
        unreachable!("it waits for nothing")
    }
    fn expire_due(&self) -> Ticket<bool> {
        unreachable!("it does not expire")
    }
    fn batch(&self, user: UserId, id: BatchId) -> Result<Option<Batch>, StoreError> {
        self.row_reads.fetch_add(1, Ordering::SeqCst);
        let ended = self.ended_lines();
        Ok(Some(Batch {
            id,
            user,
            status: if ended < LINES { BatchStatus::InProgress } else { BatchStatus::Completed },
            created_at_ms: 0,
            cancelling_at_ms: None,
            expires_at_ms: None,
            finished_at_ms: None,
            counts: BatchCounts { total: LINES, completed: ended, failed: 0 },
            concurrency: 1,
            webhook_url: None,
            waiting_for: None,
            source: None,
        }))
    }
    fn batches(&self, _: UserId, _: Option<BatchId>, _: usize) -> Result<BatchPage, StoreError> {
        unreachable!("there is one batch")
    }
    fn results(&self, _: BatchId, _: u32, _: u32) -> Result<ResultPage, StoreError> {
        unreachable!("it is followed")
    }
    fn ended(&self, _: BatchId, after: u32, max: u32) -> Result<ResultPage, StoreError> {
        self.result_reads.fetch_add(1, Ordering::SeqCst);
        let next = self.ended_lines().min(after.saturating_add(max)).max(after);
        let result =
            |line| LineResult { line, custom_id: format!("line-{line}"), outcome: LineOutcome::NotStarted };
        Ok(ResultPage { results: (after..next).map(result).collect(), next, is_last: next >= LINES })
    }
    fn watch_batch(&self, _: BatchId) -> ChangeWatch {
        self.ended.subscribe()
    }
}
