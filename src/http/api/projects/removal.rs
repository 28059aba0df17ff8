//! Taking away the directory of a project that is not there any more. Owns the work behind a request's back; what fails here is
//! done again after the next start.

use crate::domain::project::Project;
use crate::http::room::Room;
use std::sync::Arc;

/// Removes it on a thread that may block. Without a runtime the process is ending; the next start does it.
pub(super) fn remove_later(room: &Arc<Room>, project: Project) {
    let room = Arc::clone(room);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    drop(runtime.spawn_blocking(move || remove(&room, project)));
}

/// Removes it now.
pub(super) fn remove(room: &Room, project: Project) {
    let id = project.id;
    if let Err(error) = room.workspaces.remove(&project) {
        tracing::warn!(project = %id, %error, "a project's directory stays until the next start");
        return;
    }
    if let Err(error) = room.projects.mark_removed(project).wait() {
        tracing::warn!(project = %id, %error, "that a project's directory is gone could not be noted");
    }
}
