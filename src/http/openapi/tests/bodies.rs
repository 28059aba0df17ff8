//! Schemas of what is sent, drawn from the readers themselves: an example that names every field is read
//! once, and the reader tells what it asked for; a field without which the example is refused is required.

use crate::http::request::fields::record;
use serde_json::{Map, Value, json};

/// The schema of the object that `read` reads. `known` is its list of names, `example` has a good value for
/// each of them (but those that exclude each other, which are in `instead`), and `special` says what a
/// field may be that is read as a whole.
pub(super) fn body(
    known: &[&str],
    example: &Value,
    special: &[(&str, Value)],
    read: &dyn Fn(Map<String, Value>) -> bool,
) -> Value {
    let whole = example.as_object().expect("an example is an object").clone();
    let mut fields = Map::new();
    let frames = record::during(|| assert!(read(whole.clone()), "the example is refused: {example}"));
    let key: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
    let asked = frames.get(&key).unwrap_or_else(|| panic!("nobody reads an object of {known:?}"));
    let mut required = Vec::new();
    for name in known {
        let said = special.iter().find(|(special, _)| special == name).map(|(_, schema)| schema.clone());
        let schema = said.or_else(|| asked.get(*name).cloned());
        let schema = schema.unwrap_or_else(|| panic!("nobody says what '{name}' may be"));
        let mut without = whole.clone();
        let is_required = without.swap_remove(*name).is_some() && !read(without);
        if is_required {
            required.push(*name);
        }
        fields.insert((*name).to_owned(), if is_required { schema } else { or_null(schema) });
    }
    let mut object = json!({"type": "object", "properties": fields, "additionalProperties": false});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// `null` is the same as absent.
fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        schema["type"] = json!([kind, "null"]);
        schema
    } else if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
        schema
    } else {
        json!({"anyOf": [schema, {"type": "null"}]})
    }
}
