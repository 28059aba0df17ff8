//! Wakes workers when jobs are ready: as many as there are jobs. A hint: they claim, and may find
//! nothing.

use crate::ports::CancelToken;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which a waiter checks its cancel token. Bounds the reaction to a stop and the wake-ups of idle
/// workers.
const CHECK_CANCEL_EVERY: Duration = Duration::from_millis(500);
/// Time after which a waiter without a permit checks the queue: another waiter may have died with its permit.
const UNPERMITTED_WAIT: Duration = Duration::from_millis(500);
/// Time after which a due job that is still queued wakes another waiter.
const DUE_AGAIN_MS: u64 = 500;

/// The state that waiters wait for.
#[derive(Debug, Default)]
pub(crate) struct ReadyNotify {
    state: Mutex<ReadyState>,
    condvar: Condvar,
}

#[derive(Debug, Default)]
struct ReadyState {
    /// Ready jobs as of the last commit.
    ready: u64,
    /// Number of waiters that may wake for them.
    permits: u64,
    /// When the next delayed job is due.
    due_ms: Option<u64>,
    /// The same, pushed back once a waiter was woken for it.
    hint_ms: Option<u64>,
}

impl ReadyNotify {
    /// The queue as it stands after a commit that made `readied` jobs ready.
    pub(crate) fn publish(&self, ready: u64, readied: u64, due_ms: Option<u64>) {
        let mut state = self.lock();
        state.ready = ready;
        state.permits = state.permits.saturating_add(readied).min(ready);
        if state.due_ms != due_ms {
            (state.due_ms, state.hint_ms) = (due_ms, due_ms);
        }
        let permits = state.permits;
        drop(state);
        for _ in 0..readied.min(permits).min(1_024) {
            self.condvar.notify_one();
        }
    }

    /// Whether a claim could find something at `now_ms`.
    pub(crate) fn may_have_work(&self, now_ms: u64) -> bool {
        let state = self.lock();
        state.ready > 0 || state.due_ms.is_some_and(|due| due <= now_ms)
    }

    /// Blocks until a job may be ready, `cancel` is cancelled, or the timeout has passed.
    pub(crate) fn wait(&self, cancel: &CancelToken, timeout: Duration, now_ms: impl Fn() -> u64) {
        let mut left = timeout;
        let mut state = self.lock();
        while cancel.reason().is_none()
            && !state.admit(now_ms(), timeout.saturating_sub(left))
            && !left.is_zero()
        {
            let slice = state.slice(now_ms()).min(left);
            let (woken, result) =
                self.condvar.wait_timeout(state, slice).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if result.timed_out() {
                left = left.saturating_sub(slice);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadyState {
    /// Whether a waiter that has waited this long may check the queue.
    fn admit(&mut self, now_ms: u64, waited: Duration) -> bool {
        if self.permits > 0 {
            self.permits -= 1;
            return true;
        }
        if self.hint_ms.is_some_and(|due| due <= now_ms) {
            self.hint_ms = Some(now_ms.saturating_add(DUE_AGAIN_MS));
            return true;
        }
        self.ready > 0 && waited >= UNPERMITTED_WAIT
    }

    fn slice(&self, now_ms: u64) -> Duration {
        let until_due = self.hint_ms.map_or(u64::MAX, |due| due.saturating_sub(now_ms).max(1));
        CHECK_CANCEL_EVERY.min(Duration::from_millis(until_due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::ports::CancelReason;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn k_ready_jobs_wake_at_most_k_of_many_waiters() {
        let (work, woken, cancel) = (
            Arc::new(ReadyNotify::default()),
            Arc::new(AtomicUsize::new(0)),
            CancelToken::new(Arc::new(SystemClock::new())),
        );
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let (work, woken, cancel) = (Arc::clone(&work), Arc::clone(&woken), cancel.clone());
                std::thread::spawn(move || {
                    work.wait(&cancel, LONG, || 0);
                    if cancel.reason().is_none() {
                        woken.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        work.publish(3, 3, None);
        while woken.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        // Claimed: no other waiter wakes, however long it has waited.
        work.publish(0, 0, None);
        CancelToken::new(Arc::new(SystemClock::new())).wait(UNPERMITTED_WAIT + 2 * CHECK_CANCEL_EVERY);
        assert_eq!(woken.load(Ordering::SeqCst), 3);
        cancel.cancel(CancelReason::Shutdown);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    }

    #[test]
    fn an_idle_waiter_wakes_twice_a_second_and_stops_within_half_a_second() {
        let (work, cancel, looks) = (
            Arc::new(ReadyNotify::default()),
            CancelToken::new(Arc::new(SystemClock::new())),
            Arc::new(AtomicUsize::new(0)),
        );
        let (waiting, flag, seen) = (Arc::clone(&work), cancel.clone(), Arc::clone(&looks));
        let waiter = std::thread::spawn(move || {
            waiting.wait(&flag, LONG, || {
                seen.fetch_add(1, Ordering::SeqCst);
                0
            });
        });
        CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(1_100));
        // Each check reads the clock twice: for due jobs, and for the next slice.
        assert!(looks.load(Ordering::SeqCst) <= 2 * 5, "{looks:?}: three, and two for a slow machine");
        let (sender, receiver) = std::sync::mpsc::channel();
        cancel.cancel(CancelReason::Shutdown);
        std::thread::spawn(move || sender.send(waiter.join().is_ok()).unwrap());
        assert_eq!(receiver.recv_timeout(2 * CHECK_CANCEL_EVERY), Ok(true));
    }

    #[test]
    fn a_lost_permit_delays_a_waiter_less_than_a_second() {
        let work = ReadyNotify::default();
        work.publish(1, 1, None);
        let cancel = CancelToken::new(Arc::new(SystemClock::new()));
        work.wait(&cancel, LONG, || 0);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            work.wait(&CancelToken::new(Arc::new(SystemClock::new())), LONG, || 0);
            sender.send(()).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn a_due_job_wakes_one_waiter_and_another_after_a_delay() {
        let mut state = ReadyState { due_ms: Some(10), hint_ms: Some(10), ..ReadyState::default() };
        assert!(!state.admit(9, Duration::ZERO));
        assert!(state.admit(10, Duration::ZERO));
        assert!(!state.admit(10, Duration::ZERO), "one is enough");
        assert!(state.admit(10 + DUE_AGAIN_MS, Duration::ZERO), "it may have died");
    }

    #[test]
    fn a_wait_without_work_ends_at_its_timeout() {
        ReadyNotify::default().wait(
            &CancelToken::new(Arc::new(SystemClock::new())),
            Duration::from_millis(10),
            || 0,
        );
    }
}
