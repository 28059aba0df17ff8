//! Performs what [`super::turn`] decides: asks the model, runs tools, and appends what happened before anybody may see
//! it. Owns one lease at a time; refuses to decide anything that the log could decide.

use super::journal::LogJournal;
use super::setup::{DriveLimits, Ports};
use super::turn::{Step, Turn, TurnLimits};
use crate::domain::event::{Event, FailureCode, FinishReason, Mark, Phase, Record, StepKind};
use crate::domain::job::{Ending, History, JobSpec};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::{
    Chunk, Completion, Lease, Leash, ModelError, ModelRequest, Stop, StopFlag, StoreError, Ticket,
    ToolContext, Urgency,
};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Characters of the first message that make a conversation's suggested title.
const TITLE_CHARS: usize = 30;

/// Longest wait before a call to the model is made again.
const MAX_BACKOFF_MS: u64 = 30_000;

/// How long a pause before another call goes on at most after the server began to drain.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// How a drive ended when the store did as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// The job has its terminal event.
    Finished,
    /// The job went back to the queue.
    Released,
    /// It failed and waits for its next attempt.
    Postponed,
    /// Somebody else holds the job now, or it had ended before.
    Abandoned,
}

/// One lease being worked on.
pub struct Driver<'a> {
    ports: &'a Ports,
    limits: DriveLimits,
    lease: &'a Lease,
    draining: &'a StopFlag,
    leash: Leash,
    turn: Turn,
    /// The next call to the model. It grows with the job, so that no call copies what an earlier one has sent.
    request: ModelRequest,
    /// Messages of `turn` that `request` holds already.
    told: usize,
    /// The conversation holds nothing yet.
    is_first: bool,
    retry_after_ms: Option<u64>,
}

impl<'a> Driver<'a> {
    /// Reads the job's log and its conversation. `draining`, once raised, makes it release at the next step boundary.
    pub fn new(
        ports: &'a Ports,
        limits: DriveLimits,
        lease: &'a Lease,
        draining: &'a StopFlag,
    ) -> Result<Self, StoreError> {
        // The claim has just been made: what reading takes counts, too.
        let budget_ms = lease.spec.timeout_s.saturating_mul(1000);
        let deadline_ms = ports.clock.monotonic_ms().saturating_add(budget_ms);
        let turn = Turn::fold(&ports.store.log(lease.job.id)?);
        let history = ports.store.history(&lease.job, limits.history_messages)?;
        let (stop, clock) = (lease.stop.clone(), Arc::clone(&ports.clock));
        let rope = Leash { stop, deadline_ms, clock };
        let is_first = history.turns.is_empty() && history.summary.is_none();
        let request = opening(&lease.spec, history);
        Ok(Self {
            ports,
            limits,
            lease,
            draining,
            leash: rope,
            turn,
            request,
            told: 0,
            is_first,
            retry_after_ms: None,
        })
    }

    /// Takes steps until the job ends, is released, or is lost. A log that has its end already is left alone: giving the
    /// job back would only have it claimed again. A store that keeps its contract (terminal event and row in one
    /// transaction) leases no such job.
    pub fn run(mut self) -> Result<Drive, StoreError> {
        loop {
            if let Some(drive) = self.heed_stop()? {
                return Ok(drive);
            }
            let limits = TurnLimits {
                max_steps: self.lease.spec.max_steps,
                max_total_tokens: self.lease.spec.max_total_tokens,
                model_failures: self.limits.model_failures,
            };
            match self.turn.next(&limits, &|name| self.ports.tools.is_idempotent(name)) {
                Step::Append(records) => self.append(records)?,
                Step::AskModel { with_tools, failures } => self.ask_model(with_tools, failures)?,
                Step::RunTools(calls) => self.run_tools(&calls)?,
                Step::Finish(reason) => return self.finish(self.done_event(reason)),
                Step::Fail { code, content, is_mendable: true } => return self.fail(code, content),
                Step::Fail { code, content, is_mendable: false } => {
                    return self.finish(Event::Error { content, code });
                }
                Step::Rest => {
                    tracing::error!(job = %self.lease.job.id, "a job was leased after its end; its log stays as it is");
                    return Ok(Drive::Abandoned);
                }
            }
        }
    }

