//! The order in which calls reach a provider. The next one is the oldest of the user with the fewest calls at
//! the provider; of several such users, of the one whose last turn is longest ago. A call that was deferred
//! keeps its place, and for a moment its turn, until its job comes back. It has no threads and no clock.

use crate::domain::id::{JobId, UserId};
use crate::ports::ModelCaller;
use std::collections::{BTreeMap, HashMap};

/// How many calls may wait in place for an unknown time; more would hold workers that other providers' jobs
/// need.
pub(super) const MAX_WAITING: usize = 4;
/// Number of deferred calls that are remembered.
pub(super) const MAX_DEFERRED: usize = 1_024;
/// How long before and after its time the turn of a deferred call is kept, milliseconds.
const KEEP_TURN_MS: u64 = 1_000;
/// How long after its time the place of a deferred call is remembered, milliseconds: workers may be busy.
const KEEP_PLACE_MS: u64 = 60_000;

/// A call's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueTicket {
    pub(super) user: UserId,
    number: u64,
}

/// The calls that wait, and how many each user has at the provider.
#[derive(Debug, Default)]
pub(super) struct CallQueue {
    users: HashMap<UserId, UserCalls>,
    /// Counts arrivals, begins and ends of calls.
    sequence: u64,
}

#[derive(Debug, Default)]
struct UserCalls {
    /// Calls at the provider.
    active: usize,
    /// The sequence number of the user's arrival or last turn. No two users have the same.
    last_turn: u64,
    /// In order of arrival.
    queued: BTreeMap<u64, QueuedCall>,
}

#[derive(Debug, Clone, Copy)]
struct QueuedCall {
    job: Option<JobId>,
    /// When a deferred call comes back; `None`: it waits in place.
    retry_at_ms: Option<u64>,
}

/// Which calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountedCalls {
    /// Those that wait in place.
    Waiting,
    /// Those, and of each user who has none of them the first that comes back any moment.
    Expected,
    /// Deferred ones, too.
    All,
}

impl CallQueue {
    /// A place for a call: its old one if its job was deferred, else behind the user's other calls.
    pub(super) fn join(&mut self, caller: ModelCaller, now_ms: u64) -> QueueTicket {
        self.forget_late(now_ms);
        let number = self.next_sequence();
        let user = self.users.entry(caller.user).or_default();
        if user.is_idle() {
            user.last_turn = number;
        }
        let is_back = |call: &QueuedCall| call.retry_at_ms.is_some() && call.job == caller.job;
        let old = caller.job.and_then(|_| user.queued.iter().find(|(_, call)| is_back(call)));
        let number = old.map_or(number, |(old, _)| *old);
        user.queued.insert(number, QueuedCall { job: caller.job, retry_at_ms: None });
        QueueTicket { user: caller.user, number }
    }

    /// Gives up a place.
    pub(super) fn leave(&mut self, ticket: QueueTicket) {
        self.change(ticket.user, |user| {
            user.queued.remove(&ticket.number);
        });
    }

    /// The call has begun.
    pub(super) fn begin(&mut self, ticket: QueueTicket) {
        let sequence = self.next_sequence();
        self.change(ticket.user, |user| {
            user.queued.remove(&ticket.number);
            user.active = user.active.saturating_add(1);
            user.last_turn = sequence;
        });
    }

    /// A call of this user has ended.
    pub(super) fn end(&mut self, user: UserId) {
        let sequence = self.next_sequence();
        self.change(user, |user| {
            user.active = user.active.saturating_sub(1);
            user.last_turn = sequence;
        });
    }

    /// Keeps the place of a call that comes back at this time. If too many are kept, the user with the most
    /// loses the newest.
    pub(super) fn defer(&mut self, ticket: QueueTicket, retry_at_ms: u64) {
        self.change(ticket.user, |user| {
            if let Some(call) = user.queued.get_mut(&ticket.number) {
                call.retry_at_ms = Some(retry_at_ms);
            }
        });
        let deferred = self.users.iter().map(|(user, calls)| (calls.deferred().count(), *user));
        let total = deferred.clone().fold(0_usize, |sum, (count, _)| sum.saturating_add(count));
        if total > MAX_DEFERRED
            && let Some((_, user)) = deferred.max()
            && let Some(number) = self.users.get(&user).and_then(|calls| calls.deferred().next_back())
        {
            self.leave(QueueTicket { user, number });
        }
    }

