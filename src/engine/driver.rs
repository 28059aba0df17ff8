//! Performs what [`super::turn`] decides: asks the model (`asking`), runs tools, and appends what happened before anybody
//! may see it. Owns one lease at a time; refuses to decide anything that the log could decide.

use super::context::Opening;
use super::journal::LogJournal;
use super::progress::Progress;
use super::setup::{DriveLimits, Ports, spent_in};
use super::turn::{INTERRUPTED, Rules, Step, Turn, TurnLimits};
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase};
use crate::domain::job::{JobOutcome, JobStatus};
use crate::domain::log_rate_limit::LogRateLimit;
use crate::domain::tokens::TokenEstimator;
use crate::domain::tool::{ToolCall, ToolChoice};
use crate::domain::usage::{Price, Usage};
use crate::ports::{
    ApprovedCalls, CancelReason, CancelToken, Lease, ModelParameters, ModelRequest, StoreError, TokenBudget,
    ToolContext, UnexecutedReason, Urgency,
};
use std::path::PathBuf;
use std::sync::Arc;
use tracing::Level;

/// How a drive ended when the store did as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// The job has its terminal event.
    Finished,
    /// The job went back to the queue.
    Released,
    /// It waits: for its next attempt, for its turn at a provider, or for somebody's approval.
    Postponed,
    /// Somebody else holds the job now, or it had ended before.
    Abandoned,
}

/// One lease being worked on.
pub struct Driver<'a> {
    pub(super) ports: &'a Ports,
    pub(super) limits: &'a DriveLimits,
    pub(super) lease: &'a Lease,
    pub(super) draining: &'a CancelToken,
    pub(super) cancel: CancelToken,
    pub(super) turn: Turn,
    /// What was there before the job's first word.
    pub(super) opening: Opening,
    /// The next call to the model, but for its messages.
    pub(super) request: ModelRequest,
    /// What the tools on offer cost in every prompt, once they have been looked up.
    pub(super) tool_tokens: Option<u64>,
    /// They were looked up when there was a whole result already.
    pub(super) offers_results: bool,
    pub(super) estimator: TokenEstimator,
    /// Whom to ask: the job's model, then those that stand in for it.
    pub(super) models: Vec<String>,
    /// What a provider asked to wait.
    pub(super) retry_after_ms: Option<u64>,
    /// Told to whoever looks on.
    pub(super) progress: Arc<Progress>,
    began_ms: u64,
    /// Room in the server's log for ends that nobody has to mend.
    ends: Arc<LogRateLimit>,
}

impl<'a> Driver<'a> {
    /// Reads the job's log and its conversation. `draining`, once raised, makes it release at the next step boundary.
    pub fn new(
        ports: &'a Ports,
        limits: &'a DriveLimits,
        lease: &'a Lease,
        draining: &'a CancelToken,
    ) -> Result<Self, StoreError> {
        // The claim has just been made: what reading takes counts, too.
        let budget_ms = lease.spec.timeout_s.saturating_mul(1000);
        let began_ms = ports.clock.monotonic_ms();
        let deadline_ms = began_ms.saturating_add(budget_ms);
        let turn = Turn::fold(&ports.store.log(lease.job.id)?);
        let history = ports.store.history(&lease.job, limits.history_messages)?;
        let cancel = lease.cancel.with_deadline(deadline_ms);
        let spec = &lease.spec;
        let stand_ins = ports.model.model(&spec.model).map(|model| model.fallback).unwrap_or_default();
        let models: Vec<String> = std::iter::once(spec.model.clone()).chain(stand_ins).collect();
        let asked = turn.model().unwrap_or(&spec.model).to_owned();
        Ok(Self {
            ports,
            limits,
            lease,
            draining,
            cancel,
            opening: Opening::new(spec, history),
            estimator: TokenEstimator::of_model(&asked),
            request: ModelRequest {
                model: asked,
                messages: Vec::new(),
                tools: Vec::new(),
                may_call: true,
                temperature: spec.temperature,
                max_tokens: spec.max_tokens,
                thinking: spec.thinking,
            },
            tool_tokens: None,
            offers_results: false,
            turn,
            models,
            retry_after_ms: None,
            progress: Arc::new(Progress::begin(&ports.clock)),
            began_ms,
            ends: Arc::default(),
        })
    }

