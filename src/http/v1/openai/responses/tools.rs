//! `tools` and `tool_choice` of a response.

use super::custom_tool::CUSTOM;
use super::item::mcp_prefix;
use super::loaded_tools::SEARCH;
use super::namespace::{NAMESPACE, name_for_model};
use super::{custom_tool, hosted_tools, loaded_tools};
use crate::domain::hosted_tool::HostedTool;
use crate::domain::model_settings::{CallMode, ClientFunction};
use crate::domain::response_request::McpToolList;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::request::quoted::quoted;
use crate::http::request::typed::must_be;
use crate::http::v1::openai::chat::functions;
use crate::http::v1::openai::fields::check_tool;
use serde_json::{Value, json};

/// What a request offers to the model.
#[derive(Debug, Default)]
pub(super) struct OfferedTools {
    pub(super) functions: Vec<ClientFunction>,
    /// Names of this server's tools.
    pub(super) hosted: Vec<String>,
    /// The tools of the MCP servers that the request names.
    pub(super) mcp_lists: Vec<McpToolList>,
    /// Those whose calls the client wants to approve; `None`: it names no MCP server, so it knows of no
    /// approvals.
    pub(super) asked: Option<Vec<String>>,
    /// Whether the model must call something.
    pub(super) mode: Option<CallMode>,
    /// Nothing may be called.
    pub(super) is_none: bool,
}

/// Reads both fields.
pub(super) fn read(
    (tools, loaded): (&[Value], &[Value]),
    choice: Option<&Value>,
    app: &AppDependencies,
) -> Result<OfferedTools, ApiError> {
    functions::check_number(tools)?;
    functions::check_number(loaded)?;
    let mut offered = OfferedTools::default();
    let given = tools.iter().enumerate().map(|(index, tool)| (format!("tools[{index}]"), tool));
    let loaded = loaded.iter().map(|tool| ("input.tools".to_owned(), tool));
    for (path, tool) in given.chain(loaded) {
        member::check_object(&path, tool)?;
        let kind = tool.get("type").and_then(Value::as_str);
        if kind == Some("function") {
            offered.add_function(&path, function(&path, None, tool)?)?;
        } else if kind == Some(CUSTOM) {
            offered.add_function(&path, custom(&path, None, tool)?)?;
        } else if kind == Some(SEARCH) {
            offered.add_function(&path, loaded_tools::search(&path, tool)?)?;
        } else if kind == Some(NAMESPACE) {
            offered.add_namespace(&path, tool)?;
        } else {
            let names = hosted_tools::names(&path, tool, app, &mut offered.mcp_lists)?;
            if let Some(asked) = hosted_tools::asked(&path, tool, &names)? {
                offered.asked.get_or_insert_default().extend(asked);
            }
            offered.hosted.extend(names);
        }
    }
    offered.choose(choice)
}

fn function(path: &str, namespace: Option<&str>, tool: &Value) -> Result<ClientFunction, ApiError> {
    let name = name_for_model(namespace, member::text(path, tool, "name")?);
    functions::check_name(&format!("{path}.name"), &name, functions::NAME_CHARS)?;
    check_tool(path, tool, &["name", "description", "parameters", "strict"], functions::is_neutral)?;
    let parameters = member::optional_object(path, tool, "parameters")?.cloned();
    let parameters = parameters.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object);
    let description = member::optional_text(path, tool, "description")?.unwrap_or_default().to_owned();
    let strict = member::optional_flag(path, tool, "strict")?;
    Ok(ClientFunction { name, description, parameters, strict, input_examples: Vec::new() })
}

fn custom(path: &str, namespace: Option<&str>, tool: &Value) -> Result<ClientFunction, ApiError> {
    let name = name_for_model(namespace, member::text(path, tool, "name")?);
    custom_tool::function(path, name, tool)
}

impl OfferedTools {
    fn add_function(&mut self, path: &str, function: ClientFunction) -> Result<(), ApiError> {
        if self.functions.iter().any(|earlier| earlier.name == function.name) {
            let text = format!("two functions have the name {}", quoted(&function.name));
            return Err(ApiError::value(&format!("{path}.name"), text));
        }
        self.functions.push(function);
        // Those of all namespaces count together.
        functions::check_number(&self.functions)
    }

