//! A call that waits for its permit. However the wait ends, it leaves the queue or keeps its place for later.

use super::call_queue::QueueTicket;
use super::limiter::{Admission, LimiterDecision, WaitReason};
use super::registry::ProviderLimiter;
use crate::ports::{CancelToken, ModelError, ModelRequest};
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::time::Duration;

/// Time between two tries of the first call in the queue.
const FIRST_SLICE: Duration = Duration::from_millis(10);
/// Time between two tries of the others, which have to notice when they become the first.
const SLICE: Duration = Duration::from_millis(50);
/// Estimated bytes of a token.
const TOKEN_BYTES: usize = 4;
/// The most tokens that are reserved for an answer.
const ANSWER_TOKENS: u32 = 1_000;

/// One call's wait.
pub(super) struct Waiter<'a> {
    limiter: &'a ProviderLimiter,
    request: &'a ModelRequest,
    cancel: &'a CancelToken,
    tokens: OnceCell<u64>,
    /// The token with the deadline of the wait, once it has begun.
    wait: Option<CancelToken>,
    ticket: Option<QueueTicket>,
}

impl<'a> Waiter<'a> {
    /// A call that has not waited yet.
    pub(super) fn new(
        limiter: &'a ProviderLimiter,
        request: &'a ModelRequest,
        cancel: &'a CancelToken,
    ) -> Self {
        Self { limiter, request, cancel, tokens: OnceCell::new(), wait: None, ticket: None }
    }

    /// Waits until the call is admitted or deferred.
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

    /// One try: the admission, or the time until the next try.
    pub(super) fn try_once(&mut self) -> Result<ControlFlow<Admission, Duration>, ModelError> {
        let tokens = || *self.tokens.get_or_init(|| estimate(self.request));
        let now_ms = self.cancel.clock().monotonic_ms();
        let mut state = self.limiter.lock_at(now_ms);
        let ticket = *self.ticket.get_or_insert_with(|| state.join_queue(self.request.caller, now_ms));
        let (reason, ready_in_ms, ahead) = match state.try_admit(now_ms, ticket, &tokens) {
            LimiterDecision::Admit(admission) => {
                self.ticket = None;
                return Ok(ControlFlow::Break(admission));
            }
            LimiterDecision::CircuitOpen { failures, left_ms } => {
                return Err(circuit_open(failures, left_ms));
            }
            LimiterDecision::Wait { reason, ready_in_ms, ahead } => (reason, ready_in_ms, ahead),
        };
        let left =
            self.wait.get_or_insert_with(|| self.cancel.with_timeout(self.limiter.max_wait)).remaining();
        let ready = Duration::from_millis(ready_in_ms);
        let is_full = ready.is_zero() && !state.may_wait(now_ms, ticket);
        if left.is_zero() || ready > left || is_full {
            self.ticket = None;
            let retry_after_ms = state.defer(now_ms, ticket, &tokens);
            let message = describe(&self.request.model, reason, ready_in_ms);
            return Err(ModelError::Busy { message, retry_after_ms });
        }
        let slice = match ahead {
            _ if !ready.is_zero() => ready.min(SLICE),
            0 => FIRST_SLICE,
            _ => SLICE,
        };
        Ok(ControlFlow::Continue(left.min(slice)))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.limiter.lock().leave_queue(ticket);
        }
    }
}

/// Tokens that the call may cost.
fn estimate(request: &ModelRequest) -> u64 {
    let content = request.messages.iter().fold(0_usize, |sum, message| sum.saturating_add(message.bytes()));
    let tools = request.tools.iter().fold(0_usize, |sum, tool| sum.saturating_add(tool.bytes()));
    let prompt = u64::try_from(content.saturating_add(tools).div_ceil(TOKEN_BYTES)).unwrap_or(u64::MAX);
    let answer = request.max_tokens.unwrap_or(ANSWER_TOKENS).min(ANSWER_TOKENS);
    prompt.saturating_add(u64::from(answer))
}

fn circuit_open(failures: u32, left_ms: u64) -> ModelError {
    let seconds = left_ms.div_ceil(1_000);
    ModelError::Unavailable {
        message: format!(
            "the model's provider has failed {failures} times in a row; it is asked again in {seconds} s"
        ),
        retry_after_ms: Some(left_ms),
    }
}

/// The message for clients, without URL and key.
fn describe(model: &str, reason: WaitReason, ready_in_ms: u64) -> String {
    let in_s = ready_in_ms.div_ceil(1_000);
    match reason {
        WaitReason::ProviderPause => {
            format!("the provider of model '{model}' asked for a pause; {in_s} s of it are left")
        }
        WaitReason::Requests(bound) => {
            format!(
                "the provider of model '{model}' has had its {bound} calls a minute; the next in {in_s} s"
            )
        }
        WaitReason::Tokens(bound) => {
            format!("the provider of model '{model}' has had its {bound} tokens a minute; more in {in_s} s")
        }
        WaitReason::Probing => {
            format!("the provider of model '{model}' has failed and is being tried again by another job")
        }
        WaitReason::Concurrency(bound) => {
            format!("the provider of model '{model}' has as many calls as it may have at once: {bound}")
        }
        WaitReason::Queue => format!("other jobs wait for the provider of model '{model}'"),
    }
}
