//! `GET /v1/jobs/{id}`.

use super::{job_view, wait};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use hyper::StatusCode;
use std::sync::Arc;

/// The job as it stands, or as it stands after `?wait=`.
pub(crate) async fn show(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    let query = Query::parse(call.query.as_deref(), &["wait"])?;
    let wait_s = query.whole("wait", 0..=door.room.limits.wait_s)?.unwrap_or(0);
    wait::for_job(door, call.user, id, wait_s).await?;
    let view = job_view::look(door, call.user, id).await?;
    Ok(reply::json(StatusCode::OK, &view))
}
