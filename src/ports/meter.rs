//! What happens in the rooms, for whoever counts it, and what stands in the store, for whoever asks. Owns the traits and
//! the plain data that crosses them; refuses to know a name or a format of a metric.
//!
//! A sample names nobody (P7): no user, no job, no conversation. Its words are `'static`, so of a closed set, but for those
//! that the configuration or a catalogue gives, and of these the meter keeps a bounded number (P8).

use super::store::StoreError;
use crate::domain::event::FailureCode;
use crate::domain::job::JobStatus;
use crate::domain::usage::Usage;
use std::fmt::Debug;

/// Something that has happened. Times are microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measurement<'a> {
    /// So many jobs were accepted, durably.
    Accepted(u64),
    /// A job was claimed.
    Claimed {
        /// How long it had been ready.
        waited_us: u64,
    },
    /// A job has its end, durably.
    Ended {
        /// A terminal one.
        status: JobStatus,
        /// Why it is no success.
        code: Option<FailureCode>,
        /// Since its first claim, or since it was retried; `None`: it never ran.
        ran_us: Option<u64>,
    },
    /// A worker has a job.
    WorkerBusy,
    /// It has none any more.
    WorkerFree,
    /// A call to a model has ended.
    ModelCalled {
        /// As configured; `None`: there is no such model.
        model: Option<&'a str>,
        /// `ok`, the kind of its failure, or `circuit_open`: the provider was not asked.
        outcome: &'static str,
        /// From its turn at the provider to its end; `None`: it was not made.
        took_us: Option<u64>,
        /// The first piece of the answer came after so long.
        first_us: Option<u64>,
    },
    /// Tokens were spent, reported or estimated.
    Spent {
        /// On whom.
        model: &'a str,
        /// How many.
        usage: Usage,
    },
    /// How a provider's circuit breaker stands.
    Circuit {
        /// Host, and port where it is an unusual one.
        provider: &'a str,
        /// Where it stands.
        state: CircuitState,
    },
    /// A call of a tool has its outcome.
    ToolCalled {
        /// As its catalogue has it; `None`: there is no such tool.
        tool: Option<&'a str>,
        /// `succeeded`, `failed`, or why it did not run.
        outcome: &'static str,
        /// How long it ran; `None`: it did not.
        took_us: Option<u64>,
    },
    /// A program in the sandbox has ended.
    SandboxRan {
        /// What it was written in.
        language: &'static str,
        /// Where.
        level: &'static str,
        /// How it ended.
        status: &'static str,
        /// Wall clock.
        took_us: u64,
    },
    /// The store has committed.
    Committed {
        /// Writes that shared the commit.
        writes: usize,
        /// What the disk took.
        took_us: u64,
    },
    /// A commit failed.
    CommitFailed,
    /// A client has connected.
    ConnectionOpened,
    /// It is gone.
    ConnectionClosed,
    /// An event stream has begun.
    StreamOpened,
    /// It is over.
    StreamClosed,
    /// A request was answered.
    Answered {
        /// `other` for one that the route does not have.
        method: &'static str,
        /// The route's pattern, never the path; `None`: there is no such route, or nobody looked.
        route: Option<&'static str>,
        /// The HTTP status; 499: the client left before.
        status: u16,
        /// Until the head of the answer was there.
        took_us: u64,
    },
    /// A webhook was tried: `delivered`, `retried` or `dead`.
    WebhookTried(&'static str),
}

/// Where a circuit breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// The provider is asked.
    Closed,
    /// One call finds out whether it is back.
    HalfOpen,
    /// It is not asked.
    Open,
}

/// Counts what happens.
pub trait Meter: Debug + Send + Sync {
    /// This has happened. Quick, and never fails.
    fn record(&self, sample: Measurement<'_>);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopMeter;

impl Meter for NoopMeter {
    fn record(&self, _: Measurement<'_>) {}
}

/// What stands in the store right now, all users together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Jobs that have not begun, given back ones and lines of batches that are no jobs yet included.
    pub queued: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs that wait for somebody's approval.
    pub waiting: u64,
    /// Queued jobs that may run now.
    pub ready: u64,
    /// Queued jobs that wait for their time.
    pub delayed: u64,
    /// How long the oldest job that may run has been waiting, milliseconds.
    pub oldest_ready_ms: u64,
    /// Batches that have not ended.
    pub batches: u64,
    /// Webhooks that are still to be delivered.
    pub deliveries: u64,
    /// How large the file is, bytes.
    pub file_bytes: u64,
    /// What its disk has left, bytes; `None` where nobody knows.
    pub disk_free_bytes: Option<u64>,
}

/// Whoever can tell what stands in the store.
pub trait StatsSource: Send + Sync {
    /// It all, from a bounded number of reads however many jobs there are.
    fn stats(&self) -> Result<StoreStats, StoreError>;
}

/// All that was counted, for whoever comes to fetch it.
pub trait Exposition: Send + Sync {
    /// In Prometheus' text format 0.0.4. Blocks while it reads.
    fn render(&self) -> String;
}
