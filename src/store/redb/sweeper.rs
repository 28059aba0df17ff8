//! When retention works. Owns the minute between two looks, and the distrust of clocks: a wall clock that has jumped makes
//! everything look old, and what is removed does not come back. Refuses to remove anything itself.

use super::retention::Sweep;
use crate::store::options::RetentionOptions;
use std::time::Duration;

/// Between two looks, milliseconds.
const EVERY_MS: u64 = 60_000;
/// A wall clock that goes off so far from the monotonic one has jumped, milliseconds.
const JUMP_MS: u64 = 3_600_000;
/// So long without a jump, and a clock is trusted again, milliseconds.
const STEADY_MS: u64 = 24 * 3_600_000;
/// A store that was closed for longer cannot tell a pause from a jump, milliseconds.
const PAUSE_MS: u64 = 24 * 3_600_000;

/// Wall and monotonic time, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) wall_ms: u64,
    pub(super) monotonic_ms: u64,
}

/// The state between two looks.
#[derive(Debug)]
pub(super) struct Sweeper {
    options: RetentionOptions,
    last: Moment,
    due_ms: u64,
    /// Until then nothing is removed, monotonic.
    distrusts_until_ms: Option<u64>,
}

impl Sweeper {
    /// At the store's opening. `seen_ms`: the newest wall time that the file knows, 0 if none.
    pub(super) fn new(options: RetentionOptions, now: Moment, seen_ms: u64) -> Self {
        let due_ms = now.monotonic_ms.saturating_add(EVERY_MS);
        let mut sweeper = Self { options, last: now, due_ms, distrusts_until_ms: None };
        if seen_ms > 0 && now.wall_ms.saturating_sub(seen_ms) > PAUSE_MS {
            sweeper.distrust(now, "the store was closed for more than a day, or the clock has jumped");
        }
        sweeper
    }

    /// Whether it is time to look.
    pub(super) fn is_due(&self, monotonic_ms: u64) -> bool {
        monotonic_ms >= self.due_ms
    }

    /// Until it is.
    pub(super) fn wait(&self, monotonic_ms: u64) -> Duration {
        Duration::from_millis(self.due_ms.saturating_sub(monotonic_ms))
    }

    /// Looks at the clocks: what may be removed now. What is gone already may always be cleared away.
    pub(super) fn look(&mut self, now: Moment) -> Sweep {
        let walked = now.monotonic_ms.saturating_sub(self.last.monotonic_ms);
        let expected = self.last.wall_ms.saturating_add(walked);
        self.due_ms = now.monotonic_ms.saturating_add(EVERY_MS);
        self.last = now;
        if now.wall_ms.abs_diff(expected) > JUMP_MS
            && (now.wall_ms > expected || self.distrusts_until_ms.is_some())
        {
            self.distrust(now, "the clock has jumped by more than an hour");
        }
        if self.distrusts_until_ms.is_some_and(|until_ms| now.monotonic_ms < until_ms) {
            return Sweep::default();
        }
        self.distrusts_until_ms = None;
        let before = |keep: crate::store::Keep| keep.cutoff_ms(now.wall_ms);
        let RetentionOptions { deltas, events, jobs } = &self.options;
        Sweep {
            deltas_before_ms: before(*deltas),
            events_before_ms: before(*events),
            jobs_before_ms: before(*jobs),
        }
    }

    /// More is due than one transaction does: the next look is at the next silence.
    pub(super) fn hurry(&mut self, monotonic_ms: u64) {
        self.due_ms = monotonic_ms;
    }

    fn distrust(&mut self, now: Moment, reason: &str) {
        self.distrusts_until_ms = Some(now.monotonic_ms.saturating_add(STEADY_MS));
        tracing::warn!(reason, "retention removes nothing until the clock has been steady for 24 hours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Keep;

    const HOUR: u64 = 3_600_000;
    const START: u64 = 1_000 * HOUR;

    fn at(wall_ms: u64, monotonic_ms: u64) -> Moment {
        Moment { wall_ms, monotonic_ms }
    }

    fn sweeper(seen_ms: u64) -> Sweeper {
        let options =
            RetentionOptions { deltas: Keep::For(HOUR), events: Keep::Forever, jobs: Keep::For(2 * HOUR) };
        Sweeper::new(options, at(START, 0), seen_ms)
    }

    #[test]
    fn a_minute_lies_between_two_looks() {
        let mut sweeper = sweeper(START);
        assert!(!sweeper.is_due(EVERY_MS - 1) && sweeper.is_due(EVERY_MS));
        assert_eq!(sweeper.wait(EVERY_MS - 5), Duration::from_millis(5));
        let now = START + EVERY_MS;
        let sweep = sweeper.look(at(now, EVERY_MS));
        let (deltas, jobs) = (Some(now - HOUR), Some(now - 2 * HOUR));
        let expected = Sweep { deltas_before_ms: deltas, events_before_ms: None, jobs_before_ms: jobs };
        assert_eq!(sweep, expected);
        assert!(!sweeper.is_due(EVERY_MS + 1));
        sweeper.hurry(EVERY_MS + 1);
        assert!(sweeper.is_due(EVERY_MS + 1));
    }

    #[test]
    fn a_jump_forward_stops_everything_for_a_steady_day() {
        let mut sweeper = sweeper(START);
        let jump = 500 * HOUR;
        assert_eq!(sweeper.look(at(START + jump, 60_000)), Sweep::default());
        assert_eq!(sweeper.look(at(START + jump + STEADY_MS - 1, 59_999 + STEADY_MS)), Sweep::default());
        assert_ne!(sweeper.look(at(START + jump + STEADY_MS, 60_000 + STEADY_MS)), Sweep::default());
    }

    #[test]
    fn a_jump_back_out_of_a_jump_is_no_steadiness() {
        let mut sweeper = sweeper(START);
        assert_eq!(sweeper.look(at(START + 500 * HOUR, 60_000)), Sweep::default());
        assert_eq!(sweeper.look(at(START, HOUR)), Sweep::default());
        assert_eq!(sweeper.look(at(START + STEADY_MS - HOUR, STEADY_MS)), Sweep::default());
        assert_ne!(sweeper.look(at(START + STEADY_MS, STEADY_MS + HOUR)), Sweep::default());
    }

    #[test]
    fn a_small_step_and_a_jump_back_are_harmless() {
        let mut sweeper = sweeper(START);
        assert_ne!(sweeper.look(at(START + 60_000 + HOUR, 60_000)), Sweep::default());
        assert_ne!(sweeper.look(at(START - 100 * HOUR, 120_000)), Sweep::default());
    }

    #[test]
    fn a_file_that_was_closed_for_long_waits_as_well_and_a_new_one_does_not() {
        assert_eq!(sweeper(START - PAUSE_MS - 1).look(at(START + 60_000, 60_000)), Sweep::default());
        assert_ne!(sweeper(START - PAUSE_MS).look(at(START + 60_000, 60_000)), Sweep::default());
        assert_ne!(sweeper(0).look(at(START + 60_000, 60_000)), Sweep::default());
    }
}
