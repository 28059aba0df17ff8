//! Metrics: events of the server, and the state of the store.
//!
//! No measurement carries a user, job or conversation (P7). Labels are `'static` or come from the
//! configuration or a catalogue, and the meter keeps a bounded number of those (P8).

use super::store_error::StoreError;
use crate::domain::event::FailureCode;
use crate::domain::job::JobStatus;
use crate::domain::usage::Usage;
use std::fmt::Debug;

/// A measured event. Times are microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measurement<'a> {
    /// Jobs were durably accepted.
    Accepted(u64),
    /// A worker claimed a job.
    Claimed {
        /// Time that the job waited after it became ready.
        waited_us: u64,
    },
    /// A job ended durably.
    Ended {
        /// The terminal status.
        status: JobStatus,
        /// Error code of a job that did not succeed.
        code: Option<FailureCode>,
        /// Time since its first claim or its retry; `None` when it never ran.
        ran_us: Option<u64>,
    },
    /// A worker started a job.
    WorkerBusy,
    /// The worker is free again.
    WorkerFree,
    /// A model call ended.
    ModelCalled {
        /// Configured model id; `None` for an unknown model.
        model: Option<&'a str>,
        /// `ok`, the kind of failure, or `circuit_open` when the provider was not called.
        outcome: &'static str,
        /// Time from the start of the provider call to its end; `None` when no call was made.
        took_us: Option<u64>,
        /// Time to the first piece of the answer.
        first_us: Option<u64>,
    },
    /// Tokens were used, as reported or estimated.
    Spent {
        /// Configured model id.
        model: &'a str,
        /// Number of tokens.
        usage: Usage,
    },
    /// A provider's circuit breaker changed its state.
    Circuit {
        /// Host of the provider, with an unusual port.
        provider: &'a str,
        /// The new state.
        state: CircuitState,
    },
    /// A tool call ended.
    ToolCalled {
        /// Tool name from the catalogue; `None` for an unknown tool.
        tool: Option<&'a str>,
        /// `succeeded`, `failed`, or the reason why it did not run.
        outcome: &'static str,
        /// Run time; `None` when it did not run.
        took_us: Option<u64>,
    },
    /// A sandboxed program ended.
    SandboxRan {
        /// Programming language.
        language: &'static str,
        /// Sandbox level.
        level: &'static str,
        /// Result status.
        status: &'static str,
        /// Wall time.
        took_us: u64,
    },
    /// The store committed.
    Committed {
        /// Writes in this commit.
        writes: usize,
        /// Duration of the commit.
        took_us: u64,
    },
    /// A commit failed.
    CommitFailed,
    /// A client connected.
    ConnectionOpened,
    /// A client disconnected.
    ConnectionClosed,
    /// An event stream started.
    StreamOpened,
    /// An event stream ended.
    StreamClosed,
    /// A request was answered.
    Answered {
        /// HTTP method; `other` for one that the route does not serve.
        method: &'static str,
        /// Route pattern, never the path; `None` when no route matched.
        route: Option<&'static str>,
        /// HTTP status; 499 when the client left first.
        status: u16,
        /// Time until the response head was ready.
        took_us: u64,
    },
    /// An MCP server started or ended.
    McpServer {
        /// Name in the configuration.
        server: &'a str,
        /// Whether its tools can be called.
        is_up: bool,
    },
    /// An MCP server is started again, after its end or because it hung.
    McpRestarted {
        /// Name in the configuration.
        server: &'a str,
    },
    /// This node has lost its lease in the database.
    LeaseLost,
    /// This node took over the jobs of a lost one.
    NodeTakenOver {
        /// How many jobs.
        jobs: u64,
    },
    /// The database answered, or delivered.
    DatabaseAnswered {
        /// `heartbeat`: the round trip of a heartbeat. `notification`: from a commit on another node until
        /// this node hears of it, as exact as the clocks of milliseconds.
        operation: &'static str,
        /// Duration.
        took_us: u64,
    },
    /// A webhook was attempted: `delivered`, `retried` or `dead`.
    WebhookTried(&'static str),
    /// A request with spans was made: `taken`, `failed` or `refused`.
    SpanExportTried(&'static str),
    /// Spans were exported, or lost.
    SpansExported {
        /// `exported`; `rejected`: by the collector, alone; `dropped`: with the whole request.
        outcome: &'static str,
        /// How many.
        spans: u64,
    },
    /// Spans of an ended job are lost: `removed`, `log_cut`, `log_folded` or `unreadable`.
    SpanJobLost(&'static str),
    /// So many ended jobs wait for the export of their spans.
    SpanExportsWaiting(u64),
}

/// State of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// Calls go through.
    Closed,
    /// One call tests whether the provider is back.
    HalfOpen,
    /// Calls fail at once.
    Open,
}

/// Counts measurements.
pub trait Meter: Debug + Send + Sync {
    /// Records one measurement. Fast, and never fails.
    fn record(&self, sample: Measurement<'_>);
}

/// A meter that counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopMeter;

impl Meter for NoopMeter {
    fn record(&self, _: Measurement<'_>) {}
}

/// Current state of the store, over all users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Jobs that have not started. Includes returned jobs and batch lines that are not jobs yet.
    pub queued: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs that wait for an approval.
    pub waiting: u64,
    /// Queued jobs that may run now.
    pub ready: u64,
    /// Queued jobs that wait for their time.
    pub delayed: u64,
    /// Waiting time of the oldest ready job, milliseconds.
    pub oldest_ready_ms: u64,
    /// Unfinished batches.
    pub batches: u64,
    /// Pending webhook deliveries.
    pub deliveries: u64,
    /// Size of the store file, bytes.
    pub file_bytes: u64,
    /// Damaged places that were found, rows that were set aside included.
    pub damaged_rows: u64,
    /// Free disk space, bytes; `None` when unknown.
    pub disk_free_bytes: Option<u64>,
}

/// Provides the state of the store.
pub trait StatsSource: Send + Sync {
    /// Reads the state with a bounded number of reads, however many jobs exist.
    fn stats(&self) -> Result<StoreStats, StoreError>;
}

/// Renders all metrics.
pub trait Exposition: Send + Sync {
    /// Metrics in Prometheus' text format 0.0.4. Blocks while it reads the store.
    fn render(&self) -> String;
}
