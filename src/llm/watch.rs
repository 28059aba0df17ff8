//! One call to a model, measured. Owns the words for what came of it; refuses to look at what is said.

use crate::ports::{Chunk, Clock, Completion, Measurement, Meter, ModelError};

/// A call under way.
pub(super) struct Watch<'a> {
    meter: &'a dyn Meter,
    clock: &'a dyn Clock,
    model: &'a str,
    begun_us: u64,
    first_us: Option<u64>,
}

impl<'a> Watch<'a> {
    /// The call begins now: its turn at the provider has come.
    pub(super) fn begin(meter: &'a dyn Meter, clock: &'a dyn Clock, model: &'a str) -> Self {
        Self { meter, clock, model, begun_us: clock.monotonic_us(), first_us: None }
    }

    /// A piece of the answer has come.
    pub(super) fn hear(&mut self, chunk: &Chunk<'_>) {
        if self.first_us.is_none() && !matches!(chunk, Chunk::Spent(_)) {
            self.first_us = Some(self.passed_us());
        }
    }

    /// It is over.
    pub(super) fn end(&self, result: &Result<Completion, ModelError>) {
        let outcome = result.as_ref().map_or_else(word, |_| "ok");
        let (took_us, first_us) = (Some(self.passed_us()), self.first_us);
        self.meter.record(Measurement::ModelCalled { model: Some(self.model), outcome, took_us, first_us });
    }

    fn passed_us(&self) -> u64 {
        self.clock.monotonic_us().saturating_sub(self.begun_us)
    }
}

/// A call that was not made, and why.
pub(super) fn not_made(meter: &dyn Meter, model: Option<&str>, error: &ModelError) {
    meter.record(Measurement::ModelCalled { model, outcome: word(error), took_us: None, first_us: None });
}

/// A call that the gate did not let through. Where the provider is not asked at all, it has not failed once more.
pub(super) fn kept_back(meter: &dyn Meter, model: &str, error: &ModelError) {
    let outcome = if matches!(error, ModelError::Unavailable { .. }) { "circuit_open" } else { word(error) };
    meter.record(Measurement::ModelCalled { model: Some(model), outcome, took_us: None, first_us: None });
}

fn word(error: &ModelError) -> &'static str {
    match error {
        ModelError::NotFound(_) => "not_found",
        ModelError::Refused(_) => "refused",
        ModelError::Denied(_) => "denied",
        ModelError::ContextTooLong(_) => "context_too_long",
        ModelError::Busy { .. } => "busy",
        ModelError::Unavailable { .. } => "unavailable",
        ModelError::TooLarge(_) => "too_large",
        ModelError::Stopped => "stopped",
    }
}
