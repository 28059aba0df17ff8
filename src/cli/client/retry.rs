//! Repeats a request while the server is unavailable, with backoff, for up to ten minutes.

use super::response::{RequestError, refusal};
use crate::cli::error::CliError;
use crate::ports::CancelToken;
use std::time::Duration;

/// How long an unavailable server is retried: longer than a machine takes to restart.
const GIVE_UP_AFTER_MS: u64 = 600_000;

/// Pause before the second try. Each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The time since the server became unavailable, and the pauses between tries.
#[derive(Default)]
pub(crate) struct Outage {
    since_ms: Option<u64>,
    pauses: u32,
}

impl Outage {
    pub(crate) fn is_active(&self) -> bool {
        self.since_ms.is_some()
    }

    /// Sleeps until the next try, or until `stop` is cancelled. False if the server has been away too long.
    pub(crate) fn pause(&mut self, stop: &CancelToken) -> bool {
        let now_ms = stop.clock().monotonic_ms();
        if now_ms.saturating_sub(*self.since_ms.get_or_insert(now_ms)) > GIVE_UP_AFTER_MS {
            return false;
        }
        stop.sleep(FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.pauses)).min(LONGEST_PAUSE));
        self.pauses += 1;
        true
    }
}

/// Why a request failed for good.
pub(crate) enum RetryError {
    /// The server refused the request, with this HTTP status and message.
    Refused(u16, String),
    /// The server did not come back, or Ctrl-C was pressed.
    Failed(CliError),
}

impl From<RetryError> for CliError {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::Refused(status, message) => {
                refusal(status, format!("the server refused ({status}): {message}"))
            }
            RetryError::Failed(error) => error,
        }
    }
}

pub(crate) struct RequestRetry<'a> {
    /// Cancelled by Ctrl-C.
    pub(crate) stop: &'a CancelToken,
    /// Reports that the server is away or back.
    pub(crate) report: Box<dyn Fn(&str) + 'a>,
    /// Advice for a server that does not come back.
    pub(crate) hint: &'static str,
}

impl RequestRetry<'_> {
    /// The result of the first try that reaches the server.
    pub(crate) fn run<T>(
        &self,
        attempt: &mut dyn FnMut() -> Result<T, RequestError>,
    ) -> Result<T, RetryError> {
        let mut outage = Outage::default();
        loop {
            if self.stop.reason().is_some() {
                return Err(RetryError::Failed(CliError::failed("interrupted")));
            }
            let reason = match attempt() {
                Ok(result) => {
                    if outage.is_active() {
                        (self.report)("the server is back");
                    }
                    return Ok(result);
                }
                Err(RequestError::Refused(status, message)) => {
                    return Err(RetryError::Refused(status, message));
                }
                Err(RequestError::Unavailable(reason)) => reason,
            };
            if !outage.is_active() {
                (self.report)(&format!("the server is away ({reason}); waiting for it"));
            }
            if !outage.pause(self.stop) {
                let message = format!("the server did not come back: {reason}");
                return Err(RetryError::Failed(CliError::failed(message).hint(self.hint)));
            }
        }
    }
}
