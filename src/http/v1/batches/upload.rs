//! `POST /v1/batches` with JSON lines. Each line is checked and stored as it arrives; none runs before the
//! batch is accepted in one transaction. A 202 means that the batch is on the disk (P1).

use super::jsonl::{LineSplitter, NumberedLine};
use super::line;
use crate::domain::batch::Batch;
use crate::domain::batch_object::BatchObject;
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::limits::Limits;
use crate::domain::webhook::WebhookUrl;
use crate::http::blocking::blocking;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::{self, BodyMemory, BodyPace, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult, IDEMPOTENCY_REPLAYED};
use crate::http::v1::idempotency::{self, KeyDigest, RequestFingerprint};
use crate::http::v1::webhook_url::check_address;
use crate::ports::{BatchError, Idempotent, NewBatch, NewLine, NewWork};
use hyper::body::Body;
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Lines are handed to the store in pieces of this many bytes or lines.
const PIECE_BYTES: usize = 512 * 1024;
const PIECE_LINES: usize = 256;

/// The time limit of an upload.
const WHOLE_TIME: Duration = Duration::from_secs(3_600);

/// Default of `concurrency`: jobs of the batch in the queue at the same time.
const CONCURRENCY: u32 = 64;

pub(crate) async fn upload(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let limits = &context.app.limits;
    let query = &request.query;
    let concurrency = query.whole("concurrency", 1..=u64::from(limits.batch_concurrency))?;
    let concurrency = concurrency.and_then(|n| u32::try_from(n).ok()).unwrap_or(CONCURRENCY);
    let webhook_url = query.text("webhook_url").map(|url| WebhookUrl::try_from(url.to_owned())).transpose();
    let webhook_url =
        webhook_url.map_err(|rule| ApiError::value("webhook_url", format!("'webhook_url' {rule}")))?;
    let webhook_url = webhook_url.map(|url| check_address(url, &context.app)).transpose()?;
    let key = idempotency::key(&request.headers)?;
    refuse_multipart(&request.headers)?;
    body::refuse_encoding(&request.headers)?;
    if body.size_hint().lower() > limits.batch_bytes {
        return Err(ApiError::BatchTooLarge(limits.batch_bytes));
    }
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    quota::check(context, request.user, key, NewWork::job(announced)).await?;
    let created_at_ms = context.app.clock.now_ms();
    let id = BatchId::from_bits(context.app.mint.mint(created_at_ms, context.app.entropy.random()));
    let upload_state = BatchUpload::new(&context.app, id, request.user);
    let (upload_state, fingerprint) = receive(context, upload_state, body, key).await?;
    let new = NewWork { jobs: u64::from(upload_state.lines), bytes: 0 };
    quota::check(context, request.user, key, new).await?;
    let key = key.map(|key| key.of(fingerprint));
    let new = NewBatch {
        id,
        user: request.user,
        created_at_ms,
        lines: upload_state.lines,
        concurrency: concurrency.min(limits.batch_concurrency),
        webhook_url,
    };
    let accepted = accept(upload_state, new, key).await?;
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

fn refuse_multipart(headers: &HeaderMap) -> Result<(), ApiError> {
    let announced = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or_default();
    if announced.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        return Err(ApiError::malformed(format!(
            "a body of type {} is not taken: send the lines themselves (curl -T jobs.jsonl …/v1/batches)",
            quoted(announced)
        )));
    }
    Ok(())
}

/// Reads the body to its end. A pause may last `limits.body_timeout_s`, the whole upload an hour.
async fn receive(
    context: &ServerContext,
    mut upload_state: BatchUpload,
    mut body: RequestBody,
    key: Option<KeyDigest>,
) -> Result<(BatchUpload, RequestFingerprint), ApiError> {
    let limits = &context.app.limits;
    let patience = Duration::from_secs(limits.body_timeout_s);
    let deadline = Instant::now() + WHOLE_TIME;
    let (mut cutter, mut fingerprint) =
        (LineSplitter::new(limits.body_bytes), RequestFingerprint::new("batch"));
    let (mut lines, mut waiting, mut whole) = (Vec::new(), 0_usize, 0_u64);
    let (mut place, mut rate, sender) = (BodyMemory::of(context, &body), BodyPace::default(), body.sender());
    loop {
        let until = deadline.min(Instant::now() + patience);
        let next = tokio::time::timeout_at(until, rate.next(&mut body, &mut place)).await;
        let Some(data) = next.map_err(|_| ApiError::BodyTimeout(limits.body_timeout_s))?? else { break };
        whole = whole.saturating_add(data.len() as u64);
        if whole > limits.batch_bytes {
            return Err(ApiError::BatchTooLarge(limits.batch_bytes));
        }
        fingerprint.update(&data);
        cutter.push(&data, &mut lines).map_err(|long| ApiError::malformed(long.to_string()))?;
        waiting = waiting.saturating_add(data.len());
        if lines.len() >= PIECE_LINES || (waiting >= PIECE_BYTES && !lines.is_empty()) {
            upload_state = upload_state.store(std::mem::take(&mut lines)).await?;
            waiting = 0;
            place.release();
            // The stored lines count already.
            quota::check(context, upload_state.user, key, NewWork::job(0)).await?;
        }
    }
    sender.confirm(context)?;
    cutter.finish(&mut lines);
    upload_state = upload_state.store(lines).await?;
    if upload_state.lines == 0 {
        return Err(ApiError::malformed(
            "the batch is empty: send one JSON object a line, {\"custom_id\":…,\"body\":{\"input\":…}}",
        ));
    }
    Ok((upload_state, fingerprint))
}

