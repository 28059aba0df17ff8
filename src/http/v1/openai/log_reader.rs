//! Reads the events of a job as they are committed, for streams in a form of their own.

use crate::domain::event::SequencedEvent;
use crate::domain::id::{JobId, UserId};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::ports::StoreError;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

/// Events read at once.
const PAGE_EVENTS: usize = 256;
/// Up to this many new events are in the store's cache: reading them here is faster than on another thread.
const HOT_EVENTS: u64 = 32;
/// A silence of this length is reported. The log is then read, too, so that a lost wake-up is only a delay.
const SILENCE: Duration = Duration::from_secs(15);
/// Pause before a lost watch is subscribed again.
const REWATCH: Duration = Duration::from_millis(200);

/// What a reader hears.
#[derive(Debug)]
pub(super) enum LogNews {
    /// The next events, at least one.
    Events(Vec<SequencedEvent>),
    /// There was none for some time.
    Silence,
    /// The server closes its streams.
    Closing,
}

/// A position in the log of a job.
pub(super) struct LogReader {
    context: Arc<ServerContext>,
    shutdown: Shutdown,
    newest: watch::Receiver<u64>,
    user: UserId,
    job: JobId,
    /// The last `seq` that was read.
    cursor: u64,
    /// The newest `seq` of the log as of the last read.
    last_seq: u64,
    /// Read the log even without a hint.
    look: bool,
    silence: Pin<Box<Sleep>>,
}

impl LogReader {
    /// A reader at the start of the log.
    pub(super) fn new(context: &Arc<ServerContext>, user: UserId, job: JobId) -> Self {
        Self {
            context: Arc::clone(context),
            shutdown: context.shutdown.clone(),
            newest: context.app.store.watch(job), // before the first read
            user,
            job,
            cursor: 0,
            last_seq: 0,
            look: true,
            silence: Box::pin(tokio::time::sleep(SILENCE)),
        }
    }

    /// The same reader, from behind this event.
    pub(super) fn after(mut self, seq: u64) -> Self {
        (self.cursor, self.last_seq) = (seq, seq);
        self
    }

    /// The job.
    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// Waits for the next events. An error means that the log cannot be read.
    pub(super) async fn next(&mut self) -> Result<LogNews, ApiError> {
        loop {
            let hint = *self.newest.borrow_and_update();
            if self.look || hint > self.cursor || self.last_seq > self.cursor {
                match self.page(hint).await {
                    Ok(events) if events.is_empty() => {}
                    Ok(events) => return Ok(LogNews::Events(events)),
                    // The database is away: the stream stays open and goes on.
                    Err(ApiError::Store(StoreError::Unreachable)) => {
                        tokio::time::sleep(REWATCH).await;
                        self.look = true;
                        return Ok(LogNews::Silence);
                    }
                    Err(error) => return Err(error),
                }
            }
            tokio::select! {
                biased;
                changed = self.newest.changed() => {
                    if changed.is_err() {
                        tokio::time::sleep(REWATCH).await;
                        self.newest = self.context.app.store.watch(self.job);
                        self.look = true;
                    }
                }
                () = self.silence.as_mut() => {
                    self.silence.as_mut().reset(Instant::now() + SILENCE);
                    self.look = true;
                    return Ok(LogNews::Silence);
                }
                () = self.shutdown.reached(ShutdownStage::Closing) => return Ok(LogNews::Closing),
            }
        }
    }

    async fn page(&mut self, hint: u64) -> Result<Vec<SequencedEvent>, ApiError> {
        let (job, cursor) = (self.job, self.cursor);
        let is_hot = self.last_seq <= cursor && hint.saturating_sub(cursor) <= HOT_EVENTS;
        let page = if is_hot {
            self.context.app.store.events(job, cursor, PAGE_EVENTS)?
        } else {
            self.context.read(self.user, move |store| store.events(job, cursor, PAGE_EVENTS)).await?
        };
        self.look = false;
        self.last_seq = page.last_seq;
        self.cursor = page.events.last().map_or(cursor, |last| last.seq);
        Ok(page.events)
    }
}
