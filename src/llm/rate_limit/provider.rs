//! The rate limiter of one provider account, which all of its models share.

use super::limiter::RateLimiter;
use crate::domain::limits::Limits;
use crate::ports::{Measurement, Meter};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The limiter of one provider account.
#[derive(Debug)]
pub(in crate::llm) struct ProviderLimiter {
    /// The provider's name in metrics, without key and path.
    pub(super) name: String,
    /// The longest wait in place.
    pub(super) max_wait: Duration,
    state: Mutex<RateLimiter>,
}

impl ProviderLimiter {
    pub(super) fn new(name: String, limits: &Limits) -> Self {
        let max_wait = Duration::from_secs(limits.model_wait_s);
        Self { name, max_wait, state: Mutex::new(RateLimiter::new(limits)) }
    }

    /// Records the circuit's state, under the lock so that the last record is the newest.
    pub(in crate::llm) fn record_state(&self, meter: &dyn Meter) {
        let limiter = self.lock();
        meter.record(Measurement::Circuit { provider: &self.name, state: limiter.circuit() });
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RateLimiter> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
