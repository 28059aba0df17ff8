//! Sections that no other module owns: `files:`, `mcp_server:`, `memory:`, `metrics:` and `log:`.

use serde::{Deserialize, Serialize};

/// The level and format of the log on standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogOptions {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// The format of a line.
    pub format: LogFormat,
}

/// The severity of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Faults of this server.
    Error,
    /// Possible faults.
    Warn,
    /// Events for operators.
    #[default]
    Info,
    /// Every request.
    Debug,
    /// Everything.
    Trace,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text; in the format of the journal if standard error is the journal: a priority and no time.
    #[default]
    Auto,
    /// Text.
    Text,
    /// A JSON object a line.
    Json,
}

/// Files of projects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileOptions {
    /// Whether tools may use names that begin with a dot.
    pub show_hidden: bool,
}

/// The MCP server of this program: `/mcp` and `nanoclaw mcp serve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpEndpointOptions {
    /// Whether `/mcp` is served.
    pub enabled: bool,
}

impl Default for McpEndpointOptions {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// What jobs keep for later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryOptions {
    /// Whether there are memories.
    pub enabled: bool,
    /// Size of the memory of one user or project.
    pub max_bytes: u64,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { enabled: false, max_bytes: 16 * 1_024 }
    }
}

/// Access to `/metrics`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsOptions {
    /// Whether everybody may read it; else, with accounts, only administrators.
    pub public: bool,
}
