//! Follows a job's events to the end, across disconnects and restarts of the server: it reconnects with the
//! number of the last event.

use crate::cli::client::retry::Outage;
use crate::cli::client::{ApiClient, EventStreamError};
use crate::cli::error::CliError;
use crate::llm::sse;
use crate::ports::{CancelToken, Clock};
use serde_json::Value;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Longest event that is read, bytes.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientEvent {
    /// Number of the event within the job.
    pub(crate) seq: u64,
    /// `status`, `process_step`, `step_discarded`, `done`, `error`, …
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl ClientEvent {
    /// Whether the job has ended; only a retry continues after this event.
    pub(crate) fn is_terminal(&self) -> bool {
        self.name == "done" || self.name == "error"
    }
}

/// What a follower has to show.
pub(crate) enum Update<'a> {
    Event(&'a ClientEvent),
    /// The connection was lost, or is there again.
    Notice(&'a str),
}

/// Shows an update; breaks to stop following.
pub(crate) type ShowUpdate<'a> = dyn FnMut(&Update<'_>) -> Result<ControlFlow<()>, CliError> + 'a;

pub(crate) struct EventFollower<'a> {
    pub(crate) client: &'a ApiClient,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) job: &'a str,
    /// The last event that has been shown.
    pub(crate) after: u64,
    /// Whether the server has responded before: only then is an unreachable server retried.
    pub(crate) is_known: bool,
}

impl EventFollower<'_> {
    /// Passes each event once and in order to `show`, until the job ends or `show` breaks.
    pub(crate) fn run(mut self, show: &mut ShowUpdate<'_>) -> Result<(), CliError> {
        let (mut outage, never) = (Outage::default(), CancelToken::new(Arc::clone(self.clock)));
        loop {
            let previous_seq = self.after;
            let disconnect_reason = match self.client.events(self.job, self.after) {
                Ok(None) => return Ok(()),
                Ok(Some(mut body)) => {
                    if outage.is_active() {
                        notice(show, &format!("resumed after event {}", self.after))?;
                    }
                    self.is_known = true;
                    if self.read(&mut body, show)?.is_break() {
                        return Ok(());
                    }
                    "the stream broke off".to_owned()
                }
                Err(EventStreamError::Refused(error)) => return Err(error),
                // Without any response so far, the address is probably wrong: no retry.
                Err(EventStreamError::Unreachable(reason)) if !self.is_known => {
                    return Err(self.client.unreachable(&reason));
                }
                Err(EventStreamError::Unreachable(reason)) => reason,
                Err(EventStreamError::Busy(reason)) => {
                    self.is_known = true;
                    reason
                }
            };
            let after = self.after;
            if after > previous_seq {
                outage = Outage::default();
            }
            if !outage.is_active() {
                let disconnect_reason = format!(
                    "connection lost after event {after} ({disconnect_reason}); waiting for the server"
                );
                notice(show, &disconnect_reason)?;
            }
            if !outage.pause(&never) {
                let job = self.job;
                return Err(CliError::failed("the server did not come back").hint(format!(
                    "the job continues there; see it with: nanoclaw tail {job} --after {after}"
                )));
            }
        }
    }

    fn read(&mut self, body: &mut dyn Read, show: &mut ShowUpdate<'_>) -> Result<ControlFlow<()>, CliError> {
        let mut parser = sse::SseParser::new(MAX_EVENT_BYTES);
        let mut buffer = [0_u8; 8192];
        // A retried job continues after its end, so the end of the stream decides.
        let mut has_ended = false;
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) if has_ended => return Ok(ControlFlow::Break(())),
                Ok(0) | Err(_) => return Ok(ControlFlow::Continue(())),
                Ok(count) => count,
            };
            let mut bytes = buffer.get(..count).unwrap_or_default();
            let malformed = |e| {
                CliError::failed(format!("the event stream is malformed: {e}"))
                    .hint("does a proxy in between change the stream? see: nanoclaw doctor")
            };
            while let Some(event) = parser.next_event(&mut bytes).map_err(malformed)? {
                let Some(event) = read_event(&event) else { continue };
                self.after = event.seq;
                has_ended = event.is_terminal();
                if show(&Update::Event(&event))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
}

/// Shows a notice. It does not stop the follower.
fn notice(show: &mut ShowUpdate<'_>, text: &str) -> Result<(), CliError> {
    show(&Update::Notice(text)).map(drop)
}

fn read_event(event: &sse::SseEvent) -> Option<ClientEvent> {
    let seq = event.id.as_deref()?.parse().ok()?;
    let data = serde_json::from_str(&event.data).ok()?;
    Some(ClientEvent { seq, name: event.name.clone(), data })
}
