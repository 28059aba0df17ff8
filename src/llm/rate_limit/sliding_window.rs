//! A sliding window of calls or tokens: no sixty seconds, wherever they begin, exceed the limit. A call
//! reserves an estimate of its tokens, and its reported usage replaces the estimate at its end.

use crate::domain::usage::Usage;
use crate::ports::NodeShare;
use std::collections::VecDeque;

const MINUTE_MS: u64 = 60_000;

/// The calls or tokens of the last minute.
#[derive(Debug, Clone)]
pub(super) struct SlidingWindow {
    /// The limit of all nodes together.
    configured: u64,
    /// This node's part of it.
    pub(super) limit: u64,
    /// Amounts of one slot are added up. A slot counts until a minute after its end.
    slot_ms: u64,
    /// The oldest first.
    slots: VecDeque<WindowSlot>,
    sum: u64,
}

#[derive(Debug, Clone)]
struct WindowSlot {
    number: u64,
    amount: u64,
}

/// Tokens that are reserved for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenReservation {
    slot: u64,
    tokens: u64,
}

impl SlidingWindow {
    /// An empty window for calls, each of which has a time of its own.
    pub(super) fn requests(limit: u64) -> Self {
        let limit = limit.max(1);
        Self { configured: limit, limit, slot_ms: 1, slots: VecDeque::new(), sum: 0 }
    }

    /// An empty window for tokens. They are added up by the second.
    pub(super) fn tokens(limit: u64) -> Self {
        Self { slot_ms: 1_000, ..Self::requests(limit) }
    }

    /// Keeps the stricter of two limits.
    pub(super) fn tighten(&mut self, limit: u64) {
        self.configured = self.configured.min(limit.max(1));
        self.limit = self.limit.min(self.configured);
    }

    /// Limits this node to its part.
    pub(super) fn divide(&mut self, share: NodeShare) {
        self.limit = share.of(self.configured);
    }

    /// Time until the amount fits, milliseconds; 0: now. More than the limit fits into an empty window.
    pub(super) fn ready_in_ms(&mut self, now_ms: u64, amount: u64) -> u64 {
        let counted_ms = MINUTE_MS.saturating_add(self.slot_ms);
        let end_ms = |slot: &WindowSlot| slot.number.saturating_mul(self.slot_ms).saturating_add(counted_ms);
        while let Some(slot) = self.slots.front().filter(|slot| end_ms(slot) <= now_ms) {
            self.sum = self.sum.saturating_sub(slot.amount);
            self.slots.pop_front();
        }
        let (mut sum, mut left_ms) = (self.sum, 0);
        for slot in self.slots.iter().filter(|slot| slot.amount > 0) {
            if sum.saturating_add(amount) <= self.limit {
                break;
            }
            sum = sum.saturating_sub(slot.amount);
            left_ms = end_ms(slot).saturating_sub(now_ms);
        }
        left_ms
    }

    /// Time until a call may begin after `ahead` others, milliseconds; 0: now.
    pub(super) fn ready_after_ms(&mut self, now_ms: u64, ahead: usize) -> u64 {
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        // Each full window of calls ahead takes a minute.
        let windows = ahead.checked_div(self.limit).unwrap_or(0);
        let rest = ahead.checked_rem(self.limit).unwrap_or(0);
        let later_ms = windows.saturating_mul(MINUTE_MS.saturating_add(self.slot_ms));
        self.ready_in_ms(now_ms, rest.saturating_add(1)).saturating_add(later_ms)
    }

    /// Counts an amount now.
    pub(super) fn add(&mut self, now_ms: u64, amount: u64) -> TokenReservation {
        self.sum = self.sum.saturating_add(amount);
        let number = now_ms.checked_div(self.slot_ms).unwrap_or(0);
        if let Some(last) = self.slots.back_mut().filter(|last| last.number >= number) {
            last.amount = last.amount.saturating_add(amount);
            return TokenReservation { slot: last.number, tokens: amount };
        }
        self.slots.push_back(WindowSlot { number, amount });
        TokenReservation { slot: number, tokens: amount }
    }

