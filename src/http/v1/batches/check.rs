//! `POST /v1/batches?dry_run=true`: reads all lines as an upload does, stores nothing, and lists what would
//! refuse the batch.

use super::intake::BatchIntake;
use super::line_fault::LineFault;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::response::{self, HandlerResult};
use crate::ports::{BatchError, NewWork};
use hyper::StatusCode;
use serde::Serialize;

/// What is wrong with the lines. Without faults a batch of them would be accepted now.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub(crate) struct BatchCheckResponse {
    object: &'static str,
    /// Lines that are not blank, as far as they were read.
    lines: u64,
    /// Lines without a fault.
    valid: u64,
    /// At most 100 of lines. Those without a line are of the whole text, or of a limit or quota.
    faults: Vec<LineFault>,
    /// Whether there are more faults of lines.
    faults_cut: bool,
}

/// The answer, once all lines were read.
pub(crate) async fn answer(context: &ServerContext, mut intake: BatchIntake) -> HandlerResult {
    let new = intake.new_work();
    let refused = match quota::check(context, intake.user(), None, new).await {
        Ok(()) => check_queue_limit(context, new).err(),
        Err(error) if error.class().0.is_server_error() => return Err(error),
        Err(error) => Some(error),
    };
    let (lines, valid) = intake.line_counts();
    let (mut faults, faults_cut) = intake.take_line_faults();
    faults.extend(refused.map(|error| LineFault::of(None, &error, None)));
    let check = BatchCheckResponse { object: "batch.check", lines, valid, faults, faults_cut };
    Ok(response::json(StatusCode::OK, &check))
}

/// Refuses what is too much even for an empty queue.
fn check_queue_limit(context: &ServerContext, new: NewWork) -> Result<(), ApiError> {
    let limit = context.app.limits.queue_jobs;
    if new.jobs > limit { Err(BatchError::QueueFull { limit }.into()) } else { Ok(()) }
}
