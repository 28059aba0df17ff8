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
    pub(super) fn validate(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut value = Value::Object(arguments);
        coerce(&mut value, &self.schema);
        let mut errors: Vec<String> =
            self.compiled()?.iter_errors(&value).take(MAX_ERRORS).flat_map(|e| describe(&e)).collect();
        errors.extend(self.too_large_integers(&value));
        match value {
            Value::Object(map) if errors.is_empty() => Ok(map),
            _ => Err(errors.join("; ")),
        }
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

/// Whether a whole number is a float, because it does not fit into 64 bits.
fn is_beyond_64_bits(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| value.is_f64() && number.fract() == 0.0)
}

fn describe(error: &ValidationError<'_>) -> Vec<String> {
    use ValidationErrorKind as Kind;
    let path = path(error.instance_path());
    let label = if path.is_empty() { "the parameters" } else { &path };
    let single = |text: String| vec![text];
    match error.kind() {
        Kind::Required { property } => {
            single(format!("missing required {}", join(&path, &unquoted(property))))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .take(MAX_ERRORS)
            .map(|k| format!("unexpected parameter {}", join(&path, &short(k))))
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
        schema().validate(map).expect_err("it does not fit")
    }

    #[test]
    fn validation_errors_name_the_field_and_the_expected_value() {
        for (arguments, expected) in [
            (json!({}), "missing required name"),
            (json!({"name": "abc", "k": 1}), "unexpected parameter k"),
            (json!({"name": 5}), "name should be string"),
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
    fn several_validation_errors_are_reported_at_once() {
        let expected = validation_error(json!({"count": 0, "k": 1}));
        for part in ["missing required name", "count must be >= 1", "unexpected parameter k"] {
            assert!(expected.contains(part), "{expected}");
        }
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