    /// What cancel, a lost lease, shutdown and the deadline mean between two steps.
    fn heed_stop(&mut self) -> Result<Option<Drive>, StoreError> {
        let ended = match self.lease.stop.raised() {
            Some(Stop::Cancelled) => {
                let content = "the job was cancelled".to_owned();
                self.finish(Event::Error { content, code: FailureCode::Cancelled })?
            }
            Some(Stop::Fenced) => Drive::Abandoned,
            Some(Stop::Shutdown) => self.release()?,
            None if self.leash.remaining().is_zero() => {
                let content =
                    format!("the job ran longer than its timeout_s of {}", self.lease.spec.timeout_s);
                self.fail(FailureCode::Timeout, content)?
            }
            None if self.draining.raised().is_some() => self.release()?,
            None => return Ok(None),
        };
        Ok(Some(ended))
    }

    fn release(&self) -> Result<Drive, StoreError> {
        self.ports.store.release(self.lease.fence()).wait()?;
        Ok(Drive::Released)
    }

    fn append(&mut self, records: Vec<Record>) -> Result<(), StoreError> {
        for record in &records {
            self.turn.apply(record);
        }
        self.ports.store.append(self.lease.fence(), records, Urgency::Now).wait()
    }

    fn finish(&self, event: Event) -> Result<Drive, StoreError> {
        let ending = Ending {
            event,
            output_text: self.turn.answer(),
            messages: self.turn.closing_messages(),
            summary: None,
        };
        self.ports.store.finish(self.lease.fence(), Vec::new(), ending).wait()?;
        Ok(Drive::Finished)
    }

    /// Another attempt while there is one left: later, and from the last recorded step. Else the end.
    fn fail(&self, code: FailureCode, content: String) -> Result<Drive, StoreError> {
        let failed = self.lease.job.failed_runs.saturating_add(1);
        if failed >= self.lease.spec.max_attempts {
            return self.finish(Event::Error { content, code });
        }
        let delay_ms = self.limits.backoff.delay_ms(failed, self.ports.entropy.random());
        let reason = format!(
            "attempt {failed} of {} failed: {content}; the next one begins in {} s",
            self.lease.spec.max_attempts,
            delay_ms.div_ceil(1_000)
        );
        self.ports.store.postpone(self.lease.fence(), reason, delay_ms).wait()?;
        Ok(Drive::Postponed)
    }

    fn done_event(&self, finish_reason: FinishReason) -> Event {
        let usage = self.turn.usage();
        Event::Done {
            message_id: self.lease.job.id.message_id(),
            token_count: usage.completion_tokens,
            suggested_title: self.suggest_title(),
            usage,
            finish_reason,
        }
    }

    /// The first words of a conversation's first message; `None` once it has a history.
    fn suggest_title(&self) -> Option<String> {
        let first = self.lease.spec.input.iter().find_map(|message| match message {
            Message::User { content, .. } => Some(content),
            _ => None,
        })?;
        let fresh = self.lease.spec.conversation_id.is_some() && self.is_first;
        fresh.then(|| first.chars().take(TITLE_CHARS).collect())
    }

    // ------------------------------------------------------------------------------------------------ the model

    fn ask_model(&mut self, with_tools: bool, failures: u32) -> Result<(), StoreError> {
        if failures > 0 && self.back_off(failures)?.is_break() {
            return Ok(());
        }
        self.prepare(with_tools);
        let mut usage = Usage::default();
        match self.stream(&mut usage)? {
            Ok(completion) => {
                let records = self.turn.seal(completion, with_tools, usage);
                self.append(records)
            }
            Err(ModelError::Stopped) if self.leash.is_pulled() => Ok(()),
            Err(error) => self.note_failure(&error),
        }
    }

    /// Brings the request up to date: what was said since the last call, and the tools that this one may name.
    fn prepare(&mut self, with_tools: bool) {
        let said = self.turn.messages();
        self.request.messages.extend(said.iter().skip(self.told).cloned());
        self.told = said.len();
        if !with_tools {
            self.request.tools.clear();
        } else if self.request.tools.is_empty() {
            self.request.tools = self.ports.tools.offered(&self.lease.spec.tools);
        }
    }

