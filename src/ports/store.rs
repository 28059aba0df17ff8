//! The store port: jobs, their queue and their event logs. Writes resolve after the fsync; reads see
//! committed data only.

use super::clock::CancelToken;
use super::ticket::Ticket;
use crate::domain::approval::ApprovalDecision;
use crate::domain::event::{Record, SequencedEvent};
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome, JobSpec, JobStatus};
use crate::domain::tool::ToolCall;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The write channel is full; try again in a moment (HTTP: 503 with `Retry-After`).
    #[error("the server is busy writing, try again in a moment")]
    Busy,
    /// `limits.queue_jobs` unfinished jobs are stored already (HTTP: 429).
    #[error("the queue is full: {limit} unfinished jobs are stored already")]
    QueueFull {
        /// The bound.
        limit: u64,
    },
    /// `limits.schedules` schedules of one user are stored already (HTTP: 429).
    #[error("there are {limit} schedules already (limits.schedules); delete one first")]
    SchedulesFull {
        /// The bound.
        limit: u64,
    },
    /// `limits.spawned_jobs` background jobs of one user have not ended yet (HTTP: 429).
    #[error(
        "{limit} background jobs are unfinished, as many as there may be (limits.spawned_jobs); wait for one or cancel one"
    )]
    SpawnedFull {
        /// The bound.
        limit: u64,
    },
    /// `limits.conversations` conversations of one user are stored already (HTTP: 429).
    #[error("there are {limit} conversations already (limits.conversations); delete one first")]
    ConversationsFull {
        /// The bound.
        limit: u64,
    },
    /// `limits.projects` projects of one user are stored already (HTTP: 429).
    #[error("there are {limit} projects already (limits.projects); delete one first")]
    ProjectsFull {
        /// The bound.
        limit: u64,
    },
    /// `limits.tokens` API tokens of one user are stored already (HTTP: 429).
    #[error("there are {limit} tokens already (limits.tokens); revoke one first")]
    TokensFull {
        /// The bound.
        limit: u64,
    },
    /// `limits.accounts` accounts are stored already (HTTP: 429).
    #[error("there are {limit} accounts already (limits.accounts); an administrator has to raise the bound")]
    AccountsFull {
        /// The bound.
        limit: u64,
    },
    /// Another account, or another of the user's projects, has the name (HTTP: 409, of a project 400).
    #[error("the name is taken")]
    NameTaken,
    /// Another account has the address (HTTP: 409).
    #[error("the email address is taken")]
    EmailTaken,
    /// Registration needs an invite, and this is none that can be used (HTTP: 403).
    #[error("registration needs an invite that has not been used; ask an administrator for one")]
    NotInvited,
    /// Nobody may register (HTTP: 403).
    #[error("registration is closed; ask an administrator for an account")]
    RegistrationClosed,
    /// There would be no active administrator left (HTTP: 409).
    #[error("this is the last active administrator")]
    LastAdmin,
    /// The project that the work is for is not there any more (HTTP: 404).
    #[error("there is no such project")]
    NoProject,
    /// The conversation that the work is for is not there any more (HTTP: 404).
    #[error("there is no such conversation")]
    NoConversation,
    /// The writer's lease is no longer valid; whatever it wanted to write was not written.
    #[error("the lease of {job} is lost")]
    Fenced {
        /// The job.
        job: JobId,
    },
    /// The disk or the file refused; the message says what.
    #[error("the store failed: {0}")]
    Io(String),
    /// The file is repaired after a disk error; try again in a moment (HTTP: 503 with `Retry-After`).
    #[error("the store is recovering from a disk error, try again in a moment")]
    Recovering,
    /// The disk is full.
    #[error("the disk is full; running jobs may finish, new ones are refused")]
    Full,
    /// Less of the disk is free than has to be; only new work hears it (HTTP: 507).
    #[error(
        "the disk is nearly full: {} are free, {} have to be (limits.disk_free_bytes, limits.disk_free_percent); \
         running jobs may finish, new ones are refused until there is room",
        mebibytes(*.free_bytes), mebibytes(*.needed_bytes)
    )]
    LowDisk {
        /// What is free.
        free_bytes: u64,
        /// What has to be.
        needed_bytes: u64,
    },
    /// A stored value cannot be read.
    #[error("the store holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// The idempotency key was used before, with another request (HTTP: 422).
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// What came of the idempotency key's first request has been deleted since (HTTP: 410).
    #[error("what came of this idempotency key was deleted; use another key to ask again")]
    KeySpent,
    /// The batch was given up before it could be accepted: its client had gone.
    #[error("the batch was given up before it was accepted")]
    Abandoned,
    /// Retention, or whoever deleted its answer, has cut the job's log: it has no recorded step to go on from (HTTP: 409).
    #[error("the job's log was cut; submit it anew")]
    LogCut,
    /// The job stands where this cannot be done to it (HTTP: 409).
    #[error("the job is {}", .status.as_str())]
    WrongState {
        /// Where it stands.
        status: JobStatus,
    },
    /// The job does not wait for this call (HTTP: 400).
    #[error("no call '{id_ref}' of the job waits for approval")]
    NotPending {
        /// As the client named it.
        id_ref: String,
    },
    /// The question of the answer was deleted: there is nothing to answer anew (HTTP: 409).
    #[error("the question was deleted, so it cannot be answered again")]
    NoQuestion,
    /// More comes after the answer than one write can clear (HTTP: 409).
    #[error(
        "more than {limit} questions come after this answer; answer a later one again, or begin a new conversation"
    )]
    TooLate {
        /// The bound.
        limit: usize,
    },
    /// The store is shut down.
    #[error("the store is closed")]
    Closed,
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
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
    /// Whether the named conversation must exist ([`StoreError::NoConversation`]); otherwise it is created
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
    /// May wait up to `store.linger_ms` to share a commit, and joins any earlier one. Adjacent deltas of one
    /// step that wait together become one event.
    Soon,
}

