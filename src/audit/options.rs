//! `audit:` of the configuration.

use serde::{Deserialize, Serialize};

/// How much of the audit log is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditOptions {
    /// A file that would grow beyond this gets a number, and a new one is begun, bytes.
    pub max_bytes: u64,
    /// Files with a number; the oldest is given up for a new one.
    pub files: u32,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { max_bytes: 10 * 1024 * 1024, files: 5 }
    }
}
