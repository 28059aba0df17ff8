//! Metrics of model calls.

use crate::ports::{Chunk, Clock, Measurement, Meter, ModelError};

/// The measurement of one call.
pub(super) struct CallMetrics<'a> {
    meter: &'a dyn Meter,
    clock: &'a dyn Clock,
    model: &'a str,
    begun_us: u64,
    first_us: Option<u64>,
}

impl<'a> CallMetrics<'a> {
    /// Begins after the rate limiter has admitted the call.
    pub(super) fn begin(meter: &'a dyn Meter, clock: &'a dyn Clock, model: &'a str) -> Self {
        Self { meter, clock, model, begun_us: clock.monotonic_us(), first_us: None }
    }

    /// Notes the time of the first piece of the answer.
    pub(super) fn chunk_arrived(&mut self, chunk: &Chunk<'_>) {
        if self.first_us.is_none() && !matches!(chunk, Chunk::Spent(_) | Chunk::CaughtUp) {
            self.first_us = Some(self.elapsed_us());
        }
    }

    /// Records the call.
    pub(super) fn end(&self, result: Result<(), &ModelError>) {
        let outcome = result.map_or_else(outcome_of, |()| "ok");
        let (took_us, first_us) = (Some(self.elapsed_us()), self.first_us);
        self.meter.record(Measurement::ModelCalled { model: Some(self.model), outcome, took_us, first_us });
    }

    fn elapsed_us(&self) -> u64 {
        self.clock.monotonic_us().saturating_sub(self.begun_us)
    }
}

/// Records a call to a model that is not configured.
pub(super) fn not_called(meter: &dyn Meter, error: &ModelError) {
    let outcome = outcome_of(error);
    meter.record(Measurement::ModelCalled { model: None, outcome, took_us: None, first_us: None });
}

/// Records a call that the rate limiter did not admit. With an open circuit the provider has not failed once
/// more.
pub(super) fn not_admitted(meter: &dyn Meter, model: &str, error: &ModelError) {
    let is_open = matches!(error, ModelError::Unavailable { .. });
    let outcome = if is_open { "circuit_open" } else { outcome_of(error) };
    meter.record(Measurement::ModelCalled { model: Some(model), outcome, took_us: None, first_us: None });
}

fn outcome_of(error: &ModelError) -> &'static str {
    match error {
        ModelError::NotFound(_) => "not_found",
        ModelError::Refused(_) => "refused",
        ModelError::Filtered(_) => "filtered",
        ModelError::Denied(_) => "denied",
        ModelError::UnknownModel(_) => "unknown_model",
        ModelError::ContextTooLong(_) => "context_too_long",
        ModelError::Busy { .. } => "busy",
        ModelError::RateLimited { .. } => "rate_limited",
        ModelError::Unavailable { .. } => "unavailable",
        ModelError::TooLarge(_) => "too_large",
        ModelError::Stopped => "stopped",
    }
}
