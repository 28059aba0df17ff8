//! Everything that a gate knows, without threads and clocks: who is under way, who waits, what was spent, how healthy the
//! provider is. Owns the decision whether a call may begin; refuses to wait.

use super::breaker::{Breaker, Way};
use super::requests::RequestWindow;
use super::sent_away::{APART_MS, SentAway};
use super::tokens::{Reserved, TokenWindow};
use crate::domain::limits::Limits;
use crate::domain::usage::Usage;
use crate::llm::options::RateOptions;
use crate::ports::CircuitState;
use std::collections::VecDeque;

/// The longest that a provider may ask everybody to stay away, milliseconds.
const CLOSED_MAX_MS: u64 = 3_600_000;
/// The most that one who waits makes the next wait, milliseconds.
const APART_MOST_MS: u64 = 60_000;
/// So many wait in place where nobody knows for how long; more would hold workers that other providers' jobs need.
const STAYING: usize = 4;

/// The state of one gate.
#[derive(Debug)]
pub(super) struct Turnstile {
    seats: Option<u32>,
    taken: u32,
    requests: Option<RequestWindow>,
    tokens: Option<TokenWindow>,
    /// Until then the provider wants to hear nothing.
    closed_until_ms: u64,
    breaker: Breaker,
    /// Tickets of those who wait, in order of arrival.
    line: VecDeque<u64>,
    next_ticket: u64,
    sent_away: SentAway,
    /// How long it took from end to end of calls while all seats were taken, milliseconds, smoothed; and the last end.
    apart_ms: u64,
    left_at_ms: u64,
}

/// What a call may cost, tokens; asked only where tokens are counted.
pub(super) type Estimate<'a> = &'a dyn Fn() -> u64;

/// A call under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    /// It finds out whether the provider is back.
    pub(super) is_probe: bool,
    reserved: Option<Reserved>,
}

/// What stands in the way of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The provider asked everybody to wait.
    Closed,
    /// The calls of this minute are made.
    Requests(usize),
    /// The tokens of this minute are spent.
    Tokens(u64),
    /// Another call finds out whether the provider is back.
    Probing,
    /// So many calls are under way.
    Seats(u32),
    /// Others wait before.
    Line,
}

/// What a call that wants to begin is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Begin.
    Enter(Admission),
    /// Not yet.
    Wait {
        /// Why.
        obstacle: Obstacle,
        /// When it is out of the way, milliseconds; 0 where nobody can know.
        ready_in_ms: u64,
        /// How many wait before.
        ahead: usize,
    },
    /// Do not ask: so many calls failed in a row.
    Down {
        /// How many.
        failures: u32,
        /// Until the next try.
        left_ms: u64,
    },
}

/// What a call tells of its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It answered, if only with a no.
    Answered,
    /// It asked to be called less, and where it said so, not before so many milliseconds.
    Limited(Option<u64>),
    /// It could not be reached, was in trouble, or broke off.
    Down,
    /// Nothing: the call was stopped.
    Untold,
}

impl Turnstile {
    /// Nobody is under way. Of `limits` the circuit breaker's.
    pub(super) fn new(limits: &Limits) -> Self {
        let longest_ms = limits.model_circuit_open_s.saturating_mul(1_000);
        Self {
            seats: None,
            taken: 0,
            requests: None,
            tokens: None,
            closed_until_ms: 0,
            breaker: Breaker::new(limits.model_circuit_failures, longest_ms),
            line: VecDeque::new(),
            next_ticket: 0,
            sent_away: SentAway::default(),
            apart_ms: APART_MS,
            left_at_ms: 0,
        }
    }

    /// Where the circuit breaker stands.
    pub(super) fn circuit(&self) -> CircuitState {
        self.breaker.state()
    }

    /// Takes the stricter of the bounds so far and these.
    pub(super) fn tighten(&mut self, rate: &RateOptions) {
        self.seats = self.seats.into_iter().chain(rate.concurrent.map(|seats| seats.max(1))).min();
        if let Some(bound) = rate.requests_per_minute {
            self.requests.get_or_insert_with(|| RequestWindow::new(bound)).tighten(bound);
        }
        if let Some(bound) = rate.tokens_per_minute {
            self.tokens.get_or_insert_with(|| TokenWindow::new(bound)).tighten(bound);
        }
    }

