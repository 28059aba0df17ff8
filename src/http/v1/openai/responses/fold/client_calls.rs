//! Calls that the client answers, as items of a response.

use super::super::item::{ItemContent, ItemStatus};
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
        let id_ref = ClientCallId { job: self.head.job, place: self.client_calls }.to_string();
        self.client_calls = self.client_calls.saturating_add(1);
        let mut content = self.declared.client_call(ToolCall { id_ref, name, arguments: String::new() });
        content.set_arguments(String::new());
        let place = self.push(step, content);
        self.added(place);
        place
    }

    /// The place of the call that has begun with this step.
    pub(super) fn begun_call(&self, index: u32) -> Option<usize> {
        let of_step = self.items.iter().rev().find(|item| item.step == index && item.is_begun_call());
        of_step.map(|item| item.place)
    }

    /// A piece of the arguments of a function. What a custom tool gets is read from the whole ones.
    pub(super) fn arguments(&mut self, index: u32, text: &str) {
        let item = self.begun_call(index).and_then(|place| self.items.get_mut(place));
        let Some(item) = item else { return };
        if let ItemContent::Function(call) = &mut item.content {
            call.arguments.push_str(text);
            let place = item.place;
            self.emit_at(place, "response.function_call_arguments.delta", json!({"delta": text}));
        }
    }

    /// A whole call that the client answers; it may have begun.
    pub(super) fn client_call(&mut self, index: u32, call: ToolCall) {
        let begun = self.begun_call(index);
        let place = begun.unwrap_or_else(|| self.begin_client_call(index, call.name.clone()));
        let text = self.declared.client_call(call).set_arguments(String::new());
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
        self.client_calls = self.client_calls.saturating_add(1);
        let place = self.push(index, ItemContent::Approval(call));
        self.added(place);
        self.done(place, ItemStatus::Completed);
    }

    /// Drops a call that broke off. The next one gets its id.
    pub(super) fn cut_call(&mut self, place: usize) {
        self.client_calls = self.client_calls.saturating_sub(1);
        self.done(place, ItemStatus::Incomplete);
        if let Some(item) = self.items.get_mut(place) {
            item.is_dropped = true;
        }
    }
}
