//! `POST /api/projects`: an empty project. It becomes visible once its directory exists.

use super::access::{ProjectRequest, blocking};
use super::quota;
use super::view::view;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::domain::workspace::Workspace;
use crate::http::api::envelope;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::response::HandlerResult;
use crate::ports::HeldLock;
use std::sync::Arc;

pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let ProjectRequest { name, description } = json::read(context, &request, body).await?;
    let name =
        name.ok_or_else(|| ApiError::value("name", "'name' is missing: what the project is called"))?;
    let description = description.map(|text| text.0).unwrap_or_default();
    let user = request.user;
    let made = blocking(context, user, move |app| {
        let project = make(app, user, name, description)?;
        view(app, project)
    });
    Ok(envelope::data(made.await?))
}

/// Makes an empty project. Blocking.
pub(crate) fn make(
    app: &Arc<AppDependencies>,
    user: UserId,
    name: ProjectName,
    description: String,
) -> Result<Project, ApiError> {
    // The store would refuse it later, after a directory was made in vain.
    if app.projects.all_projects(user)?.iter().any(|other| other.name == name) {
        return Err(crate::ports::ProjectError::NameTaken.into());
    }
    let project = Project { description, ..draft(app, user, name) };
    ReservedProject::new(app, project)?.publish(|project| project)
}

/// A new project, not stored yet. Its directory has its name.
pub(crate) fn draft(app: &AppDependencies, user: UserId, name: ProjectName) -> Project {
    let now_ms = app.clock.now_ms();
    Project {
        id: ProjectId::from_bits(app.mint.mint(now_ms, app.entropy.random())),
        user,
        directory: name.as_str().to_owned(),
        name,
        description: String::new(),
        created_at_ms: now_ms,
        updated_at_ms: now_ms,
    }
}

/// A project that is not visible yet. Dropped before [`Self::publish`], it is removed.
pub(crate) struct ReservedProject {
    app: Arc<AppDependencies>,
    project: Option<Project>,
    _claim: HeldLock,
}

impl ReservedProject {
    /// Reserves the name of the directory, then makes it. Blocking.
    pub(crate) fn new(app: &Arc<AppDependencies>, project: Project) -> Result<Self, ApiError> {
        let claim = app.workspaces.claim(&Workspace::from(&project))?;
        let project = app.projects.reserve_project(project, app.limits.projects).wait()?;
        let reserved = Self { app: Arc::clone(app), project: Some(project.clone()), _claim: claim };
        app.workspaces.make(&Workspace::from(&project))?;
        Ok(reserved)
    }

    pub(crate) fn app(&self) -> &AppDependencies {
        &self.app
    }

    pub(crate) fn project(&self) -> Result<&Project, ApiError> {
        self.project.as_ref().ok_or(ApiError::Internal)
    }

    /// Makes the project visible, as changed by `finish`. Blocking.
    pub(crate) fn publish(mut self, finish: impl FnOnce(Project) -> Project) -> Result<Project, ApiError> {
        let project = finish(self.project()?.clone());
        quota::check(&self.app, &project)?;
        let founded = self.app.projects.create_project(project, self.app.limits.projects).wait()?;
        self.project = None;
        Ok(founded)
    }
}

impl Drop for ReservedProject {
    fn drop(&mut self) {
        if let Some(project) = self.project.take() {
            remove_later(&self.app, project);
        }
    }
}

/// Removes the directory of a deleted project on a thread that may block. After a failure the next start
/// does it, or the node that cleans up.
pub(crate) fn remove_later(app: &Arc<AppDependencies>, project: Project) {
    let (threads, app) = (app.threads_of(project.user), Arc::clone(app));
    threads.run_later(move || remove(&app, project));
}

pub(crate) fn remove(app: &AppDependencies, project: Project) {
    let (id, workspace) = (project.id, Workspace::from(&project));
    let removed =
        app.workspaces.claim(&workspace).and_then(|claim| app.workspaces.remove(&workspace).map(|()| claim));
    // Held until the removal is recorded: then another project may have the directory.
    let _claim = match removed {
        Err(error) => {
            tracing::warn!(project = %id, %error, "a project's directory stays until the next start");
            return;
        }
        Ok(claim) => claim,
    };
    if let Err(error) = app.projects.mark_removed(project).wait() {
        tracing::warn!(project = %id, %error, "that a project's directory is gone could not be noted");
    }
}
