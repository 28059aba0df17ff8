//! Folds the log of an ended job into its spans.

use super::agents::AgentSpans;
use super::attributes::SpanAttributes;
use super::collector::SpanDraft;
use super::options::SpanOptions;
use super::output::{SpanOutput, tool_span_name};
use super::span::{SpanKind, TraceSpan};
use crate::domain::call_times::{CallTimes, ToolResultFields};
use crate::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record, StatusPhase, StepKind};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobStatus;
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::run::{EndedRun, LogStage};
use crate::domain::tool::ToolCall;
use crate::domain::trace_ids::{SpanId, TraceId};
use crate::domain::usage::Usage;

/// Bytes of an answer that are collected for its content.
const ANSWER_BYTES: usize = 64 * 1_024;
/// `gen_ai.agent.name`: jobs name no agent.
const AGENT: &str = "nanoclaw";
/// `error.type` of a model call that ended with the process, or with its lease.
const INTERRUPTED: &str = "interrupted";

/// A tool call without an outcome.
struct OpenToolCall {
    call: ToolCall,
    place: RecordPlace,
}

/// The reason of a good end with the model that answered, if its provider has named another one; or type and
/// message of a failure.
type ModelCallOutcome<'a> = Result<(&'static str, Option<&'a str>), (&'static str, Option<&'a str>)>;

/// What a model call came to.
#[derive(Clone, Copy)]
struct ModelCallEnd<'a> {
    place: RecordPlace,
    model: Option<&'a str>,
    usage: Option<Usage>,
    times: Option<CallTimes>,
    outcome: ModelCallOutcome<'a>,
}

/// Collects the spans of one job, record by record.
pub struct SpanFold<'a> {
    out: SpanOutput<'a>,
    user: UserId,
    /// Whether the log has a part of an answer whose end has not been read yet.
    has_open_answer: bool,
    answer: String,
    answer_calls: Vec<ToolCall>,
    open_calls: Vec<OpenToolCall>,
    /// Sub-agents of open calls.
    agents: AgentSpans,
    /// The last event, if it is an end.
    end: Option<Event>,
}

impl<'a> SpanFold<'a> {
    /// The fold of this user's job, before its first record.
    pub fn new(run: &'a EndedRun, user: UserId, options: &'a SpanOptions) -> Self {
        Self {
            out: SpanOutput::new(run, options, (trace_of(run, run.state.id), started_at_ms(run))),
            user,
            has_open_answer: false,
            answer: String::new(),
            answer_calls: Vec::new(),
            open_calls: Vec::new(),
            agents: AgentSpans::default(),
            end: None,
        }
    }

    /// Takes the next record. Fails if it cannot be read; the next one may follow all the same.
    pub fn push(&mut self, record: &LogRecord) -> Result<(), serde_json::Error> {
        let place = record.place;
        match record.parse()? {
            Record::Event(event) => self.push_event(place, event),
            Record::Mark(mark) => self.push_mark(place, &mark),
        }
        Ok(())
    }

    /// All spans, the root first.
    pub fn finish(mut self) -> Vec<TraceSpan> {
        let code = match &self.end {
            Some(Event::Error { code, .. }) => code.as_str(),
            _ => FailureCode::Cancelled.as_str(),
        };
        for OpenToolCall { call, place } in std::mem::take(&mut self.open_calls) {
            self.agents.end(&mut self.out, &call.id_ref);
            let mut attributes = self.tool_attributes(&call);
            attributes.text("error.type", code);
            let draft = self.tool_draft(place, &call, attributes, Some(String::new()));
            self.out.spans.add_estimated(draft, None);
        }
        let root = self.root();
        self.out.spans.under(root)
    }

    fn push_event(&mut self, place: RecordPlace, event: Event) {
        match event {
            Event::Delta { kind, text, .. } => {
                self.has_open_answer = true;
                if kind == StepKind::Text
                    && self.out.options.include_content
                    && self.answer.len() < ANSWER_BYTES
                {
                    self.answer.push_str(&text);
                }
            }
            Event::CallBegun { .. } => self.has_open_answer = true,
            Event::StepDiscarded { .. } => self.answer.clear(),
            Event::ToolCall { call, is_client, .. } => {
                self.has_open_answer = true;
                if self.out.options.include_content {
                    self.answer_calls.push(call.clone());
                }
                if !is_client {
                    self.open_calls.push(OpenToolCall { call, place });
                }
            }
            Event::ToolResult { id_ref, content, skipped, ended_at_ms, .. } => {
                self.end_tool(&id_ref, &content, skipped, ended_at_ms);
            }
            Event::Status { status, .. } if status != StatusPhase::WaitingApproval => {
                self.cut_off(place, INTERRUPTED);
            }
            Event::Error { code, .. } => {
                self.cut_off(place, code.as_str());
                self.end = Some(event);
            }
            Event::Done { .. } => self.end = Some(event),
            Event::AgentStep { step, times } => self.agents.push_step(&mut self.out, place, step, times),
            Event::Status { .. } | Event::WaitingApproval { .. } | Event::Summary { .. } => {}
        }
    }

