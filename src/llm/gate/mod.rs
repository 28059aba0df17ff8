//! The way to a provider: how many calls at once and in a minute, and whether it is asked at all. Owns the waiting, which
//! is short, ends with the cancel, and keeps the order of arrival; refuses to make calls, and to wait long: who has to,
//! comes again.
//!
//! A gate serves one provider and key ([`Gates`]), whichever models share them. What it decides, [`turnstile`] decides,
//! without threads or clocks.

mod breaker;
mod gates;
mod permit;
mod requests;
mod sent_away;
#[cfg(test)]
mod tests;
mod tokens;
mod turnstile;
mod visit;

use crate::domain::limits::Limits;
use crate::ports::{CancelToken, Measurement, Meter, ModelError, ModelRequest};
pub(super) use gates::Gates;
use permit::Permit;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use turnstile::Turnstile;
use visit::Visit;

/// The way to one provider.
#[derive(Debug)]
pub(super) struct Gate {
    /// What the provider is called where it is counted: no key, no path.
    name: String,
    wait: Duration,
    state: Mutex<Turnstile>,
}

impl Gate {
    /// Of `limits` the wait and the circuit breaker's.
    fn new(name: String, limits: &Limits) -> Self {
        let wait = Duration::from_secs(limits.model_wait_s);
        Self { name, wait, state: Mutex::new(Turnstile::new(limits)) }
    }

    /// Waits for a call's turn, as long as that is soon. Else `Busy` with the time to come again, `Unavailable` while the
    /// provider is not asked at all, or `Stopped` when the cancel is pulled.
    pub(super) fn enter<'a>(
        &'a self,
        request: &ModelRequest,
        cancel: &'a CancelToken,
    ) -> Result<Permit<'a>, ModelError> {
        let admission = Visit::new(self, request, cancel).wait()?;
        Ok(Permit::new(self, cancel, admission))
    }

    /// Tells where the circuit breaker stands. Under the lock: of two that tell, the later one must be right.
    pub(super) fn tell(&self, meter: &dyn Meter) {
        let turnstile = self.lock();
        meter.record(Measurement::Circuit { provider: &self.name, state: turnstile.circuit() });
    }

    fn lock(&self) -> MutexGuard<'_, Turnstile> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
