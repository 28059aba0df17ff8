//! The store port: jobs, their queue and their event logs. Writes resolve after the fsync; reads see
//! committed data only. Both do not hold for jobs in memory ([`Store::begin_in_memory`]).

use super::clock::CancelToken;
use super::quota_refusal::QuotaRefusal;
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::approval::ApprovalDecision;
use crate::domain::event::{Record, SequencedEvent};
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome, JobSpec, JobStatus};
use crate::domain::job_filter::JobFilter;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Why a job was not accepted. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// `limits.queue_jobs` unfinished jobs are stored already (HTTP: 429).
    #[error("the queue is full: {limit} unfinished jobs are stored already")]
    QueueFull {
        /// The limit.
        limit: u64,
    },
    /// The job names a new conversation and the user has `limits.conversations` already (HTTP: 429).
    #[error("there are {limit} conversations already (limits.conversations); delete one first")]
    ConversationsFull {
        /// The limit.
        limit: u64,
    },
    /// The conversation of the job was deleted (HTTP: 404).
    #[error("there is no such conversation")]
    NoConversation,
    /// An earlier job acts on the answer to the same request for an approval (HTTP: 400).
    #[error("this approval request was answered before: {response} acts on that answer")]
    ApprovalAnswered {
        /// The id of that job's response.
        response: String,
    },
    /// A job that it comes after does not exist, or is another user's (HTTP: 404).
    #[error("there is no job {job} that it could come after (after)")]
    NoPredecessor {
        /// The job.
        job: JobId,
    },
    /// `limits.job_dependents` jobs wait for the end of a job already (HTTP: 429).
    #[error("{limit} jobs wait for the end of {job} already (limits.job_dependents)")]
    DependentsFull {
        /// The job that they wait for.
        job: JobId,
        /// The limit.
        limit: u64,
    },
    /// The idempotency key was used before, with another request (HTTP: 422).
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// The job of the idempotency key's first request has been deleted since (HTTP: 410).
    #[error("what came of this idempotency key was deleted; use another key to ask again")]
    KeySpent,
    /// The account's quota is used up (HTTP: 429).
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a write under a lease failed. The texts are for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The lease is no longer valid; nothing was written.
    #[error("the lease of {job} is lost")]
    Fenced {
        /// The job.
        job: JobId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a job was not changed at its owner's request. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobChangeError {
    /// The job's state does not allow it (HTTP: 409).
    #[error("the job is {}", .status.as_str())]
    WrongState {
        /// The state.
        status: JobStatus,
    },
    /// The job has asked more than once, so a decision names the calls that it is about (HTTP: 409).
    #[error(
        "the job has asked for approval before, so a decision names the calls that it is about: {{\"calls\": {waiting:?}}}"
    )]
    UnnamedCalls {
        /// The calls that wait now.
        waiting: Vec<String>,
    },
    /// The job does not wait for this call (HTTP: 400).
    #[error("no call '{id_ref}' of the job waits for approval")]
    NotPending {
        /// The call's id, as the client wrote it.
        id_ref: String,
    },
    /// The job's log was cut, by retention or with its answer, so no recorded step is left (HTTP: 409).
    #[error("the job's log was cut; submit it anew")]
    LogCut,
    /// The job came from another server, whose limits it was checked against (HTTP: 409).
    #[error("the job ran on another server and was imported; submit it anew")]
    Imported,
    /// `limits.queue_jobs` unfinished jobs are stored already (HTTP: 429).
    #[error("the queue is full: {limit} unfinished jobs are stored already")]
    QueueFull {
        /// The limit.
        limit: u64,
    },
    /// The account's quota is used up (HTTP: 429).
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A job after a decision about its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedJob {
    /// The job.
    pub job: Job,
    /// The calls that the decision is about, also if it was made before.
    pub calls: Vec<String>,
}

/// A job to store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Id generated by the caller.
    pub id: JobId,
    /// Owner.
    pub user: UserId,
    /// When the server accepted it, unix milliseconds.
    pub created_at_ms: u64,
    /// The request.
    pub spec: JobSpec,
    /// Whether the named conversation must exist ([`SubmitError::NoConversation`]); otherwise it is created
    /// with the job.
    pub in_existing: bool,
}

