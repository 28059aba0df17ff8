//! `/v1/batches` (DESIGN §3). Lines go to the store as they arrive and come out of it page by page, so a
//! batch is never held in memory.

mod answer;
pub(crate) mod check;
pub(crate) mod from_file;
mod intake;
mod jsonl;
mod line;
pub(crate) mod line_fault;
mod options;
pub(crate) mod result_files;
pub(crate) mod result_lines;
pub(crate) mod result_page;
pub(crate) mod results;
pub(crate) mod upload;

use crate::domain::batch::Batch;
use crate::domain::batch_object::BatchObject;
use crate::domain::id::{BatchId, UserId};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::page;
use crate::http::v1::wait;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// `GET /v1/batches`, newest first.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let limits = &context.app.limits;
    let query = &request.query;
    let limit = page::limit(query, limits)?;
    let before = match query.text("after") {
        // As clients of OpenAI name it.
        Some(text) => Some(after(text)?),
        None => page::cursor(query)?,
    };
    let user = request.user;
    let batches = Arc::clone(&context.app.batches);
    let page = context.read(user, move |_| batches.batches(user, before, limit)).await?;
    let ids = (page.batches.first().map(|batch| batch.id), page.batches.last().map(|batch| batch.id));
    let list = BatchListResponse {
        object: "list",
        first_id: ids.0,
        last_id: ids.1,
        has_more: page.has_more,
        next_cursor: ids.1.filter(|_| page.has_more),
        data: page.batches.into_iter().map(BatchObject::from).collect(),
    };
    Ok(response::json(StatusCode::OK, &list))
}

/// A page; `next_cursor` is `last_id` if another one follows.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct BatchListResponse {
    object: &'static str,
    data: Vec<BatchObject>,
    first_id: Option<BatchId>,
    last_id: Option<BatchId>,
    has_more: bool,
    next_cursor: Option<BatchId>,
}

fn after(text: &str) -> Result<BatchId, ApiError> {
    text.parse().map_err(|_| {
        ApiError::value("after", format!("'after' must be the id of a batch, not {}", quoted(text)))
    })
}

/// `GET /v1/batches/{id}`, at once or after `?wait=`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: BatchId = request.id("batch")?;
    let query = &request.query;
    let wait_s = query.whole("wait", 0..=context.app.limits.wait_s)?.unwrap_or(0);
    wait::for_batch(context, request.user, id, wait_s).await?;
    let batch = owned(context, request.user, id).await?;
    Ok(response::json(StatusCode::OK, &BatchObject::from(batch)))
}

pub(crate) async fn owned(
    context: &Arc<ServerContext>,
    user: UserId,
    id: BatchId,
) -> Result<Batch, ApiError> {
    let batches = Arc::clone(&context.app.batches);
    context.read(user, move |_| batches.batch(user, id)).await?.ok_or(ApiError::NotFound("batch"))
}

/// `POST /v1/batches/{id}/cancel`. Idempotent: an ended batch stays as it is.
pub(crate) async fn cancel(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: BatchId = request.id("batch")?;
    let batch =
        context.app.batches.cancel_batch(request.user, id).await?.ok_or(ApiError::NotFound("batch"))?;
    Ok(response::json(StatusCode::OK, &BatchObject::from(batch)))
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeletedBatchResponse {
    id: BatchId,
    object: &'static str,
    deleted: bool,
}

/// `DELETE /v1/batches/{id}`: deletes an ended batch with its lines; its jobs stay. Other states are a 409.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: BatchId = request.id("batch")?;
    if !context.app.batches.delete_batch(request.user, id).await? {
        return Err(ApiError::NotFound("batch"));
    }
    let deleted = DeletedBatchResponse { id, object: "batch.deleted", deleted: true };
    Ok(response::json(StatusCode::OK, &deleted))
}
