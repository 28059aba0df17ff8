//! `json_process`: parses, formats and validates a JSON text, and lists its keys.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::ToolTraits;
use crate::ports::{Tool, ToolError};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct JsonArguments {
    json_string: String,
    operation: JsonOperation,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum JsonOperation {
    Parse,
    Format,
    Keys,
    Validate,
}

pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "json_process",
        "Process a JSON text: parse it, format it with an indent of 2, list the keys of its root object, or validate it.",
        json!({
            "json_string": {"type": "string", "description": "The JSON text"},
            "operation": {"type": "string", "enum": ["parse", "format", "keys", "validate"]},
        }),
        &["json_string", "operation"],
    );
    Box::new(BuiltinTool::new(spec, ToolTraits::PURE, |arguments: JsonArguments, _| process(&arguments)))
}

fn process(arguments: &JsonArguments) -> Result<Value, ToolError> {
    let parsed = serde_json::from_str::<Value>(&arguments.json_string)
        .map_err(|error| format!("JSON parse error: {error}"));
    match (&arguments.operation, parsed) {
        (JsonOperation::Validate, Ok(_)) => Ok(json!({"valid": true})),
        (JsonOperation::Validate, Err(error)) => Ok(json!({"valid": false, "error": error})),
        (_, Err(error)) => Err(ToolError::failed(error)),
        (JsonOperation::Parse, Ok(data)) => Ok(json!({"data": data})),
        (JsonOperation::Format, Ok(data)) => Ok(json!({"result": format!("{data:#}")})),
        (JsonOperation::Keys, Ok(Value::Object(map))) => Ok(json!({"keys": map.keys().collect::<Vec<_>>()})),
        (JsonOperation::Keys, Ok(_)) => Err(ToolError::failed("JSON root element is not an object")),
    }
}
