//! Model calls outside the steps of a job: summaries and titles. Their usage counts for the job.

use super::Driver;
use super::reply::PartialReply;
use crate::domain::event::EngineMark;
use crate::domain::tokens::TokenEstimator;
use crate::domain::usage::Usage;
use crate::ports::{Chunk, LeaseError, ModelError, ModelRequest};
use std::ops::ControlFlow;
use std::time::Duration;

impl Driver<'_> {
    /// Calls a model and returns its text, which is never empty. The call ends after `timeout` or after more
    /// than `max_bytes`; its cost goes to the log.
    pub(super) fn call_for_text(
        &mut self,
        request: &ModelRequest,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<Result<String, ModelError>, LeaseError> {
        let (mut text, mut reply) = (String::new(), PartialReply::default());
        let cancel = self.cancel.with_timeout(timeout);
        self.progress.call_model(&request.model);
        let outcome = self.ports.model.ask(request, &cancel, &mut |chunk| {
            match chunk {
                Chunk::Text(piece) => {
                    text.push_str(piece);
                    reply.text.push_str(piece);
                }
                Chunk::Thinking(piece) => reply.text.push_str(piece),
                Chunk::TextWasThinking => text.clear(),
                Chunk::Spent(usage) => reply.report(usage),
                Chunk::Call { .. } | Chunk::CaughtUp => {}
            }
            if text.len() > max_bytes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.progress.wait_for_store();
        if let Err(error) = &outcome {
            tracing::info!(job = %self.lease.job.id, reason = error_kind(error), "summary or title failed");
        }
        if reply.usage.is_some() || !reply.text.is_empty() || outcome.is_ok() {
            let usage = reply.usage.unwrap_or_else(|| self.estimate_call(request, &text));
            self.append(vec![EngineMark::spent(&request.model, usage).into()])?;
        }
        let is_full = text.len() > max_bytes;
        let text = text.trim().to_owned();
        Ok(match outcome {
            Err(ModelError::Stopped) if is_full => Ok(text),
            Ok(_) if text.is_empty() => Err(ModelError::Refused("the answer is empty".to_owned())),
            Ok(_) => Ok(text),
            Err(error) => Err(error),
        })
    }

    fn estimate_call(&self, request: &ModelRequest, text: &str) -> Usage {
        let estimator = TokenEstimator::of_model(&request.model);
        Usage::new(estimator.messages(&request.messages), estimator.text(text))
            .priced(self.price_of(&request.model))
    }
}

/// The error without the provider's text, which may quote a prompt: prompts are never logged (P9).
fn error_kind(error: &ModelError) -> &'static str {
    match error {
        ModelError::NotFound(_) => "unknown model",
        ModelError::TooLarge(_) => "answer too large",
        ModelError::Denied(_) => "provider denied access",
        ModelError::ContextTooLong(_) => "prompt too long",
        ModelError::Refused(_) => "provider refused the request",
        ModelError::Stopped => "stopped",
        ModelError::Filtered(_) => "provider filtered the content",
        ModelError::UnknownModel(_) => "model unknown to the provider",
        ModelError::Busy { .. } | ModelError::RateLimited { .. } => "provider rate-limited",
        ModelError::Unavailable { .. } => "provider unavailable",
    }
}
