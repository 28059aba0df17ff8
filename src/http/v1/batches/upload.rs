//! `POST /v1/batches` with JSON lines. Each line is checked and stored as it arrives; none runs before the
//! batch is accepted in one transaction. A 202 means that the batch is on the disk (P1).
//!
//! A short JSON body that names an uploaded file makes a batch of that file instead ([`super::from_file`]).
//! A dry run stores nothing ([`super::check`]).

use super::check;
use super::from_file;
use super::intake::BatchIntake;
use super::options::BatchOptions;
use crate::domain::batch_object::BatchObject;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::{self, BodyMemory, BodyPace, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult, IDEMPOTENCY_REPLAYED};
use crate::http::v1::idempotency::{KeyDigest, RequestFingerprint};
use crate::ports::{Idempotent, NewWork};
use hyper::body::Body;
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time limit of an upload.
const WHOLE_TIME: Duration = Duration::from_secs(3_600);

/// The longest body that may name a file, bytes.
const FILE_REQUEST_BYTES: usize = 64 * 1024;

pub(crate) async fn upload(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let options = BatchOptions::read(&context.app, &request)?;
    refuse_multipart(&request.headers)?;
    body::refuse_encoding(&request.headers)?;
    let body = if may_name_file(&request.headers, &body) {
        let whole = body::read_up_to(context, &request.headers, body, FILE_REQUEST_BYTES).await?;
        match from_file::named_file(&whole.bytes, &context.app) {
            Some(map) => return from_file::create(context, options, map, &whole.bytes).await,
            None => BatchBody::Whole(whole.bytes),
        }
    } else {
        BatchBody::Arriving(body)
    };
    drop(request); // frees the headers while the lines arrive
    let (user, key) = (options.user, options.key);
    let announced = body.announced_bytes();
    let (mut new, lines) = options.new_batch(&context.app);
    let mut intake = BatchIntake::new(context, lines);
    intake.check_bytes(announced)?;
    if !intake.is_dry_run() {
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        quota::check(context, user, key, NewWork::job(announced)).await?;
    }
    let (intake, fingerprint) = match body {
        BatchBody::Arriving(body) => receive(context, intake, body, key).await?,
        BatchBody::Whole(bytes) => {
            let (mut intake, mut fingerprint) = (intake, RequestFingerprint::new("batch"));
            fingerprint.update(&bytes);
            intake.push(&bytes)?;
            (intake.finish().await?, fingerprint)
        }
    };
    if intake.is_dry_run() {
        return check::answer(context, intake).await;
    }
    new.lines = intake.stored();
    quota::check(context, user, key, NewWork { jobs: u64::from(new.lines), bytes: 0 }).await?;
    let accepted = intake.accept(new, key.map(|key| key.of(fingerprint))).await?;
    let is_replayed = matches!(accepted, Idempotent::Replayed(_));
    let (Idempotent::New(batch) | Idempotent::Replayed(batch)) = accepted;
    let id = batch.id;
    let mut response = response::json(StatusCode::ACCEPTED, &BatchObject::from(batch));
    response::set(&mut response, LOCATION, &format!("/v1/batches/{id}"));
    if is_replayed {
        response::set(&mut response, IDEMPOTENCY_REPLAYED, "true");
    }
    Ok(response)
}

/// The text of a batch.
enum BatchBody {
    Arriving(RequestBody),
    Whole(Vec<u8>),
}

impl BatchBody {
    fn announced_bytes(&self) -> u64 {
        match self {
            Self::Arriving(body) => body.size_hint().lower(),
            Self::Whole(bytes) => bytes.len() as u64,
        }
    }
}

/// Whether the body is JSON and as short as one that names a file.
fn may_name_file(headers: &HeaderMap, body: &RequestBody) -> bool {
    let is_short = body.size_hint().exact().is_some_and(|bytes| bytes <= FILE_REQUEST_BYTES as u64);
    is_short && content_type(headers).starts_with("application/json")
}

fn content_type(headers: &HeaderMap) -> String {
    let announced = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or_default();
    announced.trim_start().to_ascii_lowercase()
}

fn refuse_multipart(headers: &HeaderMap) -> Result<(), ApiError> {
    let announced = content_type(headers);
    if announced.starts_with("multipart/") {
        return Err(ApiError::malformed(format!(
            "a body of type {} is not taken: send the lines themselves (curl -T jobs.jsonl …/v1/batches)",
            quoted(&announced)
        )));
    }
    Ok(())
}

/// Reads the body to its end. A pause may last `limits.body_timeout_s`, the whole upload an hour.
async fn receive(
    context: &ServerContext,
    mut intake: BatchIntake,
    mut body: RequestBody,
    key: Option<KeyDigest>,
) -> Result<(BatchIntake, RequestFingerprint), ApiError> {
    let limits = &context.app.limits;
    let patience = Duration::from_secs(limits.body_timeout_s);
    let deadline = Instant::now() + WHOLE_TIME;
    let mut fingerprint = RequestFingerprint::new("batch");
    let (mut place, mut rate, sender) = (BodyMemory::of(context, &body), BodyPace::default(), body.sender());
    while !intake.is_given_up() {
        let until = deadline.min(Instant::now() + patience);
        let next = tokio::time::timeout_at(until, rate.next(&mut body, &mut place)).await;
        let Some(data) = next.map_err(|_| ApiError::BodyTimeout(limits.body_timeout_s))?? else { break };
        fingerprint.update(&data);
        if intake.push(&data)? {
            intake = intake.store().await?;
            place.release();
            if !intake.is_dry_run() {
                // The stored lines count already.
                quota::check(context, sender.user(), key, NewWork::job(0)).await?;
            }
        }
    }
    sender.confirm(context)?;
    Ok((intake.finish().await?, fingerprint))
}
