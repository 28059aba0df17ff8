//! `resources/list`: the jobs of the user, newest first, then the files of the user's projects. A cursor says
//! where the next page begins.

use super::uri::ResourceUri;
use super::{JSON, PageParams};
use crate::domain::id::{ProjectId, UserId};
use crate::domain::job::Job;
use crate::domain::job_filter::JobFilter;
use crate::domain::project::Project;
use crate::domain::workspace::Workspace;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use crate::http::mcp::message::RpcError;
use crate::http::request::quoted::quoted;
use crate::http::request::typed;
use crate::ports::{FileEntry, FileError, GlobQuery, JobQuery};
use serde_json::{Map, Value, json};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Characters of a job's input in its title.
const TITLE_CHARS: usize = 80;

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListPosition {
    /// Jobs before this place; `None`: all.
    Jobs(Option<u64>),
    /// Files of this project and of those after it, without the first ones of this project.
    Files(ProjectId, usize),
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs(before) => write!(f, "jobs:{}", before.unwrap_or(u64::MAX)),
            Self::Files(project, skipped) => write!(f, "files:{project}:{skipped}"),
        }
    }
}

impl FromStr for ListPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, rest) = text.split_once(':').ok_or(())?;
        match (kind, rest.split_once(':')) {
            ("jobs", None) => Ok(Self::Jobs(Some(rest.parse().map_err(|_| ())?))),
            ("files", Some((project, skipped))) => {
                Ok(Self::Files(project.parse().map_err(|_| ())?, skipped.parse().map_err(|_| ())?))
            }
            _ => Err(()),
        }
    }
}

struct ResourcePage {
    resources: Vec<Value>,
    next: Option<ListPosition>,
}

pub(in crate::http::mcp) async fn list(
    request: &McpClientRequest,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let PageParams { cursor } = typed::from_map(params)?;
    let position = match cursor {
        None => ListPosition::Jobs(None),
        Some(text) => text.parse().map_err(|()| {
            RpcError::Params(format!("'cursor' must be the nextCursor of a page, not {}", quoted(&text)))
        })?,
    };
    let (app, user) = (Arc::clone(&request.context.app), request.caller.user);
    let ResourcePage { resources, next } =
        request.context.app.blocking(user, move || page(&app, user, position)).await??;
    let mut result = json!({"resources": resources});
    if let (Some(next), Some(fields)) = (next, result.as_object_mut()) {
        fields.insert("nextCursor".to_owned(), next.to_string().into());
    }
    Ok(result)
}

fn page(app: &AppDependencies, user: UserId, position: ListPosition) -> Result<ResourcePage, ApiError> {
    match position {
        ListPosition::Jobs(before) => jobs(app, user, before),
        ListPosition::Files(project, skipped) => files(app, user, (project, skipped)),
    }
}

fn jobs(app: &AppDependencies, user: UserId, before: Option<u64>) -> Result<ResourcePage, ApiError> {
    let limit = app.limits.page_max;
    let page = app.store.jobs(&JobQuery { user, status: None, filter: JobFilter::NONE, before, limit })?;
    let resources = page.jobs.iter().map(job).collect();
    let next = match page.next {
        Some(before) => Some(ListPosition::Jobs(Some(before))),
        None => projects(app, user)?.first().map(|project| ListPosition::Files(project.id, 0)),
    };
    Ok(ResourcePage { resources, next })
}

fn job(job: &Job) -> Value {
    let input = job.input.as_ref().map_or("", |input| input.text.as_str());
    let title: String = input.chars().take(TITLE_CHARS).collect();
    json!({
        "uri": ResourceUri::Job(job.id).to_string(),
        "name": job.id,
        "title": if title.is_empty() { job.id.to_string() } else { title },
        "description": format!("Job, {}", job.status.as_str()),
        "mimeType": JSON,
    })
}

/// The user's projects in an order that changes do not touch.
fn projects(app: &AppDependencies, user: UserId) -> Result<Vec<Project>, ApiError> {
    let mut projects = app.projects.all_projects(user)?;
    projects.sort_unstable_by_key(|project| project.id);
    Ok(projects)
}

fn files(
    app: &AppDependencies,
    user: UserId,
    (first, skipped): (ProjectId, usize),
) -> Result<ResourcePage, ApiError> {
    app.workspaces.check_access()?;
    let (mut resources, mut skipped) = (Vec::new(), skipped);
    let most = app.limits.page_max;
    for project in projects(app, user)?.into_iter().filter(|project| project.id >= first) {
        // The project of the cursor may be gone.
        if project.id != first {
            skipped = 0;
        }
        let found = visible_files(app, &project)?;
        let room = most.saturating_sub(resources.len());
        let taken = found.iter().skip(skipped).take(room);
        resources.extend(taken.map(|entry| file(&project, entry)));
        let seen = skipped.saturating_add(room);
        if seen < found.len() {
            let next = Some(ListPosition::Files(project.id, seen));
            return Ok(ResourcePage { resources, next });
        }
    }
    Ok(ResourcePage { resources, next: None })
}

/// All files without those that tools may not read.
fn visible_files(app: &AppDependencies, project: &Project) -> Result<Vec<FileEntry>, ApiError> {
    let glob = "**/*".to_owned();
    let query = GlobQuery { path: String::new(), glob, with_hidden: false, hides_secrets: true };
    match app.workspaces.find(&Workspace::from(project), &query) {
        Ok(listing) => Ok(listing.files),
        // Deleted in the meantime.
        Err(FileError::NotFound(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn file(project: &Project, entry: &FileEntry) -> Value {
    json!({
        "uri": ResourceUri::File(project.id, entry.path.clone()).to_string(),
        "name": entry.path,
        "description": format!("File of the project '{}'", project.name.as_str()),
        "size": entry.size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_others_are_refused() {
        for position in [ListPosition::Jobs(Some(7)), ListPosition::Files(ProjectId::from_bits(8), 9)] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for bad in ["", "jobs", "jobs:", "jobs:x", "jobs:1:2", "files:proj_x:1", "7", "files:1"] {
            assert_eq!(bad.parse::<ListPosition>(), Err(()), "{bad}");
        }
    }
}
