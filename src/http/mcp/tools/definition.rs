//! The definition of a tool as `tools/list` shows it.

use serde_json::{Value, json};

/// What a tool does to the world, as far as it says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolHints {
    pub(super) only_reads: bool,
    pub(super) destroys: bool,
    pub(super) is_idempotent: bool,
}

/// Name, title and description.
pub(super) type ToolTexts<'a> = [&'a str; 3];

/// The definition with the schemas of arguments and results.
pub(super) fn definition(texts: ToolTexts<'_>, input: &Value, output: &Value, hints: ToolHints) -> Value {
    let [name, title, description] = texts;
    let ToolHints { only_reads, destroys, is_idempotent } = hints;
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": input,
        "outputSchema": output,
        "annotations": {
            "title": title,
            "readOnlyHint": only_reads,
            "destructiveHint": destroys,
            "idempotentHint": is_idempotent,
            "openWorldHint": false,
        },
    })
}

/// An object schema with these properties, of which `required` are needed.
pub(super) fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
