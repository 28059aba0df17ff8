//! The items of what a conversation has at one place: of a job its input and its output, else added items. A
//! page shows few of the items of a long answer, so no more than these become JSON.

use super::super::fold::ResponseFold;
use super::super::item::OutputItem;
use super::super::{history, ids, images, input};
use crate::domain::id::{JobId, UserId};
use crate::domain::message::Message;
use crate::domain::response_request::ResponseRequest;
use crate::domain::user_parts::{self, UserPart};
use crate::ports::{ConversationEntry, ReadMemory, Store, StoreError};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// The items of an entry, deleted or not, oldest first. The JSON of an output item is made when it is read.
#[derive(Debug)]
pub(super) struct EntryItems {
    job: Option<JobId>,
    inputs: Vec<Value>,
    outputs: Vec<OutputItem>,
    shows_inputs: bool,
    shows_outputs: bool,
    hidden: HashSet<String>,
}

impl EntryItems {
    /// Those of this entry.
    pub(super) fn read(
        store: &dyn Store,
        user: UserId,
        entry: &ConversationEntry,
        memory: &mut ReadMemory<'_>,
    ) -> Result<Self, StoreError> {
        let mut items = Self {
            job: entry.job.as_ref().map(|job| job.id),
            inputs: Vec::new(),
            outputs: Vec::new(),
            shows_inputs: true,
            shows_outputs: true,
            hidden: entry.items.hidden.iter().cloned().collect(),
        };
        let Some(job) = entry.job else {
            items.inputs.clone_from(&entry.items.added);
            return Ok(items);
        };
        (items.shows_inputs, items.shows_outputs) = (job.shows_question, job.shows_answer);
        // A job that was deleted since has no items.
        let (Some(row), Some(mut spec)) = (store.job(user, job.id)?, store.request(user, job.id)?) else {
            return Ok(items);
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
        let fold = history::fold(store, ResponseFold::new(&row, &request), &row, memory)?;
        items.outputs = fold.into_items();
        let inputs = request.input.into_iter().enumerate();
        let with_id = |(place, item)| input::with_id(item, |prefix| ids::input_id(prefix, job.id, place));
        items.inputs = inputs.map(with_id).collect();
        Ok(items)
    }

    pub(super) fn len(&self) -> usize {
        self.inputs.len().saturating_add(self.outputs.len())
    }

    /// Whether the item at this place belongs to the input.
    pub(super) fn is_input(&self, place: usize) -> bool {
        place < self.inputs.len()
    }

    /// The id of the item at this place.
    pub(super) fn id(&self, place: usize) -> String {
        if let Some(item) = self.inputs.get(place) {
            return item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        }
        self.output(place).map(|(item, job)| item.id(job)).unwrap_or_default()
    }

    fn output(&self, place: usize) -> Option<(&OutputItem, JobId)> {
        self.outputs.get(place.checked_sub(self.inputs.len())?).zip(self.job)
    }

    /// The place of the item with this id.
    pub(super) fn place_of(&self, id: &str) -> Option<usize> {
        (0..self.len()).find(|place| self.id(*place) == id)
    }

    /// Whether clients see the item at this place.
    pub(super) fn is_shown(&self, place: usize) -> bool {
        let is_shown = if self.is_input(place) { self.shows_inputs } else { self.shows_outputs };
        is_shown && (self.hidden.is_empty() || !self.hidden.contains(&self.id(place)))
    }

    /// The item at this place, and about how many bytes it has.
    pub(super) fn get(&self, place: usize) -> Option<(Value, usize)> {
        if let Some(item) = self.inputs.get(place) {
            return Some((item.clone(), item.to_string().len()));
        }
        self.output(place).map(|(item, job)| (item.to_json(job), item.bytes()))
    }
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
