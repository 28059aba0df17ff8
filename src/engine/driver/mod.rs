//! Performs the steps that [`super::turn`] decides: `model_call`, `tool_calls`, `summary`, `title`. Every
//! result is appended to the job's log before a client can see it.

mod answer_check;
mod handed_approvals;
mod handed_calls;
mod instructions;
mod journal;
mod model_call;
mod prompt;
mod reply;
mod results;
mod side_call;
mod summary;
mod title;
mod tool_calls;

use super::active_leases::NextLease;
use super::preamble::{job_preamble, tool_instructions};
use super::run_progress::RunProgress;
use super::setup::{EngineLimits, EnginePorts, usage_in};
use super::turn::{NextStep, TurnLimits, TurnRules, TurnState};
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::job::{JobOutcome, JobStatus};
use crate::domain::job_rights::JobRights;
use crate::domain::log_rate_limit::LogRateLimit;
use crate::domain::message::Message;
use crate::domain::model_settings::ClientFunction;
use crate::domain::tokens::TokenEstimator;
use crate::domain::tool::ToolDefinition;
use crate::domain::usage::{Price, Usage};
use crate::ports::{
    CancelReason, CancelToken, Lease, LeaseError, ModelCaller, ModelInfo, ModelRequest, StoreError, Ticket,
    ToolScope, Urgency,
};
use prompt::{FinalInstruction, PromptBase};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::Level;

/// How the work on a lease ended while the store worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveOutcome {
    /// The job has its terminal event.
    Finished,
    /// The job went back to the queue.
    Released,
    /// The job waits for its next attempt, for a provider's rate limit, or for an approval.
    Postponed,
    /// The lease is lost, or the job had ended before.
    Abandoned,
}

/// The work on one lease.
pub struct Driver<'a> {
    ports: &'a EnginePorts,
    limits: &'a EngineLimits,
    lease: &'a Lease,
    draining: &'a CancelToken,
    cancel: CancelToken,
    turn: TurnState,
    base: PromptBase,
    /// The next model call without its messages.
    request: ModelRequest,
    /// Estimated prompt tokens of the tool definitions, once they are looked up.
    tool_tokens: Option<u64>,
    /// The job's rights. Its tools have the configured default set in place.
    rights: JobRights,
    /// What tools say in the prompt, while the log does not have it.
    unrecorded_instructions: Vec<String>,
    /// The answers of other jobs in the prompt, while the log does not have them.
    unrecorded_results: BTreeMap<JobId, String>,
    /// The write that records both.
    recording: Option<Ticket<(), LeaseError>>,
    /// The client's functions.
    functions: Vec<ToolDefinition>,
    estimator: TokenEstimator,
    /// The job's model, then its fallback models.
    models: Vec<String>,
    /// The wait that the provider requested.
    retry_after_ms: Option<u64>,
    progress: Arc<RunProgress>,
    began_ms: u64,
    end_log_limit: Arc<LogRateLimit>,
    /// Where the lease goes that comes with the job's end.
    next_lease: Option<&'a NextLease>,
}

