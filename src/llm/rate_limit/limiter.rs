//! Decides whether a call may begin: limits of concurrent calls, calls and tokens per minute, pauses that the
//! provider asked for, the circuit breaker and the queue. It has no threads and no clock.

use super::call_queue::{CallQueue, CountedCalls, MAX_WAITING, QueueTicket};
use super::circuit_breaker::{BreakerDecision, CircuitBreaker};
use super::deferred::{DEFAULT_INTERVAL_MS, RetryTimes};
use super::sliding_window::{SlidingWindow, TokenReservation};
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use crate::domain::usage::Usage;
use crate::llm::options::RateOptions;
use crate::ports::{CircuitState, ModelCaller, NodeShare};

/// The longest pause that a provider may ask for, milliseconds.
pub(super) const MAX_PAUSE_MS: u64 = 3_600_000;
/// The longest delay because of other deferred calls, milliseconds.
const MAX_QUEUE_WAIT_MS: u64 = 600_000;
/// The same for a user's first call. Its turn comes earlier than expected if other users leave.
const FIRST_CALL_WAIT_MS: u64 = 10_000;
/// Upper bound of the interval between ends of calls, milliseconds.
const MAX_INTERVAL_MS: u64 = 60_000;

/// The state of one provider's limiter.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// Of all nodes together.
    max_concurrent: Option<u32>,
    share: NodeShare,
    active: u32,
    requests: Option<SlidingWindow>,
    tokens: Option<SlidingWindow>,
    /// The end of the pause that the provider asked for.
    paused_until_ms: u64,
    breaker: CircuitBreaker,
    queue: CallQueue,
    retry_times: RetryTimes,
    /// Smoothed interval between ends of calls while all permits are in use, milliseconds; and the last end.
    interval_ms: u64,
    left_at_ms: u64,
}

/// Computes the tokens that a call may cost; called only where tokens are limited.
pub(super) type TokenEstimate<'a> = &'a dyn Fn() -> u64;

/// An admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    /// It tests whether the provider works again.
    pub(super) is_probe: bool,
    user: UserId,
    reserved: Option<TokenReservation>,
}

/// Why a call has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// The provider asked for a pause.
    ProviderPause,
    /// The calls per minute are used up; the limit.
    Requests(u64),
    /// The tokens per minute are used up; the limit.
    Tokens(u64),
    /// Another call tests whether the provider works again.
    Probing,
    /// All permits are in use; the limit.
    Concurrency(u32),
    /// Other calls wait before it.
    Queue,
}

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimiterDecision {
    /// It may begin.
    Admit(Admission),
    /// It has to wait.
    Wait {
        /// The reason that takes longest.
        reason: WaitReason,
        /// Time until the reason is gone, milliseconds; 0 if unknown.
        ready_in_ms: u64,
        /// Number of calls that wait before it.
        ahead: usize,
    },
    /// The circuit breaker is open.
    CircuitOpen {
        /// Failures in a row.
        failures: u32,
        /// Time until the next probe, milliseconds.
        left_ms: u64,
    },
}

/// The health of the provider as the end of a call shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderCallOutcome {
    /// It answered, possibly with a refusal.
    Answered,
    /// It limits calls, possibly for this many milliseconds.
    RateLimited(Option<u64>),
    /// It could not be reached, failed, or broke off.
    Failed,
    /// Unknown: the call was cancelled.
    Unknown,
}

impl RateLimiter {
    /// A limiter without rates. `limits` has the circuit breaker's settings.
    pub(super) fn new(limits: &Limits) -> Self {
        let longest_ms = limits.model_circuit_open_s.saturating_mul(1_000);
        Self {
            max_concurrent: None,
            share: NodeShare::ALL,
            active: 0,
            requests: None,
            tokens: None,
            paused_until_ms: 0,
            breaker: CircuitBreaker::new(limits.model_circuit_failures, longest_ms),
            queue: CallQueue::default(),
            retry_times: RetryTimes::default(),
            interval_ms: DEFAULT_INTERVAL_MS,
            left_at_ms: 0,
        }
    }

    /// The state of the circuit breaker.
    pub(super) fn circuit(&self) -> CircuitState {
        self.breaker.state()
    }

