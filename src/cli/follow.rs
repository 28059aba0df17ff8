//! Follows a job's events to their end, across disconnects and restarts of the server: whatever comes after the last
//! event that was shown is asked for again. Owns the cursor; refuses to render.

use super::client::{Client, StreamError};
use super::error::CliError;
use super::terminal::Terminal;
use crate::llm::sse;
use crate::ports::{Clock, StopFlag};
use serde_json::Value;
use std::io::Read;
use std::time::Duration;

/// How long a vanished server is waited for.
const PATIENCE_MS: u64 = 120_000;

/// Longest event that is read, bytes.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// Pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

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
    clock: &'a dyn Clock,
    terminal: &'a Terminal,
    job: &'a str,
    after: u64,
}

impl<'a> Follow<'a> {
    /// Events of `job` after the cursor.
    pub(super) fn new(
        client: &'a Client,
        clock: &'a dyn Clock,
        terminal: &'a Terminal,
        job: &'a str,
        after: u64,
    ) -> Self {
        Self { client, clock, terminal, job, after }
    }

    /// Shows each event once, in order, until the terminal one or until `show` has enough.
    pub(super) fn run(
        mut self,
        show: &mut dyn FnMut(&ClientEvent) -> Result<Go, CliError>,
    ) -> Result<(), CliError> {
        let mut lost_since_ms = None;
        let mut has_connected = self.after > 0;
        loop {
            match self.client.events(self.job, self.after) {
                Ok(None) => return Ok(()),
                Ok(Some(mut body)) => {
                    has_connected = true;
                    lost_since_ms = None;
                    if self.read(&mut body, show)? == Go::Stop {
                        return Ok(());
                    }
                    self.terminal
                        .say(&format!("connection lost after event {}; waiting for the server", self.after));
                }
                Err(StreamError::Refused(error)) => return Err(error),
                // Nobody has ever answered: a wrong address more likely than a restart.
                Err(StreamError::Unreachable(reason)) if !has_connected => {
                    return Err(CliError::failed(format!("cannot reach the server: {reason}"))
                        .hint("start one with 'nanoclaw serve', or name another with --server"));
                }
                Err(StreamError::Unreachable(_)) => {}
            }
            let now_ms = self.clock.monotonic_ms();
            if now_ms.saturating_sub(*lost_since_ms.get_or_insert(now_ms)) > PATIENCE_MS {
                return Err(CliError::failed("the server did not come back").hint(format!(
                    "the job goes on there; see it with: nanoclaw tail {} --after {}",
                    self.job, self.after
                )));
            }
            self.clock.pause(&StopFlag::default(), RETRY_PAUSE);
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
            let malformed = |e| CliError::failed(format!("the event stream is malformed: {e}"));
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
