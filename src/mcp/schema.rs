//! Normalises the input schemas of servers for providers: an object at the root, references resolved, null
//! as one of a list of types.

use jsonschema::Draft;
use serde_json::{Map, Value, json};

/// Longest schema of one tool, bytes.
const SCHEMA_BYTES: usize = 128 * 1024;
/// Maximum nesting, references included.
const DEPTH: usize = 32;
/// Maximum number of parts after references are resolved.
const PARTS: usize = 4_096;
/// Keywords that are removed: identifiers and definitions.
const METADATA: [&str; 6] = ["$schema", "$id", "$defs", "definitions", "$anchor", "$comment"];
/// Keywords that providers refuse at the root.
const CHOICES: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// The schema for models and for the validation of arguments, or why it cannot be used.
pub(super) fn normalise(schema: &Map<String, Value>) -> Result<Value, String> {
    let root_schema = Value::Object(schema.clone());
    let bytes = root_schema.to_string().len();
    if bytes > SCHEMA_BYTES {
        return Err(format!("its schema has {bytes} bytes, more than {SCHEMA_BYTES}"));
    }
    let mut resolver = Resolver { root_schema: &root_schema, parts: 0 };
    let Value::Object(mut root) = resolver.resolve(&root_schema, 0)? else {
        return Err("its schema is no object".to_owned());
    };
    merge_choices(&mut root);
    root.insert("type".to_owned(), json!("object"));
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".to_owned(), json!({}));
    }
    let normalised = Value::Object(root);
    compile(&normalised)?;
    Ok(normalised)
}

/// Whether the value matches the schema.
pub(super) fn accepts(schema: &Value, value: &Value) -> bool {
    compile(schema).is_ok_and(|validator| validator.is_valid(value))
}

fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(false);
    options.build(schema).map_err(|error| format!("its schema does not compile: {error}"))
}

struct Resolver<'a> {
    root_schema: &'a Value,
    parts: usize,
}

impl Resolver<'_> {
    /// Resolves the references of a schema, or of a list of schemas.
    fn resolve(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.parts += 1;
        if depth > DEPTH || self.parts > PARTS {
            return Err("its schema nests too deep or refers to itself".to_owned());
        }
        match schema {
            Value::Object(map) => self.resolve_object(map, depth),
            Value::Array(list) => list.iter().map(|part| self.resolve(part, depth + 1)).collect(),
            other => Ok(other.clone()),
        }
    }

    fn resolve_object(&mut self, map: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        if let Some(Value::String(reference)) = map.get("$ref") {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root_schema.pointer(pointer));
            let target = target.ok_or_else(|| format!("its schema refers to '{}'", short(reference)))?;
            let Value::Object(mut resolved) = self.resolve(target, depth + 1)? else { return Ok(json!({})) };
            // Keywords beside a reference, such as a description, have precedence.
            for (key, part) in map.iter().filter(|(key, _)| *key != "$ref") {
                resolved.insert(key.clone(), part.clone());
            }
            return Ok(Value::Object(normalise_null(resolved)));
        }
        let mut resolved = Map::new();
        for (key, part) in map {
            // Examples and defaults are values, not schemas; names of properties are not keywords.
            let part = match key.as_str() {
                keyword if METADATA.contains(&keyword) && !is_schema(part) => continue,
                "$defs" | "definitions" => continue,
                "default" | "enum" | "const" | "examples" | "example" | "required" => part.clone(),
                "properties" | "patternProperties" | "dependentSchemas" => {
                    self.resolve_each(part, depth + 1)?
                }
                _ => self.resolve(part, depth + 1)?,
            };
            resolved.insert(key.clone(), part);
        }
        Ok(Value::Object(normalise_null(resolved)))
    }

    fn resolve_each(&mut self, parts: &Value, depth: usize) -> Result<Value, String> {
        let Value::Object(parts) = parts else { return Ok(json!({})) };
        let resolved = parts.iter().map(|(name, part)| Ok((name.clone(), self.resolve(part, depth)?)));
        Ok(Value::Object(resolved.collect::<Result<_, String>>()?))
    }
}

fn is_schema(part: &Value) -> bool {
    part.get("type").is_some()
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// Turns `nullable: true`, and `anyOf: [X, {type: null}]` where X has one type, into a list of types.
fn normalise_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    let mut or_null = schema.get("nullable").is_some_and(Value::is_boolean)
        && schema.remove("nullable") == Some(Value::Bool(true));
    for choice in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.get(choice) else { continue };
        let others: Vec<&Value> =
            branches.iter().filter(|branch| branch.get("type") != Some(&json!("null"))).collect();
        let [Value::Object(only)] = others.as_slice() else { continue };
        if branches.len() == 1 || only.get("type").is_some_and(Value::is_string) {
            or_null = or_null || branches.len() > 1;
            let only = only.clone();
            schema.remove(choice);
            for (key, part) in only {
                schema.entry(key).or_insert(part);
            }
        }
    }
    if or_null && let Some(Value::String(kind)) = schema.get("type") {
        let kinds = json!([kind, "null"]);
        schema.insert("type".to_owned(), kinds);
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }
    schema
}

