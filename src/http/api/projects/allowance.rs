//! How much may be added to a project. Owns what the server's limits and the account's quota come to together.

use crate::domain::project::Project;
use crate::http::error::Error;
use crate::http::room::Room;
use crate::ports::{Allowance, FileError};

/// What the project's files may come to. Other projects are only added up where the account has a quota.
pub(super) fn allowance(room: &Room, project: &Project) -> Result<Allowance, Error> {
    let limits = &room.limits;
    let left = match quota(room, project)? {
        Some(quota) => quota.saturating_sub(others(room, project)?),
        None => u64::MAX,
    };
    Ok(Allowance { project_bytes: limits.project_bytes.min(left), project_entries: limits.project_entries })
}

/// Refuses a project that has grown beyond its owner's quota while others grew as well.
pub(super) fn check(room: &Room, project: &Project) -> Result<(), Error> {
    let Some(quota) = quota(room, project)? else { return Ok(()) };
    let own = room.workspaces.stats(project)?.size;
    if others(room, project)?.saturating_add(own) <= quota {
        return Ok(());
    }
    Err(FileError::Quota(format!("all projects together may hold {quota} bytes (quota.project_bytes)"))
        .into())
}

fn quota(room: &Room, project: &Project) -> Result<Option<u64>, Error> {
    let account = room.users.account(project.user)?;
    Ok(account.and_then(|account| account.quota.project_bytes))
}

/// Bytes of the owner's other projects.
fn others(room: &Room, project: &Project) -> Result<u64, Error> {
    let mut others = room.projects.all_projects(project.user)?;
    others.retain(|other| other.id != project.id);
    Ok(room.workspaces.bytes_of(&others)?)
}
