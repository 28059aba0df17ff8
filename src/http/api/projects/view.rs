//! What a project looks like. Owns the shape of its object and of its statistics.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use crate::http::api::dates::date;
use crate::http::error::Error;
use crate::http::room::Room;
use crate::ports::TreeStats;
use serde::Serialize;
use std::collections::BTreeMap;

/// A project.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Project"))]
#[derive(Serialize)]
pub(crate) struct ProjectView {
    id: ProjectId,
    name: String,
    path: String,
    description: String,
    created_at: String,
    updated_at: String,
    conversation_count: u64,
    #[serde(flatten)]
    more: More,
}

/// What some answers tell beyond.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectMore"))]
#[derive(Default, Serialize)]
pub(crate) struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absolute_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stats: Option<Stats>,
}

/// What a project holds; its bytes have two names, one for each route that tells them.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectStats"))]
#[derive(Default, Serialize)]
pub(crate) struct Stats {
    files: u64,
    directories: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_size: Option<u64>,
}

impl Stats {
    /// As an upload tells it.
    pub(super) fn of_upload(stats: TreeStats) -> Self {
        let TreeStats { files, directories, size } = stats;
        Self { files, directories, size: Some(size), total_size: None }
    }

    /// As a project tells it.
    pub(super) fn of_project(stats: TreeStats) -> Self {
        let TreeStats { files, directories, size } = stats;
        Self { files, directories, size: None, total_size: Some(size) }
    }
}

/// The project with its conversations counted.
pub(super) fn view(room: &Room, project: Project) -> Result<ProjectView, Error> {
    let counts = room.conversations.counts_by_project(project.user)?;
    Ok(counted(project, &counts))
}

/// The same, of several projects of one user, whose conversations are counted once.
pub(super) fn views(room: &Room, user: UserId, projects: Vec<Project>) -> Result<Vec<ProjectView>, Error> {
    let counts = room.conversations.counts_by_project(user)?;
    Ok(projects.into_iter().map(|project| counted(project, &counts)).collect())
}

fn counted(project: Project, counts: &BTreeMap<ProjectId, u64>) -> ProjectView {
    let path = project.path();
    ProjectView {
        conversation_count: counts.get(&project.id).copied().unwrap_or_default(),
        id: project.id,
        name: project.name.into(),
        path,
        description: project.description,
        created_at: date(project.created_at_ms),
        updated_at: date(project.updated_at_ms),
        more: More::default(),
    }
}

impl ProjectView {
    /// The same, and more.
    pub(super) fn with(self, more: More) -> Self {
        Self { more, ..self }
    }
}
