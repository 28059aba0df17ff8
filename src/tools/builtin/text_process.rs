//! `text_process`: counts and transforms a text. A character is a Unicode scalar value.

use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};

struct TextProcess;

/// For the registry.
pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    Box::new(TextProcess)
}

impl Tool for TextProcess {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "text_process".into(),
            description: "Process a text: count its characters, lines or words, turn it to upper or lower case, or reverse it.".into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "The text"},
                    "operation": {
                        "type": "string",
                        "enum": ["count", "lines", "words", "upper", "lower", "reverse"],
                        "description": "count: characters; lines, words: how many; upper, lower, reverse: the text turned",
                    },
                },
                "required": ["text", "operation"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::PURE
    }

    fn call(&self, arguments: &Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        let word = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let text = word("text");
        Ok(match word("operation") {
            "count" => json!({"count": text.chars().count()}),
            "lines" => json!({"lines": text.split('\n').count()}),
            "words" => json!({"words": text.split_whitespace().count()}),
            "upper" => json!({"result": text.to_uppercase()}),
            "lower" => json!({"result": text.to_lowercase()}),
            "reverse" => json!({"result": text.chars().rev().collect::<String>()}),
            other => return Err(ToolError::Invalid(format!("Unknown operation: {other}"))),
        })
    }
}
