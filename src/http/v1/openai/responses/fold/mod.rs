//! Folds the log of a job, from its first event, into a response and its stream.
//!
//! Each event of the log stands for a number of events of the stream that depends on the events before it
//! alone. So a stream has the same numbers whenever and however often it is read.

mod client_calls;

use super::declared_tools::DeclaredTools;
use super::item::{ItemContent, ItemStatus, OutputItem, code, summary_part, text_part};
use super::object::{ResponseEnd, ResponseHead};
use crate::domain::event::{Event, SequencedEvent, StatusPhase, StepKind};
use crate::domain::hosted_tool::HostedTool;
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::response_request::{McpToolList, ResponseRequest};
use crate::domain::tool::ToolCall;
use serde_json::{Value, json};

/// The log has a gap: retention has removed or joined events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogCut;

/// An event of the stream.
#[derive(Debug)]
pub(super) struct StreamedEvent {
    kind: String,
    number: u64,
    /// The event as JSON.
    pub(super) data: String,
}

impl StreamedEvent {
    /// The event as a frame of server-sent events.
    pub(super) fn to_frame(&self) -> String {
        let Self { kind, number, data } = self;
        format!("event: {kind}\nid: {number}\ndata: {data}\n\n")
    }
}

/// Events of a stream that were not sent yet.
#[derive(Debug, Default)]
struct UnsentEvents {
    out: Vec<StreamedEvent>,
    /// The number of the last event that the client has.
    after: Option<u64>,
}

/// A response as far as its log was read.
#[derive(Debug)]
pub(super) struct ResponseFold {
    head: ResponseHead,
    items: Vec<OutputItem>,
    /// The next order in the output.
    next_order: usize,
    /// Places of the calls that the client answers and that are not whole yet, in order.
    begun: Vec<usize>,
    /// Places of the calls of this server's tools that have no result yet, in order.
    waiting: Vec<usize>,
    /// The place of the text or reasoning that is being written.
    open: Option<usize>,
    client_calls: u32,
    /// Calls that were streamed and broke off.
    broken_calls: u32,
    declared: DeclaredTools,
    /// The lists that the response begins with, until then.
    mcp_lists: Vec<McpToolList>,
    /// The last event of the log that was read.
    last_seq: u64,
    /// The number of the stream's next event.
    next: u64,
    unsent: Option<UnsentEvents>,
}

impl ResponseFold {
    pub(super) fn new(job: &Job, request: &ResponseRequest) -> Self {
        Self {
            head: ResponseHead::new(job, request),
            items: Vec::new(),
            next_order: 0,
            begun: Vec::new(),
            waiting: Vec::new(),
            open: None,
            client_calls: 0,
            broken_calls: 0,
            declared: DeclaredTools::of(request),
            mcp_lists: request.mcp_lists.clone(),
            last_seq: 0,
            next: 0,
            unsent: None,
        }
    }

    /// Keeps events, too, behind the event of this number.
    pub(super) fn streamed(mut self, after: Option<u64>) -> Self {
        self.unsent = Some(UnsentEvents { out: Vec::new(), after });
        self
    }

