//! `GET /v1/batches/{id}/results` as JSON lines: ended lines in input order, or with `?follow=true` all
//! lines in the order in which they end. A slow reader costs one page of memory.

use super::answer::request_id;
use crate::domain::id::BatchId;
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_object::JobObject;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::context::RequestContext;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HandlerResult};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::http::shared_threads::ThreadShare;
use crate::http::v1::jobs::view;
use crate::http::v1::wait::{LOOK_EVERY, REWATCH};
use crate::ports::{ChangeWatch, LineOutcome, LineResult, StoreError};
use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;

/// A page ends after this many bytes; a single result may be larger.
const PAGE_BYTES: usize = 64 * 1024;
/// Lines read at once.
const STRIDE: u32 = 64;

pub(crate) async fn results(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: BatchId = request.id("batch")?;
    let query = &request.query;
    let follow = query.flag("follow")?.unwrap_or(false);
    let after = query.whole("after", 0..=u64::from(u32::MAX))?;
    if after.is_some() && !follow {
        return Err(ApiError::value(
            "after",
            "'after' counts lines of ?follow=true; without it results come whole",
        ));
    }
    let batch = super::owned(context, request.user, id).await?;
    let at = after.and_then(|after| u32::try_from(after).ok()).unwrap_or(0);
    if at > batch.counts.total {
        let total = batch.counts.total;
        return Err(ApiError::value("after", format!("{at} is beyond this batch's {total} lines")));
    }
    let reader = BatchResultReader {
        app: Arc::clone(&context.app),
        shutdown: context.shutdown.clone(),
        news: context.app.batches.watch_batch(id), // before the first read
        threads: context.app.threads_of(request.user),
        batch: id,
        follow,
        at,
        is_over: false,
        first: None,
    };
    let first = reader.read().await?;
    let reader = BatchResultReader { first: Some(first), ..reader };
    Ok(response::lines(StreamBody::new(reader, revocation::signal(context, request.caller))))
}

struct BatchResultReader {
    app: Arc<AppDependencies>,
    shutdown: Shutdown,
    news: ChangeWatch,
    threads: ThreadShare,
    batch: BatchId,
    follow: bool,
    /// The next line, or with `follow` the number of lines sent.
    at: u32,
    is_over: bool,
    /// The first page. It is read before the status is sent, so that its failure has a status.
    first: Option<ResultChunk>,
}

/// The text, the start of the next page, and whether this is the last one.
type ResultChunk = (Vec<u8>, u32, bool);

impl BodySource for BatchResultReader {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while !self.is_over {
            self.news.borrow_and_update();
            let (text, at, is_over) = match self.first.take() {
                Some(first) => first,
                None => self.read_when_possible().await?,
            };
            (self.at, self.is_over) = (at, is_over);
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
            if !self.is_over && self.follow {
                tokio::select! {
                    _ = self.news.changed() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    // The stream breaks instead of ending: an unfinished batch has no clean end.
                    () = self.shutdown.reached(ShutdownStage::Closing) => return Err(BodyError::new("the server is stopping")),
                }
            }
        }
        Ok(None)
    }
}

impl BatchResultReader {
    /// Waits while the database is away.
    async fn read_when_possible(&mut self) -> Result<ResultChunk, BodyError> {
        loop {
            match self.read().await {
                Err(ApiError::Store(StoreError::Unreachable)) => {}
                read => return read.map_err(|error| self.cut(&error)),
            }
            tokio::select! {
                () = tokio::time::sleep(REWATCH) => {}
                () = self.shutdown.reached(ShutdownStage::Closing) => return Err(BodyError::new("the server is stopping")),
            }
        }
    }

    async fn read(&self) -> Result<ResultChunk, ApiError> {
        let (app, batch, follow, at) = (Arc::clone(&self.app), self.batch, self.follow, self.at);
        let page = self
            .threads
            .run(move || page(&app, batch, follow, at))
            .await
            .map_err(|_panic| ApiError::Internal)?;
        Ok(page?)
    }

    fn cut(&self, error: &ApiError) -> BodyError {
        tracing::error!(batch = %self.batch, at = self.at, %error, "a stream of results was cut off");
        BodyError::new(error.to_string())
    }
}

fn page(app: &AppDependencies, batch: BatchId, follow: bool, mut at: u32) -> Result<ResultChunk, StoreError> {
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
                return Ok((text, next, read.is_last && told == count && next >= read.next));
            }
        }
        at = read.next;
        if read.is_last || (follow && count == 0) || !text.is_empty() {
            return Ok((text, at, read.is_last));
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
