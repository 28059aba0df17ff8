//! The agent loop as a pure function: fold the log into a state, ask the state for the next step. Owns every rule of
//! the loop; refuses all I/O, so that a log replayed after a crash leads to the very same step.

use crate::domain::event::{Event, FailureCode, FinishReason, Mark, Phase, Record, StepKind};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::Completion;

/// What the model is told of a call that may or may not have happened (P3).
pub const INTERRUPTED: &str =
    r#"{"success":false,"data":null,"error":"interrupted, outcome unknown","execution_time":0.0}"#;

/// The result of a call that a cancelled job never made.
const CANCELLED: &str = r#"{"success":false,"data":null,"error":"(cancelled)","execution_time":0.0}"#;

/// The bounds that the loop itself enforces.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits {
    /// Model calls before the closing one.
    pub max_steps: u32,
    /// Tokens over all calls.
    pub max_total_tokens: Option<u64>,
    /// Failed calls in a row.
    pub model_failures: u32,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Append these records: they follow from the log alone.
    Append(Vec<Record>),
    /// Call the model; `with_tools` is false for the closing answer. `failures` calls in a row have failed.
    AskModel {
        /// Whether tools are on offer.
        with_tools: bool,
        /// Failed calls just before this one.
        failures: u32,
    },
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

/// A call of the current batch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CallState {
    call: ToolCall,
    started: bool,
    outcome: Option<(String, bool)>,
    published: bool,
}

/// A streamed step that no finished call has sealed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenStep {
    index: u32,
    kind: StepKind,
    text: String,
}

/// The fold of a job's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Model calls that ended well.
    finished_calls: u32,
    /// The last one's reason.
    finish_reason: Option<FinishReason>,
    /// Model calls that failed since.
    failures: u32,
    /// The last failure, while it is not made good.
    failure: Option<(FailureCode, String, bool)>,
    next_index: u32,
    open: Vec<OpenStep>,
    /// The calls of the newest answer.
    batch: Vec<CallState>,
    /// That answer is complete: the next call opens a new batch.
    sealed: bool,
    messages: Vec<Message>,
    used_refs: Vec<String>,
    usage: Usage,
    answer: String,
    ended: bool,
}

impl Turn {
    /// The state that a log means.
    pub fn fold(log: &[Record]) -> Self {
        let mut turn = Self::default();
        for record in log {
            turn.apply(record);
        }
        turn
    }

    /// What this job has added to the conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Tokens spent so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The answer's text, or as much of it as there is.
    pub fn answer(&self) -> String {
        match self.open_text(StepKind::Text) {
            partial if partial.is_empty() => self.answer.clone(),
            partial => partial,
        }
    }