    /// What the circuit breaker decides about a call now.
    pub(super) fn breaker_decision(&self, now_ms: u64) -> BreakerDecision {
        self.breaker.check(now_ms)
    }

    /// What is left of the pause that the provider asked for, milliseconds.
    pub(super) fn pause_left_ms(&self, now_ms: u64) -> u64 {
        self.paused_until_ms.saturating_sub(now_ms)
    }

    /// Keeps the stricter of the current rates and these.
    pub(super) fn tighten(&mut self, rate: &RateOptions) {
        let concurrent = rate.concurrent.map(|count| count.max(1));
        self.max_concurrent = self.max_concurrent.into_iter().chain(concurrent).min();
        if let Some(limit) = rate.requests_per_minute.map(u64::from) {
            self.requests.get_or_insert_with(|| SlidingWindow::requests(limit)).tighten(limit);
        }
        if let Some(limit) = rate.tokens_per_minute {
            self.tokens.get_or_insert_with(|| SlidingWindow::tokens(limit)).tighten(limit);
        }
    }

    /// Limits this node to its part of the rates. `pause_left_ms`: the rest of a pause that the provider
    /// asked another node for.
    pub(super) fn join_cluster(&mut self, now_ms: u64, share: NodeShare, pause_left_ms: u64) {
        if self.share != share {
            self.share = share;
            self.requests.iter_mut().chain(&mut self.tokens).for_each(|window| window.divide(share));
        }
        // Without a pause, a call that reads the clock before another and comes after it would wait for
        // nothing, and the calls behind it with it.
        if pause_left_ms > 0 {
            self.paused_until_ms = self.paused_until_ms.max(now_ms.saturating_add(pause_left_ms));
        }
    }

    /// Calls that this node may make at once.
    fn own_concurrent(&self) -> Option<u32> {
        let own = |limit: u32| u32::try_from(self.share.of(u64::from(limit))).unwrap_or(limit);
        self.max_concurrent.map(own)
    }

    /// A place in the queue, which every call needs.
    pub(super) fn join_queue(&mut self, caller: ModelCaller, now_ms: u64) -> QueueTicket {
        self.queue.join(caller, now_ms)
    }

    /// Gives up a place in the queue.
    pub(super) fn leave_queue(&mut self, ticket: QueueTicket) {
        self.queue.leave(ticket);
    }

    /// Admits a call or says why not.
    pub(super) fn try_admit(
        &mut self,
        now_ms: u64,
        ticket: QueueTicket,
        tokens: TokenEstimate<'_>,
    ) -> LimiterDecision {
        let breaker = self.breaker.check(now_ms);
        if let BreakerDecision::Reject { failures, left_ms } = breaker {
            return LimiterDecision::CircuitOpen { failures, left_ms };
        }
        let ahead = self.queue.ahead(ticket, now_ms, CountedCalls::Expected);
        if let Some((reason, ready_in_ms)) = self.reason(now_ms, breaker, ahead, tokens) {
            return LimiterDecision::Wait { reason, ready_in_ms, ahead };
        }
        self.queue.begin(ticket);
        if breaker == BreakerDecision::Probe {
            self.breaker.probe();
        }
        if let Some(window) = &mut self.requests {
            window.add(now_ms, 1);
        }
        self.active = self.active.saturating_add(1);
        let reserved = self.tokens.as_mut().map(|window| window.add(now_ms, tokens()));
        let is_probe = breaker == BreakerDecision::Probe;
        LimiterDecision::Admit(Admission { is_probe, user: ticket.user, reserved })
    }

