//! How far an interrupted migration came. The target keeps it, and writes it with the rows that it counts.

use serde::{Deserialize, Serialize};

/// The place at which a migration continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransferProgress {
    /// The source as it was at the begin: [`TransferProgress::begin`].
    pub(crate) source: String,
    /// The table that was copied last, completely or not; empty: none.
    pub(crate) table: String,
    /// Its copied rows.
    pub(crate) rows: u64,
}

impl TransferProgress {
    /// The begin. `source` names the source and changes when a server uses it.
    pub(crate) fn begin(source: String) -> Self {
        Self { source, table: String::new(), rows: 0 }
    }
}
