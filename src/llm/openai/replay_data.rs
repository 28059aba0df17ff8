//! Parts of an answer that go back to the provider unchanged: signatures of calls (Gemini), reasoning
//! (`OpenRouter`), as `{"reasoning_details": […], "extra_content": {<call>: …}}`.

use crate::domain::message::ProviderReplay;
use crate::llm::json::SurrogateJoiner;
use serde_json::{Map, Value, json};

/// The field with the reasoning of a message.
pub(super) const DETAILS: &str = "reasoning_details";
/// The field with an opaque part of a call.
pub(super) const EXTRA: &str = "extra_content";
/// Fields whose pieces are joined. Any other field arrives once.
const CONTINUED: [&str; 2] = ["text", "summary"];

/// The details of one answer so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    list: Vec<Map<String, Value>>,
    bytes: usize,
    halved: bool,
}

impl ReasoningDetails {
    /// Adds the details of a chunk. All of them are dropped above `limit` bytes, because providers refuse a
    /// part of them. `halved`: they have placeholders for lone surrogates.
    pub(super) fn add(&mut self, details: &[Value], halved: bool, limit: usize) {
        self.halved |= halved;
        for detail in details.iter().filter_map(Value::as_object) {
            self.bytes = self.bytes.saturating_add(size(detail));
            if self.bytes > limit {
                self.list = Vec::new();
                return;
            }
            match self.list.last_mut().filter(|last| continues(last, detail)) {
                Some(last) => merge(last, detail),
                None => self.list.push(detail.clone()),
            }
        }
    }

    /// The data that goes back with the message. `extras` are the opaque parts of calls by id.
    pub(super) fn finish(mut self, model: &str, extras: Map<String, Value>) -> Option<ProviderReplay> {
        let mut parts = Map::new();
        for detail in self.list.iter_mut().filter(|_| self.halved) {
            join_halves(detail);
        }
        if !self.list.is_empty() {
            parts.insert(DETAILS.to_owned(), self.list.into_iter().map(Value::Object).collect());
        }
        if !extras.is_empty() {
            parts.insert(EXTRA.to_owned(), Value::Object(extras));
        }
        (!parts.is_empty()).then(|| ProviderReplay { model: model.to_owned(), parts: Value::Object(parts) })
    }
}

fn join_halves(detail: &mut Map<String, Value>) {
    for key in CONTINUED {
        if let Some(Value::String(text)) = detail.get_mut(key) {
            let mut surrogates = SurrogateJoiner::default();
            *text = format!("{}{}", surrogates.join(text, true), surrogates.end());
        }
    }
}

fn size(detail: &Map<String, Value>) -> usize {
    let text = |value: &Value| value.as_str().map_or(8, str::len);
    detail.iter().map(|(key, value)| key.len().saturating_add(text(value))).sum()
}

fn continues(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let same = |key: &str| last.get(key) == next.get(key);
    let same_id =
        last.get("id").zip(next.get("id")).is_none_or(|(a, b)| a == b || a.is_null() || b.is_null());
    next.contains_key("index") && same("index") && same("type") && same_id
}

fn merge(last: &mut Map<String, Value>, next: &Map<String, Value>) {
    for (key, value) in next {
        match (last.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if CONTINUED.contains(&key.as_str()) => {
                text.push_str(more);
            }
            (Some(known), value) => *known = value.clone(),
            (None, value) => drop(last.insert(key.clone(), value.clone())),
        }
    }
}

/// Puts the parts into their assistant message. `with_extra`: also those of calls.
pub(super) fn put_back(
    echo: &ProviderReplay,
    message: &mut Map<String, Value>,
    ids: &[&str],
    with_extra: bool,
) {
    if let Some(details) = echo.parts.get(DETAILS) {
        message.insert(DETAILS.to_owned(), details.clone());
    }
    let Some(extras) = echo.parts.get(EXTRA).filter(|_| with_extra) else { return };
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (call, id) in calls.into_iter().flatten().zip(ids) {
        let extra = extras.get(*id).cloned();
        if let (Some(extra), Some(call)) = (extra, call.as_object_mut()) {
            call.insert(EXTRA.to_owned(), json!(extra));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_details_in_pieces_are_merged() {
        let mut details = ReasoningDetails::default();
        let text = |text: &str| json!({"type": "reasoning.text", "text": text, "index": 0, "format": "x"});
        details.add(&[text("a"), text("b"), Value::Null], false, 1000);
        details.add(
            &[json!({"type": "reasoning.text", "signature": "s", "index": 0, "format": null})],
            false,
            1000,
        );
        details.add(
            &[json!({"type": "reasoning.encrypted", "data": "d", "index": 0, "id": "1"})],
            false,
            1000,
        );
        details.add(
            &[json!({"type": "reasoning.encrypted", "data": "e", "index": 0, "id": "2"})],
            false,
            1000,
        );
        let echo = details.finish("m", Map::new()).expect("an echo");
        let whole =
            json!({"type": "reasoning.text", "text": "ab", "index": 0, "format": "x", "signature": "s"});
        assert_eq!(
            (&echo.parts[DETAILS][0], echo.parts[DETAILS].as_array().map(Vec::len)),
            (&whole, Some(3))
        );
    }

    #[test]
    fn surrogates_in_details_are_joined() {
        let mut details = ReasoningDetails::default();
        for text in [r#""a\ud83d""#, r#""\ude00""#] {
            let parsed = crate::llm::json::parse(text).expect("JSON");
            details.add(&[json!({"text": parsed.value, "index": 0})], parsed.halved, 1000);
        }
        let echo = details.finish("m", Map::new()).expect("an echo");
        assert_eq!(echo.parts[DETAILS], json!([{"text": "a😀", "index": 0}]));
    }

    #[test]
    fn p8_details_beyond_the_limit_are_dropped_entirely() {
        let mut details = ReasoningDetails::default();
        for _ in 0..10 {
            details.add(&[json!({"type": "reasoning.encrypted", "data": "0123456789"})], false, 60);
        }
        assert_eq!(details.finish("m", Map::new()), None);
    }
}
