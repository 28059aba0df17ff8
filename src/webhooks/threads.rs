//! The thread that runs the dispatcher. A delivery in progress at shutdown is not awaited for long: it is
//! sent again after the next start.

use super::dispatcher::{DispatchOutcome, Dispatcher};
use crate::ports::{CancelReason, CancelToken, Clock, StoreError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Polling interval while the thread ends.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the threads for webhooks: {0}")]
pub struct DispatcherThreadError(#[from] std::io::Error);

/// The running thread.
pub struct DispatcherThread {
    stop: CancelToken,
    clock: Arc<dyn Clock>,
    thread: JoinHandle<()>,
}

impl DispatcherThread {
    /// Starts the thread.
    pub fn start(dispatcher: Dispatcher, clock: Arc<dyn Clock>) -> Result<Self, DispatcherThreadError> {
        let stop = CancelToken::new(Arc::clone(&clock));
        let (stopped, wait) = (stop.clone(), CancelToken::new(Arc::clone(&clock)));
        let thread = std::thread::Builder::new().name("webhooks".to_owned()).spawn(move || {
            run(&dispatcher, &stopped);
            drain(&dispatcher, &wait);
        })?;
        Ok(Self { stop, clock, thread })
    }

    /// Tells the thread to end; nothing more is sent.
    pub fn stop(&self) {
        self.stop.cancel(CancelReason::Shutdown);
    }

    /// Waits up to `timeout` for the deliveries in progress, then abandons them.
    pub fn join(self, timeout: Duration) {
        self.stop();
        let wait = CancelToken::new(Arc::clone(&self.clock)).with_timeout(timeout);
        while !self.thread.is_finished() {
            if wait.is_cancelled() {
                tracing::info!(
                    "webhook receiver did not answer before shutdown; it is called again after the next start"
                );
                return;
            }
            wait.sleep(POLL_INTERVAL);
        }
    }
}

fn run(dispatcher: &Dispatcher, stop: &CancelToken) {
    while stop.reason().is_none() {
        let seen = dispatcher.changes();
        match dispatcher.tick() {
            Ok(DispatchOutcome::Begun(_)) => {}
            Ok(DispatchOutcome::Idle) => dispatcher.wait(seen, stop),
            Err(StoreError::Closed) => break,
            Err(error) => {
                tracing::warn!(%error, "store failed; webhooks wait");
                dispatcher.recover(stop);
            }
        }
    }
}

/// Records what is in progress.
fn drain(dispatcher: &Dispatcher, wait: &CancelToken) {
    while dispatcher.in_progress() > 0 && dispatcher.record_ended() != Err(StoreError::Closed) {
        wait.sleep(POLL_INTERVAL);
    }
}
