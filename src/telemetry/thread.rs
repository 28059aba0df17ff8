//! The thread that exports spans. A request in progress at shutdown is not awaited: its spans are sent again
//! after the next start, under the same ids.

use super::exporter::{ExportOutcome, SpanExporter};
use super::outcome::delay;
use crate::ports::{CancelReason, CancelToken, Clock, Entropy, StoreError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Stack size, bytes; TLS and the client's buffers are on the heap.
const STACK_BYTES: usize = 512 * 1_024;
/// Pause between two looks at an empty queue.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Polling interval while the thread ends.
const END_POLL: Duration = Duration::from_millis(20);

/// The thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that exports spans: {0}")]
pub struct SpanExportThreadError(std::io::Error);

/// The running thread.
pub struct SpanExportThread {
    stop: CancelToken,
    clock: Arc<dyn Clock>,
    thread: JoinHandle<()>,
}

impl SpanExportThread {
    /// Starts the thread.
    pub fn start(
        exporter: SpanExporter,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, SpanExportThreadError> {
        let stop = CancelToken::new(Arc::clone(&clock));
        let (token, own_clock) = (stop.clone(), Arc::clone(&clock));
        let thread = std::thread::Builder::new()
            .name("otlp".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&exporter, &token, &*own_clock, &*entropy));
        Ok(Self { stop, clock, thread: thread.map_err(SpanExportThreadError)? })
    }

    /// Tells the thread to end; no other request is sent.
    pub fn stop(&self) {
        self.stop.cancel(CancelReason::Shutdown);
    }

    /// Waits up to `timeout` for the request in progress, then abandons it.
    pub fn join(self, timeout: Duration) {
        self.stop();
        let wait = CancelToken::new(Arc::clone(&self.clock)).with_timeout(timeout);
        while !self.thread.is_finished() {
            if wait.is_cancelled() {
                tracing::info!(
                    "collector did not answer before shutdown; its spans are sent again after the next start"
                );
                return;
            }
            wait.sleep(END_POLL);
        }
    }
}

fn run(exporter: &SpanExporter, stop: &CancelToken, clock: &dyn Clock, entropy: &dyn Entropy) {
    let mut failures: u32 = 0;
    while stop.reason().is_none() {
        let failed = match exporter.tick() {
            Ok(ExportOutcome::Exported) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!("spans are exported again");
                }
                continue;
            }
            Ok(ExportOutcome::Idle) => {
                clock.sleep(stop, POLL_INTERVAL);
                continue;
            }
            Ok(ExportOutcome::Failed { reason, after_ms }) => (reason, after_ms),
            Err(StoreError::Closed) => return,
            Err(error) => (error.to_string(), 0),
        };
        failures = failures.saturating_add(1);
        let ((reason, after_ms), random) = (failed, entropy.random());
        let wait = delay(failures, after_ms, random);
        let wait_ms = wait.as_millis();
        // Others say the same again: the metrics count them.
        if failures.is_power_of_two() {
            tracing::warn!(reason, failures, wait_ms, "spans are not exported; they wait");
        }
        clock.sleep(stop, wait);
    }
}
