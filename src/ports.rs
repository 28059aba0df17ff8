//! The seams between the rooms: what the engine and HTTP need from the store, the models, the tools and the clock.
//! Owns traits and the values that cross them; refuses every implementation.

use crate::domain::event::{FinishReason, Numbered, Record};
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{Ending, Job, JobSpec, JobStatus};
use crate::domain::message::Message;
use crate::domain::tool::{Strictness, ToolCall, ToolChoice, ToolSpec, ToolTraits};
use crate::domain::usage::Usage;
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

// ---------------------------------------------------------------------------------------------- time and chance

/// Time comes in here and nowhere else.
pub trait Clock: Send + Sync {
    /// Wall time, unix milliseconds. It may jump.
    fn now_ms(&self) -> u64;
    /// Milliseconds since some fixed point. It never goes back.
    fn monotonic_ms(&self) -> u64;
    /// Waits for `timeout` or until `stop` is raised, whichever comes first.
    fn pause(&self, stop: &StopFlag, timeout: Duration);
}

/// Randomness comes in here and nowhere else.
pub trait Entropy: Send + Sync {
    /// 128 random bits.
    fn random(&self) -> u128;
}

/// Why somebody who works has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The job was cancelled.
    Cancelled,
    /// The lease is lost: another worker may hold it.
    Fenced,
    /// The server shuts down and will not wait longer.
    Shutdown,
}

/// A flag that is raised once, by any thread, and seen at once by whoever waits on it.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<(Mutex<Option<Stop>>, Condvar)>);

impl StopFlag {
    /// Raises the flag; the first reason stays.
    pub fn raise(&self, stop: Stop) {
        let (reason, bell) = &*self.0;
        reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(stop);
        bell.notify_all();
    }

    /// The reason, once raised.
    pub fn raised(&self) -> Option<Stop> {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until the flag is raised or `timeout` has passed; returns the reason, once raised.
    pub fn wait(&self, timeout: Duration) -> Option<Stop> {
        let (reason, bell) = &*self.0;
        let guard = reason.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _timed_out) =
            bell.wait_timeout_while(guard, timeout, |r| r.is_none()).unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

// ---------------------------------------------------------------------------------------------------- the store

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
    /// A stored value cannot be read.
    #[error("the store holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// The store is shut down.
    #[error("the store is closed")]
    Closed,
}

/// A write on its way to the disk. It resolves after the fsync that made it durable (P1), or with the reason
/// why it is not. Threads call [`Ticket::wait`]; tasks `.await` it.
#[derive(Debug)]
#[must_use = "an unawaited write may have failed"]
pub struct Ticket<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Ticket<T> {
    /// A ticket and the sender that resolves it.
    pub fn new() -> (oneshot::Sender<Result<T, StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// A ticket that has failed already.
    pub fn refused(error: StoreError) -> Self {
        let (sender, ticket) = Self::new();
        drop(sender.send(Err(error)));
        ticket
    }

    /// The outcome, if there is one already; `None` while the write is under way.
    pub fn poll(&mut self) -> Option<Result<T, StoreError>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(StoreError::Closed)),
        }
    }

    /// Blocks until the write is durable. Not for tasks.
    pub fn wait(self) -> Result<T, StoreError> {
        self.0.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl<T> IntoFuture for Ticket<T>
where
    T: Send + 'static,
{
    type Output = Result<T, StoreError>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.await.unwrap_or(Err(StoreError::Closed)) })
    }
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
}

/// The right to run a job, until it is finished, released, or fenced out by a later epoch.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The job as claimed: `running`, with its attempt counted.
    pub job: Job,
    /// What was asked.
    pub spec: Arc<JobSpec>,
    /// Raised by the store when the job is cancelled or the lease lost.
    pub stop: StopFlag,
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
    /// Only those accepted before this one.
    pub before: Option<JobId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Whether older ones would follow.
    pub has_more: bool,
}

