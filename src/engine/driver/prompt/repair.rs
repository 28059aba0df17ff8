//! Repairs histories that providers would refuse: every tool call gets one result right after it, and results
//! without a call are dropped.

use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::engine::turn::CANCELLED;

/// The messages without orphaned results, plus a result for every call without one.
pub(super) fn repair_calls(messages: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let mut repaired = Vec::new();
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages {
        if let Message::Tool { id_ref, .. } = &message {
            // A result belongs to a call of the answer just before it; each call has one result.
            if let Some(at) = open.iter().position(|call| call.id_ref == *id_ref) {
                open.remove(at);
                repaired.push(message);
            }
            continue;
        }
        repaired.extend(open.drain(..).map(unanswered));
        if let Message::Assistant { tool_calls, .. } = &message {
            open.clone_from(tool_calls);
        }
        repaired.push(message);
    }
    repaired.extend(open.into_iter().map(unanswered));
    repaired
}

fn unanswered(call: ToolCall) -> Message {
    Message::Tool { id_ref: call.id_ref, name: call.name, content: CANCELLED.to_owned() }
}