/// Merges choices at the root into one object with all properties. A property is required if every choice
/// requires it.
fn merge_choices(root: &mut Map<String, Value>) {
    for choice in CHOICES {
        let Some(Value::Array(branches)) = root.remove(choice) else { continue };
        let mut required_names: Option<Vec<Value>> = None;
        for branch in branches.iter().filter_map(Value::as_object) {
            let properties = branch.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            if let Value::Object(all) = root.entry("properties").or_insert_with(|| json!({})) {
                for (name, part) in properties {
                    all.entry(name).or_insert(part);
                }
            }
            let branch_required =
                branch.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            required_names = Some(match required_names {
                None => branch_required,
                Some(earlier) if choice == "allOf" => earlier.into_iter().chain(branch_required).collect(),
                Some(earlier) => earlier.into_iter().filter(|name| branch_required.contains(name)).collect(),
            });
        }
        if let Value::Array(required) = root.entry("required").or_insert_with(|| json!([])) {
            for name in required_names.unwrap_or_default() {
                if !required.contains(&name) {
                    required.push(name);
                }
            }
        }
    }
    root.remove("not");
    root.remove("enum");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(schema: Value) -> Value {
        let Value::Object(schema) = schema else { panic!("an object") };
        normalise(&schema).expect("a schema")
    }

    #[test]
    fn the_schema_root_is_always_an_object() {
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(normalised(json!({})), empty);
        assert_eq!(
            normalised(json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})),
            empty
        );
        assert_eq!(normalised(json!({"type": ["object", "null"], "properties": null})), empty);
    }

    #[test]
    fn references_are_resolved() {
        let schema = normalised(
            json!({"type": "object", "$defs": {"P": {"type": "string", "description": "far"}},
            "definitions": {"Q": {"$ref": "#/$defs/P"}},
            "properties": {"a": {"$ref": "#/$defs/P", "description": "near"}, "b": {"$ref": "#/definitions/Q"}}}),
        );
        assert_eq!(schema["properties"]["a"], json!({"type": "string", "description": "near"}));
        assert_eq!(schema["properties"]["b"]["type"], "string");
        assert!(!schema.to_string().contains('$'), "{schema}");
    }

    #[test]
    fn null_is_one_of_a_list_of_types() {
        let schema = normalised(json!({"properties": {
            "a": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "default": null},
            "b": {"type": "integer", "nullable": true},
            "c": {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "d": {"type": "string", "enum": ["x"], "nullable": true},
            "nullable": {"type": "boolean"}}}));
        let of = |name: &str| schema["properties"][name].clone();
        assert_eq!(of("a"), json!({"type": ["string", "null"], "minLength": 1, "default": null}));
        assert_eq!(of("b"), json!({"type": ["integer", "null"]}));
        assert_eq!(of("c")["oneOf"].as_array().map(Vec::len), Some(3));
        assert_eq!(of("d"), json!({"type": ["string", "null"], "enum": ["x", null]}));
        assert_eq!(of("nullable"), json!({"type": "boolean"}), "a property may have any name");
    }

    #[test]
    fn choices_at_the_root_are_merged() {
        let schema = normalised(json!({"anyOf": [
            {"properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id", "n"]},
            {"properties": {"id": {"type": "string"}, "m": {"type": "integer"}}, "required": ["id", "m"]}]}));
        assert_eq!(schema["required"], json!(["id"]));
        assert_eq!(schema["properties"].as_object().map(Map::len), Some(3));
        assert!(accepts(&schema, &json!({"id": "x", "m": 1})) && !accepts(&schema, &json!({"m": 1})));
    }

    #[test]
    fn an_unusable_schema_has_a_reason() {
        for (schema, why) in [
            (json!({"properties": {"a": {"type": "strange"}}}), "does not compile"),
            (
                json!({"properties": {"a": {"$ref": "https://example.org/x"}}}),
                "refers to 'https://example.org/x'",
            ),
            (json!({"properties": {"a": {"$ref": "#/nowhere"}}}), "refers to '#/nowhere'"),
            (
                json!({"$defs": {"T": {"properties": {"t": {"$ref": "#/$defs/T"}}}}, "properties": {"t": {"$ref": "#/$defs/T"}}}),
                "refers to itself",
            ),
            (json!({"description": "x".repeat(SCHEMA_BYTES)}), "bytes"),
        ] {
            let Value::Object(map) = schema else { panic!("an object") };
            let error = normalise(&map).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