/// Accepts the batch on a thread that may block. The upload moves there, so that a client that leaves now
/// cannot abandon a batch that is being accepted.
async fn accept(
    upload_state: BatchUpload,
    new: NewBatch,
    key: Option<IdempotencyKey>,
) -> Result<Idempotent<Batch>, ApiError> {
    Ok(blocking(move || upload_state.accept(new, key)).await??)
}

/// A batch that is being uploaded. Dropped before it is accepted, it is abandoned.
struct BatchUpload {
    app: Arc<AppDependencies>,
    id: BatchId,
    user: UserId,
    lines: u32,
    /// Half of the SHA-256 of each `custom_id` so far.
    names: HashSet<[u8; 16]>,
    has_begun: bool,
    is_accepted: bool,
}

impl BatchUpload {
    fn new(app: &Arc<AppDependencies>, id: BatchId, user: UserId) -> Self {
        Self {
            app: Arc::clone(app),
            id,
            user,
            lines: 0,
            names: HashSet::new(),
            has_begun: false,
            is_accepted: false,
        }
    }

    /// Checks and stores these lines on a thread that may block.
    async fn store(mut self, lines: Vec<NumberedLine>) -> Result<Self, ApiError> {
        let storing = blocking(move || {
            self.check_and_store(lines)?;
            Ok(self)
        });
        storing.await?
    }

    fn accept(mut self, new: NewBatch, key: Option<IdempotencyKey>) -> Result<Idempotent<Batch>, BatchError> {
        let accepted = self.app.batches.accept(new, key).wait()?;
        self.is_accepted = true;
        Ok(accepted)
    }

    fn check_and_store(&mut self, lines: Vec<NumberedLine>) -> Result<(), ApiError> {
        let limits = &self.app.limits;
        let mut new: Vec<NewLine> = Vec::with_capacity(lines.len());
        for (number, text) in lines {
            let line = line::parse(number, &text, &self.app, self.user)?;
            if !self.names.insert(name_digest(&line.custom_id)) {
                let rule = format!("the custom_id '{}' is used twice", line.custom_id);
                return Err(ApiError::value("custom_id", rule).at_line(number));
            }
            new.push(line);
        }
        check_line_count(self.names.len(), limits)?;
        let count = u32::try_from(new.len()).unwrap_or(u32::MAX);
        if count > 0 {
            self.has_begun = true;
            self.app.batches.fill((self.user, self.id), self.lines, new).wait()?;
            self.lines = self.lines.saturating_add(count);
        }
        Ok(())
    }
}

fn name_digest(name: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(name).into();
    digest.first_chunk().copied().unwrap_or_default()
}

fn check_line_count(lines: usize, limits: &Limits) -> Result<(), ApiError> {
    if lines > limits.batch_lines {
        let most = limits.batch_lines;
        return Err(ApiError::malformed(format!(
            "the batch has more than limits.batch_lines = {most} lines"
        )));
    }
    Ok(())
}

impl Drop for BatchUpload {
    fn drop(&mut self) {
        if self.is_accepted || !self.has_begun {
            return;
        }
        let (batches, id) = (Arc::clone(&self.app.batches), self.id);
        let forget = move || {
            if let Err(error) = batches.abandon(id).wait() {
                tracing::warn!(batch = %id, %error, "lines of a refused batch stay until the next start");
            }
        };
        // Without a runtime the process is ending; the next start abandons them.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(forget));
        }
    }
}
