//! `store.url` and the options beside it.

use crate::domain::secret::Secret;
use std::time::Duration;

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
    /// Maximum connections of this node.
    pub connections: usize,
    /// Maximum entries of the audit log; the oldest go first.
    pub audit_entries: u64,
    /// Whether the time comes from the database; tests bring their own.
    pub uses_database_time: bool,
}
