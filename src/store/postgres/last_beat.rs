//! What this node knows from its last heartbeats.

use crate::ports::ClusterNode;

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
