//! The state of a server for `GET /v1/status`. Reading it calls no provider and starts nothing.

use super::cluster::ClusterView;
use super::meter::StoreStats;
use super::store_error::StoreError;
use crate::domain::id::UserId;
use serde::Serialize;

/// Figures since the start of the server, over all users.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerFigures {
    /// When the server started, unix milliseconds.
    pub started_at_ms: u64,
    /// Worker threads.
    pub workers: u64,
    /// Workers that have a job.
    pub workers_busy: u64,
    /// Open event streams.
    pub streams: u64,
    /// Resident memory of this process, where known.
    pub memory_bytes: Option<u64>,
    /// Times of commits; `None` before the first.
    pub commit: Option<Percentiles>,
    /// Times from the start of a model call to the first piece of its answer.
    pub first_token: Option<Percentiles>,
    /// Times from the first claim of a job to its end.
    pub job: Option<Percentiles>,
    /// Times from a commit on another node until this one has heard of it.
    pub notification_lag: Option<Percentiles>,
    /// Calls of the models that were called.
    pub models: Vec<ModelCalls>,
}

/// Percentiles of measured times, interpolated within the buckets of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// Half of all times are at most this.
    pub p50_ms: f64,
    /// 99 of 100 times are at most this.
    pub p99_ms: f64,
}

/// Calls of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCalls {
    /// Configured model id.
    pub model: String,
    /// Calls that were made.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
}

/// Unfinished jobs of a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserJobCounts {
    /// Jobs that have not started. Includes lines of batches that are not jobs yet.
    pub queued: u64,
    /// Jobs that wait for an approval.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
}

/// A configured MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerInfo {
    /// Name in the configuration.
    pub name: String,
    /// Whether its tools can be called.
    pub state: McpServerState,
    /// Why not.
    pub reason: Option<String>,
    /// Number of its tools that models are offered.
    pub tools: usize,
}

/// The state of an MCP server.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum McpServerState {
    /// Being started.
    Starting,
    /// Its tools can be called.
    Running,
    /// It has ended or could not be started.
    Down,
    /// This process is stopping.
    Stopped,
}

/// A level of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxLevelInfo {
    /// Name of the level.
    pub level: &'static str,
    /// Whether programs run at it.
    pub state: SandboxLevelState,
    /// Why not.
    pub reason: Option<String>,
}

/// The state of a level of the sandbox.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevelState {
    /// The level has passed its self-test.
    Ok,
    /// It has failed: no program runs at it.
    Failed,
    /// Its test has not ended, or is repeated.
    Testing,
}

/// Reports the state of a server.
pub trait ServerStatus: Send + Sync {
    /// Figures from memory.
    fn figures(&self) -> ServerFigures;
    /// Seconds since the start.
    fn uptime_s(&self) -> u64;
    /// Current state of the store. Reads it a bounded number of times.
    fn store(&self) -> Result<StoreStats, StoreError>;
    /// The nodes that share the store; `None`: it has one. Reads the store.
    fn cluster(&self) -> Result<Option<ClusterView>, StoreError>;
    /// Unfinished jobs of a user, counted up to 10,000 in each state.
    fn jobs_of(&self, user: UserId) -> Result<UserJobCounts, StoreError>;
    /// The enabled MCP servers, by name.
    fn mcp_servers(&self) -> Vec<McpServerInfo>;
    /// All levels of the sandbox, the strictest first.
    fn sandbox_levels(&self) -> Vec<SandboxLevelInfo>;
}
