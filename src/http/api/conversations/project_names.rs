//! The names of the projects that conversations work in.

use crate::domain::conversation::Conversation;
use crate::domain::id::{ProjectId, UserId};
use crate::ports::{Projects, StoreError};
use std::collections::BTreeMap;

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
