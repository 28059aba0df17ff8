//! `store.url` and the options beside it.

use crate::domain::secret::Secret;
use std::time::Duration;

/// Connections of the thread of the writes of jobs. The second asks what became of a commit whose reply was
/// lost with the first.
pub(crate) const WRITER_CONNECTIONS: usize = 2;
/// The heartbeat waits for no connection that reads or writes hold.
pub(crate) const HEARTBEAT_CONNECTIONS: usize = 1;
/// Connections of a command: one that reads or writes, and one that listens or looks at it.
pub(crate) const COMMAND_CONNECTIONS: usize = 2;
/// The connection that listens.
const LISTENER_CONNECTIONS: usize = 1;

/// How to reach the database, and how long a node may be silent.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?options`, or the same as `key=value` pairs.
    pub url: Secret,
    /// Name of this node in lists and logs.
    pub node_name: String,
    /// A node that has not renewed its lease for so long has lost its jobs.
    pub lease: Duration,
    /// Whether the URL leads to a pooler in transaction mode, in which a session has no prepared statements
    /// and hears no notifications.
    pub is_pooled: bool,
    /// Maximum connections of reads and other writes; see [`PostgresOptions::all_connections`].
    pub connections: usize,
    /// Maximum entries of the audit log; the oldest go first.
    pub audit_entries: u64,
    /// Whether the time comes from the database; tests bring their own.
    pub uses_database_time: bool,
}

impl PostgresOptions {
    /// Maximum connections of this node.
    pub fn all_connections(&self) -> usize {
        let own = WRITER_CONNECTIONS + HEARTBEAT_CONNECTIONS + LISTENER_CONNECTIONS;
        self.connections.saturating_add(own)
    }
}
