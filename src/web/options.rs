//! The `web:` section of the configuration.

use serde::{Deserialize, Serialize};

/// `web:` in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebOptions {
    /// Addresses and ranges that are not public and may be fetched nevertheless.
    pub allow_private_addresses: Vec<String>,
    /// Longest time of a request with its redirects, seconds.
    pub timeout_s: u64,
    /// Largest answer, unpacked, bytes.
    pub max_bytes: usize,
}

impl Default for WebOptions {
    fn default() -> Self {
        Self { allow_private_addresses: Vec::new(), timeout_s: 30, max_bytes: 10 << 20 }
    }
}
