//! `POST /v1/jobs/import`: stores a run that another server has exported, for the caller. A body holds one
//! run. Nothing runs, no webhook is sent, and its usage counts for no day here.

use super::view;
use crate::domain::id::UserId;
use crate::domain::job_object::JobObject;
use crate::domain::run::ImportedRun;
use crate::domain::run_file::{RunFile, RunFileContent, RunFileReader};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::{self, BufferedBody, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult, X_JOB_ID};
use crate::ports::{ImportOutcome, NewWork, PinnedContent, StoreError};
use hyper::StatusCode;
use hyper::header::LOCATION;
use serde::Serialize;
use std::sync::Arc;

/// The longest row that a list has to show, bytes: labels, tools and the error of the job.
const ROW_BYTES: usize = 256 * 1024;

/// How far a server's clock may be ahead of this one, milliseconds.
const AHEAD_MS: u64 = 24 * 3_600 * 1_000;

/// What came of an import.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ImportResponse {
    object: &'static str,
    /// `stored`, or `unchanged` if this account had the same run.
    outcome: &'static str,
    job: JobObject,
}

/// 201 with the job, or 200 if this account has the same run already. An id that is taken is a 409.
pub(crate) async fn import(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let (user, most) = (request.user, context.app.limits.import_bytes);
    let read = body::read_up_to(context, &request.headers, body, most).await;
    let body = read.map_err(|error| match error {
        ApiError::BodyTooLarge(_) | ApiError::UploadTooLarge(_) => {
            ApiError::UploadTooLarge(format!("the run is larger than limits.import_bytes = {most} bytes"))
        }
        error => error,
    })?;
    drop(request); // frees the headers while the run is stored
    quota::check(context, user, None, NewWork::bytes(body.bytes.len())).await?;
    let app = Arc::clone(&context.app);
    let BufferedBody { bytes, place } = body;
    let import = move || {
        let (run, pins) = take(&app, user, parse(&bytes)?)?;
        let imported = app.runs.import_run(user, run).wait()?;
        drop((pins, place));
        Ok::<_, ApiError>(imported)
    };
    let imported = context.large_write(user, import).await??;
    let (job, status, outcome) = match imported {
        ImportOutcome::Stored(job) => (job, StatusCode::CREATED, "stored"),
        ImportOutcome::Unchanged(job) => (job, StatusCode::OK, "unchanged"),
    };
    let id = job.id;
    let job = context.read(user, move |store| view::read(store, job)).await?;
    let mut response = response::json(status, &ImportResponse { object: "job.import", outcome, job });
    response::set(&mut response, LOCATION, &format!("/v1/jobs/{id}"));
    response::set(&mut response, X_JOB_ID, &id.to_string());
    Ok(response)
}

fn parse(bytes: &[u8]) -> Result<RunFile, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        ApiError::malformed(format!("line {line}: it is not UTF-8 text"))
    })?;
    let (mut reader, mut file) = (RunFileReader::default(), None);
    for line in text.lines() {
        let read = reader.push(line).map_err(|fault| ApiError::malformed(fault.to_string()))?;
        file = read.or(file);
    }
    let file = file.ok_or_else(|| ApiError::malformed(reader.cut_off().to_string()))?;
    if let Some(fault) = &file.fault {
        return Err(ApiError::malformed(format!("the file was changed: {fault}")));
    }
    Ok(file)
}

/// The run without what does not hold here, and its files, stored.
fn take(
    app: &AppDependencies,
    user: UserId,
    file: RunFile,
) -> Result<(ImportedRun, Vec<PinnedContent>), ApiError> {
    let (mut run, contents, now_ms) = (file.run, file.contents, app.clock.now_ms());
    let state = &run.run.state;
    let times =
        [Some(state.created_at_ms), state.started_at_ms, state.retried_at_ms, Some(state.finished_at_ms)];
    if times.into_iter().flatten().max() > Some(now_ms.saturating_add(AHEAD_MS)) {
        return Err(ApiError::malformed("a time of the run is in the future; is a server's clock wrong?"));
    }
    let spec = &mut run.run.spec;
    // A report was sent at its end. A project of this id may be another user's.
    spec.webhook_url = None;
    if let Some(project) = spec.project_id
        && app.projects.project(user, project)?.is_none()
    {
        spec.project_id = None;
    }
    let row = serde_json::to_vec(&run.job(user, now_ms)).map_err(|_| ApiError::Internal)?;
    if row.len() > ROW_BYTES {
        let message = format!("labels, tools and error of the job take more than {ROW_BYTES} bytes");
        return Err(ApiError::malformed(message));
    }
    let pins = contents.iter().map(|content| keep(app, content)).collect::<Result<_, _>>()?;
    Ok((run, pins))
}

/// Stores a content. It is not removed while the returned value lives.
fn keep(app: &AppDependencies, content: &RunFileContent) -> Result<PinnedContent, StoreError> {
    let mut draft = app.contents.begin()?;
    draft.write(&content.data)?;
    draft.finish()
}
