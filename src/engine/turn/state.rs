//! The state that a job's log folds into, and the records that follow from it.

use super::calls::{CallApproval, CallBatch, finished_mark, result_message};
use super::failures::{ModelFailure, ModelFailures};
use super::recorded_prompt::RecordedPrompt;
use super::refused_answer::{AnswerRepairs, RefusedAnswer};
use super::repeated_failures::RepeatedFailures;
use crate::domain::event::{EngineMark, Event, FinishReason, Record, StatusPhase, StepKind};
use crate::domain::message::{Message, ProviderReplay};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::Completion;
use std::collections::BTreeSet;

/// The kind of the newest answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LastReply {
    /// There is none yet.
    #[default]
    None,
    ToolCalls,
    /// Text that ended by itself.
    Complete(FinishReason),
    /// Text that was cut off at its token bound.
    Truncated,
    /// No text, with the reason for its end.
    Empty(FinishReason),
}

/// A streamed step of a call that is not sealed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenStep {
    pub(super) index: u32,
    pub(super) kind: StepKind,
    pub(super) text: String,
    /// The function's name, of a call's arguments.
    pub(super) name: String,
}

/// The summary that replaces the oldest messages in the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortenedContext {
    /// The summary.
    pub content: String,
    /// How many of the newest messages of history and input are still sent.
    pub kept_history: usize,
    /// How many of the oldest messages of this job are not sent.
    pub omitted_job_messages: usize,
    /// The summary does not cover all that is left out.
    pub is_stub: bool,
}

/// The fold of a job's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnState {
    /// Answers with tool calls.
    pub(super) rounds: u32,
    pub(super) last_reply: LastReply,
    /// Continuations of a truncated answer in a row.
    pub(super) continuations: u32,
    /// Empty answers in a row.
    pub(super) empties: u32,
    /// Completion tokens of the current answer with its continuations.
    pub(super) answer_tokens: u64,
    pub(super) failures: ModelFailures,
    pub(super) next_index: u32,
    pub(super) open: Vec<OpenStep>,
    /// The cost of the open steps is in the log.
    pub(super) is_billed: bool,
    /// A tool result was too long for the model; the log has it in full.
    has_results: bool,
    pub(super) calls: CallBatch,
    pub(super) repeats: RepeatedFailures,
    messages: Vec<Message>,
    shortened: Option<ShortenedContext>,
    pub(super) repairs: AnswerRepairs,
    used_refs: Vec<String>,
    /// Tools whose calls a user has approved for the rest of the job.
    pub(super) always_approved: BTreeSet<String>,
    prompt: RecordedPrompt,
    pub(super) usage: Usage,
    answer: String,
    /// The text that ended the newest answer, if the provider has said so.
    stop_sequence: Option<String>,
    pub(super) is_ended: bool,
}

impl TurnState {
    /// The state after these records.
    pub fn fold(log: &[Record]) -> Self {
        let mut turn = Self::default();
        for record in log {
            turn.apply(record);
        }
        turn
    }

    /// The messages that this job has added to the conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The summary that replaces the oldest messages, if they are left out.
    pub fn shortened(&self) -> Option<&ShortenedContext> {
        self.shortened.as_ref()
    }

    /// The newest answer, if it was refused.
    pub fn refused(&self) -> Option<&RefusedAnswer> {
        self.repairs.refused()
    }

    /// Prompts in a row that did not fit.
    pub fn overflows(&self) -> u32 {
        self.failures.overflows()
    }

    /// What the log has of the prompt besides messages.
    pub fn prompt(&self) -> &RecordedPrompt {
        &self.prompt
    }

    /// Whether whole results can be read with `read_result`.
    pub fn has_results(&self) -> bool {
        self.has_results
    }

    /// Whether the last call to a model has failed.
    pub fn has_failed(&self) -> bool {
        self.failures.has_failed()
    }

