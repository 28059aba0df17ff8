//! The hint that there is mail. Owns who wakes when; refuses to be the outbox: whoever wakes has to look, and may find
//! nothing.

use crate::ports::CancelToken;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a waiter sleeps before it looks at its stop flag.
const SLICE: Duration = Duration::from_millis(500);

/// Rings after each commit that made a delivery due.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rings: Mutex<u64>,
    bell: Condvar,
}

impl Bell {
    /// Wakes all who wait.
    pub(super) fn ring(&self) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        *rings = rings.wrapping_add(1);
        self.bell.notify_all();
    }

    /// Blocks until the next ring, until `stop` is raised, or until the timeout has passed.
    pub(super) fn wait(&self, stop: &CancelToken, timeout: Duration) {
        let mut left = timeout;
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = *rings;
        while *rings == heard && stop.reason().is_none() && !left.is_zero() {
            let slice = SLICE.min(left);
            let (woken, result) =
                self.bell.wait_timeout(rings, slice).unwrap_or_else(PoisonError::into_inner);
            rings = woken;
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
    fn a_ring_and_a_stop_both_end_a_wait() {
        let (bell, stop) = (Arc::new(Bell::default()), CancelToken::new(Arc::new(SystemClock::new())));
        for stops in [false, true] {
            let (sender, receiver) = mpsc::channel();
            let (waiting, flag) = (Arc::clone(&bell), stop.clone());
            std::thread::spawn(move || {
                waiting.wait(&flag, LONG);
                sender.send(()).expect("the test listens");
            });
            // The waiter may not have begun yet, so it is told until it has heard.
            while receiver.recv_timeout(Duration::from_millis(20)).is_err() {
                if stops {
                    stop.cancel(CancelReason::Shutdown);
                } else {
                    bell.ring();
                }
            }
        }
        bell.wait(&CancelToken::new(Arc::new(SystemClock::new())), Duration::from_millis(1));
    }
}
