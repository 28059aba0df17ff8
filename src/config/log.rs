//! `log:` of the configuration.

use serde::{Deserialize, Serialize};

/// What is logged, and how. The log goes to standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogOptions {
    /// The least that is worth a line.
    pub level: LogLevel,
    /// For people or for programs.
    pub format: LogFormat,
}

/// How much is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Faults of this server.
    Error,
    /// And what may become one.
    Warn,
    /// And what an operator wants to know.
    #[default]
    Info,
    /// And each request.
    Debug,
    /// And everything.
    Trace,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people; where standard error is systemd's journal, in the journal's way: a priority, and no time.
    #[default]
    Auto,
    /// For people, wherever it goes.
    Text,
    /// One JSON object per line.
    Json,
}