    /// The reason to wait that takes longest, and for how long.
    fn reason(
        &mut self,
        now_ms: u64,
        breaker: BreakerDecision,
        ahead: usize,
        tokens: TokenEstimate<'_>,
    ) -> Option<(WaitReason, u64)> {
        let pause = (WaitReason::ProviderPause, self.pause_left_ms(now_ms));
        let requests = self.requests.as_mut();
        let requests = requests.map(|w| (WaitReason::Requests(w.limit), w.ready_after_ms(now_ms, ahead)));
        let spent = self.tokens.as_mut();
        let spent = spent.map(|w| (WaitReason::Tokens(w.limit), w.ready_in_ms(now_ms, tokens())));
        let timed = [Some(pause), requests, spent].into_iter().flatten().max_by_key(|(_, left_ms)| *left_ms);
        let untimed = || {
            let probing = (breaker == BreakerDecision::Probing).then_some(WaitReason::Probing);
            let limit = self.own_concurrent();
            let full = limit.filter(|limit| self.active >= *limit).map(WaitReason::Concurrency);
            probing.or(full).or_else(|| self.queue_reason(ahead, limit)).map(|reason| (reason, 0))
        };
        timed.filter(|(_, left_ms)| *left_ms > 0).or_else(untimed)
    }

    /// Calls that go before take the free permits, and an unknown number of tokens.
    fn queue_reason(&self, ahead: usize, limit: Option<u32>) -> Option<WaitReason> {
        let taken = ahead.saturating_add(usize::try_from(self.active).unwrap_or(usize::MAX));
        let is_taken =
            limit.is_some_and(|limit| u64::try_from(taken).is_ok_and(|taken| taken >= limit.into()));
        (ahead > 0 && (is_taken || self.tokens.is_some())).then_some(WaitReason::Queue)
    }

    /// Whether a call may wait in place for an unknown time. The first in the order of turns may, so a call
    /// of a user who has none waits in the place of another user's last.
    pub(super) fn may_wait(&self, now_ms: u64, ticket: QueueTicket) -> bool {
        self.queue.ahead(ticket, now_ms, CountedCalls::Waiting) < MAX_WAITING
    }

    /// Defers a call: returns after how many milliseconds it should come again.
    pub(super) fn defer(&mut self, now_ms: u64, ticket: QueueTicket, tokens: TokenEstimate<'_>) -> u64 {
        let ahead = self.queue.ahead(ticket, now_ms, CountedCalls::All);
        let breaker = self.breaker.check(now_ms);
        let ready_in_ms = self.reason(now_ms, breaker, ahead, tokens).map_or(0, |(_, left_ms)| left_ms);
        let longest_ms = if self.queue.is_first(ticket) { FIRST_CALL_WAIT_MS } else { MAX_QUEUE_WAIT_MS };
        let turns = u64::try_from(ahead.saturating_sub(MAX_WAITING - 1)).unwrap_or(u64::MAX);
        let others_ms = turns.saturating_mul(self.interval_ms).min(longest_ms);
        let wait_ms = self.retry_times.next_retry_ms(ready_in_ms, others_ms);
        self.queue.defer(ticket, now_ms.saturating_add(wait_ms));
        wait_ms
    }

    /// Notes that a call's answer has begun.
    pub(super) fn note_answer(&mut self, admission: Admission) {
        if admission.is_probe {
            self.breaker.probe_answered();
        }
    }

