//! `webhooks:` of the configuration.

use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};

/// How ends are reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookOptions {
    /// Addresses and ranges that are not public and may be called nevertheless, `127.0.0.1` or `10.0.0.0/8`.
    pub allow_private_addresses: Vec<String>,
    /// What deliveries are signed with, `whsec_…`; several while one replaces another. One is made when there is none.
    pub secrets: Vec<Secret>,
    /// Longest time of one try, seconds.
    pub timeout_s: u64,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self { allow_private_addresses: Vec::new(), secrets: Vec::new(), timeout_s: 30 }
    }
}