    /// Replaces a reservation by the usage: the prompt counts at the begin of the call, the answer now.
    pub(super) fn settle(&mut self, now_ms: u64, reserved: TokenReservation, spent: Usage) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.number == reserved.slot) {
            slot.amount = slot.amount.saturating_sub(reserved.tokens).saturating_add(spent.prompt_tokens);
            self.sum = self.sum.saturating_sub(reserved.tokens).saturating_add(spent.prompt_tokens);
        }
        let answer = spent.completion_tokens.max(spent.total_tokens.saturating_sub(spent.prompt_tokens));
        self.add(now_ms, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests(limit: u64) -> SlidingWindow {
        SlidingWindow::requests(limit)
    }

    fn tokens(limit: u64) -> SlidingWindow {
        SlidingWindow::tokens(limit)
    }

    #[test]
    fn the_next_call_waits_until_the_oldest_is_a_minute_old() {
        let mut window = requests(2);
        window.add(1_000, 1);
        window.add(2_000, 1);
        assert_eq!(window.ready_after_ms(2_000, 0), 59_001);
        assert_eq!(window.ready_after_ms(2_000, 1), 60_001);
        assert_eq!(window.ready_after_ms(2_000, 2), 59_001 + 60_001, "two go first and take a minute");
        assert_eq!(window.ready_after_ms(61_000, 0), 1);
        assert_eq!(window.ready_after_ms(61_001, 0), 0);
        window.tighten(1);
        assert_eq!(window.ready_after_ms(61_001, 0), 1_000, "the strictest limit counts");
        window.tighten(9);
        assert_eq!(window.limit, 1);
    }

    #[test]
    fn the_reported_usage_replaces_the_estimate() {
        let mut window = tokens(1_000);
        let reserved = window.add(500, 900);
        assert_eq!(window.ready_in_ms(500, 100), 0);
        assert_eq!(window.ready_in_ms(500, 101), 60_500, "the slot ends at 1 s");
        window.settle(10_000, reserved, Usage::new(300, 200));
        assert_eq!(window.ready_in_ms(10_000, 500), 0);
        assert_eq!(window.ready_in_ms(10_000, 501), 51_000, "the prompt goes first");
        assert_eq!(window.ready_in_ms(10_000, 801), 61_000, "then the answer");
    }

    #[test]
    fn a_call_larger_than_the_limit_runs_alone() {
        let mut window = tokens(100);
        assert_eq!(window.ready_in_ms(0, 5_000), 0);
        let reserved = window.add(0, 5_000);
        assert_eq!(window.ready_in_ms(0, 1), 61_000);
        window.settle(0, reserved, Usage::default());
        assert_eq!(window.ready_in_ms(0, 5_000), 0, "nothing was spent: there are no others");
    }

    #[test]
    fn a_call_longer_than_a_minute_still_counts_its_tokens() {
        let mut window = tokens(100);
        let reserved = window.add(0, 50);
        assert_eq!(window.ready_in_ms(100_000, 100), 0);
        window.settle(100_000, reserved, Usage { total_tokens: 90, ..Usage::new(10, 20) });
        assert_eq!(window.ready_in_ms(100_000, 21), 61_000, "hidden thinking is in the total alone");
        assert_eq!(window.ready_in_ms(100_000, 20), 0);
    }

    proptest! {
        #[test]
        fn p8_no_minute_sees_more_than_the_limit(
            limit in 1_u64..20,
            steps in proptest::collection::vec(0_u64..9_000, 1..300),
        ) {
            let (mut window, mut now_ms, mut begun) = (requests(limit), 0, Vec::new());
            for step_ms in steps {
                now_ms += step_ms;
                let wait_ms = window.ready_after_ms(now_ms, 0);
                if wait_ms > 0 {
                    prop_assert!(window.clone().ready_after_ms(now_ms + wait_ms, 0) == 0, "the estimate is honest");
                    prop_assert!(wait_ms <= MINUTE_MS + 1);
                } else {
                    window.add(now_ms, 1);
                    begun.push(now_ms);
                }
            }
            let limit = usize::try_from(limit).unwrap();
            for pair in begun.windows(limit + 1) {
                prop_assert!(pair[limit] - pair[0] > MINUTE_MS);
            }
        }

        #[test]
        fn a_call_that_retries_at_the_given_time_is_admitted(limit in 1_usize..9, callers in 1_usize..40) {
            let mut window = requests(limit as u64);
            for _ in 0..limit {
                window.add(0, 1);
            }
            let times: Vec<u64> = (0..callers).map(|ahead| window.ready_after_ms(0, ahead)).collect();
            for now_ms in times {
                prop_assert_eq!(window.ready_after_ms(now_ms, 0), 0);
                window.add(now_ms, 1);
            }
        }

        #[test]
        fn p8_no_minute_sees_more_tokens_than_the_limit(
            calls in proptest::collection::vec((0_u64..9_000, 1_u64..1_000), 1..300),
        ) {
            let (mut window, mut now_ms, mut spent) = (tokens(1_000), 0, Vec::new());
            for (step_ms, tokens) in calls {
                now_ms += step_ms;
                let wait_ms = window.ready_in_ms(now_ms, tokens);
                if wait_ms > 0 {
                    prop_assert_eq!(window.clone().ready_in_ms(now_ms + wait_ms, tokens), 0, "the estimate is honest");
                    prop_assert!(window.slots.len() <= 62, "memory is bounded");
                } else {
                    window.add(now_ms, tokens);
                    spent.push((now_ms, tokens));
                }
            }
            for (at, (from_ms, _)) in spent.iter().enumerate() {
                let minute = spent[at..].iter().take_while(|(when_ms, _)| when_ms - from_ms <= MINUTE_MS);
                prop_assert!(minute.map(|(_, tokens)| tokens).sum::<u64>() <= 1_000);
            }
        }
    }
}
