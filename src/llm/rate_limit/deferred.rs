//! When deferred calls come again: each later than the one before, so that they do not all return at once.

use std::collections::VecDeque;

/// The delay when the time to the next permit is unknown, milliseconds.
const UNKNOWN_WAIT_MS: u64 = 500;
/// The interval between two deferred calls until ends of calls have been measured, milliseconds.
pub(super) const DEFAULT_INTERVAL_MS: u64 = 200;
/// The longest delay because of other deferred calls, milliseconds.
const MAX_QUEUE_WAIT_MS: u64 = 600_000;
/// Number of deferred calls that are remembered.
const MAX_DEFERRED: usize = 1_024;
/// Jitter, milliseconds. The steps visit each value once before they repeat.
const JITTER_MS: u64 = 251;
const JITTER_STEP: u64 = 97;

/// The deferred calls that have not come again yet.
#[derive(Debug, Default)]
pub(super) struct DeferredCalls {
    retry_at_ms: VecDeque<u64>,
    count: u64,
}

impl DeferredCalls {
    /// The number of calls that are still deferred.
    pub(super) fn count(&mut self, now_ms: u64) -> usize {
        self.retry_at_ms.retain(|at| *at > now_ms);
        self.retry_at_ms.len()
    }

    /// After how many milliseconds the next call should come again: after `ready_in_ms`, if known (not 0),
    /// and after `ahead` other calls, one of which is admitted every `interval_ms`.
    pub(super) fn next_retry_ms(
        &mut self,
        now_ms: u64,
        ready_in_ms: u64,
        ahead: usize,
        interval_ms: u64,
    ) -> u64 {
        let others =
            u64::try_from(ahead).unwrap_or(u64::MAX).saturating_mul(interval_ms).min(MAX_QUEUE_WAIT_MS);
        let jitter_ms = self.count.wrapping_mul(JITTER_STEP).checked_rem(JITTER_MS).unwrap_or(0);
        self.count = self.count.wrapping_add(1);
        let base_ms = if ready_in_ms == 0 { UNKNOWN_WAIT_MS } else { ready_in_ms };
        let wait_ms = base_ms.saturating_add(others).saturating_add(jitter_ms);
        if self.retry_at_ms.len() < MAX_DEFERRED {
            self.retry_at_ms.push_back(now_ms.saturating_add(wait_ms));
        }
        wait_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_with_the_calls_ahead_and_differ() {
        let mut deferred = DeferredCalls::default();
        let mut delays = Vec::new();
        for _ in 0..5_000 {
            let ahead = deferred.count(0);
            delays.push(deferred.next_retry_ms(0, 0, ahead, DEFAULT_INTERVAL_MS));
        }
        assert_eq!(delays[0], UNKNOWN_WAIT_MS);
        assert!(delays[20] > delays[0] + 20 * DEFAULT_INTERVAL_MS, "{delays:?}");
        assert!(delays.iter().all(|ms| *ms < UNKNOWN_WAIT_MS + MAX_QUEUE_WAIT_MS + JITTER_MS));
        assert!(delays.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(deferred.count(0), MAX_DEFERRED, "memory is bounded");
        assert_eq!(deferred.count(UNKNOWN_WAIT_MS + MAX_QUEUE_WAIT_MS), 0, "they have come back");
    }
}
