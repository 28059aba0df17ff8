//! `store:` and `retention:` of the configuration.

use super::retention_age::RetentionAge;
use crate::domain::fair_share::FairShare;
use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of the store's writes.
#[expect(clippy::struct_excessive_bools, reason = "each follows from a setting of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreOptions {
    /// URL of a `PostgreSQL` database that several nodes share; `None`: the store is a file.
    pub url: Option<Secret>,
    /// Name of this node in lists and logs; `None`: the host's name.
    pub node_name: Option<String>,
    /// A node that has not renewed its lease in the database for so long loses its jobs to the others,
    /// seconds.
    pub lease_s: u64,
    /// Directory of projects, uploads and directories of jobs, the same one on all nodes; `None`: nodes
    /// refuse them.
    pub shared_dir: Option<PathBuf>,
    /// Maximum connections of this node to the database.
    pub connections: usize,
    /// Whether `url` leads to a pooler in transaction mode, such as `PgBouncer`.
    pub transaction_pooling: bool,
    /// Memory for pages of the file, bytes.
    pub cache_bytes: usize,
    /// How long a write that is not urgent may wait to share a commit, milliseconds.
    pub linger_ms: u64,
    /// Writes that may wait for the writer; a full channel answers 503.
    pub channel_writes: usize,
    /// Silence after which one commit makes the next start quick, milliseconds.
    pub settle_ms: u64,
    /// Commits at least this long are logged, milliseconds; 0 turns it off.
    pub slow_commit_ms: u64,
    /// Whether the logs of accepted jobs are hash chains.
    pub chain_logs: bool,
    /// `retention:`, a separate key; the caller that opens the store sets it.
    #[serde(skip)]
    pub retention: RetentionOptions,
    /// How users share the workers; `None`: they do not. Follows from other keys.
    #[serde(skip)]
    pub share: Option<FairShare>,
    /// Start with an empty store if the directory had one that is missing: `nanoclaw serve --new-store`.
    #[serde(skip)]
    pub new_store: bool,
    /// Whether quotas of accounts hold: not in single mode. The caller that opens the store sets it.
    #[serde(skip)]
    pub has_quotas: bool,
    /// Whether ended jobs are queued for the export of their spans. Follows from `otlp:`.
    #[serde(skip)]
    pub exports_spans: bool,
    /// How long a node that is gone keeps the webhook deliveries that it has taken, seconds: longer than one
    /// takes. Follows from `webhooks.timeout_s`.
    #[serde(skip)]
    pub delivery_lease_s: u64,
}

/// Retention of ended jobs and of uploaded files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionOptions {
    /// The deltas of each step become one.
    pub deltas: RetentionAge,
    /// The log is cut to its terminal event.
    pub events: RetentionAge,
    /// The job is removed.
    pub jobs: RetentionAge,
    /// The directory of a job without a project is removed; the job stays.
    pub job_files: RetentionAge,
    /// A file of `/v1/files` is removed so long after its upload, if it does not expire earlier.
    pub files: RetentionAge,
}

impl Default for RetentionOptions {
    fn default() -> Self {
        Self {
            deltas: RetentionAge::For(24 * 3_600_000),
            events: RetentionAge::Forever,
            jobs: RetentionAge::Forever,
            job_files: RetentionAge::For(30 * 24 * 3_600_000),
            files: RetentionAge::Forever,
        }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            url: None,
            node_name: None,
            lease_s: 15,
            shared_dir: None,
            connections: 8,
            transaction_pooling: false,
            cache_bytes: 16 * 1024 * 1024,
            linger_ms: 25,
            channel_writes: 4_096,
            settle_ms: 50,
            slow_commit_ms: 1_000,
            chain_logs: true,
            retention: RetentionOptions::default(),
            share: None,
            new_store: false,
            has_quotas: true,
            exports_spans: false,
            delivery_lease_s: 60,
        }
    }
}
