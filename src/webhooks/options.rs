//! `webhooks:` of the configuration.

use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};

/// Options of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookOptions {
    /// Non-public addresses and ranges that webhooks may reach, such as `127.0.0.1` or `10.0.0.0/8`.
    pub allow_private_addresses: Vec<String>,
    /// Signing secrets, `whsec_…`; several while one replaces another. The server generates one when the list
    /// is empty.
    pub secrets: Vec<Secret>,
    /// Timeout of one attempt, seconds.
    pub timeout_s: u64,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self { allow_private_addresses: Vec::new(), secrets: Vec::new(), timeout_s: 30 }
    }
}