    fn push_mark(&mut self, place: RecordPlace, mark: &EngineMark) {
        match mark {
            EngineMark::ModelFinished { finish_reason, usage, model, response_model, times, .. } => {
                // A sentence that stands for an answer has neither.
                if times.is_some() || usage.total_tokens > 0 {
                    let outcome = Ok((reason_name(*finish_reason), response_model.as_deref()));
                    let (model, usage) = (model.as_deref(), Some(*usage));
                    self.end_model_call(ModelCallEnd { place, model, usage, times: *times, outcome });
                }
                self.close_answer();
            }
            EngineMark::ModelFailed { message, code, usage, model, times, .. } => {
                let usage = Some(*usage).filter(|usage| usage.total_tokens > 0);
                let outcome = Err((code.as_str(), Some(message.as_str())));
                let model = model.as_deref();
                self.end_model_call(ModelCallEnd { place, model, usage, times: *times, outcome });
                self.close_answer();
            }
            EngineMark::ToolFinished { id_ref, content, skipped, ended_at_ms } => {
                self.end_tool(id_ref, content, *skipped, *ended_at_ms);
            }
            EngineMark::Spent { model, usage, agent: Some(call) } => {
                let open = self.open_calls.iter().find(|open| open.call.id_ref == call.id_ref);
                if let Some(tool_call) = open.map(|open| self.out.id_of(open.place)) {
                    self.agents.push_model_call(&mut self.out, (place, tool_call), (model, *usage), call);
                }
            }
            _ => {}
        }
    }

    /// Ends a model call whose end is not in the log.
    fn cut_off(&mut self, place: RecordPlace, code: &'static str) {
        if self.has_open_answer {
            let outcome = Err((code, None));
            self.end_model_call(ModelCallEnd { place, model: None, usage: None, times: None, outcome });
            self.close_answer();
        }
    }

    fn close_answer(&mut self) {
        self.has_open_answer = false;
        self.answer.clear();
        self.answer_calls.clear();
    }

    fn end_model_call(&mut self, end: ModelCallEnd<'_>) {
        let ModelCallEnd { place, model, usage, times, outcome } = end;
        let mut attributes = SpanAttributes::of("chat");
        let id = model.unwrap_or(&self.out.run.spec.model);
        self.out.add_model(&mut attributes, id, usage);
        let asked = self.out.model_name(id);
        let name = format!("chat {asked}");
        match outcome {
            Ok((reason, answered)) => {
                attributes.text("gen_ai.response.model", answered.unwrap_or(asked));
                attributes.finish_reason(reason);
            }
            Err((code, _)) => attributes.text("error.type", code),
        }
        if self.out.options.include_content && (!self.answer.is_empty() || !self.answer_calls.is_empty()) {
            let reason = outcome.map_or("error", |(reason, _)| reason);
            let output = self.out.content.output(&self.answer, &self.answer_calls, reason);
            attributes.content("gen_ai.output.messages", &output);
        }
        let error = outcome.err().map(|(_, message)| self.out.error_text(message));
        let (id, parent) = (self.out.id_of(place), self.out.root_id());
        let draft = SpanDraft { id, parent, name, kind: SpanKind::Client, attributes, error };
        match times {
            Some(times) => self.out.spans.add(draft, times),
            None => self.out.spans.add_estimated(draft, None),
        }
    }

    fn tool_attributes(&mut self, call: &ToolCall) -> SpanAttributes {
        self.out.tool_attributes(&call.name, Some(&call.id_ref), &call.arguments)
    }

    /// Ends the call with this id; a result that follows its mark is not another end.
    fn end_tool(&mut self, id_ref: &str, content: &str, skipped: bool, ended_at_ms: Option<u64>) {
        let Some(at) = self.open_calls.iter().position(|open| open.call.id_ref == id_ref) else { return };
        let OpenToolCall { call, place } = self.open_calls.remove(at);
        self.agents.end(&mut self.out, id_ref);
        let result = ToolResultFields::read(content);
        let mut attributes = self.tool_attributes(&call);
        self.out.add_tool_result(&mut attributes, content);
        let mut error = None;
        if skipped {
            attributes.flag("nanoclaw.tool.skipped");
        }
        if result.success == Some(false) {
            attributes.text("error.type", if skipped { "skipped" } else { "tool_error" });
            error = Some(self.out.error_text(result.error.as_deref()));
        }
        let ran_ms = if skipped { 0 } else { result.execution_ms() };
        let draft = self.tool_draft(place, &call, attributes, error);
        match ended_at_ms {
            Some(ended_at_ms) => {
                let started_at_ms = ended_at_ms.saturating_sub(ran_ms);
                self.out.spans.add(draft, CallTimes { started_at_ms, ended_at_ms });
            }
            None => self.out.spans.add_estimated(draft, Some(ran_ms)),
        }
    }