    /// The same, and what it does is told there; its end in the log while there is room for it.
    #[must_use]
    pub(super) fn watched(self, progress: &Arc<Progress>, ends: &Arc<LogRateLimit>) -> Self {
        Self { progress: Arc::clone(progress), ends: Arc::clone(ends), ..self }
    }

    /// Takes steps until the job ends, is released, or is lost. A log that has its end already is left alone: giving the
    /// job back would only have it claimed again. A store that keeps its contract (terminal event and row in one
    /// transaction) leases no such job.
    pub fn run(mut self) -> Result<Drive, StoreError> {
        loop {
            if let Some(drive) = self.heed_stop()? {
                return Ok(drive);
            }
            match self.next() {
                Step::Append(records) => {
                    self.tell_settled(&records);
                    self.append(records)?;
                }
                Step::Discard { indices, unpaid } => self.discard(&indices, unpaid.as_deref())?,
                Step::AskModel { with_tools, goes_on, failures } => {
                    if let Some(drive) = self.ask_model(with_tools, goes_on, failures)? {
                        return Ok(drive);
                    }
                }
                Step::SwitchModel { model, because } => self.switch_model(&model, &because)?,
                Step::AskApproval(calls) => return self.ask_approval(calls),
                Step::RunTools(calls) => self.run_tools(&calls)?,
                Step::Finish(reason) => return self.succeed(Vec::new(), reason),
                Step::Fail { code, content, is_mendable: true } => return self.fail(code, content),
                Step::Fail { code, content, is_mendable: false } => {
                    return self.finish(Vec::new(), Event::Error { content, code });
                }
                Step::Rest => {
                    tracing::error!(job = %self.lease.job.id, "a job was leased after its end; its log stays as it is");
                    return Ok(Drive::Abandoned);
                }
            }
        }
    }

    pub(super) fn next(&self) -> Step {
        let (tools, spec) = (&self.ports.tools, &self.lease.spec);
        let needs_approval = |name: &str| tools.needs_approval(name) && !self.is_refused(name);
        let rules = Rules { needs_approval: &needs_approval, approval: spec.approval };
        self.turn.next(&self.bounds(), &rules)
    }

    /// Whether a call will certainly be refused, so that nobody need be asked about it. An alias may stand for any tool.
    fn is_refused(&self, name: &str) -> bool {
        let is_offered = |choice: &ToolChoice| {
            self.ports.tools.offered(choice, true).iter().any(|tool| tool.name.as_ref() == name)
        };
        let choice = &self.lease.spec.tools;
        !choice.offers_any() || (is_offered(&ToolChoice::All(true)) && !is_offered(choice))
    }

