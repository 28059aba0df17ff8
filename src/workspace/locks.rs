//! One lock for each workspace: changes that read a file before they write it run one after the other, on all
//! nodes that share the workspace. Commands of jobs do not take it.

use crate::domain::workspace::WorkspaceId;
use crate::ports::{FileError, LockMode, SharedFiles, SharedLock, SharedLockKind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Locks of workspaces with changes in progress.
#[derive(Default)]
pub(super) struct WorkspaceLocks {
    here: Mutex<HashMap<WorkspaceId, Weak<Mutex<()>>>>,
    shared: Option<Arc<dyn SharedFiles>>,
}

impl WorkspaceLocks {
    /// Locks over all nodes.
    pub(super) fn of_nodes(shared: Arc<dyn SharedFiles>) -> Self {
        Self { here: Mutex::default(), shared: Some(shared) }
    }

    /// Whether other nodes change the workspaces, too.
    pub(super) fn are_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Runs `work` while no other change of this workspace runs.
    pub(super) fn with<T>(
        &self,
        id: WorkspaceId,
        work: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let lock = self.of(id);
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let name = || SharedLock::of(SharedLockKind::Workspace, &id.to_string(), LockMode::Exclusive);
        let over_nodes = self.shared.as_ref().map(|shared| shared.lock(name()));
        let _over_nodes = over_nodes.transpose().map_err(FileError::Unavailable)?;
        work()
    }

    fn of(&self, id: WorkspaceId) -> Arc<Mutex<()>> {
        let mut all = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, lock| lock.strong_count() > 0);
        let lock = all.get(&id).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(id, Arc::downgrade(&lock));
        lock
    }
}
