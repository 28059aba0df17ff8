//! The project that a request names, if it is the caller's: another user's is none (P7). Owns the one answer for both; refuses
//! files, and everything else that is done with one.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use std::sync::Arc;

const NONE: ApiError = ApiError::NotFound("project");

/// What is no id names no project.
pub(crate) fn parse_id(text: &str) -> Result<ProjectId, ApiError> {
    text.parse().map_err(|_| NONE)
}

/// The project of this id. Reads the store.
pub(crate) fn owned(app: &AppDependencies, user: UserId, id: ProjectId) -> Result<Project, ApiError> {
    app.projects.project(user, id)?.ok_or(NONE)
}

/// The same, on a thread that may block, for whoever only has to know.
pub(crate) async fn check(context: &ServerContext, user: UserId, id: ProjectId) -> Result<(), ApiError> {
    let projects = Arc::clone(&context.app.projects);
    let found = context.read(move |_| projects.project(user, id)).await?;
    found.map(drop).ok_or(NONE)
}
