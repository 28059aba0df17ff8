//! Online backup of the store.

use super::store_error::StoreError;
use std::fs::File;

/// Copies the store while it is in use.
pub trait Backup: Send + Sync {
    /// Writes all committed data to an unlinked temporary file. Blocks the caller for the whole copy, and
    /// nobody else.
    fn copy(&self) -> Result<File, StoreError>;
}
