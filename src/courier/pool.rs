//! The threads that deliver: start, stop, join. Owns the threads; refuses to wait for a receiver at the end: what is under
//! way then is sent again after the next start.

use super::round::{Courier, Round};
use crate::ports::{CancelReason, CancelToken, Clock, StoreError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Deliveries under way at once, to as many hosts.
const THREADS: usize = 4;
/// Stack of a thread, bytes: TLS and the client's buffers lie on the heap.
const STACK_BYTES: usize = 512 * 1024;
/// Pause between two looks at threads that are to end.
const LOOK: Duration = Duration::from_millis(20);

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the threads for webhooks: {0}")]
pub struct PoolError(std::io::Error);

/// Running threads.
pub struct Pool {
    stop: CancelToken,
    clock: Arc<dyn Clock>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts them; each ticks until told to stop.
    pub fn start(courier: Courier, clock: Arc<dyn Clock>) -> Result<Self, PoolError> {
        let (courier, stop) = (Arc::new(courier), CancelToken::new(Arc::clone(&clock)));
        let mut threads = Vec::with_capacity(THREADS);
        for number in 1..=THREADS {
            let (courier, stop) = (Arc::clone(&courier), stop.clone());
            let thread = std::thread::Builder::new()
                .name(format!("courier-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || run(&courier, &stop));
            threads.push(thread.map_err(PoolError)?);
        }
        Ok(Self { stop, clock, threads })
    }

    /// Nothing more is sent.
    pub fn stop(&self) {
        self.stop.cancel(CancelReason::Shutdown);
    }

    /// Waits for what is under way, up to `patience`; then leaves it.
    pub fn join(self, patience: Duration) {
        self.stop();
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = self.clock.monotonic_ms().saturating_add(patience_ms);
        let never = CancelToken::new(Arc::clone(&self.clock));
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if self.clock.monotonic_ms() >= deadline_ms {
                tracing::info!("a receiver of webhooks does not answer; it hears again after the next start");
                return;
            }
            self.clock.sleep(&never, LOOK);
        }
    }
}

fn run(courier: &Courier, stop: &CancelToken) {
    while stop.reason().is_none() {
        match courier.tick() {
            Ok(Round::Tried(_)) => {}
            Ok(Round::Idle) => courier.wait(stop),
            Err(StoreError::Closed) => break,
            Err(error) => {
                tracing::warn!(%error, "the store failed; webhooks wait");
                courier.recover(stop);
            }
        }
    }
}
