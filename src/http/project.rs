//! The project that a request names, if it is the caller's: another user's is none (P7). Owns the one answer for both; refuses
//! files, and everything else that is done with one.

use super::door::Door;
use super::error::Error;
use super::room::Room;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use std::sync::Arc;

const NONE: Error = Error::NotFound("project");

/// What is no id names no project.
pub(crate) fn parse_id(text: &str) -> Result<ProjectId, Error> {
    text.parse().map_err(|_| NONE)
}

/// The project of this id. Reads the store.
pub(crate) fn owned(room: &Room, user: UserId, id: ProjectId) -> Result<Project, Error> {
    room.projects.project(user, id)?.ok_or(NONE)
}

/// The same, on a thread that may block, for whoever only has to know.
pub(crate) async fn check(door: &Door, user: UserId, id: ProjectId) -> Result<(), Error> {
    let projects = Arc::clone(&door.room.projects);
    let found = door.read(move |_| projects.project(user, id)).await?;
    found.map(drop).ok_or(NONE)
}