impl<'a> Driver<'a> {
    /// Reads the job's log and its conversation. Once `draining` is cancelled, the job is released at the
    /// next step.
    pub fn new(
        ports: &'a EnginePorts,
        limits: &'a EngineLimits,
        lease: &'a Lease,
        draining: &'a CancelToken,
    ) -> Result<Self, StoreError> {
        // The time for reading the log counts towards the timeout.
        let budget_ms = lease.spec.timeout_s.saturating_mul(1000);
        let began_ms = ports.clock.monotonic_ms();
        let deadline_ms = began_ms.saturating_add(budget_ms);
        let turn = TurnState::fold(&ports.store.log(lease.job.id)?);
        let mut history = ports.store.history(&lease.job, limits.history_messages)?;
        let recorded_results = turn.prompt().job_results();
        let unrecorded_results = if recorded_results.is_empty() {
            results::shown(&*ports.store, lease, limits.job_result_bytes, &history)?
        } else {
            BTreeMap::new()
        };
        let results = if recorded_results.is_empty() { &unrecorded_results } else { recorded_results };
        results::put_into_history(results, &mut history);
        let spec_in_prompt = results::spec_in_prompt(&*ports.store, lease, results)?;
        let cancel = lease.cancel.with_deadline(deadline_ms);
        let spec = &lease.spec;
        let has_images = Message::have_images(&spec.input)
            || history.turns.iter().any(|turn| Message::have_images(&turn.messages));
        let mut fallbacks = ports.model.model(&spec.model).map(|model| model.fallback).unwrap_or_default();
        // Another model answers what the user asked, or none does.
        fallbacks.retain(|id| !has_images || ports.model.model(id).is_some_and(|model| model.sees_images));
        let models: Vec<String> = std::iter::once(spec.model.clone()).chain(fallbacks).collect();
        let model = turn.model().unwrap_or(&spec.model).to_owned();
        let rights = spec.rights();
        let tools = ports.tools.resolve(&rights.tools, &spec.model);
        let unrecorded_instructions = match turn.prompt().instructions() {
            Some(_) => Vec::new(),
            None => tool_instructions(&*ports.tools, lease, &tools),
        };
        let instructions = turn.prompt().instructions().unwrap_or(&unrecorded_instructions);
        let preamble = job_preamble(&limits.preamble, lease, &tools, instructions);
        let functions = spec.functions.iter().map(ClientFunction::definition).collect();
        Ok(Self {
            ports,
            limits,
            lease,
            draining,
            cancel,
            base: PromptBase::new(&spec_in_prompt, history, preamble),
            estimator: TokenEstimator::of_model(&model),
            request: ModelRequest {
                caller: ModelCaller { user: lease.job.user, job: Some(lease.job.id) },
                model,
                messages: Vec::new(),
                tools: Vec::new(),
                may_call: true,
                temperature: spec.temperature,
                max_tokens: spec.max_tokens,
                thinking: spec.thinking,
                settings: spec.settings.clone(),
            },
            functions,
            unrecorded_instructions,
            unrecorded_results,
            recording: None,
            tool_tokens: None,
            rights: JobRights { tools, ..rights },
            turn,
            models,
            retry_after_ms: None,
            progress: Arc::new(RunProgress::begin(&ports.clock)),
            began_ms,
            end_log_limit: Arc::default(),
            next_lease: None,
        })
    }

    /// The same driver that claims the next job with the end of this one.
    #[must_use]
    pub(super) fn claiming_next(self, next_lease: &'a NextLease) -> Self {
        Self { next_lease: Some(next_lease), ..self }
    }

    /// The same driver that reports to `progress` and logs the ends of jobs within `end_log_limit`.
    #[must_use]
    pub(super) fn observed(self, progress: &Arc<RunProgress>, end_log_limit: &Arc<LogRateLimit>) -> Self {
        Self { progress: Arc::clone(progress), end_log_limit: Arc::clone(end_log_limit), ..self }
    }

    /// Takes steps until the job ends, is released, or its lease is lost. A job whose log has a terminal
    /// event already is not released: it would only be claimed again.
    pub fn run(mut self) -> Result<DriveOutcome, LeaseError> {
        loop {
            if let Some(drive) = self.check_cancel()? {
                return Ok(drive);
            }
            match self.next() {
                NextStep::Append(records) => {
                    self.report_unexecuted(&records);
                    self.append(records)?;
                }
                NextStep::Discard { indices, unbilled } => self.discard(&indices, unbilled.as_deref())?,
                NextStep::CallModel { closing, continues, failures } => {
                    if let Some(drive) = self.call_model(closing, continues, failures)? {
                        return Ok(drive);
                    }
                }
                NextStep::SwitchModel { model, reason } => self.switch_model(&model, &reason)?,
                NextStep::RequestApproval(calls) => return self.request_approval(calls),
                NextStep::RunTools(calls) => self.run_tools(Vec::new(), &calls)?,
                NextStep::Finish(reason) => return self.succeed(Vec::new(), reason),
                NextStep::Fail { code, content, is_retryable: true } => return self.fail(code, content),
                NextStep::Fail { code, content, is_retryable: false } => {
                    return self.finish(Vec::new(), Event::Error { content, code, retry_after_ms: None });
                }
                NextStep::AlreadyEnded => {
                    tracing::error!(job = %self.lease.job.id, "leased job has a terminal event already");
                    return Ok(DriveOutcome::Abandoned);
                }
            }
        }
    }

    fn next(&self) -> NextStep {
        if let Some(records) = self.decided_calls() {
            return NextStep::Append(records);
        }
        let (tools, rights) = (&self.ports.tools, &self.rights);
        let needs_approval = |name: &str| {
            tools.needs_approval(name, &rights.approval_tools) && !tools.is_refused(name, &self.scope())
        };
        let rules = TurnRules {
            needs_approval: &needs_approval,
            approval: rights.approval,
            answer_fault: &|answer| self.answer_fault(answer),
        };
        self.turn.next(&self.turn_limits(), &rules)
    }

