//! `POST /v1/jobs/{id}/cancel`. Idempotent: an ended job stays as it is.

use super::job_view;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use hyper::StatusCode;
use std::sync::Arc;

/// Asks for the job's end, and shows it as it then stands.
pub(crate) async fn cancel(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    let job = door.room.store.cancel(call.user, id).await?.ok_or(Error::NotFound("job"))?;
    let view = door.read(move |store| job_view::read(store, job)).await?;
    Ok(reply::json(StatusCode::OK, &view))
}
