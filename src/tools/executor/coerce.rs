//! Converts values where the intent is obvious: `"5"` → 5, `"true"` → true, 5.0 → 5, 5 → `"5"`, a JSON text
//! → its list or object, if the schema expects that type.

use serde_json::{Number, Value};

/// Integers beyond this are not exact as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Coerces `value` and its items where `schema` expects another type.
pub(super) fn coerce(value: &mut Value, schema: &Value) {
    match value {
        Value::String(text) => {
            if let Some(parsed) = parse_text(text, schema) {
                *value = parsed;
            } else if let Some(mut parsed) = parse_json(text, schema) {
                coerce(&mut parsed, schema);
                *value = parsed;
            }
        }
        Value::Number(number) => {
            let integer = to_integer(number).filter(|_| accepts(schema, "integer"));
            let is_number = accepts(schema, "number") || (accepts(schema, "integer") && !number.is_f64());
            let text = (!is_number && accepts(schema, "string")).then(|| Value::from(number.to_string()));
            if let Some(converted) = integer.or(text) {
                *value = converted;
            }
        }
        Value::Bool(flag) if accepts(schema, "string") && !accepts(schema, "boolean") => {
            *value = Value::from(flag.to_string());
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    coerce(item, schema);
                }
            }
        }
        Value::Object(map) => {
            map.retain(|name, item| !(item.is_null() && is_missing(name, schema)));
            for (name, item) in map.iter_mut() {
                if let Some(schema) = schema.get("properties").and_then(|p| p.get(name)) {
                    coerce(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// Whether the schema accepts this type, itself or in one of its alternatives.
pub(super) fn accepts(schema: &Value, kind: &str) -> bool {
    let alternatives =
        || ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => alternatives().any(|schema| schema.get("type").is_some_and(|expected| expected == kind)),
    }
}

/// Whether a null means a missing parameter: it is optional, and its type does not allow null.
fn is_missing(name: &str, schema: &Value) -> bool {
    let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) else {
        return false;
    };
    let is_required = schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|required| required.iter().any(|required| required == name));
    !is_required && property.get("type").is_some() && !accepts(property, "null")
}

fn parse_text(text: &str, schema: &Value) -> Option<Value> {
    if accepts(schema, "string") {
        return None;
    }
    let text = text.trim();
    let integer = || {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let unsigned = || text.parse::<u64>().ok().map(Value::from);
        if is_integer { text.parse::<i64>().ok().map(Value::from).or_else(unsigned) } else { None }
    };
    let number = || {
        let starts_like_number =
            text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        let finite = text.parse::<f64>().ok().filter(|_| starts_like_number).and_then(Number::from_f64);
        integer().or(finite.map(Value::Number))
    };
    let boolean = || match text.to_ascii_lowercase().as_str() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    };
    let parsers: [(&str, &dyn Fn() -> Option<Value>); 3] =
        [("integer", &integer), ("number", &number), ("boolean", &boolean)];
    parsers.iter().filter(|(kind, _)| accepts(schema, kind)).find_map(|(_, parse)| parse())
}

/// The list or object that a text holds, where the schema expects one and no text.
fn parse_json(text: &str, schema: &Value) -> Option<Value> {
    let kind = match text.trim_start().as_bytes().first()? {
        b'[' => "array",
        b'{' => "object",
        _ => return None,
    };
    let is_expected = accepts(schema, kind) && !accepts(schema, "string");
    serde_json::from_str(text).ok().filter(|_| is_expected)
}

fn to_integer(number: &Number) -> Option<Value> {
    let float = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < EXACT)?;
    format!("{float:.0}").parse::<i64>().ok().map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn coerced(mut value: Value, schema: &Value) -> Value {
        coerce(&mut value, schema);
        value
    }

    #[test]
    fn unambiguous_values_are_coerced() {
        for (kind, written, read) in [
            ("integer", json!("5"), json!(5)),
            ("integer", json!(" -7 "), json!(-7)),
            ("integer", json!("18446744073709551615"), json!(u64::MAX)),
            ("integer", json!(5.0), json!(5)),
            ("number", json!("1.5"), json!(1.5)),
            ("number", json!("1e3"), json!(1000.0)),
            ("number", json!("5"), json!(5)),
            ("boolean", json!("True"), json!(true)),
            ("boolean", json!("false"), json!(false)),
            ("string", json!(5), json!("5")),
            ("string", json!(-2.5), json!("-2.5")),
            ("string", json!(true), json!("true")),
            ("array", json!("[1, 2]"), json!([1, 2])),
            ("object", json!(" {\"a\": 1}"), json!({"a": 1})),
        ] {
            assert_eq!(coerced(written.clone(), &json!({"type": kind})), read, "{written} as {kind}");
        }
        assert_eq!(coerced(json!("5"), &json!({"type": ["integer", "null"]})), json!(5));
    }

    #[test]
    fn ambiguous_values_stay_unchanged() {
        for (kind, written) in [
            ("integer", json!("abc")),
            ("integer", json!("5.5")),
            ("integer", json!(5.5)),
            ("integer", json!("")),
            ("integer", json!(true)),
            ("number", json!("NaN")),
            ("number", json!("inf")),
            ("number", json!("-inf")),
            ("number", json!("1e999")),
            ("boolean", json!("yes")),
            ("boolean", json!(1)),
            ("string", json!([5])),
            ("string", json!(null)),
            ("string", json!("[1]")),
            ("array", json!("x")),
            ("array", json!("[1")),
            ("array", json!("{}")),
        ] {
            assert_eq!(coerced(written.clone(), &json!({"type": kind})), written, "{written} as {kind}");
        }
        for text_or_number in [json!("5"), json!(5)] {
            let schema = json!({"type": ["integer", "string"]});
            assert_eq!(coerced(text_or_number.clone(), &schema), text_or_number);
        }
        assert_eq!(coerced(json!(5), &json!({"description": "any type"})), json!(5));
    }

    #[test]
    fn a_null_for_an_optional_parameter_is_removed() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer"}, "b": {"type": ["integer", "null"]}, "c": {"type": "integer"}, "d": {},
                "e": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["c"],
        });
        let read = coerced(json!({"a": null, "b": null, "c": null, "d": null, "e": "5", "f": null}), &schema);
        assert_eq!(read, json!({"b": null, "c": null, "d": null, "e": 5, "f": null}));
    }

    #[test]
    fn nested_values_are_coerced() {
        let inner = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": inner}}});
        let read = coerced(json!({"list": [{"n": "1"}, {"n": "x"}], "other": "1"}), &schema);
        assert_eq!(read, json!({"list": [{"n": 1}, {"n": "x"}], "other": "1"}));
    }
}
