//! Custom tools: the client's tools whose input is any text. The model sees a function with one text.

use crate::domain::model_settings::ClientFunction;
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::request::quoted::quoted;
use crate::http::v1::openai::chat::functions;
use crate::http::v1::openai::failure::unsupported;
use crate::http::v1::openai::fields::check_tool;
use serde_json::{Value, json};

/// The type of a tool, and of its choice.
pub(super) const CUSTOM: &str = "custom";
/// The type of a call.
pub(super) const CALL: &str = "custom_tool_call";
/// The type of a result.
pub(super) const RESULT: &str = "custom_tool_call_output";
/// The parameter of the function.
const INPUT: &str = "input";

/// The function that the model sees under this name.
pub(super) fn function(path: &str, name: String, tool: &Value) -> Result<ClientFunction, ApiError> {
    functions::check_name(&format!("{path}.name"), &name, functions::NAME_CHARS)?;
    check_tool(path, tool, &["name", "description", "format"], functions::is_neutral)?;
    let mut description = member::optional_text(path, tool, "description")?.unwrap_or_default().to_owned();
    if let Some(rule) = rule(path, tool)? {
        description = format!("{description}\n\n{rule}");
    }
    let parameters = json!({
        "type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT],
        "additionalProperties": false,
    });
    Ok(ClientFunction { name, description, parameters, strict: None, input_examples: Vec::new() })
}

/// What `format` asks of the input, as an instruction: few providers could enforce a grammar.
fn rule(path: &str, tool: &Value) -> Result<Option<String>, ApiError> {
    let path = format!("{path}.format");
    let Some(format) = tool.get("format").filter(|format| !format.is_null()) else { return Ok(None) };
    member::check_object(&path, format)?;
    match member::text(&path, format, "type")? {
        "text" => Ok(None),
        "grammar" => {
            let syntax = member::text(&path, format, "syntax")?;
            let definition = member::text(&path, format, "definition")?;
            Ok(Some(format!("'{INPUT}' must match this {syntax} grammar:\n\n{definition}")))
        }
        other => {
            let text = format!("'{path}.type' must be text or grammar, not {}", quoted(other));
            Err(unsupported(&format!("{path}.type"), text))
        }
    }
}

/// The arguments of a call with this input.
pub(super) fn arguments(input: &str) -> String {
    json!({INPUT: input}).to_string()
}

/// The input of a call. Arguments that have none are the input themselves.
pub(super) fn input(arguments: &str) -> String {
    let read: Option<Value> = serde_json::from_str(arguments).ok();
    let input = read.as_ref().and_then(|read| read.get(INPUT)?.as_str());
    input.unwrap_or(arguments).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_read_as_it_is_written() {
        for text in ["", "a", "{\"input\": 1}", "*** Begin Patch\n+\"é\"\n"] {
            assert_eq!(input(&arguments(text)), text);
        }
        for other in ["no JSON", "{\"text\":\"a\"}", "{\"input\":7}"] {
            assert_eq!(input(other), other);
        }
    }

    #[test]
    fn a_grammar_is_an_instruction() {
        let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: \"x\""});
        let tool = json!({"type": "custom", "name": "f", "description": "d", "format": format});
        let function = function("tools[0]", "f".to_owned(), &tool).expect("supported");
        assert_eq!(function.description, "d\n\n'input' must match this lark grammar:\n\nstart: \"x\"");
    }
}
