//! Steps of an answer, as a reloaded page shows them: a fold of the job's events, or of messages where
//! retention has cut the log.

use super::event::{Event, SequencedEvent, StepKind};
use super::message::Message;
use super::tool::ToolCall;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};

/// One step, with the id and index of the stream.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MessageStep"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `step-N`.
    pub id: StepId,
    /// Rises within the job; indexes of discarded steps are not reused.
    pub index: u32,
    /// Content of the step.
    #[serde(flatten)]
    pub part: StepContent,
}

/// Id of the step with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepId(pub u32);

#[cfg(test)]
impl schemars::JsonSchema for StepId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StepId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^step-[0-9]+$"})
    }
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("step-{}", self.0))
    }
}

/// Content of a step.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MessageStepPart"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepContent {
    /// Reasoning.
    Thinking {
        /// The complete text.
        content: String,
    },
    /// Answer text.
    Text {
        /// The complete text.
        content: String,
    },
    /// A tool call.
    ToolCall(ToolCall),
    /// A tool result.
    ToolResult {
        /// Id of the call.
        id_ref: String,
        /// Tool name.
        name: String,
        /// Result, a JSON text.
        content: String,
        /// The call did not run.
        skipped: bool,
    },
}

/// A call with its result, as stored messages hold it.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallRecord {
    /// Id of the call.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Name and arguments.
    pub function: CalledFunction,
    /// Result, a JSON text. It and the fields read from it are absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the tool succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The call did not run.
    pub skipped: bool,
    /// Run time, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_time: Option<f64>,
}

/// A called function.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CalledFunction {
    /// Tool name.
    pub name: String,
    /// Arguments, a JSON text as the model wrote it.
    pub arguments: String,
}

/// The steps of a log that is read event by event, without discarded ones.
#[derive(Debug, Default)]
pub struct StepFold {
    parts: BTreeMap<u32, StepContent>,
    token_count: Option<u64>,
}

impl StepFold {
    /// Takes the next event. Returns about how many bytes it adds to the steps.
    pub fn take(&mut self, event: Event) -> usize {
        match event {
            // The whole call follows its pieces.
            Event::CallBegun { .. }
            | Event::Delta { kind: StepKind::Arguments, .. }
            | Event::Status { .. }
            | Event::WaitingApproval { .. }
            | Event::Summary { .. }
            | Event::AgentStep { .. }
            | Event::Error { .. } => 0,
            Event::Done { token_count, .. } => {
                self.token_count = Some(token_count);
                0
            }
            Event::Delta { index, kind, offset, text, .. } => {
                let bytes = text.len();
                match self.parts.get_mut(&index) {
                    Some(StepContent::Thinking { content } | StepContent::Text { content }) if offset > 0 => {
                        content.push_str(&text);
                        bytes
                    }
                    _ => self.put(index, text_step(kind, text), bytes),
                }
            }
            Event::ToolCall { index, call, .. } => {
                let bytes = call.name.len().saturating_add(call.arguments.len());
                self.put(index, StepContent::ToolCall(call), bytes)
            }
            Event::ToolResult { index, id_ref, name, content, skipped, .. } => {
                let bytes = name.len().saturating_add(content.len());
                self.put(index, StepContent::ToolResult { id_ref, name, content, skipped }, bytes)
            }
            Event::StepDiscarded { index } => {
                self.parts.remove(&index);
                0
            }
        }
    }

    fn put(&mut self, index: u32, part: StepContent, bytes: usize) -> usize {
        self.parts.insert(index, part);
        bytes.saturating_add(size_of::<Step>())
    }

    /// The tokens that the end of the log names.
    pub fn token_count(&self) -> Option<u64> {
        self.token_count
    }

    /// The steps, in order.
    pub fn into_steps(self) -> Vec<Step> {
        let parts = self.parts.into_iter();
        parts.map(|(index, part)| Step { id: StepId(index), index, part }).collect()
    }
}

