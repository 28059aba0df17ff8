//! Tokens per minute, as a sliding window of one-second slots. A call reserves an estimate, which its reported usage
//! replaces at its end.

use super::request_window::MINUTE_MS;
use crate::domain::usage::Usage;
use std::collections::VecDeque;

/// The length of a slot, milliseconds. A slot counts until a minute after its end.
const SLOT_MS: u64 = 1_000;

/// The tokens of the last minute, oldest slot first.
#[derive(Debug, Clone)]
pub(super) struct TokenWindow {
    bound: u64,
    slots: VecDeque<TokenSlot>,
}

#[derive(Debug, Clone)]
struct TokenSlot {
    number: u64,
    tokens: u64,
}

impl TokenSlot {
    fn expires_ms(&self) -> u64 {
        self.number.saturating_add(1).saturating_mul(SLOT_MS).saturating_add(MINUTE_MS)
    }
}

/// Tokens that are reserved for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenReservation {
    slot: u64,
    tokens: u64,
}

impl TokenWindow {
    /// An empty window.
    pub(super) fn new(bound: u64) -> Self {
        Self { bound, slots: VecDeque::new() }
    }

    /// The limit.
    pub(super) fn bound(&self) -> u64 {
        self.bound
    }

    /// Keeps the stricter of two limits.
    pub(super) fn tighten(&mut self, bound: u64) {
        self.bound = self.bound.min(bound);
    }

    /// Time until so many tokens fit, milliseconds; 0: now. More than the limit fit into an empty window.
    pub(super) fn ready_in_ms(&mut self, now_ms: u64, tokens: u64) -> u64 {
        while self.slots.front().is_some_and(|slot| slot.expires_ms() <= now_ms) {
            self.slots.pop_front();
        }
        let mut sum = self.slots.iter().fold(0, |sum: u64, slot| sum.saturating_add(slot.tokens));
        let mut left_ms = 0;
        for slot in self.slots.iter().filter(|slot| slot.tokens > 0) {
            if sum.saturating_add(tokens) <= self.bound {
                break;
            }
            sum = sum.saturating_sub(slot.tokens);
            left_ms = slot.expires_ms().saturating_sub(now_ms);
        }
        left_ms
    }

    /// Reserves tokens for a call that begins.
    pub(super) fn reserve(&mut self, now_ms: u64, tokens: u64) -> TokenReservation {
        TokenReservation { slot: self.add(now_ms, tokens), tokens }
    }

    /// Replaces a reservation by the usage: the prompt counts at the call's begin, the answer now.
    pub(super) fn settle(&mut self, now_ms: u64, reserved: TokenReservation, spent: Usage) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.number == reserved.slot) {
            slot.tokens = slot.tokens.saturating_sub(reserved.tokens).saturating_add(spent.prompt_tokens);
        }
        let answer = spent.completion_tokens.max(spent.total_tokens.saturating_sub(spent.prompt_tokens));
        self.add(now_ms, answer);
    }

    fn add(&mut self, now_ms: u64, tokens: u64) -> u64 {
        let number = now_ms.checked_div(SLOT_MS).unwrap_or(0);
        match self.slots.back_mut() {
            Some(last) if last.number >= number => {
                last.tokens = last.tokens.saturating_add(tokens);
                last.number
            }
            _ => {
                self.slots.push_back(TokenSlot { number, tokens });
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_estimate_is_replaced_by_what_was_spent() {
        let mut window = TokenWindow::new(1_000);
        let held = window.reserve(500, 900);
        assert_eq!(window.ready_in_ms(500, 100), 0);
        assert_eq!(window.ready_in_ms(500, 101), 60_500, "the slot ends at 1 s");
        window.settle(10_000, held, Usage::new(300, 200));
        assert_eq!(window.ready_in_ms(10_000, 500), 0);
        assert_eq!(window.ready_in_ms(10_000, 501), 51_000, "the prompt goes first");
        assert_eq!(window.ready_in_ms(10_000, 801), 61_000, "then the answer");
    }

    #[test]
    fn what_is_larger_than_the_bound_goes_alone() {
        let mut window = TokenWindow::new(100);
        assert_eq!(window.ready_in_ms(0, 5_000), 0);
        let held = window.reserve(0, 5_000);
        assert_eq!(window.ready_in_ms(0, 1), 61_000);
        window.settle(0, held, Usage::default());
        assert_eq!(window.ready_in_ms(0, 5_000), 0, "nothing was spent: there are no others");
    }

    #[test]
    fn a_call_longer_than_a_minute_still_counts_its_answer() {
        let mut window = TokenWindow::new(100);
        let held = window.reserve(0, 50);
        assert_eq!(window.ready_in_ms(100_000, 100), 0);
        window.settle(100_000, held, Usage { total_tokens: 90, ..Usage::new(10, 20) });
        assert_eq!(window.ready_in_ms(100_000, 21), 61_000, "hidden thinking is in the total alone");
        assert_eq!(window.ready_in_ms(100_000, 20), 0);
    }

    proptest! {
        #[test]
        fn p8_no_minute_sees_more_tokens_than_the_bound(
            calls in proptest::collection::vec((0_u64..9_000, 1_u64..1_000), 1..300),
        ) {
            let (mut window, mut now_ms, mut spent) = (TokenWindow::new(1_000), 0, Vec::new());
            for (step_ms, tokens) in calls {
                now_ms += step_ms;
                let wait_ms = window.ready_in_ms(now_ms, tokens);
                if wait_ms > 0 {
                    prop_assert_eq!(window.clone().ready_in_ms(now_ms + wait_ms, tokens), 0, "the estimate is honest");
                    prop_assert!(window.slots.len() <= 62, "memory is bounded");
                } else {
                    window.reserve(now_ms, tokens);
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
