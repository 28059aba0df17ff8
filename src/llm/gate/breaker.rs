//! Whether a provider that keeps failing is asked at all. Owns the count of failures in a row and the times between two
//! tries; refuses to judge what a failure is.

use crate::ports::CircuitState;

/// How long nobody is asked at first, milliseconds.
pub(super) const FIRST_MS: u64 = 5_000;

/// A circuit breaker: closed, open for a while, or waiting for what becomes of one probe.
#[derive(Debug)]
pub(super) struct Breaker {
    /// Failures in a row that open it; 0: nothing does.
    threshold: u32,
    longest_ms: u64,
    /// Since the last success.
    failures: u32,
    /// How long it is open next; doubles until a success.
    next_ms: u64,
    circuit: Circuit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Circuit {
    Closed,
    Open { until_ms: u64 },
    Probing,
}

/// What a call that wants to begin finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Go on.
    Free,
    /// Go on, as the one that finds out whether the provider is back.
    Probe,
    /// Another call finds that out now.
    Probing,
    /// Do not ask.
    Shut {
        /// So many calls failed in a row.
        failures: u32,
        /// Until the next probe.
        left_ms: u64,
    },
}

impl Breaker {
    /// Closed. It opens after `threshold` failures in a row, for `longest_ms` at most.
    pub(super) fn new(threshold: u32, longest_ms: u64) -> Self {
        let next_ms = FIRST_MS.min(longest_ms);
        Self { threshold, longest_ms, failures: 0, next_ms, circuit: Circuit::Closed }
    }

    /// What a call finds that wants to begin now.
    pub(super) fn look(&self, now_ms: u64) -> Way {
        match self.circuit {
            Circuit::Closed => Way::Free,
            Circuit::Probing => Way::Probing,
            Circuit::Open { until_ms } if until_ms > now_ms => {
                Way::Shut { failures: self.failures, left_ms: until_ms.saturating_sub(now_ms) }
            }
            Circuit::Open { .. } => Way::Probe,
        }
    }

    /// Where it stands; open until somebody tries.
    pub(super) fn state(&self) -> CircuitState {
        match self.circuit {
            Circuit::Closed => CircuitState::Closed,
            Circuit::Probing => CircuitState::HalfOpen,
            Circuit::Open { .. } => CircuitState::Open,
        }
    }

    /// The probe begins.
    pub(super) fn probe(&mut self) {
        self.circuit = Circuit::Probing;
    }

