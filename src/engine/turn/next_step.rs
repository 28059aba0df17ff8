//! The rules of the agent loop: when the model is called, when tools run, how a job ends.

use super::failures::Recovery;
use super::state::{LastReply, TurnState};
use crate::domain::approval::{AUTO_DENIED, beyond_limit};
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record};
use crate::domain::job::ApprovalMode;
use crate::domain::tool::ToolCall;

/// How often a truncated answer is continued.
const CONTINUATIONS: u32 = 3;
/// How often the model is called again after an empty answer.
const EMPTY_RETRIES: u32 = 2;

/// Why a job with a limit of cost ends whose model has lost its price.
pub fn unpriced_text(model: &str) -> String {
    format!("the model {model} has no price any more, so max_cost_micros cannot be kept")
}

/// The limits that the loop enforces.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits<'a> {
    /// Rounds of tool calls before the closing answer.
    pub max_steps: u32,
    /// Calls of the server's tools; later ones are denied.
    pub max_tool_calls: Option<u32>,
    /// Tokens over all calls to the model.
    pub max_total_tokens: Option<u64>,
    /// Cost of all calls to the model, millionths.
    pub max_cost_micros: Option<u64>,
    /// A model of the job that has no price: no limit of its cost can be kept.
    pub unpriced: Option<&'a str>,
    /// Tokens of one answer with its continuations.
    pub max_tokens: Option<u32>,
    /// Failed calls to one model in a row.
    pub model_failures: u32,
    /// Failures of the same tool call before the closing answer.
    pub repeated_failures: u32,
    /// The first answer counts as it is, also an empty or a cut one: the client asked for one call of the
    /// model.
    pub is_plain: bool,
    /// The job's model, then its fallback models.
    pub models: &'a [String],
}

/// Which tools need approval, whether a user can give it, and which answers are refused.
#[derive(Clone, Copy)]
pub struct TurnRules<'a> {
    /// Whether calls of this tool need approval.
    pub needs_approval: &'a dyn Fn(&str) -> bool,
    /// Whether to wait for approval or to deny.
    pub approval: ApprovalMode,
    /// Why an answer does not have the form that the request wants.
    pub answer_fault: &'a dyn Fn(&str) -> Option<String>,
}

/// The next step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Append these records: they follow from the log alone.
    Append(Vec<Record>),
    /// Discard streamed steps that were cut off.
    Discard {
        /// Their indices.
        indices: Vec<u32>,
        /// Their text, if its cost is not in the log yet.
        unbilled: Option<String>,
    },
    /// Call the model.
    CallModel {
        /// Why this is the closing call, in which the model may call no tools; `None` for an ordinary call.
        closing: Option<FinishReason>,
        /// Whether the call continues a truncated answer.
        continues: bool,
        /// Failed calls just before this one that need a backoff first.
        failures: u32,
    },
    /// Call a fallback model from here on.
    SwitchModel {
        /// A configured model's id.
        model: String,
        /// The error of the model before.
        reason: String,
    },
    /// Wait for approval of these calls; no call of their batch runs before.
    RequestApproval(Vec<ToolCall>),
    /// Run these calls; none of them has a result.
    RunTools(Vec<ToolCall>),
    /// The job has its answer.
    Finish(FinishReason),
    /// The job has failed.
    Fail {
        /// Machine-readable code.
        code: FailureCode,
        /// Message for people.
        content: String,
        /// Whether another attempt may succeed.
        is_retryable: bool,
    },
    /// The log already holds a terminal event.
    AlreadyEnded,
}

/// The denial of calls for which no approval is requested.
fn deny(calls: &[ToolCall], reason: String) -> Record {
    let id_refs = calls.iter().map(|call| call.id_ref.clone()).collect();
    EngineMark::Denied { id_refs, reason }.into()
}

impl TurnState {
    /// The next step. Must be called only while no step is running: a step that the log shows as started and
    /// not ended counts as interrupted.
    pub fn next(&self, limits: &TurnLimits<'_>, rules: &TurnRules<'_>) -> NextStep {
        if self.is_ended {
            return NextStep::AlreadyEnded;
        }
        if let Some(step) = self.next_discard().or_else(|| self.next_failure(limits)) {
            return step;
        }
        if let Some(step) = self.next_in_batch(limits, rules) {
            return step;
        }
        self.next_repair(limits, rules).unwrap_or_else(|| self.next_call(limits))
    }

    /// How many tool calls are left of `most`, for agents and jobs that the newest answer starts.
    pub fn tool_calls_left(&self, most: u32) -> u64 {
        self.calls.left(most)
    }

    fn next_discard(&self) -> Option<NextStep> {
        let indices: Vec<u32> = self.open.iter().map(|step| step.index).collect();
        let is_billed = self.is_billed || self.failures.has_failed();
        let unbilled = (!is_billed).then(|| self.open.iter().map(|step| step.text.as_str()).collect());
        (!indices.is_empty()).then_some(NextStep::Discard { indices, unbilled })
    }

    /// The step after a failed model call; `None` while the same model is called again.
    fn next_failure(&self, limits: &TurnLimits<'_>) -> Option<NextStep> {
        Some(match self.failures.recovery(limits.model_failures, limits.models)? {
            Recovery::SwitchTo(model, failure) => {
                NextStep::SwitchModel { model: model.to_owned(), reason: failure.message.clone() }
            }
            Recovery::GiveUp(failure) => NextStep::Fail {
                code: failure.code,
                content: failure.message.clone(),
                is_retryable: failure.retryable && failure.code != FailureCode::ContextTooLong,
            },
        })
    }

