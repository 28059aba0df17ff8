//! A circuit breaker: after failures in a row, calls are refused for a time that doubles with each failed
//! probe.

use crate::ports::CircuitState;

/// How long the circuit is open at first, milliseconds.
pub(super) const FIRST_MS: u64 = 5_000;

/// The breaker of one provider.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// Failures in a row that open the circuit; 0 switches the breaker off.
    threshold: u32,
    longest_ms: u64,
    /// Failures since the last success.
    failures: u32,
    /// How long the circuit is open next, milliseconds.
    next_ms: u64,
    circuit: BreakerState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    Closed,
    Open { until_ms: u64 },
    Probing,
}

/// What the breaker decides about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakerDecision {
    /// The circuit is closed.
    Allow,
    /// The call is the probe of an open circuit.
    Probe,
    /// Another call is the probe.
    Probing,
    /// The circuit is open.
    Reject {
        /// Failures in a row.
        failures: u32,
        /// Time until the next probe, milliseconds.
        left_ms: u64,
    },
}

impl CircuitBreaker {
    /// A closed circuit that opens after `threshold` failures in a row, for at most `longest_ms`.
    pub(super) fn new(threshold: u32, longest_ms: u64) -> Self {
        let next_ms = FIRST_MS.min(longest_ms);
        Self { threshold, longest_ms, failures: 0, next_ms, circuit: BreakerState::Closed }
    }

    /// The decision about a call that wants to begin now.
    pub(super) fn check(&self, now_ms: u64) -> BreakerDecision {
        match self.circuit {
            BreakerState::Closed => BreakerDecision::Allow,
            BreakerState::Probing => BreakerDecision::Probing,
            BreakerState::Open { until_ms } if until_ms > now_ms => {
                BreakerDecision::Reject { failures: self.failures, left_ms: until_ms.saturating_sub(now_ms) }
            }
            BreakerState::Open { .. } => BreakerDecision::Probe,
        }
    }

    /// The state for metrics; open until a probe begins.
    pub(super) fn state(&self) -> CircuitState {
        match self.circuit {
            BreakerState::Closed => CircuitState::Closed,
            BreakerState::Probing => CircuitState::HalfOpen,
            BreakerState::Open { .. } => CircuitState::Open,
        }
    }

    /// Begins the probe.
    pub(super) fn probe(&mut self) {
        self.circuit = BreakerState::Probing;
    }

