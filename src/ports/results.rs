//! The whole results of tools, of which models saw head and tail. Owns the trait; refuses to cut.

use super::store::StoreError;
use crate::domain::handle::ResultHandle;
use crate::domain::id::UserId;

/// Results as long as their jobs keep them.
pub trait Results: Send + Sync {
    /// The text behind the handle. `None`: the user has no such job, it has no such result, or retention has taken it.
    fn result(&self, user: UserId, handle: &ResultHandle) -> Result<Option<String>, StoreError>;
}