/// A page of a job's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// In order of `seq`, without a gap.
    pub events: Vec<Numbered>,
    /// The newest `seq` in the log when the page was read.
    pub last_seq: u64,
}

/// The durable truth. Batch-first: writes are lists, claims take `n`, so that another engine can stand behind it.
///
/// Writes go through one bounded channel to one writer, which groups them into commits; a ticket resolves after the
/// fsync. Reads see committed state only (P2). Every method may be called from any thread.
pub trait Store: Send + Sync {
    /// Stores jobs, all or none, each with its first event (`status: queued`); [`Urgency::Now`].
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>>;
    /// Leases up to `max` ready jobs in queue order and counts their attempts, durably, before it returns.
    /// Each claim appends `status: running`.
    fn claim(&self, max: usize) -> Ticket<Vec<Lease>>;
    /// Appends to the log of a leased job, in order.
    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<()>;
    /// Appends the records and the terminal event, settles the job's row, frees its conversation: one transaction.
    fn finish(&self, fence: Fence, records: Vec<Record>, ending: Ending) -> Ticket<()>;
    /// Gives a leased job back to the queue as it stands; the attempt does not count.
    fn release(&self, fence: Fence) -> Ticket<()>;
    /// Cancels: a queued job ends at once, a running one has its lease's `stop` raised, an ended one stays as it is.
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
    /// Events after the cursor: at most `max` of them, or about 64 KiB.
    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError>;
    /// The text of a step up to and including `up_to`; `first_seq` as its deltas carry it.
    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError>;
    /// The whole log of a job, marks included, for the engine's fold.
    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError>;
    /// What the conversation's earlier jobs said, oldest first: the newest `max` messages before `job`.
    fn history(&self, job: &Job, max: usize) -> Result<Vec<Message>, StoreError>;

    /// The newest committed `seq` of a job as a wake-up: a hint only; the log is the truth.
    fn watch(&self, job: JobId) -> watch::Receiver<u64>;
    /// Blocks until a job may be ready, `stop` is raised, or the timeout has passed: a hint only.
    fn wait_for_work(&self, stop: &StopFlag, timeout: Duration);
}

// --------------------------------------------------------------------------------------------------- the models

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The configured model's id.
    pub model: String,
    /// System prompt, history, input, and what this job has said and done so far.
    pub messages: Vec<Message>,
    /// Tools on offer; empty when none.
    pub tools: Vec<ToolSpec>,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Bound of the answer.
    pub max_tokens: Option<u32>,
    /// Whether to think first.
    pub thinking: bool,
}

/// A piece of the answer as it arrives; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Of the reasoning.
    Thinking(&'a str),
    /// Of the answer.
    Text(&'a str),
}

/// What stands once the answer has ended well. Its text went through the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The calls that the model wants made, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// What it cost.
    pub usage: Usage,
}

/// Why there is no complete answer. The text is for clients: it names no URL and no key (P9).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No model of this id is configured.
    #[error("model '{0}' is not configured")]
    NotFound(String),
    /// The provider said no, and will say no again.
    #[error("{0}")]
    Refused(String),
    /// The provider could not be reached, was busy, or broke off; another try may help.
    #[error("{message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// What the provider asked to wait, milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The answer passed a bound.
    #[error("{0}")]
    TooLarge(String),
    /// The sink or the stop flag ended it.
    #[error("the call was stopped")]
    Stopped,
}

/// A configured model as clients may know it: no URL, no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// What jobs name.
    pub id: String,
    /// For people.
    pub name: String,
}

