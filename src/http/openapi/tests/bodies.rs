//! Schemas of request bodies: those of their types, in which a test may replace what depends on limits or on
//! this server.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of a request. `special` replaces the schemas of fields, `required` adds required ones. Any
/// other field may be `null`, which is the same as absent.
pub(super) fn body<T: JsonSchema>(special: &[(&str, Value)], required: &[&str]) -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let drawn = settings.into_generator().into_root_schema_for::<T>().to_value();
    let drawn_required = drawn["required"].as_array().cloned().unwrap_or_default();
    let is_required =
        |name: &str| drawn_required.iter().any(|known| known == name) || required.contains(&name);
    let (mut fields, mut names) = (Map::new(), Vec::new());
    for (name, schema) in drawn["properties"].as_object().expect("an object") {
        let given = special.iter().find(|(special, _)| special == name).map(|(_, schema)| schema.clone());
        let schema = given.unwrap_or_else(|| plain(schema));
        if is_required(name) {
            names.push(name.clone());
        }
        fields.insert(name.clone(), if is_required(name) { schema } else { or_null(schema) });
    }
    assert!(special.iter().all(|(name, _)| fields.contains_key(*name)), "{special:?} of {fields:?}");
    assert_eq!(drawn["additionalProperties"], false, "unknown fields are errors");
    let mut object = json!({"type": "object", "properties": fields, "additionalProperties": false});
    if !names.is_empty() {
        object["required"] = json!(names);
    }
    object
}

/// The schema of a value that is not `null`, without names of formats that JSON has not.
fn plain(schema: &Value) -> Value {
    if let Some([schema, null]) = schema["anyOf"].as_array().map(Vec::as_slice)
        && null["type"] == "null"
    {
        return plain(schema);
    }
    if let Some(words) = schema["oneOf"].as_array() {
        return json!({"enum": words.iter().map(|word| word["const"].clone()).collect::<Vec<_>>()});
    }
    let mut schema = schema.as_object().expect("an object").clone();
    for key in ["default", "description", "format"] {
        schema.remove(key);
    }
    if schema.get("minLength") == Some(&json!(0)) {
        schema.remove("minLength");
    }
    if let Some(kinds) = schema.get("type").and_then(Value::as_array) {
        schema.insert("type".to_owned(), kinds[0].clone());
    }
    if schema.contains_key("enum") {
        schema.remove("type");
    }
    schema.into()
}

/// `null` is the same as absent.
fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        schema["type"] = json!([kind, "null"]);
        schema
    } else if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        if !words.contains(&Value::Null) {
            words.push(Value::Null);
        }
        schema
    } else {
        json!({"anyOf": [schema, {"type": "null"}]})
    }
}
