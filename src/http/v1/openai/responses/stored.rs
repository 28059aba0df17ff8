//! `/v1/responses/{id}`: a stored response, whole or as a stream from any event, its cancel, delete and input
//! routes. There is no time window: a stream can be resumed as long as the job's events are there.

use super::fold::{LogCut, ResponseFold};
use super::history::{FoundResponse, PAGE_EVENTS};
use super::{ids, images, input, item_page, stream};
use crate::domain::id::{JobId, UserId};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::held::AnswerMemory;
use crate::http::response::{self, HandlerResult};
use crate::http::sse::cursor::{LAST_EVENT_ID, cursor};
use crate::http::v1::page::is_newest_first;
use crate::ports::{JobChangeError, Store, StoreError};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

async fn found(context: &Arc<ServerContext>, request: &RequestContext) -> Result<FoundResponse, ApiError> {
    let missing = ApiError::NotFound("response");
    let Some(id) = ids::job_of(request.segment("id")) else { return Err(missing) };
    let user = request.user;
    context.read(user, move |store| FoundResponse::find(store, user, id)).await?.ok_or(missing)
}

/// `GET /v1/responses/{id}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let found = found(context, request).await?;
    if request.query.flag("stream")? == Some(true) {
        return resume(context, request, found).await;
    }
    let (store, mut memory) = (Arc::clone(&context.app.store), AnswerMemory::of(context, request));
    let made = context.app.blocking(request.user, move || {
        let fold = found.fold_in(&*store, &mut |bytes| memory.take_read(bytes));
        let fold = memory.of_read(fold)?;
        memory.json(&fold.to_json())
    });
    Ok(made.await??.into_response())
}

/// Streams the events behind `Last-Event-ID` or `starting_after`.
async fn resume(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    found: FoundResponse,
) -> HandlerResult {
    let is_given =
        request.headers.contains_key(LAST_EVENT_ID) || request.query.text("starting_after").is_some();
    let after = is_given.then(|| cursor(&request.headers, &request.query)).transpose()?;
    let fold = ResponseFold::new(&found.job, &found.request).streamed(after);
    let (user, id) = (request.user, found.job.id);
    let fold = context.read(user, move |store| caught_up(store, user, id, fold)).await?;
    let Ok(fold) = fold else { return Err(stream::cut()) };
    if after.is_some_and(|after| after >= fold.next_number()) {
        let text = format!(
            "'starting_after' is beyond the newest event of this response, which has the number {}",
            fold.next_number().saturating_sub(1)
        );
        return Err(ApiError::value("starting_after", text));
    }
    let reader = stream::StreamReader { caller: request.caller, guard: None, unstored: None };
    Ok(stream::open(context, fold, reader))
}

type CaughtUp = Result<ResponseFold, LogCut>;

/// Folds the log up to its present end.
fn caught_up(
    store: &dyn Store,
    user: UserId,
    id: JobId,
    mut fold: ResponseFold,
) -> Result<CaughtUp, StoreError> {
    loop {
        let page = store.events(id, fold.last_seq(), PAGE_EVENTS)?;
        // The row is read behind the page: a job whose end is in it has ended.
        if let Some(job) = store.job(user, id)? {
            fold.see_row(&job);
        }
        for event in page.events {
            if let Err(cut) = fold.apply(event) {
                return Ok(Err(cut));
            }
        }
        if fold.last_seq() >= page.last_seq {
            return Ok(Ok(fold));
        }
    }
}

/// `POST /v1/responses/{id}/cancel`. Idempotent: an ended response stays as it is.
pub(crate) async fn cancel(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let mut found = found(context, request).await?;
    let cancelled = context.app.store.cancel(request.user, found.job.id).await?;
    found.job = cancelled.ok_or(ApiError::NotFound("response"))?;
    let is_over = found.job.status.is_terminal();
    let (store, mut memory) = (Arc::clone(&context.app.store), AnswerMemory::of(context, request));
    let made = context.app.blocking(request.user, move || {
        let fold = found.fold_in(&*store, &mut |bytes| memory.take_read(bytes));
        let mut object = memory.of_read(fold)?.to_json();
        if let (false, Value::Object(map)) = (is_over, &mut object) {
            // The worker ends it in a moment.
            map.insert("status".to_owned(), "cancelled".into());
        }
        memory.json(&object)
    });
    Ok(made.await??.into_response())
}

/// `DELETE /v1/responses/{id}`. A response that has not ended is a 409.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let found = found(context, request).await?;
    match context.app.store.delete(request.user, found.job.id).await {
        Err(JobChangeError::WrongState { status }) => Err(ApiError::NotEnded(status)),
        Ok(false) => Err(ApiError::NotFound("response")),
        Ok(true) => {
            let id = ids::response_id(found.job.id);
            Ok(response::json(StatusCode::OK, &json!({"id": id, "object": "response", "deleted": true})))
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET /v1/responses/{id}/input_items`: newest first, unless `order=asc`.
pub(crate) async fn input_items(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let (limit, is_newest_first) = (item_page::limit(query)?, is_newest_first(query)?);
    let found = found(context, request).await?;
    let items = found.request.input.into_iter().enumerate();
    let mut items: Vec<Value> = items.map(|(place, item)| input::shown(found.job.id, place, item)).collect();
    if is_newest_first {
        items.reverse();
    }
    if let Some(after) = query.text("after") {
        let place = items.iter().position(|item| item.get("id").and_then(Value::as_str) == Some(after));
        let place =
            place.ok_or_else(|| ApiError::value("after", "'after' is not an item of this response"))?;
        items.drain(..=place);
    }
    items.truncate(limit.saturating_add(1));
    let shown = images::fitting(&items, limit, &context.app.limits);
    if images::have_images(&items) {
        let contents = Arc::clone(&context.app.contents);
        let put_back = move || images::put_back(items.iter_mut().take(shown), &*contents).map(|()| items);
        items = context.app.blocking(request.user, put_back).await??;
    }
    Ok(response::json(StatusCode::OK, &item_page::page(items, shown)))
}
