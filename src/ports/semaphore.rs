//! A semaphore for threads, whose wait ends when its caller is cancelled. It serves in no order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often cancellation is checked while a caller waits.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Limits how many threads do the same work at once.
#[derive(Debug)]
pub struct Semaphore {
    free: Mutex<usize>,
    released: Condvar,
}

/// One permit, released when dropped.
#[derive(Debug)]
pub struct SemaphorePermit(&'static Semaphore);

impl Semaphore {
    /// A semaphore with so many permits.
    pub const fn new(permits: usize) -> Self {
        Self { free: Mutex::new(permits), released: Condvar::new() }
    }

    /// Waits for a permit; `None` if the caller is cancelled first.
    pub fn acquire(&'static self, is_cancelled: impl Fn() -> bool) -> Option<SemaphorePermit> {
        let mut free = self.lock();
        while *free == 0 {
            if is_cancelled() {
                return None;
            }
            free = self.released.wait_timeout(free, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(SemaphorePermit(self))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SemaphorePermit {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.released.notify_one();
    }
}

/// Permits carry no data, so the values that hold them compare without them.
impl PartialEq for SemaphorePermit {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SemaphorePermit {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_released_permit_goes_to_the_next_and_a_cancelled_caller_gets_none() {
        static ONE: Semaphore = Semaphore::new(1);
        let first = ONE.acquire(|| false).expect("a free permit");
        assert!(ONE.acquire(|| true).is_none(), "none is free");
        let (is_waiting, has_permit) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let permit = ONE.acquire(|| {
                    is_waiting.store(true, Ordering::SeqCst);
                    false
                });
                has_permit.store(permit.is_some(), Ordering::SeqCst);
            });
            while !is_waiting.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert!(!has_permit.load(Ordering::SeqCst), "it waits");
            drop(first);
        });
        assert!(has_permit.load(Ordering::SeqCst));
    }
}
