//! `/api/projects`: projects, their files, whole folders at once. Owns what all of its routes share: whose a project is (P7),
//! what it looks like, and how much may be added to it.

mod allowance;
pub(crate) mod amend;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod directories;
pub(crate) mod files;
pub(crate) mod list;
mod removal;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod upload;
mod view;

use crate::domain::id::UserId;
use crate::domain::project::{DESCRIPTION_CHARS, Project, ProjectName};
use crate::http::body;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::json;
use crate::http::room::Room;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::StoreError;
use hyper::body::Incoming;
use std::sync::Arc;

/// Values of a request's object; its fields are few and flat.
const MOST_VALUES: usize = 64;

/// Does something that may block: rows one by one, and all work on files.
async fn blocking<T, F>(door: &Door, act: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&Arc<Room>) -> Result<T, Error> + Send + 'static,
{
    let room = Arc::clone(&door.room);
    tokio::task::spawn_blocking(move || act(&room)).await.map_err(|_| Error::Internal)?
}

/// The project of this id, if it is the caller's: another user's is none (P7).
fn owned(room: &Room, user: UserId, id: &str) -> Result<Project, Error> {
    let none = Error::NotFound("project");
    let Ok(id) = id.parse() else { return Err(none) };
    room.projects.project(user, id)?.ok_or(none)
}

/// Does something that may block with the project that the path names.
async fn with_project<T, F>(door: &Door, call: &Call, act: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&Arc<Room>, Project) -> Result<T, Error> + Send + 'static,
{
    let (user, id) = (call.user, call.segment("id").to_owned());
    blocking(door, move |room| act(room, owned(room, user, &id)?)).await
}

/// The body's fields. The project is looked up first: who cannot have it is told nothing else.
async fn fields(door: &Door, call: &Call, body: Incoming, known: &[&str]) -> Result<Fields, Error> {
    let whole = body::read(door, &call.headers, body).await?;
    Fields::new(json::object(&whole.bytes, MOST_VALUES)?, known)
}

fn name(given: Option<String>) -> Result<Option<ProjectName>, Error> {
    let Some(name) = given else { return Ok(None) };
    ProjectName::try_from(name).map(Some).map_err(|rule| Error::value("name", format!("'name' {rule}")))
}

fn description(given: Option<String>) -> Result<Option<String>, Error> {
    match given {
        Some(text) if text.chars().count() > DESCRIPTION_CHARS => {
            let rule = format!("'description' may have {DESCRIPTION_CHARS} characters");
            Err(Error::value("description", rule))
        }
        given => Ok(given),
    }
}

/// A name that is taken is a bad value, as the front end knows it.
fn named(error: StoreError) -> Error {
    match error {
        StoreError::NameTaken => Error::value("name", "a project of this name exists already"),
        other => Error::Store(other),
    }
}