    /// Lets a call begin, or says why not. `ticket` is its place in the line; whoever stays gets one in [`Self::queue`].
    pub(super) fn enter(&mut self, now_ms: u64, ticket: Option<u64>, tokens: Estimate<'_>) -> Verdict {
        let way = self.breaker.look(now_ms);
        if let Way::Shut { failures, left_ms } = way {
            return Verdict::Down { failures, left_ms };
        }
        let ahead = self.ahead(ticket);
        if let Some((obstacle, ready_in_ms)) = self.obstacle(now_ms, way, ahead, tokens) {
            return Verdict::Wait { obstacle, ready_in_ms, ahead };
        }
        if ticket.is_some() {
            self.line.pop_front();
        }
        if way == Way::Probe {
            self.breaker.probe();
        }
        if let Some(window) = &mut self.requests {
            window.begin(now_ms);
        }
        self.taken = self.taken.saturating_add(1);
        let reserved = self.tokens.as_mut().map(|window| window.reserve(now_ms, tokens()));
        Verdict::Enter(Admission { is_probe: way == Way::Probe, reserved })
    }

    fn ahead(&self, ticket: Option<u64>) -> usize {
        let place = |ticket| self.line.iter().position(|waiting| *waiting == ticket);
        ticket.and_then(place).unwrap_or(self.line.len())
    }

    /// What takes longest to get out of the way, and how long, if anything does.
    fn obstacle(
        &mut self,
        now_ms: u64,
        way: Way,
        ahead: usize,
        tokens: Estimate<'_>,
    ) -> Option<(Obstacle, u64)> {
        let closed = (Obstacle::Closed, self.closed_until_ms.saturating_sub(now_ms));
        let requests =
            self.requests.as_mut().map(|w| (Obstacle::Requests(w.bound()), w.room_in(now_ms, ahead)));
        let spent = self.tokens.as_mut().map(|w| (Obstacle::Tokens(w.bound()), w.room_in(now_ms, tokens())));
        let timed = [Some(closed), requests, spent].into_iter().flatten().max_by_key(|(_, left_ms)| *left_ms);
        let seats = self.seats.filter(|seats| self.taken >= *seats);
        timed
            .filter(|(_, left_ms)| *left_ms > 0)
            .or_else(|| (way == Way::Probing).then_some((Obstacle::Probing, 0)))
            .or_else(|| seats.map(|seats| (Obstacle::Seats(seats), 0)))
            .or_else(|| (ahead > 0).then_some((Obstacle::Line, 0)))
    }

    /// Whether so many wait in place already that another one should come again instead.
    pub(super) fn is_crowded(&self) -> bool {
        self.line.len() >= STAYING
    }

    /// A place at the end of the line.
    pub(super) fn queue(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket = self.next_ticket.saturating_add(1);
        self.line.push_back(ticket);
        ticket
    }

    /// Gives up a place in the line.
    pub(super) fn unqueue(&mut self, ticket: u64) {
        self.line.retain(|waiting| *waiting != ticket);
    }

    /// When somebody who does not stay should come again, milliseconds from now. `ticket` is the place that is given up.
    pub(super) fn send_away(&mut self, now_ms: u64, ticket: Option<u64>, tokens: Estimate<'_>) -> u64 {
        if let Some(ticket) = ticket {
            self.unqueue(ticket);
        }
        let ahead = self.line.len().saturating_add(self.sent_away.count(now_ms));
        let way = self.breaker.look(now_ms);
        let ready_in_ms = self.obstacle(now_ms, way, ahead, tokens).map_or(0, |(_, left_ms)| left_ms);
        self.sent_away.promise(now_ms, ready_in_ms, ahead, self.apart_ms)
    }

    /// A call's answer has begun.
    pub(super) fn hear(&mut self, admission: Admission) {
        if admission.is_probe {
            self.breaker.revive();
        }
    }

