//! Failed model calls in a row, and how the job recovers: retry, shorter prompt, fallback model, or failure.

use crate::domain::event::FailureCode;

/// How often a prompt that does not fit is shortened before the job fails.
const MAX_SHORTENINGS: u32 = 3;

/// A failed model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelFailure {
    pub(super) code: FailureCode,
    pub(super) message: String,
    pub(super) retryable: bool,
    /// Another model may succeed.
    pub(super) elsewhere: bool,
}

/// The failures since the last answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelFailures {
    /// Failed calls in a row without those whose prompt did not fit.
    failures: u32,
    /// Prompts in a row that did not fit.
    overflows: u32,
    last: Option<ModelFailure>,
    /// The prompt has been shortened since the last failure.
    is_shortened: bool,
    /// The backoff for the last failure is over.
    has_waited: bool,
    /// How the current run ended according to the log.
    run_end: RunEnd,
    /// The fallback model that is called instead of the job's model.
    model: Option<String>,
}

/// How a run ended that did not end its job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RunEnd {
    /// By a crash or a shutdown, without a record.
    #[default]
    Interrupted,
    /// The job was deferred; the backoff for the last failure is over with it.
    Deferred,
    /// The run failed; the next one begins with the job's own model.
    Failed,
}

/// How to recover from a failure after which the same model is not called again.
pub(super) enum Recovery<'a> {
    /// Call this fallback model.
    SwitchTo(&'a str, &'a ModelFailure),
    /// Fail the run.
    GiveUp(&'a ModelFailure),
}

impl ModelFailures {
    pub(super) fn record(&mut self, failure: ModelFailure) {
        match failure.code {
            FailureCode::ContextTooLong => self.overflows = self.overflows.saturating_add(1),
            _ => self.failures = self.failures.saturating_add(1),
        }
        self.has_waited = false;
        self.is_shortened = false;
        self.run_end = RunEnd::Interrupted;
        self.last = Some(failure);
    }

    /// Resets the counts after an answer.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.overflows = 0;
        self.last = None;
        self.run_end = RunEnd::Interrupted;
    }

    pub(super) fn switch(&mut self, model: &str) {
        self.model = Some(model.to_owned());
        self.reset();
    }

    pub(super) fn note_shortened(&mut self) {
        self.is_shortened = true;
    }

    pub(super) fn defer(&mut self) {
        self.run_end = RunEnd::Deferred;
    }

    /// Notes that the run has failed.
    pub(super) fn end_run_failed(&mut self) {
        self.run_end = RunEnd::Failed;
    }

    /// Begins a run and returns whether it has its full budget of failures: not if the job was only deferred.
    /// After a crash or a shutdown the fallback model stays.
    pub(super) fn begin_run(&mut self) -> bool {
        let run_end = std::mem::take(&mut self.run_end);
        if run_end == RunEnd::Deferred {
            self.has_waited = true;
            return false;
        }
        let model = self.model.take().filter(|_| run_end == RunEnd::Interrupted);
        *self = Self { model, ..Self::default() };
        true
    }

    pub(super) fn has_failed(&self) -> bool {
        self.last.is_some()
    }

    /// The text of the last failure.
    pub(super) fn message(&self) -> Option<&str> {
        self.last.as_ref().map(|last| last.message.as_str())
    }

    pub(super) fn overflows(&self) -> u32 {
        self.overflows
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Failures that need a backoff before the next call.
    pub(super) fn needing_backoff(&self) -> u32 {
        if self.has_waited { 0 } else { self.failures }
    }

    /// Whether the last prompt did not fit and has not been shortened since.
    pub(super) fn needs_shorter_prompt(&self) -> bool {
        let overflowed = self.last.as_ref().is_some_and(|last| last.code == FailureCode::ContextTooLong);
        overflowed && !self.is_shortened
    }

    /// The recovery from the last failure; `None` while the same model is called again.
    pub(super) fn recovery<'a>(&'a self, model_failures: u32, models: &'a [String]) -> Option<Recovery<'a>> {
        let last = self.last.as_ref()?;
        let fallback = self.fallback(models).filter(|_| last.retryable || last.elsewhere);
        let may_try_again = match last.code {
            FailureCode::ContextTooLong => self.overflows <= MAX_SHORTENINGS,
            _ => self.failures < model_failures,
        };
        let prefers_another = last.elsewhere && fallback.is_some();
        if last.retryable && may_try_again && !prefers_another {
            return None;
        }
        Some(fallback.map_or(Recovery::GiveUp(last), |model| Recovery::SwitchTo(model, last)))
    }

    pub(super) fn fallback<'m>(&self, models: &'m [String]) -> Option<&'m str> {
        let position = match &self.model {
            None => 0,
            Some(current) => models.iter().position(|model| model == current)?,
        };
        models.get(position.saturating_add(1)).map(String::as_str)
    }
}
