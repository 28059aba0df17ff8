//! `GET /v1/batches` and `GET /v1/batches/{id}` with `?wait=SECONDS`.

use super::parse_id;
use crate::domain::batch::Batch;
use crate::domain::batch_object::BatchObject;
use crate::domain::id::{BatchId, UserId};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::http::v1::page::{self, List};
use crate::http::v1::wait;
use hyper::StatusCode;
use std::sync::Arc;

/// A page of this user's batches, newest first.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let limits = &door.room.limits;
    let query = Query::parse(call.query.as_deref(), &["limit", "cursor"])?;
    let limit = page::limit(&query, limits)?;
    let before = page::cursor(&query)?;
    let user = call.user;
    let batches = Arc::clone(&door.room.batches);
    let page = door.read(move |_| batches.batches(user, before, limit)).await?;
    let next_cursor = page.batches.last().filter(|_| page.has_more).map(|batch| batch.id);
    let data = page.batches.into_iter().map(BatchObject::from).collect();
    Ok(reply::json(StatusCode::OK, &List::new(data, next_cursor)))
}

/// One batch, once it has ended or the time is up.
pub(crate) async fn show(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    let query = Query::parse(call.query.as_deref(), &["wait"])?;
    let wait_s = query.whole("wait", 0..=door.room.limits.wait_s)?.unwrap_or(0);
    wait::for_batch(door, call.user, id, wait_s).await?;
    Ok(reply::json(StatusCode::OK, &BatchObject::from(owned(door, call.user, id).await?)))
}

/// The batch, if it is this user's.
pub(super) async fn owned(door: &Arc<Door>, user: UserId, id: BatchId) -> Result<Batch, Error> {
    let batches = Arc::clone(&door.room.batches);
    door.read(move |_| batches.batch(user, id)).await?.ok_or(Error::NotFound("batch"))
}
