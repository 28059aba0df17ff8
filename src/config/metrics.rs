//! `metrics:` of the configuration.

use serde::{Deserialize, Serialize};

/// Who may fetch `/metrics`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsOptions {
    /// Everybody who reaches the server; else, where there are accounts, administrators.
    pub public: bool,
}
