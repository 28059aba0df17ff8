//! A tool's parameter schema, compiled at its first use, and error texts for the model.

use super::coerce::{accepts, coerce};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Draft, JsonType, ValidationError, Validator};
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// Errors in one message.
const MAX_ERRORS: usize = 5;
/// Characters of a quoted value or name.
const QUOTE_CHARS: usize = 80;

/// Keywords besides `properties` that may name parameters.
const NAMING_KEYWORDS: [&str; 8] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"];

/// Levels of nested objects and lists in an example.
const EXAMPLE_DEPTH: usize = 4;
/// Longer given values do not appear in examples.
const EXAMPLE_VALUE_BYTES: usize = 200;

/// What a message calls a value and its members.
struct SchemaWords {
    whole: &'static str,
    member: &'static str,
}

const ARGUMENTS: SchemaWords = SchemaWords { whole: "the parameters", member: "parameter" };
const ANSWER: SchemaWords = SchemaWords { whole: "the answer", member: "property" };

/// Arguments that do not match the schema.
#[derive(Debug, PartialEq)]
pub(super) struct InvalidArguments {
    /// The validation errors.
    pub(super) error: String,
    /// The arguments, coerced.
    pub(super) given: Map<String, Value>,
}

/// The schema of a tool's arguments.
#[derive(Debug)]
pub(super) struct ParameterSchema {
    schema: Value,
    validator: OnceLock<Result<Validator, String>>,
}

impl ParameterSchema {
    /// Takes an object schema. Unknown parameters are refused, unless keywords besides `properties` name
    /// some.
    pub(super) fn new(parameters: &Value) -> Result<Self, String> {
        let mut schema = parameters.clone();
        match schema.as_object_mut() {
            Some(map) if map.get("type") == Some(&Value::from("object")) => {
                if map.contains_key("properties") && !NAMING_KEYWORDS.iter().any(|key| map.contains_key(*key))
                {
                    map.entry("additionalProperties").or_insert(Value::Bool(false));
                }
            }
            _ => return Err("its parameters are not an object schema".to_owned()),
        }
        Ok(Self { schema, validator: OnceLock::new() })
    }

    /// The compiled schema, or the error of the compiler.
    pub(super) fn compiled(&self) -> Result<&Validator, String> {
        let compile = || {
            let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(false);
            options.build(&self.schema).map_err(|error| error.to_string())
        };
        self.validator.get_or_init(compile).as_ref().map_err(Clone::clone)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.schema.get("properties").is_some_and(|properties| properties.get(name).is_some())
    }