    /// The step that the batch of tool calls still needs: marks for interrupted and denied calls, results,
    /// approval, or runs.
    fn next_in_batch(&self, limits: &TurnLimits<'_>, rules: &TurnRules<'_>) -> Option<NextStep> {
        let interrupted = self.calls.interrupted();
        if !interrupted.is_empty() {
            return Some(NextStep::Append(interrupted));
        }
        let denied = self.calls.denied();
        if !denied.is_empty() {
            return Some(NextStep::Append(denied));
        }
        let publishable = self.calls.publishable(self.next_index, None);
        if !publishable.is_empty() {
            return Some(NextStep::Append(publishable));
        }
        if let Some(most) = limits.max_tool_calls
            && let excess = self.calls.beyond(most)
            && !excess.is_empty()
        {
            return Some(NextStep::Append(vec![deny(&excess, beyond_limit(most))]));
        }
        let undecided = self
            .calls
            .undecided(&|name| !self.always_approved.contains(name) && (rules.needs_approval)(name));
        if !undecided.is_empty() {
            return Some(match rules.approval {
                ApprovalMode::Wait => NextStep::RequestApproval(undecided),
                ApprovalMode::AutoDeny => NextStep::Append(vec![deny(&undecided, AUTO_DENIED.to_owned())]),
            });
        }
        let unsettled = self.calls.unsettled();
        if !unsettled.is_empty() {
            return Some(NextStep::RunTools(unsettled));
        }
        // The client's calls are handed back once the server's own have their results.
        self.calls.has_client_calls().then_some(NextStep::Finish(FinishReason::ToolCalls))
    }

    /// Refuses an answer in another form than the request wants, if the model may be asked again.
    fn next_repair(&self, limits: &TurnLimits<'_>, rules: &TurnRules<'_>) -> Option<NextStep> {
        let is_last = self.is_budget_spent(limits) || self.closing_reason(limits).is_some();
        if is_last { None } else { self.refuse_answer(rules.answer_fault).map(NextStep::Append) }
    }

    fn is_budget_spent(&self, limits: &TurnLimits<'_>) -> bool {
        self.spent_budget(limits).is_some()
    }

    /// The limit of the request that is used up, and what to say about it.
    fn spent_budget(&self, limits: &TurnLimits<'_>) -> Option<(FailureCode, String)> {
        let (tokens, cost) = (self.usage.total_tokens, self.usage.cost_micros);
        if let Some(max) = limits.max_total_tokens.filter(|max| tokens >= *max) {
            let content = format!("{tokens} tokens are spent; max_total_tokens is {max}");
            return Some((FailureCode::MaxTotalTokens, content));
        }
        let max = limits.max_cost_micros?;
        if let Some(model) = limits.unpriced {
            return Some((FailureCode::MaxCost, unpriced_text(model)));
        }
        let content = format!("{cost} millionths are spent; max_cost_micros is {max}");
        (cost >= max).then_some((FailureCode::MaxCost, content))
    }

    fn next_call(&self, limits: &TurnLimits<'_>) -> NextStep {
        let closing = self.closing_reason(limits);
        let spent = self.spent_budget(limits);
        match self.last_reply {
            LastReply::Complete(reason) if self.has_no_answer() => {
                NextStep::Append(self.stand_in_answer(closing.unwrap_or(reason), limits))
            }
            LastReply::Complete(reason) => NextStep::Finish(closing.unwrap_or(reason)),
            LastReply::Empty(reason) if limits.is_plain => NextStep::Finish(reason),
            LastReply::Truncated
                if limits.is_plain
                    || spent.is_some()
                    || self.continuations >= CONTINUATIONS
                    || self.has_reached_max_tokens(limits) =>
            {
                NextStep::Finish(closing.unwrap_or(FinishReason::Length))
            }
            LastReply::Empty(_) if self.empties > EMPTY_RETRIES => {
                self.end_with_empty_answer(closing, limits)
            }
            LastReply::None | LastReply::ToolCalls | LastReply::Truncated | LastReply::Empty(_) => {
                match spent {
                    Some((code, content)) => NextStep::Fail { code, content, is_retryable: false },
                    None => NextStep::CallModel {
                        closing,
                        continues: self.last_reply == LastReply::Truncated,
                        failures: self.failures.needing_backoff(),
                    },
                }
            }
        }
    }

    /// The reason why the next answer must be the closing one, if there is one.
    fn closing_reason(&self, limits: &TurnLimits<'_>) -> Option<FinishReason> {
        if self.repeats.max_failures() >= limits.repeated_failures {
            return Some(FinishReason::RepeatedFailure);
        }
        (self.rounds >= limits.max_steps).then_some(FinishReason::MaxSteps)
    }

    /// Whether the answer has reached the job's `max_tokens`.
    fn has_reached_max_tokens(&self, limits: &TurnLimits<'_>) -> bool {
        limits.max_tokens.is_some_and(|max| self.answer_tokens >= u64::from(max))
    }

    /// A job that has run tools succeeds even without a final text: it says what was done.
    fn end_with_empty_answer(&self, closing: Option<FinishReason>, limits: &TurnLimits<'_>) -> NextStep {
        if self.rounds > 0 {
            return NextStep::Append(self.stand_in_answer(closing.unwrap_or(FinishReason::Stop), limits));
        }
        NextStep::Fail {
            code: FailureCode::ProviderError,
            content: format!("the model gave an empty answer, {} times", self.empties),
            is_retryable: true,
        }
    }

    /// The records that discard these steps.
    pub fn discard(indices: &[u32]) -> Vec<Record> {
        indices.iter().map(|index| Event::StepDiscarded { index: *index }.into()).collect()
    }
}
