//! `GET /api/projects`: the caller's projects, the one that changed last first, page by page.

use super::blocking;
use super::view::views;
use crate::domain::id::UserId;
use crate::http::api::envelope;
use crate::http::api::page::{self, Page};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::{Query, digits};
use crate::http::quoted::quoted;
use crate::http::reply::Reply;
use crate::http::room::Room;
use crate::http::router::Call;
use crate::ports::ProjectCursor;

/// Projects of a page when nobody says how many.
const USUAL: usize = 20;

/// A page of projects.
pub(crate) async fn list(door: &Door, call: &Call) -> Result<Reply, Error> {
    let query = Query::parse(call.query.as_deref(), &["cursor", "limit"])?;
    let limit = page::limit(&query, USUAL, &door.room.limits)?;
    let (user, cursor) = (call.user, query.text("cursor").map(str::to_owned));
    let page = blocking(door, move |room| {
        let before = cursor.map(|cursor| place(room, user, &cursor)).transpose()?;
        let found = room.projects.projects(user, before, limit)?;
        let last = found.projects.last().filter(|_| found.has_more);
        let next = last.map(|last| format!("{}-{}", last.updated_at_ms, last.id));
        Ok(Page::new(views(room, user, found.projects)?, next).of(found.total))
    });
    Ok(envelope::data(page.await?))
}

/// Where the page before ended, whatever became of its last project; or a project's id, as older front ends say it.
fn place(room: &Room, user: UserId, cursor: &str) -> Result<ProjectCursor, Error> {
    if let Some((at, id)) = cursor.split_once('-')
        && let (Some(updated_at_ms), Ok(id)) = (digits(at), id.parse())
    {
        return Ok(ProjectCursor { updated_at_ms, id });
    }
    let known = match cursor.parse() {
        Ok(id) => room.projects.project(user, id)?,
        Err(_) => None,
    };
    let place = known.map(|known| ProjectCursor { updated_at_ms: known.updated_at_ms, id: known.id });
    place.ok_or_else(|| {
        Error::value("cursor", format!("'cursor' must be the next_cursor of a page, not {}", quoted(cursor)))
    })
}
