//! Assembles tool calls from their pieces, within the limits of an answer.

use super::chunk::CallDelta;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::llm::answer_output::AnswerLimits;
use crate::llm::call_ids::CallIds;
use crate::llm::json::{SurrogateJoiner, settled_bytes, without_halves};
use crate::ports::{Chunk, ModelError};
use serde_json::{Map, Value};

/// The calls of one answer so far.
#[derive(Debug)]
pub(super) struct CallAssembler {
    calls: Vec<PartialCall>,
    limits: AnswerLimits,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    surrogates: SurrogateJoiner,
    extra: Option<Value>,
    /// Bytes of the arguments that were passed on.
    sent: usize,
}

impl CallAssembler {
    /// No calls yet.
    pub(super) fn new(limits: AnswerLimits) -> Self {
        Self { calls: Vec::new(), limits }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a piece; returns the bytes that it added. `halved`: it has placeholders for lone surrogates.
    pub(super) fn add(&mut self, piece: CallDelta, halved: bool) -> Result<usize, ModelError> {
        let position = self.position_of(piece.index, &piece.id, &piece.name);
        if position.is_none() {
            self.limits.check_calls(self.calls.len().saturating_add(1))?;
            self.calls.push(PartialCall { index: piece.index, ..PartialCall::default() });
        }
        let last = self.calls.len().saturating_sub(1);
        let Some(call) = self.calls.get_mut(position.unwrap_or(last)) else { return Ok(0) };
        self.limits.check_arguments(call.arguments.len().saturating_add(piece.arguments.len()))?;
        let extra = piece.extra.as_ref().map_or(0, |extra| extra.to_string().len());
        let bytes = piece.name.len().saturating_add(piece.arguments.len());
        let added = bytes.saturating_add(piece.id.len()).saturating_add(extra);
        call.take(piece, halved);
        Ok(added)
    }

    /// What the newest call has got since the last time. Its name is whole once there are arguments.
    pub(super) fn news(&mut self) -> Option<Chunk<'_>> {
        // Calls without a name are left out at the end.
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return None;
        }
        let place = self.calls.len().checked_sub(1)?;
        let PartialCall { name, arguments, sent, .. } = self.calls.last_mut()?;
        let offset = *sent;
        *sent = offset.saturating_add(settled_bytes(arguments.get(offset..)?));
        let arguments = arguments.get(offset..*sent).filter(|piece| !piece.is_empty())?;
        Some(Chunk::Call { place, name, offset, arguments })
    }

    /// The position of the call that the piece belongs to; `None` if it begins a call.
    fn position_of(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None if !id.is_empty() => return self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => return None,
            None => return self.calls.len().checked_sub(1),
        };
        // Some providers number every call 0: another id together with a name begins another call.
        let call = self.calls.get(at)?;
        let another = !id.is_empty() && !call.id.is_empty() && id != call.id && !name.is_empty();
        (!another).then_some(at)
    }

    /// The calls in the model's order, with ids that are unique in the conversation. The map has the data
    /// that goes back to the provider, by id.
    pub(super) fn finish(self, history: &[Message]) -> (Vec<ToolCall>, Map<String, Value>) {
        let mut ids = CallIds::of(history);
        let mut extras = Map::new();
        let named = self.calls.into_iter().filter(|call| !call.name.is_empty());
        let calls = named.map(|mut call| {
            let id_ref = ids.assign(std::mem::take(&mut call.id));
            extras.extend(call.extra.take().map(|extra| (id_ref.clone(), extra)));
            call.arguments.push_str(call.surrogates.end());
            let arguments = without_halves(&call.arguments).into_owned();
            ToolCall { id_ref, name: call.name, arguments }
        });
        (calls.collect(), extras)
    }
}

