//! Calls the model: prepares the request, streams the answer into the log, records failures and waits between
//! retries. `turn` decides what a failure means for the job.

use super::prompt::{FinalInstruction, PromptBudget};
use super::reply::PartialReply;
use super::summary::ShortenOutcome;
use super::{DriveOutcome, Driver};
use crate::domain::call_times::CallTimes;
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase, StepKind};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::engine::turn::{CallPiece, NextStep};
use crate::ports::{CancelReason, Chunk, Completion, LeaseError, ModelError, Ticket, Urgency};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// The longest wait that keeps the worker; for a longer one the job goes back to the queue.
const MAX_WAIT_IN_PLACE_MS: u64 = 30_000;

/// For a longer wait than this, a fallback model is called instead where there is one.
const FALLBACK_AFTER_MS: u64 = 2_000;

/// Tokens of the prompt that are kept free for a summary.
const SUMMARY_RESERVE: u64 = 400;

/// How often a waiting driver checks whether the server drains.
const DRAIN_POLL: Duration = Duration::from_millis(50);

/// The end of a streamed answer, and its pieces that are not written yet.
type StreamedAnswer = (Result<Completion, ModelError>, Vec<Record>);

impl Driver<'_> {
    /// Makes one call. Returns `Some` when the run has ended with it.
    pub(super) fn call_model(
        &mut self,
        closing: Option<FinishReason>,
        continues: bool,
        failures: u32,
    ) -> Result<Option<DriveOutcome>, LeaseError> {
        self.record_instructions();
        if failures > 0
            && let ControlFlow::Break(drive) = self.back_off(failures)?
        {
            return Ok(drive);
        }
        let with_tools = closing.is_none();
        let instruction = FinalInstruction::of_call(closing, continues);
        self.offer_tools(with_tools);
        match self.shorten(instruction)? {
            ShortenOutcome::NotNeeded => {}
            ShortenOutcome::Shortened => return Ok(None),
            ShortenOutcome::Deferred(drive) => return Ok(Some(drive)),
        }
        self.request.messages = self.base.messages(&self.turn, instruction);
        self.request.max_tokens = self.remaining_tokens();
        let mut reply = PartialReply::default();
        let (outcome, unwritten) = self.stream(&mut reply)?;
        self.wait_for_instructions()?;
        let error = match outcome {
            Ok(completion) => return self.seal(unwritten, completion, with_tools, &reply),
            Err(error) => error,
        };
        if !unwritten.is_empty() {
            self.write(unwritten)?;
        }
        match error {
            ModelError::Stopped if self.cancel.is_cancelled() => self.bill(&reply)?,
            ModelError::Busy { message, retry_after_ms } => {
                let message = format!("{}: {message}", self.model_info().place());
                if retry_after_ms <= MAX_WAIT_IN_PLACE_MS || !self.turn.has_fallback(&self.models) {
                    return self.defer(message, retry_after_ms).map(Some);
                }
                let error = ModelError::Unavailable { message, retry_after_ms: Some(retry_after_ms) };
                self.record_named_failure(&error, &reply)?;
            }
            error => self.record_failure(error, &reply)?,
        }
        Ok(None)
    }

    /// Puts the job's tools into the request, also for a closing answer: earlier calls refer to them.
    fn offer_tools(&mut self, with_tools: bool) {
        self.request.may_call = with_tools;
        // Usually the same as before, so that providers can reuse the beginning of the prompt.
        let mut offered = self.ports.tools.offered(&self.scope());
        offered.retain(|tool| self.functions.iter().all(|function| function.name != tool.name));
        offered.extend(self.functions.iter().cloned());
        if self.turn.steps() > 1 {
            self.request.settings.call_mode = None;
        }
        if self.tool_tokens.is_none() || offered != self.request.tools {
            self.tool_tokens = Some(self.estimator.tools(&offered));
            self.request.tools = offered;
        }
    }

    /// The token limit of the next answer, less the tokens that a continued answer has used.
    fn remaining_tokens(&self) -> Option<u32> {
        let used_tokens = u32::try_from(self.turn.answer_tokens()).unwrap_or(u32::MAX);
        let limit_tokens = self.lease.spec.max_tokens?;
        Some(if self.turn.is_cut() { limit_tokens.saturating_sub(used_tokens).max(1) } else { limit_tokens })
    }

    /// The token budget of the next prompt; `None` while no limit is known.
    pub(super) fn prompt_budget(&self, prompt: u64) -> Option<PromptBudget> {
        let model = self.ports.model.model(&self.request.model).unwrap_or_default();
        let answer = self.request.max_tokens.into_iter().chain(model.max_output_tokens).min();
        let instructions = self.base.instruction_tokens(&self.estimator);
        let fixed =
            self.tool_tokens.unwrap_or(0).saturating_add(instructions).saturating_add(SUMMARY_RESERVE);
        let overflows = self.turn.overflows();
        match model.context_window {
            Some(window) => {
                let budget = PromptBudget::of_window(u64::from(window), answer.map(u64::from), fixed);
                Some(budget.after_overflows(overflows))
            }
            None if overflows > 0 => Some(PromptBudget { tokens: prompt, fixed }.after_overflows(overflows)),
            None => None,
        }
    }

    /// Streams one answer into the log. The first piece is committed at once, later ones in groups. Returns
    /// the pieces that arrived with the end of the answer, if no earlier one was written: they are applied,
    /// and the caller writes them together with the end. For a job in memory there are none: its readers
    /// need not wait for the commit of its end.
    fn stream(&mut self, reply: &mut PartialReply) -> Result<StreamedAnswer, LeaseError> {
        let (store, fence) = (&self.ports.store, self.lease.fence());
        let mut pending: VecDeque<Ticket<(), LeaseError>> = VecDeque::new();
        let mut unwritten: Vec<Record> = Vec::new();
        let mut write_error: Option<LeaseError> = None;
        let mut urgency = Urgency::Now;
        let (turn, progress) = (&mut self.turn, &self.progress);
        let (functions, may_call) = (&self.functions, self.request.may_call);
        let is_streamed = |name: &str| may_call && functions.iter().any(|function| function.name == name);
        progress.call_model(&self.request.model);
        let started_at_ms = self.ports.clock.now_ms();
        let outcome = self.ports.model.ask(&self.request, &self.cancel, &mut |chunk| {
            // Nothing may be written after a lost piece, even if the model ignores `Break`.
            if write_error.is_some() {
                return ControlFlow::Break(());
            }
            let records = match chunk {
                Chunk::Thinking(text) => reply.piece(turn, StepKind::Thinking, text),
                Chunk::Text(text) => reply.piece(turn, StepKind::Text, text),
                Chunk::TextWasThinking => turn.text_as_thinking(),
                Chunk::Call { place, name, offset, arguments } if is_streamed(name) => {
                    reply.call_piece(turn, CallPiece { place, name, offset, arguments })
                }
                Chunk::Call { .. } => Vec::new(),
                Chunk::Spent(usage) => {
                    reply.report(usage);
                    return ControlFlow::Continue(());
                }
                Chunk::CaughtUp if unwritten.is_empty() => return ControlFlow::Continue(()),
                Chunk::CaughtUp => {
                    let urgency = std::mem::replace(&mut urgency, Urgency::Soon);
                    pending.push_back(store.append(fence, std::mem::take(&mut unwritten), urgency));
                    write_error = poll_finished(&mut pending).err();
                    return if write_error.is_some() {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    };
                }
            };
            if !records.is_empty() {
                for record in &records {
                    turn.apply(record);
                }
                unwritten.extend(records);
                progress.log_grew();
            }
            ControlFlow::Continue(())
        });
        reply.times = Some(CallTimes { started_at_ms, ended_at_ms: self.ports.clock.now_ms() });
        progress.wait_for_store();
        if let Some(error) = write_error {
            return Err(error);
        }
        let shows_at_once = self.lease.is_in_memory && !unwritten.is_empty();
        if shows_at_once || !pending.is_empty() {
            // No piece follows that the last ones could share a commit with.
            pending.push_back(store.append(fence, std::mem::take(&mut unwritten), Urgency::Now));
        }
        // An answer is sealed only when all of its pieces are in the log.
        pending.into_iter().try_for_each(Ticket::wait)?;
        Ok((outcome, unwritten))
    }

    /// Seals the answer in the log, together with pieces of it that are not written yet. If the job ends with
    /// it, all is one commit. So it is if its calls only compute: they write it with their first result.
    fn seal(
        &mut self,
        unwritten: Vec<Record>,
        completion: Completion,
        with_tools: bool,
        reply: &PartialReply,
    ) -> Result<Option<DriveOutcome>, LeaseError> {
        let usage = if let Some(usage) = reply.usage {
            self.correct_estimator(usage);
            usage
        } else {
            let calls: String = completion.tool_calls.iter().map(|call| call.arguments.as_str()).collect();
            self.estimate(&format!("{}{calls}", reply.text))
        };
        let sealed = self.turn.seal(completion, with_tools, usage, &|name| self.is_handed(name));
        let sealed: Vec<_> = sealed.into_iter().map(|record| record.with_model_times(reply.times)).collect();
        self.apply(&sealed);
        let mut records = unwritten;
        records.extend(sealed);
        match self.next() {
            NextStep::Finish(reason) if !self.is_stopped() && !self.needs_title_call() => {
                self.succeed(records, reason).map(Some)
            }
            NextStep::RunTools(calls) if !self.is_stopped() && self.only_compute(&calls) => {
                self.run_tools(records, &calls).map(|()| None)
            }
            _ => self.write(records).map(|()| None),
        }
    }

    fn only_compute(&self, calls: &[ToolCall]) -> bool {
        calls.iter().all(|call| self.ports.tools.only_computes(&call.name))
    }

    /// Corrects the token estimates, which only matter for models with a known window.
    fn correct_estimator(&mut self, usage: Usage) {
        if self.window().is_some() {
            let estimated = self.estimator.messages(&self.request.messages);
            let fixed = if self.request.may_call { self.tool_tokens.unwrap_or(0) } else { 0 };
            self.estimator.correct(estimated.saturating_add(fixed), usage.prompt_tokens);
        }
    }

    /// Records the cost of an answer that was cancelled.
    fn bill(&mut self, reply: &PartialReply) -> Result<(), LeaseError> {
        if self.lease.cancel.reason() == Some(CancelReason::LeaseLost) {
            return Ok(());
        }
        match self.partial_cost(reply) {
            Some(usage) => self.append(vec![EngineMark::spent(&self.request.model, usage).into()]),
            None => Ok(()),
        }
    }

    /// The cost of an answer that broke off; `None` if nothing has arrived. Some providers report the tokens
    /// of the answer only at its end, so the text that has arrived is a lower bound.
    fn partial_cost(&self, reply: &PartialReply) -> Option<Usage> {
        let text = reply.partial_text();
        let Some(reported) = reply.usage else {
            return (!text.is_empty()).then(|| self.estimate(&text));
        };
        let arrived = self.estimator.text(&text);
        if reported.completion_tokens >= arrived {
            return Some(reported);
        }
        Some(Usage::new(reported.prompt_tokens, arrived).priced(self.price_of(&self.request.model)))
    }

    /// Logs a failed call and records it with the model and its host.
    pub(super) fn record_failure(
        &mut self,
        error: ModelError,
        reply: &PartialReply,
    ) -> Result<(), LeaseError> {
        let info = self.model_info();
        if let Some(held_back) = self.end_log_limit.enter(self.ports.clock.monotonic_ms()) {
            let (host, held_back) = (info.host.as_deref(), Some(held_back).filter(|count| *count > 0));
            tracing::warn!(model = info.id, host, cause = error.cause(), held_back, "model call failed");
        }
        self.record_named_failure(&error.at(&info), reply)
    }

    fn record_named_failure(&mut self, error: &ModelError, reply: &PartialReply) -> Result<(), LeaseError> {
        let message = error.to_string();
        let (code, retryable, elsewhere) = match error {
            ModelError::NotFound(_) | ModelError::UnknownModel(_) => {
                (FailureCode::ModelNotFound, false, true)
            }
            ModelError::TooLarge(_) => (FailureCode::OutputTooLarge, false, false),
            ModelError::Denied(_) => (FailureCode::ProviderError, false, true),
            ModelError::ContextTooLong(_) => (FailureCode::ContextTooLong, self.can_shorten(), true),
            ModelError::Refused(_) => (FailureCode::InvalidRequest, false, false),
            ModelError::Filtered(_) => (FailureCode::ContentFilter, false, false),
            ModelError::Stopped | ModelError::Busy { .. } => (FailureCode::ProviderError, false, false),
            ModelError::RateLimited { retry_after_ms, .. } => {
                (FailureCode::RateLimited, true, self.note_wait(*retry_after_ms))
            }
            ModelError::Unavailable { retry_after_ms, .. } => {
                (FailureCode::ProviderError, true, self.note_wait(*retry_after_ms))
            }
        };
        // A shorter prompt for the same model is tried before another model.
        let elsewhere = elsewhere && !(code == FailureCode::ContextTooLong && retryable);
        let usage = self.partial_cost(reply).unwrap_or_default();
        let (model, times) = (Some(self.request.model.clone()), reply.times);
        self.append(vec![
            EngineMark::ModelFailed { message, code, retryable, elsewhere, usage, model, times }.into(),
        ])
    }

    /// Notes the delay that the provider requested. Returns whether a fallback model is called instead.
    fn note_wait(&mut self, retry_after_ms: Option<u64>) -> bool {
        self.retry_after_ms = retry_after_ms;
        retry_after_ms.is_some_and(|wait_ms| wait_ms > FALLBACK_AFTER_MS)
    }

    /// Waits 1, 2, 4 … s plus jitter, or as long as the provider asked, before the next call. Breaks when the
    /// job is cancelled, the server drains, or a long wait has put the job back into the queue.
    fn back_off(&mut self, failures: u32) -> Result<ControlFlow<Option<DriveOutcome>>, LeaseError> {
        let base_ms = 1000_u64.saturating_mul(1 << failures.saturating_sub(1).min(5));
        let jitter_ms = u64::try_from(self.ports.entropy.random() % 250).unwrap_or(0);
        let wait_ms = self.retry_after_ms.take().unwrap_or(base_ms).saturating_add(jitter_ms);
        let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times") };
        let cause = self.turn.failure_message().unwrap_or("the call to the model failed");
        let reason = format!("{cause}; failed {times}, trying again in {} s", wait_ms.div_ceil(1_000));
        if wait_ms > MAX_WAIT_IN_PLACE_MS {
            return self.defer(reason, wait_ms).map(|drive| ControlFlow::Break(Some(drive)));
        }
        let (attempt, reason) = (self.lease.job.attempt, Some(reason));
        self.append(vec![Event::Status { status: StatusPhase::Retrying, attempt, reason }.into()])?;
        Ok(self.pause(Duration::from_millis(wait_ms)).map_break(|()| None))
    }

    /// Sleeps in short pieces: the clock wakes up for the job's token only, not for a drain.
    fn pause(&self, length: Duration) -> ControlFlow<()> {
        let pause = self.cancel.with_timeout(length);
        while !pause.is_cancelled() && self.draining.reason().is_none() {
            self.ports.clock.sleep(&pause, pause.remaining().min(DRAIN_POLL));
        }
        if self.cancel.is_cancelled() || self.draining.reason().is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Takes the results of finished writes off the front; returns the first failure.
fn poll_finished(pending: &mut VecDeque<Ticket<(), LeaseError>>) -> Result<(), LeaseError> {
    while let Some(outcome) = pending.front_mut().and_then(Ticket::poll) {
        pending.pop_front();
        outcome?;
    }
    Ok(())
}
