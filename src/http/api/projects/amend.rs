//! `PUT` and `PATCH /api/projects/{id}`: another name, another description. Its directory stays where it is.

use super::view::view;
use super::{blocking, named, read, with_project};
use crate::http::api::envelope;
use crate::http::api::object::object;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;

/// Changes the project.
pub(crate) async fn update(door: &Door, call: &Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let id = with_project(door, call, |_, project| Ok(project.id)).await?;
    let (name, description) = read(object(door, call, body).await?)?;
    let user = call.user;
    let shown = blocking(door, move |room| {
        let amended = room.projects.update_project(user, id, name, description).wait().map_err(named)?;
        view(room, amended.ok_or(Error::NotFound("project"))?)
    });
    Ok(envelope::data(shown.await?))
}
