//! Ids of completions and calls, and the parts of an answer as a chat shows them.

use crate::domain::client_call_id::ClientCallId;
use crate::domain::event::{Event, SequencedEvent};
use crate::domain::id::JobId;
use crate::domain::steps::{self, StepContent};
use crate::domain::tool::ToolCall;

/// Stands between the texts before and after calls of the server's tools.
pub(super) const BREAK: &str = "\n\n";

/// The id of a job's completion.
pub(super) fn completion_id(job: JobId) -> String {
    format!("chatcmpl-{job}")
}

/// A call as the client gets it.
pub(super) fn handed_over(job: JobId, place: u32, call: ToolCall) -> ToolCall {
    ToolCall { id_ref: ClientCallId { job, place }.to_string(), ..call }
}

/// The parts of a whole answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerParts {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The calls that are handed to the client.
    pub(super) calls: Vec<ToolCall>,
}

impl AnswerParts {
    /// The parts in these events of a job. With `final_text_only`, text before calls of the server's tools is
    /// left out.
    pub(super) fn of(job: JobId, events: Vec<SequencedEvent>, final_text_only: bool) -> Self {
        let client_call = |numbered: &SequencedEvent| match &numbered.event {
            Event::ToolCall { call, is_client: true, .. } => Some(call.clone()),
            _ => None,
        };
        let calls = (0..).zip(events.iter().filter_map(client_call));
        let calls = calls.map(|(place, call)| handed_over(job, place, call)).collect();
        let mut parts = Self { calls, ..Self::default() };
        let mut is_after_call = false;
        for step in steps::fold(events) {
            match step.part {
                StepContent::Text { content } => {
                    if is_after_call && final_text_only {
                        parts.text.clear();
                    } else if is_after_call && !parts.text.is_empty() {
                        parts.text.push_str(BREAK);
                    }
                    is_after_call = false;
                    parts.text.push_str(&content);
                }
                StepContent::Thinking { content } => parts.reasoning.push_str(&content),
                StepContent::ToolCall(_) | StepContent::ToolResult { .. } => is_after_call = true,
            }
        }
        parts
    }
}
