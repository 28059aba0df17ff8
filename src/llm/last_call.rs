//! How the last call of a model ended, for its health.

use crate::ports::ModelError;
use std::sync::{Mutex, PoisonError};

/// The end of the last call that says something about the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum LastCallEnd {
    /// No call has ended.
    #[default]
    None,
    /// The model answered, possibly with a refusal of that request.
    Answered,
    /// The call failed: the cause, without the provider's own words.
    Failed(String),
}

impl LastCallEnd {
    /// The cause of a failure.
    pub(super) fn into_cause(self) -> Option<String> {
        match self {
            Self::Failed(cause) => Some(cause),
            Self::None | Self::Answered => None,
        }
    }
}

/// The end of a model's last call.
#[derive(Debug, Default)]
pub(super) struct LastCall(Mutex<LastCallEnd>);

impl LastCall {
    /// Notes the end of a call. Errors of a single request say nothing about the model.
    pub(super) fn note(&self, result: Result<(), &ModelError>) {
        let end = match result {
            Ok(())
            | Err(
                ModelError::Refused(_)
                | ModelError::Filtered(_)
                | ModelError::ContextTooLong(_)
                | ModelError::TooLarge(_),
            ) => LastCallEnd::Answered,
            Err(ModelError::Stopped | ModelError::NotFound(_) | ModelError::Busy { .. }) => return,
            Err(
                error @ (ModelError::Denied(_)
                | ModelError::UnknownModel(_)
                | ModelError::RateLimited { .. }
                | ModelError::Unavailable { .. }),
            ) => LastCallEnd::Failed(error.cause()),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// The last end.
    pub(super) fn end(&self) -> LastCallEnd {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_that_say_something_about_the_model_change_its_last_call() {
        let last = LastCall::default();
        let denied = ModelError::Denied("the key is wrong: sk-prompt".to_owned());
        let busy = ModelError::Busy { message: String::new(), retry_after_ms: 1 };
        let failed = || LastCallEnd::Failed("the key is wrong".to_owned());
        for (result, expected) in [
            (Err(&ModelError::Stopped), LastCallEnd::None),
            (Err(&denied), failed()),
            (Err(&busy), failed()),
            (Err(&ModelError::Refused("this prompt".to_owned())), LastCallEnd::Answered),
            (Err(&denied), failed()),
            (Ok(()), LastCallEnd::Answered),
        ] {
            last.note(result);
            assert_eq!(last.end(), expected, "{result:?}");
        }
    }
}
