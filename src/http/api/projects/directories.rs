//! `POST /api/projects/{id}/directories`: a directory and those above it.

use super::{allowance::allowance, blocking, fields, files::shown, with_project};
use crate::http::api::envelope;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use serde::Serialize;

#[derive(Serialize)]
struct Made {
    path: String,
}

/// Makes a directory; one that is there is fine.
pub(crate) async fn make(door: &Door, call: &Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let project = with_project(door, call, |_, project| Ok(project)).await?;
    let mut fields = fields(door, call, body, &["path"]).await?;
    let path = fields.text("path")?;
    let path = path.ok_or_else(|| Error::value("path", "'path' is missing: where the directory is to be"))?;
    let made = blocking(door, move |room| {
        room.workspaces.make_directory(&project, &path, allowance(room, &project)?)?;
        Ok(Made { path: shown(&path).1 })
    });
    Ok(envelope::data(made.await?))
}
