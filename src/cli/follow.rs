//! Follows a job's events to their end, across disconnects and restarts of the server: whatever comes after the last
//! event that was shown is asked for again. Owns the cursor; refuses to render.

use super::client::{Client, StreamError};
use super::error::CliError;
use super::patience::{FIRST_PAUSE, PATIENCE_MS, longer};
use super::terminal::Terminal;
use crate::llm::sse;
use crate::ports::{CancelToken, Clock};
use serde_json::Value;
use std::io::Read;
use std::sync::Arc;

/// Longest event that is read, bytes.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// An event as a client knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientEvent {
    /// Its number within the job.
    pub(super) seq: u64,
    /// `status`, `process_step`, `step_discarded`, `done`, `error`.
    pub(super) name: String,
    /// Its payload.
    pub(super) data: Value,
}

impl ClientEvent {
    /// Whether it is an end of the job; only a retry goes on behind one.
    pub(super) fn is_terminal(&self) -> bool {
        self.name == "done" || self.name == "error"
    }
}

/// What the caller wants after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    /// The next one.
    On,
    /// No more.
    Stop,
}

/// A job being followed.
pub(super) struct Follow<'a> {
    client: &'a Client,
    clock: &'a Arc<dyn Clock>,
    terminal: &'a Terminal,
    job: &'a str,
    after: u64,
    /// Whether the server has answered before: if it is away now, it is waited for.
    is_known: bool,
}

impl<'a> Follow<'a> {
    /// Events of `job` after the cursor.
    pub(super) fn new(
        client: &'a Client,
        clock: &'a Arc<dyn Clock>,
        terminal: &'a Terminal,
        job: &'a str,
        after: u64,
    ) -> Self {
        Self { client, clock, terminal, job, after, is_known: after > 0 }
    }

    /// The server has answered before.
    pub(super) fn known(self) -> Self {
        Self { is_known: true, ..self }
    }

    /// Shows each event once, in order, until the terminal one or until `show` has enough.
    pub(super) fn run(
        mut self,
        show: &mut dyn FnMut(&ClientEvent) -> Result<Go, CliError>,
    ) -> Result<(), CliError> {
        let (mut lost_since_ms, mut pause) = (None, FIRST_PAUSE);
        loop {
            let seen = self.after;
            let lost = match self.client.events(self.job, self.after) {
                Ok(None) => return Ok(()),
                Ok(Some(mut body)) => {
                    if lost_since_ms.is_some() {
                        self.terminal.say(&format!("resumed after event {}", self.after));
                    }
                    self.is_known = true;
                    if self.read(&mut body, show)? == Go::Stop {
                        return Ok(());
                    }
                    "the stream broke off".to_owned()
                }
                Err(StreamError::Refused(error)) => return Err(error),
                // Nobody has ever answered: a wrong address more likely than a restart.
                Err(StreamError::Unreachable(reason)) if !self.is_known => {
                    return Err(self.client.unreachable(&reason));
                }
                Err(StreamError::Unreachable(reason)) => reason,
                Err(StreamError::Busy(reason)) => {
                    self.is_known = true;
                    reason
                }
            };
            if self.after > seen {
                (lost_since_ms, pause) = (None, FIRST_PAUSE);
            }
            let now_ms = self.clock.monotonic_ms();
            if lost_since_ms.is_none() {
                let after = self.after;
                self.terminal
                    .say(&format!("connection lost after event {after} ({lost}); waiting for the server"));
            }
            if now_ms.saturating_sub(*lost_since_ms.get_or_insert(now_ms)) > PATIENCE_MS {
                return Err(CliError::failed("the server did not come back").hint(format!(
                    "the job goes on there; see it with: nanoclaw tail {} --after {}",
                    self.job, self.after
                )));
            }
            self.clock.sleep(&CancelToken::new(Arc::clone(self.clock)), pause);
            pause = longer(pause);
        }
    }

    fn read(
        &mut self,
        body: &mut dyn Read,
        show: &mut dyn FnMut(&ClientEvent) -> Result<Go, CliError>,
    ) -> Result<Go, CliError> {
        let mut parser = sse::Parser::new(MAX_EVENT_BYTES);
        let mut buffer = [0_u8; 8192];
        // An end may be followed by more: the job was retried. The stream's own end tells.
        let mut has_ended = false;
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) if has_ended => return Ok(Go::Stop),
                Ok(0) | Err(_) => return Ok(Go::On),
                Ok(count) => count,
            };
            let mut bytes = buffer.get(..count).unwrap_or_default();
            let malformed = |e| {
                CliError::failed(format!("the event stream is malformed: {e}"))
                    .hint("is there a proxy in between that changes what passes? look: nanoclaw doctor")
            };
            while let Some(event) = parser.next_event(&mut bytes).map_err(malformed)? {
                let Some(event) = read_event(&event) else { continue };
                self.after = event.seq;
                has_ended = event.is_terminal();
                if show(&event)? == Go::Stop {
                    return Ok(Go::Stop);
                }
            }
        }
    }
}

fn read_event(event: &sse::Event) -> Option<ClientEvent> {
    let seq = event.id.as_deref()?.parse().ok()?;
    let data = serde_json::from_str(&event.data).ok()?;
    Some(ClientEvent { seq, name: event.name.clone(), data })
}
