//! The agent loop as a pure function: fold the log into a state, ask the state for the next step (`next`). Owns the fold
//! and the records that follow from it; refuses all I/O, so that a log replayed after a crash leads to the very same step.

mod calls;
mod next;
mod repeats;
mod trouble;

pub(super) use calls::CANCELLED;
pub use calls::INTERRUPTED;
pub use next::{Rules, Step, TurnLimits};

use crate::domain::event::{EngineMark, Event, FinishReason, Record, StatusPhase, StepKind};
use crate::domain::message::{Message, ProviderReplay};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::Completion;
use calls::{Calls, Verdict, finished_mark, result_message};
use next::Said;
use repeats::Repeats;
use trouble::{Failure, Trouble};

/// A streamed step that no finished call has sealed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenStep {
    index: u32,
    kind: StepKind,
    text: String,
}

/// What the oldest messages have come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened {
    /// What stands for them.
    pub content: String,
    /// Of the history and the input, so many of the newest messages are sent.
    pub kept: usize,
    /// Of this job's own messages, so many of the oldest are not sent.
    pub said: usize,
    /// It does not tell of all that is left out.
    pub is_stub: bool,
}

/// The fold of a job's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Answers that asked for tools.
    rounds: u32,
    said: Said,
    /// Answers in a row that were cut, and that were empty.
    continuations: u32,
    empties: u32,
    /// Completion tokens of the answer under way, its continuations included.
    answer_tokens: u64,
    trouble: Trouble,
    next_index: u32,
    open: Vec<OpenStep>,
    /// What the open steps cost is in the log.
    paid: bool,
    /// A result was too long for the model and is kept whole.
    has_results: bool,
    calls: Calls,
    repeats: Repeats,
    messages: Vec<Message>,
    shortened: Option<Shortened>,
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

    /// What the oldest messages have come to, if they have been left out.
    pub fn shortened(&self) -> Option<&Shortened> {
        self.shortened.as_ref()
    }

    /// Prompts in a row that did not fit.
    pub fn overflows(&self) -> u32 {
        self.trouble.overflows()
    }

    /// Whether there are results that are kept whole.
    pub fn has_results(&self) -> bool {
        self.has_results
    }

    /// Whether the last call to a model has failed.
    pub fn has_failed(&self) -> bool {
        self.trouble.has_failed()
    }

    /// Whether another of these models may be asked instead of the current one.
    pub fn has_stand_in(&self, models: &[String]) -> bool {
        self.trouble.stand_in(models).is_some()
    }

    /// Who is asked instead of the job's model.
    pub fn model(&self) -> Option<&str> {
        self.trouble.model()
    }

    /// Whether the last prompt did not fit, and nothing has been left out since.
    pub fn must_shorten(&self) -> bool {
        self.trouble.wants_less()
    }

    /// Whether the newest answer was cut and has to go on.
    pub fn is_cut(&self) -> bool {
        self.said == Said::Cut
    }

    /// Tokens of the answer under way.
    pub fn answer_tokens(&self) -> u64 {
        self.answer_tokens
    }

    /// Tokens spent so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Answers so far, the one under way included.
    pub fn steps(&self) -> u32 {
        self.rounds.saturating_add(1)
    }

    /// The answer's text, or as much of it as there is.
    pub fn answer(&self) -> String {
        match self.open_text(StepKind::Text) {
            partial if self.said == Said::Cut => format!("{}{partial}", self.answer),
            partial if partial.is_empty() => self.answer.clone(),
            partial => partial,
        }
    }

    /// The messages that the conversation keeps when the job ends now: every call with a result, partial text included.
    pub fn closing_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        messages.extend(self.calls.closing());
        let partial = self.open_text(StepKind::Text);
        match messages.last_mut().filter(|_| self.said == Said::Cut) {
            Some(Message::Assistant { content, .. }) => content.push_str(&partial),
            _ if partial.is_empty() => {}
            _ => messages.push(Message::assistant(partial)),
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
                self.used_refs.push(call.id_ref.clone());
                self.calls.add(call.clone());
            }
            Event::ToolResult { index, id_ref, content, skipped, .. } => {
                self.see_index(*index);
                self.hear(id_ref, content, *skipped);
            }
            Event::StepDiscarded { index } => {
                // Retention may have taken the step itself away; its index is spent all the same.
                self.see_index(*index);
                self.open.retain(|step| step.index != *index);
                self.paid &= !self.open.is_empty();
            }
            Event::Summary { content, kept, said, is_stub } => {
                let (content, is_stub) = (content.clone(), *is_stub);
                self.trouble.lighten();
                self.shortened = Some(Shortened { content, kept: *kept, said: *said, is_stub });
            }
            Event::WaitingApproval { .. } | Event::AgentStep(_) => {}
            Event::Done { .. } | Event::Error { .. } => self.ended = true,
        }
    }

    fn hear(&mut self, id_ref: &str, content: &str, skipped: bool) {
        let Some(call) = self.calls.publish(id_ref) else { return };
        if !skipped {
            self.repeats.note(call, content);
        }
        self.messages.push(result_message(call, content.to_owned()));
    }

    /// A job that had ended and is queued again has not ended. Others may have spoken in its conversation since, so what
    /// was left out is counted anew. A run that was not only put off asks again for words that did not come.
    fn enter(&mut self, phase: StatusPhase) {
        match phase {
            StatusPhase::Queued if std::mem::take(&mut self.ended) => {
                self.shortened = None;
                self.trouble.give_up_run();
            }
            StatusPhase::Running if self.trouble.begin_run() => self.empties = 0,
            StatusPhase::Queued | StatusPhase::Running | StatusPhase::WaitingApproval => {}
            StatusPhase::Retrying => self.trouble.give_up_run(),
        }
    }

    fn apply_mark(&mut self, mark: &EngineMark) {
        match mark {
            EngineMark::ModelFinished { finish_reason, usage, echo, .. } => {
                self.seal_call(*finish_reason, *usage, echo.clone());
            }
            EngineMark::ModelFailed { message, code, retryable, elsewhere, usage, .. } => {
                self.usage += *usage;
                self.paid = !self.open.is_empty();
                let (code, message, retryable, elsewhere) = (*code, message.clone(), *retryable, *elsewhere);
                self.trouble.note(Failure { code, message, retryable, elsewhere });
            }
            EngineMark::ModelSwitched { model } => self.trouble.switch(model),
            EngineMark::Spent { usage, .. } => {
                self.usage += *usage;
                self.paid = !self.open.is_empty();
            }
            EngineMark::Deferred => self.trouble.defer(),
            EngineMark::ToolWhole { .. } => self.has_results = true,
            // Only what was decided counts: who asked and was cut off asks again.
            EngineMark::ApprovalAsked { .. } => {}
            EngineMark::Approved { id_refs } => self.calls.decide(id_refs, &Verdict::Approved),
            EngineMark::Denied { id_refs, reason } => {
                self.calls.decide(id_refs, &Verdict::Denied(reason.clone()));
            }
            EngineMark::ToolStarted { id_ref } => self.calls.start(id_ref),
            EngineMark::ToolFinished { id_ref, content, skipped } => {
                self.calls.settle(id_ref, content, *skipped)
            }
        }
    }

    fn seal_call(&mut self, finish_reason: FinishReason, usage: Usage, echo: Option<ProviderReplay>) {
        let content = self.open_text(StepKind::Text);
        let thinking = self.open_text(StepKind::Thinking);
        let tool_calls = self.calls.seal();
        let before = self.said;
        self.usage += usage;
        self.trouble.forget();
        self.open.clear();
        self.paid = false;
        self.said = match finish_reason {
            _ if !tool_calls.is_empty() => Said::Calls,
            FinishReason::ContentFilter => Said::Whole(finish_reason),
            // Asked to go on, it had nothing to add.
            _ if content.trim().is_empty() && before == Said::Cut => Said::Whole(FinishReason::Stop),
            _ if content.trim().is_empty() => Said::Empty,
            FinishReason::Length => Said::Cut,
            FinishReason::ToolCalls => Said::Whole(FinishReason::Stop),
            _ => Said::Whole(finish_reason),
        };
        self.count(before, usage);
        let goes_on = before == Said::Cut;
        if goes_on {
            self.answer.push_str(&content);
        } else if self.said != Said::Empty {
            self.answer.clone_from(&content);
        }
        if content.trim().is_empty() && tool_calls.is_empty() {
            return;
        }
        match self.messages.last_mut().filter(|_| goes_on) {
            // One answer in two parts is one message; a signature of a part says nothing of the whole.
            Some(Message::Assistant { content: said, thinking: thought, tool_calls: calls, echo }) => {
                said.push_str(&content);
                thought.push_str(&thinking);
                *calls = tool_calls;
                *echo = None;
            }
            _ => self.messages.push(Message::Assistant { content, thinking, tool_calls, echo }),
        }
    }

    /// Counts rounds, and what in a row is cut or empty.
    fn count(&mut self, before: Said, usage: Usage) {
        let tokens = if before == Said::Cut { self.answer_tokens } else { 0 };
        self.answer_tokens = tokens.saturating_add(usage.completion_tokens);
        match self.said {
            Said::Calls => self.rounds = self.rounds.saturating_add(1),
            Said::Empty => self.empties = self.empties.saturating_add(1),
            Said::Cut if before == Said::Cut => self.continuations = self.continuations.saturating_add(1),
            Said::Nothing | Said::Whole(_) | Said::Cut => {}
        }
        if self.said != Said::Empty {
            self.empties = 0;
        }
        if self.said != Said::Cut {
            self.continuations = 0;
        }
    }

    fn see_index(&mut self, index: u32) {
        self.next_index = self.next_index.max(index.saturating_add(1));
    }

    fn open_text(&self, kind: StepKind) -> String {
        self.open.iter().filter(|step| step.kind == kind).map(|step| step.text.as_str()).collect()
    }

    /// Whether the log shows that this call of the newest answer had begun.
    pub fn has_started(&self, id_ref: &str) -> bool {
        self.calls.has_started(id_ref)
    }

    /// The call of the newest answer that is named like this and has no outcome yet.
    pub fn unsettled_call(&self, id_ref: &str) -> Option<&ToolCall> {
        self.calls.find(id_ref)
    }

    /// The calls of the newest answer that somebody has approved of.
    pub fn approved(&self) -> Vec<String> {
        self.calls.approved()
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
        let model = self.trouble.model().map(str::to_owned);
        records.push(EngineMark::ModelFinished { finish_reason, usage, model, echo }.into());
        records
    }

    /// The records that follow from a call's outcome: its result and those that waited for it, or a mark that it waits.
    /// The state must have been brought up to date with every record before.
    pub fn settle(&self, id_ref: &str, content: &str, skipped: bool) -> Vec<Record> {
        let results = self.calls.publishable(self.next_index, Some((id_ref, content, skipped)));
        if results.is_empty() { vec![finished_mark(id_ref, content, skipped)] } else { results }
    }
}

/// An id for a call that brought none of its own; one that the model made up in this style is not taken twice.
fn free_ref(index: u32, taken: &[String]) -> String {
    let plain = format!("call_{index}");
    let numbered = (2_u64..).map(|n| format!("call_{index}_{n}"));
    std::iter::once(plain).chain(numbered).find(|id_ref| !taken.contains(id_ref)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
