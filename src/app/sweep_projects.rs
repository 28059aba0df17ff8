//! What is left of projects that are gone: directories whose removal a crash, or a failure, has prevented. Owns the one round at
//! the start; while the server runs, whoever removes a project removes its directory.

use crate::domain::project::Project;
use crate::ports::{Projects, Workspaces};
use std::sync::Arc;

/// Begins the round on a thread of its own. What is unswept is read before anybody can begin an upload: those look the same.
pub(super) fn begin(projects: Arc<dyn Projects>, workspaces: Arc<dyn Workspaces>) -> std::io::Result<()> {
    let left = match projects.pending_removals() {
        Ok(left) => left,
        Err(error) => {
            tracing::warn!(%error, "directories of removed projects stay until the next start");
            return Ok(());
        }
    };
    if left.is_empty() {
        return Ok(());
    }
    let round = move || {
        for project in left {
            sweep(&*projects, &*workspaces, project);
        }
    };
    // Nobody waits for it: what it does not get done is done after the next start.
    std::thread::Builder::new().name("sweep".to_owned()).spawn(round).map(drop)
}

fn sweep(projects: &dyn Projects, workspaces: &dyn Workspaces, project: Project) {
    let id = project.id;
    match workspaces.remove(&project) {
        Ok(()) => match projects.mark_removed(project).wait() {
            Ok(()) => tracing::info!(project = %id, "removed the directory of a project that is gone"),
            Err(error) => tracing::warn!(project = %id, %error, "a removed directory could not be noted"),
        },
        Err(error) => tracing::warn!(project = %id, %error, "the directory of a removed project stays"),
    }
}
