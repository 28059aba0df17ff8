//! What this node knows of itself and of the others: as of its last heartbeat, or read anew.

use crate::ports::{
    CatalogueSource, Cluster, ClusterView, NodeState, SharedDirState, StoreError, node_warnings,
};
use crate::store::postgres::migrations::stored_layout;
use crate::store::postgres::node::read_nodes;
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::store::PostgresStore;
use std::sync::Arc;

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

    fn set_shared_dir(&self, dir: Arc<dyn SharedDirState>) {
        self.shared.shared_dir.get_or_init(|| dir);
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
            takes_jobs: !is_gone && self.claim_refusal().is_none(),
            outdated: self.outdated.get().cloned(),
            lost: is_gone.then(|| beat.lost.clone().unwrap_or_else(|| "its lease has ended".to_owned())),
            silent_ms: now_ms.saturating_sub(beat.answered_ms),
            jobs: jobs as u64,
            live_nodes: live as u64,
            lost_nodes: beat.nodes.len().saturating_sub(live) as u64,
            warnings: node_warnings(&beat.nodes),
        }
    }
}
