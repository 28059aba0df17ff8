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
pub(crate) mod view;

use crate::domain::id::UserId;
use crate::domain::project::{DESCRIPTION_CHARS, Project, ProjectName};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::project;
use crate::http::room::Room;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::StoreError;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What can be said of a project.
pub(crate) const KNOWN: &[&str] = &["name", "description"];

/// Does something that may block: rows one by one, and all work on files.
async fn blocking<T, F>(door: &Door, act: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&Arc<Room>) -> Result<T, Error> + Send + 'static,
{
    let room = Arc::clone(&door.room);
    crate::http::blocking::blocking(move || act(&room)).await?
}

/// The project of this id, if it is the caller's: another user's is none (P7).
fn owned(room: &Room, user: UserId, id: &str) -> Result<Project, Error> {
    project::owned(room, user, project::parse_id(id)?)
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

/// What a project's object says of it: its name and its description.
pub(crate) fn read(map: Map<String, Value>) -> Result<(Option<ProjectName>, Option<String>), Error> {
    let mut fields = Fields::new(map, KNOWN)?;
    Ok((name(fields.text("name")?)?, description(fields.text("description")?)?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ProjectId;
    use crate::http::testing::{MemoryStore, Server, room};
    use crate::http::v1::spec;
    use serde_json::json;

    /// A project of somebody else, as its row.
    fn foreign(room: &Room) -> Project {
        let theirs = create::draft(room, UserId(7), "theirs".to_owned().try_into().expect("a name"));
        room.projects.create_project(theirs, 9).wait().expect("founded")
    }

    #[test]
    fn p7_another_users_project_is_told_as_one_that_is_not_there() {
        let room = room(&Arc::new(MemoryStore::default()));
        let theirs = foreign(&room);
        let asked = |id: String| owned(&room, UserId::SINGLE, &id).expect_err("not there").to_string();
        let unknown = ProjectId::from_bits(1).to_string();
        assert_eq!(asked(theirs.id.to_string()), asked(unknown));
        assert_eq!(owned(&room, UserId(7), &theirs.id.to_string()).expect("its owner's"), theirs);
    }

    #[test]
    fn p7_a_job_takes_its_users_projects_and_no_others() {
        let room = room(&Arc::new(MemoryStore::default()));
        let theirs = foreign(&room);
        let job = |user| {
            let Value::Object(map) = json!({"input": "x", "project_id": theirs.id}) else { unreachable!() };
            spec::from_json(map, &room, user).map(|spec| spec.project_id)
        };
        assert_eq!(job(UserId(7)).expect("a job"), Some(theirs.id));
        assert!(matches!(job(UserId::SINGLE), Err(Error::NotFound("project"))));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn p7_another_users_project_has_no_routes() {
        let (told, hears) = std::sync::mpsc::channel();
        let server = Server::with(|room| drop(told.send(tokio::task::block_in_place(|| foreign(room)))));
        let id = hears.recv().expect("a project").id;
        for line in ["GET /api/projects/{id}", "DELETE /api/projects/{id}", "GET /api/projects/{id}/files"] {
            let answer = server.ask(&line.replace("{id}", &id.to_string()), &[], "").await;
            let wanted = json!({"code": 404, "message": "project not found"});
            assert_eq!((answer.status, answer.json()), (404, wanted), "{line}");
        }
    }
}