    /// Streams one answer into the log. The first piece is committed at once, later ones may share a commit.
    fn stream(&mut self, usage: &mut Usage) -> Result<Result<Completion, ModelError>, StoreError> {
        let (store, fence) = (&self.ports.store, self.lease.fence());
        let mut under_way: VecDeque<Ticket<()>> = VecDeque::new();
        let mut broken: Option<StoreError> = None;
        let mut urgency = Urgency::Now;
        let turn = &mut self.turn;
        let outcome = self.ports.model.ask(&self.request, &self.leash, &mut |chunk| {
            // A model that goes on after `Break` must not write behind a piece that is lost.
            if broken.is_some() {
                return ControlFlow::Break(());
            }
            let (kind, text) = match chunk {
                Chunk::Thinking(text) => (StepKind::Thinking, text),
                Chunk::Text(text) => (StepKind::Text, text),
                Chunk::Spent(spent) => {
                    *usage = spent;
                    return ControlFlow::Continue(());
                }
            };
            let record = turn.piece(kind, text);
            turn.apply(&record);
            let urgency = std::mem::replace(&mut urgency, Urgency::Soon);
            under_way.push_back(store.append(fence, vec![record], urgency));
            broken = reap(&mut under_way).err();
            if broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(error) = broken {
            return Err(error);
        }
        // A lost piece must not be sealed as if it stood in the log.
        under_way.into_iter().try_for_each(Ticket::wait)?;
        Ok(outcome)
    }

    fn note_failure(&mut self, error: &ModelError) -> Result<(), StoreError> {
        let message = error.to_string();
        let (code, retryable) = match error {
            ModelError::NotFound(_) => (FailureCode::ModelNotFound, false),
            ModelError::TooLarge(_) => (FailureCode::OutputTooLarge, false),
            ModelError::Refused(_)
            | ModelError::Denied(_)
            | ModelError::ContextTooLong(_)
            | ModelError::Busy { .. }
            | ModelError::Stopped => (FailureCode::ProviderError, false),
            ModelError::Unavailable { retry_after_ms, .. } => {
                self.retry_after_ms = *retry_after_ms;
                (FailureCode::ProviderError, true)
            }
        };
        self.append(vec![
            Mark::ModelFailed {
                message,
                code,
                retryable,
                elsewhere: false,
                usage: Usage::default(),
                model: None,
            }
            .into(),
        ])
    }

    /// Says that the call is made again and waits 1 → 2 → 4 s, or as long as the provider asked, but never longer than
    /// [`MAX_BACKOFF_MS`] and a little jitter. Breaks off when the leash is pulled or the server begins to drain.
    fn back_off(&mut self, failures: u32) -> Result<ControlFlow<()>, StoreError> {
        let reason = Some(format!("the call to the model failed {failures} times, trying again"));
        let attempt = self.lease.job.attempt;
        self.append(vec![Event::Status { status: Phase::Retrying, attempt, reason }.into()])?;
        let base_ms = 1000_u64.saturating_mul(1 << failures.saturating_sub(1).min(5));
        let jitter_ms = u64::try_from(self.ports.entropy.random() % 250).unwrap_or(0);
        let wait_ms =
            self.retry_after_ms.take().unwrap_or(base_ms).min(MAX_BACKOFF_MS).saturating_add(jitter_ms);
        Ok(self.pause(Duration::from_millis(wait_ms)))
    }

    /// Waits, in pieces short enough to notice a drain: the clock watches one flag, and that is the lease's.
    fn pause(&self, length: Duration) -> ControlFlow<()> {
        let patience = self.leash.shortened(length);
        while !patience.is_pulled() && self.draining.raised().is_none() {
            self.ports.clock.pause(&patience.stop, patience.remaining().min(DRAIN_LOOK));
        }
        if self.leash.is_pulled() || self.draining.raised().is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    // ------------------------------------------------------------------------------------------------ the tools

    fn run_tools(&mut self, calls: &[ToolCall]) -> Result<(), StoreError> {
        let spec = &self.lease.spec;
        let context = ToolContext {
            user: self.lease.job.user,
            job: self.lease.job.id,
            conversation_id: spec.conversation_id.clone(),
            allowed: spec.tools.clone(),
            strictness: spec.strictness,
            workdir: None,
            leash: self.leash.clone(),
        };
        let journal = LogJournal::new(self.ports, self.lease, &mut self.turn);
        self.ports.tools.run(calls, &context, &journal);
        journal.close()
    }
}

/// What every call to the model of this job begins with.
fn opening(spec: &JobSpec, history: History) -> ModelRequest {
    let system = spec.system_prompt.iter().map(|content| Message::System { content: content.clone() });
    ModelRequest {
        model: spec.model.clone(),
        messages: system.chain(history.into_messages()).chain(spec.input.iter().cloned()).collect(),
        tools: Vec::new(),
        may_call: true,
        temperature: spec.temperature,
        max_tokens: spec.max_tokens,
        thinking: spec.thinking,
    }
}

/// Takes the outcomes of finished writes off the front; the first failure is the result.
fn reap(under_way: &mut VecDeque<Ticket<()>>) -> Result<(), StoreError> {
    while let Some(outcome) = under_way.front_mut().and_then(Ticket::poll) {
        under_way.pop_front();
        outcome?;
    }
    Ok(())
}
