//! Finds the project that a request names. A project of another user does not exist (P7).

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use std::sync::Arc;

const NONE: ApiError = ApiError::NotFound("project");

/// Parses an id. A malformed id is a 404.
pub(crate) fn parse_id(text: &str) -> Result<ProjectId, ApiError> {
    text.parse().map_err(|_| NONE)
}

/// The project, if it belongs to the user and this node has its files. Reads the store.
pub(crate) fn owned(app: &AppDependencies, user: UserId, id: ProjectId) -> Result<Project, ApiError> {
    let project = app.projects.project(user, id)?.ok_or(NONE)?;
    app.workspaces.check_access()?;
    Ok(project)
}

/// Checks that the project exists and belongs to the user, and that this node has its files.
pub(crate) async fn check(context: &ServerContext, user: UserId, id: ProjectId) -> Result<(), ApiError> {
    let app = Arc::clone(&context.app);
    context.app.blocking(user, move || owned(&app, user, id).map(drop)).await?
}
