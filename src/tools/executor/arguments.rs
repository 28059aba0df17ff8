//! Parses the arguments that a model wrote. It accepts common mistakes: a JSON text in a string, a wrapper
//! object, nothing.

use serde_json::{Map, Value};

/// The key under which some models wrap all arguments.
const WRAPPER: &str = "arguments";

/// The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentsError {
    #[error("Invalid JSON arguments: {0}")]
    Malformed(String),
    #[error("parameters must be a JSON object, not {0}: write {{\"name\": value}}")]
    NotAnObject(&'static str),
}

/// Accepts an object, a string with the JSON text of an object, or an empty text.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, ArgumentsError> {
    match parse_text(text)? {
        Value::String(inner) => object(parse_text(&inner)?),
        other => object(other),
    }
}

/// Unwraps `{"arguments": {…}}`, unless the tool has a parameter of that name.
pub(super) fn unwrap(
    mut arguments: Map<String, Value>,
    has_parameter: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    if arguments.len() != 1 || has_parameter(WRAPPER) {
        return arguments;
    }
    match arguments.remove(WRAPPER) {
        Some(Value::Object(inner)) => inner,
        Some(Value::String(text)) => match parse_text(&text).and_then(object) {
            Ok(inner) => inner,
            Err(_) => Map::from_iter([(WRAPPER.to_owned(), Value::String(text))]),
        },
        Some(other) => Map::from_iter([(WRAPPER.to_owned(), other)]),
        None => arguments,
    }
}

/// Renames aliases of parameters, unless the parameter itself is present or the alias is a parameter, too.
pub(super) fn apply_aliases(
    mut arguments: Map<String, Value>,
    aliases: &[(&str, &str)],
    has_parameter: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    for (alias, name) in aliases {
        if arguments.contains_key(*name) || has_parameter(alias) {
            continue;
        }
        if let Some(value) = arguments.remove(*alias) {
            arguments.insert((*name).to_owned(), value);
        }
    }
    arguments
}

fn parse_text(text: &str) -> Result<Value, ArgumentsError> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| ArgumentsError::Malformed(error.to_string()))
}

fn object(value: Value) -> Result<Map<String, Value>, ArgumentsError> {
    let kind = match value {
        Value::Object(map) => return Ok(map),
        Value::Null => return Ok(Map::new()),
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    Err(ArgumentsError::NotAnObject(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Value, ArgumentsError> {
        parse(text).map(|map| Value::Object(unwrap(map, |name| name == "x")))
    }

    #[test]
    fn common_argument_mistakes_are_accepted() {
        for text in ["", "  ", "null", "\"\"", "\"null\"", "{}", "{\"arguments\": {}}"] {
            assert_eq!(read(text), Ok(json!({})), "{text}");
        }
        for text in
            [r#"{"a":1}"#, r#""{\"a\":1}""#, r#"{"arguments":{"a":1}}"#, r#"{"arguments":"{\"a\":1}"}"#]
        {
            assert_eq!(read(text), Ok(json!({"a": 1})), "{text}");
        }
        assert_eq!(read(r#"{"arguments":{"a":1},"b":2}"#), Ok(json!({"arguments": {"a": 1}, "b": 2})));
        let owned = unwrap(Map::from_iter([("arguments".to_owned(), json!({"a": 1}))]), |_| true);
        assert_eq!(Value::Object(owned), json!({"arguments": {"a": 1}}), "the tool's own parameter");
    }

    #[test]
    fn invalid_arguments_are_refused_with_a_reason() {
        for text in ["{bad", "{\"a\": NaN}", "{\"a\": 1e999}", "\"{bad\"", &"[".repeat(1000)] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.starts_with("Invalid JSON arguments: "), "{error}");
        }
        for (text, kind) in
            [("[1]", "a list"), ("5", "a number"), ("true", "a boolean"), ("\"\\\"x\\\"\"", "a string")]
        {
            let error = read(text).expect_err(text).to_string();
            assert!(error.starts_with("parameters must be a JSON object") && error.contains(kind), "{error}");
        }
    }
}
