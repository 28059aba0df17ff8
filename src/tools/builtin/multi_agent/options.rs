//! `sub_agent:` of the configuration.

use serde::{Deserialize, Serialize};

/// The limits of sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubAgentOptions {
    /// Model calls of each agent; the last one is without tools.
    pub max_iterations: u32,
    /// Agents of one call that work at the same time.
    pub max_concurrency: usize,
    /// Time limit of one agent.
    pub timeout_s: u64,
}

impl Default for SubAgentOptions {
    fn default() -> Self {
        Self { max_iterations: 3, max_concurrency: 3, timeout_s: 60 }
    }
}
