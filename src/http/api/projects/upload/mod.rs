//! `POST /api/projects/upload` and `POST /api/projects/{id}/upload`: a folder as `multipart/form-data`, into a new project or into one
//! that is there. Owns what the fields mean. It is written as it comes, and all of it is there in the end or none: a project is
//! seen once it is whole, and of files that are added to one those go again that came before the one that failed.

mod form;
mod intake;
mod place;

use super::view::{More, ProjectView, Stats, view};
use super::{blocking, description, name, with_project};
use crate::domain::id::UserId;
use crate::domain::project::{Project, ProjectName};
use crate::http::api::envelope;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::room::Room;
use crate::http::router::Call;
use crate::http::v1::field::unknown;
use form::{Form, Part};
use intake::{Added, Aim, Intake};
use place::Place;
use std::sync::Arc;

/// What a directory is called whose project's name is not known yet.
const NAMELESS: &str = "upload";

/// What was said beside the files.
#[derive(Default)]
struct Said {
    name: Option<ProjectName>,
    description: Option<String>,
    /// The folder of the first file.
    top: Option<String>,
}

/// Where the files go.
enum Way {
    New(UserId),
    Into(Project),
}

/// A new project with these files.
pub(crate) async fn create(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let sender = body.sender();
    let mut form = Form::of_request(door, &call.headers, body)?;
    let way = Way::New(call.user);
    drop(call); // nothing of the request outlives its reading
    let (said, intake) = take_in(door, &way, &mut form).await?;
    sender.confirm(door)?;
    let named = said.name.map_or_else(|| name(said.top), |given| Ok(Some(given)))?;
    let named = named.ok_or_else(|| {
        Error::value("name", "'name' is missing: no file lies in a folder that could name the project")
    })?;
    let description = said.description.unwrap_or_default();
    let made = blocking(door, move |room| {
        let now_ms = room.clock.now_ms();
        let dated = |project| Project { created_at_ms: now_ms, updated_at_ms: now_ms, ..project };
        let project = intake.found(|project| dated(Project { name: named, description, ..project }))?;
        shown(room, project)
    });
    Ok(envelope::data(made.await?))
}

/// These files into a project; none that is there gives way.
pub(crate) async fn add(door: &Arc<Door>, call: Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let project = with_project(door, &call, |_, project| Ok(project)).await?;
    let sender = body.sender();
    let mut form = Form::of_request(door, &call.headers, body)?;
    drop(call); // nothing of the request outlives its reading
    let (_, intake) = take_in(door, &Way::Into(project.clone()), &mut form).await?;
    sender.confirm(door)?;
    let added = blocking(door, move |room| {
        intake.keep()?;
        shown(room, project)
    });
    Ok(envelope::data(added.await?))
}

fn shown(room: &Room, project: Project) -> Result<ProjectView, Error> {
    let stats = Some(Stats::of_upload(room.workspaces.stats(&project)?));
    Ok(view(room, project)?.with(More { stats, ..More::default() }))
}

/// Reads all parts. The parts may come in any order: what a project is called is settled in the end.
async fn take_in(door: &Door, way: &Way, form: &mut Form) -> Result<(Said, Intake), Error> {
    let is_new = matches!(way, Way::New(_));
    let known: &[&str] = if is_new { &["files", "name", "description"] } else { &["files"] };
    let (mut said, mut intake) = (Said::default(), None);
    while let Some(part) = form.next().await? {
        match part.name().unwrap_or_default() {
            "files" | "files[]" => {
                let Place { top, path } = place::place(part.file_name())?;
                let begun = match intake.take() {
                    Some(begun) => begun,
                    None => open(door, way, &said, top.as_deref()).await?,
                };
                said.top = said.top.or(top);
                intake = Some(take_file(form, part, begun, path).await?);
            }
            "name" if is_new && said.name.is_none() => {
                let text = form.text("name", part).await?;
                said.name = name(Some(text).filter(|text| !text.trim().is_empty()))?;
            }
            "description" if is_new && said.description.is_none() => {
                said.description = description(Some(form.text("description", part).await?))?;
            }
            "name" | "description" if is_new => {
                return Err(Error::malformed("'name' and 'description' may be given once"));
            }
            other => return Err(unknown(other, known)),
        }
    }
    let intake = intake.ok_or_else(|| Error::value("files", "'files' is missing: one part for each file"))?;
    Ok((said, intake.flush().await?))
}

async fn take_file(form: &mut Form, mut part: Part, intake: Intake, path: String) -> Result<Intake, Error> {
    let mut intake = intake.begin(path)?;
    while let Some(data) = form.piece(&mut part).await? {
        intake.take(data);
        if intake.is_heavy() {
            intake = intake.flush().await?;
            form.settle();
        }
    }
    Ok(intake.end())
}

/// The first file is there: now there has to be a place for it.
async fn open(door: &Door, way: &Way, said: &Said, top: Option<&str>) -> Result<Intake, Error> {
    let known = said.name.clone().or_else(|| top.and_then(|top| top.to_owned().try_into().ok()));
    let aim = match (way, known) {
        (Way::New(user), Some(named)) => Aim::New(*user, named),
        (Way::New(user), None) => {
            Aim::New(*user, NAMELESS.to_owned().try_into().map_err(|_: &str| Error::Internal)?)
        }
        (Way::Into(project), _) => Aim::Into(Added::new(&door.room, project.clone())),
    };
    blocking(door, move |room| Intake::open(room, aim)).await
}
