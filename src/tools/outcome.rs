//! A result in the form that models get: `{"success","data","error","execution_time"}`. Owns that form and the cut
//! of what is too long for it; refuses to wrap a failure in a success.

use crate::ports::{ToolError, ToolOutcome};
use serde_json::{Map, Value, json};

/// Texts are not cut below this.
const CAP_MIN_CHARS: usize = 100;
/// Characters that the marker of a cut may take.
const MARKER_CHARS: usize = 64;

/// What one run, or its refusal, came to.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    result: Result<Value, ToolError>,
    millis: u64,
    skipped: bool,
    duplicate: bool,
}

impl Outcome {
    /// A run that took so long.
    pub(super) fn ran(result: Result<Value, ToolError>, millis: u64) -> Self {
        Self { result, millis, skipped: false, duplicate: false }
    }

    /// A call that was refused before it ran.
    pub(super) fn refused(message: String) -> Self {
        Self { result: Err(ToolError::Invalid(message)), millis: 0, skipped: false, duplicate: false }
    }

    /// A call that was not run because the job has to end.
    pub(super) fn cancelled() -> Self {
        let message = "(cancelled) the call was not run".to_owned();
        Self { result: Err(ToolError::Invalid(message)), millis: 0, skipped: true, duplicate: false }
    }

    /// The same for the twin of a call.
    pub(super) fn for_twin(&self) -> Self {
        Self { duplicate: true, skipped: true, ..self.clone() }
    }

    /// The text for the model, at most `limit` characters of it.
    pub(super) fn into_tool_outcome(self, limit: usize) -> ToolOutcome {
        let skipped = self.skipped;
        let value = shortened(self.into_value(), limit);
        ToolOutcome { content: value.to_string(), skipped }
    }

    fn into_value(self) -> Value {
        let (success, data, error) = match self.result {
            Ok(data) => (true, data, Value::Null),
            Err(ToolError::Invalid(message)) => (false, Value::Null, Value::String(message)),
            Err(ToolError::Failed { message, data }) => (false, data, Value::String(message)),
        };
        let mut result = Map::new();
        result.insert("success".to_owned(), Value::Bool(success));
        result.insert("data".to_owned(), data);
        result.insert("error".to_owned(), error);
        result.insert(
            "execution_time".to_owned(),
            json!(std::time::Duration::from_millis(self.millis).as_secs_f64()),
        );
        if self.duplicate {
            result.insert("duplicate".to_owned(), Value::Bool(true));
        }
        Value::Object(result)
    }
}

/// The result within the limit: its long texts keep head and tail, all down to one length; data that has too many
/// texts for that becomes its own JSON text, cut likewise. The JSON stays valid and says what is missing.
fn shortened(result: Value, limit: usize) -> Value {
    if fits(&result, limit) {
        return result;
    }
    longest_fit(&result, limit).unwrap_or_else(|| {
        let flat = flattened(result);
        longest_fit(&flat, limit).unwrap_or_else(|| capped(&flat, CAP_MIN_CHARS))
    })
}

fn fits(value: &Value, limit: usize) -> bool {
    value.to_string().chars().count() <= limit
}

/// The result with texts as long as the limit allows; `None` when even the shortest ones are too many.
fn longest_fit(result: &Value, limit: usize) -> Option<Value> {
    let mut best = Some(capped(result, CAP_MIN_CHARS)).filter(|value| fits(value, limit))?;
    let (mut fitting, mut failing) = (CAP_MIN_CHARS, limit);
    while failing.saturating_sub(fitting) > 1 {
        let cap = fitting.midpoint(failing);
        let tried = capped(result, cap);
        if fits(&tried, limit) {
            (fitting, best) = (cap, tried);
        } else {
            failing = cap;
        }
    }
    Some(best)
}

/// A copy in which no text is longer than `cap` characters and the marker.
fn capped(value: &Value, cap: usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, cap)),
        Value::Array(items) => items.iter().map(|item| capped(item, cap)).collect(),
        Value::Object(map) => map.iter().map(|(name, item)| (name.clone(), capped(item, cap))).collect(),
        other => other.clone(),
    }
}

fn flattened(mut result: Value) -> Value {
    if let Some(data) = result.get_mut("data").filter(|data| !data.is_null()) {
        *data = Value::String(data.to_string());
    }
    result
}

fn cut(text: &str, cap: usize) -> String {
    let length = text.chars().count();
    if length <= cap.saturating_add(MARKER_CHARS) {
        return text.to_owned();
    }
    let (head, tail) = (cap.div_ceil(2), cap / 2);
    let first: String = text.chars().take(head).collect();
    let last: String = text.chars().skip(length.saturating_sub(tail)).collect();
    format!("{first}\n… [{} of {length} characters cut] …\n{last}", length.saturating_sub(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(data: Value, limit: usize) -> (String, Value) {
        let text = Outcome::ran(Ok(data), 1_500).into_tool_outcome(limit).content;
        let value = serde_json::from_str(&text).expect("valid JSON");
        (text, value)
    }

    #[test]
    fn the_form_is_fixed() {
        let (text, _) = content(json!({"a": 1}), 1_000);
        assert_eq!(text, r#"{"success":true,"data":{"a":1},"error":null,"execution_time":1.5}"#);
        let failed = ToolError::Failed { message: "no".into(), data: json!({"output": "x"}) };
        let twin = Outcome::ran(Err(failed), 0).for_twin().into_tool_outcome(1_000);
        let expected =
            r#"{"success":false,"data":{"output":"x"},"error":"no","execution_time":0.0,"duplicate":true}"#;
        assert_eq!((twin.content.as_str(), twin.skipped), (expected, true));
    }

    #[test]
    fn p8_long_texts_keep_head_and_tail() {
        let (text, value) =
            content(json!({"output": format!("HEAD{}TAIL", "x".repeat(50_000)), "status": "ok"}), 16_000);
        assert!(text.chars().count() <= 16_000, "{}", text.len());
        let output = value["data"]["output"].as_str().expect("a text");
        assert!(output.starts_with("HEADxx") && output.ends_with("xxTAIL"));
        assert!(output.contains("of 50008 characters cut] …"), "it says what was cut");
        assert!(text.chars().count() > 15_000, "no more is cut than must be");
        assert_eq!(value["data"]["status"], "ok");
    }

    #[test]
    fn p8_whatever_is_long_is_cut() {
        for data in [
            json!("\u{0}".repeat(50_000)),
            json!("ü\n\"".repeat(20_000)),
            json!(vec![123_456; 20_000]),
            json!(vec!["y".repeat(150); 1_000]),
            json!(vec!["y".repeat(300); 1_000]),
            json!({"a": "x".repeat(20_000), "b": "y".repeat(20_000), "c": vec![1; 100]}),
            json!({"k".repeat(50_000): 1}),
        ] {
            let (text, value) = content(data, 16_000);
            assert!(text.chars().count() <= 16_000, "{}", text.chars().count());
            assert!(value.to_string().contains("characters cut"), "{text}");
        }
        let error = ToolError::Invalid("z".repeat(100_000));
        assert!(Outcome::ran(Err(error), 0).into_tool_outcome(16_000).content.len() <= 16_100);
    }
}