/// Result of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotent<T> {
    /// The request took effect now.
    New(T),
    /// The request took effect earlier; the current state of its result.
    Replayed(T),
}

/// The right to run a job until it is finished, released, or fenced by a later epoch.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The claimed job: status `running`, this attempt counted.
    pub job: Job,
    /// The request.
    pub spec: Arc<JobSpec>,
    /// Cancelled by the store when the job is cancelled or the lease is lost.
    pub cancel: CancelToken,
    /// Whether the job is in memory: readers see an append at once, without a commit.
    pub is_in_memory: bool,
}

impl Lease {
    /// Proof of the lease, for every write under it.
    pub fn fence(&self) -> Fence {
        Fence { job: self.job.id, epoch: self.job.epoch }
    }
}

/// Proof of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The job.
    pub job: JobId,
    /// Epoch of the claim.
    pub epoch: u64,
}

/// How soon a write must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Commit at once.
    Now,
    /// May wait until the last commit is `store.linger_ms` old, to share the next one; joins any earlier one.
    /// Adjacent deltas of one step that share a commit become one event.
    Soon,
}

/// Filter and position of a job list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobQuery {
    /// Owner.
    pub user: UserId,
    /// Only jobs in this state.
    pub status: Option<JobStatus>,
    /// Only jobs that pass. A page may then be short or empty although more follow.
    pub filter: JobFilter,
    /// Position: `next` of the previous page.
    pub before: Option<u64>,
    /// Page size.
    pub limit: usize,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Position of the next page, if any; stays valid when jobs change.
    pub next: Option<u64>,
}

/// A page of a job's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// In order of `seq`, without a gap.
    pub events: Vec<SequencedEvent>,
    /// Newest `seq` in the log when the page was read.
    pub last_seq: u64,
}

/// The newest committed `seq` of a job, as a watch channel.
pub type ChangeWatch = watch::Receiver<u64>;

/// The watch of a log that does not grow.
pub fn ended_watch() -> ChangeWatch {
    watch::channel(0).1
}

/// Stores jobs and their logs. Writes take lists so that another engine can implement this trait.
///
/// Writes go through one bounded channel to one writer, which groups them into commits. A ticket resolves
/// after the fsync. Reads see committed data only (P2). All methods may be called from any thread.
pub trait Store: Send + Sync {
    /// Stores jobs, all or none, each with its first event (`status: queued`). Commits at once.
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError>;
    /// Stores a job once per idempotency key; for a known key, returns the job of the first request. Keys are
    /// stored for `limits.idempotency_s`.
    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError>;
    /// Begins a job that ends when its client leaves, without a commit: a worker is free for it at once, and
    /// it needs nothing of the store but its log. Its end stores it; a crash before that loses it (the
    /// exception from P1 and P2). Gives the job back if it has to be submitted.
    fn begin_in_memory(&self, job: Box<NewJob>) -> Result<Job, Box<NewJob>> {
        Err(job)
    }
    /// Leases up to `max` ready jobs in queue order, within the users' shares of the workers. Counts their
    /// attempts durably before it returns, and appends `status: running`.
    fn claim(&self, max: usize) -> Ticket<Vec<Lease>>;
    /// Appends records to the log of a leased job, in order.
    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<(), LeaseError>;
    /// Appends the records and the terminal event, ends the job and frees its conversation, in one
    /// transaction.
    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<(), LeaseError>;
    /// [`Store::finish`] with a claim of the next ready job, which the same commit serves if it can: a busy
    /// worker needs one commit less for each job. Blocks. The lease is valid even if the end failed.
    fn finish_and_claim(
        &self,
        fence: Fence,
        records: Vec<Record>,
        ending: JobOutcome,
    ) -> (Result<(), LeaseError>, Option<Lease>);
    /// Returns a leased job to the queue; the attempt does not count.
    fn release(&self, fence: Fence) -> Ticket<(), LeaseError>;
    /// Returns a leased job to the queue for another attempt after `delay_ms`; the failed attempt counts.
    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError>;
    /// Returns a leased job to the queue for `delay_ms`. Counts neither as an attempt nor as a failure
    /// ([`crate::domain::event::EngineMark::Deferred`]).
    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError>;
    /// Returns a leased job until these calls are decided ([`Store::decide`]). After `timeout_ms` they count
    /// as denied and the job is queued again. Counts neither as an attempt nor as a failure.
    fn wait_for_approval(
        &self,
        fence: Fence,
        calls: Vec<ToolCall>,
        timeout_ms: u64,
    ) -> Ticket<(), LeaseError>;
    /// Decides calls that a job waits for; the job is queued again once none is left. Repeating a decision
    /// about the newest calls, or those before, changes nothing. A decision that names no calls cannot say
    /// which ones its user has seen: it counts only while the job has asked once
    /// ([`JobChangeError::UnnamedCalls`]). Returns `None` when the user has no such job.
    fn decide(
        &self,
        user: UserId,
        job: JobId,
        decision: ApprovalDecision,
    ) -> Ticket<Option<DecidedJob>, JobChangeError>;
    /// Queues a failed job again as if newly accepted; it continues after its last recorded step. Returns the
    /// job, or `None` when the user has no such job.
    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>, JobChangeError>;
    /// Deletes an ended job and all its data. Returns whether it existed.
    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool, JobChangeError>;
    /// Cancels a job. A queued or waiting job ends at once; the lease of a running one is cancelled; an ended
    /// one stays as it is. Returns the job, or `None` when the user has no such job.
    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>>;
    /// Ends some jobs whose deadline or expiry has passed, or that come after a job that failed. Times count
    /// only while the clock is trusted. Returns whether there may be more.
    fn end_due(&self) -> Ticket<bool> {
        Ticket::resolved(Ok(false))
    }
    /// Resolves after an empty commit: proof that the writer and the disk work.
    fn probe(&self) -> Ticket<()>;

