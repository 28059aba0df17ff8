//! Calls that the client answers, as items of a response.

use super::super::item::{BROKEN_OFF, ItemContent, ItemStatus, OutputItem};
use super::ResponseFold;
use crate::domain::client_call_id::ClientCallId;
use crate::domain::tool::ToolCall;
use serde_json::json;

impl ResponseFold {
    /// Begins a call. A request for an approval comes whole.
    pub(super) fn begin_call(&mut self, index: u32, name: String) {
        if !self.declared.is_server_tool(&name) {
            self.begin_client_call(index, name);
        }
    }

    fn begin_client_call(&mut self, step: u32, name: String) -> usize {
        self.close(ItemStatus::Completed);
        if let Some(place) = self.repeated_call(step, &name) {
            return place;
        }
        let (job, place) = (self.head.job, self.client_calls);
        let id_ref = ClientCallId { job, place, broken_off: self.broken_calls }.to_string();
        self.client_calls = self.client_calls.saturating_add(1);
        let mut content = self.declared.client_call(ToolCall { id_ref, name, arguments: String::new() });
        content.set_arguments(String::new());
        let place = self.push(step, content);
        self.begun.push(place);
        self.added(place);
        place
    }

    /// The place of the call that has begun with this step.
    pub(super) fn begun_call(&self, index: u32) -> Option<usize> {
        self.begun_calls().rev().find(|item| item.step == index).map(|item| item.place)
    }

    fn begun_calls(&self) -> impl DoubleEndedIterator<Item = &OutputItem> {
        self.begun.iter().filter_map(|place| self.items.get(*place))
    }

    /// The step of a call was cut off. The client has its beginning, so the item waits for the model to begin
    /// the call again: not all clients look at the status of a call that has ended.
    pub(super) fn break_off(&mut self, index: u32) {
        let item = self.begun_call(index).and_then(|place| self.items.get_mut(place));
        if let Some(item) = item {
            (item.step, item.received) = (BROKEN_OFF, 0);
        }
    }

    /// The calls that broke off and that nothing has repeated.
    fn broken_off(&self) -> impl Iterator<Item = usize> {
        self.begun_calls().filter(|item| item.step == BROKEN_OFF).map(|item| item.place)
    }

    /// The first call that broke off, if this begins it again. Another call ends all that broke off.
    fn repeated_call(&mut self, step: u32, name: &str) -> Option<usize> {
        let place = self.broken_off().next()?;
        if self.items.get(place).is_none_or(|item| item.called_name() != name) {
            self.cut_broken_off();
            return None;
        }
        let order = self.take_order();
        if let Some(item) = self.items.get_mut(place) {
            (item.step, item.order) = (step, order);
        }
        Some(place)
    }

    fn cut_broken_off(&mut self) {
        for place in self.broken_off().collect::<Vec<_>>() {
            self.cut_call(place);
        }
    }

    /// Begins a call in place of one that the model has not repeated after all.
    fn begin_another(&mut self, (place, step): (usize, u32), name: String) -> usize {
        self.cut_broken_off();
        self.cut_call(place);
        self.begin_client_call(step, name)
    }

    /// A piece of the arguments of a function. What a custom tool gets is read from the whole ones.
    pub(super) fn arguments(&mut self, index: u32, text: &str) {
        let Some(begun) = self.begun_call(index) else { return };
        let Some(item) = self.items.get_mut(begun) else { return };
        let added = item.add_arguments(text).map(|new| (begun, new.to_owned()));
        let (place, new) = added.unwrap_or_else(|| self.other_arguments((begun, index), text));
        if !new.is_empty() {
            self.emit_at(place, "response.function_call_arguments.delta", json!({"delta": new}));
        }
    }

    /// Begins a call in place of one that goes on with other arguments. Returns its place and its arguments.
    fn other_arguments(&mut self, (place, step): (usize, u32), text: &str) -> (usize, String) {
        let Some(item) = self.items.get(place) else { return (place, String::new()) };
        let (name, whole) = (item.called_name().to_owned(), format!("{}{text}", item.received_arguments()));
        let place = self.begin_another((place, step), name);
        if let Some(item) = self.items.get_mut(place) {
            item.add_arguments(&whole);
        }
        (place, whole)
    }

    /// A whole call that the client answers; it may have begun.
    pub(super) fn client_call(&mut self, index: u32, call: ToolCall) {
        let name = call.name.clone();
        let begun = self.begun_call(index);
        let mut place = begun.unwrap_or_else(|| self.begin_client_call(index, name.clone()));
        let text = self.declared.client_call(call).set_arguments(String::new());
        if self.items.get(place).is_some_and(|item| !text.starts_with(item.text())) {
            place = self.begin_another((place, index), name);
        }
        let Some(item) = self.items.get_mut(place) else { return };
        let shown = item.content.set_arguments(text.clone());
        let argument_events = match &item.content {
            ItemContent::Function(_) => {
                let whole = json!({"arguments": text, "name": item.function_name()});
                Some(("response.function_call_arguments", whole))
            }
            ItemContent::Custom(_) => Some(("response.custom_tool_call_input", json!({"input": text}))),
            _ => None,
        };
        if let Some((event, whole)) = argument_events {
            let rest = text.strip_prefix(shown.as_str()).unwrap_or_default();
            // There is at least one piece, also of a call without arguments.
            if shown.is_empty() || !rest.is_empty() {
                self.emit_at(place, &format!("{event}.delta"), json!({"delta": rest}));
            }
            self.emit_at(place, &format!("{event}.done"), whole);
        }
        self.done(place, ItemStatus::Completed);
    }

    pub(super) fn approval_request(&mut self, index: u32, call: ToolCall) {
        self.close(ItemStatus::Completed);
        self.cut_broken_off();
        self.client_calls = self.client_calls.saturating_add(1);
        let place = self.push(index, ItemContent::Approval(call));
        self.added(place);
        self.done(place, ItemStatus::Completed);
    }

    /// Drops a call that broke off. The next one has its place among the calls of the job.
    pub(super) fn cut_call(&mut self, place: usize) {
        self.client_calls = self.client_calls.saturating_sub(1);
        self.broken_calls = self.broken_calls.saturating_add(1);
        self.done(place, ItemStatus::Incomplete);
        if let Some(item) = self.items.get_mut(place) {
            item.is_dropped = true;
        }
    }
}
