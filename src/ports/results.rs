//! Full tool results, of which the model saw only head and tail.

use super::store_error::StoreError;
use crate::domain::handle::ResultHandle;
use crate::domain::id::UserId;

/// Reads stored results; they live as long as their jobs.
pub trait Results: Send + Sync {
    /// The text behind the handle; `None` when the user has no such job, the job has no such result, or
    /// retention removed it.
    fn result(&self, user: UserId, handle: &ResultHandle) -> Result<Option<String>, StoreError>;
}
