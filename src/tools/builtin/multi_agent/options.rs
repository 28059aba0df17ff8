//! `sub_agent:` of the configuration.

use serde::{Deserialize, Serialize};

/// What the operator says about sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubAgentOptions {
    /// Calls to the model that each may make; the last one without tools.
    pub max_iterations: u32,
    /// Agents of one call at work at once.
    pub max_concurrency: usize,
    /// Longest work of one agent, seconds.
    pub timeout_s: u64,
}

impl Default for SubAgentOptions {
    fn default() -> Self {
        Self { max_iterations: 3, max_concurrency: 3, timeout_s: 60 }
    }
}
