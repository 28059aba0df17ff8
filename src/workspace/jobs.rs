//! Lists the workspaces of jobs on the disk. The disk, not the store, says which exist, so that a crash
//! between the end of a job and the removal of its files leaves nothing behind.

use super::beneath::open_directory;
use super::errors::file_error;
use super::staging;
use crate::domain::id::{JobId, UserId};
use crate::domain::workspace::{JOBS, Workspace, user_directory, user_of_directory};
use crate::ports::FileError;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The workspaces of one user's jobs, or of all jobs. Other names are left out.
pub(super) fn workspaces(root: &Path, user: Option<UserId>) -> Result<Vec<Workspace>, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(root, flags, Mode::empty()).and_then(|root| open_directory(root, JOBS));
    let jobs = match opened {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        other => other.map_err(|error| file_error(error, JOBS))?,
    };
    let users = match user {
        Some(user) => vec![user],
        None => names(&jobs)?.iter().filter_map(|name| user_of_directory(name)).collect(),
    };
    let mut found = Vec::new();
    for user in users {
        let directory = match open_directory(&jobs, user_directory(user).as_str()) {
            Err(Errno::NOENT) => continue,
            other => other.map_err(|error| file_error(error, JOBS))?,
        };
        let mut ids = names(&directory)?;
        ids.extend(staging::half_removed(&directory).map_err(|error| file_error(error, JOBS))?);
        let mut ids: Vec<JobId> = ids.iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        ids.dedup();
        found.extend(ids.into_iter().map(|job| Workspace::of_job(user, job)));
    }
    Ok(found)
}

/// The names in a directory.
fn names(directory: &OwnedFd) -> Result<Vec<String>, FileError> {
    let fail = |error| file_error(error, JOBS);
    let entries = Dir::read_from(directory).map_err(fail)?;
    let name = |entry: rustix::io::Result<rustix::fs::DirEntry>| {
        Ok(entry.map_err(fail)?.file_name().to_str().ok().map(str::to_owned))
    };
    entries.filter_map(|entry| name(entry).transpose()).collect()
}
