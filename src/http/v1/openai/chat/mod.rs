//! `POST /v1/chat/completions`: a job whose answer is held back until its end, or streamed in chunks.
//!
//! A request without `NanoClaw-Tools`, for a model without `agent: true`, is a plain call of the model. A
//! client that goes away ends its job, unless it set `store: true`. Such a job may be in memory until its
//! end.

mod chunk;
pub(crate) mod completion;
pub(crate) mod functions;
mod message;
pub(crate) mod request;
pub(crate) mod stored;
#[cfg(test)]
mod tests;

use super::answer::pieces::AnswerPieces;
use super::answer::{finished, stream};
use super::body::JobIntake;
use super::failure;
use super::headers::JobHeaders;
use crate::domain::id::UserId;
use crate::domain::job::{Job, JobSpec};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::error::ErrorFormat;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::store::name;
use crate::http::v1::jobs::stream::{StoredJob, store_new};
use crate::ports::Store;
use chunk::ChunkWriter;
use completion::ChatCompletion;
use hyper::StatusCode;
use request::{ChatForm, ChatJob};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Stores the job and answers with its completion or its chunks.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let intake = JobIntake::read(context, request, body, "chat").await?;
    let JobIntake { user, sender, headers, key, trace_parent, body, .. } = intake;
    let caller = sender.0;
    let read = body.parse(context, move |map, app| request::read(map, headers, app, user));
    let ChatJob { spec, form } = read.await.map_err(failure::of_request)?;
    let spec = JobSpec { trace_parent, ..spec };
    let stored = store_new(context, sender, spec, key).await?;
    let (id, is_replayed) = (stored.job.id, stored.is_replayed);
    let answer = match form {
        ChatForm::Whole { final_text_only } => whole(context, stored, final_text_only).await,
        ChatForm::Chunks(options) => {
            let writer = Box::new(ChunkWriter::new(&stored.job, options.include_usage));
            let pieces = AnswerPieces::new(id, writer, options.final_text_only);
            stream::open(context, caller, stored, pieces).await
        }
    };
    // Errors, too, name the job.
    let mut response = answer.unwrap_or_else(|error| error.into_response(ErrorFormat::OpenAi));
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
    Ok(ChatCompletion::new(finished::read(store, job, request::shows_final_text_only(&spec), &mut |_| {
        Ok(())
    })?))
}

async fn whole(context: &Arc<ServerContext>, stored: StoredJob, final_text_only: bool) -> HandlerResult {
    let answer = finished::wait_for(context, stored, final_text_only).await?;
    Ok(response::json(StatusCode::OK, &ChatCompletion::new(answer)))
}
