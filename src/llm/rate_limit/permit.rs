//! The permit for one call. Dropping it reports the call's outcome, so a panic frees the permit too.

use super::limiter::{Admission, MAX_PAUSE_MS, ProviderCallOutcome};
use super::registry::ProviderLimiter;
use super::waiter::Waiter;
use crate::domain::usage::Usage;
use crate::llm::transport::error_mapper::ProviderFailure;
use crate::ports::{CancelToken, ModelError, ModelRequest};

/// An admitted call.
pub(in crate::llm) struct CallPermit<'a> {
    limiter: &'a ProviderLimiter,
    cancel: &'a CancelToken,
    admission: Admission,
    has_answered: bool,
    outcome: ProviderCallOutcome,
    spent: Option<Usage>,
}

impl ProviderLimiter {
    /// Waits for a permit if the wait is short. Else fails with `Busy` and the time to come again, with
    /// `Unavailable` while the circuit is open, or with `Stopped` when the token is cancelled.
    pub(in crate::llm) fn acquire<'a>(
        &'a self,
        request: &ModelRequest,
        cancel: &'a CancelToken,
    ) -> Result<CallPermit<'a>, ModelError> {
        let admission = Waiter::new(self, request, cancel).wait()?;
        let outcome = ProviderCallOutcome::Unknown;
        Ok(CallPermit { limiter: self, cancel, admission, has_answered: false, outcome, spent: None })
    }
}

impl CallPermit<'_> {
    /// Notes a piece of the answer. Returns whether that may have closed the circuit breaker.
    pub(in crate::llm) fn answered(&mut self) -> bool {
        let is_news = self.admission.is_probe && !std::mem::replace(&mut self.has_answered, true);
        if is_news {
            self.limiter.lock().note_answer(self.admission);
        }
        is_news
    }

    /// Notes the call's usage so far.
    pub(in crate::llm) fn report_usage(&mut self, usage: Usage) {
        self.spent = Some(usage);
    }

    /// Notes the result of the call.
    pub(in crate::llm) fn finish(&mut self, result: Result<(), &ProviderFailure>) {
        self.outcome = match result.map_err(|failure| &failure.error) {
            Err(ModelError::RateLimited { retry_after_ms, .. }) => {
                ProviderCallOutcome::RateLimited(*retry_after_ms)
            }
            Err(ModelError::Unavailable { .. }) => ProviderCallOutcome::Failed,
            Err(ModelError::Stopped | ModelError::NotFound(_) | ModelError::Busy { .. }) => {
                ProviderCallOutcome::Unknown
            }
            Ok(())
            | Err(
                ModelError::Refused(_)
                | ModelError::Filtered(_)
                | ModelError::Denied(_)
                | ModelError::UnknownModel(_)
                | ModelError::ContextTooLong(_)
                | ModelError::TooLarge(_),
            ) => ProviderCallOutcome::Answered,
        };
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        let now_ms = self.cancel.clock().monotonic_ms();
        state.release(now_ms, self.admission, self.outcome, self.spent);
        drop(state);
        if let ProviderCallOutcome::RateLimited(Some(pause_ms)) = self.outcome {
            self.limiter.tell_pause(pause_ms.min(MAX_PAUSE_MS));
        }
    }
}
