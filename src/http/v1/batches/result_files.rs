//! The files with the results of a batch that was made from a file: `batch_output` with the answers, and one
//! with all other lines. They are written once all lines have ended; a start of the server writes those that
//! are missing, and another node those of a node that died.

use super::answer::{LineAnswer, request_id};
use crate::domain::batch::{Batch, BatchEndpoint};
use crate::domain::id::{BatchId, FileId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::domain::stored_file::{FilePurpose, StoredFile};
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::response::error::ErrorResponse;
use crate::http::server::shutdown::ShutdownStage;
use crate::http::shares::ShareOwner;
use crate::http::v1::wait;
use crate::ports::{BatchFiles, IncomingContent, LineOutcome, LineResult, PinnedContent, Store, StoreError};
use hyper::StatusCode;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Whose share of threads the server's own work uses.
const SERVER: UserId = Caller::NOBODY.user;

/// Lines written at once.
const STRIDE: u32 = 64;
/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Pause between two looks for batches whose node has died.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Waits for the ends of all batches whose files are missing. Where nodes share files, looks for those whose
/// node has died from then on.
pub(crate) async fn resume(context: Arc<ServerContext>) {
    let batches = Arc::clone(&context.app.batches);
    match context.read(SERVER, move |_| batches.batches_without_files()).await {
        Ok(waiting) => waiting.into_iter().for_each(|(user, batch)| write_at_end(&context, user, batch)),
        Err(error) => tracing::error!(%error, "batches without files cannot be listed"),
    }
    if context.app.workspaces.are_shared() {
        take_over(&context).await;
    }
}

/// Writes the files of batches that had ended at the last two looks.
async fn take_over(context: &Arc<ServerContext>) {
    let (mut shutdown, mut seen) = (context.shutdown.clone(), HashSet::new());
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = shutdown.reached(ShutdownStage::Draining) => return,
        }
        let app = Arc::clone(&context.app);
        let look = move |_: &dyn Store| match app.workspaces.check_access() {
            Ok(()) => app.batches.ended_batches_without_files(),
            Err(_) => Ok(Vec::new()),
        };
        let Ok(left) = context.read(SERVER, look).await else { continue };
        for (user, batch) in left.iter().filter(|left| seen.contains(*left)) {
            write_at_end(context, *user, *batch);
        }
        seen = left.into_iter().collect();
    }
}

/// Writes the files of a batch when its lines have ended, in a task of its own; one for each batch.
pub(crate) fn write_at_end(context: &Arc<ServerContext>, user: UserId, batch: BatchId) {
    if context.result_files.begin(batch) {
        let context = Arc::clone(context);
        drop(tokio::spawn(async move { run(&context, user, batch).await }));
    }
}

async fn run(context: &Arc<ServerContext>, user: UserId, batch: BatchId) {
    let mut shutdown = context.shutdown.clone();
    loop {
        let written = wait_and_write(context, user, batch).await;
        if let Err(error) = &written {
            tracing::warn!(%batch, %error, "the files of a batch are not written yet");
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.reached(ShutdownStage::Draining) => {}
            }
        }
        context.result_files.end(batch);
        // A line may have been retried meanwhile.
        let is_done = written.is_ok() && !misses_files(context, user, batch).await;
        if is_done || shutdown.stage() >= ShutdownStage::Draining || !context.result_files.begin(batch) {
            return;
        }
    }
}

async fn misses_files(context: &ServerContext, user: UserId, id: BatchId) -> bool {
    let batches = Arc::clone(&context.app.batches);
    let found = context.read(user, move |_| batches.batch(user, id)).await;
    found.is_ok_and(|batch| batch.is_some_and(|batch| batch.misses_files()))
}

async fn wait_and_write(context: &Arc<ServerContext>, user: UserId, id: BatchId) -> Result<(), ApiError> {
    wait::for_lines(context, user, id).await?;
    let _turn = context.result_files.turn(ShareOwner::of_user(context.app.auth.mode, user)).await?;
    let batches = Arc::clone(&context.app.batches);
    let found = context.read(user, move |_| batches.batch(user, id)).await?;
    // Deleted, refused, written, or the server stops.
    let Some(batch) = found.filter(Batch::lacks_files) else { return Ok(()) };
    let Some(mut files) = ResultFileWriter::new(&context.app, batch) else { return Ok(()) };
    while !files.is_complete {
        if context.shutdown.stage() >= ShutdownStage::Closing {
            return Ok(());
        }
        files = context.app.blocking(user, move || files.write_page()).await??;
    }
    context.app.blocking(user, move || files.store()).await?
}

/// Files that are being written.
struct ResultFileWriter {
    app: Arc<AppDependencies>,
    batch: Batch,
    lifetime_s: Option<u64>,
    finished_at_ms: u64,
    /// The next line.
    at: u32,
    output: Option<Box<dyn IncomingContent>>,
    errors: Option<Box<dyn IncomingContent>>,
    is_complete: bool,
}

impl ResultFileWriter {
    fn new(app: &Arc<AppDependencies>, batch: Batch) -> Option<Self> {
        let source = batch.source.as_ref()?;
        Some(Self {
            app: Arc::clone(app),
            lifetime_s: source.output_expires_after_s,
            finished_at_ms: batch.finished_at_ms?,
            batch,
            at: 0,
            output: None,
            errors: None,
            is_complete: false,
        })
    }

