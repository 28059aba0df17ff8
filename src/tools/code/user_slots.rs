//! A code runner whose slots users share: programs may sleep up to their time limit, so programs of one user
//! must not keep those of others waiting.

use super::{CodeRunner, RunCaller};
use crate::domain::fair_share::{FairShare, Holdings};
use crate::domain::id::UserId;
use nanoclaw_sandbox::{HostCalls, Language, Level, Program, RunRecord};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting caller checks its cancel token.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Wraps a runner that has [`FairShare::places`] slots.
pub struct SharedCode {
    runner: Arc<dyn CodeRunner>,
    slots: UserSlots,
}

impl SharedCode {
    /// Users share the slots of `runner` by this rule.
    pub fn new(runner: Arc<dyn CodeRunner>, share: FairShare) -> Self {
        Self { runner, slots: UserSlots::new(share) }
    }
}

impl CodeRunner for SharedCode {
    fn run(&self, program: &Program, caller: RunCaller<'_>) -> RunRecord {
        // A cancelled caller gets no slot. The runner then starts nothing and returns the record of that.
        let _slot = self.slots.take(caller);
        self.runner.run(program, caller)
    }

    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, caller: RunCaller<'_>) -> RunRecord {
        let _slot = self.slots.take(caller);
        self.runner.run_with_host(program, host, caller)
    }

    fn default_level(&self) -> Level {
        self.runner.default_level()
    }

    fn levels(&self) -> Vec<Level> {
        self.runner.levels()
    }

    fn timeout(&self, level: Level) -> Duration {
        self.runner.timeout(level)
    }

    fn known_fault(&self, language: Language, level: Level) -> Option<String> {
        self.runner.known_fault(language, level)
    }
}

/// Slots of users; the server itself counts as one.
struct UserSlots {
    share: FairShare,
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlotState {
    held: Holdings<Option<UserId>>,
    next_ticket: u64,
    /// In order of arrival.
    waiting: VecDeque<(u64, Option<UserId>)>,
}

/// One slot, released when dropped.
struct UserSlot<'a> {
    slots: &'a UserSlots,
    user: Option<UserId>,
}

impl UserSlots {
    fn new(share: FairShare) -> Self {
        Self { share, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for a slot; `None` if the caller is cancelled first.
    fn take(&self, caller: RunCaller<'_>) -> Option<UserSlot<'_>> {
        let user = caller.user;
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket = ticket.wrapping_add(1);
        state.waiting.push_back((ticket, user));
        loop {
            let is_cancelled = caller.cancel.is_cancelled();
            if is_cancelled || state.next(self.share) == Some(ticket) {
                state.waiting.retain(|(other, _)| *other != ticket);
                if !is_cancelled {
                    state.held.take(user, 1);
                }
                drop(state);
                // The next caller may find another free slot.
                self.changed.notify_all();
                return (!is_cancelled).then_some(UserSlot { slots: self, user });
            }
            state = self.changed.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    /// The caller who gets the next slot.
    fn next(&self, share: FairShare) -> Option<u64> {
        let at = self.held.next(share, self.waiting.iter().map(|(_, user)| *user))?;
        self.waiting.get(at).map(|(ticket, _)| *ticket)
    }
}

impl Drop for UserSlot<'_> {
    fn drop(&mut self) {
        self.slots.lock().held.give_back(self.user, 1);
        self.slots.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::ports::{CancelReason, CancelToken};

    const ANN: Option<UserId> = Some(UserId(1));
    const BOB: Option<UserId> = Some(UserId(2));

    fn token() -> CancelToken {
        CancelToken::new(Arc::new(SystemClock::new()))
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn programs_of_one_user_never_hold_the_slot_of_another() {
        let (slots, cancel) = (UserSlots::new(FairShare::of(2)), token());
        let caller = |user| RunCaller { user, cancel: &cancel };
        let sleeping = [slots.take(caller(ANN)), slots.take(caller(ANN))];
        assert!(sleeping.iter().all(Option::is_some));
        let other = slots.take(caller(BOB));
        assert!(other.is_some(), "the reserve serves a user who runs nothing");
        cancel.cancel(CancelReason::Cancelled);
        assert!(slots.take(caller(ANN)).is_none(), "a cancelled caller does not wait");
    }

    #[test]
    fn a_free_slot_goes_to_the_user_with_the_fewest_and_then_to_the_first_to_come() {
        let (slots, cancel) = (UserSlots::new(FairShare::of(2)), token());
        let caller = |user| RunCaller { user, cancel: &cancel };
        let order = Mutex::new(Vec::new());
        let mut occupied = vec![slots.take(caller(ANN)), slots.take(caller(ANN)), slots.take(caller(BOB))];
        std::thread::scope(|scope| {
            for (number, user) in [ANN, ANN, BOB].into_iter().enumerate() {
                let (slots, order, cancel) = (&slots, &order, &cancel);
                scope.spawn(move || {
                    let slot = slots.take(RunCaller { user, cancel });
                    order.lock().unwrap().push(number);
                    drop(slot);
                });
                until(|| slots.lock().waiting.len() == number + 1);
            }
            // One of ann's two ends: bob holds one as well, and ann came first, but the reserve stays free.
            occupied.remove(0);
            assert!(order.lock().unwrap().is_empty());
            // Bob's ends: he holds nothing.
            occupied.pop();
            until(|| order.lock().unwrap().len() == 3);
            occupied.clear();
        });
        assert_eq!(*order.lock().unwrap(), [2, 0, 1]);
        assert_eq!(slots.lock().held.total(), 0);
    }

    #[test]
    fn a_cancelled_caller_leaves_the_queue() {
        let (slots, cancel, stopped) = (UserSlots::new(FairShare::of(1)), token(), token());
        let occupied = slots.take(RunCaller { user: ANN, cancel: &cancel });
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| slots.take(RunCaller { user: ANN, cancel: &stopped }).is_none());
            until(|| slots.lock().waiting.len() == 1);
            stopped.cancel(CancelReason::Cancelled);
            assert!(waiting.join().unwrap());
        });
        drop(occupied);
        assert!(slots.take(RunCaller { user: ANN, cancel: &cancel }).is_some());
    }
}
