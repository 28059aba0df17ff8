//! `/api/projects`: list, show, change and delete projects.

pub(crate) mod access;
pub(crate) mod create;
pub(crate) mod files;
mod quota;
pub(crate) mod search;
pub(crate) mod upload;
pub(crate) mod view;

use crate::domain::account::Role;
use crate::domain::id::UserId;
use crate::domain::workspace::Workspace;
use crate::http::api::envelope::{self, PageResponse};
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::query::digits;
use crate::http::request::quoted::quoted;
use crate::http::response::HandlerResult;
use crate::ports::{FileError, ProjectCursor, TreeStats};
use access::{ProjectRequest, blocking, with_project};
use view::{ProjectDetails, ProjectStatsResponse, view, views};

/// Projects of a page when nobody says how many.
const USUAL: usize = 20;

/// A page of projects.
pub(crate) async fn list(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let limit = envelope::limit(query, USUAL, &context.app.limits)?;
    let (user, cursor) = (request.user, query.text("cursor").map(str::to_owned));
    let page = blocking(context, user, move |app| {
        let before = cursor.map(|cursor| place(app, user, &cursor)).transpose()?;
        let found = app.projects.projects(user, before, limit)?;
        let last = found.projects.last().filter(|_| found.has_more);
        let next = last.map(|last| format!("{}-{}", last.updated_at_ms, last.id));
        Ok(PageResponse::new(views(app, user, found.projects)?, next).of(found.total))
    });
    Ok(envelope::data(page.await?))
}

/// The position of the last project on the page before; or the id of a project, as older front ends send
/// it.
fn place(app: &AppDependencies, user: UserId, cursor: &str) -> Result<ProjectCursor, ApiError> {
    if let Some((at, id)) = cursor.split_once('-')
        && let (Some(updated_at_ms), Ok(id)) = (digits(at), id.parse())
    {
        return Ok(ProjectCursor { updated_at_ms, id });
    }
    let known = match cursor.parse() {
        Ok(id) => app.projects.project(user, id)?,
        Err(_) => None,
    };
    let place = known.map(|known| ProjectCursor { updated_at_ms: known.updated_at_ms, id: known.id });
    place.ok_or_else(|| {
        ApiError::value(
            "cursor",
            format!("'cursor' must be the next_cursor of a page, not {}", quoted(cursor)),
        )
    })
}

/// The project.
pub(crate) async fn show(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let is_told = may_know_the_host(request.caller);
    let shown = with_project(context, request, move |app, project| {
        let stats = match app.workspaces.stats(&Workspace::from(&project)) {
            // The directory was removed on the host: the project is shown as empty.
            Err(FileError::NotFound(_)) => TreeStats::default(),
            other => other?,
        };
        let stats = Some(ProjectStatsResponse::of_project(stats));
        let absolute_path =
            is_told.then(|| app.workspaces.absolute(&Workspace::from(&project)).display().to_string());
        Ok(view(app, project)?.with(ProjectDetails { absolute_path, stats }))
    });
    Ok(envelope::data(shown.await?))
}

/// The one user of single mode is an administrator as well.
fn may_know_the_host(caller: Caller) -> bool {
    caller.role == Role::Admin && caller.scopes.admin
}

/// Changes the project.
pub(crate) async fn update(
    context: &ServerContext,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let id = with_project(context, &request, |_, project| Ok(project.id)).await?;
    let ProjectRequest { name, description } = json::read(context, &request, body).await?;
    let description = description.map(|text| text.0);
    let user = request.user;
    let shown = blocking(context, user, move |app| {
        let amended = app.projects.update_project(user, id, name, description).wait()?;
        view(app, amended.ok_or(ApiError::NotFound("project"))?)
    });
    Ok(envelope::data(shown.await?))
}

/// Deletes the project.
pub(crate) async fn delete(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let removed = context.app.projects.remove_project(request.user, request.id("project")?).await?;
    create::remove_later(&context.app, removed.ok_or(ApiError::NotFound("project"))?);
    Ok(envelope::done("deleted"))
}
