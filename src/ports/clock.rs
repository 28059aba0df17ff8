//! Time, randomness and cancellation. No other code reads the system's clock or random numbers. Every
//! blocking call takes a [`CancelToken`] as a parameter; none keeps one in a thread-local.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The source of time.
pub trait Clock: Send + Sync {
    /// Wall time, unix milliseconds. May jump in both directions.
    fn now_ms(&self) -> u64;
    /// Milliseconds since a fixed point. Never goes back.
    fn monotonic_ms(&self) -> u64;
    /// Microseconds on the same scale, for measurements.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1_000)
    }
    /// Sleeps for `timeout`, or until the token is cancelled.
    fn sleep(&self, stop: &CancelToken, timeout: Duration);
}

/// The source of randomness.
pub trait Entropy: Send + Sync {
    /// 128 random bits.
    fn random(&self) -> u128;
    /// 256 random bits for secrets and keys.
    fn random_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        let parts = [self.random(), self.random()];
        for (slot, byte) in key.iter_mut().zip(parts.into_iter().flat_map(u128::to_be_bytes)) {
            *slot = byte;
        }
        key
    }
}

/// Why running work has to end before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// A user cancelled the job.
    Cancelled,
    /// The job's deadline has passed.
    DeadlineExceeded,
    /// The lease is lost: another worker may hold it.
    LeaseLost,
    /// The server shuts down and does not wait any longer.
    Shutdown,
}

/// Tells running work when to end. All clones share the reason; each has its own deadline.
#[derive(Clone)]
pub struct CancelToken {
    signal: Arc<Signal>,
    clock: Arc<dyn Clock>,
    /// On the scale of [`Clock::monotonic_ms`].
    deadline_ms: Option<u64>,
}

#[derive(Default)]
struct Signal {
    reason: Mutex<Option<CancelReason>>,
    changed: Condvar,
}

impl CancelToken {
    /// A new token without a deadline. Later deadlines are measured on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { signal: Arc::default(), clock, deadline_ms: None }
    }

    /// Cancels the token and all its clones. The first reason stays.
    pub fn cancel(&self, reason: CancelReason) {
        self.signal.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.signal.changed.notify_all();
    }

    /// The reason of an explicit cancellation. A deadline that has passed is no reason.
    pub fn reason(&self) -> Option<CancelReason> {
        *self.signal.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether work has to end now: cancelled, or past the deadline.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some() || self.remaining().is_zero()
    }

    /// Time left before the deadline; [`Duration::MAX`] without one.
    pub fn remaining(&self) -> Duration {
        self.deadline_ms.map_or(Duration::MAX, |deadline_ms| {
            Duration::from_millis(deadline_ms.saturating_sub(self.clock.monotonic_ms()))
        })
    }

    /// Blocks until the token is cancelled or `timeout` has passed on the real clock. Ignores the deadline.
    pub fn wait(&self, timeout: Duration) -> Option<CancelReason> {
        let reason = self.signal.reason.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.signal.changed.wait_timeout_while(reason, timeout, |reason| reason.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sleeps for `timeout` on the token's clock, or until the token is cancelled. Ignores the deadline.
    pub fn sleep(&self, timeout: Duration) {
        self.clock.sleep(self, timeout);
    }

    /// The same token that ends at `deadline_ms` of its clock or at its own deadline, whichever is earlier.
    #[must_use]
    pub fn with_deadline(&self, deadline_ms: u64) -> Self {
        let deadline_ms = self.deadline_ms.map_or(deadline_ms, |own_ms| own_ms.min(deadline_ms));
        Self { deadline_ms: Some(deadline_ms), ..self.clone() }
    }

    /// The same token that ends at most `timeout` from now.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.with_deadline(self.clock.monotonic_ms().saturating_add(timeout_ms))
    }

    /// The clock of its deadline.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("reason", &self.reason())
            .field("deadline_ms", &self.deadline_ms)
            .finish_non_exhaustive()
    }
}