    /// Notes a call that the provider answered.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
        self.next_ms = FIRST_MS.min(self.longest_ms);
        self.circuit = BreakerState::Closed;
    }

    /// Closes the circuit when the probe's answer begins. The failures count until the answer is complete.
    pub(super) fn probe_answered(&mut self) {
        if self.circuit == BreakerState::Probing {
            self.circuit = BreakerState::Closed;
        }
    }

    /// Notes a failed call. Calls that began before the circuit opened do not prolong that.
    pub(super) fn fail(&mut self, now_ms: u64, is_probe: bool) {
        self.failures = self.failures.saturating_add(1);
        let opens = match self.circuit {
            BreakerState::Closed => self.threshold > 0 && self.failures >= self.threshold,
            BreakerState::Probing => is_probe,
            BreakerState::Open { .. } => false,
        };
        if opens {
            self.circuit = BreakerState::Open { until_ms: now_ms.saturating_add(self.next_ms) };
            self.next_ms = self.next_ms.saturating_mul(2).min(self.longest_ms);
        }
    }

    /// Notes a call without a result. After a probe, the next call is the probe.
    pub(super) fn release_probe(&mut self, now_ms: u64, is_probe: bool) {
        if is_probe && self.circuit == BreakerState::Probing {
            self.circuit = BreakerState::Open { until_ms: now_ms };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn broken() -> CircuitBreaker {
        let mut breaker = CircuitBreaker::new(5, 60_000);
        for _ in 0..4 {
            breaker.fail(0, false);
        }
        assert_eq!(breaker.check(0), BreakerDecision::Allow, "four failures are not five");
        breaker.fail(0, false);
        breaker
    }

    #[test]
    fn five_consecutive_failures_open_the_breaker_and_a_success_resets_it() {
        assert_eq!(broken().check(0), BreakerDecision::Reject { failures: 5, left_ms: 5_000 });
        let mut breaker = CircuitBreaker::new(2, 60_000);
        for _ in 0..9 {
            breaker.fail(0, false);
            assert_eq!(breaker.check(0), BreakerDecision::Allow);
            breaker.succeed();
        }
    }

    #[test]
    fn failed_probes_double_the_open_time_up_to_the_maximum() {
        let (mut breaker, mut now_ms) = (broken(), 0);
        for wait_ms in [5_000, 10_000, 20_000, 40_000, 60_000, 60_000] {
            assert!(
                matches!(breaker.check(now_ms), BreakerDecision::Reject { left_ms, .. } if left_ms == wait_ms)
            );
            now_ms += wait_ms;
            assert_eq!(breaker.check(now_ms), BreakerDecision::Probe);
            breaker.probe();
            assert_eq!(breaker.check(now_ms), BreakerDecision::Probing, "one probe at a time");
            breaker.fail(now_ms, true);
        }
        now_ms += 60_000;
        breaker.probe();
        breaker.succeed();
        assert_eq!(breaker.check(now_ms), BreakerDecision::Allow);
        for _ in 0..5 {
            breaker.fail(now_ms, false);
        }
        assert_eq!(
            breaker.check(now_ms),
            BreakerDecision::Reject { failures: 5, left_ms: 5_000 },
            "as at first"
        );
    }

    #[test]
    fn after_a_cancelled_probe_the_next_call_is_the_probe() {
        let mut breaker = broken();
        breaker.probe();
        breaker.release_probe(5_000, true);
        assert_eq!(breaker.check(5_000), BreakerDecision::Probe);
        breaker.release_probe(5_000, false);
        assert_eq!(breaker.check(4_999), BreakerDecision::Reject { failures: 5, left_ms: 1 });
    }

    #[test]
    fn a_probe_whose_answer_begins_closes_the_circuit_and_its_failure_opens_it_for_longer() {
        let mut breaker = broken();
        breaker.probe();
        breaker.probe_answered();
        assert_eq!(breaker.check(5_000), BreakerDecision::Allow);
        breaker.fail(5_000, true);
        assert_eq!(breaker.check(5_000), BreakerDecision::Reject { failures: 6, left_ms: 10_000 });
    }

    #[test]
    fn failures_of_calls_before_the_opening_change_nothing() {
        let mut breaker = broken();
        breaker.fail(4_000, false);
        assert_eq!(breaker.check(5_000), BreakerDecision::Probe);
        breaker.probe();
        breaker.fail(5_000, false);
        assert_eq!(breaker.check(5_000), BreakerDecision::Probing, "only the probe's own end counts");
    }

    #[test]
    fn a_threshold_of_zero_switches_the_breaker_off() {
        let mut breaker = CircuitBreaker::new(0, 60_000);
        for _ in 0..1_000 {
            breaker.fail(0, false);
        }
        assert_eq!(breaker.check(0), BreakerDecision::Allow);
    }

    proptest! {
        /// In any order of events, the circuit is open for at most the longest time, and no call waits for a
        /// probe that does not run.
        #[test]
        fn the_circuit_never_stays_open(acts in proptest::collection::vec((0_u8..5, 0_u64..70_000), 1..200)) {
            let (mut breaker, mut now_ms, mut probing) = (CircuitBreaker::new(3, 60_000), 0, false);
            for (act, step_ms) in acts {
                now_ms += step_ms;
                if let BreakerDecision::Reject { left_ms, failures } = breaker.check(now_ms) {
                    prop_assert!(left_ms <= 60_000 && failures >= 3);
                }
                if breaker.check(now_ms) == BreakerDecision::Probe {
                    breaker.probe();
                    probing = true;
                }
                let is_probe = probing && act % 2 == 0;
                match act {
                    0 | 1 => breaker.fail(now_ms, is_probe),
                    2 | 3 => breaker.release_probe(now_ms, is_probe),
                    _ => breaker.succeed(),
                }
                probing &= !is_probe;
                prop_assert!(probing || breaker.check(now_ms) != BreakerDecision::Probing, "no probe runs");
            }
            if probing {
                breaker.release_probe(now_ms, true);
            }
            prop_assert!(matches!(breaker.check(now_ms + 60_000), BreakerDecision::Allow | BreakerDecision::Probe));
        }
    }
}