/// The steps of a log, in order, without discarded ones.
pub fn fold(events: impl IntoIterator<Item = SequencedEvent>) -> Vec<Step> {
    let mut fold = StepFold::default();
    for SequencedEvent { event, .. } in events {
        fold.take(event);
    }
    fold.into_steps()
}

/// The steps in messages, numbered from 0.
pub fn of_messages(messages: &[Message]) -> Vec<Step> {
    let parts = messages.iter().flat_map(parts_of);
    (0..).zip(parts).map(|(index, part)| Step { id: StepId(index), index, part }).collect()
}

fn text_step(kind: StepKind, content: String) -> StepContent {
    match kind {
        StepKind::Thinking => StepContent::Thinking { content },
        StepKind::Text | StepKind::Arguments => StepContent::Text { content },
    }
}

fn parts_of(message: &Message) -> Vec<StepContent> {
    match message {
        Message::Assistant { content, thinking, tool_calls, .. } => {
            let texts = [(StepKind::Thinking, thinking), (StepKind::Text, content)];
            let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
            let calls = tool_calls.iter().cloned().map(StepContent::ToolCall);
            texts.map(|(kind, text)| text_step(kind, text.clone())).chain(calls).collect()
        }
        Message::Tool { id_ref, name, content } => {
            let (id_ref, name, content) = (id_ref.clone(), name.clone(), content.clone());
            vec![StepContent::ToolResult { id_ref, name, content, skipped: false }]
        }
        Message::System { .. } | Message::User { .. } => Vec::new(),
    }
}

/// The answer's text, complete or partial: the last run of text that no tool call interrupts.
pub fn answer(steps: &[Step]) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for step in steps.iter().rev() {
        match &step.part {
            StepContent::Text { content } => texts.push(content),
            StepContent::Thinking { .. } => {}
            _ if texts.is_empty() => {}
            _ => break,
        }
    }
    texts.into_iter().rev().collect()
}

/// The calls of the steps, each with the first later result of its id. Providers may reuse ids, so earlier
/// results do not count.
pub fn calls(steps: &[Step]) -> Vec<CallRecord> {
    let mut results: HashMap<&str, (&String, bool)> = HashMap::new();
    let mut records = Vec::new();
    for step in steps.iter().rev() {
        match &step.part {
            StepContent::ToolResult { id_ref, content, skipped, .. } => {
                results.insert(id_ref, (content, *skipped));
            }
            StepContent::ToolCall(call) => {
                records.push(record(call, results.get(call.id_ref.as_str()).copied()));
            }
            StepContent::Thinking { .. } | StepContent::Text { .. } => {}
        }
    }
    records.reverse();
    records
}

/// The fields of a tool result.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultFields {
    success: Option<bool>,
    execution_time: Option<f64>,
}

