//! Compares what jobs may use on this node with what they may use on others.

use crate::ports::{CatalogueDigests, node_warnings};
use crate::store::postgres::pool::Connections;
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::shared::PostgresShared;

/// How often the digests of the catalogues are computed and compared, milliseconds.
const LOOK_EVERY_MS: u64 = 10_000;

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
    /// Looks, if it is time. The connections are those of the heartbeat.
    pub(crate) fn look(&mut self, shared: &PostgresShared, connections: &Connections) {
        let (now_ms, id) = (shared.clock.monotonic_ms(), shared.node.id());
        let Some(source) = shared.catalogue.get().filter(|_| now_ms >= self.next_ms) else { return };
        self.next_ms = now_ms.saturating_add(LOOK_EVERY_MS);
        let found = (id, source.digests());
        if self.published.as_ref() != Some(&found) {
            let publish = async |session: &SqlSession<'_>| shared.node.publish(session, &found.1).await;
            match connections.read_within(shared.database.lease / 3, publish) {
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