    /// The text of the last failure since the last answer.
    pub fn failure_message(&self) -> Option<&str> {
        self.failures.message()
    }

    /// Whether one of these models may be called instead of the current one.
    pub fn has_fallback(&self, models: &[String]) -> bool {
        self.failures.fallback(models).is_some()
    }

    /// The fallback model that is called instead of the job's model.
    pub fn model(&self) -> Option<&str> {
        self.failures.model()
    }

    /// Whether the log has any step.
    pub fn has_begun(&self) -> bool {
        self.next_index > 0 || self.is_ended
    }

    /// Whether the last prompt did not fit and has not been shortened since.
    pub fn needs_shorter_prompt(&self) -> bool {
        self.failures.needs_shorter_prompt()
    }

    /// Whether the newest answer was cut off at its bound.
    pub fn is_cut(&self) -> bool {
        self.last_reply == LastReply::Truncated
    }

    /// Completion tokens of the current answer.
    pub fn answer_tokens(&self) -> u64 {
        self.answer_tokens
    }

    /// Tokens spent so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The text of the request's `stop` that ended the newest answer, if the provider has said so.
    pub fn stop_sequence(&self) -> Option<&str> {
        self.stop_sequence.as_deref()
    }

    /// Answers so far, including the current one.
    pub fn steps(&self) -> u32 {
        self.rounds.saturating_add(1)
    }

    /// The answer's text, or as much of it as there is.
    pub fn answer(&self) -> String {
        match self.open_text(StepKind::Text) {
            partial if self.last_reply == LastReply::Truncated => format!("{}{partial}", self.answer),
            partial if partial.is_empty() => self.answer.clone(),
            partial => partial,
        }
    }

    /// Whether the newest answer ended without any text.
    pub(super) fn has_no_answer(&self) -> bool {
        self.answer.trim().is_empty()
    }

    /// The records that refuse the newest complete answer, if it has a fault and another one may be asked
    /// for.
    pub(super) fn refuse_answer(&self, fault_of: &dyn Fn(&str) -> Option<String>) -> Option<Vec<Record>> {
        let is_answer = self.last_reply == LastReply::Complete(FinishReason::Stop) && !self.has_no_answer();
        if !is_answer || !self.repairs.are_left() {
            return None;
        }
        Some(self.repairs.refuse(fault_of(&self.answer)?))
    }

