//! `POST /v1/jobs`: a job as JSON or text, answered at once, after `?wait=`, or as a stream. An answer
//! means that the job is on the disk (P1).

use super::store::{name, store};
use super::stream::{NewJobReader, streamed};
use super::{events, spec, view};
use crate::domain::id::UserId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::JobSpec;
use crate::domain::job_object::JobObject;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::{self, BufferedBody, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::json::{self, JsonObjectError};
use crate::http::request::trace;
use crate::http::response::{self, HandlerResult};
use crate::http::sse::event::StreamFormat;
use crate::http::sse::frame::TextMode;
use crate::http::v1::idempotency::{self, RequestFingerprint};
use crate::http::v1::wait;
use crate::ports::{NewJob, NewWork, StoreError};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};
use std::sync::Arc;

/// Larger bodies are parsed on a thread that may block.
const INLINE_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy)]
enum ResponseMode {
    Held { wait_s: u64 },
    Stream { wire: StreamFormat, text: TextMode },
}

/// Stores a job and answers with the job or with its events.
pub(crate) async fn submit(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let response_mode = response_mode(&request, &context.app)?;
    let given = idempotency::key(&request.headers)?;
    let body = body::read(context, &request.headers, body).await?;
    let key = given.map(|key| key.of(fingerprint(&body)));
    let user = request.user;
    quota::check(context, user, given, NewWork::job(body.bytes.len())).await?;
    let spec = parse_body(context, user, is_json(&request.headers), body).await?;
    let spec = JobSpec { trace_parent: trace::parent(&request.headers), ..spec };
    let (caller, socket) = (request.caller, request.socket.clone());
    drop(request); // frees the headers while the job runs
    let created_at_ms = context.app.clock.now_ms();
    let id = context.app.job_id(created_at_ms);
    let job = NewJob { id, user, created_at_ms, spec, in_existing: false };
    match response_mode {
        ResponseMode::Held { wait_s } => held(context, job, key, wait_s).await,
        ResponseMode::Stream { wire, text } => {
            let on_disconnect = job.spec.on_disconnect;
            let reader = NewJobReader { caller, job: job.id, on_disconnect, socket };
            streamed(context, reader, (wire, text), store(context, job, key)).await
        }
    }
}

/// Two submissions are the same when their bodies are equal byte for byte.
fn fingerprint(body: &BufferedBody) -> RequestFingerprint {
    let mut fingerprint = RequestFingerprint::new("job");
    fingerprint.update(&body.bytes);
    fingerprint
}

async fn held(
    context: &Arc<ServerContext>,
    job: NewJob,
    key: Option<IdempotencyKey>,
    wait_s: u64,
) -> HandlerResult {
    let user = job.user;
    let (job, is_replayed) = store(context, job, key).await?;
    let id = job.id;
    let view = if wait_s == 0 && !job.status.is_terminal() {
        JobObject::fresh(job)
    } else {
        wait::for_job(context, user, id, wait_s).await?;
        // Just written, so cached: rendering it below takes longer than reading it.
        match view::find(&*context.app.store, user, id) {
            // The job is accepted, whatever became of the database since.
            Err(StoreError::Unreachable) if !job.status.is_terminal() => JobObject::fresh(job),
            found => found?.ok_or(ApiError::NotFound("job"))?,
        }
    };
    let status = if view.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = response::json(status, &view);
    name(&mut response, id, is_replayed);
    Ok(response)
}

fn response_mode(request: &RequestContext, app: &AppDependencies) -> Result<ResponseMode, ApiError> {
    let query = &request.query;
    let wait_s = query.whole("wait", 0..=app.limits.wait_s)?;
    let text = events::text(query)?;
    let stream = match (query.flag("stream")?, wait_s) {
        (Some(true), Some(_)) => {
            return Err(ApiError::value(
                "wait",
                "'wait' and 'stream=true' exclude each other: a stream shows the end itself",
            ));
        }
        (Some(said), _) => said,
        (None, wait_s) => wait_s.is_none() && events::wants_sse(&request.headers),
    };
    if stream {
        return Ok(ResponseMode::Stream { wire: events::wire(&request.headers), text });
    }
    Ok(ResponseMode::Held { wait_s: wait_s.unwrap_or(0) })
}

/// Parses the body, a large one on a thread that may block. The body counts against `limits.bodies_bytes`
/// until then, even when its client leaves.
async fn parse_body(
    context: &Arc<ServerContext>,
    user: UserId,
    announced: bool,
    body: BufferedBody,
) -> Result<JobSpec, ApiError> {
    if body.bytes.len() <= INLINE_BYTES {
        return parse(user, announced, body.bytes, &context.app);
    }
    let app = Arc::clone(&context.app);
    let parsing = context.app.blocking(user, move || {
        let BufferedBody { bytes, place } = body;
        let spec = parse(user, announced, bytes, &app);
        drop(place);
        spec
    });
    parsing.await?
}

/// A body announced as JSON must be a JSON object. Any other body is parsed as one if possible, else it is
/// the prompt.
fn parse(user: UserId, announced: bool, body: Vec<u8>, app: &AppDependencies) -> Result<JobSpec, ApiError> {
    let starts = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if announced || starts == Some(&b'{') {
        match json::object(&body, json::most_values(&app.limits)) {
            Ok(map) => return spec::from_json(map, app, user),
            Err(JsonObjectError::Syntax(_) | JsonObjectError::NoObject) if !announced => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    match String::from_utf8(body) {
        Ok(text) => spec::from_prompt(text, app, user),
        Err(_) => Err(ApiError::malformed("the request body is neither a JSON object nor UTF-8 text")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let announced = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or_default();
    let essence = announced.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
