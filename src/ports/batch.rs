//! Batches as everybody but the store sees them. Owns the trait and the values that cross it; refuses to know how lines
//! are kept.

use super::store::{ChangeWatch, Idempotent, StoreError};
use super::ticket::Ticket;
use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobSpec};
use crate::domain::webhook::WebhookUrl;

/// A line to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLine {
    /// The client's own name for it, unique within the batch.
    pub custom_id: String,
    /// What is asked.
    pub spec: JobSpec,
}

/// A batch to be accepted, once all its lines are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// Minted by the caller.
    pub id: BatchId,
    /// Whose it will be.
    pub user: UserId,
    /// When it was accepted, unix milliseconds.
    pub created_at_ms: u64,
    /// How many lines were stored.
    pub lines: u32,
    /// Jobs of it that may be in the queue or running at once.
    pub concurrency: u32,
    /// Told when the batch has ended.
    pub webhook_url: Option<WebhookUrl>,
}

/// What a line came to.
#[derive(Debug, Clone, PartialEq)]
pub struct LineResult {
    /// Which line, counted from 0.
    pub line: u32,
    /// The client's own name for it.
    pub custom_id: String,
    /// How it ended.
    pub outcome: LineOutcome,
}

/// How a line ended.
#[derive(Debug, Clone, PartialEq)]
pub enum LineOutcome {
    /// With its job.
    Ended(Box<Job>),
    /// Its batch was cancelled before its job began.
    NotStarted,
    /// Its job has been deleted since.
    Deleted,
    /// Its job failed, was told so, and has been started again.
    Again(JobId),
    /// What is stored of it cannot be read any more.
    Unreadable,
}

/// Lines that have ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultPage {
    /// The lines, in the order that was asked for.
    pub results: Vec<LineResult>,
    /// Where the next page goes on.
    pub next: u32,
    /// Nothing follows, now or later.
    pub is_last: bool,
}

/// A page of batches, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPage {
    /// The batches.
    pub batches: Vec<Batch>,
    /// Whether older ones would follow.
    pub has_more: bool,
}

/// The durable truth about batches. Lines are stored first, piece by piece, and mean nothing until the batch is accepted:
/// then all of them are accepted, in one transaction. A start forgets lines whose batch was never accepted.
pub trait Batches: Send + Sync {
    /// Stores lines of a batch that is not accepted yet; `first` is the number of the first of them, counted from 0.
    fn fill(&self, batch: BatchId, first: u32, lines: Vec<NewLine>) -> Ticket<()>;
    /// Forgets the lines of a batch that is not accepted.
    fn abandon(&self, batch: BatchId) -> Ticket<()>;
    /// Accepts the batch with all lines that were stored, unless the user's key was seen before: then it is abandoned,
    /// and the batch of that time is told.
    fn accept(&self, batch: NewBatch, key: Option<IdempotencyKey>) -> Ticket<Idempotent<Batch>>;
    /// Cancels: no further line begins, those that have begun are cancelled. An ended batch stays as it is. `None` when
    /// the user has no such batch.
    fn cancel_batch(&self, user: UserId, batch: BatchId) -> Ticket<Option<Batch>>;

    /// The batch, if it is this user's.
    fn batch(&self, user: UserId, batch: BatchId) -> Result<Option<Batch>, StoreError>;
    /// A page of a user's batches, newest first, from the one before `before`.
    fn batches(&self, user: UserId, before: Option<BatchId>, limit: usize) -> Result<BatchPage, StoreError>;
    /// Lines that have ended, in input order, looking at up to `max` lines from number `from` on.
    fn results(&self, batch: BatchId, from: u32, max: u32) -> Result<ResultPage, StoreError>;
    /// Lines in the order in which they ended: up to `max`, after the first `after` of them.
    fn ended(&self, batch: BatchId, after: u32, max: u32) -> Result<ResultPage, StoreError>;
    /// A number that rises with everything that happens to the batch, as a wake-up.
    fn watch_batch(&self, batch: BatchId) -> ChangeWatch;
}
