//! Parses JSON as providers really send it. Depth, odd numbers, stray control characters and lone surrogates
//! never fail an answer.

mod repair;
mod surrogates;

pub(crate) use surrogates::{SurrogateJoiner, settled_bytes, without_halves};

use serde_json::Value;

/// The most values of a text. Each takes many times its bytes in memory.
const MAX_VALUES: usize = 250_000;

/// A parsed JSON text.
#[derive(Debug, Clone)]
pub(crate) struct ParsedJson {
    /// The value. If `halved`, it has placeholders for lone surrogates: texts go through [`SurrogateJoiner`].
    pub(crate) value: Value,
    /// Whether the text has a lone surrogate.
    pub(crate) halved: bool,
}

/// Parses a JSON text, repaired if necessary; `None` if that fails.
pub(crate) fn parse(text: &str) -> Option<ParsedJson> {
    if text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_VALUES {
        return None;
    }
    let (text, halved) = surrogates::mark(text);
    let value = serde_json::from_str(&text).or_else(|_| serde_json::from_str(&repair::mend(&text))).ok()?;
    Some(ParsedJson { value, halved })
}

/// A count, written as a number or as text.
pub(crate) fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| whole(text.parse().ok()?))
        }
        _ => None,
    }
}

/// The largest float that is an exact count.
const COUNT_MAX: f64 = 9e15;

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn whole(number: f64) -> Option<u64> {
    (0.0..=COUNT_MAX).contains(&number).then_some(number as u64)
}

/// Whether the value is `null`, `false`, 0, an empty text, or a container of only such values.
pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        Value::Object(fields) => fields.values().all(is_blank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Option<Value> {
        parse(text).map(|parsed| parsed.value)
    }

    #[test]
    fn deeply_nested_json_is_parsed() {
        let deep = format!("{{\"a\":1,\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(value(&deep).expect("reads")["a"], 1);
        let deep = format!("{{\"a\":1,\"x\":{}1{}}}", "{\"b\":".repeat(10_000), "}".repeat(10_000));
        assert_eq!(value(&deep).expect("reads")["a"], 1);
        assert_eq!(value(&"[".repeat(10_000)), None, "a text without its end is no JSON");
    }

    #[test]
    fn p8_a_text_with_too_many_values_is_refused() {
        assert_eq!(value(&format!("[0{}]", ",0".repeat(300_000))), None);
        assert!(
            value(&format!("{{\"a\":\"{}\"}}", "x".repeat(3_000_000))).is_some(),
            "a long text is not many values"
        );
    }

    #[test]
    fn mistakes_of_json_writers_are_repaired() {
        assert_eq!(value("{\"a\":NaN,\"b\":[-Infinity,1]}"), Some(json!({"a": null, "b": [null, 1]})));
        assert_eq!(value("{\"a\":\"x\u{0}\ty\nz\"}"), Some(json!({"a": "x\u{0}\ty\nz"})));
        assert_eq!(value("{\"a\":\"\\x \\' NaN\"}"), Some(json!({"a": "\\x \\' NaN"})));
        assert_eq!(value("{\"a\":\"\\u12\"}"), Some(json!({"a": "\\u12"})));
        assert_eq!(value("{\"a\":1,\"a\":2}"), Some(json!({"a": 2})), "the last value of a key counts");
        assert_eq!(value("{\"a\":1e999}"), Some(json!({"a": null})));
        for bad in ["", "{", "{\"a\"", "{a:1}", "nonsense", "{} {}"] {
            assert_eq!(value(bad), None, "{bad}");
        }
    }

    #[test]
    fn counts_are_read_in_every_notation() {
        for (given, read) in [
            (json!(3), Some(3)),
            (json!("12"), Some(12)),
            (json!(" 7.0 "), Some(7)),
            (json!(2.9), Some(2)),
            (json!(-1), None),
            (json!("-1"), None),
            (json!("NaN"), None),
            (json!(1e300), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(count(&given), read, "{given}");
        }
    }

    #[test]
    fn empty_values_are_blank() {
        for blank in [json!(null), json!(""), json!({}), json!([]), json!({"message": null, "code": 0})] {
            assert!(is_blank(&blank), "{blank}");
        }
        assert!(!is_blank(&json!({"code": 1})) && !is_blank(&json!("x")) && !is_blank(&json!(true)));
    }
}
