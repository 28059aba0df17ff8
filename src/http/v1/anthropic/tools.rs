//! `tools` and `tool_choice` of a message, and the ids of calls.

use crate::domain::client_call_id::ClientCallId;
use crate::domain::hosted_tool::HostedTool;
use crate::domain::model_settings::{CallMode, ClientFunction};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::request::quoted::quoted;
use crate::http::request::typed::must_be;
use crate::http::v1::openai::chat::functions::{check_name, check_number};
use crate::http::v1::openai::failure::unsupported;
use crate::http::v1::openai::fields::check_tool;
use crate::http::v1::openai::responses::hosted_tools;
use serde_json::{Value, json};

/// The longest name of a tool, characters.
const NAME_CHARS: usize = 128;
/// What ids of calls begin with in this API, and in the engine.
const ID_PREFIXES: (&str, &str) = ("toolu_", "call_");
/// Fields of a tool that change nothing here.
pub(crate) const IDLE: [&str; 3] = ["name", "cache_control", "eager_input_streaming"];

/// What a request offers to the model.
#[derive(Debug, Default)]
pub(super) struct OfferedClientTools {
    pub(super) functions: Vec<ClientFunction>,
    /// Names of this server's tools.
    pub(super) hosted: Vec<String>,
    /// The most calls of the only tool of this server.
    pub(super) max_uses: Option<u32>,
    /// Whether the model must call something.
    pub(super) mode: Option<CallMode>,
    /// An answer has at most one call.
    pub(super) is_single: bool,
    /// Nothing may be called.
    pub(super) is_none: bool,
}

/// The id of a call as the client gets it.
pub(super) fn shown_id(id: &str) -> String {
    let (shown, own) = ID_PREFIXES;
    id.strip_prefix(own).map_or_else(|| id.to_owned(), |rest| format!("{shown}{rest}"))
}

/// The id of a call as the engine has it. Ids of other servers stay as they are.
pub(super) fn call_id(shown_id: &str) -> String {
    let (shown, own) = ID_PREFIXES;
    let id = shown_id.strip_prefix(shown).map(|rest| format!("{own}{rest}"));
    id.filter(|id| id.parse::<ClientCallId>().is_ok()).unwrap_or_else(|| shown_id.to_owned())
}

/// Reads both fields.
pub(super) fn read(
    tools: &[Value],
    choice: Option<&Value>,
    app: &AppDependencies,
) -> Result<OfferedClientTools, ApiError> {
    check_number(tools)?;
    let mut offered = OfferedClientTools::default();
    // The server's tools under the names that the client gave them.
    let mut hosted: Vec<(String, String)> = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let path = format!("tools[{index}]");
        member::check_object(&path, tool)?;
        let kind = member::optional_text(&path, tool, "type")?.unwrap_or("custom");
        let name = name(&path, tool)?;
        if offered.functions.iter().any(|earlier| earlier.name == name)
            || hosted.iter().any(|(n, _)| *n == name)
        {
            let path = format!("{path}.name");
            return Err(ApiError::value(
                &path,
                format!("'{path}': two tools have the name {}", quoted(&name)),
            ));
        }
        if kind == "custom" {
            offered.functions.push(function(&path, name, tool)?);
        } else {
            offered.max_uses = max_uses(&path, tool)?.or(offered.max_uses);
            hosted.push((name, hosted_tool(&path, kind, tool, app)?));
        }
    }
    if offered.max_uses.is_some() && hosted.len() > 1 {
        let text = "'max_uses' is supported for the only tool of this server in 'tools', not beside others";
        return Err(unsupported("tools.max_uses", text));
    }
    offered.choose(choice, &hosted)?;
    if offered.is_none {
        return Ok(OfferedClientTools { is_none: true, ..OfferedClientTools::default() });
    }
    offered.hosted = hosted.into_iter().map(|(_, tool)| tool).collect();
    Ok(offered)
}

fn max_uses(path: &str, tool: &Value) -> Result<Option<u32>, ApiError> {
    let Some(given) = tool.get("max_uses").filter(|given| !given.is_null()) else { return Ok(None) };
    let most = given.as_u64().and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
    let path = format!("{path}.max_uses");
    let refused = || ApiError::value(&path, format!("'{path}' {}", must_be("a whole number from 1", given)));
    most.map(Some).ok_or_else(refused)
}

