//! Decides when retention runs: soon after a start, then once a minute, and not while the wall clock is in
//! doubt ([`super::clock_trust`]).

use crate::store::RetentionAge;
use crate::store::options::RetentionOptions;
use std::time::Duration;

/// Time until the first check, milliseconds: the jobs that were waiting for the start go first.
const FIRST_MS: u64 = 5_000;
/// Interval between two checks, milliseconds.
pub(crate) const INTERVAL_MS: u64 = 60_000;

/// Jobs that ended before these times are due, unix milliseconds; `None` when no job ever is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_field_names, reason = "the unit stands last")]
pub(crate) struct RetentionSweep {
    pub(crate) deltas_before_ms: Option<u64>,
    pub(crate) events_before_ms: Option<u64>,
    pub(crate) jobs_before_ms: Option<u64>,
    /// Uploaded files that expire before this time are due.
    pub(crate) files_before_ms: Option<u64>,
}

impl RetentionSweep {
    /// What may be removed at this wall time, if the clock is trusted.
    pub(crate) fn at(options: &RetentionOptions, wall_ms: u64) -> Self {
        let before = |keep: RetentionAge| keep.cutoff_ms(wall_ms);
        let RetentionOptions { deltas, events, jobs, .. } = options;
        Self {
            deltas_before_ms: before(*deltas),
            events_before_ms: before(*events),
            jobs_before_ms: before(*jobs),
            files_before_ms: Some(wall_ms),
        }
    }
}

/// State between two checks.
#[derive(Debug)]
pub(crate) struct Sweeper {
    options: RetentionOptions,
    due_ms: u64,
}

impl Sweeper {
    /// A sweeper of a store that opens now.
    pub(crate) fn new(options: RetentionOptions, monotonic_ms: u64) -> Self {
        Self { options, due_ms: monotonic_ms.saturating_add(FIRST_MS) }
    }

    /// Whether the next check is due.
    pub(crate) fn is_due(&self, monotonic_ms: u64) -> bool {
        monotonic_ms >= self.due_ms
    }

    /// Time until the next check.
    pub(crate) fn wait(&self, monotonic_ms: u64) -> Duration {
        Duration::from_millis(self.due_ms.saturating_sub(monotonic_ms))
    }

    /// Schedules the next check.
    pub(crate) fn postpone(&mut self, monotonic_ms: u64) {
        self.due_ms = monotonic_ms.saturating_add(INTERVAL_MS);
    }

    /// What may be removed at this wall time, if the clock is trusted.
    pub(crate) fn sweep(&self, wall_ms: u64) -> RetentionSweep {
        RetentionSweep::at(&self.options, wall_ms)
    }

    /// Schedules the next check for the next idle moment, because more is due than one transaction does.
    pub(crate) fn run_when_idle(&mut self, monotonic_ms: u64) {
        self.due_ms = monotonic_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 1_000 * HOUR;

    #[test]
    fn the_sweeper_runs_soon_and_then_once_a_minute_unless_asked_sooner() {
        let options = RetentionOptions {
            deltas: RetentionAge::For(HOUR),
            events: RetentionAge::Forever,
            jobs: RetentionAge::For(2 * HOUR),
            ..RetentionOptions::default()
        };
        let mut sweeper = Sweeper::new(options, 0);
        assert!(!sweeper.is_due(FIRST_MS - 1) && sweeper.is_due(FIRST_MS));
        assert_eq!(sweeper.wait(FIRST_MS - 5), Duration::from_millis(5));
        let (deltas, jobs) = (Some(NOW - HOUR), Some(NOW - 2 * HOUR));
        let expected = RetentionSweep {
            deltas_before_ms: deltas,
            events_before_ms: None,
            jobs_before_ms: jobs,
            files_before_ms: Some(NOW),
        };
        assert_eq!(sweeper.sweep(NOW), expected);
        sweeper.postpone(FIRST_MS);
        let next_ms = FIRST_MS + INTERVAL_MS;
        assert!(!sweeper.is_due(next_ms - 1) && sweeper.is_due(next_ms));
        sweeper.run_when_idle(FIRST_MS + 1);
        assert!(sweeper.is_due(FIRST_MS + 1));
    }
}
