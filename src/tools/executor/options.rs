//! Options of the executor: limits of a batch, approval, audit, metrics.

use super::approval::ApprovalRules;
use super::cache::ToolCacheOptions;
use crate::domain::limits::Limits;
use crate::ports::{Audit, Meter, NoopMeter, ToolNamespace};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The limits of a batch of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Calls of one batch that run in parallel.
    pub workers: usize,
    /// Longest run of one call.
    pub timeout: Duration,
    /// The longest result for the model.
    pub result_chars: usize,
    /// The longest result in the store.
    pub result_bytes: usize,
    /// Limits of cached results.
    pub cache: ToolCacheOptions,
}

impl BatchLimits {
    /// From the configured limits and `tool_max_workers`.
    pub fn new(limits: &Limits, workers: usize, cache: ToolCacheOptions) -> Self {
        let timeout = Duration::from_secs(limits.tool_timeout_s);
        let (result_chars, result_bytes) = (limits.tool_result_chars, limits.tool_result_bytes);
        Self { workers: workers.max(1), timeout, result_chars, result_bytes, cache }
    }
}

/// The configured default sets of tools: names and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultTools {
    /// For jobs of every model; `None` for the built-in set.
    pub every_model: Option<Vec<String>>,
    /// For jobs of these models instead.
    pub per_model: BTreeMap<String, Vec<String>>,
}

impl DefaultTools {
    /// The configured set for jobs of this model.
    pub(super) fn of(&self, model: &str) -> Option<&Vec<String>> {
        self.per_model.get(model).or(self.every_model.as_ref())
    }
}

/// How the executor runs calls.
#[derive(Clone)]
pub struct ExecutorOptions {
    /// The limits of a batch.
    pub limits: BatchLimits,
    /// The tools of jobs that name none.
    pub default_tools: DefaultTools,
    /// The calls that need approval.
    pub approval: ApprovalRules,
    /// Names of tools that this process does not start, such as those of disabled MCP servers.
    pub dormant: Vec<ToolNamespace>,
    /// The audit log.
    pub audit: Option<Arc<dyn Audit>>,
    /// Counts the calls.
    pub meter: Arc<dyn Meter>,
}

impl ExecutorOptions {
    /// These limits, without approval, audit and metrics.
    pub fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            default_tools: DefaultTools::default(),
            approval: ApprovalRules::default(),
            dormant: Vec::new(),
            audit: None,
            meter: Arc::new(NoopMeter),
        }
    }
}
