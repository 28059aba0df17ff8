//! When deferred calls come again: at different times, so that they do not all return at once.

/// The delay when the time to the next permit is unknown, milliseconds.
const UNKNOWN_WAIT_MS: u64 = 500;
/// The interval between two deferred calls until ends of calls have been measured, milliseconds.
pub(super) const DEFAULT_INTERVAL_MS: u64 = 200;
/// Jitter, milliseconds. The steps visit each value once before they repeat.
const JITTER_MS: u64 = 251;
const JITTER_STEP: u64 = 97;

/// Spreads the times.
#[derive(Debug, Default)]
pub(super) struct RetryTimes {
    count: u64,
}

impl RetryTimes {
    /// After how many milliseconds the next call should come again: after `ready_in_ms`, if known (not 0),
    /// and after `others_ms` for other calls.
    pub(super) fn next_retry_ms(&mut self, ready_in_ms: u64, others_ms: u64) -> u64 {
        let jitter_ms = self.count.wrapping_mul(JITTER_STEP).checked_rem(JITTER_MS).unwrap_or(0);
        self.count = self.count.wrapping_add(1);
        let base_ms = if ready_in_ms == 0 { UNKNOWN_WAIT_MS } else { ready_in_ms };
        base_ms.saturating_add(others_ms).saturating_add(jitter_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferred_calls_come_again_at_different_times() {
        let mut times = RetryTimes::default();
        let delays: Vec<u64> = (0..5_000).map(|_| times.next_retry_ms(0, 0)).collect();
        assert_eq!(delays[0], UNKNOWN_WAIT_MS);
        assert!(delays.iter().all(|ms| *ms < UNKNOWN_WAIT_MS + JITTER_MS));
        assert!(delays.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(RetryTimes::default().next_retry_ms(70_000, 400), 70_400);
    }
}
