//! The spans of sub-agents: one for each agent below that of its tool call, and its own calls below that. An
//! agent's span reaches from the begin of its first recorded call to the end of its last one. Logs without
//! times of these calls have no such spans.

use super::attributes::SpanAttributes;
use super::collector::SpanDraft;
use super::output::{SpanOutput, span_name, tool_span_name};
use super::span::SpanKind;
use crate::domain::call_times::{AgentModelCall, CallTimes, ToolResultFields};
use crate::domain::event::{AgentAction, AgentStep};
use crate::domain::log_chain::RecordPlace;
use crate::domain::trace_ids::SpanId;
use crate::domain::usage::Usage;
use std::collections::VecDeque;

/// `error.type` of a failure whose kind the log does not name.
const OTHER: &str = "_OTHER";

/// The agents of tool calls that have not ended.
#[derive(Default)]
pub(super) struct AgentSpans(Vec<AgentWork>);

/// One agent so far.
struct AgentWork {
    id_ref: String,
    agent: String,
    id: SpanId,
    /// That of the tool call.
    parent: SpanId,
    model: String,
    usage: Usage,
    times: CallTimes,
    /// Its last model call failed.
    has_failed: bool,
    open_calls: VecDeque<OpenAgentCall>,
}

/// A tool call without a result. Agents get their results in the order of their calls.
struct OpenAgentCall {
    id: SpanId,
    name: String,
    arguments: String,
}

impl AgentWork {
    fn extend(&mut self, times: CallTimes) {
        self.times.started_at_ms = self.times.started_at_ms.min(times.started_at_ms);
        self.times.ended_at_ms = self.times.ended_at_ms.max(times.ended_at_ms);
    }
}

impl AgentSpans {
    fn find(&mut self, id_ref: &str, agent: &str) -> Option<&mut AgentWork> {
        self.0.iter_mut().find(|work| work.id_ref == id_ref && work.agent == agent)
    }

    /// A model call of an agent below this tool call. Its first one begins the agent's span.
    pub(super) fn push_model_call(
        &mut self,
        out: &mut SpanOutput<'_>,
        (place, tool_call): (RecordPlace, SpanId),
        (model, usage): (&str, Usage),
        call: &AgentModelCall,
    ) {
        let AgentModelCall { id_ref, agent, response_model, has_failed, times } = call;
        if self.find(id_ref, agent).is_none() {
            self.0.push(AgentWork {
                id_ref: id_ref.clone(),
                agent: agent.clone(),
                id: SpanId::of_agent(out.run.state.id, place),
                parent: tool_call,
                model: model.to_owned(),
                usage: Usage::default(),
                times: *times,
                has_failed: false,
                open_calls: VecDeque::new(),
            });
        }
        let Some(work) = self.find(id_ref, agent) else { return };
        work.extend(*times);
        work.usage += usage;
        work.has_failed = *has_failed;
        let mut attributes = SpanAttributes::of("chat");
        out.add_model(&mut attributes, model, (usage.total_tokens > 0).then_some(usage));
        let asked = out.model_name(model);
        if *has_failed {
            attributes.text("error.type", OTHER);
        } else {
            attributes.text("gen_ai.response.model", response_model.as_deref().unwrap_or(asked));
        }
        let (id, parent, name) = (out.id_of(place), work.id, format!("chat {asked}"));
        let (kind, error) = (SpanKind::Client, has_failed.then(String::new));
        out.spans.add(SpanDraft { id, parent, name, kind, attributes, error }, *times);
    }

    /// A step of an agent: tool calls become spans when their results come.
    pub(super) fn push_step(
        &mut self,
        out: &mut SpanOutput<'_>,
        place: RecordPlace,
        step: AgentStep,
        times: Option<CallTimes>,
    ) {
        let AgentStep { id_ref, agent, act, .. } = step;
        let Some(work) = self.find(&id_ref, &agent) else { return };
        match act {
            AgentAction::ToolCall { name, arguments } => {
                let arguments = if out.options.include_content { arguments } else { String::new() };
                work.open_calls.push_back(OpenAgentCall { id: out.id_of(place), name, arguments });
            }
            AgentAction::ToolResult { content, .. } => {
                if let (Some(call), Some(times)) = (work.open_calls.pop_front(), times) {
                    work.extend(times);
                    let draft = tool_draft(out, work.id, &call, &content);
                    out.spans.add(draft, times);
                }
            }
            AgentAction::Thinking { .. } | AgentAction::Text { .. } => {}
        }
    }

    /// Ends the agents of a tool call.
    pub(super) fn end(&mut self, out: &mut SpanOutput<'_>, id_ref: &str) {
        for work in self.0.extract_if(.., |work| work.id_ref == id_ref) {
            let AgentWork { agent, id, parent, model, usage, times, has_failed, .. } = work;
            let mut attributes = SpanAttributes::of("invoke_agent");
            attributes.text("gen_ai.agent.name", &agent);
            out.add_model(&mut attributes, &model, Some(usage));
            if has_failed {
                attributes.text("error.type", OTHER);
            }
            let (name, kind) = (span_name("invoke_agent", &agent), SpanKind::Internal);
            let error = has_failed.then(String::new);
            out.spans.add(SpanDraft { id, parent, name, kind, attributes, error }, times);
        }
    }
}

fn tool_draft(out: &mut SpanOutput<'_>, parent: SpanId, call: &OpenAgentCall, content: &str) -> SpanDraft {
    let mut attributes = out.tool_attributes(&call.name, None, &call.arguments);
    out.add_tool_result(&mut attributes, content);
    let result = ToolResultFields::read(content);
    // The log has the beginning of a long result.
    let has_failed = result.success == Some(false) || content.starts_with(r#"{"success":false,"#);
    if has_failed {
        attributes.text("error.type", "tool_error");
    }
    let error = has_failed.then(|| out.error_text(result.error.as_deref()));
    let (id, name, kind) = (call.id, tool_span_name(&call.name), SpanKind::Internal);
    SpanDraft { id, parent, name, kind, attributes, error }
}
