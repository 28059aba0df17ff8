//! `POST /v1/batches` with `input_file_id`, in the shape of `OpenAI`: the lines of an uploaded file. A file
//! with faults makes a batch that has failed and names them.

use super::check;
use super::intake::{BatchIntake, NewBatchLines};
use super::options::BatchOptions;
use super::result_files;
use crate::domain::batch::{BatchEndpoint, BatchSource};
use crate::domain::batch_object::{BatchObject, COMPLETION_WINDOW, COMPLETION_WINDOW_S};
use crate::domain::id::FileId;
use crate::domain::stored_file::{FilePurpose, StoredFile};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::json;
use crate::http::request::quoted::quoted;
use crate::http::request::typed;
use crate::http::request::values::WholeNumber;
use crate::http::response::{self, HandlerResult, IDEMPOTENCY_REPLAYED};
use crate::http::v1::files;
use crate::http::v1::idempotency::{KeyDigest, RequestFingerprint};
use crate::http::v1::jobs::spec;
use crate::ports::{Idempotent, NewWork};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of the file that are read at once.
const PIECE_BYTES: usize = 256 * 1024;
const FILE: &str = "input_file_id";

/// A batch of an uploaded file.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileBatchRequest {
    input_file_id: FileId,
    endpoint: BatchEndpoint,
    completion_window: String,
    metadata: Option<BTreeMap<String, String>>,
    output_expires_after: Option<OutputLifetime>,
}

/// When the files with results expire.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputLifetime {
    anchor: LifetimeAnchor,
    seconds: WholeNumber<3_600, 2_592_000>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum LifetimeAnchor {
    CreatedAt,
}

/// The body, if it is an object that names a file.
pub(crate) fn named_file(body: &[u8], app: &AppDependencies) -> Option<Map<String, Value>> {
    json::object(body, json::most_values(&app.limits)).ok().filter(|map| map.contains_key(FILE))
}

pub(crate) async fn create(
    context: &Arc<ServerContext>,
    options: BatchOptions,
    map: Map<String, Value>,
    body: &[u8],
) -> HandlerResult {
    let (user, key) = (options.user, options.key);
    let source = source(typed::from_map(map)?, &context.app)?;
    let mut fingerprint = RequestFingerprint::new("batch of a file");
    fingerprint.update(body);
    if !options.is_dry_run {
        quota::check(context, user, key, NewWork::job(0)).await?;
    }
    let (files, wanted) = (Arc::clone(&context.app.files), source.input_file);
    let file =
        context.read(user, move |_| files.file(user, wanted)).await?.ok_or(ApiError::NotFound("file"))?;
    let opened = open(context, &file).await?;
    let (mut new, lines) = options.with_window(COMPLETION_WINDOW_S).new_batch(&context.app);
    let lines = NewBatchLines { file: Some(source.endpoint), ..lines };
    let intake = BatchIntake::new(context, lines);
    let mut intake = read_lines(context, intake, opened, key).await?;
    if intake.is_dry_run() {
        return check::answer(context, intake).await;
    }
    let faults = intake.take_faults();
    new.lines = if faults.is_empty() { intake.stored() } else { 0 };
    new.source = Some(BatchSource { faults, ..source });
    quota::check(context, user, key, NewWork { jobs: u64::from(new.lines), bytes: 0 }).await?;
    let accepted = intake.accept(new, key.map(|key| key.of(fingerprint))).await?;
    let is_replayed = matches!(accepted, Idempotent::Replayed(_));
    let (Idempotent::New(batch) | Idempotent::Replayed(batch)) = accepted;
    result_files::write_at_end(context, user, batch.id);
    let mut response = response::json(StatusCode::OK, &BatchObject::from(batch));
    if is_replayed {
        response::set(&mut response, IDEMPOTENCY_REPLAYED, "true");
    }
    Ok(response)
}

fn source(request: FileBatchRequest, app: &AppDependencies) -> Result<BatchSource, ApiError> {
    let window = request.completion_window;
    if window != COMPLETION_WINDOW {
        let rule = format!("'completion_window' must be {COMPLETION_WINDOW}, not {}", quoted(&window));
        return Err(ApiError::value("completion_window", rule));
    }
    let lifetime = request.output_expires_after.map(|OutputLifetime { anchor, seconds }| match anchor {
        LifetimeAnchor::CreatedAt => seconds.0,
    });
    Ok(BatchSource {
        input_file: request.input_file_id,
        endpoint: request.endpoint,
        metadata: spec::metadata(request.metadata.unwrap_or_default(), app)?,
        output_expires_after_s: lifetime,
        faults: Vec::new(),
        files_at_ms: None,
        output_file: None,
        error_file: None,
    })
}

/// The content of the file. It stays readable although the file is deleted meanwhile.
async fn open(context: &ServerContext, file: &StoredFile) -> Result<File, ApiError> {
    if file.purpose != FilePurpose::Batch {
        let rule = format!("the purpose of '{FILE}' must be batch, not {}", file.purpose.as_str());
        return Err(ApiError::value(FILE, rule));
    }
    files::open_content(context, file).await
}

async fn read_lines(
    context: &ServerContext,
    mut intake: BatchIntake,
    file: File,
    key: Option<KeyDigest>,
) -> Result<BatchIntake, ApiError> {
    let (file, user, mut at) = (Arc::new(file), intake.user(), 0_u64);
    while !intake.is_given_up() {
        let source = Arc::clone(&file);
        let reading = context.app.blocking(user, move || {
            let mut piece = vec![0; PIECE_BYTES];
            source.read_at(&mut piece, at).map(|count| {
                piece.truncate(count);
                piece
            })
        });
        let piece = reading.await?.map_err(|error| {
            tracing::error!(%error, "the content of a file cannot be read");
            ApiError::Internal
        })?;
        if piece.is_empty() {
            break;
        }
        at = at.saturating_add(piece.len() as u64);
        if intake.push(&piece)? {
            intake = intake.store().await?;
            if !intake.is_dry_run() {
                // The stored lines count already.
                quota::check(context, user, key, NewWork::job(0)).await?;
            }
        }
    }
    intake.finish().await
}
