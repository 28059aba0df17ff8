//! A call before a gate: it tries, waits, tries again, and goes in or away. Owns the words for those who go; its place in
//! the line is given up on every way out.

use super::Gate;
use super::turnstile::{Admission, Obstacle, Verdict};
use crate::ports::{CancelToken, ModelError, ModelRequest};
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::time::Duration;

/// Between two tries of the first in the line.
const FIRST_SLICE: Duration = Duration::from_millis(10);
/// Between two tries of the others, who have to notice when the line moves up.
const SLICE: Duration = Duration::from_millis(50);
/// Bytes of a request that are taken for a token.
const TOKEN_BYTES: usize = 4;
/// The most that an answer counts for before it is there, tokens.
const ANSWER_TOKENS: u32 = 1_000;

/// One call's wait.
pub(super) struct Visit<'a> {
    gate: &'a Gate,
    request: &'a ModelRequest,
    cancel: &'a CancelToken,
    tokens: OnceCell<u64>,
    /// The cancel of the wait, once there is one.
    patience: Option<CancelToken>,
    ticket: Option<u64>,
}

impl<'a> Visit<'a> {
    /// A call that wants to begin.
    pub(super) fn new(gate: &'a Gate, request: &'a ModelRequest, cancel: &'a CancelToken) -> Self {
        Self { gate, request, cancel, tokens: OnceCell::new(), patience: None, ticket: None }
    }

    /// Waits until the call may begin, or says why it goes.
    pub(super) fn wait(mut self) -> Result<Admission, ModelError> {
        loop {
            match self.try_once()? {
                ControlFlow::Break(admission) => return Ok(admission),
                ControlFlow::Continue(pause) => self.cancel.sleep(pause),
            }
            if self.cancel.is_cancelled() {
                return Err(ModelError::Stopped);
            }
        }
    }

    /// One try: in, or the time until the next one.
    fn try_once(&mut self) -> Result<ControlFlow<Admission, Duration>, ModelError> {
        let tokens = || *self.tokens.get_or_init(|| estimate(self.request));
        let mut state = self.gate.lock();
        let now_ms = self.cancel.clock().monotonic_ms();
        let (obstacle, ready_in_ms, ahead) = match state.enter(now_ms, self.ticket, &tokens) {
            Verdict::Enter(admission) => {
                self.ticket = None;
                return Ok(ControlFlow::Break(admission));
            }
            Verdict::Down { failures, left_ms } => return Err(down(failures, left_ms)),
            Verdict::Wait { obstacle, ready_in_ms, ahead } => (obstacle, ready_in_ms, ahead),
        };
        let left = self.patience.get_or_insert_with(|| self.cancel.with_timeout(self.gate.wait)).remaining();
        let ready = Duration::from_millis(ready_in_ms);
        let is_one_too_many = ready.is_zero() && self.ticket.is_none() && state.is_crowded();
        if left.is_zero() || ready > left || is_one_too_many {
            let retry_after_ms = state.send_away(now_ms, self.ticket.take(), &tokens);
            let message = words(&self.request.model, obstacle, ready_in_ms);
            return Err(ModelError::Busy { message, retry_after_ms });
        }
        self.ticket.get_or_insert_with(|| state.queue());
        let slice = match ahead {
            _ if !ready.is_zero() => ready.min(SLICE),
            0 => FIRST_SLICE,
            _ => SLICE,
        };
        Ok(ControlFlow::Continue(left.min(slice)))
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.gate.lock().unqueue(ticket);
        }
    }
}

/// What the call may cost, tokens.
fn estimate(request: &ModelRequest) -> u64 {
    let said = request.messages.iter().fold(0_usize, |sum, message| sum.saturating_add(message.bytes()));
    let tools = request.tools.iter().fold(0_usize, |sum, tool| sum.saturating_add(tool.bytes()));
    let prompt = u64::try_from(said.saturating_add(tools).div_ceil(TOKEN_BYTES)).unwrap_or(u64::MAX);
    let answer = request.max_tokens.unwrap_or(ANSWER_TOKENS).min(ANSWER_TOKENS);
    prompt.saturating_add(u64::from(answer))
}

fn down(failures: u32, left_ms: u64) -> ModelError {
    let seconds = left_ms.div_ceil(1_000);
    ModelError::Unavailable {
        message: format!(
            "the model's provider has failed {failures} times in a row; it is asked again in {seconds} s"
        ),
        retry_after_ms: Some(left_ms),
    }
}

/// For clients: no URL, no key.
fn words(model: &str, obstacle: Obstacle, ready_in_ms: u64) -> String {
    let in_s = ready_in_ms.div_ceil(1_000);
    match obstacle {
        Obstacle::Closed => {
            format!("the provider of model '{model}' asked for a pause; {in_s} s of it are left")
        }
        Obstacle::Requests(bound) => {
            format!(
                "the provider of model '{model}' has had its {bound} calls a minute; the next in {in_s} s"
            )
        }
        Obstacle::Tokens(bound) => {
            format!("the provider of model '{model}' has had its {bound} tokens a minute; more in {in_s} s")
        }
        Obstacle::Probing => {
            format!("the provider of model '{model}' has failed and is being tried again by another job")
        }
        Obstacle::Seats(bound) => {
            format!("the provider of model '{model}' has as many calls as it may have at once: {bound}")
        }
        Obstacle::Line => format!("other jobs wait for the provider of model '{model}'"),
    }
}
