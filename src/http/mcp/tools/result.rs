//! Results of tools: the same object as JSON text, for models, and as structured content.

use crate::http::error::ApiError;
use serde_json::{Map, Value, json};

/// The result of a call that did what it was asked.
pub(super) fn done(structured: Map<String, Value>) -> Value {
    let text = Value::Object(structured);
    json!({
        "content": [{"type": "text", "text": text.to_string()}],
        "structuredContent": text,
        "isError": false,
    })
}

/// The result of a call that failed in the tool: the reason, and what there is beside it.
pub(super) fn failure(message: &str, structured: Map<String, Value>) -> Value {
    let mut content = vec![json!({"type": "text", "text": message})];
    if structured.is_empty() {
        return json!({"content": content, "isError": true});
    }
    let structured = Value::Object(structured);
    content.push(json!({"type": "text", "text": structured.to_string()}));
    json!({"content": content, "structuredContent": structured, "isError": true})
}

/// The result of a call that the server refused.
pub(super) fn failed(error: &ApiError) -> Value {
    failure(&error.message(), Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_result_is_its_structured_content() {
        let result = done(Map::from_iter([("a".to_owned(), json!(1))]));
        assert_eq!(result["content"][0]["text"], r#"{"a":1}"#);
        assert_eq!((&result["structuredContent"], &result["isError"]), (&json!({"a": 1}), &json!(false)));
    }

    #[test]
    fn a_failure_begins_with_its_reason() {
        let output = Map::from_iter([("output".to_owned(), json!("half"))]);
        let result = failure("it broke", output);
        assert_eq!((&result["content"][0]["text"], &result["isError"]), (&json!("it broke"), &json!(true)));
        assert_eq!(result["structuredContent"]["output"], "half");
        assert_eq!(failed(&ApiError::NotFound("job"))["structuredContent"], Value::Null);
    }
}
