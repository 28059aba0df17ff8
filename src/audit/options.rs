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

/// About the size of an entry, bytes.
const ENTRY_BYTES: u64 = 1_024;

impl AuditOptions {
    /// About how many entries all files hold: the bound of a log that is no file.
    pub fn entries(&self) -> u64 {
        let files = u64::from(self.files).saturating_add(1);
        self.max_bytes.saturating_mul(files).div_ceil(ENTRY_BYTES)
    }
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { max_bytes: 10 * 1024 * 1024, files: 5 }
    }
}
