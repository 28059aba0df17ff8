//! Calls that need an approval, in jobs that nobody waits for: such a call ends the job like one of the
//! client's functions, and the job of the client's next request begins with it.

use super::Driver;
use crate::domain::approval::DENIED;
use crate::domain::event::{EngineMark, Event, FinishReason, Record};
use crate::domain::handed_approvals::DecidedCall;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;

impl Driver<'_> {
    /// Whether the client answers calls of this name: its own functions, and those that it has to approve.
    pub(super) fn is_handed(&self, name: &str) -> bool {
        self.is_function(name) || self.asks_client(name)
    }

    fn is_function(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function.name == name)
    }

    fn asks_client(&self, name: &str) -> bool {
        let tools = &self.ports.tools;
        self.lease.spec.handed_approvals.is_some()
            && tools.needs_approval(name, &self.rights.approval_tools)
            && !tools.is_refused(name, &self.scope())
    }

    /// The records of the decided calls that the job begins with, until they are in its log.
    pub(super) fn decided_calls(&self) -> Option<Vec<Record>> {
        let decided = &self.lease.spec.handed_approvals.as_ref()?.decided;
        (!decided.is_empty() && !self.turn.has_begun()).then(|| records(decided))
    }

    /// The messages without calls that wait for the client's approval: the job that goes on makes them.
    pub(super) fn without_asked(&self, mut messages: Vec<Message>) -> Vec<Message> {
        if self.lease.spec.handed_approvals.is_none() {
            return messages;
        }
        let results = messages.iter().filter_map(|message| match message {
            Message::Tool { id_ref, .. } => Some(id_ref.clone()),
            _ => None,
        });
        let results: Vec<String> = results.collect();
        for message in &mut messages {
            if let Message::Assistant { tool_calls, .. } = message {
                tool_calls.retain(|call| results.contains(&call.id_ref) || self.is_function(&call.name));
            }
        }
        messages.retain(|message| match message {
            Message::Assistant { content, tool_calls, .. } => !content.is_empty() || !tool_calls.is_empty(),
            _ => true,
        });
        messages
    }
}

fn records(decided: &[DecidedCall]) -> Vec<Record> {
    let mut records = Vec::new();
    for (index, DecidedCall { call, .. }) in (0..).zip(decided) {
        let call = ToolCall { id_ref: format!("approved_{index}"), ..call.clone() };
        records.push(Event::ToolCall { index, call, is_client: false }.into());
    }
    let (finish_reason, usage) = (FinishReason::ToolCalls, Usage::default());
    records.push(EngineMark::model_finished(finish_reason, usage, None).into());
    for (index, DecidedCall { approve, reason, .. }) in decided.iter().enumerate() {
        let id_refs = vec![format!("approved_{index}")];
        let mark = if *approve {
            EngineMark::Approved { id_refs, always: Vec::new() }
        } else {
            EngineMark::Denied { id_refs, reason: reason.clone().unwrap_or_else(|| DENIED.to_owned()) }
        };
        records.push(mark.into());
    }
    records
}
