//! The state of the server for `GET /v1/status`, from its parts.

use super::self_test::LevelStates;
use crate::domain::id::UserId;
use crate::mcp::McpServers;
use crate::metrics::Metrics;
use crate::ports::{
    Clock, ClusterView, McpServerInfo, NodeStore, SandboxLevelInfo, ServerFigures, ServerStatus, StoreError,
    StoreStats, UserJobCounts,
};
use std::sync::Arc;

/// The parts that know something of the state.
pub(super) struct StatusSources {
    pub(super) metrics: Arc<Metrics>,
    pub(super) store: Arc<dyn NodeStore>,
    pub(super) mcp: Option<Arc<McpServers>>,
    pub(super) levels: LevelStates,
    pub(super) clock: Arc<dyn Clock>,
    /// When the server started, as in `Clock::monotonic_ms`.
    pub(super) started_ms: u64,
}

impl ServerStatus for StatusSources {
    fn figures(&self) -> ServerFigures {
        self.metrics.figures()
    }

    fn uptime_s(&self) -> u64 {
        self.clock.monotonic_ms().saturating_sub(self.started_ms) / 1_000
    }

    fn store(&self) -> Result<StoreStats, StoreError> {
        self.store.stats()
    }

    fn cluster(&self) -> Result<Option<ClusterView>, StoreError> {
        self.store.cluster_view()
    }

    fn jobs_of(&self, user: UserId) -> Result<UserJobCounts, StoreError> {
        self.store.user_job_counts(user)
    }

    fn mcp_servers(&self) -> Vec<McpServerInfo> {
        self.mcp.as_ref().map_or_else(Vec::new, |mcp| mcp.infos())
    }

    fn sandbox_levels(&self) -> Vec<SandboxLevelInfo> {
        self.levels.all()
    }
}