fn name(path: &str, tool: &Value) -> Result<String, ApiError> {
    let name = member::text(path, tool, "name")?;
    check_name(&format!("{path}.name"), name, NAME_CHARS)?;
    Ok(name.to_owned())
}

fn function(path: &str, name: String, tool: &Value) -> Result<ClientFunction, ApiError> {
    let is_neutral = |field: &str, value: &Value| match field {
        "defer_loading" => value == false,
        "allowed_callers" => *value == json!(["direct"]),
        _ => false,
    };
    check_fields(path, tool, &["description", "input_schema", "strict", "input_examples"], is_neutral)?;
    let parameters = Value::Object(member::object(path, tool, "input_schema")?.clone());
    let description = member::optional_text(path, tool, "description")?.unwrap_or_default().to_owned();
    let strict = member::optional_flag(path, tool, "strict")?;
    let input_examples = member::list(path, tool, "input_examples")?.to_vec();
    for (index, example) in input_examples.iter().enumerate() {
        member::check_object(&format!("{path}.input_examples[{index}]"), example)?;
    }
    Ok(ClientFunction { name, description, parameters, strict, input_examples })
}

/// Fails at examples that the model's provider does not take.
pub(super) fn check_examples(
    functions: &[ClientFunction],
    model: &str,
    app: &AppDependencies,
) -> Result<(), ApiError> {
    let Some(function) = functions.iter().find(|function| !function.input_examples.is_empty()) else {
        return Ok(());
    };
    if app.model.model(model).is_some_and(|model| model.takes_input_examples) {
        return Ok(());
    }
    let text = format!(
        "'input_examples' of the tool {} is not supported: the provider of {} is not Anthropic",
        quoted(&function.name),
        quoted(model)
    );
    Err(unsupported("tools.input_examples", text))
}

/// The tool of this server that stands for a tool of the provider.
fn hosted_tool(path: &str, kind: &str, tool: &Value, app: &AppDependencies) -> Result<String, ApiError> {
    let hosted = (kind, HostedTool::of_anthropic_type(kind));
    let Some(name) = hosted_tools::tool_of(path, hosted, app)? else {
        let text = format!(
            "'{path}.type': a tool of type {} is not supported: it may be {}; the header NanoClaw-Tools offers other \
             tools of this server",
            quoted(kind),
            HostedTool::ANTHROPIC_TYPES
        );
        return Err(unsupported(&format!("{path}.type"), text));
    };
    check_fields(path, tool, &["max_uses"], |field, _| field == "allowed_callers")?;
    Ok(name.to_owned())
}

fn check_fields(
    path: &str,
    tool: &Value,
    read: &[&str],
    is_neutral: impl Fn(&str, &Value) -> bool,
) -> Result<(), ApiError> {
    check_tool(path, tool, read, |field, value| IDLE.contains(&field) || is_neutral(field, value))
}

impl OfferedClientTools {
    fn choose(&mut self, choice: Option<&Value>, hosted: &[(String, String)]) -> Result<(), ApiError> {
        let Some(choice) = choice else { return Ok(()) };
        let kind = choice.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_single = member::optional_flag("tool_choice", choice, "disable_parallel_tool_use")?;
        self.is_single = is_single.unwrap_or(false);
        match (kind, choice.get("name").and_then(Value::as_str)) {
            ("auto", _) => {}
            ("any", _) => self.mode = Some(CallMode::Required),
            ("none", _) => self.is_none = true,
            ("tool", Some(name)) => {
                let own = hosted.iter().find(|(shown, _)| shown == name).map(|(_, tool)| tool.as_str());
                self.mode = Some(CallMode::Named(own.unwrap_or(name).to_owned()));
            }
            _ => {
                let wanted = "an object of type auto, any, none, or tool with a name";
                let text = format!("'tool_choice' {}", must_be(wanted, choice));
                return Err(ApiError::value("tool_choice", text));
            }
        }
        Ok(())
    }
}
