//! What this node knows of itself and of the others: as of its last heartbeat, or read anew.

use crate::ports::{
    CatalogueDigests, CatalogueSource, Cluster, ClusterNode, ClusterView, NodeState, StoreError,
    node_warnings,
};
use crate::store::postgres::migrations::stored_layout;
use crate::store::postgres::node::read_nodes;
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::store::PostgresStore;
use std::sync::Arc;

/// How often the digests of the catalogues are computed and compared, milliseconds.
const LOOK_EVERY_MS: u64 = 10_000;

/// What the last heartbeats have found. Times are those of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct LastBeat {
    /// When the last heartbeat began that renewed the lease.
    pub(crate) renewed_ms: u64,
    /// When the database has answered last.
    pub(crate) answered_ms: u64,
    /// All nodes, without their jobs.
    pub(crate) nodes: Vec<ClusterNode>,
    /// Why the lease is lost.
    pub(crate) lost: Option<String>,
}

/// Publishes the digests of this node, and logs lasting differences between nodes.
#[derive(Debug, Default)]
pub(crate) struct CatalogueWatch {
    /// What the database has, and of which lease.
    published: Option<(i64, CatalogueDigests)>,
    next_ms: u64,
    /// The differences at the last look, and whether they were logged.
    seen: (Vec<String>, bool),
}

impl CatalogueWatch {
    /// Looks, if it is time.
    pub(crate) fn look(&mut self, shared: &PostgresShared) {
        let (now_ms, id) = (shared.clock.monotonic_ms(), shared.node.id());
        let Some(source) = shared.catalogue.get().filter(|_| now_ms >= self.next_ms) else { return };
        self.next_ms = now_ms.saturating_add(LOOK_EVERY_MS);
        let found = (id, source.digests());
        if self.published.as_ref() != Some(&found) {
            let publish = async |session: &SqlSession<'_>| shared.node.publish(session, &found.1).await;
            match shared.read(publish) {
                Ok(()) => self.published = Some(found),
                Err(error) => tracing::debug!(%error, "cannot publish the catalogues of this node"),
            }
        }
        self.compare(node_warnings(&shared.last_beat().nodes));
    }

    /// Logs differences at the second look: nodes start their MCP servers at different times.
    fn compare(&mut self, warnings: Vec<String>) {
        if self.seen.0 != warnings {
            self.seen = (warnings, false);
        } else if !self.seen.1 {
            self.seen.1 = true;
            for warning in &self.seen.0 {
                tracing::warn!(warning, "nodes differ");
            }
        }
    }
}

impl Cluster for PostgresStore {
    fn cluster_view(&self) -> Result<Option<ClusterView>, StoreError> {
        let own = Some(self.shared.node.id());
        self.read(async |session: &SqlSession<'_>| read_view(session, own).await).map(Some)
    }

    fn node_state(&self) -> Option<NodeState> {
        Some(self.shared.node_state())
    }

    fn set_catalogue(&self, source: Arc<dyn CatalogueSource>) {
        self.shared.catalogue.get_or_init(|| source);
    }
}

/// All nodes of a database. `own`: the one that asks.
pub(crate) async fn read_view(session: &SqlSession<'_>, own: Option<i64>) -> Result<ClusterView, StoreError> {
    Ok(ClusterView { own, layout: stored_layout(session).await?.newest, nodes: read_nodes(session).await? })
}

impl PostgresShared {
    fn node_state(&self) -> NodeState {
        let (now_ms, jobs, is_lost) = (self.clock.monotonic_ms(), self.leases().len(), self.node.is_lost());
        let beat = self.last_beat();
        let lease_ms = u64::try_from(self.database.lease.as_millis()).unwrap_or(u64::MAX);
        let rest_ms = beat.renewed_ms.saturating_add(lease_ms).saturating_sub(now_ms);
        let is_gone = is_lost || rest_ms == 0;
        let live = beat.nodes.iter().filter(|node| node.is_live()).count();
        NodeState {
            id: self.node.id(),
            lease_ms: if is_gone { 0 } else { rest_ms },
            lost: is_gone.then(|| beat.lost.clone().unwrap_or_else(|| "its lease has ended".to_owned())),
            silent_ms: now_ms.saturating_sub(beat.answered_ms),
            jobs: jobs as u64,
            live_nodes: live as u64,
            lost_nodes: beat.nodes.len().saturating_sub(live) as u64,
            warnings: node_warnings(&beat.nodes),
        }
    }
}
