//! `DELETE /api/projects/{id}`: the project, its conversations, its files. The answer means that nobody reaches them any more; the
//! directory goes behind the request's back, and with the next start if that fails.

use super::removal;
use crate::http::api::envelope;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;

/// Deletes the project.
pub(crate) async fn delete(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let none = Error::NotFound("project");
    let Ok(id) = call.segment("id").parse() else { return Err(none) };
    let removed = door.room.projects.remove_project(call.user, id).await?;
    removal::remove_later(&door.room, removed.ok_or(none)?);
    Ok(envelope::done("deleted"))
}
