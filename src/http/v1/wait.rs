//! `?wait=SECONDS`: holds the answer back until a job or batch has ended.

use super::end_look::EndLook;
use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::server::shutdown::ShutdownStage;
use crate::http::shared_pages::PageSharing;
use crate::ports::{ChangeWatch, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// Pause before a lost watch is subscribed again, or a database that is away is asked again.
pub(crate) const REWATCH: Duration = Duration::from_millis(200);

/// The store is read after this time even without a hint, which may be lost between nodes.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Returns when the job has ended, after `seconds`, or when the server closes. A missing job counts as
/// ended.
pub(crate) async fn for_job(
    context: &Arc<ServerContext>,
    user: UserId,
    id: JobId,
    seconds: u64,
) -> Result<(), ApiError> {
    let store = &context.app.store;
    let ends = context.job_ends.of((user, id));
    let is_over = |newest| EndLook::take(PageSharing::new(&ends, newest), || store.has_ended(user, id));
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
    let ends = context.batch_ends.of((user, id));
    let look = || Ok(batches.batch(user, id)?.is_none_or(has_ended));
    let is_over = |newest| EndLook::take(PageSharing::new(&ends, newest), look);
    held(context, seconds, || batches.watch_batch(id), is_over).await
}

/// Returns when all lines of a batch have ended, or when the server closes.
pub(crate) async fn for_lines(context: &ServerContext, user: UserId, id: BatchId) -> Result<(), ApiError> {
    let batches = &context.app.batches;
    let is_over = |_| Ok(batches.batch(user, id)?.is_none_or(|batch| batch.status.is_terminal()));
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
    is_over: impl Fn(Option<u64>) -> Result<bool, StoreError>,
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

/// Waits on while the database is away, as streams do: the job goes on. `is_over` gets the newest change, or
/// `None` if that is in doubt. It reads one row that was just written and so is cached: no blocking thread is
/// needed.
async fn over(
    watch: impl Fn() -> ChangeWatch,
    is_over: impl Fn(Option<u64>) -> Result<bool, StoreError>,
) -> Result<(), ApiError> {
    let mut news = watch(); // before the first read
    let mut is_certain = true;
    loop {
        let newest = *news.borrow_and_update();
        match is_over(is_certain.then_some(newest)) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(StoreError::Unreachable) => {
                tokio::time::sleep(REWATCH).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let changed = tokio::time::timeout(LOOK_EVERY, news.changed()).await;
        is_certain = matches!(changed, Ok(Ok(())));
        if let Ok(Err(_)) = changed {
            tokio::time::sleep(REWATCH).await;
            news = watch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::sync::watch;

    /// How often `over` reads until these answers are used up.
    async fn waited(answers: Vec<Result<bool, StoreError>>) -> (Result<(), ApiError>, Duration) {
        let (_sender, news) = watch::channel(0);
        let answers = Cell::new(answers.into_iter());
        let next = |_| {
            let mut rest = answers.take();
            let answer = rest.next().expect("it reads no more");
            answers.set(rest);
            answer
        };
        let began = tokio::time::Instant::now();
        let over = over(|| news.clone(), next).await;
        (over, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_goes_on_while_the_database_is_away() {
        let away = || Err(StoreError::Unreachable);
        let (over, took) = waited(vec![away(), away(), Ok(true)]).await;
        assert!(over.is_ok() && took < Duration::from_secs(1), "{took:?}");
        assert!(waited(vec![Err(StoreError::Closed)]).await.0.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_hint_delays_a_wait_and_does_not_hang_it() {
        let (over, took) = waited(vec![Ok(false), Ok(true)]).await;
        assert!(over.is_ok() && took >= LOOK_EVERY && took < 2 * LOOK_EVERY, "{took:?}");
    }
}
