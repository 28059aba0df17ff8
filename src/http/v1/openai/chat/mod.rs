//! `POST /v1/chat/completions`: a job whose answer is held back until its end, or streamed in chunks.
//!
//! A request without `NanoClaw-Tools`, for a model without `agent: true`, is a plain call of the model. A
//! client that goes away ends its job, unless it set `store: true`.

mod chunk;
pub(crate) mod completion;
pub(super) mod functions;
mod message;
pub(crate) mod request;
mod steps;
mod stream;
#[cfg(test)]
mod tests;
mod whole;

use super::body::KeyedBody;
use super::failure;
use super::headers::JobHeaders;
use crate::domain::id::UserId;
use crate::domain::job::{Job, JobSpec};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::HandlerResult;
use crate::http::response::error::ErrorFormat;
use crate::http::v1::jobs::store::{name, store};
use crate::http::v1::jobs::stream::{NewJobReader, store_guarded};
use crate::ports::{NewJob, Store};
use completion::ChatCompletion;
use request::{ChatForm, ChatJob};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Stores the job and answers with its completion or its chunks.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (user, caller, socket) = (request.user, request.caller, request.socket.clone());
    let body = KeyedBody::read(context, (user, &request.headers), body, "chat").await?;
    let headers = JobHeaders::of(&request.headers)?;
    drop(request); // frees the headers while the job runs
    let key = body.key;
    let read = body.parse(context, move |map, app| request::read(map, headers, app, user));
    let ChatJob { spec, form } = read.await.map_err(failure::of_request)?;
    let created_at_ms = context.app.clock.now_ms();
    let id = context.app.job_id(created_at_ms);
    let reader = NewJobReader { caller, job: id, on_disconnect: spec.on_disconnect, socket };
    let job = NewJob { id, user, created_at_ms, spec, in_existing: false };
    let stored = store_guarded(context, &reader, store(context, job, key)).await?;
    let (id, is_replayed) = (stored.job.id, stored.is_replayed);
    let answer = match form {
        ChatForm::Whole { final_text_only } => whole::completed(context, stored, final_text_only).await,
        ChatForm::Chunks(options) => stream::open(context, caller, stored, options).await,
    };
    // Errors, too, name the job.
    let mut response = answer.unwrap_or_else(|error| error.into_response(ErrorFormat::Plain));
    name(&mut response, id, is_replayed);
    Ok(response)
}

/// The job of a request that is a line of a batch.
pub(crate) fn line_job(
    body: Map<String, Value>,
    headers: JobHeaders,
    app: &AppDependencies,
    user: UserId,
) -> Result<JobSpec, ApiError> {
    Ok(request::read(body, headers, app, user).map_err(failure::of_request)?.spec)
}

/// The completion of an ended job, as the route answers it. Reads the store.
pub(crate) fn line_answer(store: &dyn Store, job: Job) -> Result<ChatCompletion, ApiError> {
    let spec = store.request(job.user, job.id)?.ok_or(ApiError::NotFound("job"))?;
    whole::answer(store, job, request::shows_final_text_only(&spec))
}
