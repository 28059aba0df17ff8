//! A project as `/api` shows it.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use crate::http::api::envelope::date;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::ports::TreeStats;
use serde::Serialize;
use std::collections::BTreeMap;

/// A project.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Project"))]
#[derive(Serialize)]
pub(crate) struct ProjectResponse {
    id: ProjectId,
    name: String,
    path: String,
    description: String,
    created_at: String,
    updated_at: String,
    conversation_count: u64,
    #[serde(flatten)]
    more: ProjectDetails,
}

/// Fields of some responses only.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectMore"))]
#[derive(Default, Serialize)]
pub(crate) struct ProjectDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) absolute_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<ProjectStatsResponse>,
}

/// Size of a project. Its bytes have two names, one for each route.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectStats"))]
#[derive(Default, Serialize)]
pub(crate) struct ProjectStatsResponse {
    files: u64,
    directories: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_size: Option<u64>,
}

impl ProjectStatsResponse {
    /// As an upload reports it.
    pub(crate) fn of_upload(stats: TreeStats) -> Self {
        let TreeStats { files, directories, size } = stats;
        Self { files, directories, size: Some(size), total_size: None }
    }

    /// As a project reports it.
    pub(crate) fn of_project(stats: TreeStats) -> Self {
        let TreeStats { files, directories, size } = stats;
        Self { files, directories, size: None, total_size: Some(size) }
    }
}

/// The project with its conversations counted.
pub(crate) fn view(app: &AppDependencies, project: Project) -> Result<ProjectResponse, ApiError> {
    let counts = app.conversations.counts_by_project(project.user)?;
    Ok(counted(project, &counts))
}

/// Several projects of one user; conversations are counted once.
pub(crate) fn views(
    app: &AppDependencies,
    user: UserId,
    projects: Vec<Project>,
) -> Result<Vec<ProjectResponse>, ApiError> {
    let counts = app.conversations.counts_by_project(user)?;
    Ok(projects.into_iter().map(|project| counted(project, &counts)).collect())
}

fn counted(project: Project, counts: &BTreeMap<ProjectId, u64>) -> ProjectResponse {
    let path = project.path();
    ProjectResponse {
        conversation_count: counts.get(&project.id).copied().unwrap_or_default(),
        id: project.id,
        name: project.name.into(),
        path,
        description: project.description,
        created_at: date(project.created_at_ms),
        updated_at: date(project.updated_at_ms),
        more: ProjectDetails::default(),
    }
}

impl ProjectResponse {
    pub(crate) fn with(self, more: ProjectDetails) -> Self {
        Self { more, ..self }
    }
}
