//! Lists the workspaces of jobs on the disk. The disk, not the store, says which exist, so that a crash
//! between the end of a job and the removal of its files leaves nothing behind.

use super::beneath::open_directory;
use super::errors::file_error;
use super::staging;
use super::users::{UserAreas, names};
use crate::domain::id::{JobId, UserId};
use crate::domain::workspace::{JOBS, Workspace, user_of_directory};
use crate::ports::FileError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// The workspaces of one user's jobs, or of all jobs. Other names are left out.
pub(super) fn workspaces(
    root: &Path,
    areas: &UserAreas,
    user: Option<UserId>,
) -> Result<Vec<Workspace>, FileError> {
    let fail = |error| file_error(error, JOBS);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let jobs = match rustix::fs::open(root, flags, Mode::empty()).and_then(|root| areas.open(root, JOBS)) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        other => other.map_err(fail)?,
    };
    let mut users: Vec<UserId> = match user {
        Some(user) => vec![user],
        None => names(&jobs).map_err(fail)?.iter().filter_map(|name| user_of_directory(name)).collect(),
    };
    users.sort_unstable();
    users.dedup();
    let mut found = Vec::new();
    for user in users {
        let directory = match open_directory(&jobs, areas.name(user).as_str()) {
            Err(Errno::NOENT) => continue,
            other => other.map_err(fail)?,
        };
        let mut ids = names(&directory).map_err(fail)?;
        ids.extend(staging::half_removed(&directory).map_err(fail)?);
        let mut ids: Vec<JobId> = ids.iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        ids.dedup();
        found.extend(ids.into_iter().map(|job| Workspace::of_job(user, job)));
    }
    Ok(found)
}
