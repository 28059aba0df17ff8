//! Online backup of the store.

use super::store_error::StoreError;
use std::fs::File;

/// Copies the store while it is in use.
pub trait Backup: Send + Sync {
    /// Writes all committed data to an unlinked temporary file. Blocks the caller until the copy is complete,
    /// but no other code.
    fn copy(&self) -> Result<File, StoreError>;
}
