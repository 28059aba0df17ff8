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

/// The project, if it belongs to the user. Reads the store.
pub(crate) fn owned(app: &AppDependencies, user: UserId, id: ProjectId) -> Result<Project, ApiError> {
    app.projects.project(user, id)?.ok_or(NONE)
}

/// Checks that the project exists and belongs to the user.
pub(crate) async fn check(context: &ServerContext, user: UserId, id: ProjectId) -> Result<(), ApiError> {
    let projects = Arc::clone(&context.app.projects);
    let found = context.read(move |_| projects.project(user, id)).await?;
    found.map(drop).ok_or(NONE)
}
