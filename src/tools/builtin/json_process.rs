//! `json_process`: parses, formats and validates a JSON text, and lists its keys.

use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};

struct JsonProcess;

/// For the registry.
pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    Box::new(JsonProcess)
}

impl Tool for JsonProcess {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "json_process".into(),
            description: "Process a JSON text: parse it, format it with an indent of 2, list the keys of its root object, \
                          or validate it.".into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "json_string": {"type": "string", "description": "The JSON text"},
                    "operation": {"type": "string", "enum": ["parse", "format", "keys", "validate"]},
                },
                "required": ["json_string", "operation"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::PURE
    }

    fn call(&self, arguments: &Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        let word = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let parsed = serde_json::from_str::<Value>(word("json_string"));
        let error = |error: &serde_json::Error| format!("JSON parse error: {error}");
        match (word("operation"), parsed) {
            ("validate", Ok(_)) => Ok(json!({"valid": true})),
            ("validate", Err(bad)) => Ok(json!({"valid": false, "error": error(&bad)})),
            (_, Err(bad)) => Err(ToolError::failed(error(&bad))),
            ("parse", Ok(data)) => Ok(json!({"data": data})),
            ("format", Ok(data)) => Ok(json!({"result": format!("{data:#}")})),
            ("keys", Ok(Value::Object(map))) => Ok(json!({"keys": map.keys().collect::<Vec<_>>()})),
            ("keys", Ok(_)) => Err(ToolError::failed("JSON root element is not an object")),
            (other, _) => Err(ToolError::Invalid(format!("Unknown operation: {other}"))),
        }
    }
}