/// A call with its result: the content, and whether the call was skipped.
fn record(call: &ToolCall, found: Option<(&String, bool)>) -> CallRecord {
    // A result of another shape has none of these fields.
    let fields: ResultFields =
        found.and_then(|(content, _)| serde_json::from_str(content).ok()).unwrap_or_default();
    CallRecord {
        id: call.id_ref.clone(),
        kind: "function",
        function: CalledFunction { name: call.name.clone(), arguments: call.arguments.clone() },
        result: found.map(|(content, _)| content.clone()),
        success: fields.success,
        skipped: found.is_some_and(|(_, skipped)| skipped),
        execution_time: fields.execution_time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn delta(index: u32, kind: StepKind, offset: u64, text: &str) -> Event {
        Event::Delta { index, kind, offset, first_seq: 0, text: text.to_owned() }
    }

    fn call(index: u32, id_ref: &str) -> Event {
        let (name, arguments) = ("calculator".to_owned(), "{}".to_owned());
        let call = ToolCall { id_ref: id_ref.to_owned(), name, arguments };
        Event::ToolCall { index, call, is_client: false }
    }

    fn result(index: u32, id_ref: &str, content: &str) -> Event {
        let (id_ref, name, content) = (id_ref.to_owned(), "calculator".to_owned(), content.to_owned());
        Event::ToolResult { index, id_ref, name, content, skipped: false, ended_at_ms: None }
    }

    fn folded(events: Vec<Event>) -> Vec<Step> {
        fold((1..).zip(events).map(|(seq, event)| SequencedEvent::new(seq, event)))
    }

    #[test]
    fn steps_keep_their_indexes_and_discarded_steps_are_removed() {
        let steps = folded(vec![
            delta(0, StepKind::Thinking, 0, "h"),
            delta(0, StepKind::Thinking, 1, "m"),
            delta(1, StepKind::Text, 0, "lost"),
            Event::StepDiscarded { index: 1 },
            delta(2, StepKind::Text, 0, "so "),
            call(3, "a"),
            result(4, "a", "{\"success\":true,\"execution_time\":0.5}"),
            delta(5, StepKind::Text, 0, "4"),
            delta(6, StepKind::Text, 0, "2"),
        ]);
        let shown = serde_json::to_value(&steps).expect("JSON");
        assert_eq!(
            shown,
            json!([
                {"id": "step-0", "index": 0, "type": "thinking", "content": "hm"},
                {"id": "step-2", "index": 2, "type": "text", "content": "so "},
                {"id": "step-3", "index": 3, "type": "tool_call", "id_ref": "a", "name": "calculator", "arguments": "{}"},
                {"id": "step-4", "index": 4, "type": "tool_result", "id_ref": "a", "name": "calculator",
                 "content": "{\"success\":true,\"execution_time\":0.5}", "skipped": false},
                {"id": "step-5", "index": 5, "type": "text", "content": "4"},
                {"id": "step-6", "index": 6, "type": "text", "content": "2"},
            ])
        );
        assert_eq!(answer(&steps), "42", "what goes on where an answer was cut belongs to it");
    }

    #[test]
    fn each_tool_call_is_paired_with_its_own_result() {
        let steps = folded(vec![
            call(0, "a"),
            call(1, "b"),
            result(2, "a", "{\"success\":false,\"execution_time\":1.5}"),
            call(3, "a"),
            result(4, "a", "no JSON"),
        ]);
        let records = calls(&steps);
        let fields: Vec<_> = records
            .iter()
            .map(|r| (r.id.as_str(), r.success, r.execution_time, r.result.is_some()))
            .collect();
        let expected =
            [("a", Some(false), Some(1.5), true), ("b", None, None, false), ("a", None, None, true)];
        assert_eq!(fields, expected);
        let shown = serde_json::to_value(&records).expect("JSON");
        assert_eq!(
            shown[1],
            json!({"id": "b", "type": "function", "function": {"name": "calculator", "arguments": "{}"}, "skipped": false})
        );
    }

    #[test]
    fn an_answer_that_ends_in_tools_is_the_text_before_them() {
        let steps = folded(vec![delta(0, StepKind::Text, 0, "look"), call(1, "a"), result(2, "a", "{}")]);
        assert_eq!(answer(&steps), "look");
        assert_eq!(answer(&[]), "");
    }

    #[test]
    fn steps_rebuilt_from_messages_equal_the_live_steps() {
        let tool_call = ToolCall { id_ref: "a".into(), name: "calculator".into(), arguments: "{}".into() };
        let with_calls = Message::Assistant {
            content: "look".into(),
            thinking: "hm".into(),
            tool_calls: vec![tool_call],
            echo: None,
        };
        let tool = Message::Tool { id_ref: "a".into(), name: "calculator".into(), content: "{}".into() };
        let steps = of_messages(&[with_calls, tool, Message::assistant("42")]);
        let live = folded(vec![
            delta(0, StepKind::Thinking, 0, "hm"),
            delta(1, StepKind::Text, 0, "look"),
            call(2, "a"),
            result(3, "a", "{}"),
            delta(4, StepKind::Text, 0, "42"),
        ]);
        assert_eq!(steps, live);
    }
}