    fn write_page(mut self) -> Result<Self, ApiError> {
        let page = self.app.batches.results(self.batch.id, self.at, STRIDE)?;
        for result in page.results {
            let (text, is_answer) = line(&self.app, &self.batch, result)?;
            let target = if is_answer { &mut self.output } else { &mut self.errors };
            let target = match target {
                Some(begun) => begun,
                None => target.insert(self.app.contents.begin()?),
            };
            target.write(&text)?;
        }
        (self.at, self.is_complete) = (page.next, page.is_last);
        Ok(self)
    }

    fn store(mut self) -> Result<(), ApiError> {
        let finish =
            |content: Option<Box<dyn IncomingContent>>| content.map(IncomingContent::finish).transpose();
        let (output, errors) = (finish(self.output.take())?, finish(self.errors.take())?);
        let files = BatchFiles {
            finished_at_ms: self.finished_at_ms,
            output: output.as_ref().map(|content| self.row("output", content)),
            errors: errors.as_ref().map(|content| self.row("errors", content)),
        };
        let attached = self.app.batches.attach_files(self.batch.user, self.batch.id, files).wait();
        if !matches!(attached, Ok(Some(_))) {
            for PinnedContent { digest, pin, .. } in output.into_iter().chain(errors) {
                drop(pin);
                self.app.contents.remove_unused(digest);
            }
        }
        attached?;
        Ok(())
    }

    fn row(&self, kind: &str, content: &PinnedContent) -> StoredFile {
        let created_at_ms = self.app.clock.now_ms();
        let lifetime_ms = self.lifetime_s.map(|seconds| seconds.saturating_mul(1_000));
        StoredFile {
            id: FileId::from_bits(self.app.mint.mint(created_at_ms, self.app.entropy.random())),
            user: self.batch.user,
            name: format!("{}_{kind}.jsonl", self.batch.id),
            purpose: FilePurpose::BatchOutput,
            bytes: content.bytes,
            content: content.digest,
            created_at_ms,
            expires_at_ms: lifetime_ms.map(|lifetime_ms| created_at_ms.saturating_add(lifetime_ms)),
        }
    }
}

/// A line of a file with results, as `OpenAI` writes it.
#[derive(Serialize)]
struct ResultFileLine<'a> {
    id: &'a str,
    custom_id: &'a str,
    response: Option<ResultFileResponse<'a>>,
    error: Option<ResultFileError<'a>>,
}

#[derive(Serialize)]
struct ResultFileResponse<'a> {
    status_code: u16,
    request_id: &'a str,
    body: ResultFileBody<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultFileBody<'a> {
    Answer(&'a LineAnswer),
    Error(ErrorResponse<'a>),
}

#[derive(Serialize)]
struct ResultFileError<'a> {
    code: &'a str,
    message: &'a str,
}

/// What `OpenAI` says of a line that a batch has cut off.
const EXPIRED: &str = "This request could not be executed before the completion window expired.";

/// The text of a line, and whether it is an answer.
fn line(app: &AppDependencies, batch: &Batch, result: LineResult) -> Result<(Vec<u8>, bool), ApiError> {
    let LineResult { line, custom_id, outcome } = result;
    let (code, message) = match outcome {
        LineOutcome::NotStarted => ("batch_cancelled", "the batch was cancelled before this line began"),
        LineOutcome::Expired => ("batch_expired", EXPIRED),
        LineOutcome::Deleted => ("job_deleted", "the job of this line was deleted"),
        LineOutcome::Again(_) => ("job_retried", "the job of this line failed and was started again"),
        LineOutcome::Unreadable => ("internal", "what is stored of this line cannot be read"),
        LineOutcome::Ended(job) if job.status == JobStatus::Cancelled && batch.cancelling_at_ms.is_some() => {
            ("batch_cancelled", "the batch was cancelled while this line ran")
        }
        LineOutcome::Ended(job) if job.status == JobStatus::Cancelled && batch.has_expired(&job) => {
            ("batch_expired", EXPIRED)
        }
        LineOutcome::Ended(job) => {
            let endpoint = batch.source.as_ref().map_or(BatchEndpoint::Jobs, |source| source.endpoint);
            return ended_line(app, endpoint, &custom_id, *job);
        }
    };
    let id = format!("{}-{}", batch.id, line.saturating_add(1));
    let error = Some(ResultFileError { code, message });
    Ok((text(&ResultFileLine { id: &id, custom_id: &custom_id, response: None, error })?, false))
}

fn ended_line(
    app: &AppDependencies,
    endpoint: BatchEndpoint,
    custom_id: &str,
    job: Job,
) -> Result<(Vec<u8>, bool), ApiError> {
    let (id, request_id) = (request_id(job.id), job.id.to_string());
    let answer = match LineAnswer::read(&*app.store, job, endpoint) {
        // The store may answer later; damaged data stays damaged.
        Err(ApiError::Store(error)) if !matches!(error, StoreError::Corrupt(_)) => return Err(error.into()),
        answer => answer,
    };
    let is_answer = answer.is_ok();
    let (status, body) = match &answer {
        Ok(answer) => (StatusCode::OK, ResultFileBody::Answer(answer)),
        Err(error) => (error.class().0, ResultFileBody::Error(ErrorResponse::of_openai(error))),
    };
    let response = Some(ResultFileResponse { status_code: status.as_u16(), request_id: &request_id, body });
    Ok((text(&ResultFileLine { id: &id, custom_id, response, error: None })?, is_answer))
}

fn text(line: &ResultFileLine<'_>) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec(line).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}
