//! `sub_agent:` of the configuration.

use crate::domain::job_rights::JobRights;
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

impl SubAgentOptions {
    /// The limits of the agents of a job: they make no more model calls than the job may make.
    pub(super) fn within(self, rights: &JobRights) -> Self {
        // The job's closing call is not in its `max_steps`.
        let most = rights.max_steps.saturating_add(1);
        Self { max_iterations: self.max_iterations.min(most), ..self }
    }
}

impl Default for SubAgentOptions {
    fn default() -> Self {
        Self { max_iterations: 3, max_concurrency: 3, timeout_s: 60 }
    }
}
