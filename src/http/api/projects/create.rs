//! `POST /api/projects`: an empty project. It is seen once its directory is there.

use super::view::{ProjectView, view};
use super::{allowance, blocking, named, read, removal};
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::http::api::envelope;
use crate::http::api::object::object;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::room::Room;
use crate::http::router::Call;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Makes a project.
pub(crate) async fn create(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let (name, description) = wish(object(door, &call, body).await?)?;
    let user = call.user;
    let made = blocking(door, move |room| make(room, user, name, description)).await?;
    Ok(envelope::data(made))
}

/// What the new project's object says.
pub(crate) fn wish(map: Map<String, Value>) -> Result<(ProjectName, String), Error> {
    let (name, description) = read(map)?;
    let name = name.ok_or_else(|| Error::value("name", "'name' is missing: what the project is called"))?;
    Ok((name, description.unwrap_or_default()))
}

fn make(
    room: &Arc<Room>,
    user: UserId,
    name: ProjectName,
    description: String,
) -> Result<ProjectView, Error> {
    // It would be found out in the end; but then for a directory that was made in vain.
    if room.projects.all_projects(user)?.iter().any(|other| other.name == name) {
        return Err(named(crate::ports::StoreError::NameTaken));
    }
    let project = Project { description, ..draft(room, user, name) };
    let reserved = Reserved::new(room, project)?;
    view(room, reserved.found(|project| project)?)
}

/// A project in the making: its directory is named after it.
pub(super) fn draft(room: &Room, user: UserId, name: ProjectName) -> Project {
    let now_ms = room.clock.now_ms();
    Project {
        id: ProjectId::from_bits(room.mint.mint(now_ms, room.entropy.random())),
        user,
        directory: name.as_str().to_owned(),
        name,
        description: String::new(),
        created_at_ms: now_ms,
        updated_at_ms: now_ms,
    }
}

/// A project with a directory that nobody sees yet. Dropped before it is founded, it is removed.
pub(super) struct Reserved {
    room: Arc<Room>,
    project: Option<Project>,
}

impl Reserved {
    /// Reserves its directory's name, then makes the directory. Blocking.
    pub(super) fn new(room: &Arc<Room>, project: Project) -> Result<Self, Error> {
        let project = room.projects.reserve_project(project, room.limits.projects).wait().map_err(named)?;
        let reserved = Self { room: Arc::clone(room), project: Some(project.clone()) };
        room.workspaces.make(&project)?;
        Ok(reserved)
    }

    /// The project as it stands.
    pub(super) fn project(&self) -> Result<&Project, Error> {
        self.project.as_ref().ok_or(Error::Internal)
    }

    /// Lets it be seen, as `finish` makes it. Blocking.
    pub(super) fn found(mut self, finish: impl FnOnce(Project) -> Project) -> Result<Project, Error> {
        let project = finish(self.project()?.clone());
        allowance::check(&self.room, &project)?;
        let founded = self.room.projects.create_project(project, self.room.limits.projects).wait();
        let founded = founded.map_err(named)?;
        self.project = None;
        Ok(founded)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(project) = self.project.take() {
            removal::remove_later(&self.room, project);
        }
    }
}
