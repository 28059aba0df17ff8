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
use crate::http::shutdown::Stage;
use crate::http::v1::page::{self, List};
use crate::ports::Batches;
use hyper::StatusCode;
use std::sync::Arc;
use std::time::Duration;

/// A watch that the store has let go of is asked for again after this time.
const REWATCH: Duration = Duration::from_millis(200);

/// A page of this user's batches, newest first.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let limits = &door.room.limits;
    let query = Query::parse(call.query.as_deref(), &["limit", "cursor"])?;
    let limit = page::limit(&query, limits)?;
    let before = page::cursor(&query)?;
    let user = call.user;
    let page = read(door, move |batches| batches.batches(user, before, limit)).await?;
    let next_cursor = page.batches.last().filter(|_| page.has_more).map(|batch| batch.id);
    let data = page.batches.into_iter().map(BatchObject::from).collect();
    Ok(reply::json(StatusCode::OK, &List::new(data, next_cursor)))
}

/// One batch, once it has ended or the time is up.
pub(crate) async fn show(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    let query = Query::parse(call.query.as_deref(), &["wait"])?;
    let wait_s = query.whole("wait", 0..=door.room.limits.wait_s)?.unwrap_or(0);
    if wait_s > 0 {
        let mut shutdown = door.shutdown.clone();
        tokio::select! {
            ended = until_ended(door, call.user, id) => ended?,
            () = tokio::time::sleep(Duration::from_secs(wait_s)) => {}
            () = shutdown.reached(Stage::Closing) => {}
        }
    }
    Ok(reply::json(StatusCode::OK, &BatchObject::from(owned(door, call.user, id).await?)))
}

async fn until_ended(door: &Arc<Door>, user: UserId, id: BatchId) -> Result<(), Error> {
    let mut news = door.room.batches.watch_batch(id); // before the first look
    loop {
        news.borrow_and_update();
        if owned(door, user, id).await?.status.is_terminal() {
            return Ok(());
        }
        if news.changed().await.is_err() {
            tokio::time::sleep(REWATCH).await;
            news = door.room.batches.watch_batch(id);
        }
    }
}

/// The batch, if it is this user's.
pub(super) async fn owned(door: &Arc<Door>, user: UserId, id: BatchId) -> Result<Batch, Error> {
    read(door, move |batches| batches.batch(user, id)).await?.ok_or(Error::NotFound("batch"))
}

async fn read<T, F>(door: &Arc<Door>, act: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&dyn Batches) -> Result<T, crate::ports::StoreError> + Send + 'static,
{
    let batches = Arc::clone(&door.room.batches);
    let reading = tokio::task::spawn_blocking(move || act(&*batches));
    Ok(reading.await.map_err(|_| Error::Internal)??)
}