    fn tool_draft(
        &self,
        place: RecordPlace,
        call: &ToolCall,
        attributes: SpanAttributes,
        error: Option<String>,
    ) -> SpanDraft {
        let (id, parent) = (self.out.id_of(place), self.out.root_id());
        SpanDraft {
            id,
            parent,
            name: tool_span_name(&call.name),
            kind: SpanKind::Internal,
            attributes,
            error,
        }
    }

    fn root(&mut self) -> TraceSpan {
        let EndedRun { state, spec, usage, .. } = self.out.run;
        let mut attributes = SpanAttributes::of("invoke_agent");
        attributes.text("gen_ai.agent.name", AGENT);
        attributes.model(&spec.model, self.out.options.models.get(&spec.model));
        attributes.optional("gen_ai.conversation.id", spec.conversation_id.as_ref());
        attributes.usage(usage.total());
        attributes.text("user.id", &self.user.0);
        attributes.text("nanoclaw.job.id", &state.id);
        attributes.text("nanoclaw.job.status", state.status.as_str());
        attributes.number("nanoclaw.job.attempts", u64::from(state.attempt));
        let waited_ms = started_at_ms(self.out.run).saturating_sub(state.created_at_ms);
        attributes.number("nanoclaw.job.queue_wait_ms", waited_ms);
        attributes.positive("nanoclaw.spans.dropped", self.out.spans.dropped());
        if state.log == LogStage::Cut {
            attributes.flag("nanoclaw.log.cut");
        }
        let error = self.add_end(&mut attributes);
        let started_at_ms = started_at_ms(self.out.run);
        TraceSpan {
            trace: trace_of(self.out.run, state.id),
            id: self.out.root_id(),
            parent: spec.trace_parent.map(|client| client.span),
            link: spec.origin.parent().map(|parent| (trace_of(self.out.run, parent), SpanId::root(parent))),
            name: format!("invoke_agent {AGENT}"),
            kind: SpanKind::Internal,
            started_at_ms,
            ended_at_ms: ended_at_ms(self.out.run),
            attributes,
            error,
        }
    }

    /// Adds how the job ended, and what was said if content may be shown. Returns the message of a failure.
    fn add_end(&mut self, attributes: &mut SpanAttributes) -> Option<String> {
        let EndedRun { state, spec, output, hides_input, .. } = self.out.run;
        let (mut error, mut reason) = (None, "error");
        match self.end.take() {
            Some(Event::Done { finish_reason, .. }) => {
                reason = reason_name(finish_reason);
                attributes.finish_reason(reason);
            }
            Some(Event::Error { code, content, .. }) => {
                attributes.text("error.type", code.as_str());
                error = Some(self.out.error_text(Some(&content)));
            }
            _ if state.status != JobStatus::Succeeded => {
                attributes.text("error.type", state.status.as_str());
                error = Some(String::new());
            }
            _ => {}
        }
        if !self.out.options.include_content {
            return error;
        }
        if let Some(prompt) = &spec.system_prompt {
            attributes.content("gen_ai.system_instructions", &self.out.content.parts(prompt).into());
        }
        if !hides_input {
            attributes.content("gen_ai.input.messages", &self.out.content.input(&spec.input));
        }
        if !output.is_empty() {
            attributes.content("gen_ai.output.messages", &self.out.content.output(output, &[], reason));
        }
        error
    }
}

/// The trace of this job, or of the job that has started it: both have the same client, if any.
fn trace_of(run: &EndedRun, job: JobId) -> TraceId {
    run.spec.trace_parent.map_or_else(|| TraceId::of(job), |client| client.trace)
}

/// The first claim, or the acceptance of a job that never ran.
fn started_at_ms(run: &EndedRun) -> u64 {
    run.state.started_at_ms.unwrap_or(run.state.created_at_ms)
}

fn ended_at_ms(run: &EndedRun) -> u64 {
    run.state.finished_at_ms.max(started_at_ms(run))
}

fn reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::MaxSteps => "max_steps",
        FinishReason::RepeatedFailure => "repeated_failure",
    }
}
