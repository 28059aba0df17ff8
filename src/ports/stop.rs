//! How work is ended from outside. Owns the flag, its reasons and the leash that joins a flag with a deadline; refuses
//! to read time itself.

use super::clock::Clock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Why somebody who works has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The job was cancelled.
    Cancelled,
    /// The lease is lost: another worker may hold it.
    Fenced,
    /// The server shuts down and will not wait longer.
    Shutdown,
}

/// A flag that is raised once, by any thread, and seen at once by whoever waits on it.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<(Mutex<Option<Stop>>, Condvar)>);

impl StopFlag {
    /// Raises the flag; the first reason stays.
    pub fn raise(&self, stop: Stop) {
        let (reason, bell) = &*self.0;
        reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(stop);
        bell.notify_all();
    }

    /// The reason, once raised.
    pub fn raised(&self) -> Option<Stop> {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until the flag is raised or `timeout` has passed; returns the reason, once raised.
    pub fn wait(&self, timeout: Duration) -> Option<Stop> {
        let (reason, bell) = &*self.0;
        let guard = reason.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _timed_out) =
            bell.wait_timeout_while(guard, timeout, |r| r.is_none()).unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

/// How long somebody may work: until the flag is raised or the deadline has passed.
#[derive(Clone)]
pub struct Leash {
    /// Raised on cancel, lost lease, shutdown.
    pub stop: StopFlag,
    /// On the scale of [`Clock::monotonic_ms`].
    pub deadline_ms: u64,
    /// Tells how late it is.
    pub clock: Arc<dyn Clock>,
}

impl Leash {
    /// Whether work has to end now.
    pub fn is_pulled(&self) -> bool {
        self.stop.raised().is_some() || self.remaining().is_zero()
    }

    /// Time left before the deadline.
    pub fn remaining(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.saturating_sub(self.clock.monotonic_ms()))
    }

    /// The same leash, but no longer than `timeout` from now.
    #[must_use]
    pub fn shortened(&self, timeout: Duration) -> Self {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = self.deadline_ms.min(self.clock.monotonic_ms().saturating_add(millis));
        Self { stop: self.stop.clone(), deadline_ms, clock: Arc::clone(&self.clock) }
    }
}