    /// What decides which tools the job is offered.
    fn scope(&self) -> ToolScope<'_> {
        ToolScope {
            choice: &self.rights.tools,
            strictness: self.rights.strictness,
            has_results: self.turn.has_results(),
        }
    }

    fn turn_limits(&self) -> TurnLimits<'_> {
        TurnLimits {
            max_steps: self.rights.max_steps,
            max_tool_calls: self.rights.max_tool_calls,
            max_total_tokens: self.rights.max_total_tokens,
            max_cost_micros: self.rights.max_cost_micros,
            unpriced: self.models.iter().map(String::as_str).find(|id| self.is_unpriced(id)),
            max_tokens: self.lease.spec.max_tokens,
            model_failures: self.limits.model_failures,
            repeated_failures: self.limits.repeated_failures,
            is_plain: self.lease.spec.is_plain,
            models: &self.models,
        }
    }

    /// Whether [`Self::check_cancel`] would end the run.
    fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.draining.reason().is_some()
    }

    /// Ends the run between two steps after a cancel, a lost lease, a shutdown or the deadline.
    fn check_cancel(&mut self) -> Result<Option<DriveOutcome>, LeaseError> {
        let outcome = match self.lease.cancel.reason() {
            Some(CancelReason::Cancelled) => {
                let content = "the job was cancelled".to_owned();
                self.finish(
                    Vec::new(),
                    Event::Error { content, code: FailureCode::Cancelled, retry_after_ms: None },
                )?
            }
            Some(CancelReason::DeadlineExceeded) => {
                let content = "the job had not ended by its deadline_at".to_owned();
                self.finish(
                    Vec::new(),
                    Event::Error { content, code: FailureCode::DeadlineExceeded, retry_after_ms: None },
                )?
            }
            Some(CancelReason::LeaseLost) => DriveOutcome::Abandoned,
            Some(CancelReason::Shutdown) => self.release()?,
            None if self.cancel.remaining().is_zero() => {
                let content =
                    format!("the job ran longer than its timeout_s of {}", self.lease.spec.timeout_s);
                self.fail(FailureCode::Timeout, content)?
            }
            None if self.draining.reason().is_some() => self.release()?,
            None => return Ok(None),
        };
        Ok(Some(outcome))
    }

    fn release(&self) -> Result<DriveOutcome, LeaseError> {
        self.ports.store.release(self.lease.fence()).wait()?;
        Ok(DriveOutcome::Released)
    }

    /// Puts the job back into the queue for `delay_ms`; this counts neither as an attempt nor as a failure.
    fn defer(&self, reason: String, delay_ms: u64) -> Result<DriveOutcome, LeaseError> {
        self.ports.store.defer(self.lease.fence(), reason, delay_ms).wait()?;
        Ok(DriveOutcome::Postponed)
    }

    fn append(&mut self, records: Vec<Record>) -> Result<(), LeaseError> {
        self.apply(&records);
        self.write(records)
    }

    /// Brings the state up to date with records that are about to be written.
    fn apply(&mut self, records: &[Record]) {
        for record in records {
            self.turn.apply(record);
        }
        self.progress.log_grew();
    }

    fn write(&self, records: Vec<Record>) -> Result<(), LeaseError> {
        let usage = usage_in(&records, &self.lease.spec.model);
        self.ports.store.append(self.lease.fence(), records, Urgency::Now).wait()?;
        self.ports.record_usage(&usage);
        Ok(())
    }

    /// Discards steps that a crash cut off. Their cost is estimated, because no provider has reported it.
    fn discard(&mut self, indices: &[u32], unbilled: Option<&str>) -> Result<(), LeaseError> {
        let mut records = TurnState::discard(indices);
        if let Some(text) = unbilled {
            let usage = self.estimate(text);
            records.insert(0, EngineMark::spent(&self.request.model, usage).into());
        }
        self.append(records)
    }

    fn switch_model(&mut self, model: &str, reason: &str) -> Result<(), LeaseError> {
        let reason = Some(format!("{reason}; going on with model '{model}'"));
        let status = Event::Status { status: StatusPhase::Retrying, attempt: self.lease.job.attempt, reason };
        let switched = EngineMark::ModelSwitched { model: model.to_owned() };
        model.clone_into(&mut self.request.model);
        self.estimator = TokenEstimator::of_model(model);
        self.tool_tokens = None;
        self.retry_after_ms = None;
        self.append(vec![status.into(), switched.into()])
    }

    fn finish(&self, records: Vec<Record>, event: Event) -> Result<DriveOutcome, LeaseError> {
        let ending = JobOutcome {
            event,
            output_text: self.turn.answer(),
            messages: self.without_asked(self.turn.closing_messages()),
            summary: self.base.summary_of(self.turn.shortened()),
        };
        let (status, code) = (ending.status(), ending.error().map(|error| error.code));
        let usage = usage_in(&records, &self.lease.spec.model);
        self.write_end(records, ending)?;
        self.ports.record_usage(&usage);
        self.log_end(status, code);
        Ok(DriveOutcome::Finished)
    }

    fn write_end(&self, records: Vec<Record>, ending: JobOutcome) -> Result<(), LeaseError> {
        let (store, fence) = (&self.ports.store, self.lease.fence());
        let Some(next_lease) = self.next_lease.filter(|_| self.draining.reason().is_none()) else {
            return store.finish(fence, records, ending).wait();
        };
        let (ended, lease) = store.finish_and_claim(fence, records, ending);
        next_lease.put(lease);
        ended
    }

    /// Logs the end of the job. Failures are always logged; other ends are rate-limited. The error text is
    /// not logged: a provider's message may quote a prompt.
    fn log_end(&self, status: JobStatus, code: Option<FailureCode>) {
        let now_ms = self.ports.clock.monotonic_ms();
        let suppressed = if status == JobStatus::Failed { Some(0) } else { self.end_log_limit.enter(now_ms) };
        let (steps, tokens) = (self.turn.steps(), self.turn.usage().total_tokens);
        let duration_ms = now_ms.saturating_sub(self.began_ms);
        let (code, held_back) = (code.map(FailureCode::as_str), suppressed.filter(|count| *count > 0));
        macro_rules! log {
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
        if suppressed.is_some() { log!(Level::INFO) } else { log!(Level::DEBUG) }
    }

    /// Fails the run: postpones the job while it has attempts left, else ends it.
    fn fail(&self, code: FailureCode, content: String) -> Result<DriveOutcome, LeaseError> {
        let failed = self.lease.job.failed_runs.saturating_add(1);
        if failed >= self.lease.spec.max_attempts {
            let retry_after_ms = self.retry_after_ms.filter(|_| code == FailureCode::RateLimited);
            return self.finish(Vec::new(), Event::Error { content, code, retry_after_ms });
        }
        let delay_ms = self.limits.backoff.delay_ms(failed, self.ports.entropy.random());
        let reason = format!(
            "attempt {failed} of {} failed: {content}; the next one begins in {} s",
            self.lease.spec.max_attempts,
            delay_ms.div_ceil(1_000)
        );
        self.ports.store.postpone(self.lease.fence(), reason, delay_ms).wait()?;
        tracing::info!(code = code.as_str(), delay_ms, "run failed, job postponed");
        Ok(DriveOutcome::Postponed)
    }

    /// Ends the job with success. `records` seal the answer if they are applied and not written yet.
    fn succeed(
        &mut self,
        records: Vec<Record>,
        finish_reason: FinishReason,
    ) -> Result<DriveOutcome, LeaseError> {
        let suggested_title = self.suggest_title()?;
        // The title may have taken a model call: a cancel meanwhile counts, the deadline does not.
        if records.is_empty()
            && self.lease.cancel.reason().is_some()
            && let Some(drive) = self.check_cancel()?
        {
            return Ok(drive);
        }
        let usage = self.turn.usage();
        let message_id = self.lease.job.id.message_id();
        let token_count = usage.completion_tokens;
        let stop_sequence = self.turn.stop_sequence().filter(|_| finish_reason == FinishReason::Stop);
        let done = Event::Done {
            message_id,
            token_count,
            suggested_title,
            usage,
            finish_reason,
            stop_sequence: stop_sequence.map(str::to_owned),
        };
        self.finish(records, done)
    }

    /// Estimated usage of the next prompt with `text` as its answer.
    fn estimate(&self, text: &str) -> Usage {
        let prompt = self.estimator.messages(&self.base.messages(&self.turn, FinalInstruction::None));
        let fixed = self.tool_tokens.unwrap_or(0);
        let usage = Usage::new(prompt.saturating_add(fixed), self.estimator.text(text));
        usage.priced(self.price_of(&self.request.model))
    }

    /// The facts about the current model.
    fn model_info(&self) -> ModelInfo {
        let id = &self.request.model;
        self.ports.model.model(id).unwrap_or_else(|| ModelInfo { id: id.clone(), ..ModelInfo::default() })
    }

    fn is_unpriced(&self, model: &str) -> bool {
        self.ports.model.model(model).is_some_and(|model| model.price.is_none())
    }

    fn price_of(&self, model: &str) -> Price {
        self.ports.model.model(model).and_then(|model| model.price).unwrap_or_default()
    }

    /// The context window of the current model, if known.
    fn window(&self) -> Option<u32> {
        self.ports.model.model(&self.request.model)?.context_window
    }
}