    /// Returns the coerced arguments, or the validation errors.
    pub(super) fn validate(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, InvalidArguments> {
        let mut value = Value::Object(arguments);
        coerce(&mut value, &self.schema);
        let mut errors: Vec<String> = match self.compiled() {
            Ok(schema) => {
                let faults = schema.iter_errors(&value).take(MAX_ERRORS);
                faults.flat_map(|fault| describe(&fault, &ARGUMENTS)).collect()
            }
            Err(reason) => vec![reason],
        };
        errors.extend(self.too_large_integers(&value));
        match value {
            Value::Object(map) if errors.is_empty() => Ok(map),
            Value::Object(given) => Err(InvalidArguments { error: errors.join("; "), given }),
            _ => Err(InvalidArguments { error: errors.join("; "), given: Map::new() }),
        }
    }

    /// Valid arguments, where required ones are missing: those that were given, and placeholders.
    pub(super) fn example(&self, given: Map<String, Value>) -> Option<Value> {
        let is_missing = |name: &&Value| name.as_str().is_some_and(|name| !given.contains_key(name));
        let required = self.schema.get("required").and_then(Value::as_array);
        required.into_iter().flatten().find(is_missing)?;
        let schema = self.compiled().ok()?;
        let mut example = placeholder("", &self.schema, EXAMPLE_DEPTH);
        let short = given.into_iter().filter(|(_, value)| value.to_string().len() <= EXAMPLE_VALUE_BYTES);
        for (name, value) in short {
            let mut with_given = example.clone();
            with_given.as_object_mut()?.insert(name, value);
            if schema.is_valid(&with_given) {
                example = with_given;
            }
        }
        Some(example).filter(|example| schema.is_valid(example))
    }

    /// Errors for integers that do not fit into 64 bits.
    fn too_large_integers(&self, value: &Value) -> Vec<String> {
        let property_schema = |name: &str| self.schema.get("properties")?.get(name);
        let is_too_large = |(name, item): &(&String, &Value)| {
            property_schema(name).is_some_and(|schema| accepts(schema, "integer")) && is_beyond_64_bits(item)
        };
        let items = value.as_object().into_iter().flatten().filter(is_too_large);
        items.map(|(name, _)| format!("{} must fit into 64 bits", short(name))).collect()
    }
}

/// Why a JSON Schema cannot be used.
pub fn schema_fault(schema: &Value) -> Option<String> {
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(false);
    options.build(schema).err().map(|error| error.to_string())
}

/// Why an answer does not match this schema. A schema that cannot be compiled refuses nothing.
pub fn schema_mismatch(schema: &Value, value: &Value) -> Option<String> {
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(false);
    let validator = options.build(schema).ok()?;
    let faults = validator.iter_errors(value).take(MAX_ERRORS).flat_map(|error| describe(&error, &ANSWER));
    let faults: Vec<String> = faults.collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// A value that shows the form of this parameter. A text names the parameter, so that a model does not take
/// it for an answer.
fn placeholder(name: &str, schema: &Value, depth: usize) -> Value {
    let number = |key: &str| schema.get(key).and_then(Value::as_i64);
    let first = |key: &str| schema.get(key).and_then(|list| list.as_array()?.first());
    if let Some(value) = first("enum").or_else(|| schema.get("const")).or_else(|| schema.get("default")) {
        return value.clone();
    }
    if let Some(alternative) = first("anyOf").or_else(|| first("oneOf")).filter(|_| depth > 0) {
        return placeholder(name, alternative, depth.saturating_sub(1));
    }
    let types = ["string", "integer", "number", "boolean", "array", "object"];
    match types.into_iter().find(|kind| accepts(schema, kind)) {
        Some("integer" | "number") => {
            let least = number("minimum").unwrap_or(1).max(1);
            Value::from(number("maximum").map_or(least, |most| least.min(most)))
        }
        Some("boolean") => Value::Bool(true),
        Some("array") if depth > 0 => {
            let item = schema.get("items").map(|items| placeholder(name, items, depth.saturating_sub(1)));
            let count = number("minItems").and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
            Value::Array(vec![item.unwrap_or(Value::Null); count.clamp(1, MAX_ERRORS)])
        }
        Some("object") if depth > 0 => Value::Object(required_placeholders(schema, depth)),
        _ => Value::from(format!("<{name}>")),
    }
}

fn required_placeholders(schema: &Value, depth: usize) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = required.filter_map(Value::as_str);
    let property = |name: &str| schema.get("properties")?.get(name);
    let value =
        |name: &str| placeholder(name, property(name).unwrap_or(&Value::Null), depth.saturating_sub(1));
    names.map(|name| (name.to_owned(), value(name))).collect()
}

/// Whether a whole number is a float, because it does not fit into 64 bits.
fn is_beyond_64_bits(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| value.is_f64() && number.fract() == 0.0)
}

