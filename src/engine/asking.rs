//! Asking the model: the request made ready, its answer streamed into the log, its failure written down and waited for.
//! Refuses to decide what a failure means for the job (`turn` does).

use super::aside::Shortening;
use super::context::Room;
use super::driver::{Drive, Driver};
use super::turn::Step;
use crate::domain::event::{EngineMark, Event, FailureCode, StatusPhase, StepKind};
use crate::domain::tool::ToolChoice;
use crate::domain::usage::Usage;
use crate::ports::{Chunk, Completion, ModelError, StoreError, Ticket, Urgency};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// The longest wait for a provider that keeps the worker; a longer one gives the job back to the queue.
const WAIT_IN_PLACE_MS: u64 = 30_000;

/// A provider that asks for a longer wait than this is not waited for where another model stands in.
const PATIENCE_MS: u64 = 2_000;

/// The most that one call can have cost, tokens.
const CREDIBLE_TOKENS: u64 = 1_000_000_000;

/// What a summary takes of a prompt, tokens, roughly.
const SUMMARY_SHARE: u64 = 400;

/// How long a pause before another call goes on at most after the server began to drain.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// What one call brought beside its completion.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// All text and reasoning.
    pub(super) text: String,
    /// What its provider says that it cost.
    pub(super) spent: Option<Usage>,
}

