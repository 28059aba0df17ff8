//! `?wait=SECONDS`: holds the answer back until a job or batch has ended.

use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::server::shutdown::ShutdownStage;
use crate::ports::{ChangeWatch, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// Pause before a lost watch is subscribed again.
const REWATCH: Duration = Duration::from_millis(200);

/// Returns when the job has ended, after `seconds`, or when the server closes. A missing job counts as
/// ended.
pub(crate) async fn for_job(
    context: &Arc<ServerContext>,
    user: UserId,
    id: JobId,
    seconds: u64,
) -> Result<(), ApiError> {
    let store = &context.app.store;
    let is_over = || store.has_ended(user, id);
    held(context, seconds, || store.watch(id), is_over).await
}

pub(crate) async fn for_batch(
    context: &Arc<ServerContext>,
    user: UserId,
    id: BatchId,
    seconds: u64,
) -> Result<(), ApiError> {
    let batches = &context.app.batches;
    let has_ended = |batch: Batch| batch.status.is_terminal() && !batch.lacks_files();
    let is_over = || Ok(batches.batch(user, id)?.is_none_or(has_ended));
    held(context, seconds, || batches.watch_batch(id), is_over).await
}

/// Returns when all lines of a batch have ended, or when the server closes.
pub(crate) async fn for_lines(context: &ServerContext, user: UserId, id: BatchId) -> Result<(), ApiError> {
    let batches = &context.app.batches;
    let is_over = || Ok(batches.batch(user, id)?.is_none_or(|batch| batch.status.is_terminal()));
    let mut shutdown = context.shutdown.clone();
    tokio::select! {
        over = over(|| batches.watch_batch(id), is_over) => over,
        () = shutdown.reached(ShutdownStage::Closing) => Ok(()),
    }
}

async fn held(
    context: &ServerContext,
    seconds: u64,
    watch: impl Fn() -> ChangeWatch,
    is_over: impl Fn() -> Result<bool, StoreError>,
) -> Result<(), ApiError> {
    if seconds == 0 {
        return Ok(());
    }
    let mut shutdown = context.shutdown.clone();
    tokio::select! {
        over = over(watch, is_over) => over,
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok(()),
        () = shutdown.reached(ShutdownStage::Closing) => Ok(()),
    }
}

/// `is_over` reads one row that was just written and so is cached: no blocking thread is needed.
async fn over(
    watch: impl Fn() -> ChangeWatch,
    is_over: impl Fn() -> Result<bool, StoreError>,
) -> Result<(), ApiError> {
    let mut news = watch(); // before the first read
    loop {
        news.borrow_and_update();
        if is_over()? {
            return Ok(());
        }
        if news.changed().await.is_err() {
            tokio::time::sleep(REWATCH).await;
            news = watch();
        }
    }
}
