//! The outcome of a call, and the JSON that models get of it: `{"success","data","error","execution_time"}`.

use super::truncate::{ResultLimits, truncated};
use crate::ports::{FullResult, ToolError, ToolOutcome};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutcomeKind {
    Ran,
    Refused,
    Cancelled,
    Cached,
}

/// The result of a call, whether it ran or not.
#[derive(Debug, Clone)]
pub(super) struct CallOutcome {
    result: Result<Value, ToolError>,
    millis: u64,
    kind: OutcomeKind,
    duplicate: bool,
}

impl CallOutcome {
    pub(super) fn ran(result: Result<Value, ToolError>, millis: u64) -> Self {
        Self { result, millis, kind: OutcomeKind::Ran, duplicate: false }
    }

    /// A call that was refused before it ran.
    pub(super) fn refused(message: String) -> Self {
        Self { kind: OutcomeKind::Refused, ..Self::ran(Err(ToolError::Invalid(message)), 0) }
    }

    /// A call that did not run because the job has to end.
    pub(super) fn cancelled() -> Self {
        let message = "(cancelled) the call was not run".to_owned();
        Self { kind: OutcomeKind::Cancelled, ..Self::refused(message) }
    }

    /// A call that is answered from the cache.
    pub(super) fn cached(data: Value) -> Self {
        Self { result: Ok(data), millis: 0, kind: OutcomeKind::Cached, duplicate: false }
    }

    /// The same for the duplicate of a call.
    pub(super) fn for_duplicate(&self) -> Self {
        Self { duplicate: true, ..self.clone() }
    }

    pub(super) fn result(&self) -> Result<&Value, &ToolError> {
        self.result.as_ref()
    }

    /// The duration of the run; 0 without a run.
    pub(super) fn millis(&self) -> u64 {
        if self.skip_reason().is_none() { self.millis } else { 0 }
    }

    /// The reason why it did not run; `None` if it ran.
    pub(super) fn skip_reason(&self) -> Option<&'static str> {
        match self.kind {
            OutcomeKind::Refused => Some("refused"),
            OutcomeKind::Cancelled => Some("cancelled"),
            OutcomeKind::Cached => Some("cached"),
            OutcomeKind::Ran if self.duplicate => Some("duplicate"),
            OutcomeKind::Ran => None,
        }
    }

    /// The text for the model within the limits, and the full text if it was cut.
    pub(super) fn to_tool_outcome(&self, limits: &ResultLimits) -> ToolOutcome {
        let skipped = self.duplicate || matches!(self.kind, OutcomeKind::Cancelled | OutcomeKind::Cached);
        let (value, full_text) = truncated(self.to_value(), limits);
        let handle = limits.reader.as_ref().map(|reader| reader.handle.clone());
        let full_result = handle.zip(full_text).map(|(handle, content)| FullResult { handle, content });
        ToolOutcome { content: value.to_string(), skipped, full_result }
    }

    fn to_value(&self) -> Value {
        let (success, data, error) = match &self.result {
            Ok(data) => (true, data.clone(), Value::Null),
            Err(ToolError::Invalid(message)) => (false, Value::Null, message.as_str().into()),
            Err(ToolError::Failed { message, data }) => (false, data.clone(), message.as_str().into()),
        };
        let seconds = Duration::from_millis(self.millis).as_secs_f64();
        let mut result = json!({"success": success, "data": data, "error": error, "execution_time": seconds});
        let mut flag = |name: &str, is_set: bool| {
            if let Some(fields) = result.as_object_mut().filter(|_| is_set) {
                fields.insert(name.to_owned(), Value::Bool(true));
            }
        };
        flag("cached", self.kind == OutcomeKind::Cached);
        flag("duplicate", self.duplicate);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_limits(chars: usize) -> ResultLimits {
        ResultLimits { chars, bytes: 1 << 20, reader: None }
    }

    fn content(data: Value, limit: usize) -> (String, Value) {
        let text = CallOutcome::ran(Ok(data), 1_500).to_tool_outcome(&result_limits(limit)).content;
        let value = serde_json::from_str(&text).expect("valid JSON");
        (text, value)
    }

    #[test]
    fn a_tool_result_has_a_fixed_json_form() {
        let (text, _) = content(json!({"a": 1}), 1_000);
        assert_eq!(text, r#"{"success":true,"data":{"a":1},"error":null,"execution_time":1.5}"#);
        let failed = ToolError::Failed { message: "no".into(), data: json!({"output": "x"}) };
        let duplicate =
            CallOutcome::ran(Err(failed), 0).for_duplicate().to_tool_outcome(&result_limits(1_000));
        let expected =
            r#"{"success":false,"data":{"output":"x"},"error":"no","execution_time":0.0,"duplicate":true}"#;
        assert_eq!((duplicate.content.as_str(), duplicate.skipped), (expected, true));
        let cached = CallOutcome::cached(json!(1)).to_tool_outcome(&result_limits(1_000));
        let expected = r#"{"success":true,"data":1,"error":null,"execution_time":0.0,"cached":true}"#;
        assert_eq!((cached.content.as_str(), cached.skipped), (expected, true));
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
    fn p8_long_results_of_any_shape_are_truncated() {
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
        assert!(
            CallOutcome::ran(Err(error), 0).to_tool_outcome(&result_limits(16_000)).content.len() <= 16_100
        );
    }
}