/// Filter and position of a job list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobQuery {
    /// Owner.
    pub user: UserId,
    /// Only jobs in this state.
    pub status: Option<JobStatus>,
    /// Only background jobs that this job started. A page may be short or empty although more follow.
    pub parent: Option<JobId>,
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
    /// Position of the next page, if any; stays valid whatever happens to the jobs.
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

/// Stores jobs and their logs. Writes take lists so that another engine can stand behind this trait.
///
/// Writes go through one bounded channel to one writer, which groups them into commits. A ticket resolves
/// after the fsync. Reads see committed data only (P2). All methods may be called from any thread.
pub trait Store: Send + Sync {
    /// Stores jobs, all or none, each with its first event (`status: queued`). Commits at once.
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>>;
    /// Stores a job once per idempotency key; for a known key, returns the job of the first request. Keys are
    /// kept for `limits.idempotency_s`.
    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>>;
    /// Leases up to `max` ready jobs in queue order. Counts their attempts durably before it returns, and
    /// appends `status: running`.
    fn claim(&self, max: usize) -> Ticket<Vec<Lease>>;
    /// Appends records to the log of a leased job, in order.
    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<()>;
    /// Appends the records and the terminal event, ends the job and frees its conversation, in one
    /// transaction.
    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<()>;
    /// Returns a leased job to the queue; the attempt does not count.
    fn release(&self, fence: Fence) -> Ticket<()>;
    /// Returns a leased job to the queue for another attempt after `delay_ms`; the failed attempt counts.
    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<()>;
    /// Returns a leased job to the queue for `delay_ms`. Counts neither as an attempt nor as a failure
    /// ([`crate::domain::event::EngineMark::Deferred`]).
    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<()>;
    /// Returns a leased job until these calls are decided ([`Store::decide`]). After `timeout_ms` they count
    /// as denied and the job is queued again. Counts neither as an attempt nor as a failure.
    fn wait_for_approval(&self, fence: Fence, calls: Vec<ToolCall>, timeout_ms: u64) -> Ticket<()>;
    /// Decides calls that a job waits for; the job is queued again once none is left. Repeating the latest
    /// decision changes nothing. Returns the job, or `None` when the user has no such job.
    fn decide(&self, user: UserId, job: JobId, decision: ApprovalDecision) -> Ticket<Option<Job>>;
    /// Queues a failed job again as if newly accepted; it continues after its last recorded step. Returns the
    /// job, or `None` when the user has no such job.
    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>>;
    /// Deletes an ended job and all its data. Returns whether it existed.
    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool>;
    /// Cancels a job. A queued or waiting job ends at once; the lease of a running one is cancelled; an ended
    /// one stays as it is. Returns the job, or `None` when the user has no such job.
    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>>;
    /// Resolves after an empty commit: proof that the writer and the disk work.
    fn probe(&self) -> Ticket<()>;

    /// The job, or `None` when it is not this user's.
    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError>;
    /// Answer text of an ended job.
    fn output(&self, job: JobId) -> Result<Option<String>, StoreError>;
    /// A page of a user's jobs, newest first.
    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError>;
    /// Whether the user's idempotency key is known, for any request. `key` is its digest.
    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError>;
    /// Number of a user's unfinished jobs, counted up to `most`; lines of open batches that have no job yet count as well.
    fn unfinished_count(&self, user: UserId, most: u64) -> Result<u64, StoreError>;
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
    /// Blocks until a job may be ready, the token is cancelled, or the timeout has passed. A wake-up is a
    /// hint only.
    fn wait_for_work(&self, stop: &CancelToken, timeout: Duration);
}