impl Driver<'_> {
    /// Makes one call; `Some` when the job was given back instead.
    pub(super) fn ask_model(
        &mut self,
        with_tools: bool,
        goes_on: bool,
        failures: u32,
    ) -> Result<Option<Drive>, StoreError> {
        if failures > 0
            && let ControlFlow::Break(drive) = self.back_off(failures)?
        {
            return Ok(drive);
        }
        self.offer_tools(with_tools);
        match self.shorten(goes_on)? {
            Shortening::Needless => {}
            Shortening::Done => return Ok(None),
            Shortening::Delayed(drive) => return Ok(Some(drive)),
        }
        self.request.messages = self.opening.messages(&self.turn, goes_on);
        self.request.max_tokens = self.tokens_left();
        let mut heard = Heard::default();
        match self.stream(&mut heard)? {
            Ok(completion) => return self.seal(completion, with_tools, &heard),
            Err(ModelError::Stopped) if self.cancel.is_cancelled() => self.pay(&heard)?,
            Err(ModelError::Busy { message, retry_after_ms }) => {
                if retry_after_ms <= WAIT_IN_PLACE_MS || !self.turn.has_stand_in(&self.models) {
                    return self.defer(message, retry_after_ms).map(Some);
                }
                let error = ModelError::Unavailable { message, retry_after_ms: Some(retry_after_ms) };
                self.note_failure(&error, &heard)?;
            }
            Err(error) => self.note_failure(&error, &heard)?,
        }
        Ok(None)
    }

    /// Names the tools of the job; in a closing answer only because earlier calls name them, too.
    fn offer_tools(&mut self, with_tools: bool) {
        self.request.may_call = with_tools;
        let has_results = self.turn.has_results();
        if self.tool_tokens.is_none() || has_results != self.offers_results {
            let choice: &ToolChoice = &self.lease.spec.tools;
            self.request.tools = self.ports.tools.offered(choice, has_results);
            self.tool_tokens = Some(self.estimator.tools(&self.request.tools));
            self.offers_results = has_results;
        }
    }

    /// The bound of the next answer: of an answer that goes on, what is left of it.
    fn tokens_left(&self) -> Option<u32> {
        let spent = u32::try_from(self.turn.answer_tokens()).unwrap_or(u32::MAX);
        let bound = self.lease.spec.max_tokens?;
        Some(if self.turn.is_cut() { bound.saturating_sub(spent).max(1) } else { bound })
    }

    /// How much the next prompt may hold; `None` while nobody knows a bound.
    pub(super) fn room(&self, prompt: u64) -> Option<Room> {
        let model = self.ports.model.model(&self.request.model).unwrap_or_default();
        let answer = self.request.max_tokens.into_iter().chain(model.max_output_tokens).min();
        let standing = self.opening.standing_tokens(&self.estimator);
        let fixed = self.tool_tokens.unwrap_or(0).saturating_add(standing).saturating_add(SUMMARY_SHARE);
        let overflows = self.turn.overflows();
        match model.context_window {
            Some(window) => {
                let room = Room::of_window(u64::from(window), answer.map(u64::from), fixed);
                Some(room.after_overflows(overflows))
            }
            None if overflows > 0 => Some(Room { tokens: prompt, fixed }.after_overflows(overflows)),
            None => None,
        }
    }

    /// Streams one answer into the log. The first piece is committed at once, later ones may share a commit.
    fn stream(&mut self, heard: &mut Heard) -> Result<Result<Completion, ModelError>, StoreError> {
        let (store, fence) = (&self.ports.store, self.lease.fence());
        let mut under_way: VecDeque<Ticket<()>> = VecDeque::new();
        let mut broken: Option<StoreError> = None;
        let mut urgency = Urgency::Now;
        let (turn, progress) = (&mut self.turn, &self.progress);
        progress.ask(&self.request.model);
        let outcome = self.ports.model.ask(&self.request, &self.cancel, &mut |chunk| {
            // A model that goes on after `Break` must not write behind a piece that is lost.
            if broken.is_some() {
                return ControlFlow::Break(());
            }
            let (kind, text) = match chunk {
                Chunk::Thinking(text) => (StepKind::Thinking, text),
                Chunk::Text(text) => (StepKind::Text, text),
                Chunk::Spent(usage) => {
                    heard.spent = Some(usage).filter(|usage| is_credible(*usage)).or(heard.spent);
                    return ControlFlow::Continue(());
                }
            };
            heard.text.push_str(text);
            let record = turn.piece(kind, text);
            turn.apply(&record);
            progress.grow();
            let urgency = std::mem::replace(&mut urgency, Urgency::Soon);
            under_way.push_back(store.append(fence, vec![record], urgency));
            broken = reap(&mut under_way).err();
            if broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        progress.think();
        if let Some(error) = broken {
            return Err(error);
        }
        // A lost piece must not be sealed as if it stood in the log.
        under_way.into_iter().try_for_each(Ticket::wait)?;
        Ok(outcome)
    }

    /// Writes down how the answer ended. Where nothing is left but to end the job, too, both are one commit.
    fn seal(
        &mut self,
        completion: Completion,
        with_tools: bool,
        heard: &Heard,
    ) -> Result<Option<Drive>, StoreError> {
        let usage = if let Some(usage) = heard.spent {
            self.learn(usage);
            usage
        } else {
            let calls: String = completion.tool_calls.iter().map(|call| call.arguments.as_str()).collect();
            self.estimate(&format!("{}{calls}", heard.text))
        };
        let records = self.turn.seal(completion, with_tools, usage);
        self.note(&records);
        match self.next() {
            Step::Finish(reason) if !self.is_stopped() && !self.title_takes_a_call() => {
                self.succeed(records, reason).map(Some)
            }
            _ => self.write(records).map(|()| None),
        }
    }

    /// Corrects the estimates; where nobody asks for any, it saves the work.
    fn learn(&mut self, usage: Usage) {
        if self.window().is_some() {
            let estimated = self.estimator.messages(&self.request.messages);
            let fixed = if self.request.may_call { self.tool_tokens.unwrap_or(0) } else { 0 };
            self.estimator.correct(estimated.saturating_add(fixed), usage.prompt_tokens);
        }
    }

    /// Writes down what an answer has cost that somebody broke off.
    fn pay(&mut self, heard: &Heard) -> Result<(), StoreError> {
        if self.is_fenced() {
            return Ok(());
        }
        match self.cost_of_part(heard) {
            Some(usage) => {
                self.append(vec![EngineMark::Spent { model: self.request.model.clone(), usage }.into()])
            }
            None => Ok(()),
        }
    }

    /// What an answer has cost that broke off. Some providers report the answer's tokens at its end only: then what has
    /// come counts. `None`: nothing has come.
    fn cost_of_part(&self, heard: &Heard) -> Option<Usage> {
        let Some(told) = heard.spent else {
            return (!heard.text.is_empty()).then(|| self.estimate(&heard.text));
        };
        let come = self.estimator.text(&heard.text);
        if told.completion_tokens >= come {
            return Some(told);
        }
        Some(Usage::new(told.prompt_tokens, come).priced(self.price_of(&self.request.model)))
    }

    pub(super) fn note_failure(&mut self, error: &ModelError, heard: &Heard) -> Result<(), StoreError> {
        let message = error.to_string();
        let (code, retryable, elsewhere) = match error {
            ModelError::NotFound(_) => (FailureCode::ModelNotFound, false, true),
            ModelError::TooLarge(_) => (FailureCode::OutputTooLarge, false, false),
            ModelError::Denied(_) => (FailureCode::ProviderError, false, true),
            ModelError::ContextTooLong(_) => (FailureCode::ContextTooLong, self.may_shorten(), true),
            ModelError::Refused(_) | ModelError::Stopped | ModelError::Busy { .. } => {
                (FailureCode::ProviderError, false, false)
            }
            ModelError::Unavailable { retry_after_ms, .. } => {
                self.retry_after_ms = *retry_after_ms;
                (FailureCode::ProviderError, true, retry_after_ms.is_some_and(|wait| wait > PATIENCE_MS))
            }
        };
        // A shorter prompt for the same model comes before another model.
        let elsewhere = elsewhere && !(code == FailureCode::ContextTooLong && retryable);
        let usage = self.cost_of_part(heard).unwrap_or_default();
        let model = Some(self.request.model.clone());
        self.append(vec![
            EngineMark::ModelFailed { message, code, retryable, elsewhere, usage, model }.into(),
        ])
    }

    /// Says that the call is made again and waits 1 → 2 → 4 s and a little jitter, or as long as the provider asked. Breaks
    /// off when the cancel is pulled or the server begins to drain, and with the job given back when the wait is long.
    fn back_off(&mut self, failures: u32) -> Result<ControlFlow<Option<Drive>>, StoreError> {
        let base_ms = 1000_u64.saturating_mul(1 << failures.saturating_sub(1).min(5));
        let jitter_ms = u64::try_from(self.ports.entropy.random() % 250).unwrap_or(0);
        let wait_ms = self.retry_after_ms.take().unwrap_or(base_ms).saturating_add(jitter_ms);
        let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times") };
        if wait_ms > WAIT_IN_PLACE_MS {
            let seconds = wait_ms.div_ceil(1_000);
            let reason = format!("the call to the model failed {times}, trying again in {seconds} s");
            return self.defer(reason, wait_ms).map(|drive| ControlFlow::Break(Some(drive)));
        }
        let reason = Some(format!("the call to the model failed {times}, trying again"));
        let attempt = self.lease.job.attempt;
        self.append(vec![Event::Status { status: StatusPhase::Retrying, attempt, reason }.into()])?;
        Ok(self.pause(Duration::from_millis(wait_ms)).map_break(|()| None))
    }

    /// Waits, in pieces short enough to notice a drain: the clock watches one flag, and that is the lease's.
    fn pause(&self, length: Duration) -> ControlFlow<()> {
        let patience = self.cancel.with_timeout(length);
        while !patience.is_cancelled() && self.draining.reason().is_none() {
            self.ports.clock.sleep(&patience, patience.remaining().min(DRAIN_LOOK));
        }
        if self.cancel.is_cancelled() || self.draining.reason().is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn is_fenced(&self) -> bool {
        self.lease.cancel.reason() == Some(crate::ports::CancelReason::LeaseLost)
    }
}

/// Whether one call can have cost that much; a slip of a provider must not spoil a day's accounts.
pub(super) fn is_credible(usage: Usage) -> bool {
    [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens]
        .iter()
        .all(|tokens| *tokens <= CREDIBLE_TOKENS)
}

/// Takes the outcomes of finished writes off the front; the first failure is the result.
fn reap(under_way: &mut VecDeque<Ticket<()>>) -> Result<(), StoreError> {
    while let Some(outcome) = under_way.front_mut().and_then(Ticket::poll) {
        under_way.pop_front();
        outcome?;
    }
    Ok(())
}
