//! What follows from a log. Owns every rule of the loop: when the model is asked, when tools run, how a job ends.

use super::Turn;
use super::trouble::Way;
use crate::domain::approval::AUTO_DENIED;
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record};
use crate::domain::job::ApprovalMode;
use crate::domain::tool::ToolCall;

/// Answers that ran into their bound are continued so often.
const CONTINUATIONS: u32 = 3;
/// Answers without a word are asked for again so often.
const EMPTY_RETRIES: u32 = 2;

/// The bounds that the loop itself enforces.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits<'a> {
    /// Rounds of tool calls before the closing answer.
    pub max_steps: u32,
    /// Tokens over all calls to the model.
    pub max_total_tokens: Option<u64>,
    /// Tokens of one answer, its continuations included.
    pub max_tokens: Option<u32>,
    /// Failed calls to one model in a row.
    pub model_failures: u32,
    /// Failures of one and the same tool call, after which the run is closed.
    pub repeated_failures: u32,
    /// Whom to ask: the job's model, then those that stand in for it.
    pub models: &'a [String],
}

/// What the loop has to know of tools and of who may be asked about them.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Whether a tool's call is made only when somebody has approved of it.
    pub needs_approval: &'a dyn Fn(&str) -> bool,
    /// Whether somebody is asked.
    pub approval: ApprovalMode,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Append these records: they follow from the log alone.
    Append(Vec<Record>),
    /// These streamed steps were cut off.
    Discard {
        /// Their indices.
        indices: Vec<u32>,
        /// What the model had written, when nothing says yet what that cost.
        unpaid: Option<String>,
    },
    /// Call the model.
    AskModel {
        /// Whether tools may be called; not in a closing answer.
        with_tools: bool,
        /// Whether it has to go on where its last answer was cut.
        goes_on: bool,
        /// Failed calls just before this one that have not been waited for.
        failures: u32,
    },
    /// Ask this model from here on: the one before it has failed.
    SwitchModel {
        /// A configured model's id.
        model: String,
        /// What the one before it said.
        because: String,
    },
    /// Ask somebody about these calls; nothing of their batch is run before.
    AskApproval(Vec<ToolCall>),
    /// Run these calls; none of them has a result.
    RunTools(Vec<ToolCall>),
    /// The job has its answer.
    Finish(FinishReason),
    /// The job has failed.
    Fail {
        /// For programs.
        code: FailureCode,
        /// For people.
        content: String,
        /// Whether another attempt may mend it.
        is_mendable: bool,
    },
    /// The log already holds a terminal event.
    Rest,
}

/// What the newest answer was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Said {
    /// There is none.
    #[default]
    Nothing,
    /// Calls of tools.
    Calls,
    /// Words, to their end.
    Whole(FinishReason),
    /// Words, up to a bound.
    Cut,
    /// Not a word.
    Empty,
}

/// Nobody is asked about these calls.
fn auto_denied(calls: &[ToolCall]) -> Record {
    let id_refs = calls.iter().map(|call| call.id_ref.clone()).collect();
    EngineMark::Denied { id_refs, reason: AUTO_DENIED.to_owned() }.into()
}

impl Turn {
    /// What is to be done next. Asked only while nothing is under way: whatever the log shows as begun and not ended
    /// was cut off.
    pub fn next(&self, limits: &TurnLimits<'_>, rules: &Rules<'_>) -> Step {
        if self.ended {
            return Step::Rest;
        }
        if let Some(step) = self.next_discard().or_else(|| self.next_failure(limits)) {
            return step;
        }
        if let Some(step) = self.next_in_batch(rules) {
            return step;
        }
        self.next_call(limits)
    }

    fn next_discard(&self) -> Option<Step> {
        let indices: Vec<u32> = self.open.iter().map(|step| step.index).collect();
        let is_paid = self.paid || self.trouble.has_failed();
        let unpaid = (!is_paid).then(|| self.open.iter().map(|step| step.text.as_str()).collect());
        (!indices.is_empty()).then_some(Step::Discard { indices, unpaid })
    }