    /// The functions of a namespace. Its description stands before theirs.
    fn add_namespace(&mut self, path: &str, namespace: &Value) -> Result<(), ApiError> {
        check_tool(path, namespace, &["name", "description", "tools"], |_, _| false)?;
        let name = member::text(path, namespace, "name")?;
        let about = member::optional_text(path, namespace, "description")?.unwrap_or_default();
        let tools = member::list(path, namespace, "tools")?;
        for (index, tool) in tools.iter().enumerate() {
            let path = format!("{path}.tools[{index}]");
            member::check_object(&path, tool)?;
            let mut function = match tool.get("type").and_then(Value::as_str) {
                Some("function") => function(&path, Some(name), tool)?,
                Some(CUSTOM) => custom(&path, Some(name), tool)?,
                _ => {
                    let text = format!(
                        "'{path}.type' must be function or custom: a namespace holds the client's tools"
                    );
                    return Err(ApiError::value(&format!("{path}.type"), text));
                }
            };
            if !about.is_empty() {
                function.description = format!("{about}\n\n{}", function.description);
            }
            self.add_function(&path, function)?;
        }
        Ok(())
    }

    fn choose(mut self, choice: Option<&Value>) -> Result<Self, ApiError> {
        let Some(choice) = choice else { return Ok(self) };
        let kind = choice.get("type").and_then(Value::as_str).unwrap_or_default();
        match choice.as_str().unwrap_or_default() {
            "auto" => return Ok(self),
            "required" => {
                self.mode = Some(CallMode::Required);
                return Ok(self);
            }
            "none" => return Ok(Self { is_none: true, ..Self::default() }),
            _ => {}
        }
        match (kind, choice.get("name").and_then(Value::as_str), choice.get("tools")) {
            ("function" | CUSTOM, Some(name), _) => self.mode = Some(CallMode::Named(name.to_owned())),
            ("allowed_tools", _, Some(Value::Array(allowed))) => {
                self.allow(allowed);
                match member::optional_text("tool_choice", choice, "mode")? {
                    None | Some("auto") => {}
                    Some("required") => self.mode = Some(CallMode::Required),
                    Some("none") => return Ok(Self { is_none: true, ..Self::default() }),
                    Some(other) => {
                        let path = "tool_choice.mode";
                        let text = format!("'{path}' must be auto, required or none, not {}", quoted(other));
                        return Err(ApiError::value(path, text));
                    }
                }
            }
            ("mcp", name, _) => {
                self.choose_mcp(member::text("tool_choice", choice, "server_label")?, name)?;
            }
            (kind, _, _) if hosted(kind).is_some() => {
                self.mode = hosted(kind).map(|name| CallMode::Named(name.to_owned()));
            }
            _ => {
                let wanted = "none, auto, required, or an object of type function, custom or allowed_tools";
                let text = format!("'tool_choice' {}", must_be(wanted, choice));
                return Err(ApiError::value("tool_choice", text));
            }
        }
        Ok(self)
    }

    /// The model must call this tool of the server with the label, or any of its tools.
    fn choose_mcp(&mut self, label: &str, name: Option<&str>) -> Result<(), ApiError> {
        let prefix = mcp_prefix(label);
        let is_chosen = |tool: &String| match name {
            Some(name) => tool.strip_prefix(&prefix) == Some(name),
            None => tool.starts_with(&prefix),
        };
        let Some(tool) = self.hosted.iter().find(|tool| is_chosen(tool)).cloned() else {
            let text = format!("'tool_choice' names no tool of an mcp server {} in 'tools'", quoted(label));
            return Err(ApiError::value("tool_choice", text));
        };
        self.mode = Some(if name.is_some() { CallMode::Named(tool) } else { CallMode::Required });
        if name.is_none() {
            self.hosted.retain(is_chosen);
            self.functions.clear();
        }
        Ok(())
    }

    /// Keeps these tools alone.
    fn allow(&mut self, allowed: &[Value]) {
        let text = |tool: &Value, field: &str| tool.get(field).and_then(Value::as_str).map(str::to_owned);
        let functions: Vec<String> = allowed.iter().filter_map(|tool| text(tool, "name")).collect();
        self.functions.retain(|function| functions.contains(&function.name));
        let types: Vec<String> = allowed.iter().filter_map(|tool| text(tool, "type")).collect();
        let labels: Vec<String> = allowed.iter().filter_map(|tool| text(tool, "server_label")).collect();
        self.hosted.retain(|name| {
            types.iter().any(|kind| hosted(kind) == Some(name.as_str()))
                || labels.iter().any(|label| name.starts_with(&mcp_prefix(label)))
        });
    }
}

/// The tool of a type.
fn hosted(kind: &str) -> Option<&'static str> {
    HostedTool::of_type(kind)?.tool()
}
