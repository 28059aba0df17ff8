//! `POST /v1/jobs/{id}/retry`: a failed job again, from its last recorded step. Anything but a failed job is a 409.

use super::job_view::{self, JobView};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::quota;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::ports::StoreError;
use hyper::StatusCode;
use std::sync::Arc;

/// Puts the job into the queue again, and shows it as it then stands.
pub(crate) async fn retry(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    quota::check(door, call.user, None).await?;
    let job = match door.room.store.retry(call.user, id).await {
        Err(StoreError::WrongState { status }) => return Err(Error::NotFailed(status)),
        found => found?.ok_or(Error::NotFound("job"))?,
    };
    Ok(reply::json(StatusCode::ACCEPTED, &JobView::fresh(job)))
}
