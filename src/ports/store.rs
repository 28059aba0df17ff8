//! The durable truth as everybody else sees it. Owns the trait and the values that cross it; refuses to know a file
//! format.

use super::cancel::CancelToken;
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

/// A job to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Minted by the caller, so that it can be told before the commit.
    pub id: JobId,
    /// Whose it will be.
    pub user: UserId,
    /// When it was accepted, unix milliseconds.
    pub created_at_ms: u64,
    /// What was asked.
    pub spec: JobSpec,
    /// Whether the conversation that it names has to be there already ([`StoreError::NoConversation`]); otherwise it is
    /// made with the job.
    pub in_existing: bool,
}

/// What became of a request that must not take effect twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotent<T> {
    /// It took effect now.
    New(T),
    /// It had taken effect before; what came of it, as it now stands.
    Replayed(T),
}

/// The right to run a job, until it is finished, released, or fenced out by a later epoch.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The job as claimed: `running`, with its attempt counted.
    pub job: Job,
    /// What was asked.
    pub spec: Arc<JobSpec>,
    /// Raised by the store when the job is cancelled or the lease lost.
    pub cancel: CancelToken,
}

impl Lease {
    /// What every write under this lease carries.
    pub fn fence(&self) -> Fence {
        Fence { job: self.job.id, epoch: self.job.epoch }
    }
}

/// Proof of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The job.
    pub job: JobId,
    /// The claim's epoch.
    pub epoch: u64,
}

/// How soon a write must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Committed at once (class A of STORE.md).
    Now,
    /// May linger up to `store.linger_ms` to share a commit; joins any earlier one (class B). Adjacent deltas of
    /// one step that linger together become one event.
    Soon,
}

/// Which jobs a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobQuery {
    /// Only this user's.
    pub user: UserId,
    /// Only those in this state.
    pub status: Option<JobStatus>,
    /// Only those that this job's model asked for. A page of them may be short, even empty, though more follow.
    pub parent: Option<JobId>,
    /// Only those behind this place: what the page before told as `next`.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where the next page begins, if there is one. It holds whatever becomes of the jobs.
    pub next: Option<u64>,
}

/// A page of a job's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// In order of `seq`, without a gap.
    pub events: Vec<SequencedEvent>,
    /// The newest `seq` in the log when the page was read.
    pub last_seq: u64,
}

/// The newest committed `seq` of a job, as it changes.
pub type ChangeWatch = watch::Receiver<u64>;

/// The durable truth. Batch-first: writes are lists, claims take `n`, so that another engine can stand behind it.
///
/// Writes go through one bounded channel to one writer, which groups them into commits; a ticket resolves after the
/// fsync. Reads see committed state only (P2). Every method may be called from any thread.
pub trait Store: Send + Sync {
    /// Stores jobs, all or none, each with its first event (`status: queued`); [`Urgency::Now`].
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>>;
    /// Stores one job unless the user's key was seen before; then nothing is stored, and the job of that time is told.
    /// A key is kept for `limits.idempotency_s`.
    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>>;
    /// Leases up to `max` ready jobs in queue order and counts their attempts, durably, before it returns.
    /// Each claim appends `status: running`.
    fn claim(&self, max: usize) -> Ticket<Vec<Lease>>;
    /// Appends to the log of a leased job, in order.
    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<()>;
    /// Appends the records and the terminal event, settles the job's row, frees its conversation: one transaction.
    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<()>;
    /// Gives a leased job back to the queue as it stands; the attempt does not count.
    fn release(&self, fence: Fence) -> Ticket<()>;
    /// Gives a leased job back for another attempt, not before `delay_ms` from now; the failed one counts.
    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<()>;
    /// Gives a leased job back to wait for `delay_ms`; neither a failed attempt nor, for its budget of failures, a new
    /// start ([`crate::domain::event::EngineMark::Deferred`]).
    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<()>;
    /// Gives a leased job back until somebody has decided about these calls ([`Store::decide`]), at most `timeout_ms` from
    /// now; then they count as denied and the job is queued again. As with `defer`, neither an attempt nor a failure.
    fn wait_for_approval(&self, fence: Fence, calls: Vec<ToolCall>, timeout_ms: u64) -> Ticket<()>;
    /// Decides about calls that a job waits for; once none is left, the job is queued again. The same decision again, as
    /// long as nothing else was asked and the job has not ended, changes nothing. Resolves to the job as it then stands;
    /// `None` when the user has no such job.
    fn decide(&self, user: UserId, job: JobId, decision: ApprovalDecision) -> Ticket<Option<Job>>;
    /// Puts a failed job into the queue again: its next run goes on from its last recorded step. It counts as accepted
    /// anew. Resolves to the job as it then stands; `None` when the user has no such job.
    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>>;
    /// Deletes an ended job with all that belongs to it. Whether the user had such a job.
    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool>;
    /// Cancels: a queued or waiting job ends at once, a running one has its lease's `stop` raised, an ended one stays as it is.
    /// Resolves to the job as it then stands; `None` when the user has no such job.
    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>>;
    /// Resolves after an empty commit: proof that the writer and the disk work.
    fn probe(&self) -> Ticket<()>;

    /// The job, if it is this user's.
    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError>;
    /// The answer's text of an ended job.
    fn output(&self, job: JobId) -> Result<Option<String>, StoreError>;
    /// A page of a user's jobs, newest first.
    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError>;
    /// Whether the user's idempotency key, by its digest, is remembered, whatever request it came with.
    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError>;
    /// How many jobs of the user have not ended, counted up to `most`.
    fn unfinished_count(&self, user: UserId, most: u64) -> Result<u64, StoreError>;
    /// Events after the cursor: at most `max` of them, or about 64 KiB.
    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError>;
    /// The text of a step up to and including `up_to`; `first_seq` as its deltas carry it.
    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError>;
    /// The whole log of a job, marks included, for the engine's fold; but for the whole results of tools, from which
    /// nothing follows ([`super::Results`]).
    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError>;
    /// What the conversation's earlier jobs said, oldest first: the newest `max` messages before `job`, from the last
    /// summary on.
    fn history(&self, job: &Job, max: usize) -> Result<History, StoreError>;

    /// The newest committed `seq` of a job as a wake-up: a hint only; the log is the truth.
    fn watch(&self, job: JobId) -> ChangeWatch;
    /// Blocks until a job may be ready, `stop` is raised, or the timeout has passed: a hint only.
    fn wait_for_work(&self, stop: &CancelToken, timeout: Duration);
}
