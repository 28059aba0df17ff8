//! Reads and renders the results of a batch as JSON lines.

use super::answer::request_id;
use super::result_page::{BatchResultPage, PAGE_BYTES};
use crate::domain::id::BatchId;
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_object::JobObject;
use crate::http::dependencies::AppDependencies;
use crate::http::v1::jobs::view;
use crate::ports::{LineOutcome, LineResult, StoreError};
use serde::Serialize;

/// Lines read at once.
const STRIDE: u32 = 64;

/// The page at this line, or with `follow` behind so many ended lines. Blocks.
pub(crate) fn page(
    app: &AppDependencies,
    batch: BatchId,
    follow: bool,
    mut at: u32,
) -> Result<BatchResultPage, StoreError> {
    let mut text = Vec::new();
    loop {
        let read = if follow {
            app.batches.ended(batch, at, STRIDE)?
        } else {
            app.batches.results(batch, at, STRIDE)?
        };
        let count = u32::try_from(read.results.len()).unwrap_or(u32::MAX);
        for (told, result) in (1..).zip(read.results) {
            let line = result.line;
            write(&mut text, app, batch, result)?;
            if text.len() >= PAGE_BYTES {
                let next = if follow { at.saturating_add(told) } else { line.saturating_add(1) };
                let is_last = read.is_last && told == count && next >= read.next;
                return Ok(BatchResultPage { text: text.into(), next, is_last, seen: 0 });
            }
        }
        at = read.next;
        if read.is_last || (follow && count == 0) || !text.is_empty() {
            return Ok(BatchResultPage { text: text.into(), next: at, is_last: read.is_last, seen: 0 });
        }
    }
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct BatchResultLine<'a> {
    id: String,
    custom_id: &'a str,
    response: Option<BatchLineResponse>,
    error: Option<BatchLineError<'a>>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct BatchLineResponse {
    status_code: u16,
    body: JobObject,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct BatchLineError<'a> {
    code: serde_json::Value,
    message: &'a str,
}

fn write(
    text: &mut Vec<u8>,
    app: &AppDependencies,
    batch: BatchId,
    result: LineResult,
) -> Result<(), StoreError> {
    let custom_id = result.custom_id;
    let id = format!("{batch}-{}", result.line.saturating_add(1));
    let (code, message) = match result.outcome {
        LineOutcome::NotStarted => ("batch_cancelled", "the batch was cancelled before this line began"),
        LineOutcome::Expired => ("batch_expired", "the batch expired before this line began"),
        LineOutcome::Deleted => ("job_deleted", "the job of this line was deleted"),
        LineOutcome::Again(_) => ("job_retried", "the job of this line failed and was started again"),
        LineOutcome::Unreadable => ("internal", "what is stored of this line cannot be read"),
        LineOutcome::Ended(job) => {
            let cause = job.error.clone();
            let told = BatchResultLine {
                id: request_id(job.id),
                custom_id: &custom_id,
                response: None,
                error: None,
            };
            let error = cause.as_ref().map(|cause| BatchLineError {
                code: serde_json::to_value(cause.code).unwrap_or_default(),
                message: &cause.message,
            });
            let response =
                BatchLineResponse { status_code: status_code(&job), body: view::read(&*app.store, *job)? };
            return line(text, &BatchResultLine { response: Some(response), error, ..told });
        }
    };
    let error = Some(BatchLineError { code: code.into(), message });
    line(text, &BatchResultLine { id, custom_id: &custom_id, response: None, error })
}

/// The status of a job's result.
fn status_code(job: &Job) -> u16 {
    match job.status {
        JobStatus::Succeeded => 200,
        JobStatus::Cancelled => 499,
        _ => 500,
    }
}

fn line(text: &mut Vec<u8>, told: &BatchResultLine<'_>) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *text, told).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    text.push(b'\n');
    Ok(())
}