    /// What the last failure means when the same model is not to be asked again.
    fn next_failure(&self, limits: &TurnLimits<'_>) -> Option<Step> {
        Some(match self.trouble.way(limits.model_failures, limits.models)? {
            Way::To(model, failure) => {
                Step::SwitchModel { model: model.to_owned(), because: failure.message.clone() }
            }
            Way::Out(failure) => Step::Fail {
                code: failure.code,
                content: failure.message.clone(),
                is_mendable: failure.retryable && failure.code != FailureCode::ContextTooLong,
            },
        })
    }

    /// What the batch still needs: a word on interrupted and denied calls, results in order, somebody's approval, or runs.
    fn next_in_batch(&self, rules: &Rules<'_>) -> Option<Step> {
        let interrupted = self.calls.interrupted();
        if !interrupted.is_empty() {
            return Some(Step::Append(interrupted));
        }
        let denied = self.calls.denied();
        if !denied.is_empty() {
            return Some(Step::Append(denied));
        }
        let publishable = self.calls.publishable(self.next_index, None);
        if !publishable.is_empty() {
            return Some(Step::Append(publishable));
        }
        let undecided = self.calls.undecided(rules.needs_approval);
        if !undecided.is_empty() {
            return Some(match rules.approval {
                ApprovalMode::Wait => Step::AskApproval(undecided),
                ApprovalMode::AutoDeny => Step::Append(vec![auto_denied(&undecided)]),
            });
        }
        let unsettled = self.calls.unsettled();
        (!unsettled.is_empty()).then_some(Step::RunTools(unsettled))
    }

    fn next_call(&self, limits: &TurnLimits<'_>) -> Step {
        let closing = self.closing_reason(limits);
        let is_spent = limits.max_total_tokens.is_some_and(|max| self.usage.total_tokens >= max);
        match self.said {
            Said::Whole(reason) => Step::Finish(closing.unwrap_or(reason)),
            Said::Cut if is_spent || self.continuations >= CONTINUATIONS || self.has_filled(limits) => {
                Step::Finish(closing.unwrap_or(FinishReason::Length))
            }
            Said::Empty if self.empties > EMPTY_RETRIES => self.end_without_words(closing),
            Said::Nothing | Said::Calls | Said::Empty if is_spent => Step::Fail {
                code: FailureCode::MaxTotalTokens,
                content: format!(
                    "{} tokens are spent; max_total_tokens is {}",
                    self.usage.total_tokens,
                    limits.max_total_tokens.unwrap_or_default()
                ),
                is_mendable: false,
            },
            Said::Nothing | Said::Calls | Said::Cut | Said::Empty => Step::AskModel {
                with_tools: closing.is_none(),
                goes_on: self.said == Said::Cut,
                failures: self.trouble.to_wait_for(),
            },
        }
    }

    /// Why the next answer has to be the last one, if it has.
    fn closing_reason(&self, limits: &TurnLimits<'_>) -> Option<FinishReason> {
        if self.repeats.worst() >= limits.repeated_failures {
            return Some(FinishReason::RepeatedFailure);
        }
        (self.rounds >= limits.max_steps).then_some(FinishReason::MaxSteps)
    }

    /// Whether the answer is as long as the job wants it at most.
    fn has_filled(&self, limits: &TurnLimits<'_>) -> bool {
        limits.max_tokens.is_some_and(|max| self.answer_tokens >= u64::from(max))
    }

    /// Work that was done stands, even if the model has no words for it.
    fn end_without_words(&self, closing: Option<FinishReason>) -> Step {
        if self.rounds > 0 {
            return Step::Finish(closing.unwrap_or(FinishReason::Stop));
        }
        Step::Fail {
            code: FailureCode::ProviderError,
            content: format!("the model gave an empty answer, {} times", self.empties),
            is_mendable: true,
        }
    }

    /// The records that discard these steps.
    pub fn discard(indices: &[u32]) -> Vec<Record> {
        indices.iter().map(|index| Event::StepDiscarded { index: *index }.into()).collect()
    }
}