fn describe(error: &ValidationError<'_>, words: &SchemaWords) -> Vec<String> {
    use ValidationErrorKind as Kind;
    let path = path(error.instance_path());
    let label = if path.is_empty() { words.whole } else { &path };
    let single = |text: String| vec![text];
    match error.kind() {
        Kind::Required { property } => {
            single(format!("missing required {}", join(&path, &unquoted(property))))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .take(MAX_ERRORS)
            .map(|k| format!("unexpected {} {}", words.member, join(&path, &short(k))))
            .collect(),
        Kind::Type { kind } => single(type_error(label, kind, error.instance())),
        Kind::Enum { options } => single(format!("{label} must be one of {options}")),
        Kind::Constant { expected_value } => single(format!("{label} must be {expected_value}")),
        Kind::Minimum { limit } => single(format!("{label} must be >= {limit}")),
        Kind::Maximum { limit } => single(format!("{label} must be <= {limit}")),
        Kind::ExclusiveMinimum { limit } => single(format!("{label} must be > {limit}")),
        Kind::ExclusiveMaximum { limit } => single(format!("{label} must be < {limit}")),
        Kind::MinLength { limit } => single(format!("{label} must be at least {limit} chars")),
        Kind::MaxLength { limit } => single(format!("{label} must be at most {limit} chars")),
        Kind::MinItems { limit } => single(format!("{label} must have at least {limit} items")),
        Kind::MaxItems { limit } => single(format!("{label} must have at most {limit} items")),
        _ => single(format!("{label} does not fit: {}", short(&error.masked().to_string()))),
    }
}

fn type_error(label: &str, kind: &TypeKind, value: &Value) -> String {
    let types: Vec<&str> = match kind {
        TypeKind::Single(kind) => vec![kind.as_str()],
        TypeKind::Multiple(kinds) => kinds.iter().map(JsonType::as_str).collect(),
    };
    let text = value.as_str().map(str::trim).unwrap_or_default();
    let is_infinite = text.parse::<f64>().is_ok_and(|number| !number.is_finite());
    if is_infinite && types.iter().any(|name| matches!(*name, "number" | "integer")) {
        return format!("{label} must be finite");
    }
    format!("{label} should be {}", types.join(" or "))
}

/// `a.b[0].c`
fn path(location: &Location) -> String {
    location.into_iter().fold(String::new(), |path, segment| match segment {
        LocationSegment::Property(name) => join(&path, &short(&name)),
        LocationSegment::Index(index) => format!("{path}[{index}]"),
    })
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn short(text: &str) -> String {
    text.chars().take(QUOTE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> ParameterSchema {
        let item = json!({"type": "object", "properties": {"c": {"type": "integer"}}, "required": ["c"]});
        let parameters = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 4},
                "count": {"type": "integer", "minimum": 1, "maximum": 9}, "large": {"type": "integer"},
                "ratio": {"type": ["number", "null"]},
                "mode": {"enum": ["fast", "slow"]},
                "a": {"type": "object", "properties": {"b": {"type": "array", "items": item, "maxItems": 2}}},
            },
            "required": ["name"],
        });
        ParameterSchema::new(&parameters).expect("an object schema")
    }

    fn validation_error(arguments: Value) -> String {
        let Value::Object(map) = arguments else { panic!("an object") };
        schema().validate(map).expect_err("it does not fit").error
    }

    #[test]
    fn validation_errors_name_the_field_and_the_expected_value() {
        for (arguments, expected) in [
            (json!({}), "missing required name"),
            (json!({"name": "abc", "k": 1}), "unexpected parameter k"),
            (json!({"name": []}), "name should be string"),
            (json!({"name": 5}), "name must be at least 2 chars"),
            (json!({"name": "a"}), "name must be at least 2 chars"),
            (json!({"name": "abcde"}), "name must be at most 4 chars"),
            (json!({"name": "abc", "count": "abc"}), "count should be integer"),
            (json!({"name": "abc", "count": true}), "count should be integer"),
            (json!({"name": "abc", "count": "0"}), "count must be >= 1"),
            (json!({"name": "abc", "count": 10}), "count must be <= 9"),
            (json!({"name": "abc", "large": 1e30}), "large must fit into 64 bits"),
            (json!({"name": "abc", "ratio": "NaN"}), "ratio must be finite"),
            (json!({"name": "abc", "ratio": "-Infinity"}), "ratio must be finite"),
            (json!({"name": "abc", "mode": "x"}), r#"mode must be one of ["fast","slow"]"#),
            (json!({"name": "abc", "a": {"b": [{"c": "x"}]}}), "a.b[0].c should be integer"),
            (json!({"name": "abc", "a": {"b": [{"c": 1}, {}]}}), "missing required a.b[1].c"),
            (
                json!({"name": "abc", "a": {"b": [{"c": 1}, {"c": 1}, {"c": 1}]}}),
                "a.b must have at most 2 items",
            ),
            (json!({"name": "abc", "a": {"b": "x"}}), "a.b should be array"),
        ] {
            assert_eq!(validation_error(arguments.clone()), expected, "{arguments}");
        }
    }

    #[test]
    fn faults_of_an_answer_do_not_speak_of_parameters() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}},
            "additionalProperties": false});
        let fault = |value: Value| schema_mismatch(&schema, &value).unwrap_or_default();
        assert_eq!(fault(json!([])), "the answer should be object");
        assert_eq!(fault(json!({"b": 1})), "unexpected property b");
        assert_eq!(fault(json!({"a": 1})), "");
    }

    #[test]
    fn several_validation_errors_are_reported_at_once() {
        let expected = validation_error(json!({"count": 0, "k": 1}));
        for part in ["missing required name", "count must be >= 1", "unexpected parameter k"] {
            assert!(expected.contains(part), "{expected}");
        }
    }

    #[test]
    fn an_error_about_missing_arguments_shows_one_valid_call() {
        let task =
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1}, "mode": {"enum": ["write", "append"]},
                "lines": {"type": "integer", "minimum": 3}, "extra": {"type": "string"},
                "tasks": {"type": "array", "minItems": 2, "items": task},
            },
            "required": ["path", "mode", "lines", "tasks"],
        });
        let schema = ParameterSchema::new(&parameters).expect("an object schema");
        let Value::Object(given) = json!({"path": "a.txt", "lines": 0, "unknown": 1}) else {
            panic!("an object")
        };
        let tasks = json!([{"name": "<name>"}, {"name": "<name>"}]);
        let expected = json!({"path": "a.txt", "mode": "write", "lines": 3, "tasks": tasks});
        let example = schema.example(given).expect("an example");
        assert_eq!(example, expected, "given values stay where they are valid");
        let Value::Object(example) = example else { panic!("an object") };
        assert!(schema.validate(example.clone()).is_ok());
        assert_eq!(schema.example(example), None, "nothing is missing");
    }

    #[test]
    fn valid_arguments_are_returned_coerced() {
        let Value::Object(map) = json!({"name": "abc", "count": "5", "ratio": null}) else {
            panic!("an object")
        };
        assert_eq!(
            schema().validate(map).map(Value::Object),
            Ok(json!({"name": "abc", "count": 5, "ratio": null}))
        );
    }
}