    /// The job, or `None` when it is not this user's.
    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError>;
    /// Whether the job has ended; a job that is not this user's has. After each change of [`Store::watch`] it
    /// may be another answer.
    fn has_ended(&self, user: UserId, job: JobId) -> Result<bool, StoreError> {
        Ok(self.job(user, job)?.is_none_or(|job| job.status.is_terminal()))
    }
    /// The answers of other jobs that the prompts of this job show, if a recording has to say so.
    fn recorded_results(&self) -> Option<BTreeMap<JobId, String>> {
        None
    }
    /// Answer text of an ended job.
    fn output(&self, job: JobId) -> Result<Option<String>, StoreError>;
    /// Whole input of a job.
    fn input(&self, job: JobId) -> Result<Option<Vec<Message>>, StoreError>;
    /// The request of a job, or `None` when it is not this user's.
    fn request(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError>;
    /// A page of a user's jobs, newest first.
    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError>;
    /// Whether the user's idempotency key is known, for any request. `key` is its digest.
    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError>;
    /// Number of a user's unfinished jobs, counted up to `limit`. Lines of open batches that have no job yet
    /// count as well.
    fn unfinished_count(&self, user: UserId, limit: u64) -> Result<u64, StoreError>;
    /// Events after the cursor: at most `max`, or about 64 KiB.
    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError>;
    /// Text of a step up to event `up_to`. `first_seq` is the event number of its first delta.
    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError>;
    /// The job's log with marks, for the engine's fold. Full tool results are left out ([`super::Results`]).
    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError>;
    /// Messages of the conversation's earlier jobs, oldest first: the newest `max` before `job`, starting at
    /// the last summary.
    fn history(&self, job: &Job, max: usize) -> Result<History, StoreError>;

    /// Watches the newest committed `seq` of a job. A wake-up is a hint; the log is the truth.
    fn watch(&self, job: JobId) -> ChangeWatch;
    /// Leases the next ready job as [`Store::claim`] does. Blocks until there is one, the token is cancelled
    /// or the timeout has passed. Unparking the thread makes it check the token.
    fn claim_next(&self, stop: &CancelToken, timeout: Duration) -> Result<Option<Lease>, StoreError>;
}
