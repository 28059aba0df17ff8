//! Wakes the senders of webhooks when a delivery is due. A hint: they check, and may find nothing.

use crate::ports::CancelToken;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a waiter sleeps before it checks its cancel token.
const CHECK_CANCEL_EVERY: Duration = Duration::from_millis(500);

/// Notifies after each commit that made a delivery due.
#[derive(Debug, Default)]
pub(crate) struct DeliveryNotify {
    count: Mutex<u64>,
    condvar: Condvar,
}

impl DeliveryNotify {
    /// Wakes all waiters.
    pub(crate) fn notify(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.wrapping_add(1);
        self.condvar.notify_all();
    }

    /// Number of notifications so far.
    pub(crate) fn count(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until there is another notification than `seen`, until `cancel` is cancelled, or until the
    /// timeout has passed.
    pub(crate) fn wait(&self, seen: u64, cancel: &CancelToken, timeout: Duration) {
        let mut left = timeout;
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count == seen && cancel.reason().is_none() && !left.is_zero() {
            let slice = CHECK_CANCEL_EVERY.min(left);
            let (woken, result) =
                self.condvar.wait_timeout(count, slice).unwrap_or_else(PoisonError::into_inner);
            count = woken;
            if result.timed_out() {
                left = left.saturating_sub(slice);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::ports::CancelReason;
    use std::sync::Arc;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_notification_or_a_cancel_ends_the_wait() {
        let (notify, cancel) =
            (Arc::new(DeliveryNotify::default()), CancelToken::new(Arc::new(SystemClock::new())));
        for cancels in [false, true] {
            let (sender, receiver) = mpsc::channel();
            let (waiting, flag) = (Arc::clone(&notify), cancel.clone());
            std::thread::spawn(move || {
                waiting.wait(waiting.count(), &flag, LONG);
                sender.send(()).expect("the test listens");
            });
            // The waiter may not have started yet, so notify until it wakes.
            while receiver.recv_timeout(Duration::from_millis(20)).is_err() {
                if cancels {
                    cancel.cancel(CancelReason::Shutdown);
                } else {
                    notify.notify();
                }
            }
        }
        let cancel = CancelToken::new(Arc::new(SystemClock::new()));
        notify.wait(notify.count(), &cancel, Duration::from_millis(1));
    }

    #[test]
    fn a_notification_before_the_wait_is_not_lost() {
        let (notify, cancel) = (DeliveryNotify::default(), CancelToken::new(Arc::new(SystemClock::new())));
        let seen = notify.count();
        notify.notify();
        notify.wait(seen, &cancel, LONG);
    }
}
