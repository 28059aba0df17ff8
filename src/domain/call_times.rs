//! When calls of models and tools began and ended, as the engine notes it in a job's log.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Start and end of a call by the wall clock. Logs of early versions have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Unix milliseconds. Waits for a rate limit are part of a model call.
    pub started_at_ms: u64,
    /// Unix milliseconds; not before the start, unless somebody has set the clock back.
    pub ended_at_ms: u64,
}

/// A model call of a sub-agent. The record around it has its model and usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentModelCall {
    /// The tool call that the agent works for.
    pub id_ref: String,
    /// Name of the agent.
    pub agent: String,
    /// As at the end of a call of the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The call gave no complete answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_failed: bool,
    /// When it was made.
    pub times: CallTimes,
}

/// The fields of a tool's result that say how the call went. A result of another shape has none of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ToolResultFields {
    /// Whether the tool succeeded.
    pub success: Option<bool>,
    /// Message of a failure.
    pub error: Option<String>,
    execution_time: Option<f64>,
}

impl ToolResultFields {
    /// The fields of this JSON text.
    pub fn read(content: &str) -> Self {
        serde_json::from_str(content).unwrap_or_default()
    }

    /// How long the tool ran.
    pub fn execution_ms(&self) -> u64 {
        let ran = self.execution_time.and_then(|ran_s| Duration::try_from_secs_f64(ran_s).ok());
        ran.and_then(|ran| u64::try_from(ran.as_millis()).ok()).unwrap_or(0)
    }
}
