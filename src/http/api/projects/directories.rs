//! `POST /api/projects/{id}/directories`: a directory and those above it.

use super::{allowance::allowance, blocking, files::shown, with_project};
use crate::http::api::envelope;
use crate::http::api::object::object;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use serde::Serialize;
use serde_json::{Map, Value};

/// What is said of it.
pub(crate) const KNOWN: &[&str] = &["path"];

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MadeDirectory"))]
#[derive(Serialize)]
pub(crate) struct Made {
    path: String,
}

/// Makes a directory; one that is there is fine.
pub(crate) async fn make(door: &Door, call: &Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let project = with_project(door, call, |_, project| Ok(project)).await?;
    let path = read(object(door, call, body).await?)?;
    let made = blocking(door, move |room| {
        room.workspaces.make_directory(&project, &path, allowance(room, &project)?)?;
        Ok(Made { path: shown(&path).1 })
    });
    Ok(envelope::data(made.await?))
}

/// Where it is to be.
pub(crate) fn read(map: Map<String, Value>) -> Result<String, Error> {
    let path = Fields::new(map, KNOWN)?.text("path")?;
    path.ok_or_else(|| Error::value("path", "'path' is missing: where the directory is to be"))
}
