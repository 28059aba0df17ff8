//! Counts tool calls that fail repeatedly with the same arguments.

use crate::domain::canonical::canonical;
use crate::domain::tool::ToolCall;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// How often each call has failed since it last succeeded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RepeatedFailures(HashMap<(String, String), u32>);

/// The fields of a tool result that are read here.
#[derive(Deserialize)]
struct ResultStatus {
    success: bool,
    #[serde(default)]
    error: Value,
}

/// The error of a tool result that reports a failure; may be empty. A result of another shape is a success.
pub(super) fn reported_failure(content: &str) -> Option<String> {
    let status: ResultStatus = serde_json::from_str(content).ok()?;
    (!status.success).then(|| status.error.as_str().unwrap_or_default().to_owned())
}

impl RepeatedFailures {
    /// Counts a result. A result that does not report a failure is a success.
    pub(super) fn record(&mut self, call: &ToolCall, content: &str) {
        let key = (call.name.clone(), canonical_arguments(&call.arguments));
        if reported_failure(content).is_some() {
            let count = self.0.entry(key).or_default();
            *count = count.saturating_add(1);
        } else {
            self.0.remove(&key);
        }
    }

    /// The most failures of one call.
    pub(super) fn max_failures(&self) -> u32 {
        self.0.values().copied().max().unwrap_or(0)
    }
}

/// Arguments in canonical form, so that spaces and key order do not matter.
fn canonical_arguments(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments)
        .map_or_else(|_| arguments.trim().to_owned(), |value| canonical(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = r#"{"success":false,"data":null,"error":"no","execution_time":0.1}"#;
    const WORKED: &str = r#"{"success":true,"data":1,"error":null,"execution_time":0.1}"#;

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id_ref: "x".into(), name: "t".into(), arguments: arguments.into() }
    }

    #[test]
    fn repeated_failures_are_counted_per_call_and_reset_by_success() {
        let mut repeats = RepeatedFailures::default();
        repeats.record(&call(r#"{"a":1,"b":2}"#), FAILED);
        repeats.record(&call(r#"{ "b": 2, "a": 1 }"#), FAILED);
        assert_eq!(repeats.max_failures(), 2);
        repeats.record(&call(r#"{"a":2}"#), FAILED);
        assert_eq!(repeats.max_failures(), 2, "another call");
        repeats.record(&call(r#"{"a":1,"b":2}"#), WORKED);
        assert_eq!(repeats.max_failures(), 1);
        repeats.record(&call("{bad"), FAILED);
        repeats.record(&call("{bad"), "no JSON");
        assert_eq!(repeats.max_failures(), 1);
    }
}
