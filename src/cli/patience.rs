//! Asking again. Owns how long a server that is away is waited for, and the words about it; refuses to know what is asked.

use super::client::{Trouble, refusal};
use super::error::CliError;
use crate::ports::{CancelToken, Clock};
use std::time::Duration;

/// How long a vanished server is waited for: longer than a machine takes to start anew.
pub(super) const PATIENCE_MS: u64 = 600_000;

/// Pause before the second try; each further one is twice as long, up to the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The pause after this one.
pub(super) fn longer(pause: Duration) -> Duration {
    pause.saturating_mul(2).min(LONGEST_PAUSE)
}

/// Why there is no answer after all.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The user has had enough.
    #[error("interrupted")]
    Interrupted,
    /// The server said no.
    #[error("the server refused ({status}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// It did not come back.
    #[error("the server did not come back: {reason}")]
    Gone {
        /// What the last try said.
        reason: String,
        /// What to do about it.
        hint: &'static str,
    },
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        let said = error.to_string();
        let failed = match error {
            Error::Refused { status, .. } => refusal(status, said),
            _ => Self::failed(said),
        };
        match error {
            Error::Gone { hint, .. } => failed.hint(hint),
            _ => failed,
        }
    }
}

/// Asks until there is an answer.
pub(super) struct Patience<'a> {
    /// Counts the time.
    pub(super) clock: &'a dyn Clock,
    /// Raised when the user has had enough.
    pub(super) stop: &'a CancelToken,
    /// Hears what is waited for.
    pub(super) say: &'a dyn Fn(&str),
    /// What to do when it does not come back.
    pub(super) hint: &'static str,
}

impl Patience<'_> {
    /// The answer of the first try that reaches the server.
    pub(super) fn ask<T>(&self, attempt: &mut dyn FnMut() -> Result<T, Trouble>) -> Result<T, Error> {
        let (mut lost_since_ms, mut pause) = (None, FIRST_PAUSE);
        loop {
            if self.stop.reason().is_some() {
                return Err(Error::Interrupted);
            }
            let reason = match attempt() {
                Ok(answer) => {
                    if lost_since_ms.is_some() {
                        (self.say)("the server is back");
                    }
                    return Ok(answer);
                }
                Err(Trouble::Refused { status, message }) => return Err(Error::Refused { status, message }),
                Err(Trouble::Away(reason)) => reason,
            };
            let now_ms = self.clock.monotonic_ms();
            if lost_since_ms.is_none() {
                (self.say)(&format!("the server is away ({reason}); waiting for it"));
            }
            if now_ms.saturating_sub(*lost_since_ms.get_or_insert(now_ms)) > PATIENCE_MS {
                return Err(Error::Gone { reason, hint: self.hint });
            }
            self.clock.sleep(self.stop, pause);
            pause = longer(pause);
        }
    }
}
