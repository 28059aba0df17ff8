//! Time and randomness of a replay of recorded answers: they have no influence but the recorded one.

use crate::ports::{CancelToken, Clock, Entropy};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that advances in pauses only, and without waiting.
#[derive(Debug)]
pub(super) struct ReplayClock {
    began_ms: u64,
    passed_ms: AtomicU64,
}

impl ReplayClock {
    /// A clock that stands at this time, unix milliseconds.
    pub(super) fn at(began_ms: u64) -> Self {
        Self { began_ms, passed_ms: AtomicU64::new(0) }
    }

    pub(super) fn advance(&self, passed_ms: u64) {
        self.passed_ms.fetch_add(passed_ms, Ordering::SeqCst);
    }
}

impl Clock for ReplayClock {
    fn now_ms(&self) -> u64 {
        self.began_ms.saturating_add(self.monotonic_ms())
    }

    fn monotonic_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        if stop.reason().is_none() {
            self.advance(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        }
    }
}

/// Jitter of one millisecond. Waits are taken from the log.
#[derive(Debug)]
pub(super) struct FixedEntropy;

impl Entropy for FixedEntropy {
    fn random(&self) -> u128 {
        1
    }
}
