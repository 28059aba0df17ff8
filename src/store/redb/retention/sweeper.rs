//! Decides when retention runs: soon after a start, then once a minute, and not while the wall clock is in
//! doubt, because a clock that has jumped makes everything look old.

use crate::store::options::RetentionOptions;
use crate::store::redb::retention::sweep::RetentionSweep;
use std::time::Duration;

/// Time until the first check, milliseconds: the jobs that were waiting for the start go first.
const FIRST_MS: u64 = 5_000;
/// Interval between two checks, milliseconds.
const INTERVAL_MS: u64 = 60_000;
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

/// State between two checks.
#[derive(Debug)]
pub(crate) struct Sweeper {
    options: RetentionOptions,
    last: ClockReading,
    due_ms: u64,
    /// Nothing is removed until this monotonic time.
    distrusted_until_ms: Option<u64>,
}

impl Sweeper {
    /// A sweeper of a store that opens now. `seen_ms`: the newest wall time stored in the file, 0 if none.
    pub(crate) fn new(options: RetentionOptions, now: ClockReading, seen_ms: u64) -> Self {
        let due_ms = now.monotonic_ms.saturating_add(FIRST_MS);
        let mut sweeper = Self { options, last: now, due_ms, distrusted_until_ms: None };
        if seen_ms > 0 && now.wall_ms.saturating_sub(seen_ms) > PAUSE_MS {
            sweeper.distrust_clock(now, "the store was closed for more than a day, or the clock has jumped");
        }
        sweeper
    }

    /// Whether the next check is due.
    pub(crate) fn is_due(&self, monotonic_ms: u64) -> bool {
        monotonic_ms >= self.due_ms
    }

    /// Time until the next check.
    pub(crate) fn wait(&self, monotonic_ms: u64) -> Duration {
        Duration::from_millis(self.due_ms.saturating_sub(monotonic_ms))
    }

    /// Reads the clocks and returns what may be removed now. Leftovers of removed jobs may always be removed.
    pub(crate) fn check(&mut self, now: ClockReading) -> RetentionSweep {
        let walked = now.monotonic_ms.saturating_sub(self.last.monotonic_ms);
        let expected = self.last.wall_ms.saturating_add(walked);
        self.due_ms = now.monotonic_ms.saturating_add(INTERVAL_MS);
        self.last = now;
        if now.wall_ms.abs_diff(expected) > JUMP_MS
            && (now.wall_ms > expected || self.distrusted_until_ms.is_some())
        {
            self.distrust_clock(now, "the clock has jumped by more than an hour");
        }
        if self.distrusted_until_ms.is_some_and(|until_ms| now.monotonic_ms < until_ms) {
            return RetentionSweep::default();
        }
        self.distrusted_until_ms = None;
        let before = |keep: crate::store::RetentionAge| keep.cutoff_ms(now.wall_ms);
        let RetentionOptions { deltas, events, jobs, .. } = &self.options;
        RetentionSweep {
            deltas_before_ms: before(*deltas),
            events_before_ms: before(*events),
            jobs_before_ms: before(*jobs),
        }
    }

    /// Schedules the next check for the next idle moment, because more is due than one transaction does.
    pub(crate) fn run_when_idle(&mut self, monotonic_ms: u64) {
        self.due_ms = monotonic_ms;
    }

    fn distrust_clock(&mut self, now: ClockReading, reason: &str) {
        self.distrusted_until_ms = Some(now.monotonic_ms.saturating_add(TRUST_AFTER_MS));
        tracing::warn!(reason, "retention removes nothing until the clock has been steady for 24 hours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RetentionAge;

    const HOUR: u64 = 3_600_000;
    const START: u64 = 1_000 * HOUR;

    fn at(wall_ms: u64, monotonic_ms: u64) -> ClockReading {
        ClockReading { wall_ms, monotonic_ms }
    }

    fn sweeper(seen_ms: u64) -> Sweeper {
        let options = RetentionOptions {
            deltas: RetentionAge::For(HOUR),
            events: RetentionAge::Forever,
            jobs: RetentionAge::For(2 * HOUR),
            ..RetentionOptions::default()
        };
        Sweeper::new(options, at(START, 0), seen_ms)
    }

    #[test]
    fn the_sweeper_runs_soon_and_then_once_a_minute_unless_asked_sooner() {
        let mut sweeper = sweeper(START);
        assert!(!sweeper.is_due(FIRST_MS - 1) && sweeper.is_due(FIRST_MS));
        assert_eq!(sweeper.wait(FIRST_MS - 5), Duration::from_millis(5));
        let now = START + FIRST_MS;
        let sweep = sweeper.check(at(now, FIRST_MS));
        let (deltas, jobs) = (Some(now - HOUR), Some(now - 2 * HOUR));
        let expected =
            RetentionSweep { deltas_before_ms: deltas, events_before_ms: None, jobs_before_ms: jobs };
        assert_eq!(sweep, expected);
        let next_ms = FIRST_MS + INTERVAL_MS;
        assert!(!sweeper.is_due(next_ms - 1) && sweeper.is_due(next_ms));
        sweeper.run_when_idle(FIRST_MS + 1);
        assert!(sweeper.is_due(FIRST_MS + 1));
    }

    #[test]
    fn a_forward_clock_jump_pauses_sweeps_for_a_stable_day() {
        let mut sweeper = sweeper(START);
        let jump = 500 * HOUR;
        assert_eq!(sweeper.check(at(START + jump, 60_000)), RetentionSweep::default());
        assert_eq!(
            sweeper.check(at(START + jump + TRUST_AFTER_MS - 1, 59_999 + TRUST_AFTER_MS)),
            RetentionSweep::default()
        );
        assert_ne!(
            sweeper.check(at(START + jump + TRUST_AFTER_MS, 60_000 + TRUST_AFTER_MS)),
            RetentionSweep::default()
        );
    }

    #[test]
    fn a_jump_back_after_a_forward_jump_restarts_the_stable_day() {
        let mut sweeper = sweeper(START);
        assert_eq!(sweeper.check(at(START + 500 * HOUR, 60_000)), RetentionSweep::default());
        assert_eq!(sweeper.check(at(START, HOUR)), RetentionSweep::default());
        assert_eq!(
            sweeper.check(at(START + TRUST_AFTER_MS - HOUR, TRUST_AFTER_MS)),
            RetentionSweep::default()
        );
        assert_ne!(
            sweeper.check(at(START + TRUST_AFTER_MS, TRUST_AFTER_MS + HOUR)),
            RetentionSweep::default()
        );
    }

    #[test]
    fn a_small_clock_step_or_a_backward_jump_does_not_pause_sweeps() {
        let mut sweeper = sweeper(START);
        assert_ne!(sweeper.check(at(START + 60_000 + HOUR, 60_000)), RetentionSweep::default());
        assert_ne!(sweeper.check(at(START - 100 * HOUR, 120_000)), RetentionSweep::default());
    }

    #[test]
    fn a_store_closed_for_long_pauses_sweeps_and_a_new_one_does_not() {
        assert_eq!(
            sweeper(START - PAUSE_MS - 1).check(at(START + 60_000, 60_000)),
            RetentionSweep::default()
        );
        assert_ne!(sweeper(START - PAUSE_MS).check(at(START + 60_000, 60_000)), RetentionSweep::default());
        assert_ne!(sweeper(0).check(at(START + 60_000, 60_000)), RetentionSweep::default());
    }
}
