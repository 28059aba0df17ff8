//! `text_process`: counts and transforms a text. A character is a Unicode scalar value.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::ToolTraits;
use crate::ports::Tool;
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct TextArguments {
    text: String,
    operation: TextOperation,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TextOperation {
    Count,
    Lines,
    Words,
    Upper,
    Lower,
    Reverse,
}

pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "text_process",
        "Count the characters, lines or words of a text, or change it to upper or lower case or reverse it.",
        json!({
            "text": {"type": "string"},
            "operation": {
                "type": "string",
                "enum": ["count", "lines", "words", "upper", "lower", "reverse"],
            },
        }),
        &["text", "operation"],
    );
    Box::new(BuiltinTool::new(spec, ToolTraits::PURE, |arguments, _| Ok(process(&arguments))))
}

fn process(TextArguments { text, operation }: &TextArguments) -> Value {
    match operation {
        TextOperation::Count => json!({"count": text.chars().count()}),
        TextOperation::Lines => json!({"lines": text.split('\n').count()}),
        TextOperation::Words => json!({"words": text.split_whitespace().count()}),
        TextOperation::Upper => json!({"result": text.to_uppercase()}),
        TextOperation::Lower => json!({"result": text.to_lowercase()}),
        TextOperation::Reverse => json!({"result": text.chars().rev().collect::<String>()}),
    }
}
