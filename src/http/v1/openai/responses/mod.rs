//! `/v1/responses`: `OpenAI`'s responses and the Open Responses specification. A response is a job; its id is
//! `resp_` and the id of the job.
//!
//! The request is stored with the job ([`ResponseRequest`]), so only jobs that came this way are found here.
//! A response with `store: false` is not found after it was answered: its job is deleted then
//! ([`UnstoredResponse`]).

mod approval;
mod compact;
mod compaction;
pub(crate) mod conversations;
mod custom_tool;
mod declared_tools;
mod earlier_calls;
mod earlier_tools;
mod fold;
mod history;
pub(crate) mod hosted_tools;
mod ids;
mod images;
mod input;
mod item;
mod item_page;
mod loaded_tools;
mod mcp_lists;
mod namespace;
mod object;
mod open_calls;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod stored;
mod stream;
#[cfg(test)]
mod tests;
mod tools;
mod unstored;
pub(crate) mod web_socket;

pub(crate) use compact::{compact, input_tokens};

use super::body::JobIntake;
use super::failure;
use super::headers::JobHeaders;
use crate::domain::id::UserId;
use crate::domain::job::{Job, JobSpec};
use crate::domain::response_request::ResponseRequest;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::error::ErrorFormat;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::jobs::store::name;
use crate::http::v1::jobs::stream::{StoredJob, store_new};
use crate::http::v1::wait;
use crate::ports::Store;
use fold::ResponseFold;
use hyper::StatusCode;
use object::ResponseEnd;
use request::{ResponseJob, ResponsesRequest};
use serde_json::{Map, Value};
use std::sync::Arc;
use stream::StreamReader;
use unstored::UnstoredResponse;

/// Stores the job and answers with its response, at its end, at once, or as a stream.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let intake = JobIntake::read(context, request, body, "responses").await?;
    let JobIntake { user, sender, headers, key, trace_parent, body, .. } = intake;
    let caller = sender.0;
    let asked = body.parse(context, |map, _| request::read(map)).await.map_err(failure::of_request)?;
    let ResponseJob { spec, request, is_stream } =
        job(context, (asked, headers), user).await.map_err(failure::of_request)?;
    let spec = JobSpec { trace_parent, ..spec };
    let stored = store_new(context, sender, spec, key).await?;
    let (id, is_replayed) = (stored.job.id, stored.is_replayed);
    let unstored = UnstoredResponse::of(context, user, id, &request);
    let answer = if is_stream {
        let fold = ResponseFold::new(&stored.job, &request).streamed(None);
        Ok(stream::open(context, fold, StreamReader { caller, guard: stored.guard, unstored }))
    } else if request.is_background {
        let fold = ResponseFold::new(&stored.job, &request);
        Ok(response::json(StatusCode::OK, &fold.to_json()))
    } else {
        whole(context, stored, &request).await
    };
    // Errors, too, name the job.
    let mut response = answer.unwrap_or_else(|error| error.into_response(ErrorFormat::OpenAi));
    name(&mut response, id, is_replayed);
    Ok(response)
}

async fn job(
    context: &Arc<ServerContext>,
    (asked, headers): (ResponsesRequest, JobHeaders),
    user: UserId,
) -> Result<ResponseJob, ApiError> {
    if !asked.reads_history() && !asked.has_images() {
        return asked.into_job(headers, &context.app, user);
    }
    let app: Arc<AppDependencies> = Arc::clone(&context.app);
    context.app.blocking(user, move || asked.into_job(headers, &app, user)).await?
}

/// Waits for the end of the job and answers with its response.
async fn whole(context: &Arc<ServerContext>, stored: StoredJob, request: &ResponseRequest) -> HandlerResult {
    let StoredJob { job, mut guard, .. } = stored;
    let (user, id) = (job.user, job.id);
    wait::for_job(context, user, id, u32::MAX.into()).await?;
    let Some(job) = context.app.store.job(user, id)? else { return Err(ApiError::NotFound("response")) };
    if let Some(guard) = &mut guard {
        guard.disarm();
    }
    if !job.status.is_terminal() {
        return Err(failure::interrupted(context, id));
    }
    let fold = ResponseFold::new(&job, request);
    let answer = context.read(user, move |store| Ok(answer(store, fold, &job))).await??;
    Ok(response::json(StatusCode::OK, &answer))
}

/// The response of an ended job.
fn answer(store: &dyn Store, fold: ResponseFold, job: &Job) -> Result<Value, ApiError> {
    let fold = history::fold(store, fold, job, &mut |_| Ok(()))?;
    match fold.end() {
        Some(ResponseEnd::Failed { code, message, retry_after_ms }) if fold.state() == "failed" => {
            Err(failure::of_job(*code, message.clone(), *retry_after_ms))
        }
        _ => Ok(fold.to_json()),
    }
}

/// The job of a request that is a line of a batch. Reads the store.
pub(crate) fn line_job(
    body: Map<String, Value>,
    headers: JobHeaders,
    app: &AppDependencies,
    user: UserId,
) -> Result<JobSpec, ApiError> {
    let job = request::read(body).and_then(|asked| asked.into_job(headers, app, user));
    let spec = job.map_err(failure::of_request)?.spec;
    // Whether it is the first answer is known when the job is stored, which a line becomes later.
    if spec.handed_approvals.as_ref().is_some_and(|handed| !handed.decided.is_empty()) {
        let text = "a line of a batch cannot answer an approval request: send it to POST /v1/responses";
        return Err(failure::unsupported("input", text));
    }
    Ok(spec)
}

/// The response of an ended job, as the route answers it. Reads the store.
pub(crate) fn line_answer(store: &dyn Store, job: &Job) -> Result<Value, ApiError> {
    let spec = store.request(job.user, job.id)?.ok_or(ApiError::NotFound("job"))?;
    let request = spec.response.ok_or(ApiError::NotFound("response"))?;
    answer(store, ResponseFold::new(job, &request), job)
}
