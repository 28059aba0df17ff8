//! The project that a conversation works in, as far as conversations need it: whose it is, and its name.

use crate::domain::conversation::Conversation;
use crate::domain::id::{ProjectId, UserId};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::ports::{Projects, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of projects.
pub(super) type Names = BTreeMap<ProjectId, String>;

/// The names of these conversations' projects.
pub(super) fn names(
    projects: &dyn Projects,
    user: UserId,
    conversations: &[Conversation],
) -> Result<Names, StoreError> {
    let mut names = Names::new();
    for id in conversations.iter().filter_map(|found| found.settings.project_id) {
        if !names.contains_key(&id)
            && let Some(project) = projects.project(user, id)?
        {
            names.insert(id, project.name.into());
        }
    }
    Ok(names)
}

/// Refuses a project that is not this user's.
pub(in crate::http::api) async fn owned(door: &Arc<Door>, user: UserId, id: ProjectId) -> Result<(), Error> {
    let projects = Arc::clone(&door.room.projects);
    let found = door.read(move |_| projects.project(user, id)).await?;
    found.map(drop).ok_or(Error::NotFound("project"))
}

/// What is no id names no project.
pub(in crate::http::api) fn parse_id(text: &str) -> Result<ProjectId, Error> {
    text.parse().map_err(|_| Error::NotFound("project"))
}
