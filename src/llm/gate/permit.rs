//! A call that may be made. Owns what is told of it; tells it when it is dropped, so that a panic takes no seat away.

use super::Gate;
use super::turnstile::{Admission, Outcome};
use crate::domain::usage::Usage;
use crate::ports::{CancelToken, Completion, ModelError};

/// A seat at a provider.
pub(in crate::llm) struct Permit<'a> {
    gate: &'a Gate,
    cancel: &'a CancelToken,
    admission: Admission,
    is_heard: bool,
    outcome: Outcome,
    spent: Option<Usage>,
}

impl<'a> Permit<'a> {
    pub(super) fn new(gate: &'a Gate, cancel: &'a CancelToken, admission: Admission) -> Self {
        Self { gate, cancel, admission, is_heard: false, outcome: Outcome::Untold, spent: None }
    }

    /// A piece of the answer has come. Whether that may have closed the circuit breaker.
    pub(in crate::llm) fn hear(&mut self) -> bool {
        let is_news = self.admission.is_probe && !std::mem::replace(&mut self.is_heard, true);
        if is_news {
            self.gate.lock().hear(self.admission);
        }
        is_news
    }

    /// The call has cost so much so far.
    pub(in crate::llm) fn spend(&mut self, usage: Usage) {
        self.spent = Some(usage);
    }

    /// What came of the call. `is_limited`: the provider said that it has too many of them.
    pub(in crate::llm) fn tell(&mut self, result: &Result<Completion, ModelError>, is_limited: bool) {
        self.outcome = match result {
            Err(ModelError::Unavailable { retry_after_ms, .. }) if is_limited => {
                Outcome::Limited(*retry_after_ms)
            }
            Err(ModelError::Unavailable { .. }) => Outcome::Down,
            Err(ModelError::Stopped | ModelError::NotFound(_) | ModelError::Busy { .. }) => Outcome::Untold,
            Ok(_)
            | Err(
                ModelError::Refused(_)
                | ModelError::Denied(_)
                | ModelError::ContextTooLong(_)
                | ModelError::TooLarge(_),
            ) => Outcome::Answered,
        };
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        let now_ms = self.cancel.clock().monotonic_ms();
        state.leave(now_ms, self.admission, self.outcome, self.spent);
    }
}
