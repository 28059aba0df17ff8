//! Histories that providers refuse, made whole: every call has one result right behind it, every result its call. Refuses
//! to change what anybody said.

use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::engine::turn::CANCELLED;

/// The messages in their order, less results without a call, plus a result for every call without one.
pub(super) fn mend(messages: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let mut mended = Vec::new();
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages {
        if let Message::Tool { id_ref, .. } = &message {
            // A result answers the calls of the answer just before it, and each of them once.
            if let Some(at) = open.iter().position(|call| call.id_ref == *id_ref) {
                open.remove(at);
                mended.push(message);
            }
            continue;
        }
        mended.extend(open.drain(..).map(unanswered));
        if let Message::Assistant { tool_calls, .. } = &message {
            open.clone_from(tool_calls);
        }
        mended.push(message);
    }
    mended.extend(open.into_iter().map(unanswered));
    mended
}

fn unanswered(call: ToolCall) -> Message {
    Message::Tool { id_ref: call.id_ref, name: call.name, content: CANCELLED.to_owned() }
}
