//! How many programs run at once: a counting semaphore whose wait a caller can cancel.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a waiting caller is asked whether it has been cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// The free places.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One place, given back when dropped.
pub(crate) struct Slot<'a>(&'a Slots);

impl Slots {
    pub(crate) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Waits for a place; none if the caller cancelled first.
    pub(crate) fn take(&self, cancel: &dyn Fn() -> bool) -> Option<Slot<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if cancel() {
                return None;
            }
            if *free > 0 {
                *free -= 1;
                return Some(Slot(self));
            }
            free = self.freed.wait_timeout(free, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_and_waiting_can_be_cancelled() {
        let slots = Slots::new(1);
        let held = slots.take(&|| false);
        assert!(held.is_some());
        assert!(slots.take(&|| true).is_none());
        drop(held);
        assert!(slots.take(&|| false).is_some());
    }
}
