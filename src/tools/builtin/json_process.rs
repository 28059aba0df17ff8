//! `json_process`: parses, formats and validates a JSON text, and lists its keys.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::ToolTraits;
use crate::ports::{Tool, ToolError};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;

/// The longest formatted document. Indents make a nested one a hundred times longer than its source.
const FORMATTED_BYTES: usize = 8 * 1024 * 1024;

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
        "Parse, format or validate a JSON text, or list the keys of its root object.",
        json!({
            "json_string": {"type": "string"},
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
        (JsonOperation::Format, Ok(data)) => Ok(json!({"result": formatted(&data)?})),
        (JsonOperation::Keys, Ok(Value::Object(map))) => Ok(json!({"keys": map.keys().collect::<Vec<_>>()})),
        (JsonOperation::Keys, Ok(_)) => Err(ToolError::failed("JSON root element is not an object")),
    }
}

/// The document with an indent of 2, within [`FORMATTED_BYTES`].
fn formatted(data: &Value) -> Result<String, ToolError> {
    let mut out = BoundedWriter(Vec::new());
    serde_json::to_writer_pretty(&mut out, data).map_err(|_| {
        ToolError::failed(format!(
            "formatted, the document is longer than {FORMATTED_BYTES} bytes: it is large or nested deeply; use parse"
        ))
    })?;
    String::from_utf8(out.0).map_err(|error| ToolError::failed(error.to_string()))
}

/// Bytes that refuse to grow beyond [`FORMATTED_BYTES`].
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(piece.len()) > FORMATTED_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_a_document_is_formatted_within_a_bound() {
        let format =
            |text: String| process(&JsonArguments { json_string: text, operation: JsonOperation::Format });
        let short = format("{\"a\":[1,2]}".to_owned()).expect("formats");
        assert_eq!(short["result"], "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
        let bomb = format!("{}{}0{}", "[".repeat(120), "0,".repeat(100_000), "]".repeat(120));
        assert!(format(bomb).is_err(), "each zero gets 240 blanks");
    }
}
