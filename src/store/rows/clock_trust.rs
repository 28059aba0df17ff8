//! Whether the wall clock can be trusted: a clock that has jumped makes everything look old.
//!
//! The wall clock is compared with the monotonic clock, and after a start with the wall time that the store
//! has kept. The time that the distrust still lasts is kept with it, so a restart does not end it.

use crate::ports::Clock;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};

/// A wall clock that deviates this much from the monotonic clock has jumped, milliseconds.
const JUMP_MS: u64 = 3_600_000;
/// Time without a jump after which the clock is trusted again, milliseconds.
const TRUST_AFTER_MS: u64 = 24 * 3_600_000;
/// After a longer downtime a pause cannot be distinguished from a jump, milliseconds.
const PAUSE_MS: u64 = 24 * 3_600_000;

/// Wall and monotonic time, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) wall_ms: u64,
    pub(crate) monotonic_ms: u64,
}

impl ClockReading {
    /// The clock now.
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { wall_ms: clock.now_ms(), monotonic_ms: clock.monotonic_ms() }
    }
}

/// What the store has kept about the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct StoredClock {
    /// The wall clock at the last beat, unix milliseconds; 0 if there was none.
    pub(crate) seen_ms: u64,
    /// The time for which it was still distrusted then, milliseconds.
    pub(crate) distrust_ms: u64,
}

/// The judgement of a clock. Retention and the cleaner of directories share it.
#[derive(Debug)]
pub(crate) struct ClockTrust(Mutex<TrustState>);

#[derive(Debug)]
struct TrustState {
    last: ClockReading,
    /// The clock is distrusted until this monotonic time.
    distrusted_until_ms: u64,
}

impl ClockTrust {
    /// Trust in a clock that nothing is known about.
    pub(crate) fn new(now: ClockReading) -> Self {
        Self(Mutex::new(TrustState { last: now, distrusted_until_ms: 0 }))
    }

    /// Goes on with what the store has kept.
    pub(crate) fn resume(&self, now: ClockReading, stored: StoredClock) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.last = now;
        if stored.seen_ms > 0 && now.wall_ms.saturating_sub(stored.seen_ms) > PAUSE_MS {
            state.distrust(now, "the store was closed for more than a day, or the clock has jumped");
        } else if stored.distrust_ms > 0 {
            state.distrusted_until_ms =
                now.monotonic_ms.saturating_add(stored.distrust_ms.min(TRUST_AFTER_MS));
            tracing::warn!(
                hours = stored.distrust_ms.div_ceil(JUMP_MS),
                "the clock jumped before the restart; retention removes nothing for this time"
            );
        }
    }

    /// Compares the clocks. Returns for how long the wall clock is distrusted, milliseconds; 0: trusted.
    pub(crate) fn check(&self, now: ClockReading) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let walked = now.monotonic_ms.saturating_sub(state.last.monotonic_ms);
        let expected = state.last.wall_ms.saturating_add(walked);
        let is_distrusted = now.monotonic_ms < state.distrusted_until_ms;
        state.last = now;
        if now.wall_ms.abs_diff(expected) > JUMP_MS && (now.wall_ms > expected || is_distrusted) {
            state.distrust(now, "the clock has jumped by more than an hour");
        }
        state.distrusted_until_ms.saturating_sub(now.monotonic_ms)
    }
}

impl ClockTrust {
    /// For how long the clock is distrusted, milliseconds, without a look at it.
    pub(crate) fn distrust_ms(&self, monotonic_ms: u64) -> u64 {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.distrusted_until_ms.saturating_sub(monotonic_ms)
    }
}

impl TrustState {
    fn distrust(&mut self, now: ClockReading, reason: &str) {
        self.distrusted_until_ms = now.monotonic_ms.saturating_add(TRUST_AFTER_MS);
        tracing::warn!(reason, "retention removes nothing until the clock has been steady for 24 hours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const START: u64 = 1_000 * HOUR;

    fn at(wall_ms: u64, monotonic_ms: u64) -> ClockReading {
        ClockReading { wall_ms, monotonic_ms }
    }

    fn trust(stored: StoredClock) -> ClockTrust {
        let trust = ClockTrust::new(at(START, 0));
        trust.resume(at(START, 0), stored);
        trust
    }

    fn is_trusted(trust: &ClockTrust, wall_ms: u64, monotonic_ms: u64) -> bool {
        trust.check(at(wall_ms, monotonic_ms)) == 0
    }

    #[test]
    fn a_forward_jump_is_distrusted_for_a_steady_day() {
        let trust = trust(StoredClock::default());
        let jump = 500 * HOUR;
        assert!(!is_trusted(&trust, START + jump, 60_000));
        assert!(!is_trusted(&trust, START + jump + TRUST_AFTER_MS - 1, 59_999 + TRUST_AFTER_MS));
        assert!(is_trusted(&trust, START + jump + TRUST_AFTER_MS, 60_000 + TRUST_AFTER_MS));
    }

    #[test]
    fn a_jump_back_after_a_forward_jump_restarts_the_steady_day() {
        let trust = trust(StoredClock::default());
        assert!(!is_trusted(&trust, START + 500 * HOUR, 60_000));
        assert!(!is_trusted(&trust, START, HOUR));
        assert!(!is_trusted(&trust, START + TRUST_AFTER_MS - HOUR, TRUST_AFTER_MS));
        assert!(is_trusted(&trust, START + TRUST_AFTER_MS, TRUST_AFTER_MS + HOUR));
    }

    #[test]
    fn a_small_step_or_a_jump_back_is_trusted() {
        let trust = trust(StoredClock::default());
        assert!(is_trusted(&trust, START + 60_000 + HOUR, 60_000));
        assert!(is_trusted(&trust, START - 100 * HOUR, 120_000));
    }

    #[test]
    fn a_store_closed_for_long_is_distrusted_and_a_new_one_is_not() {
        let seen = |seen_ms| trust(StoredClock { seen_ms, distrust_ms: 0 });
        assert!(!is_trusted(&seen(START - PAUSE_MS - 1), START, 0));
        assert!(is_trusted(&seen(START - PAUSE_MS), START, 0));
        assert!(is_trusted(&seen(0), START, 0));
    }

    #[test]
    fn a_restart_continues_the_distrust() {
        let trust = trust(StoredClock { seen_ms: START, distrust_ms: HOUR });
        assert_eq!(trust.check(at(START, 0)), HOUR);
        assert!(!is_trusted(&trust, START + HOUR - 1, HOUR - 1));
        assert!(is_trusted(&trust, START + HOUR, HOUR));
    }
}
