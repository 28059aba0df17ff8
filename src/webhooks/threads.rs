//! The threads that run the dispatcher. A delivery in progress at shutdown is not awaited: it is sent again
//! after the next start.

use super::dispatcher::{DispatchOutcome, Dispatcher};
use crate::ports::{CancelReason, CancelToken, Clock, StoreError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of threads, and so of deliveries at once.
const THREADS: usize = 4;
/// Stack size, bytes; TLS and the client's buffers are on the heap.
const STACK_BYTES: usize = 512 * 1024;
/// Polling interval while threads end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the threads for webhooks: {0}")]
pub struct DispatcherThreadsError(std::io::Error);

/// Running webhook threads.
pub struct DispatcherThreads {
    stop: CancelToken,
    clock: Arc<dyn Clock>,
    threads: Vec<JoinHandle<()>>,
}

impl DispatcherThreads {
    /// Starts the threads.
    pub fn start(dispatcher: Dispatcher, clock: Arc<dyn Clock>) -> Result<Self, DispatcherThreadsError> {
        let (dispatcher, stop) = (Arc::new(dispatcher), CancelToken::new(Arc::clone(&clock)));
        let mut threads = Vec::with_capacity(THREADS);
        for number in 1..=THREADS {
            let (dispatcher, stop) = (Arc::clone(&dispatcher), stop.clone());
            let thread = std::thread::Builder::new()
                .name(format!("webhooks-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || run(&dispatcher, &stop));
            threads.push(thread.map_err(DispatcherThreadsError)?);
        }
        Ok(Self { stop, clock, threads })
    }

    /// Tells the threads to end; nothing more is sent.
    pub fn stop(&self) {
        self.stop.cancel(CancelReason::Shutdown);
    }

    /// Waits up to `timeout` for the deliveries in progress, then abandons them.
    pub fn join(self, timeout: Duration) {
        self.stop();
        let wait = CancelToken::new(Arc::clone(&self.clock)).with_timeout(timeout);
        while self.threads.iter().any(|thread| !thread.is_finished()) {
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
        match dispatcher.tick() {
            Ok(DispatchOutcome::Attempted(_)) => {}
            Ok(DispatchOutcome::Idle) => dispatcher.wait(stop),
            Err(StoreError::Closed) => break,
            Err(error) => {
                tracing::warn!(%error, "store failed; webhooks wait");
                dispatcher.recover(stop);
            }
        }
    }
}
