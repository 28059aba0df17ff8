//! Limits how many programs run at once: a semaphore that serves in order of arrival, with a cancellable
//! wait.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often cancellation is checked while a caller waits.
const CANCEL_POLL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct RunSlots {
    state: Mutex<SlotQueue>,
    changed: Condvar,
}

#[derive(Debug)]
struct SlotQueue {
    free: usize,
    next_ticket: u64,
    waiting: VecDeque<u64>,
}

/// One slot, released when dropped.
pub(crate) struct RunSlot(Arc<RunSlots>);

impl RunSlots {
    pub(crate) fn new(slots: usize) -> Arc<Self> {
        let state = SlotQueue { free: slots, next_ticket: 0, waiting: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Waits for a slot in order of arrival; `None` if the caller cancels first.
    pub(crate) fn take(self: &Arc<Self>, cancel: &dyn Fn() -> bool) -> Option<RunSlot> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        loop {
            let is_cancelled = cancel();
            let is_next = state.free > 0 && state.waiting.front() == Some(&ticket);
            if is_cancelled || is_next {
                state.waiting.retain(|other| *other != ticket);
                state.free -= usize::from(!is_cancelled);
                drop(state);
                // The next caller in the queue may find another free slot.
                self.changed.notify_all();
                return if is_cancelled { None } else { Some(RunSlot(Arc::clone(self))) };
            }
            state = self.changed.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn waiting(slots: &RunSlots) -> usize {
        slots.lock().waiting.len()
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_slot_is_released_and_waiting_can_be_cancelled() {
        let slots = RunSlots::new(1);
        let occupied = slots.take(&|| false);
        assert!(occupied.is_some());
        assert!(slots.take(&|| true).is_none());
        drop(occupied);
        assert!(slots.take(&|| false).is_some());
        assert_eq!(waiting(&slots), 0);
    }

    #[test]
    fn run_slots_are_given_in_arrival_order() {
        let slots = RunSlots::new(1);
        let order = Mutex::new(Vec::new());
        let is_cancelled = AtomicBool::new(false);
        let occupied = slots.take(&|| false);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (slots, order, is_cancelled) = (&slots, &order, &is_cancelled);
                scope.spawn(move || {
                    let slot = slots.take(&|| number == 1 && is_cancelled.load(Ordering::Relaxed));
                    slot.is_some().then(|| order.lock().unwrap().push(number));
                });
                until(|| waiting(slots) == number + 1);
            }
            is_cancelled.store(true, Ordering::Relaxed);
            until(|| waiting(&slots) == 3);
            drop(occupied);
        });
        assert_eq!(*order.lock().unwrap(), [0, 2, 3]);
    }
}
