//! Those who were told to come again. Owns the times that they are told: each later than the one before, so that they do
//! not come back together; refuses to hold places for them.

use std::collections::VecDeque;

/// What is told where nobody knows when there is room, milliseconds.
const BLIND_MS: u64 = 500;
/// Between two who are told the same, milliseconds, until it is known how fast calls end.
pub(super) const APART_MS: u64 = 200;
/// The most that the others make somebody wait where nobody knows when there is room, milliseconds.
const APART_MAX_MS: u64 = 600_000;
/// The most that are remembered; more are not told later times.
const REMEMBERED: usize = 1_024;
/// Jitter, milliseconds. Its steps go through all of it before they meet again.
const JITTER_MS: u64 = 251;
const JITTER_STEP: u64 = 97;

/// When those come again who were sent away.
#[derive(Debug, Default)]
pub(super) struct SentAway {
    back_at_ms: VecDeque<u64>,
    count: u64,
}

impl SentAway {
    /// How many have not come back yet.
    pub(super) fn count(&mut self, now_ms: u64) -> usize {
        self.back_at_ms.retain(|at| *at > now_ms);
        self.back_at_ms.len()
    }

    /// When the next one should come, milliseconds from now: `ready_in_ms`, where it is known, and behind `ahead` others,
    /// of whom one gets in every `apart_ms`.
    pub(super) fn promise(&mut self, now_ms: u64, ready_in_ms: u64, ahead: usize, apart_ms: u64) -> u64 {
        let others = u64::try_from(ahead).unwrap_or(u64::MAX).saturating_mul(apart_ms).min(APART_MAX_MS);
        let jitter_ms = self.count.wrapping_mul(JITTER_STEP).checked_rem(JITTER_MS).unwrap_or(0);
        self.count = self.count.wrapping_add(1);
        let base_ms = if ready_in_ms == 0 { BLIND_MS } else { ready_in_ms };
        let wait_ms = base_ms.saturating_add(others).saturating_add(jitter_ms);
        if self.back_at_ms.len() < REMEMBERED {
            self.back_at_ms.push_back(now_ms.saturating_add(wait_ms));
        }
        wait_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_seconds_growing_with_those_before_and_no_two_the_same() {
        let mut sent_away = SentAway::default();
        let mut told = Vec::new();
        for _ in 0..5_000 {
            let ahead = sent_away.count(0);
            told.push(sent_away.promise(0, 0, ahead, APART_MS));
        }
        assert_eq!(told[0], BLIND_MS);
        assert!(told[20] > told[0] + 20 * APART_MS, "{told:?}");
        assert!(told.iter().all(|ms| *ms < BLIND_MS + APART_MAX_MS + JITTER_MS));
        assert!(told.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(sent_away.count(0), REMEMBERED, "memory is bounded");
        assert_eq!(sent_away.count(BLIND_MS + APART_MAX_MS), 0, "they have come back");
    }
}
