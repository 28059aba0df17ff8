//! The items of what a conversation has at one place: of a job its input and its output, else added items.

use super::super::fold::ResponseFold;
use super::super::{history, ids, images, input};
use crate::domain::id::UserId;
use crate::domain::message::Message;
use crate::domain::response_request::ResponseRequest;
use crate::domain::user_parts::{self, UserPart};
use crate::ports::{ConversationEntry, Store, StoreError};
use serde_json::{Map, Value, json};

/// An item of an entry, deleted or not.
#[derive(Debug)]
pub(super) struct EntryItem {
    pub(super) value: Value,
    /// Whether it belongs to the input of its job.
    pub(super) is_input: bool,
    pub(super) is_shown: bool,
}

impl EntryItem {
    pub(super) fn id(&self) -> &str {
        self.value.get("id").and_then(Value::as_str).unwrap_or_default()
    }
}

/// The items of an entry, oldest first.
pub(super) fn items(
    store: &dyn Store,
    user: UserId,
    entry: &ConversationEntry,
) -> Result<Vec<EntryItem>, StoreError> {
    let Some(job) = entry.job else {
        let added = entry.items.added.iter().cloned();
        return Ok(added.map(|value| EntryItem { value, is_input: true, is_shown: true }).collect());
    };
    // A job that was deleted since has no items.
    let (Some(row), Some(mut spec)) = (store.job(user, job.id)?, store.request(user, job.id)?) else {
        return Ok(Vec::new());
    };
    let request = spec.response.take().unwrap_or_else(|| ResponseRequest {
        input: spec.input.iter().flat_map(of_message).collect(),
        shown: Map::new(),
        is_stored: true,
        is_background: false,
        mcp_lists: Vec::new(),
        listed_before: Vec::new(),
        loaded_before: Vec::new(),
    });
    let fold = history::fold(store, ResponseFold::new(&row, &request), &row)?;
    let inputs = request.input.into_iter().enumerate().map(|(place, item)| {
        let value = input::with_id(item, |prefix| ids::input_id(prefix, job.id, place));
        EntryItem { value, is_input: true, is_shown: job.shows_question }
    });
    let outputs = fold.items().map(|item| EntryItem {
        value: item.to_json(job.id),
        is_input: false,
        is_shown: job.shows_answer,
    });
    let mut items: Vec<EntryItem> = inputs.chain(outputs).collect();
    for item in &mut items {
        item.is_shown &= !entry.items.hidden.iter().any(|hidden| hidden == item.id());
    }
    Ok(items)
}

/// The items of a message that came another way than by `/v1/responses`.
fn of_message(message: &Message) -> Vec<Value> {
    let text = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    match message {
        Message::System { content } => vec![text("system", content)],
        Message::User { content, attachments, images } if images.is_empty() => {
            vec![text("user", &Message::user_text(content, attachments))]
        }
        Message::User { content, attachments, images } => {
            let parts = user_parts::in_order(content, attachments, images).into_iter();
            let parts = parts.map(|part| match part {
                UserPart::Text(text) => json!({"type": "input_text", "text": text}),
                UserPart::Image(image) => images::named(image),
            });
            vec![json!({"type": "message", "role": "user", "content": parts.collect::<Value>()})]
        }
        Message::Assistant { content, tool_calls, .. } => {
            let said = (!content.is_empty()).then(|| text("assistant", content));
            let calls = tool_calls.iter().map(|call| {
                json!({"type": "function_call", "call_id": call.id_ref, "name": call.name,
                    "arguments": call.arguments})
            });
            said.into_iter().chain(calls).collect()
        }
        Message::Tool { id_ref, content, .. } => {
            vec![json!({"type": "function_call_output", "call_id": id_ref, "output": content})]
        }
    }
}
