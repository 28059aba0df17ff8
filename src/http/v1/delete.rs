//! `DELETE /v1/jobs/{id}`: an ended job with everything that belongs to it, its part of the conversation included. A job
//! that has not ended is a 409.

use super::job_view;
use crate::domain::id::JobId;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::ports::StoreError;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Gone {
    id: JobId,
    object: &'static str,
    deleted: bool,
}

/// Deletes the job.
pub(crate) async fn delete(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    match door.room.store.delete(call.user, id).await {
        Err(StoreError::WrongState { status }) => Err(Error::NotEnded(status)),
        Ok(false) => Err(Error::NotFound("job")),
        Ok(true) => Ok(reply::json(StatusCode::OK, &Gone { id, object: "job.deleted", deleted: true })),
        Err(error) => Err(error.into()),
    }
}