/// Where answers come from.
pub trait Model: Send + Sync {
    /// Asks, and hands on pieces as they arrive. Returns within a second of `stop` being raised, of `deadline_ms`
    /// ([`Clock::monotonic_ms`]) passing, or of the sink breaking off, even while the provider hangs.
    fn ask(&self, request: &ModelRequest, leash: &Leash, sink: Sink<'_>) -> Result<Completion, ModelError>;
    /// The models on offer, in configured order.
    fn models(&self) -> Vec<ModelInfo>;
}

/// Takes the pieces of an answer; `Break` ends the call.
pub type Sink<'a> = &'a mut dyn FnMut(Chunk<'_>) -> ControlFlow<()>;

/// How long somebody may work: until the flag is raised or the deadline has passed.
#[derive(Clone)]
pub struct Leash {
    /// Raised on cancel, lost lease, shutdown.
    pub stop: StopFlag,
    /// On the scale of [`Clock::monotonic_ms`].
    pub deadline_ms: u64,
    /// Tells how late it is.
    pub clock: Arc<dyn Clock>,
}

impl Leash {
    /// Whether work has to end now.
    pub fn is_pulled(&self) -> bool {
        self.stop.raised().is_some() || self.remaining().is_zero()
    }

    /// Time left before the deadline.
    pub fn remaining(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.saturating_sub(self.clock.monotonic_ms()))
    }

    /// The same leash, but no longer than `timeout` from now.
    #[must_use]
    pub fn shortened(&self, timeout: Duration) -> Self {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = self.deadline_ms.min(self.clock.monotonic_ms().saturating_add(millis));
        Self { stop: self.stop.clone(), deadline_ms, clock: Arc::clone(&self.clock) }
    }
}

// ---------------------------------------------------------------------------------------------------- the tools

/// Whose call it is and what it may use: comes from the job, never from the model.
#[derive(Clone)]
pub struct ToolContext {
    /// Whose job.
    pub user: UserId,
    /// Which job.
    pub job: JobId,
    /// The job's conversation.
    pub conversation_id: Option<ConversationId>,
    /// The tools that the job may use; enforced at execution.
    pub allowed: ToolChoice,
    /// The job's default level for code.
    pub strictness: Option<Strictness>,
    /// When to stop.
    pub leash: Leash,
}

/// Why a tool has no result. The text is for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The arguments cannot be meant like this.
    #[error("{0}")]
    Invalid(String),
    /// It was tried and did not work; `data` is what there is to show (a traceback, output so far).
    #[error("{message}")]
    Failed {
        /// Why.
        message: String,
        /// What there is to show, `Null` when nothing.
        data: Value,
    },
}

/// One tool: one file, one line in the registry (P6).
pub trait Tool: Send + Sync {
    /// What models are told.
    fn spec(&self) -> ToolSpec;
    /// What its runs may do to the world.
    fn traits(&self) -> ToolTraits;
    /// Runs it with arguments that fit the schema; the result is the `data` that the model gets.
    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError>;
}

/// What one call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// `{"success","data","error","execution_time"}`, a JSON text.
    pub content: String,
    /// The call was not run.
    pub skipped: bool,
}

/// Where the executor reports, from the threads that run the tools.
pub trait Journal: Sync {
    /// Called before a call that is not idempotent runs; it runs only after this returned `Continue`.
    fn started(&self, call: &ToolCall) -> ControlFlow<()>;
    /// Called as soon as a call has its outcome.
    fn finished(&self, call: &ToolCall, outcome: ToolOutcome);
}

/// All tools together, as the engine sees them.
pub trait Toolbox: Send + Sync {
    /// What a job with this choice offers to its model, in stable order.
    fn offered(&self, choice: &ToolChoice) -> Vec<ToolSpec>;
    /// Whether the call may be made again when nobody knows whether it ran; unknown tools may.
    fn is_idempotent(&self, name: &str) -> bool;
    /// Makes the calls, several at once, and reports each. Returns when all are reported; a call that the leash
    /// cut off is reported as such.
    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal);
}

// ------------------------------------------------------------------------------------------------------- health

/// One thing that must work before the server is ready.
pub trait Probe: Send + Sync {
    /// `store`, `workers`, `sandbox`.
    fn name(&self) -> &'static str;
    /// What is wrong, and what to do about it.
    fn check(&self) -> Result<(), String>;
}
