//! The keys of `audit:`.

use serde::{Deserialize, Serialize};

/// Size of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditOptions {
    /// Size at which a file is rotated.
    pub max_bytes: u64,
    /// Number of rotated files; the oldest is replaced.
    pub files: u32,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { max_bytes: 10 * 1024 * 1024, files: 5 }
    }
}