    /// Ends a call. Its reported usage replaces the estimate.
    pub(super) fn release(
        &mut self,
        now_ms: u64,
        admission: Admission,
        outcome: ProviderCallOutcome,
        spent: Option<Usage>,
    ) {
        if self.own_concurrent().is_some_and(|limit| self.active >= limit) {
            let took_ms = now_ms.saturating_sub(self.left_at_ms);
            self.interval_ms =
                (self.interval_ms.saturating_mul(7).saturating_add(took_ms) / 8).clamp(1, MAX_INTERVAL_MS);
        }
        self.left_at_ms = now_ms;
        self.active = self.active.saturating_sub(1);
        self.queue.end(admission.user);
        if let (Some(window), Some(reserved), Some(spent)) = (&mut self.tokens, admission.reserved, spent) {
            window.settle(now_ms, reserved, spent);
        }
        match outcome {
            ProviderCallOutcome::Answered | ProviderCallOutcome::RateLimited(None) => self.breaker.succeed(),
            ProviderCallOutcome::RateLimited(Some(wait_ms)) => {
                self.breaker.succeed();
                let until_ms = now_ms.saturating_add(wait_ms.min(MAX_PAUSE_MS));
                self.paused_until_ms = self.paused_until_ms.max(until_ms);
            }
            ProviderCallOutcome::Failed => self.breaker.fail(now_ms, admission.is_probe),
            ProviderCallOutcome::Unknown => self.breaker.release_probe(now_ms, admission.is_probe),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(concurrent: Option<u32>, requests: Option<u32>, tokens: Option<u64>) -> RateOptions {
        RateOptions { concurrent, requests_per_minute: requests, tokens_per_minute: tokens }
    }

    fn limiter(rate: &RateOptions) -> RateLimiter {
        let mut limiter = RateLimiter::new(&Limits::default());
        limiter.tighten(rate);
        limiter
    }

    const ANN: ModelCaller = ModelCaller { user: UserId(1), job: None };
    const BOB: ModelCaller = ModelCaller { user: UserId(2), job: None };

    /// Tries a call that does not wait.
    fn attempt(limiter: &mut RateLimiter, now_ms: u64, tokens: u64) -> LimiterDecision {
        let ticket = limiter.join_queue(ANN, now_ms);
        let decision = limiter.try_admit(now_ms, ticket, &|| tokens);
        if !matches!(decision, LimiterDecision::Admit(_)) {
            limiter.leave_queue(ticket);
        }
        decision
    }

    fn admit(limiter: &mut RateLimiter, now_ms: u64) -> Admission {
        match attempt(limiter, now_ms, 1) {
            LimiterDecision::Admit(admission) => admission,
            other => panic!("{other:?}"),
        }
    }

    fn blocked_by(decision: LimiterDecision) -> WaitReason {
        match decision {
            LimiterDecision::Wait { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_limits_every_call_is_admitted() {
        let mut limiter = limiter(&RateOptions::default());
        for _ in 0..1_000 {
            admit(&mut limiter, 0);
        }
    }

    #[test]
    fn a_node_without_a_pause_admits_a_call_that_has_read_the_clock_before_another() {
        let mut limiter = limiter(&rate(None, None, None));
        limiter.join_cluster(7, NodeShare::ALL, 0);
        admit(&mut limiter, 7);
        limiter.join_cluster(6, NodeShare::ALL, 0);
        admit(&mut limiter, 6);
    }

    #[test]
    fn the_strictest_of_several_limits_counts() {
        let mut limiter = limiter(&rate(Some(3), Some(7), None));
        limiter.tighten(&rate(Some(2), Some(9), Some(500)));
        limiter.tighten(&rate(Some(4), None, Some(400)));
        let first = admit(&mut limiter, 0);
        admit(&mut limiter, 0);
        assert_eq!(blocked_by(attempt(&mut limiter, 0, 1)), WaitReason::Concurrency(2));
        assert_eq!(blocked_by(attempt(&mut limiter, 0, 399)), WaitReason::Tokens(400));
        limiter.release(0, first, ProviderCallOutcome::Answered, None);
        admit(&mut limiter, 0);
        for _ in 0..4 {
            limiter.release(0, first, ProviderCallOutcome::Answered, None);
            admit(&mut limiter, 0);
        }
        assert_eq!(blocked_by(attempt(&mut limiter, 0, 1)), WaitReason::Requests(7));
    }

    #[test]
    fn calls_of_a_user_are_admitted_in_order_of_arrival() {
        let mut limiter = limiter(&rate(Some(1), None, None));
        let running = admit(&mut limiter, 0);
        let (first, second) = (limiter.join_queue(ANN, 0), limiter.join_queue(ANN, 0));
        limiter.release(0, running, ProviderCallOutcome::Answered, None);
        let new_call = blocked_by(attempt(&mut limiter, 0, 1));
        assert_eq!(new_call, WaitReason::Queue, "a new call does not overtake");
        assert_eq!(blocked_by(limiter.try_admit(0, second, &|| 1)), WaitReason::Queue);
        limiter.leave_queue(first);
        assert!(
            matches!(limiter.try_admit(0, second, &|| 1), LimiterDecision::Admit(_)),
            "the queue moved up"
        );
    }

    #[test]
    fn p7_the_next_permit_of_each_kind_goes_to_the_user_with_the_fewest_calls() {
        for rate in [rate(Some(2), None, None), rate(None, Some(2), None), rate(None, None, Some(200))] {
            let mut limiter = limiter(&rate);
            let running = admit(&mut limiter, 0);
            limiter.release(0, running, ProviderCallOutcome::Answered, None);
            let active = admit(&mut limiter, 0);
            let (ann, bob) = (limiter.join_queue(ANN, 0), limiter.join_queue(BOB, 0));
            let tokens = || 100;
            let first = limiter.try_admit(70_000, ann, &tokens);
            let is_room_for_both = limiter.requests.is_some();
            assert_eq!(matches!(first, LimiterDecision::Admit(_)), is_room_for_both, "{first:?}");
            let second = limiter.try_admit(70_000, bob, &tokens);
            assert!(matches!(second, LimiterDecision::Admit(_)), "{second:?}");
            limiter.release(70_000, active, ProviderCallOutcome::Answered, None);
        }
    }

    #[test]
    fn p7_a_call_of_another_user_waits_in_place_of_the_last_of_one_who_has_many() {
        let mut limiter = limiter(&rate(Some(1), None, None));
        admit(&mut limiter, 0);
        let calls: Vec<_> = (0..6).map(|_| limiter.join_queue(ANN, 0)).collect();
        let may_wait =
            |limiter: &RateLimiter| calls.iter().filter(|call| limiter.may_wait(0, **call)).count();
        assert_eq!(may_wait(&limiter), MAX_WAITING);
        let bob = limiter.join_queue(BOB, 0);
        assert!(limiter.may_wait(0, bob));
        assert_eq!(may_wait(&limiter), MAX_WAITING - 1);
    }

    #[test]
    fn p7_a_deferred_call_comes_again_behind_one_turn_of_each_other_user() {
        for rate in [rate(Some(1), None, None), rate(None, Some(1), None)] {
            let mut limiter = limiter(&rate);
            admit(&mut limiter, 0);
            let mut defer = |caller| {
                let ticket = limiter.join_queue(caller, 0);
                limiter.defer(0, ticket, &|| 1)
            };
            let delays: Vec<u64> = (0..600).map(|_| defer(ANN)).collect();
            assert!(delays[599] > 590 * DEFAULT_INTERVAL_MS, "{delays:?}");
            let other_ms = defer(BOB);
            assert!(other_ms < delays[10], "{other_ms} {delays:?}");
        }
    }

    #[test]
    fn a_rate_limited_provider_pauses_all_calls() {
        let mut limiter = limiter(&RateOptions::default());
        let (one, other) = (admit(&mut limiter, 0), admit(&mut limiter, 0));
        limiter.release(1_000, one, ProviderCallOutcome::RateLimited(Some(30_000)), None);
        limiter.release(1_000, other, ProviderCallOutcome::RateLimited(Some(3)), None);
        let decision = attempt(&mut limiter, 1_000, 1);
        assert_eq!(
            decision,
            LimiterDecision::Wait { reason: WaitReason::ProviderPause, ready_in_ms: 30_000, ahead: 0 }
        );
        let late = admit(&mut limiter, 31_000);
        limiter.release(31_000, late, ProviderCallOutcome::RateLimited(Some(u64::MAX)), None);
        let LimiterDecision::Wait { ready_in_ms, .. } = attempt(&mut limiter, 31_000, 1) else {
            panic!("open")
        };
        assert_eq!(ready_in_ms, MAX_PAUSE_MS);
    }

    #[test]
    fn p8_a_node_of_a_cluster_keeps_to_its_part_of_the_rates() {
        let mut limiter = limiter(&rate(Some(4), Some(9), None));
        let share = |rank| NodeShare { nodes: 2, rank };
        limiter.join_cluster(0, share(1), 0);
        let running = admit(&mut limiter, 0);
        admit(&mut limiter, 0);
        assert_eq!(blocked_by(attempt(&mut limiter, 0, 1)), WaitReason::Concurrency(2));
        for _ in 0..2 {
            limiter.release(0, running, ProviderCallOutcome::Answered, None);
            admit(&mut limiter, 0);
        }
        limiter.release(0, running, ProviderCallOutcome::Answered, None);
        assert_eq!(blocked_by(attempt(&mut limiter, 0, 1)), WaitReason::Requests(4));
        limiter.join_cluster(0, share(0), 0);
        admit(&mut limiter, 0);
        limiter.join_cluster(0, NodeShare::ALL, 0);
        admit(&mut limiter, 0);
        limiter.join_cluster(0, NodeShare::ALL, 70_000);
        let paused =
            LimiterDecision::Wait { reason: WaitReason::ProviderPause, ready_in_ms: 70_000, ahead: 0 };
        assert_eq!(attempt(&mut limiter, 0, 1), paused);
    }

    #[test]
    fn rate_limits_refusals_and_cancelled_calls_do_not_open_the_circuit() {
        let mut limiter = limiter(&RateOptions::default());
        for outcome in [ProviderCallOutcome::RateLimited(None), ProviderCallOutcome::Answered] {
            for _ in 0..20 {
                for _ in 0..4 {
                    let call = admit(&mut limiter, 0);
                    limiter.release(0, call, ProviderCallOutcome::Failed, None);
                }
                let call = admit(&mut limiter, 0);
                limiter.release(0, call, outcome, None);
            }
        }
        for outcome in [
            ProviderCallOutcome::Failed,
            ProviderCallOutcome::Unknown,
            ProviderCallOutcome::Failed,
            ProviderCallOutcome::Failed,
            ProviderCallOutcome::Failed,
        ] {
            let call = admit(&mut limiter, 0);
            limiter.release(0, call, outcome, None);
        }
        let call = admit(&mut limiter, 0);
        limiter.release(0, call, ProviderCallOutcome::Failed, None);
        assert_eq!(attempt(&mut limiter, 0, 1), LimiterDecision::CircuitOpen { failures: 5, left_ms: 5_000 });
    }

    #[test]
    fn other_calls_wait_while_one_call_probes() {
        let mut limiter = limiter(&RateOptions::default());
        for _ in 0..5 {
            let call = admit(&mut limiter, 0);
            limiter.release(0, call, ProviderCallOutcome::Failed, None);
        }
        let probe = admit(&mut limiter, 5_000);
        assert!(probe.is_probe);
        assert_eq!(blocked_by(attempt(&mut limiter, 5_000, 1)), WaitReason::Probing);
        limiter.release(5_000, probe, ProviderCallOutcome::Unknown, None);
        let probe = admit(&mut limiter, 5_000);
        assert!(probe.is_probe, "a cancelled probe makes way for the next");
        limiter.note_answer(probe);
        assert!(!admit(&mut limiter, 5_000).is_probe, "its answer has begun");
    }

    #[test]
    fn deferred_calls_get_different_times() {
        let mut limiter = limiter(&rate(None, Some(2), None));
        admit(&mut limiter, 0);
        admit(&mut limiter, 0);
        let delays: Vec<u64> = (0..6)
            .map(|_| {
                let ticket = limiter.join_queue(ANN, 0);
                limiter.defer(0, ticket, &|| 1)
            })
            .collect();
        assert!(delays.iter().all(|ms| *ms >= 60_001), "not before the window has room: {delays:?}");
        assert!(delays[2] >= 2 * 60_001 && delays[4] >= 3 * 60_001, "two a minute: {delays:?}");
    }

    proptest! {
        /// The permits in use never exceed the limit, in any order of admissions and releases.
        #[test]
        fn p8_permits_are_bounded_and_returned(max_concurrent in 1_u32..5, arrivals in proptest::collection::vec(any::<bool>(), 1..200)) {
            let mut limiter = limiter(&rate(Some(max_concurrent), None, None));
            let mut admitted = Vec::new();
            for is_arrival in arrivals {
                if is_arrival {
                    if let LimiterDecision::Admit(admission) = attempt(&mut limiter, 0, 1) {
                        admitted.push(admission);
                    } else {
                        prop_assert_eq!(admitted.len(), max_concurrent as usize, "refused only when full");
                    }
                } else if let Some(admission) = admitted.pop() {
                    limiter.release(0, admission, ProviderCallOutcome::Unknown, None);
                }
                prop_assert!(admitted.len() <= max_concurrent as usize);
                prop_assert_eq!(limiter.active as usize, admitted.len());
            }
        }
    }
}
