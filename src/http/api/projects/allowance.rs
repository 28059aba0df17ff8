//! How much may be added to a project. Owns what the server's limits and the account's quota come to together.

use crate::domain::project::Project;
use crate::http::error::Error;
use crate::http::room::Room;
use crate::ports::{FileError, QuotaShare, QuotaSources, StorageAllowance};

/// What the project's files may come to.
pub(super) fn allowance(room: &Room, project: &Project) -> Result<StorageAllowance, Error> {
    let limits = &room.limits;
    let left = share(room, project)?.map_or(u64::MAX, QuotaShare::left);
    Ok(StorageAllowance {
        project_bytes: limits.project_bytes.min(left),
        project_entries: limits.project_entries,
    })
}

/// Refuses a project that has grown beyond its owner's quota while others grew as well.
pub(super) fn check(room: &Room, project: &Project) -> Result<(), Error> {
    let Some(QuotaShare { quota, others }) = share(room, project)? else { return Ok(()) };
    let own = room.workspaces.stats(project)?.size;
    if others.saturating_add(own) <= quota {
        return Ok(());
    }
    Err(FileError::Quota(format!("all projects together may hold {quota} bytes (quota.project_bytes)"))
        .into())
}

fn share(room: &Room, project: &Project) -> Result<Option<QuotaShare>, Error> {
    let (users, projects) = (room.users.as_ref(), room.projects.as_ref());
    QuotaSources { users, projects, workspaces: room.workspaces.as_ref() }.share(project)
}