    /// The messages that the conversation keeps when the job ends now: every call with a result, partial text included.
    pub fn closing_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        for state in self.batch.iter().filter(|s| !s.published) {
            let content = state.outcome.as_ref().map_or(CANCELLED, |(content, _)| content).to_owned();
            messages.push(result_message(&state.call, content));
        }
        let partial = self.open_text(StepKind::Text);
        if !partial.is_empty() {
            messages.push(Message::assistant(partial));
        }
        messages
    }

    /// Takes a record into the state. The log's order is the only order.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Event(event) => self.apply_event(event),
            Record::Mark(mark) => self.apply_mark(mark),
        }
    }

    fn apply_event(&mut self, event: &Event) {
        match event {
            Event::Status { status, .. } => self.enter(*status),
            Event::Delta { index, kind, text, .. } => {
                self.see_index(*index);
                match self.open.last_mut().filter(|step| step.index == *index) {
                    Some(step) => step.text.push_str(text),
                    None => self.open.push(OpenStep { index: *index, kind: *kind, text: text.clone() }),
                }
            }
            Event::ToolCall { index, call } => {
                self.see_index(*index);
                if std::mem::take(&mut self.sealed) {
                    self.batch.clear();
                }
                self.used_refs.push(call.id_ref.clone());
                self.batch.push(CallState {
                    call: call.clone(),
                    started: false,
                    outcome: None,
                    published: false,
                });
            }
            Event::ToolResult { index, id_ref, content, .. } => {
                self.see_index(*index);
                let published = self.batch.iter_mut().find(|s| s.call.id_ref == *id_ref && !s.published);
                if let Some(state) = published {
                    state.published = true;
                    self.messages.push(result_message(&state.call, content.clone()));
                }
            }
            Event::StepDiscarded { index } => {
                // Retention may have taken the step itself away; its index is spent all the same.
                self.see_index(*index);
                self.open.retain(|step| step.index != *index);
            }
            Event::Summary { .. } => {}
            Event::Done { .. } | Event::Error { .. } => self.ended = true,
        }
    }

    /// A new run starts with its full budget of failures; a job that had ended and is queued again has not ended.
    fn enter(&mut self, phase: Phase) {
        match phase {
            Phase::Queued => self.ended = false,
            Phase::Running => {
                self.failures = 0;
                self.failure = None;
            }
            Phase::Retrying => {}
        }
    }

    fn apply_mark(&mut self, mark: &Mark) {
        match mark {
            Mark::ModelFinished { finish_reason, usage, .. } => self.seal_call(*finish_reason, *usage),
            Mark::ModelFailed { message, code, retryable, .. } => {
                self.failures = self.failures.saturating_add(1);
                self.failure = Some((*code, message.clone(), *retryable));
            }
            Mark::ModelSwitched { .. } | Mark::Spent { .. } | Mark::Deferred | Mark::ToolWhole { .. } => {}
            Mark::ToolStarted { id_ref } => {
                if let Some(state) = self.waiting_call(id_ref) {
                    state.started = true;
                }
            }
            Mark::ToolFinished { id_ref, content, skipped } => {
                if let Some(state) = self.waiting_call(id_ref) {
                    state.outcome = Some((content.clone(), *skipped));
                }
            }
        }
    }

    fn seal_call(&mut self, finish_reason: FinishReason, usage: Usage) {
        if std::mem::replace(&mut self.sealed, true) {
            self.batch.clear();
        }
        let content = self.open_text(StepKind::Text);
        let thinking = self.open_text(StepKind::Thinking);
        let tool_calls: Vec<_> = self.batch.iter().map(|s| s.call.clone()).collect();
        self.finished_calls = self.finished_calls.saturating_add(1);
        self.finish_reason = Some(finish_reason);
        self.usage += usage;
        self.failures = 0;
        self.failure = None;
        self.open.clear();
        self.answer.clone_from(&content);
        if !content.is_empty() || !tool_calls.is_empty() {
            self.messages.push(Message::Assistant { content, thinking, tool_calls, echo: None });
        }
    }

    fn see_index(&mut self, index: u32) {
        self.next_index = self.next_index.max(index.saturating_add(1));
    }

    fn waiting_call(&mut self, id_ref: &str) -> Option<&mut CallState> {
        self.batch.iter_mut().find(|s| s.call.id_ref == id_ref && s.outcome.is_none() && !s.published)
    }

    fn open_text(&self, kind: StepKind) -> String {
        self.open.iter().filter(|step| step.kind == kind).map(|step| step.text.as_str()).collect()
    }

    /// Whether the log shows that this call of the newest answer had begun.
    pub fn has_started(&self, id_ref: &str) -> bool {
        self.batch.iter().any(|s| s.call.id_ref == id_ref && s.started)
    }

    /// What is to be done next. Asked only while nothing is under way: whatever the log shows as begun and not ended
    /// was cut off.
    pub fn next(&self, limits: &TurnLimits, is_idempotent: &dyn Fn(&str) -> bool) -> Step {
        if self.ended {
            return Step::Rest;
        }
        if !self.open.is_empty() {
            return Step::Append(
                self.open.iter().map(|s| Event::StepDiscarded { index: s.index }.into()).collect(),
            );
        }
        if let Some((code, message, retryable)) = &self.failure
            && (!retryable || self.failures >= limits.model_failures)
        {
            return Step::Fail { code: *code, content: message.clone(), is_mendable: *retryable };
        }
        if let Some(step) = self.next_in_batch(is_idempotent) {
            return step;
        }
        self.next_call(limits)
    }

    /// What the batch still needs: results in order, a word on interrupted calls, or runs.
    fn next_in_batch(&self, is_idempotent: &dyn Fn(&str) -> bool) -> Option<Step> {
        let waiting = self.batch.iter().filter(|s| !s.published);
        let interrupted: Vec<Record> = waiting
            .clone()
            .filter(|s| s.outcome.is_none() && s.started && !is_idempotent(&s.call.name))
            .map(|s| finished_mark(&s.call.id_ref, INTERRUPTED, true))
            .collect();
        if !interrupted.is_empty() {
            return Some(Step::Append(interrupted));
        }
        let publishable = self.publishable(None);
        if !publishable.is_empty() {
            return Some(Step::Append(publishable));
        }
        let calls: Vec<_> = waiting.filter(|s| s.outcome.is_none()).map(|s| s.call.clone()).collect();
        if calls.is_empty() { None } else { Some(Step::RunTools(calls)) }
    }

    fn next_call(&self, limits: &TurnLimits) -> Step {
        let over = limits.max_total_tokens.filter(|max| self.usage.total_tokens >= *max);
        let wants_more = self.finished_calls == 0 || !self.batch.is_empty();
        match over {
            Some(max) if wants_more && self.finished_calls > 0 => Step::Fail {
                code: FailureCode::MaxTotalTokens,
                content: format!("{} tokens are spent; max_total_tokens is {max}", self.usage.total_tokens),
                is_mendable: false,
            },
            _ if wants_more => {
                Step::AskModel { with_tools: self.finished_calls < limits.max_steps, failures: self.failures }
            }
            _ if self.finished_calls > limits.max_steps => Step::Finish(FinishReason::MaxSteps),
            _ => Step::Finish(
                self.finish_reason.filter(|r| *r != FinishReason::ToolCalls).unwrap_or(FinishReason::Stop),
            ),
        }
    }

    /// The results that may be published now: those with an outcome, up to the first call without one. `fresh` is an
    /// outcome that the state does not know yet.
    fn publishable(&self, fresh: Option<(&str, &str, bool)>) -> Vec<Record> {
        let outcome = |state: &CallState| match (&state.outcome, fresh) {
            (Some((content, skipped)), _) => Some((content.clone(), *skipped)),
            (None, Some((id_ref, content, skipped))) if state.call.id_ref == id_ref => {
                Some((content.to_owned(), skipped))
            }
            _ => None,
        };
        let ready = self.batch.iter().filter(|s| !s.published).map_while(|s| Some((s, outcome(s)?)));
        (self.next_index..)
            .zip(ready)
            .map(|(index, (state, (content, skipped)))| {
                let (id_ref, name) = (state.call.id_ref.clone(), state.call.name.clone());
                Event::ToolResult { index, id_ref, name, content, skipped }.into()
            })
            .collect()
    }

    /// The record of a piece that has just arrived from the model.
    pub fn piece(&self, kind: StepKind, text: &str) -> Record {
        let (index, offset) = match self.open.last() {
            Some(step) if step.kind == kind => (step.index, step.text.len() as u64),
            _ => (self.next_index, 0),
        };
        Event::Delta { index, kind, offset, first_seq: 0, text: text.to_owned() }.into()
    }

    /// The records that seal a call to the model which ended well. A closing call's tool calls are dropped.
    pub fn seal(&self, completion: Completion, with_tools: bool, usage: Usage) -> Vec<Record> {
        let Completion { tool_calls, finish_reason, echo } = completion;
        let mut records: Vec<Record> = Vec::new();
        let mut taken = self.used_refs.clone();
        let kept = if with_tools { tool_calls } else { Vec::new() };
        for (index, mut call) in (self.next_index..).zip(kept) {
            // Some providers send no id, or count from zero in every answer; within a job an id names one call.
            if call.id_ref.is_empty() || taken.contains(&call.id_ref) {
                call.id_ref = free_ref(index, &taken);
            }
            taken.push(call.id_ref.clone());
            records.push(Event::ToolCall { index, call }.into());
        }
        records.push(Mark::ModelFinished { finish_reason, usage, model: None, echo }.into());
        records
    }

    /// The records that follow from a call's outcome: its result and those that waited for it, or a mark that it waits.
    /// The state must have been brought up to date with every record before.
    pub fn settle(&self, id_ref: &str, content: &str, skipped: bool) -> Vec<Record> {
        let results = self.publishable(Some((id_ref, content, skipped)));
        if results.is_empty() { vec![finished_mark(id_ref, content, skipped)] } else { results }
    }
}

/// An id for a call that brought none of its own; one that the model made up in this style is not taken twice.
fn free_ref(index: u32, taken: &[String]) -> String {
    let plain = format!("call_{index}");
    let numbered = (2_u64..).map(|n| format!("call_{index}_{n}"));
    std::iter::once(plain).chain(numbered).find(|id_ref| !taken.contains(id_ref)).unwrap_or_default()
}

fn finished_mark(id_ref: &str, content: &str, skipped: bool) -> Record {
    Mark::ToolFinished { id_ref: id_ref.to_owned(), content: content.to_owned(), skipped }.into()
}

fn result_message(call: &ToolCall, content: String) -> Message {
    Message::Tool { id_ref: call.id_ref.clone(), name: call.name.clone(), content }
}

#[cfg(test)]
mod tests;
