//! What went wrong with calls to models, and who is asked now. Owns the counts in a row and the choice of a stand-in;
//! refuses to wait.

use crate::domain::event::FailureCode;

/// Prompts that do not fit are shortened so often before the job gives up.
const SHORTENINGS: u32 = 3;

/// A call to the model that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: FailureCode,
    pub(super) message: String,
    pub(super) retryable: bool,
    /// Another model may do what this one cannot.
    pub(super) elsewhere: bool,
}

/// The trouble since the last answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Calls that failed in a row, but for prompts that did not fit; these are counted by themselves.
    failures: u32,
    overflows: u32,
    last: Option<Failure>,
    /// Something has been left out of the prompt since the last failure.
    is_lighter: bool,
    /// The wait for the last failure is over.
    has_waited: bool,
    /// How the run comes to its end, as far as it has said so.
    leave: Leave,
    /// Who is asked instead of the job's model.
    model: Option<String>,
}

/// Why a run that has not ended its job is followed by another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Leave {
    /// A crash or a shutdown: it has said nothing.
    #[default]
    Cut,
    /// The job was given back to wait, and the wait for the last failure is over with it.
    PutOff,
    /// The run has failed as a whole, or may have: the next one begins with the job's own model.
    GivenUp,
}

/// What the last failure means when the same model is not to be asked again.
pub(super) enum Way<'a> {
    /// To another model.
    To(&'a str, &'a Failure),
    /// Nowhere.
    Out(&'a Failure),
}

impl Trouble {
    pub(super) fn note(&mut self, failure: Failure) {
        match failure.code {
            FailureCode::ContextTooLong => self.overflows = self.overflows.saturating_add(1),
            _ => self.failures = self.failures.saturating_add(1),
        }
        self.has_waited = false;
        self.is_lighter = false;
        self.leave = Leave::Cut;
        self.last = Some(failure);
    }

    /// An answer has come: all is well again.
    pub(super) fn forget(&mut self) {
        self.failures = 0;
        self.overflows = 0;
        self.last = None;
        self.leave = Leave::Cut;
    }

    pub(super) fn switch(&mut self, model: &str) {
        self.model = Some(model.to_owned());
        self.forget();
    }

    pub(super) fn lighten(&mut self) {
        self.is_lighter = true;
    }

    pub(super) fn defer(&mut self) {
        self.leave = Leave::PutOff;
    }

    /// The run has failed; what follows it begins anew.
    pub(super) fn give_up_run(&mut self) {
        self.leave = Leave::GivenUp;
    }

    /// A run begins: with its full budget of failures, unless the job was only given back to wait. Whether the budget is
    /// full. After a crash or a shutdown a stand-in goes on being asked.
    pub(super) fn begin_run(&mut self) -> bool {
        let leave = std::mem::take(&mut self.leave);
        if leave == Leave::PutOff {
            self.has_waited = true;
            return false;
        }
        let model = self.model.take().filter(|_| leave == Leave::Cut);
        *self = Self { model, ..Self::default() };
        true
    }

    pub(super) fn has_failed(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn overflows(&self) -> u32 {
        self.overflows
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Failures that have not been waited for.
    pub(super) fn to_wait_for(&self) -> u32 {
        if self.has_waited { 0 } else { self.failures }
    }

    /// Whether the last prompt did not fit, and nothing has been left out since.
    pub(super) fn wants_less(&self) -> bool {
        let overflowed = self.last.as_ref().is_some_and(|last| last.code == FailureCode::ContextTooLong);
        overflowed && !self.is_lighter
    }

    /// The way on from the last failure; `None` while the same model is asked again.
    pub(super) fn way<'a>(&'a self, model_failures: u32, models: &'a [String]) -> Option<Way<'a>> {
        let last = self.last.as_ref()?;
        let stand_in = self.stand_in(models).filter(|_| last.retryable || last.elsewhere);
        let may_try_again = match last.code {
            FailureCode::ContextTooLong => self.overflows <= SHORTENINGS,
            _ => self.failures < model_failures,
        };
        let prefers_another = last.elsewhere && stand_in.is_some();
        if last.retryable && may_try_again && !prefers_another {
            return None;
        }
        Some(stand_in.map_or(Way::Out(last), |model| Way::To(model, last)))
    }

    pub(super) fn stand_in<'m>(&self, models: &'m [String]) -> Option<&'m str> {
        let at = match &self.model {
            None => 0,
            Some(current) => models.iter().position(|model| model == current)?,
        };
        models.get(at.saturating_add(1)).map(String::as_str)
    }
}
