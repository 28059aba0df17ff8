//! `POST /v1/batches/{id}/cancel`. Idempotent: an ended batch stays as it is.

use super::parse_id;
use crate::domain::batch_object::BatchObject;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use hyper::StatusCode;
use std::sync::Arc;

/// Asks for the batch's end, and shows it as it then stands.
pub(crate) async fn cancel(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    let batch = door.room.batches.cancel_batch(call.user, id).await?.ok_or(Error::NotFound("batch"))?;
    Ok(reply::json(StatusCode::OK, &BatchObject::from(batch)))
}