    fn bounds(&self) -> TurnLimits<'_> {
        TurnLimits {
            max_steps: self.lease.spec.max_steps,
            max_total_tokens: self.lease.spec.max_total_tokens,
            max_tokens: self.lease.spec.max_tokens,
            model_failures: self.limits.model_failures,
            repeated_failures: self.limits.repeated_failures,
            models: &self.models,
        }
    }

    /// Whether [`Self::heed_stop`] has something to heed.
    pub(super) fn is_stopped(&self) -> bool {
        let is_raised = self.lease.cancel.reason().is_some() || self.draining.reason().is_some();
        is_raised || self.cancel.remaining().is_zero()
    }

    /// What cancel, a lost lease, shutdown and the deadline mean between two steps.
    fn heed_stop(&mut self) -> Result<Option<Drive>, StoreError> {
        let ended = match self.lease.cancel.reason() {
            Some(CancelReason::Cancelled) => {
                let content = "the job was cancelled".to_owned();
                self.finish(Vec::new(), Event::Error { content, code: FailureCode::Cancelled })?
            }
            Some(CancelReason::LeaseLost) => Drive::Abandoned,
            Some(CancelReason::Shutdown) => self.release()?,
            None if self.cancel.remaining().is_zero() => {
                let content =
                    format!("the job ran longer than its timeout_s of {}", self.lease.spec.timeout_s);
                self.fail(FailureCode::Timeout, content)?
            }
            None if self.draining.reason().is_some() => self.release()?,
            None => return Ok(None),
        };
        Ok(Some(ended))
    }

    fn release(&self) -> Result<Drive, StoreError> {
        self.ports.store.release(self.lease.fence()).wait()?;
        Ok(Drive::Released)
    }

    /// Gives the job back to wait for so long; it does not count as a failure.
    pub(super) fn defer(&self, reason: String, delay_ms: u64) -> Result<Drive, StoreError> {
        self.ports.store.defer(self.lease.fence(), reason, delay_ms).wait()?;
        Ok(Drive::Postponed)
    }

    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<(), StoreError> {
        self.note(&records);
        self.write(records)
    }

    /// Takes in what will stand in the log next.
    pub(super) fn note(&mut self, records: &[Record]) {
        for record in records {
            self.turn.apply(record);
        }
        self.progress.grow();
    }

    /// Writes down what was taken in.
    pub(super) fn write(&self, records: Vec<Record>) -> Result<(), StoreError> {
        let spent = spent_in(&records, &self.lease.spec.model);
        self.ports.store.append(self.lease.fence(), records, Urgency::Now).wait()?;
        self.ports.tell_spent(&spent);
        Ok(())
    }

    /// What a crash cut off was paid for all the same: its cost is estimated, as nobody reported it.
    fn discard(&mut self, indices: &[u32], unpaid: Option<&str>) -> Result<(), StoreError> {
        let mut records = Turn::discard(indices);
        if let Some(text) = unpaid {
            let usage = self.estimate(text);
            records.insert(0, EngineMark::Spent { model: self.request.model.clone(), usage }.into());
        }
        self.append(records)
    }

    fn switch_model(&mut self, model: &str, because: &str) -> Result<(), StoreError> {
        let reason = Some(format!("{because}; going on with model '{model}'"));
        let status = Event::Status { status: StatusPhase::Retrying, attempt: self.lease.job.attempt, reason };
        let switched = EngineMark::ModelSwitched { model: model.to_owned() };
        model.clone_into(&mut self.request.model);
        self.estimator = TokenEstimator::of_model(model);
        self.tool_tokens = None;
        self.retry_after_ms = None;
        self.append(vec![status.into(), switched.into()])
    }

    fn finish(&self, records: Vec<Record>, event: Event) -> Result<Drive, StoreError> {
        let ending = JobOutcome {
            event,
            output_text: self.turn.answer(),
            messages: self.turn.closing_messages(),
            summary: self.opening.summary_of(self.turn.shortened()),
        };
        let (status, code) = (ending.status(), ending.error().map(|error| error.code));
        let spent = spent_in(&records, &self.lease.spec.model);
        self.ports.store.finish(self.lease.fence(), records, ending).wait()?;
        self.ports.tell_spent(&spent);
        self.tell_end(status, code);
        Ok(Drive::Finished)
    }

    /// The job's last line in the server's log: of one that failed always, of a rush of others some. What went wrong stands
    /// in the job: a provider's words may quote a prompt.
    fn tell_end(&self, status: JobStatus, code: Option<FailureCode>) {
        let now_ms = self.ports.clock.monotonic_ms();
        let room = if status == JobStatus::Failed { Some(0) } else { self.ends.enter(now_ms) };
        let (steps, tokens) = (self.turn.steps(), self.turn.usage().total_tokens);
        let duration_ms = now_ms.saturating_sub(self.began_ms);
        let (code, held_back) = (code.map(FailureCode::as_str), room.filter(|count| *count > 0));
        macro_rules! tell {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    status = status.as_str(),
                    code,
                    steps,
                    tokens,
                    duration_ms,
                    held_back,
                    "job ended"
                )
            };
        }
        if room.is_some() { tell!(Level::INFO) } else { tell!(Level::DEBUG) }
    }

    /// Another attempt while there is one left: later, and from the last recorded step. Else the end.
    fn fail(&self, code: FailureCode, content: String) -> Result<Drive, StoreError> {
        let failed = self.lease.job.failed_runs.saturating_add(1);
        if failed >= self.lease.spec.max_attempts {
            return self.finish(Vec::new(), Event::Error { content, code });
        }
        let delay_ms = self.limits.backoff.delay_ms(failed, self.ports.entropy.random());
        let reason = format!(
            "attempt {failed} of {} failed: {content}; the next one begins in {} s",
            self.lease.spec.max_attempts,
            delay_ms.div_ceil(1_000)
        );
        self.ports.store.postpone(self.lease.fence(), reason, delay_ms).wait()?;
        tracing::info!(code = code.as_str(), delay_ms, "a run of the job failed; another follows");
        Ok(Drive::Postponed)
    }

    /// `records` are those that end the answer, if they were taken in and not written yet.
    pub(super) fn succeed(
        &mut self,
        records: Vec<Record>,
        finish_reason: FinishReason,
    ) -> Result<Drive, StoreError> {
        let suggested_title = self.suggest_title()?;
        // A title may have been asked for. Whoever stops the job meanwhile is heard; the deadline was met before.
        if records.is_empty()
            && self.lease.cancel.reason().is_some()
            && let Some(drive) = self.heed_stop()?
        {
            return Ok(drive);
        }
        let usage = self.turn.usage();
        let message_id = self.lease.job.id.message_id();
        let token_count = usage.completion_tokens;
        self.finish(records, Event::Done { message_id, token_count, suggested_title, usage, finish_reason })
    }

    /// What the next prompt and this text may have cost.
    pub(super) fn estimate(&self, text: &str) -> Usage {
        let prompt = self.estimator.messages(&self.opening.messages(&self.turn, false));
        let fixed = self.tool_tokens.unwrap_or(0);
        let usage = Usage::new(prompt.saturating_add(fixed), self.estimator.text(text));
        usage.priced(self.price_of(&self.request.model))
    }

    /// What the tokens of this model cost.
    pub(super) fn price_of(&self, model: &str) -> Price {
        self.ports.model.model(model).map(|model| model.price).unwrap_or_default()
    }

    /// The context window of the model that is asked, where it is known.
    pub(super) fn window(&self) -> Option<u32> {
        self.ports.model.model(&self.request.model)?.context_window
    }

    // ------------------------------------------------------------------------------------------------ the tools

    /// How the job asks its model.
    fn terms(&self) -> ModelParameters {
        let spec = &self.lease.spec;
        let spent = self.turn.usage().total_tokens;
        let left = spec.max_total_tokens.map(|most| most.saturating_sub(spent));
        ModelParameters {
            model: self.request.model.clone(),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            budget: TokenBudget::new(left),
        }
    }

    /// Gives the job back until somebody has decided; as with `defer`, that is neither a run nor a failure.
    fn ask_approval(&self, calls: Vec<ToolCall>) -> Result<Drive, StoreError> {
        self.ports
            .store
            .wait_for_approval(self.lease.fence(), calls, self.limits.approval_timeout_ms)
            .wait()?;
        Ok(Drive::Postponed)
    }

    fn run_tools(&mut self, calls: &[ToolCall]) -> Result<(), StoreError> {
        let spec = &self.lease.spec;
        let workdir = match spec.project_id {
            // A project that has been deleted since: its job goes on in a directory of its own, as without one.
            Some(project) => self.ports.workplaces.project_directory(self.lease.job.user, project)?,
            None => None,
        };
        let context = self.tool_context(workdir);
        self.progress.run(calls);
        let journal = LogJournal::new(self.ports, self.lease, &mut self.turn, &self.progress);
        self.ports.tools.run(calls, &context, &journal);
        self.progress.think();
        journal.close()
    }

    /// The tools hear of the calls that get their outcome without them: records that follow from the log alone are of
    /// calls that were denied or interrupted.
    fn tell_settled(&self, records: &[Record]) {
        for record in records {
            let Record::Mark(EngineMark::ToolFinished { id_ref, content, .. }) = record else { continue };
            let Some(call) = self.turn.unsettled_call(id_ref) else { continue };
            let why =
                if content == INTERRUPTED { UnexecutedReason::Interrupted } else { UnexecutedReason::Denied };
            self.ports.tools.settled(call, &self.tool_context(None), why, content);
        }
    }

    fn tool_context(&self, workdir: Option<PathBuf>) -> ToolContext {
        let spec = &self.lease.spec;
        ToolContext {
            user: self.lease.job.user,
            job: self.lease.job.id,
            conversation_id: spec.conversation_id.clone(),
            project_id: spec.project_id,
            allowed: spec.tools.clone(),
            strictness: spec.strictness,
            workdir,
            terms: self.terms(),
            origin: spec.origin,
            is_trial: false,
            id_ref: String::new(),
            approved: ApprovedCalls::Calls(self.turn.approved().into()),
            cancel: self.cancel.clone(),
        }
    }
}
