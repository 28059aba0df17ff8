//! `store:` of the configuration.

use serde::{Deserialize, Serialize};

/// How the store writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreOptions {
    /// Memory for pages of the file, bytes.
    pub cache_bytes: usize,
    /// How long a write that is not urgent may wait to share a commit, milliseconds.
    pub linger_ms: u64,
    /// Writes that may wait for the writer; a full channel answers 503.
    pub channel_writes: usize,
    /// Silence after which one commit makes the next start quick, milliseconds.
    pub settle_ms: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { cache_bytes: 16 * 1024 * 1024, linger_ms: 25, channel_writes: 4_096, settle_ms: 50 }
    }
}