    /// A call ends. What it spent replaces the estimate, where its provider said so.
    pub(super) fn leave(
        &mut self,
        now_ms: u64,
        admission: Admission,
        outcome: Outcome,
        spent: Option<Usage>,
    ) {
        if self.seats.is_some_and(|seats| self.taken >= seats) {
            let took_ms = now_ms.saturating_sub(self.left_at_ms);
            self.apart_ms =
                (self.apart_ms.saturating_mul(7).saturating_add(took_ms) / 8).clamp(1, APART_MOST_MS);
        }
        self.left_at_ms = now_ms;
        self.taken = self.taken.saturating_sub(1);
        if let (Some(window), Some(reserved), Some(spent)) = (&mut self.tokens, admission.reserved, spent) {
            window.settle(now_ms, reserved, spent);
        }
        match outcome {
            Outcome::Answered | Outcome::Limited(None) => self.breaker.succeed(),
            Outcome::Limited(Some(wait_ms)) => {
                self.breaker.succeed();
                let until_ms = now_ms.saturating_add(wait_ms.min(CLOSED_MAX_MS));
                self.closed_until_ms = self.closed_until_ms.max(until_ms);
            }
            Outcome::Down => self.breaker.fail(now_ms, admission.is_probe),
            Outcome::Untold => self.breaker.shrug(now_ms, admission.is_probe),
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

    fn turnstile(rate: &RateOptions) -> Turnstile {
        let mut turnstile = Turnstile::new(&Limits::default());
        turnstile.tighten(rate);
        turnstile
    }

    fn admit(turnstile: &mut Turnstile, now_ms: u64) -> Admission {
        match turnstile.enter(now_ms, None, &|| 1) {
            Verdict::Enter(admission) => admission,
            other => panic!("{other:?}"),
        }
    }

    fn blocked_by(verdict: Verdict) -> Obstacle {
        match verdict {
            Verdict::Wait { obstacle, .. } => obstacle,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_bounds_everybody_enters() {
        let mut turnstile = turnstile(&RateOptions::default());
        for _ in 0..1_000 {
            admit(&mut turnstile, 0);
        }
    }

    #[test]
    fn the_strictest_of_several_bounds_holds() {
        let mut turnstile = turnstile(&rate(Some(3), Some(7), None));
        turnstile.tighten(&rate(Some(2), Some(9), Some(500)));
        turnstile.tighten(&rate(Some(4), None, Some(400)));
        let first = admit(&mut turnstile, 0);
        admit(&mut turnstile, 0);
        assert_eq!(blocked_by(turnstile.enter(0, None, &|| 1)), Obstacle::Seats(2));
        assert_eq!(blocked_by(turnstile.enter(0, None, &|| 399)), Obstacle::Tokens(400));
        turnstile.leave(0, first, Outcome::Answered, None);
        admit(&mut turnstile, 0);
        for _ in 0..4 {
            turnstile.leave(0, first, Outcome::Answered, None);
            admit(&mut turnstile, 0);
        }
        assert_eq!(blocked_by(turnstile.enter(0, None, &|| 1)), Obstacle::Requests(7));
    }

    #[test]
    fn whoever_came_first_goes_first() {
        let mut turnstile = turnstile(&rate(Some(1), None, None));
        let seated = admit(&mut turnstile, 0);
        let (first, second) = (turnstile.queue(), turnstile.queue());
        turnstile.leave(0, seated, Outcome::Answered, None);
        assert_eq!(
            blocked_by(turnstile.enter(0, None, &|| 1)),
            Obstacle::Line,
            "a newcomer does not overtake"
        );
        assert_eq!(blocked_by(turnstile.enter(0, Some(second), &|| 1)), Obstacle::Line);
        turnstile.unqueue(first);
        assert!(matches!(turnstile.enter(0, Some(second), &|| 1), Verdict::Enter(_)), "the line moved up");
        assert!(turnstile.line.is_empty());
    }

    #[test]
    fn a_provider_that_limits_closes_the_gate_for_everybody() {
        let mut turnstile = turnstile(&RateOptions::default());
        let (one, other) = (admit(&mut turnstile, 0), admit(&mut turnstile, 0));
        turnstile.leave(1_000, one, Outcome::Limited(Some(30_000)), None);
        turnstile.leave(1_000, other, Outcome::Limited(Some(3)), None);
        let verdict = turnstile.enter(1_000, None, &|| 1);
        assert_eq!(verdict, Verdict::Wait { obstacle: Obstacle::Closed, ready_in_ms: 30_000, ahead: 0 });
        let late = admit(&mut turnstile, 31_000);
        turnstile.leave(31_000, late, Outcome::Limited(Some(u64::MAX)), None);
        let Verdict::Wait { ready_in_ms, .. } = turnstile.enter(31_000, None, &|| 1) else { panic!("open") };
        assert_eq!(ready_in_ms, CLOSED_MAX_MS);
    }

    #[test]
    fn a_provider_that_limits_or_refuses_is_not_down_and_a_stopped_call_tells_nothing() {
        let mut turnstile = turnstile(&RateOptions::default());
        for outcome in [Outcome::Limited(None), Outcome::Answered] {
            for _ in 0..20 {
                for _ in 0..4 {
                    let call = admit(&mut turnstile, 0);
                    turnstile.leave(0, call, Outcome::Down, None);
                }
                let call = admit(&mut turnstile, 0);
                turnstile.leave(0, call, outcome, None);
            }
        }
        for outcome in [Outcome::Down, Outcome::Untold, Outcome::Down, Outcome::Down, Outcome::Down] {
            let call = admit(&mut turnstile, 0);
            turnstile.leave(0, call, outcome, None);
        }
        let call = admit(&mut turnstile, 0);
        turnstile.leave(0, call, Outcome::Down, None);
        assert_eq!(turnstile.enter(0, None, &|| 1), Verdict::Down { failures: 5, left_ms: 5_000 });
    }

    #[test]
    fn while_one_call_probes_the_others_wait_for_its_outcome() {
        let mut turnstile = turnstile(&RateOptions::default());
        for _ in 0..5 {
            let call = admit(&mut turnstile, 0);
            turnstile.leave(0, call, Outcome::Down, None);
        }
        let probe = admit(&mut turnstile, 5_000);
        assert!(probe.is_probe);
        assert_eq!(blocked_by(turnstile.enter(5_000, None, &|| 1)), Obstacle::Probing);
        turnstile.leave(5_000, probe, Outcome::Untold, None);
        let probe = admit(&mut turnstile, 5_000);
        assert!(probe.is_probe, "a cancelled probe leaves its place");
        turnstile.hear(probe);
        assert!(!admit(&mut turnstile, 5_000).is_probe, "its answer has begun");
    }

    #[test]
    fn those_sent_away_are_told_different_times() {
        let mut turnstile = turnstile(&rate(None, Some(2), None));
        admit(&mut turnstile, 0);
        admit(&mut turnstile, 0);
        let told: Vec<u64> = (0..6).map(|_| turnstile.send_away(0, None, &|| 1)).collect();
        assert!(told.iter().all(|ms| *ms >= 60_001), "not before there is room: {told:?}");
        assert!(told[2] >= 2 * 60_001 && told[4] >= 3 * 60_001, "two a minute: {told:?}");
    }

    proptest! {
        /// Seats are never more than taken, whatever the order of comings and goings, and the last to leave frees all.
        #[test]
        fn p8_seats_are_bounded_and_given_back(seats in 1_u32..5, acts in proptest::collection::vec(any::<bool>(), 1..200)) {
            let mut turnstile = turnstile(&rate(Some(seats), None, None));
            let mut inside = Vec::new();
            for comes in acts {
                if comes {
                    if let Verdict::Enter(admission) = turnstile.enter(0, None, &|| 1) {
                        inside.push(admission);
                    } else {
                        prop_assert_eq!(inside.len(), seats as usize, "refused only when full");
                    }
                } else if let Some(admission) = inside.pop() {
                    turnstile.leave(0, admission, Outcome::Untold, None);
                }
                prop_assert!(inside.len() <= seats as usize);
                prop_assert_eq!(turnstile.taken as usize, inside.len());
            }
        }
    }
}
