//! Repeats a request while the server is unavailable, with backoff, for up to ten minutes.

use super::response::{RequestError, refusal};
use crate::cli::error::CliError;
use crate::ports::{CancelToken, Clock};
use std::time::Duration;

/// How long an unavailable server is retried: longer than a machine takes to restart.
pub(crate) const GIVE_UP_AFTER_MS: u64 = 600_000;

/// Pause before the second try. Each further one is twice as long, up to the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) fn next_pause(pause: Duration) -> Duration {
    pause.saturating_mul(2).min(LONGEST_PAUSE)
}

/// Why a request failed for good.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetryError {
    /// Ctrl-C was pressed.
    #[error("interrupted")]
    Interrupted,
    /// The server refused the request.
    #[error("the server refused ({status}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// The server did not come back.
    #[error("the server did not come back: {reason}")]
    Unavailable {
        /// What the last try said.
        reason: String,
        /// What to do about it.
        hint: &'static str,
    },
}

impl From<RetryError> for CliError {
    fn from(error: RetryError) -> Self {
        let message = error.to_string();
        let failed = match error {
            RetryError::Refused { status, .. } => refusal(status, message),
            _ => Self::failed(message),
        };
        match error {
            RetryError::Unavailable { hint, .. } => failed.hint(hint),
            _ => failed,
        }
    }
}

pub(crate) struct RequestRetry<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Cancelled by Ctrl-C.
    pub(crate) stop: &'a CancelToken,
    /// Reports that the server is away or back.
    pub(crate) say: &'a dyn Fn(&str),
    /// Advice for a server that does not come back.
    pub(crate) hint: &'static str,
}

impl RequestRetry<'_> {
    /// The result of the first try that reaches the server.
    pub(crate) fn run<T>(
        &self,
        attempt: &mut dyn FnMut() -> Result<T, RequestError>,
    ) -> Result<T, RetryError> {
        let (mut unavailable_since_ms, mut pause) = (None, FIRST_PAUSE);
        loop {
            if self.stop.reason().is_some() {
                return Err(RetryError::Interrupted);
            }
            let reason = match attempt() {
                Ok(answer) => {
                    if unavailable_since_ms.is_some() {
                        (self.say)("the server is back");
                    }
                    return Ok(answer);
                }
                Err(RequestError::Refused { status, message }) => {
                    return Err(RetryError::Refused { status, message });
                }
                Err(RequestError::Unavailable(reason)) => reason,
            };
            let now_ms = self.clock.monotonic_ms();
            if unavailable_since_ms.is_none() {
                (self.say)(&format!("the server is away ({reason}); waiting for it"));
            }
            if now_ms.saturating_sub(*unavailable_since_ms.get_or_insert(now_ms)) > GIVE_UP_AFTER_MS {
                return Err(RetryError::Unavailable { reason, hint: self.hint });
            }
            self.clock.sleep(self.stop, pause);
            pause = next_pause(pause);
        }
    }
}
