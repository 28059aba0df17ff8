//! Entries of `tools` that name tools of this server.

use super::item::{OWN_LABEL, mcp_prefix};
use super::mcp_lists;
use crate::domain::hosted_tool::HostedTool;
use crate::domain::response_request::McpToolList;
use crate::domain::tool::ToolDefinition;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::v1::openai::failure::unsupported;
use crate::http::v1::openai::fields::check_tool;
use crate::ports::ToolScope;
use serde_json::{Value, json};

/// The names of this server's tools that an entry of `tools` asks for. Those of an MCP server are listed.
pub(super) fn names(
    path: &str,
    tool: &Value,
    app: &AppDependencies,
    lists: &mut Vec<McpToolList>,
) -> Result<Vec<String>, ApiError> {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "mcp" {
        let (label, tools) = mcp(path, tool, app)?;
        mcp_lists::add(lists, label, &tools);
        return Ok(tools.iter().map(|tool| tool.name.to_string()).collect());
    }
    let Some(name) = tool_of(path, (kind, HostedTool::of_type(kind)), app)? else {
        let text = format!(
            "a tool of type {} is not supported: 'type' may be function, custom, namespace, {}; the header NanoClaw-Tools offers other \
             tools of this server",
            quoted(kind),
            HostedTool::TYPES
        );
        return Err(unsupported(&format!("{path}.type"), text));
    };
    check_tool(path, tool, &[], is_neutral)?;
    Ok(vec![name.to_owned()])
}

/// Whether a field of a tool changes nothing: it only tunes, or says what is so in any case.
fn is_neutral(field: &str, value: &Value) -> bool {
    let has_only = |known: &[&str]| {
        let is_unset = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let fields = value.as_object();
        fields.is_some_and(|all| all.iter().all(|(name, v)| known.contains(&name.as_str()) || is_unset(v)))
    };
    let is_of_type = |kind: &str| value.get("type").and_then(Value::as_str) == Some(kind);
    match field {
        "search_context_size" => true,
        // A search reads a search engine's index, never the pages.
        "external_web_access" => value.is_boolean(),
        // Results are texts, also for clients that take images.
        "search_content_types" => value.as_array().is_some_and(|types| types.contains(&json!("text"))),
        "filters" => has_only(&[]),
        "user_location" => has_only(&["type"]),
        "container" => {
            value.as_str() == Some(OWN_LABEL) || (is_of_type("auto") && has_only(&["type", "memory_limit"]))
        }
        "environment" => is_of_type("container_auto") && has_only(&["type", "memory_limit"]),
        "allowed_callers" => *value == json!(["direct"]),
        "defer_loading" => value == false,
        _ => false,
    }
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
        check_tool(&format!("{path}.require_approval"), value, &["tool_names"], |_, _| false)?;
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

/// The tools of a configured MCP server, found by its label, and the label.
fn mcp<'a>(
    path: &str,
    tool: &'a Value,
    app: &AppDependencies,
) -> Result<(&'a str, Vec<ToolDefinition>), ApiError> {
    for field in ["server_url", "connector_id", "authorization", "headers"] {
        if tool.get(field).is_some_and(|value| !value.is_null()) {
            let text = format!("'{path}.{field}' is not supported: the operator configures MCP servers");
            return Err(unsupported(&format!("{path}.{field}"), text));
        }
    }
    let read = ["server_label", "server_description", "allowed_tools", "require_approval"];
    check_tool(path, tool, &read, is_neutral)?;
    let label = tool.get("server_label").and_then(Value::as_str).unwrap_or_default();
    let prefix = mcp_prefix(label);
    let allowed = allowed_tools(path, tool)?;
    let mut tools = app.toolbox.offered(&ToolScope::EVERY);
    tools.retain(|tool| {
        let short = tool.name.strip_prefix(prefix.as_str());
        short.is_some_and(|short| allowed.as_ref().is_none_or(|names| names.contains(&short)))
    });
    if label.is_empty() || tools.is_empty() {
        let text = format!("no configured MCP server {} has tools that this asks for", quoted(label));
        return Err(ApiError::value(&format!("{path}.server_label"), text));
    }
    Ok((label, tools))
}

/// The names that an entry allows; `None`: all.
fn allowed_tools<'t>(path: &str, tool: &'t Value) -> Result<Option<Vec<&'t str>>, ApiError> {
    let Some(allowed) = tool.get("allowed_tools").filter(|allowed| !allowed.is_null()) else {
        return Ok(None);
    };
    let path = format!("{path}.allowed_tools");
    check_tool(&path, allowed, &["tool_names"], |_, _| false)?;
    let list = allowed.as_array().or_else(|| allowed.get("tool_names").and_then(Value::as_array));
    let names = list.and_then(|list| list.iter().map(Value::as_str).collect());
    let rule = "must be a list of names, or an object with such a list as tool_names";
    let refused = || ApiError::value(&path, format!("'{path}' {rule}"));
    names.ok_or_else(refused).map(Some)
}