impl PartialCall {
    fn take(&mut self, piece: CallDelta, halved: bool) {
        if self.id.is_empty() {
            self.id = piece.id;
        }
        // A name comes whole, or repeated with every piece, or (rarely) in pieces before the arguments begin.
        if self.name != piece.name && (self.name.is_empty() || self.arguments.is_empty()) {
            self.name.push_str(&piece.name);
        }
        self.arguments.push_str(&self.surrogates.join(&piece.arguments, halved));
        self.extra = piece.extra.or_else(|| self.extra.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limits() -> AnswerLimits {
        AnswerLimits { output_bytes: 1000, tool_calls: 3, tool_arguments_bytes: 20 }
    }

    fn merge(pieces: &Value) -> Result<Vec<(String, String, String)>, ModelError> {
        let mut calls = CallAssembler::new(limits());
        for piece in pieces.as_array().expect("pieces").iter().filter_map(CallDelta::read) {
            calls.add(piece, false)?;
        }
        Ok(calls.finish(&[]).0.into_iter().map(|c| (c.id_ref, c.name, c.arguments)).collect())
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.into(), name.into(), arguments.into())
    }

    #[test]
    fn call_pieces_are_merged_by_index() {
        let merged = merge(&json!([
            {"index": 0, "id": "a", "function": {"name": "x", "arguments": ""}},
            {"index": 1, "id": "b", "function": {"name": "y", "arguments": "{"}},
            {"index": 0, "id": null, "function": {"name": null, "arguments": "{}"}},
            {"index": 1, "function": {"name": "y", "arguments": "}"}},
        ]));
        assert_eq!(merged, Ok(vec![call("a", "x", "{}"), call("b", "y", "{}")]));
    }

    #[test]
    fn without_an_index_calls_are_separated_by_id_and_name() {
        let merged = merge(&json!([
            {"id": "a", "function": {"name": "x", "arguments": "{\"n\":"}},
            {"function": {"arguments": "1}"}},
            {"function": {"name": "x", "arguments": {"n": 2}}},
            {"function": {"name": "y"}},
        ]));
        let expected =
            vec![call("a", "x", "{\"n\":1}"), call("call_0", "x", "{\"n\":2}"), call("call_1", "y", "")];
        assert_eq!(merged, Ok(expected));
    }

    #[test]
    fn calls_that_are_all_numbered_zero_stay_separate() {
        let merged = merge(&json!([
            {"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}},
            {"index": 0, "id": "b", "function": {"name": "x", "arguments": "{}"}},
        ]));
        assert_eq!(merged, Ok(vec![call("a", "x", "{}"), call("b", "x", "{}")]));
    }

    #[test]
    fn a_tool_name_in_pieces_is_joined() {
        let merged = merge(&json!([
            {"index": 0, "id": "a", "function": {"name": "get_"}},
            {"index": 0, "function": {"name": "weather"}},
            {"index": 0, "function": {"name": "get_weather", "arguments": ""}},
        ]));
        assert_eq!(merged, Ok(vec![call("a", "get_weather", "")]));
    }

    #[test]
    fn the_pieces_of_a_call_are_the_beginning_of_its_arguments() {
        let pieces = json!([
            {"index": 0, "id": "a", "function": {"name": "x", "arguments": ""}},
            {"index": 0, "function": {"arguments": r#"{"n":"\ud83d"#}},
            {"index": 0, "function": {"arguments": r"\ude00"}},
            {"index": 0, "function": {"arguments": r"\ud83d"}},
            {"index": 0, "function": {"arguments": r#""}"#}},
            {"index": 1, "id": "b", "function": {"name": "y", "arguments": "{}"}},
        ]);
        let limits = AnswerLimits { tool_arguments_bytes: 100, ..limits() };
        let (mut calls, mut news) = (CallAssembler::new(limits), Vec::new());
        for piece in pieces.as_array().expect("pieces").iter().filter_map(CallDelta::read) {
            calls.add(piece, false).expect("within limits");
            if let Some(Chunk::Call { place, name, offset, arguments }) = calls.news() {
                news.push((place, name.to_owned(), offset, arguments.to_owned()));
            }
        }
        let piece = |place, name: &str, offset, text: &str| (place, name.to_owned(), offset, text.to_owned());
        let expected =
            [piece(0, "x", 0, r#"{"n":""#), piece(0, "x", 6, r"\ud83d\ude00"), piece(1, "y", 0, "{}")];
        assert_eq!(news, expected, "half a pair is held back");
        assert_eq!(calls.finish(&[]).0[0].arguments, r#"{"n":"\ud83d\ude00\ufffd"}"#);
    }

    #[test]
    fn p8_calls_and_arguments_are_bounded() {
        let many: Vec<Value> = (0..4).map(|i| json!({"index": i, "function": {"name": "x"}})).collect();
        assert!(matches!(merge(&json!(many)), Err(ModelError::TooLarge(_))));
        let long = json!([{"index": 0, "function": {"name": "x", "arguments": "x".repeat(21)}}]);
        assert!(matches!(merge(&long), Err(ModelError::TooLarge(_))));
    }

    #[test]
    fn call_ids_are_unique_in_a_conversation() {
        let earlier = ToolCall { id_ref: "0".into(), name: "x".into(), arguments: "{}".into() };
        let history = [Message::Assistant {
            content: String::new(),
            thinking: String::new(),
            tool_calls: vec![earlier],
            echo: None,
        }];
        let mut calls = CallAssembler::new(limits());
        let piece = json!({"index": 0, "id": "0", "function": {"name": "x", "arguments": "{}"}});
        calls.add(CallDelta::read(&piece).expect("a piece"), false).expect("within limits");
        let ids: Vec<_> = calls.finish(&history).0.into_iter().map(|c| c.id_ref).collect();
        assert_eq!(ids, ["call_1"]);
    }
}
