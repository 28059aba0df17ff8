//! Performs what [`super::turn`] decides: asks the model, runs tools, and appends what happened before anybody may see
//! it. Owns one lease at a time; refuses to decide anything that the log could decide.

use super::turn::{Step, Turn, TurnLimits};
use crate::domain::event::{Event, FailureCode, FinishReason, Mark, Phase, Record, StepKind};
use crate::domain::job::Ending;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::ports::{
    Chunk, Clock, Entropy, Journal, Lease, Leash, Model, ModelError, ModelRequest, Stop, StopFlag, Store,
    StoreError, Ticket, ToolContext, ToolOutcome, Toolbox, Urgency,
};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Characters of the first message that make a conversation's suggested title.
const TITLE_CHARS: usize = 30;

/// Longest wait before a call to the model is made again.
const MAX_BACKOFF_MS: u64 = 30_000;

/// Everything that running a job needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// The log.
    pub store: Arc<dyn Store>,
    /// The models.
    pub model: Arc<dyn Model>,
    /// The tools.
    pub tools: Arc<dyn Toolbox>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub entropy: Arc<dyn Entropy>,
}

/// The engine's own bounds.
#[derive(Debug, Clone, Copy)]
pub struct DriveLimits {
    /// Failed calls to a model in a row before the job fails.
    pub model_failures: u32,
    /// Messages of earlier jobs that a conversation hands to the next one.
    pub history_messages: usize,
}