    /// A call ended well, or was answered.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
        self.next_ms = FIRST_MS.min(self.longest_ms);
        self.circuit = Circuit::Closed;
    }

    /// The probe's answer has begun: others need not wait for its end. The failures stand until it is whole.
    pub(super) fn revive(&mut self) {
        if self.circuit == Circuit::Probing {
            self.circuit = Circuit::Closed;
        }
    }

    /// The provider was down. Of calls that began before it opened, none opens it for longer.
    pub(super) fn fail(&mut self, now_ms: u64, is_probe: bool) {
        self.failures = self.failures.saturating_add(1);
        let opens = match self.circuit {
            Circuit::Closed => self.threshold > 0 && self.failures >= self.threshold,
            Circuit::Probing => is_probe,
            Circuit::Open { .. } => false,
        };
        if opens {
            self.circuit = Circuit::Open { until_ms: now_ms.saturating_add(self.next_ms) };
            self.next_ms = self.next_ms.saturating_mul(2).min(self.longest_ms);
        }
    }

    /// A call ended without telling anything. Of a probe, the next call takes the place.
    pub(super) fn shrug(&mut self, now_ms: u64, is_probe: bool) {
        if is_probe && self.circuit == Circuit::Probing {
            self.circuit = Circuit::Open { until_ms: now_ms };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn broken() -> Breaker {
        let mut breaker = Breaker::new(5, 60_000);
        for _ in 0..4 {
            breaker.fail(0, false);
        }
        assert_eq!(breaker.look(0), Way::Free, "four failures are not five");
        breaker.fail(0, false);
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_does_not() {
        assert_eq!(broken().look(0), Way::Shut { failures: 5, left_ms: 5_000 });
        let mut breaker = Breaker::new(2, 60_000);
        for _ in 0..9 {
            breaker.fail(0, false);
            assert_eq!(breaker.look(0), Way::Free);
            breaker.succeed();
        }
    }

    #[test]
    fn probes_that_fail_double_the_time_up_to_the_longest() {
        let (mut breaker, mut now_ms) = (broken(), 0);
        for wait_ms in [5_000, 10_000, 20_000, 40_000, 60_000, 60_000] {
            assert!(matches!(breaker.look(now_ms), Way::Shut { left_ms, .. } if left_ms == wait_ms));
            now_ms += wait_ms;
            assert_eq!(breaker.look(now_ms), Way::Probe);
            breaker.probe();
            assert_eq!(breaker.look(now_ms), Way::Probing, "one probe at a time");
            breaker.fail(now_ms, true);
        }
        now_ms += 60_000;
        breaker.probe();
        breaker.succeed();
        assert_eq!(breaker.look(now_ms), Way::Free);
        for _ in 0..5 {
            breaker.fail(now_ms, false);
        }
        assert_eq!(breaker.look(now_ms), Way::Shut { failures: 5, left_ms: 5_000 }, "as at first");
    }

    #[test]
    fn a_probe_that_was_cancelled_leaves_its_place_to_the_next() {
        let mut breaker = broken();
        breaker.probe();
        breaker.shrug(5_000, true);
        assert_eq!(breaker.look(5_000), Way::Probe);
        breaker.shrug(5_000, false);
        assert_eq!(breaker.look(4_999), Way::Shut { failures: 5, left_ms: 1 });
    }

    #[test]
    fn an_answer_that_begins_lets_others_in_and_its_failure_shuts_them_out_for_longer() {
        let mut breaker = broken();
        breaker.probe();
        breaker.revive();
        assert_eq!(breaker.look(5_000), Way::Free);
        breaker.fail(5_000, true);
        assert_eq!(breaker.look(5_000), Way::Shut { failures: 6, left_ms: 10_000 });
    }

    #[test]
    fn late_failures_of_earlier_calls_change_nothing() {
        let mut breaker = broken();
        breaker.fail(4_000, false);
        assert_eq!(breaker.look(5_000), Way::Probe);
        breaker.probe();
        breaker.fail(5_000, false);
        assert_eq!(breaker.look(5_000), Way::Probing, "only the probe's own end counts");
    }

    #[test]
    fn zero_switches_it_off() {
        let mut breaker = Breaker::new(0, 60_000);
        for _ in 0..1_000 {
            breaker.fail(0, false);
        }
        assert_eq!(breaker.look(0), Way::Free);
    }

    proptest! {
        /// Whatever happens: it never stays shut for longer than the longest time, and nobody waits for a probe
        /// that is not under way.
        #[test]
        fn it_always_opens_a_way_again(acts in proptest::collection::vec((0_u8..5, 0_u64..70_000), 1..200)) {
            let (mut breaker, mut now_ms, mut probing) = (Breaker::new(3, 60_000), 0, false);
            for (act, step_ms) in acts {
                now_ms += step_ms;
                if let Way::Shut { left_ms, failures } = breaker.look(now_ms) {
                    prop_assert!(left_ms <= 60_000 && failures >= 3);
                }
                if breaker.look(now_ms) == Way::Probe {
                    breaker.probe();
                    probing = true;
                }
                let is_probe = probing && act % 2 == 0;
                match act {
                    0 | 1 => breaker.fail(now_ms, is_probe),
                    2 | 3 => breaker.shrug(now_ms, is_probe),
                    _ => breaker.succeed(),
                }
                probing &= !is_probe;
                prop_assert!(probing || breaker.look(now_ms) != Way::Probing, "nobody is probing");
            }
            if probing {
                breaker.shrug(now_ms, true);
            }
            prop_assert!(matches!(breaker.look(now_ms + 60_000), Way::Free | Way::Probe));
        }
    }
}
