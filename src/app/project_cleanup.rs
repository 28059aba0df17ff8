//! Removes the directories of projects that a crash left behind: at the start, or, where nodes share the
//! directories, again and again by one of them.

use crate::domain::project::Project;
use crate::domain::workspace::Workspace;
use crate::ports::{LockMode, Projects, SharedFiles, SharedLock, SharedLockKind, Workspaces};
use std::sync::Arc;

/// Removes the directories of deleted projects on its own thread, if a crash or a failure kept them. Reads
/// the list before clients can upload: an unfinished upload looks the same.
pub(super) fn remove_leftovers(
    projects: Arc<dyn Projects>,
    workspaces: Arc<dyn Workspaces>,
) -> std::io::Result<()> {
    let pending = match projects.pending_removals() {
        Ok(pending) => pending,
        Err(error) => {
            tracing::warn!(%error, "cannot list directories of removed projects; they stay until the next start");
            return Ok(());
        }
    };
    if pending.is_empty() {
        return Ok(());
    }
    let cleanup = move || {
        for project in pending {
            remove(&*projects, &*workspaces, project);
        }
    };
    // Not joined: the next start removes the remaining directories.
    std::thread::Builder::new().name("project-cleanup".to_owned()).spawn(cleanup).map(drop)
}

/// Removes those that no node works on now.
pub(super) fn remove_unclaimed(
    projects: &dyn Projects,
    workspaces: &dyn Workspaces,
    shared: &dyn SharedFiles,
) {
    let pending = match projects.pending_removals() {
        Ok(pending) => pending,
        Err(error) => {
            return tracing::warn!(%error, "cannot list directories of removed projects; trying again later");
        }
    };
    for project in pending {
        let key = project.id.to_string();
        let lock = SharedLock::of(SharedLockKind::ProjectDirectory, &key, LockMode::Exclusive);
        let Ok(Some(_lock)) = shared.try_lock(lock) else { continue };
        // Before the lock its node may have published the project, or recorded the removal: then another
        // project may have the directory.
        let pending = projects.pending_removals();
        if pending.is_ok_and(|pending| pending.iter().any(|other| other.id == project.id)) {
            remove(projects, workspaces, project);
        }
    }
}

fn remove(projects: &dyn Projects, workspaces: &dyn Workspaces, project: Project) {
    let id = project.id;
    match workspaces.remove(&Workspace::from(&project)) {
        Ok(()) => match projects.mark_removed(project).wait() {
            Ok(()) => tracing::info!(project = %id, "removed the directory of a deleted project"),
            Err(error) => tracing::warn!(project = %id, %error, "cannot record the removal of a directory"),
        },
        Err(error) => {
            tracing::warn!(project = %id, %error, "cannot remove the directory of a deleted project");
        }
    }
}