    /// The messages that the conversation keeps when the job ends now: partial text included, every call with
    /// a result.
    pub fn closing_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        messages.extend(self.calls.closing());
        let partial = self.open_text(StepKind::Text);
        match messages.last_mut().filter(|_| self.last_reply == LastReply::Truncated) {
            Some(Message::Assistant { content, .. }) => content.push_str(&partial),
            _ if partial.is_empty() => {}
            _ => messages.push(Message::assistant(partial)),
        }
        messages
    }

    /// Applies the next record of the log.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Event(event) => self.apply_event(event),
            Record::Mark(mark) => self.apply_mark(mark),
        }
    }

    fn apply_event(&mut self, event: &Event) {
        match event {
            Event::Status { status, .. } => self.enter_phase(*status),
            Event::CallBegun { index, name } => self.open_step(*index, StepKind::Arguments, name),
            Event::Delta { index, kind, text, .. } => {
                if !self.open.iter().any(|step| step.index == *index) {
                    self.open_step(*index, *kind, "");
                }
                if let Some(step) = self.open.iter_mut().rfind(|step| step.index == *index) {
                    step.text.push_str(text);
                }
            }
            Event::ToolCall { index, call, is_client } => {
                self.reserve_index(*index);
                self.used_refs.push(call.id_ref.clone());
                self.calls.add(call.clone(), *is_client);
            }
            Event::ToolResult { index, id_ref, content, skipped, .. } => {
                self.reserve_index(*index);
                self.publish_result(id_ref, content, *skipped);
            }
            Event::StepDiscarded { index } => {
                // The index stays used even when retention has deleted the step itself.
                self.reserve_index(*index);
                self.open.retain(|step| step.index != *index);
                self.is_billed &= !self.open.is_empty();
            }
            Event::Summary { content, kept_messages: kept, omitted_messages: said, is_stub } => {
                let (content, is_stub) = (content.clone(), *is_stub);
                self.failures.note_shortened();
                let (kept_history, omitted_job_messages) = (*kept, *said);
                self.shortened =
                    Some(ShortenedContext { content, kept_history, omitted_job_messages, is_stub });
            }
            Event::AgentStep { step, .. } if step.is_tool_call() => self.calls.count_agent_call(),
            Event::WaitingApproval { .. } | Event::AgentStep { .. } => {}
            Event::Done { .. } | Event::Error { .. } => self.is_ended = true,
        }
    }

    fn publish_result(&mut self, id_ref: &str, content: &str, skipped: bool) {
        let Some(call) = self.calls.publish(id_ref) else { return };
        if !skipped {
            self.repeats.record(call, content);
        }
        self.messages.push(result_message(call, content.to_owned()));
    }

    /// A new phase of the job. A retried job has not ended; its conversation may have grown meanwhile, so the
    /// prompt is shortened again. A new run has its full budget of empty answers, unless the job was only
    /// deferred.
    fn enter_phase(&mut self, phase: StatusPhase) {
        match phase {
            StatusPhase::Queued if std::mem::take(&mut self.is_ended) => {
                self.shortened = None;
                self.prompt.begin_again();
                self.failures.end_run_failed();
            }
            StatusPhase::Running if self.failures.begin_run() => self.empties = 0,
            StatusPhase::Queued | StatusPhase::Running | StatusPhase::WaitingApproval => {}
            StatusPhase::Retrying => self.failures.end_run_failed(),
        }
    }

    fn apply_mark(&mut self, mark: &EngineMark) {
        match mark {
            EngineMark::ModelFinished { finish_reason, usage, echo, stop_sequence, .. } => {
                self.stop_sequence.clone_from(stop_sequence);
                self.seal_call(*finish_reason, *usage, echo.clone());
            }
            EngineMark::ModelFailed { message, code, retryable, elsewhere, usage, .. } => {
                self.usage += *usage;
                self.is_billed = !self.open.is_empty();
                let (code, message, retryable, elsewhere) = (*code, message.clone(), *retryable, *elsewhere);
                self.failures.record(ModelFailure { code, message, retryable, elsewhere });
            }
            EngineMark::ModelSwitched { model } => self.failures.switch(model),
            EngineMark::Spent { usage, .. } => {
                self.usage += *usage;
                self.is_billed = !self.open.is_empty();
            }
            EngineMark::Deferred => self.failures.defer(),
            EngineMark::AnswerRefused { fault } => self.note_refused(fault),
            EngineMark::ToolWhole { .. } => self.has_results = true,
            EngineMark::Instructions { texts, results } => self.prompt.record(texts, results),
            EngineMark::FileSeen { path, version } => self.prompt.see_file(path, version),
            // Only decisions count: a request that was interrupted is made again.
            EngineMark::ApprovalAsked { .. } => {}
            EngineMark::Approved { id_refs, always } => {
                self.calls.decide(id_refs, &CallApproval::Approved);
                self.always_approved.extend(always.iter().cloned());
            }
            EngineMark::Denied { id_refs, reason } => {
                self.calls.decide(id_refs, &CallApproval::Denied(reason.clone()));
            }
            EngineMark::ToolStarted { id_ref } => self.calls.start(id_ref),
            EngineMark::ToolFinished { id_ref, content, skipped, ended_at_ms } => {
                self.calls.settle(id_ref, (content.clone(), *skipped, *ended_at_ms));
            }
        }
    }

    fn seal_call(&mut self, finish_reason: FinishReason, usage: Usage, echo: Option<ProviderReplay>) {
        let content = self.open_text(StepKind::Text);
        let thinking = self.open_text(StepKind::Thinking);
        let tool_calls = self.calls.seal();
        let previous = self.last_reply;
        self.usage += usage;
        self.failures.reset();
        let steps = self.open.iter().map(|step| step.index);
        self.repairs.note_answer(steps, previous == LastReply::Truncated);
        self.open.clear();
        self.is_billed = false;
        let reason = match finish_reason {
            FinishReason::ToolCalls => FinishReason::Stop,
            reason => reason,
        };
        self.last_reply = match reason {
            _ if !tool_calls.is_empty() => LastReply::ToolCalls,
            FinishReason::ContentFilter => LastReply::Complete(reason),
            // A continuation that added nothing.
            _ if content.trim().is_empty() && previous == LastReply::Truncated => {
                LastReply::Complete(FinishReason::Stop)
            }
            _ if content.trim().is_empty() => LastReply::Empty(reason),
            FinishReason::Length => LastReply::Truncated,
            reason => LastReply::Complete(reason),
        };
        self.count_reply(previous, usage);
        let continues = previous == LastReply::Truncated;
        if continues {
            self.answer.push_str(&content);
        } else if !self.is_empty_reply() {
            self.answer.clone_from(&content);
        }
        if content.trim().is_empty() && tool_calls.is_empty() {
            return;
        }
        match self.messages.last_mut().filter(|_| continues) {
            // A continued answer is one message; the provider's signature of one part does not cover the
            // whole.
            Some(Message::Assistant { content: text, thinking: reasoning, tool_calls: calls, echo }) => {
                text.push_str(&content);
                reasoning.push_str(&thinking);
                *calls = tool_calls;
                *echo = None;
            }
            _ => self.messages.push(Message::Assistant { content, thinking, tool_calls, echo }),
        }
    }

    /// Takes the newest answer out of the conversation.
    fn note_refused(&mut self, fault: &str) {
        let is_answer = |message: &mut Message| matches!(message, Message::Assistant { .. });
        drop(self.messages.pop_if(is_answer));
        self.repairs.note_refused(std::mem::take(&mut self.answer), fault);
        self.last_reply = LastReply::None;
    }

    /// Counts rounds, continuations and empty answers.
    fn count_reply(&mut self, previous: LastReply, usage: Usage) {
        let tokens = if previous == LastReply::Truncated { self.answer_tokens } else { 0 };
        self.answer_tokens = tokens.saturating_add(usage.completion_tokens);
        match self.last_reply {
            LastReply::ToolCalls => self.rounds = self.rounds.saturating_add(1),
            LastReply::Empty(_) => self.empties = self.empties.saturating_add(1),
            LastReply::Truncated if previous == LastReply::Truncated => {
                self.continuations = self.continuations.saturating_add(1);
            }
            LastReply::None | LastReply::Complete(_) | LastReply::Truncated => {}
        }
        if !self.is_empty_reply() {
            self.empties = 0;
        }
        if self.last_reply != LastReply::Truncated {
            self.continuations = 0;
        }
    }

    fn is_empty_reply(&self) -> bool {
        matches!(self.last_reply, LastReply::Empty(_))
    }

    fn open_step(&mut self, index: u32, kind: StepKind, name: &str) {
        self.reserve_index(index);
        self.open.push(OpenStep { index, kind, text: String::new(), name: name.to_owned() });
    }

    fn reserve_index(&mut self, index: u32) {
        self.next_index = self.next_index.max(index.saturating_add(1));
    }

    fn open_text(&self, kind: StepKind) -> String {
        self.open.iter().filter(|step| step.kind == kind).map(|step| step.text.as_str()).collect()
    }

    /// Whether the log has a start mark of this call of the newest answer.
    pub fn has_started(&self, id_ref: &str) -> bool {
        self.calls.has_started(id_ref)
    }

    /// The call of the newest answer with this id, if it has no outcome yet.
    pub fn unsettled_call(&self, id_ref: &str) -> Option<&ToolCall> {
        self.calls.find(id_ref)
    }

    /// The ids of the approved calls of the newest answer, those of tools that are approved always included.
    pub fn approved(&self) -> Vec<String> {
        self.calls.approved(&self.always_approved)
    }

    /// The record of a streamed piece of the model's answer.
    pub fn delta(&self, kind: StepKind, text: &str) -> Record {
        let (index, offset) = match self.open.last() {
            Some(step) if step.kind == kind => (step.index, step.text.len() as u64),
            _ => (self.next_index, 0),
        };
        Event::Delta { index, kind, offset, first_seq: 0, text: text.to_owned() }.into()
    }

    /// The records that turn the streamed text of the open call into reasoning: its steps are discarded, and
    /// a step of reasoning has their text.
    pub fn text_as_thinking(&self) -> Vec<Record> {
        let is_text = |step: &&OpenStep| step.kind == StepKind::Text;
        let discarded =
            self.open.iter().filter(is_text).map(|step| Event::StepDiscarded { index: step.index });
        let mut records: Vec<Record> = discarded.map(Record::from).collect();
        let text = self.open_text(StepKind::Text).trim().to_owned();
        if !text.is_empty() {
            let (index, kind) = (self.next_index, StepKind::Thinking);
            records.push(Event::Delta { index, kind, offset: 0, first_seq: 0, text }.into());
        }
        records
    }

    /// The records that seal a completed model call. Tool calls of a closing answer (`with_tools: false`) are
    /// dropped. `is_client` names the functions of the client.
    pub fn seal(
        &self,
        completion: Completion,
        with_tools: bool,
        usage: Usage,
        is_client: &dyn Fn(&str) -> bool,
    ) -> Vec<Record> {
        let (tool_calls, end) = completion.into_end(usage, self.failures.model().map(str::to_owned));
        let mut calls: Vec<Record> = Vec::new();
        let mut used_refs = self.used_refs.clone();
        let accepted_calls = if with_tools { tool_calls } else { Vec::new() };
        let (mut streamed, mut free_indices) = (self.streamed_calls().peekable(), self.next_index..);
        for mut call in accepted_calls {
            let begun = streamed.next_if(|step| step.begins(&call)).map(|step| step.index);
            let Some(index) = begun.or_else(|| free_indices.next()) else { break };
            // Some providers send no id or count from zero in every answer; an id must be unique within the
            // job.
            if call.id_ref.is_empty() || used_refs.contains(&call.id_ref) {
                call.id_ref = free_ref(index, &used_refs);
            }
            used_refs.push(call.id_ref.clone());
            let is_client = is_client(&call.name);
            calls.push(Event::ToolCall { index, call, is_client }.into());
        }
        // Readers drop the pieces of calls that the answer does not have.
        let mut records = Self::discard(&streamed.map(|step| step.index).collect::<Vec<_>>());
        records.extend(calls);
        records.push(end.into());
        records
    }

    /// The records of a call's outcome: its result and those that waited for it, or a mark if it has to wait
    /// for its turn in call order. Every earlier record must have been applied.
    pub fn settle(&self, id_ref: &str, content: &str, skipped: bool) -> Vec<Record> {
        let results = self.calls.publishable(self.next_index, Some((id_ref, content, skipped)));
        if results.is_empty() { vec![finished_mark(id_ref, content, skipped)] } else { results }
    }
}

/// A new id for a call without a usable one.
fn free_ref(index: u32, used_refs: &[String]) -> String {
    let first_choice = format!("call_{index}");
    let numbered = (2_u64..).map(|n| format!("call_{index}_{n}"));
    std::iter::once(first_choice)
        .chain(numbered)
        .find(|id_ref| !used_refs.contains(id_ref))
        .unwrap_or_default()
}
