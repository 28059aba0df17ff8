//! Smallest arguments that match a schema. Patterns are not guessed.

use super::schema::accepts;
use serde_json::{Map, Value, json};

/// Maximum nesting of arguments.
const DEPTH: usize = 16;
/// Longest generated text and list.
const MAX_LENGTH: u64 = 1_024;

/// Arguments that match the schema; `None` if none can be generated.
pub(super) fn sample_arguments(schema: &Value) -> Option<Map<String, Value>> {
    match sample(schema, 0).filter(|sample| accepts(schema, sample)) {
        Some(Value::Object(map)) => Some(map),
        _ => None,
    }
}

fn sample(schema: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH {
        return None;
    }
    let explicit = ["const", "default", "example"].into_iter().filter_map(|key| schema.get(key));
    let listed = ["enum", "examples"].into_iter().filter_map(|key| schema.get(key)?.as_array()?.first());
    if let Some(value) = explicit.chain(listed).find(|value| accepts(schema, value)) {
        return Some(value.clone());
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        let branches = schema.get(choice).and_then(Value::as_array).into_iter().flatten();
        let mut samples = branches.filter_map(|branch| sample(branch, depth + 1));
        if let Some(first_match) = samples.find(|sample| accepts(schema, sample)) {
            return Some(first_match);
        }
    }
    match schema_type(schema) {
        "object" => object(schema, depth),
        "array" => array(schema, depth),
        "string" => Some(text(schema)),
        "integer" | "number" => Some(number(schema)),
        "boolean" => Some(json!(false)),
        "null" => Some(Value::Null),
        _ => None,
    }
}

/// The first type of the schema, or the type that its keywords imply.
fn schema_type(schema: &Value) -> &str {
    let named = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    let implied = || if schema.get("properties").is_some() { "object" } else { "string" };
    named.unwrap_or_else(implied)
}

fn object(schema: &Value, depth: usize) -> Option<Value> {
    let mut fields = Map::new();
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str()?;
        let property = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
            .cloned()
            .unwrap_or_else(|| json!({}));
        fields.insert(name.to_owned(), sample(&property, depth + 1)?);
    }
    Some(Value::Object(fields))
}

fn array(schema: &Value, depth: usize) -> Option<Value> {
    let min_items = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let item = schema.get("items").cloned().unwrap_or_else(|| json!({}));
    (min_items <= MAX_LENGTH).then_some(())?;
    (0..min_items).map(|_| sample(&item, depth + 1)).collect()
}

fn text(schema: &Value) -> Value {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2024-01-01T00:00:00Z",
        Some("date") => "2024-01-01",
        Some("time") => "00:00:00Z",
        Some("email") => "nobody@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("ipv4") => "127.0.0.1",
        _ => "test",
    };
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let min_length = usize::try_from(limit("minLength").unwrap_or(0).min(MAX_LENGTH)).unwrap_or(0);
    let max_length = usize::try_from(limit("maxLength").unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let padded = text.chars().chain(std::iter::repeat('x'));
    json!(padded.take(min_length.max(text.len()).min(max_length)).collect::<String>())
}

fn number(schema: &Value) -> Value {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let candidates = [
        Some(1.0),
        limit("minimum"),
        limit("exclusiveMinimum").map(|min| min.floor() + 1.0),
        limit("maximum"),
        limit("exclusiveMaximum").map(|max| max.ceil() - 1.0),
        limit("multipleOf"),
        Some(0.0),
    ];
    let numbers = candidates.into_iter().flatten().map(integer_if_whole);
    numbers.into_iter().find(|number| accepts(schema, number)).unwrap_or_else(|| json!(1))
}

fn integer_if_whole(number: f64) -> Value {
    let text = format!("{number}");
    text.parse::<i64>().map_or_else(|_| json!(number), |integer| json!(integer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(schema: &Value) -> Option<Value> {
        sample_arguments(schema).map(Value::Object)
    }

    #[test]
    fn the_smallest_matching_arguments_are_generated() {
        let schema = json!({"type": "object", "required": ["a", "b", "c", "d", "e", "f", "g", "h", "i"], "properties": {
            "a": {"type": "string"}, "b": {"type": "integer", "minimum": 5}, "c": {"enum": ["x", "y"]},
            "d": {"type": "boolean", "default": true}, "e": {"type": "array", "items": {"type": "number"}, "minItems": 2},
            "f": {"type": "object", "required": ["g"], "properties": {"g": {"const": 7}}},
            "g": {"type": "string", "minLength": 6}, "h": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "i": {"type": "string", "examples": ["like this"]}, "unneeded": {"type": "string"}}});
        assert_eq!(
            samples(&schema),
            Some(json!({"a": "test", "b": 5, "c": "x", "d": true, "e": [1, 1], "f": {"g": 7}, "g": "testxx",
                "h": null, "i": "like this"}))
        );
        assert_eq!(samples(&json!({"type": "object"})), Some(json!({})));
    }

    #[test]
    fn numbers_respect_their_bounds() {
        for (part, number) in [
            (json!({"type": "integer", "exclusiveMinimum": 9}), json!(10)),
            (json!({"type": "integer", "maximum": -3}), json!(-3)),
            (json!({"type": "number", "minimum": 0.25, "maximum": 0.5}), json!(0.25)),
            (json!({"type": "integer", "multipleOf": 7, "minimum": 2}), json!(7)),
        ] {
            let schema = json!({"type": "object", "required": ["n"], "properties": {"n": part}});
            assert_eq!(samples(&schema), Some(json!({"n": number})), "{schema}");
        }
    }

    #[test]
    fn a_pattern_has_no_sample() {
        let schema = json!({"type": "object", "required": ["p"], "properties": {"p": {"type": "string", "pattern": "^[0-9]{9}$"}}});
        assert_eq!(samples(&schema), None);
    }
}
