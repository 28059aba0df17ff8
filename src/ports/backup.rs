//! A copy of everything, for whoever may have it. Owns the trait; refuses to know what is in it.

use super::store::StoreError;
use std::fs::File;

/// Copies the durable truth while it is in use.
pub trait Backup: Send + Sync {
    /// All that is committed now, in a file that has no name: it goes with its last reader. Blocks as long as it takes to
    /// write; nobody else does.
    fn copy(&self) -> Result<File, StoreError>;
}
