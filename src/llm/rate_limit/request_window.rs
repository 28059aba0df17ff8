//! Calls per minute, as a sliding window: no sixty seconds, wherever they begin, have more calls than allowed.

use std::collections::VecDeque;

/// The length of the window, milliseconds.
pub(super) const MINUTE_MS: u64 = 60_000;
/// How long a call counts. Times are truncated to milliseconds, so a full minute takes one more.
const COUNTED_MS: u64 = MINUTE_MS + 1;

/// The calls of the last minute, oldest first.
#[derive(Debug, Clone)]
pub(super) struct RequestWindow {
    bound: usize,
    begun_ms: VecDeque<u64>,
}

impl RequestWindow {
    /// An empty window. A bound of 0 counts as 1.
    pub(super) fn new(bound: u32) -> Self {
        Self { bound: usize::try_from(bound.max(1)).unwrap_or(usize::MAX), begun_ms: VecDeque::new() }
    }

    /// The limit.
    pub(super) fn bound(&self) -> usize {
        self.bound
    }

    /// Keeps the stricter of two limits.
    pub(super) fn tighten(&mut self, bound: u32) {
        self.bound = self.bound.min(Self::new(bound).bound);
    }

    /// Time until a call may begin after `ahead` others, milliseconds; 0: now.
    pub(super) fn ready_in_ms(&mut self, now_ms: u64, ahead: usize) -> u64 {
        while self.begun_ms.front().is_some_and(|begun| begun.saturating_add(COUNTED_MS) <= now_ms) {
            self.begun_ms.pop_front();
        }
        // Each full window of calls ahead takes a minute.
        let minutes = u64::try_from(ahead.checked_div(self.bound).unwrap_or(0)).unwrap_or(u64::MAX);
        let ahead = ahead.checked_rem(self.bound).unwrap_or(0);
        let later_ms = minutes.saturating_mul(COUNTED_MS);
        // The last call that has to leave the window.
        let blocking = self.begun_ms.len().saturating_add(ahead).checked_sub(self.bound);
        let left_ms = blocking
            .and_then(|at| self.begun_ms.get(at))
            .map_or(0, |begun| begun.saturating_add(COUNTED_MS).saturating_sub(now_ms));
        left_ms.saturating_add(later_ms)
    }

    /// Counts a call.
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.begun_ms.push_back(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_next_call_waits_until_the_oldest_is_a_minute_ago() {
        let mut window = RequestWindow::new(2);
        window.begin(1_000);
        window.begin(2_000);
        assert_eq!(window.ready_in_ms(2_000, 0), 59_001);
        assert_eq!(window.ready_in_ms(2_000, 1), 60_001);
        assert_eq!(window.ready_in_ms(2_000, 2), 59_001 + 60_001, "two go first and take a minute");
        assert_eq!(window.ready_in_ms(61_000, 0), 1);
        assert_eq!(window.ready_in_ms(61_001, 0), 0);
        window.tighten(1);
        assert_eq!(window.ready_in_ms(61_001, 0), 1_000, "the strictest bound holds");
        window.tighten(9);
        assert_eq!(window.bound(), 1);
    }

    proptest! {
        #[test]
        fn p8_no_minute_sees_more_than_the_bound(
            bound in 1_u32..20,
            steps in proptest::collection::vec(0_u64..9_000, 1..300),
        ) {
            let (mut window, mut now_ms, mut begun) = (RequestWindow::new(bound), 0, Vec::new());
            for step_ms in steps {
                now_ms += step_ms;
                let wait_ms = window.ready_in_ms(now_ms, 0);
                if wait_ms > 0 {
                    prop_assert!(window.clone().ready_in_ms(now_ms + wait_ms, 0) == 0, "the estimate is honest");
                    prop_assert!(wait_ms <= COUNTED_MS);
                } else {
                    window.begin(now_ms);
                    begun.push(now_ms);
                }
            }
            let bound = bound as usize;
            for pair in begun.windows(bound + 1) {
                prop_assert!(pair[bound] - pair[0] > MINUTE_MS);
            }
        }

        #[test]
        fn whoever_comes_when_it_was_told_finds_room(bound in 1_usize..9, guests in 1_usize..40) {
            let mut window = RequestWindow::new(u32::try_from(bound).unwrap());
            for _ in 0..bound {
                window.begin(0);
            }
            let told: Vec<u64> = (0..guests).map(|ahead| window.ready_in_ms(0, ahead)).collect();
            for now_ms in told {
                prop_assert_eq!(window.ready_in_ms(now_ms, 0), 0);
                window.begin(now_ms);
            }
        }
    }
}
