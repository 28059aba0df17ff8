//! What the operator says about the web. Owns the keys of `web:`.

use serde::{Deserialize, Serialize};

/// `web:` in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebOptions {
    /// Addresses and ranges that are not public and may be fetched nevertheless.
    pub allow_private_addresses: Vec<String>,
}
