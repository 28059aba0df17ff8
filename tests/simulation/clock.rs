//! The simulated clocks: wall time may jump, monotonic time never goes back; both move only on request.

use nanoclaw::ports::{CancelToken, Clock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// In 2026, so that the clock can jump back.
const START_MS: u64 = 1_790_000_000_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// Both clocks.
#[derive(Debug)]
pub(crate) struct SimClock {
    wall_ms: AtomicU64,
    monotonic_ms: AtomicU64,
    leaps: AtomicU64,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        Self { wall_ms: AtomicU64::new(START_MS), monotonic_ms: AtomicU64::new(0), leaps: AtomicU64::new(0) }
    }

    /// Advances both clocks.
    pub(crate) fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Jumps of more than a day: data kept for weeks may expire by them.
    pub(crate) fn leaps(&self) -> u64 {
        self.leaps.load(Ordering::SeqCst)
    }

    /// Sets the wall clock.
    pub(crate) fn jump(&self, ms: i64) {
        let now = self.now_ms();
        self.leaps.fetch_add(u64::from(ms.unsigned_abs() > DAY_MS), Ordering::SeqCst);
        self.wall_ms.store(now.saturating_add_signed(ms), Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        if stop.reason().is_none() {
            self.advance(u64::try_from(timeout.as_millis()).unwrap());
        }
    }
}
