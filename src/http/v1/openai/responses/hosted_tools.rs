//! Entries of `tools` that name tools of this server.

use super::item::mcp_prefix;
use crate::domain::hosted_tool::HostedTool;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::v1::openai::failure::unsupported;
use crate::ports::ToolScope;
use serde_json::Value;

/// The names of this server's tools that an entry of `tools` asks for.
pub(super) fn names(path: &str, tool: &Value, app: &AppDependencies) -> Result<Vec<String>, ApiError> {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "mcp" {
        return mcp(path, tool, app);
    }
    let Some(name) = tool_of(path, (kind, HostedTool::of_type(kind)), app)? else {
        let text = format!(
            "a tool of type {} is not supported: 'type' may be function, {}; the header NanoClaw-Tools offers other \
             tools of this server",
            quoted(kind),
            HostedTool::TYPES
        );
        return Err(unsupported(&format!("{path}.type"), text));
    };
    Ok(vec![name.to_owned()])
}

/// This server's tool for a type; `None` if there is none for any server.
pub(crate) fn tool_of(
    path: &str,
    (kind, hosted): (&str, Option<HostedTool>),
    app: &AppDependencies,
) -> Result<Option<&'static str>, ApiError> {
    match hosted.and_then(HostedTool::tool) {
        Some(name) if !app.toolbox.has_tool(name) => {
            let text = format!("{kind} is not possible on this server: it has no tool {name}");
            Err(unsupported(&format!("{path}.type"), text))
        }
        known => Ok(known),
    }
}

/// Those tools of an MCP entry whose calls the client wants to approve; `None`: the entry is no MCP server.
pub(super) fn asked(path: &str, tool: &Value, names: &[String]) -> Result<Option<Vec<String>>, ApiError> {
    if tool.get("type").and_then(Value::as_str) != Some("mcp") {
        return Ok(None);
    }
    let label = tool.get("server_label").and_then(Value::as_str).unwrap_or_default();
    let refused = || {
        let path = format!("{path}.require_approval");
        let rule = "must be always, never, or an object with always and never, each with tool_names";
        ApiError::value(&path, format!("'{path}' {rule}"))
    };
    let listed = |value: Option<&Value>| -> Result<Option<Vec<String>>, ApiError> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
        let list = value.get("tool_names").and_then(Value::as_array).ok_or_else(refused)?;
        let names = list.iter().map(|name| name.as_str().map(|name| mcp_prefix(label) + name));
        names.collect::<Option<Vec<_>>>().map(Some).ok_or_else(refused)
    };
    Ok(Some(match tool.get("require_approval") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(word)) if word == "never" => Vec::new(),
        Some(Value::String(word)) if word == "always" => names.to_vec(),
        Some(filter @ Value::Object(_)) => {
            match (listed(filter.get("always"))?, listed(filter.get("never"))?) {
                (Some(always), _) => always,
                (None, Some(never)) => names.iter().filter(|name| !never.contains(name)).cloned().collect(),
                (None, None) => return Err(refused()),
            }
        }
        Some(_) => return Err(refused()),
    }))
}

/// The tools of a configured MCP server, found by its label.
fn mcp(path: &str, tool: &Value, app: &AppDependencies) -> Result<Vec<String>, ApiError> {
    for field in ["server_url", "connector_id", "authorization", "headers"] {
        if tool.get(field).is_some_and(|value| !value.is_null()) {
            let text = format!("'{path}.{field}' is not supported: the operator configures MCP servers");
            return Err(unsupported(&format!("{path}.{field}"), text));
        }
    }
    let label = tool.get("server_label").and_then(Value::as_str).unwrap_or_default();
    let prefix = mcp_prefix(label);
    let known = app.toolbox.offered(&ToolScope::EVERY);
    let of_server = known.iter().filter_map(|tool| {
        let short = tool.name.strip_prefix(prefix.as_str())?;
        Some((short.to_owned(), tool.name.to_string()))
    });
    let allowed = allowed_tools(path, tool)?;
    let names: Vec<String> = of_server
        .filter(|(short, _)| allowed.as_ref().is_none_or(|names| names.contains(&short.as_str())))
        .map(|(_, name)| name)
        .collect();
    if label.is_empty() || names.is_empty() {
        let text = format!("no configured MCP server {} has tools that this asks for", quoted(label));
        return Err(ApiError::value(&format!("{path}.server_label"), text));
    }
    Ok(names)
}

/// The tools that a request allows; `None`: all of the server's.
fn allowed_tools<'t>(path: &str, tool: &'t Value) -> Result<Option<Vec<&'t str>>, ApiError> {
    let Some(allowed) = tool.get("allowed_tools").filter(|allowed| !allowed.is_null()) else {
        return Ok(None);
    };
    let list = allowed.as_array().or_else(|| allowed.get("tool_names").and_then(Value::as_array));
    let names = list.and_then(|list| list.iter().map(Value::as_str).collect());
    let path = format!("{path}.allowed_tools");
    let rule = "must be a list of names, or an object with such a list as tool_names";
    let refused = || ApiError::value(&path, format!("'{path}' {rule}"));
    names.ok_or_else(refused).map(Some)
}
