//! What a request says about the calls of its response: which are the client's functions, which belong to a
//! named MCP server, and which were approved.

use super::custom_tool::CUSTOM;
use super::item::{ItemContent, mcp_prefix};
use super::loaded_tools::SEARCH;
use super::{custom_tool, loaded_tools, namespace};
use crate::domain::response_request::ResponseRequest;
use crate::domain::tool::ToolCall;
use crate::http::error::ApiError;
use crate::http::request::member;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};

/// What the tools of a request say about calls.
#[derive(Debug)]
pub(super) struct DeclaredTools {
    /// The client's functions; `None`: the request names no MCP server.
    functions: Option<Vec<String>>,
    /// Labels of MCP servers, the longest first: one may begin another.
    labels: Vec<String>,
    /// The namespaces of the client's functions, by the functions' names for the model.
    namespaces: HashMap<String, String>,
    /// The client's custom tools, by their names for the model.
    custom: Vec<String>,
    /// Whether the client searches for tools.
    has_search: bool,
    /// The requests whose calls the response begins with.
    approved: VecDeque<String>,
}

impl DeclaredTools {
    pub(super) fn of(request: &ResponseRequest) -> Self {
        let given =
            request.shown.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let loaded = loaded_tools::of_items((&request.loaded_before, &request.input), given);
        let tools: Vec<&Value> = given.iter().chain(&loaded).collect();
        let is_of = |tool: &Value, kind: &str| tool.get("type").and_then(Value::as_str) == Some(kind);
        let named = |kind: &str, field: &str| -> Vec<String> {
            let of_kind = tools.iter().filter(|tool| is_of(tool, kind));
            of_kind.filter_map(|tool| tool.get(field)?.as_str().map(str::to_owned)).collect()
        };
        let mut labels = named("mcp", "server_label");
        labels.sort_by_key(|label| std::cmp::Reverse(label.len()));
        let approved = open_responses(&request.input).map(|(_, id, _)| id.to_owned()).collect();
        let namespaces = namespace::of_functions(&tools);
        let has_search = tools.iter().any(|tool| is_of(tool, SEARCH));
        let mut custom = named(CUSTOM, "name");
        custom.extend(namespace::of_custom_tools(&tools));
        let all_functions = || {
            let others = namespaces.keys().chain(&custom).cloned();
            named("function", "name").into_iter().chain(others).chain([SEARCH.to_owned()])
        };
        let functions = (!labels.is_empty()).then(|| all_functions().collect());
        Self { functions, labels, namespaces, custom, has_search, approved }
    }

    /// Whether a call that was handed to the client is one of this server's tools.
    pub(super) fn is_server_tool(&self, name: &str) -> bool {
        self.functions.as_ref().is_some_and(|functions| !functions.iter().any(|function| function == name))
    }

    /// The label of the MCP server that has the tool.
    pub(super) fn server_of(&self, name: &str) -> Option<String> {
        self.labels.iter().find(|label| name.starts_with(&mcp_prefix(label))).cloned()
    }

    /// The namespace of the client's function with this name for the model.
    pub(super) fn namespace_of(&self, name: &str) -> Option<String> {
        self.namespaces.get(name).cloned()
    }

    /// The content of the item of a call that the client answers.
    pub(super) fn client_call(&self, call: ToolCall) -> ItemContent {
        if self.custom.contains(&call.name) {
            let arguments = custom_tool::input(&call.arguments);
            ItemContent::Custom(ToolCall { arguments, ..call })
        } else if self.has_search && call.name == SEARCH {
            ItemContent::ToolSearch(call)
        } else {
            ItemContent::Function(call)
        }
    }

    /// The request for the approval of the next call, if the response goes on with it.
    pub(super) fn next_approved(&mut self) -> Option<String> {
        self.approved.pop_front()
    }
}

/// The member of a decision that names what it decides about.
pub(super) const REQUEST_ID: &str = "approval_request_id";

/// Fails unless the item is a decision.
pub(super) fn check_decision(path: &str, item: &Value) -> Result<(), ApiError> {
    member::text(path, item, REQUEST_ID)?;
    member::flag(path, item, "approve")?;
    member::optional_text(path, item, "reason")?;
    Ok(())
}

/// The decisions among the items that were not acted on yet: place, request, and item.
pub(super) fn open_responses(items: &[Value]) -> impl Iterator<Item = (usize, &str, &Value)> {
    let field = |item: &Value, name: &str, text: &str| item.get(name).and_then(Value::as_str) == Some(text);
    items.iter().enumerate().filter_map(move |(place, item)| {
        let request = item.get(REQUEST_ID).and_then(Value::as_str)?;
        let is_done = || {
            let later = items.iter().skip(place);
            later.into_iter().any(|i| field(i, "type", "mcp_call") && field(i, REQUEST_ID, request))
        };
        (field(item, "type", "mcp_approval_response") && !is_done()).then_some((place, request, item))
    })
}