    /// How many calls go before this one.
    pub(super) fn ahead(&self, ticket: QueueTicket, now_ms: u64, counted: CountedCalls) -> usize {
        let Some(own) = self.users.get(&ticket.user) else { return 0 };
        let own_ahead = own.count_before(ticket.number, counted);
        let turn = own.active.saturating_add(own_ahead);
        let others = self.users.iter().filter(|(user, _)| **user != ticket.user);
        others.fold(own_ahead, |sum, (_, other)| {
            let queued = other.count(now_ms, counted);
            let first_turns = turn.saturating_sub(other.active).min(queued);
            let has_same_turn = other.active <= turn && turn < other.active.saturating_add(queued);
            let is_tie_lost = has_same_turn && other.last_turn < own.last_turn;
            sum.saturating_add(first_turns).saturating_add(usize::from(is_tie_lost))
        })
    }

    /// Whether this is the user's first call in the queue.
    pub(super) fn is_first(&self, ticket: QueueTicket) -> bool {
        let own = self.users.get(&ticket.user);
        own.is_none_or(|own| own.count_before(ticket.number, CountedCalls::All) == 0)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }

    fn change(&mut self, id: UserId, change: impl FnOnce(&mut UserCalls)) {
        let Some(user) = self.users.get_mut(&id) else { return };
        change(user);
        if user.is_idle() {
            self.users.remove(&id);
        }
    }

    /// Forgets deferred calls that have not come back.
    fn forget_late(&mut self, now_ms: u64) {
        let is_late = |at_ms: u64| at_ms.saturating_add(KEEP_PLACE_MS) < now_ms;
        self.users.retain(|_, user| {
            user.queued.retain(|_, call| !call.retry_at_ms.is_some_and(is_late));
            !user.is_idle()
        });
    }
}

impl UserCalls {
    fn is_idle(&self) -> bool {
        self.active == 0 && self.queued.is_empty()
    }

    fn deferred(&self) -> impl DoubleEndedIterator<Item = u64> {
        let deferred = self.queued.iter().filter(|(_, call)| call.retry_at_ms.is_some());
        deferred.map(|(number, _)| *number)
    }

    /// Calls of this user before the one with this number. A call does not wait for its user's own that come
    /// back.
    fn count_before(&self, number: u64, counted: CountedCalls) -> usize {
        let before = self.queued.range(..number);
        before.filter(|(_, call)| counted == CountedCalls::All || call.retry_at_ms.is_none()).count()
    }

    /// Calls of this user, as another user sees them.
    fn count(&self, now_ms: u64, counted: CountedCalls) -> usize {
        let waiting = || self.queued.values().filter(|call| call.retry_at_ms.is_none()).count();
        match counted {
            CountedCalls::All => self.queued.len(),
            CountedCalls::Expected if waiting() == 0 => {
                usize::from(self.queued.values().any(|call| call.is_expected(now_ms)))
            }
            CountedCalls::Waiting | CountedCalls::Expected => waiting(),
        }
    }
}