/// How a drive ended when the store did as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// The job has its terminal event.
    Finished,
    /// The job went back to the queue.
    Released,
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
    history: Vec<Message>,
    turn: Turn,
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
        let turn = Turn::fold(&ports.store.log(lease.job.id)?);
        let history = ports.store.history(&lease.job, limits.history_messages)?;
        let budget_ms = lease.spec.timeout_s.saturating_mul(1000);
        let deadline_ms = ports.clock.monotonic_ms().saturating_add(budget_ms);
        let (stop, clock) = (lease.stop.clone(), Arc::clone(&ports.clock));
        let rope = Leash { stop, deadline_ms, clock };
        Ok(Self { ports, limits, lease, draining, leash: rope, history, turn, retry_after_ms: None })
    }

    /// Takes steps until the job ends, is released, or is lost.
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
                Step::Fail(code, content) => return self.finish(Event::Error { content, code }),
                Step::Rest => return Ok(Drive::Abandoned),
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
                self.finish(Event::Error { content, code: FailureCode::Timeout })?
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
            usage: self.turn.usage(),
            output_text: self.turn.answer(),
            messages: self.turn.closing_messages(),
        };
        self.ports.store.finish(self.lease.fence(), Vec::new(), ending).wait()?;
        Ok(Drive::Finished)
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
            Message::User { content } => Some(content),
            _ => None,
        })?;
        let fresh = self.lease.spec.conversation_id.is_some() && self.history.is_empty();
        fresh.then(|| first.chars().take(TITLE_CHARS).collect())
    }

    // ------------------------------------------------------------------------------------------------ the model

    fn ask_model(&mut self, with_tools: bool, failures: u32) -> Result<(), StoreError> {
        if failures > 0 && self.back_off(failures)?.is_break() {
            return Ok(());
        }
        let request = self.request(with_tools);
        match self.stream(&request)? {
            Ok(completion) => {
                let records = self.turn.seal(completion, with_tools);
                self.append(records)
            }
            Err(ModelError::Stopped) if self.leash.is_pulled() => Ok(()),
            Err(error) => self.note_failure(&error),
        }
    }

    fn request(&self, with_tools: bool) -> ModelRequest {
        let spec = &self.lease.spec;
        let system = spec.system_prompt.iter().map(|content| Message::System { content: content.clone() });
        let said = self.history.iter().chain(&spec.input).chain(self.turn.messages()).cloned();
        ModelRequest {
            model: spec.model.clone(),
            messages: system.chain(said).collect(),
            tools: if with_tools { self.ports.tools.offered(&spec.tools) } else { Vec::new() },
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            thinking: spec.thinking,
        }
    }

    /// Streams one answer into the log. The first piece is committed at once, later ones may share a commit.
    fn stream(
        &mut self,
        request: &ModelRequest,
    ) -> Result<Result<crate::ports::Completion, ModelError>, StoreError> {
        let (store, fence) = (&self.ports.store, self.lease.fence());
        let mut under_way: VecDeque<Ticket<()>> = VecDeque::new();
        let mut broken: Option<StoreError> = None;
        let mut urgency = Urgency::Now;
        let turn = &mut self.turn;
        let outcome = self.ports.model.ask(request, &self.leash, &mut |chunk| {
            let (kind, text) = match chunk {
                Chunk::Thinking(text) => (StepKind::Thinking, text),
                Chunk::Text(text) => (StepKind::Text, text),
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
            ModelError::Refused(_) | ModelError::Stopped => (FailureCode::ProviderError, false),
            ModelError::Unavailable { retry_after_ms, .. } => {
                self.retry_after_ms = *retry_after_ms;
                (FailureCode::ProviderError, true)
            }
        };
        self.append(vec![Mark::ModelFailed { message, code, retryable }.into()])
    }

    /// Says that the call is made again and waits 1 → 2 → 4 s with jitter, or as long as the provider asked.
    /// Breaks off when the leash is pulled meanwhile.
    fn back_off(&mut self, failures: u32) -> Result<ControlFlow<()>, StoreError> {
        let reason = Some(format!("the call to the model failed {failures} times, trying again"));
        let attempt = self.lease.job.attempt;
        self.append(vec![Event::Status { status: Phase::Retrying, attempt, reason }.into()])?;
        let base_ms = 1000_u64.saturating_mul(1 << failures.saturating_sub(1).min(5));
        let jitter_ms = u64::try_from(self.ports.entropy.random() % 250).unwrap_or(0);
        let wait_ms =
            self.retry_after_ms.take().unwrap_or(base_ms).min(MAX_BACKOFF_MS).saturating_add(jitter_ms);
        self.ports.clock.pause(&self.leash.stop, Duration::from_millis(wait_ms).min(self.leash.remaining()));
        Ok(if self.leash.is_pulled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
            leash: self.leash.clone(),
        };
        let journal = LogJournal {
            ports: self.ports,
            lease: self.lease,
            state: Mutex::new(JournalState { turn: &mut self.turn, broken: None }),
        };
        self.ports.tools.run(calls, &context, &journal);
        match journal.state.into_inner().unwrap_or_else(PoisonError::into_inner).broken {
            Some(error) => Err(error),
            None => Ok(()),
        }
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

/// Writes what the executor reports into the log: one tool thread at a time, in the order in which it is reported.
struct LogJournal<'a> {
    ports: &'a Ports,
    lease: &'a Lease,
    state: Mutex<JournalState<'a>>,
}

struct JournalState<'a> {
    turn: &'a mut Turn,
    broken: Option<StoreError>,
}

impl LogJournal<'_> {
    /// Sends the records while the state is locked, so that log order and state order are one; waits outside.
    fn append(&self, records: impl FnOnce(&Turn) -> Vec<Record>) -> ControlFlow<()> {
        let ticket = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.broken.is_some() {
                return ControlFlow::Break(());
            }
            let records = records(state.turn);
            for record in &records {
                state.turn.apply(record);
            }
            self.ports.store.append(self.lease.fence(), records, Urgency::Now)
        };
        match ticket.wait() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).broken.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Journal for LogJournal<'_> {
    fn started(&self, call: &ToolCall) -> ControlFlow<()> {
        if self.lease.stop.raised().is_some() {
            return ControlFlow::Break(());
        }
        self.append(|_| vec![Mark::ToolStarted { id_ref: call.id_ref.clone() }.into()])
    }

    fn finished(&self, call: &ToolCall, outcome: ToolOutcome) {
        // A pure call that shutdown cut off is simply made again after the restart.
        let rerun =
            self.lease.stop.raised() == Some(Stop::Shutdown) && self.ports.tools.is_idempotent(&call.name);
        if !rerun {
            // A failure is kept in the state and ends the drive.
            let _kept = self.append(|turn| turn.settle(&call.id_ref, &outcome.content, outcome.skipped));
        }
    }
}
