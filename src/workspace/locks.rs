//! One lock for each workspace: changes that read a file before they write it run one after the other.
//! Commands of jobs do not take it.

use crate::domain::workspace::WorkspaceId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Locks of workspaces with changes in progress.
#[derive(Default)]
pub(super) struct WorkspaceLocks(Mutex<HashMap<WorkspaceId, Weak<Mutex<()>>>>);

impl WorkspaceLocks {
    /// Runs `work` while no other change of this workspace runs.
    pub(super) fn with<T>(&self, id: WorkspaceId, work: impl FnOnce() -> T) -> T {
        let lock = self.of(id);
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    fn of(&self, id: WorkspaceId) -> Arc<Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, lock| lock.strong_count() > 0);
        let lock = all.get(&id).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(id, Arc::downgrade(&lock));
        lock
    }
}