impl QueuedCall {
    /// Whether its job comes back any moment. A call without a job may never come.
    fn is_expected(&self, now_ms: u64) -> bool {
        self.job.is_some() && self.retry_at_ms.is_some_and(|at_ms| at_ms.abs_diff(now_ms) <= KEEP_TURN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: UserId = UserId(1);
    const BOB: UserId = UserId(2);
    const CAT: UserId = UserId(3);

    fn caller(user: UserId, job: u128) -> ModelCaller {
        ModelCaller { user, job: Some(JobId::from_bits(job)) }
    }

    /// Begins and ends the waiting calls one by one, and returns their users in order.
    fn order(queue: &mut CallQueue, mut tickets: Vec<QueueTicket>) -> Vec<UserId> {
        let mut users = Vec::new();
        while !tickets.is_empty() {
            let first = |ticket: &QueueTicket| queue.ahead(*ticket, 0, CountedCalls::Expected) == 0;
            let ready: Vec<usize> = (0..tickets.len()).filter(|at| first(&tickets[*at])).collect();
            assert_eq!(ready.len(), 1, "exactly one call is the next");
            let ticket = tickets.remove(ready[0]);
            queue.begin(ticket);
            queue.end(ticket.user);
            users.push(ticket.user);
        }
        users
    }

    #[test]
    fn p7_users_take_turns_and_calls_of_one_user_are_in_order_of_arrival() {
        let mut queue = CallQueue::default();
        let mut tickets: Vec<_> = (0..4).map(|job| queue.join(caller(ANN, job), 0)).collect();
        queue.begin(tickets.remove(0));
        tickets.push(queue.join(caller(BOB, 10), 0));
        tickets.push(queue.join(caller(CAT, 20), 0));
        tickets.push(queue.join(caller(BOB, 11), 0));
        assert_eq!(queue.ahead(tickets[0], 0, CountedCalls::Waiting), 2, "ann has a call at the provider");
        assert_eq!(queue.ahead(tickets[3], 0, CountedCalls::Waiting), 0);
        queue.end(ANN);
        assert_eq!(order(&mut queue, tickets), [BOB, CAT, ANN, BOB, ANN, ANN]);
        assert!(queue.users.is_empty(), "nothing is remembered of users without calls");
    }

    #[test]
    fn p7_the_user_with_the_fewest_calls_at_the_provider_is_the_next() {
        let mut queue = CallQueue::default();
        for job in 0..3 {
            let (ann, bob) = (queue.join(caller(ANN, job), 0), queue.join(caller(BOB, job), 0));
            queue.begin(ann);
            if job < 2 { queue.begin(bob) } else { queue.leave(bob) }
        }
        let (ann, bob) = (queue.join(caller(ANN, 8), 0), queue.join(caller(BOB, 8), 0));
        assert_eq!(queue.ahead(bob, 0, CountedCalls::Waiting), 0);
        assert_eq!(queue.ahead(ann, 0, CountedCalls::Waiting), 1);
        queue.end(ANN);
        queue.end(ANN);
        assert_eq!(queue.ahead(ann, 0, CountedCalls::Waiting), 0);
        assert_eq!(queue.ahead(bob, 0, CountedCalls::Waiting), 1);
    }

    #[test]
    fn a_stream_of_new_users_does_not_starve_one_that_waits() {
        let mut queue = CallQueue::default();
        let first = queue.join(caller(ANN, 0), 0);
        let second = queue.join(caller(ANN, 1), 0);
        queue.begin(first);
        queue.end(ANN);
        let rivals: Vec<_> = (10..20).map(|user| queue.join(caller(UserId(user), 0), 0)).collect();
        assert_eq!(queue.ahead(second, 0, CountedCalls::Waiting), 0, "they came after its last turn");
        assert_eq!(queue.ahead(rivals[9], 0, CountedCalls::Waiting), 10);
    }

    #[test]
    fn a_deferred_call_keeps_its_place_and_for_a_moment_its_turn() {
        let mut queue = CallQueue::default();
        let bob = queue.join(caller(BOB, 1), 0);
        let ann = queue.join(caller(ANN, 1), 0);
        queue.defer(bob, 5_000);
        let ahead = |queue: &CallQueue, now_ms| queue.ahead(ann, now_ms, CountedCalls::Expected);
        assert_eq!([0, 3_999, 4_000, 6_000, 6_001].map(|now_ms| ahead(&queue, now_ms)), [0, 0, 1, 1, 0]);
        assert_eq!(queue.join(caller(BOB, 1), 6_500), bob, "its old place");
        assert_eq!(queue.ahead(bob, 6_500, CountedCalls::Waiting), 0);
        queue.defer(bob, 7_000);
        assert_ne!(queue.join(caller(BOB, 2), 7_000), bob, "another job");
        assert_ne!(queue.join(caller(BOB, 1), 7_001 + KEEP_PLACE_MS), bob, "too late");
    }

    #[test]
    fn a_call_without_a_job_keeps_no_turn_because_it_may_never_come_back() {
        let mut queue = CallQueue::default();
        let bob = queue.join(ModelCaller { user: BOB, job: None }, 0);
        let ann = queue.join(caller(ANN, 1), 0);
        queue.defer(bob, 100);
        assert_eq!(queue.ahead(ann, 100, CountedCalls::Expected), 0);
        assert_eq!(queue.ahead(ann, 100, CountedCalls::All), 1, "it counts for estimates");
    }

    #[test]
    fn p8_deferred_calls_are_bounded_at_the_cost_of_the_user_with_the_most() {
        let mut queue = CallQueue::default();
        let bob = queue.join(caller(BOB, 1), 0);
        queue.defer(bob, 9_000);
        for job in 0..2 * MAX_DEFERRED as u128 {
            let ann = queue.join(caller(ANN, job), 0);
            queue.defer(ann, 9_000);
        }
        let deferred = |user: UserId| queue.users[&user].deferred().count();
        assert_eq!((deferred(ANN), deferred(BOB)), (MAX_DEFERRED - 1, 1));
        queue.join(caller(CAT, 1), 9_001 + KEEP_PLACE_MS);
        assert_eq!(queue.users.len(), 1, "they have not come back");
    }
}
