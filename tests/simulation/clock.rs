//! Time as the world says. Wall time may jump, the other never goes back; both pass only when somebody moves
//! them.

use nanoclaw::ports::{CancelToken, Clock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// 2026, so that jumps back have room.
const START_MS: u64 = 1_790_000_000_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// Both times.
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

    /// Time passes.
    pub(crate) fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// How often the calendar was set by more than a day: what is kept for weeks may be forgotten by that.
    pub(crate) fn leaps(&self) -> u64 {
        self.leaps.load(Ordering::SeqCst)
    }

    /// Somebody sets the calendar.
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