    /// The events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<StreamedEvent> {
        self.unsent.as_mut().map(|unsent| std::mem::take(&mut unsent.out)).unwrap_or_default()
    }

    pub(super) fn job(&self) -> JobId {
        self.head.job
    }

    /// The status in `OpenAI`'s words.
    pub(super) fn state(&self) -> &'static str {
        self.head.state()
    }

    /// The number of the next event.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// The last event of the log that was read.
    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// How the job ended.
    pub(super) fn end(&self) -> Option<&ResponseEnd> {
        self.head.end.as_ref()
    }

    /// Takes what the row alone has: the time of the end, and the tokens of a failed job.
    pub(super) fn see_row(&mut self, job: &Job) {
        if job.status.is_terminal() {
            (self.head.finished_at_ms, self.head.usage) = (job.finished_at_ms, Some(job.usage));
        }
    }

    /// The items of the response, without those that were cut off.
    pub(super) fn items(&self) -> impl Iterator<Item = &OutputItem> {
        let mut items: Vec<&OutputItem> = self.items.iter().filter(|item| !item.is_dropped).collect();
        items.sort_by_key(|item| item.order);
        items.into_iter()
    }

    /// The same as values.
    pub(super) fn into_items(mut self) -> Vec<OutputItem> {
        self.items.retain(|item| !item.is_dropped);
        self.items.sort_by_key(|item| item.order);
        self.items
    }

    /// The order of an item behind all others.
    fn take_order(&mut self) -> usize {
        let order = self.next_order;
        self.next_order = order.saturating_add(1);
        order
    }

    /// Uses this text, if the log no longer has any.
    pub(super) fn restore_text(&mut self, text: String) {
        let has_text = self.items().any(|item| matches!(item.content, ItemContent::Text(_)));
        if !has_text && !text.is_empty() {
            self.push(u32::MAX, ItemContent::Text(text));
            if let Some(item) = self.items.last_mut() {
                item.status = ItemStatus::Completed;
            }
        }
    }

    /// Takes the next event of the log.
    pub(super) fn apply(&mut self, numbered: SequencedEvent) -> Result<(), LogCut> {
        if numbered.seq != self.last_seq.saturating_add(1) {
            return Err(LogCut);
        }
        self.take(numbered);
        Ok(())
    }

    /// The same without a look at gaps, for reads of what is left of an old log.
    pub(super) fn take(&mut self, SequencedEvent { seq, event, .. }: SequencedEvent) {
        self.last_seq = seq;
        self.head.end = None; // a failed job may be retried
        match event {
            Event::Status { status, .. } => self.status(status),
            Event::CallBegun { index, name } => self.begin_call(index, name),
            Event::Delta { index, kind: StepKind::Arguments, text, .. } => self.arguments(index, &text),
            Event::Delta { index, kind, text, .. } => self.delta(index, kind, &text),
            Event::ToolCall { call, is_client: true, index } if self.declared.is_server_tool(&call.name) => {
                self.approval_request(index, call);
            }
            Event::ToolCall { call, is_client: true, index } => self.client_call(index, call),
            Event::ToolCall { call, index, .. } => self.hosted_call(index, call),
            Event::ToolResult { id_ref, content, .. } => self.hosted_result(&id_ref, content),
            Event::StepDiscarded { index } => self.discard(index),
            Event::Done { finish_reason, usage, .. } => {
                let status =
                    if finish_reason.is_cut_off() { ItemStatus::Incomplete } else { ItemStatus::Completed };
                self.finish(ResponseEnd::Answered { reason: finish_reason, usage }, status);
            }
            Event::Error { content, code, retry_after_ms } => {
                let failed = ResponseEnd::Failed { code, message: content, retry_after_ms };
                self.finish(failed, ItemStatus::Incomplete);
            }
            Event::WaitingApproval { .. } | Event::Summary { .. } | Event::AgentStep { .. } => {}
        }
    }

    fn status(&mut self, status: StatusPhase) {
        match status {
            StatusPhase::Queued if self.next == 0 => {
                self.emit("response.created", &|fold| json!({"response": fold.to_json()}));
                if self.head.is_background {
                    self.emit("response.queued", &|fold| json!({"response": fold.to_json()}));
                }
            }
            StatusPhase::Running if !self.head.has_started => {
                self.head.has_started = true;
                self.emit("response.in_progress", &|fold| json!({"response": fold.to_json()}));
                self.list_mcp_tools();
            }
            _ => {}
        }
    }

    /// Lists the tools of MCP servers. They are no step of the job, so none of its steps drops them.
    fn list_mcp_tools(&mut self) {
        for list in std::mem::take(&mut self.mcp_lists) {
            let place = self.push(u32::MAX, ItemContent::McpTools(list));
            self.added(place);
            self.emit_at(place, "response.mcp_list_tools.in_progress", json!({}));
            self.emit_at(place, "response.mcp_list_tools.completed", json!({}));
            self.done(place, ItemStatus::Completed);
        }
    }

    fn delta(&mut self, index: u32, kind: StepKind, text: &str) {
        let open = self.open.and_then(|place| self.items.get(place)).filter(|item| item.step == index);
        let place = match (open, kind) {
            (Some(item), _) => item.place,
            (None, StepKind::Text | StepKind::Arguments) => {
                self.open(index, ItemContent::Text(String::new()))
            }
            (None, StepKind::Thinking) => self.open(index, ItemContent::Reasoning(String::new())),
        };
        let Some(item) = self.items.get_mut(place) else { return };
        match &mut item.content {
            ItemContent::Text(whole) => {
                whole.push_str(text);
                self.emit_at(place, "response.output_text.delta", json!({"delta": text, "logprobs": []}));
            }
            ItemContent::Reasoning(whole) => {
                whole.push_str(text);
                self.emit_at(place, "response.reasoning_summary_text.delta", json!({"delta": text}));
            }
            ItemContent::McpTools(_)
            | ItemContent::Function(_)
            | ItemContent::Custom(_)
            | ItemContent::ToolSearch(_)
            | ItemContent::Approval(_)
            | ItemContent::Hosted { .. } => {}
        }
    }

    /// Begins an item of text or reasoning.
    fn open(&mut self, step: u32, content: ItemContent) -> usize {
        self.close(ItemStatus::Completed);
        let place = self.push(step, content);
        self.open = Some(place);
        self.added(place);
        let (kind, part) = self.part(place);
        self.emit_at(place, if kind == SUMMARY { SUMMARY_ADDED } else { PART_ADDED }, json!({"part": part}));
        place
    }

    fn push(&mut self, step: u32, content: ItemContent) -> usize {
        let place = self.items.len();
        let status = ItemStatus::InProgress;
        let server = match &content {
            ItemContent::Approval(call) | ItemContent::Hosted { call, .. } => {
                self.declared.server_of(&call.name)
            }
            ItemContent::Function(call) | ItemContent::Custom(call) => self.declared.namespace_of(&call.name),
            _ => None,
        };
        let (order, received) = (self.take_order(), 0);
        let item = OutputItem { step, place, order, content, received, status, server, is_dropped: false };
        self.items.push(item);
        place
    }

    /// Ends the open item, if there is one.
    fn close(&mut self, status: ItemStatus) {
        let Some(place) = self.open.take() else { return };
        if self.unsent.is_none() {
            self.next = self.next.saturating_add(2);
            return self.done(place, status);
        }
        let text = self.items.get(place).map(|item| item.text().to_owned()).unwrap_or_default();
        let (kind, part) = self.part(place);
        if kind == SUMMARY {
            self.emit_at(place, "response.reasoning_summary_text.done", json!({"text": text}));
            self.emit_at(place, "response.reasoning_summary_part.done", json!({"part": part}));
        } else {
            self.emit_at(place, "response.output_text.done", json!({"text": text, "logprobs": []}));
            self.emit_at(place, "response.content_part.done", json!({"part": part}));
        }
        self.done(place, status);
    }

    /// The kind of an item's part, and the part.
    fn part(&self, place: usize) -> (&'static str, Value) {
        match self.items.get(place).map(|item| &item.content) {
            Some(ItemContent::Reasoning(text)) => (SUMMARY, summary_part(text)),
            Some(ItemContent::Text(text)) => (CONTENT, text_part(text)),
            _ => (CONTENT, text_part("")),
        }
    }

    fn hosted_call(&mut self, index: u32, call: ToolCall) {
        self.close(ItemStatus::Completed);
        let (tool, arguments, code) = (HostedTool::of_tool(&call.name), call.arguments.clone(), code(&call));
        let request = self.declared.next_approved();
        // What deltas bring is not in the item that they begin.
        let begun = if tool == HostedTool::Search { arguments.clone() } else { String::new() };
        let call = ToolCall { arguments: begun, ..call };
        let place = self.push(index, ItemContent::Hosted { call, result: None, request });
        self.waiting.push(place);
        let event = |state: &str| format!("response.{}{state}", tool.item_type());
        self.added(place);
        if let Some(OutputItem { content: ItemContent::Hosted { call, .. }, .. }) = self.items.get_mut(place)
        {
            call.arguments.clone_from(&arguments);
        }
        self.emit_at(place, &event(".in_progress"), json!({}));
        match tool {
            HostedTool::Code => {
                self.emit_at(place, &event("_code.delta"), json!({"delta": code}));
                self.emit_at(place, &event("_code.done"), json!({"code": code}));
                self.emit_at(place, &event(".interpreting"), json!({}));
            }
            HostedTool::Search => self.emit_at(place, &event(".searching"), json!({})),
            HostedTool::Shell | HostedTool::Other => {
                self.emit_at(place, &event("_arguments.delta"), json!({"delta": arguments}));
                self.emit_at(place, &event("_arguments.done"), json!({"arguments": arguments}));
            }
        }
    }

    fn hosted_result(&mut self, id_ref: &str, content: String) {
        let waits = |place: &usize| match self.items.get(*place).map(|item| &item.content) {
            Some(ItemContent::Hosted { call, .. }) => call.id_ref == id_ref,
            _ => false,
        };
        let Some(at) = self.waiting.iter().position(waits) else { return };
        let place = self.waiting.remove(at);
        let Some(item) = self.items.get_mut(place) else { return };
        let has_failed = serde_json::from_str::<Value>(&content)
            .is_ok_and(|result| result.get("success").is_some_and(|success| *success == Value::Bool(false)));
        let mut tool = HostedTool::Other;
        if let ItemContent::Hosted { call, result, .. } = &mut item.content {
            *result = Some(content);
            tool = HostedTool::of_tool(&call.name);
        }
        // The two other types have no event for a failure that the model was told.
        let (state, status) = match tool {
            HostedTool::Shell | HostedTool::Other if has_failed => ("failed", ItemStatus::Failed),
            _ => ("completed", ItemStatus::Completed),
        };
        self.emit_at(place, &format!("response.{}.{state}", tool.item_type()), json!({}));
        self.done(place, status);
    }

    fn discard(&mut self, index: u32) {
        if self.open.and_then(|place| self.items.get(place)).is_some_and(|item| item.step == index) {
            self.close(ItemStatus::Incomplete);
        }
        self.break_off(index);
        for item in self.items.iter_mut().filter(|item| item.step == index) {
            item.is_dropped = true;
        }
        let items = &self.items;
        self.waiting.retain(|place| items.get(*place).is_some_and(|item| !item.is_dropped));
    }

    fn finish(&mut self, end: ResponseEnd, status: ItemStatus) {
        self.close(status);
        for place in self.begun.clone() {
            self.cut_call(place);
        }
        let waiting = self.items.iter().filter(|item| item.status == ItemStatus::InProgress);
        for place in waiting.map(|item| item.place).collect::<Vec<_>>() {
            self.done(place, ItemStatus::Failed);
        }
        self.head.end = Some(end);
        let event = match self.head.state() {
            "completed" => "response.completed",
            "failed" => "response.failed",
            _ => "response.incomplete",
        };
        self.emit(event, &|fold| json!({"response": fold.to_json()}));
    }

    fn added(&mut self, place: usize) {
        let item = |fold: &Self| fold.items.get(place).map(|item| item.to_json(fold.head.job));
        self.emit("response.output_item.added", &|fold| json!({"output_index": place, "item": item(fold)}));
    }

    fn done(&mut self, place: usize, status: ItemStatus) {
        let Some(item) = self.items.get_mut(place) else { return };
        item.status = status;
        self.begun.retain(|begun| *begun != place);
        let item = |fold: &Self| fold.items.get(place).map(|item| item.to_json(fold.head.job));
        self.emit("response.output_item.done", &|fold| json!({"output_index": place, "item": item(fold)}));
    }

    /// Emits an event of an item.
    fn emit_at(&mut self, place: usize, kind: &str, mut fields: Value) {
        let id = self.items.get(place).map(|item| item.id(self.head.job)).unwrap_or_default();
        let index = if kind.starts_with("response.reasoning_summary") {
            Some("summary_index")
        } else if kind.starts_with("response.output_text") || kind.starts_with("response.content_part") {
            Some("content_index")
        } else {
            None
        };
        if let Value::Object(fields) = &mut fields {
            fields.insert("item_id".to_owned(), id.into());
            fields.insert("output_index".to_owned(), place.into());
            fields.extend(index.map(|name| (name.to_owned(), json!(0))));
        }
        self.emit(kind, &|_| fields.clone());
    }

    /// Counts an event, and keeps it if the client does not have it.
    fn emit(&mut self, kind: &str, fields: &dyn Fn(&Self) -> Value) {
        let number = self.next;
        self.next = number.saturating_add(1);
        let Some(UnsentEvents { after, .. }) = self.unsent else { return };
        if after.is_some_and(|after| number <= after) {
            return;
        }
        let mut data = fields(self);
        if let Value::Object(map) = &mut data {
            map.insert("type".to_owned(), kind.into());
            map.insert("sequence_number".to_owned(), number.into());
        }
        if let Some(unsent) = &mut self.unsent {
            let (kind, data) = (kind.to_owned(), data.to_string());
            unsent.out.push(StreamedEvent { kind, number, data });
        }
    }

    /// The response object.
    pub(super) fn to_json(&self) -> Value {
        self.head.to_json(&self.items().map(|item| item.to_json(self.head.job)).collect::<Vec<_>>())
    }
}

/// About how many bytes an event adds to a response.
pub(super) fn added_bytes(event: &Event) -> usize {
    match event {
        Event::Delta { text, .. } => text.len(),
        Event::ToolCall { call, .. } => size_of::<OutputItem>().saturating_add(call.arguments.len()),
        Event::ToolResult { content, .. } => content.len(),
        _ => 0,
    }
}

const SUMMARY: &str = "summary";
const CONTENT: &str = "content";
const SUMMARY_ADDED: &str = "response.reasoning_summary_part.added";
const PART_ADDED: &str = "response.content_part.added";
