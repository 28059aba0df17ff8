//! Functions of the client, and whether the model must call one.

use super::super::failure::unsupported;
use crate::domain::model_settings::{CallMode, ClientFunction};
use crate::domain::tool::ToolChoice;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::request::typed::must_be;
use crate::ports::ToolScope;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The most tools in `tools`.
const TOOLS: usize = 128;
/// The longest name of a function, characters.
pub(crate) const NAME_CHARS: usize = 64;

/// An entry of `tools`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatTool {
    #[serde(rename = "type")]
    kind: String,
    function: Option<ChatFunction>,
    /// A tool of another kind; refused.
    custom: Option<Map<String, Value>>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatFunction {
    name: String,
    description: Option<String>,
    parameters: Option<Map<String, Value>>,
    strict: Option<bool>,
}

/// The functions of `tools`.
pub(super) fn functions(tools: Vec<ChatTool>) -> Result<Vec<ClientFunction>, ApiError> {
    check_number(&tools)?;
    let mut functions: Vec<ClientFunction> = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        let function = function(index, tool)?;
        if functions.iter().any(|earlier| earlier.name == function.name) {
            let text = format!("two functions have the name {}", quoted(&function.name));
            return Err(ApiError::value(&name_of(index), text));
        }
        functions.push(function);
    }
    Ok(functions)
}

fn function(index: usize, tool: ChatTool) -> Result<ClientFunction, ApiError> {
    if tool.kind != "function" || tool.custom.is_some() {
        let text = format!(
            "a tool of type {} is not supported: 'type' must be function; the header NanoClaw-Tools offers tools \
             of this server",
            quoted(&tool.kind)
        );
        return Err(unsupported(&format!("tools[{index}].type"), text));
    }
    let Some(ChatFunction { name, description, parameters, strict }) = tool.function else {
        let path = format!("tools[{index}].function");
        return Err(ApiError::value(&path, format!("'{path}' is missing")));
    };
    check_name(&name_of(index), &name, NAME_CHARS)?;
    let parameters = parameters.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object);
    let description = description.unwrap_or_default();
    Ok(ClientFunction { name, description, parameters, strict, input_examples: Vec::new() })
}

/// Checks the number of tools in `tools`.
pub(crate) fn check_number<T>(tools: &[T]) -> Result<(), ApiError> {
    if tools.len() > TOOLS {
        return Err(ApiError::value("tools", format!("'tools' has more than {TOOLS} tools")));
    }
    Ok(())
}

/// Fails at a name with other characters than providers take, or with more.
pub(crate) fn check_name(path: &str, name: &str, most: usize) -> Result<(), ApiError> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=most).contains(&name.len()) && name.chars().all(is_part) {
        return Ok(());
    }
    Err(ApiError::value(path, format!("'{path}' must have 1 to {most} letters, digits, '_' or '-'")))
}

/// What `tool_choice` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FunctionChoice {
    /// Nothing is called.
    None,
    /// As the model decides.
    Auto,
    /// The model must call something.
    Must(CallMode),
}

impl FunctionChoice {
    pub(super) fn read(choice: Option<Value>) -> Result<Self, ApiError> {
        let field = "tool_choice";
        let wanted = "none, auto, required, or {\"type\": \"function\", \"function\": {\"name\": …}}";
        let refused = |value: &Value| ApiError::value(field, format!("'{field}' {}", must_be(wanted, value)));
        let Some(choice) = choice else { return Ok(Self::Auto) };
        match choice.as_str() {
            Some("none") => return Ok(Self::None),
            Some("auto") => return Ok(Self::Auto),
            Some("required") => return Ok(Self::Must(CallMode::Required)),
            Some(_) => return Err(refused(&choice)),
            None => {}
        }
        match (choice.get("type").and_then(Value::as_str), choice.pointer("/function/name")) {
            (Some("function"), Some(Value::String(name))) => Ok(Self::Must(CallMode::Named(name.clone()))),
            (Some(kind @ ("allowed_tools" | "custom")), _) => {
                let text = format!("'{field}' of type {kind} is not supported: it must be {wanted}");
                Err(unsupported(field, text))
            }
            _ => Err(refused(&choice)),
        }
    }

    pub(super) fn into_mode(self) -> Option<CallMode> {
        match self {
            Self::None | Self::Auto => None,
            Self::Must(mode) => Some(mode),
        }
    }
}

/// Whether a field of a client's tool changes nothing in `/v1/responses`.
pub(crate) fn is_neutral(field: &str, value: &Value) -> bool {
    match field {
        "defer_loading" => value == false,
        "allowed_callers" => *value == json!(["direct"]),
        _ => false,
    }
}

/// Fails if a function has the name of a tool that the server offers in the same request, or if the model
/// must call what is not offered.
pub(crate) fn check_names(
    (functions, mode): (&[ClientFunction], Option<&CallMode>),
    (choice, model): (&ToolChoice, &str),
    app: &AppDependencies,
) -> Result<(), ApiError> {
    let choice = app.toolbox.resolve(choice, model);
    let scope = ToolScope { choice: &choice, strictness: None, has_results: true };
    let offered = if choice.offers_any() { app.toolbox.offered_names(&scope) } else { Vec::new() };
    if let Some(function) = functions.iter().find(|function| offered.contains(&function.name)) {
        let name = quoted(&function.name);
        let text =
            format!("{name} is a tool of this server that the request offers, too: rename the function");
        return Err(ApiError::value("tools", text));
    }
    let is_offered =
        |name: &String| offered.contains(name) || functions.iter().any(|known| known.name == *name);
    let text = match mode {
        Some(CallMode::Required) if functions.is_empty() && offered.is_empty() => {
            "'tool_choice' is required, but there is nothing to call: 'tools' is empty".to_owned()
        }
        Some(CallMode::Named(name)) if !is_offered(name) => {
            format!("'tool_choice' names {}, which is not in 'tools'", quoted(name))
        }
        _ => return Ok(()),
    };
    Err(ApiError::value("tool_choice", text))
}

fn name_of(index: usize) -> String {
    format!("tools[{index}].function.name")
}
