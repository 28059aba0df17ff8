//! The limit of programs that run in a workspace, which is counted again when the last of them has ended, so
//! that no request has to.

use crate::domain::workspace::Workspace;
use crate::ports::{DirectoryLimit, FileError, Workspaces};
use std::sync::Arc;

/// A limit, and the workspace that it bounds.
pub(super) struct CountingLimit {
    pub(super) limit: Box<dyn DirectoryLimit>,
    pub(super) workspaces: Arc<dyn Workspaces>,
    pub(super) workspace: Workspace,
}

impl DirectoryLimit for CountingLimit {
    fn refusal(&self) -> Option<String> {
        self.limit.refusal()
    }

    fn max_bytes(&self) -> u64 {
        self.limit.max_bytes()
    }

    fn max_entries(&self) -> u64 {
        self.limit.max_entries()
    }

    fn check(&self, bytes: u64, entries: u64) -> Result<(), (&'static str, String)> {
        self.limit.check(bytes, entries)
    }
}

impl Drop for CountingLimit {
    fn drop(&mut self) {
        match self.workspaces.count_again(&self.workspace) {
            // Its project or job was deleted, or another node counts it.
            Ok(()) | Err(FileError::NotFound(_) | FileError::Unavailable(_)) => {}
            Err(error) => {
                tracing::warn!(workspace = %self.workspace.id, %error, "a directory cannot be counted");
            }
        }
    }
}
