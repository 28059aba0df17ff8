//! Items of a response's output, and the JSON of each kind.
//!
//! Calls of this server's tools have a type of their own for code and searches. All others are `mcp_call`,
//! which no client runs itself.

use super::ids::item_id;
use super::{custom_tool, loaded_tools, namespace};
use crate::domain::hosted_tool::HostedTool;
use crate::domain::id::JobId;
use crate::domain::response_request::{McpListedTool, McpToolList};
use crate::domain::tool::ToolCall;
use serde_json::{Value, json};

/// The label of this server's own tools in `mcp_call` items.
pub(super) const OWN_LABEL: &str = "nanoclaw";

/// The step of a call that broke off.
pub(super) const BROKEN_OFF: u32 = u32::MAX;

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

impl ItemStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// The content of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ItemContent {
    Text(String),
    Reasoning(String),
    /// The tools of an MCP server.
    McpTools(McpToolList),
    /// A call of the client's function.
    Function(ToolCall),
    /// A call of the client's custom tool; its arguments are the input.
    Custom(ToolCall),
    /// A call of the client's search for tools.
    ToolSearch(ToolCall),
    /// A call of this server's tool that the client has to approve.
    Approval(ToolCall),
    /// A call of this server's tool, and its result once there is one.
    Hosted {
        call: ToolCall,
        result: Option<String>,
        /// The request for its approval.
        request: Option<String>,
    },
}

impl ItemContent {
    /// Sets the arguments of a call that the client answers, and returns those before.
    pub(super) fn set_arguments(&mut self, arguments: String) -> String {
        match self {
            Self::Function(call) | Self::Custom(call) | Self::ToolSearch(call) => {
                std::mem::replace(&mut call.arguments, arguments)
            }
            _ => String::new(),
        }
    }
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputItem {
    /// Index of the job's step.
    pub(super) step: u32,
    /// Index in the stream.
    pub(super) place: usize,
    /// Its order in the output: a call that broke off and was repeated has that of the repetition.
    pub(super) order: usize,
    pub(super) content: ItemContent,
    /// Bytes of a function's arguments that its step has brought, or repeated after a break.
    pub(super) received: usize,
    pub(super) status: ItemStatus,
    /// The label of the MCP server that has the tool, or the namespace of the client's function.
    pub(super) server: Option<String>,
    /// The step was cut off: the item was streamed, but is not part of the response.
    pub(super) is_dropped: bool,
}

impl OutputItem {
    pub(super) fn id(&self, job: JobId) -> String {
        let prefix = match &self.content {
            ItemContent::Text(_) => "msg",
            ItemContent::Reasoning(_) => "rs",
            ItemContent::McpTools(_) => "mcpl",
            ItemContent::Function(_) => "fc",
            ItemContent::Custom(_) => "ctc",
            ItemContent::ToolSearch(_) => "tsc",
            ItemContent::Approval(_) => "mcpr",
            ItemContent::Hosted { call, .. } => HostedTool::of_tool(&call.name).id_prefix(),
        };
        item_id(prefix, job, self.place)
    }

    /// The name of a call that the client answers, as the model has it.
    pub(super) fn called_name(&self) -> &str {
        match &self.content {
            ItemContent::Function(call) | ItemContent::Custom(call) | ItemContent::ToolSearch(call) => {
                &call.name
            }
            _ => "",
        }
    }

    /// The arguments that its step has brought.
    pub(super) fn received_arguments(&self) -> &str {
        self.text().get(..self.received).unwrap_or_default()
    }

    /// Adds a piece of a function's arguments; returns what of it is new. `None`: the client has others.
    pub(super) fn add_arguments<'a>(&mut self, piece: &'a str) -> Option<&'a str> {
        let ItemContent::Function(call) = &mut self.content else { return Some("") };
        let repeated = call.arguments.get(self.received..).unwrap_or_default();
        let new = match piece.strip_prefix(repeated) {
            Some(new) => new,
            None if repeated.starts_with(piece) => "",
            None => return None,
        };
        call.arguments.push_str(new);
        self.received = self.received.saturating_add(piece.len());
        Some(new)
    }

    /// The name that the client gave its function.
    pub(super) fn function_name(&self) -> &str {
        let (ItemContent::Function(call) | ItemContent::Custom(call)) = &self.content else { return "" };
        self.server.as_deref().map_or(&call.name, |namespace| namespace::own_name(namespace, &call.name))
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        match &self.content {
            ItemContent::Text(text) | ItemContent::Reasoning(text) => text,
            ItemContent::McpTools(_) => "",
            ItemContent::Function(call)
            | ItemContent::Custom(call)
            | ItemContent::ToolSearch(call)
            | ItemContent::Approval(call)
            | ItemContent::Hosted { call, .. } => &call.arguments,
        }
    }

    /// What a search found. Clients do not get it.
    pub(super) fn found(&self) -> Option<&str> {
        match &self.content {
            ItemContent::Hosted { call, result, .. }
                if HostedTool::of_tool(&call.name) == HostedTool::Search =>
            {
                result.as_deref()
            }
            _ => None,
        }
    }

    /// The bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let result = match &self.content {
            ItemContent::Hosted { result: Some(result), .. } => result.len(),
            _ => 0,
        };
        self.text().len().saturating_add(result)
    }

    /// The item as clients get it.
    pub(super) fn to_json(&self, job: JobId) -> Value {
        let (id, status) = (self.id(job), self.status.as_str());
        let has_part = !self.text().is_empty() || self.status != ItemStatus::InProgress;
        match &self.content {
            ItemContent::Text(text) => {
                let content = if has_part { vec![text_part(text)] } else { Vec::new() };
                json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
            }
            ItemContent::Reasoning(text) => {
                let summary = if has_part { vec![summary_part(text)] } else { Vec::new() };
                json!({"type": "reasoning", "id": id, "summary": summary})
            }
            ItemContent::McpTools(list) => mcp_tools(&id, list, self.status == ItemStatus::Completed),
            ItemContent::Function(call) => {
                let mut item = json!({
                    "type": "function_call", "id": id, "call_id": call.id_ref, "name": self.function_name(),
                    "arguments": call.arguments, "status": status,
                });
                self.add_namespace(&mut item);
                item
            }
            ItemContent::Custom(call) => {
                let mut item = json!({
                    "type": custom_tool::CALL, "id": id, "call_id": call.id_ref, "name": self.function_name(),
                    "input": call.arguments, "status": status,
                });
                self.add_namespace(&mut item);
                item
            }
            ItemContent::ToolSearch(call) => json!({
                "type": loaded_tools::CALL, "id": id, "call_id": call.id_ref, "execution": "client",
                "arguments": ToolCall::object_of(&call.arguments), "status": status,
            }),
            ItemContent::Approval(call) => {
                let (label, name) = self.tool(call);
                json!({
                    "type": "mcp_approval_request", "id": id, "server_label": label, "name": name,
                    "arguments": call.arguments,
                })
            }
            ItemContent::Hosted { call, result, request } => {
                let mut item = hosted((id, status), call, result.as_deref());
                if let (Value::Object(map), HostedTool::Other) = (&mut item, HostedTool::of_tool(&call.name))
                {
                    let (label, name) = self.tool(call);
                    map.insert("server_label".to_owned(), label.into());
                    map.insert("name".to_owned(), name.into());
                    map.insert("approval_request_id".to_owned(), json!(request));
                }
                item
            }
        }
    }

    fn add_namespace(&self, item: &mut Value) {
        if let (Value::Object(map), Some(namespace)) = (item, &self.server) {
            map.insert("namespace".to_owned(), json!(namespace));
        }
    }

    /// The label of the tool's server, and the tool's name there.
    fn tool<'a>(&'a self, call: &'a ToolCall) -> (&'a str, &'a str) {
        let named = self
            .server
            .as_deref()
            .and_then(|label| Some((label, call.name.strip_prefix(mcp_prefix(label).as_str())?)));
        named.unwrap_or((OWN_LABEL, &call.name))
    }
}

/// What names of an MCP server's tools begin with here.
pub(super) fn mcp_prefix(label: &str) -> String {
    format!("mcp_{label}_")
}

/// The name of a tool that an item shows.
pub(super) fn tool_name(label: &str, name: &str) -> String {
    if label.is_empty() || label == OWN_LABEL { name.to_owned() } else { mcp_prefix(label) + name }
}

/// A part with text of the answer.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A part with reasoning.
pub(super) fn summary_part(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// The code of a `code_interpreter_call`.
pub(super) fn code(call: &ToolCall) -> String {
    argument(call, "code").unwrap_or_else(|| call.arguments.clone())
}

fn argument(call: &ToolCall, name: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    arguments.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn hosted((id, status): (String, &str), call: &ToolCall, result: Option<&str>) -> Value {
    let tool = HostedTool::of_tool(&call.name);
    let kind = tool.item_type();
    match tool {
        HostedTool::Code => {
            let outputs = result.map(|logs| vec![json!({"type": "logs", "logs": logs})]);
            json!({
                "type": kind, "id": id, "status": status, "code": code(call), "container_id": OWN_LABEL,
                "outputs": outputs,
            })
        }
        HostedTool::Search => {
            let query = argument(call, "query").unwrap_or_default();
            json!({"type": kind, "id": id, "status": status, "action": {"type": "search", "query": query}})
        }
        HostedTool::Shell | HostedTool::Other => json!({
            "type": kind, "id": id, "status": status, "server_label": OWN_LABEL, "name": call.name,
            "arguments": call.arguments, "output": result, "error": null, "approval_request_id": null,
        }),
    }
}

/// A list of tools; without them until it is complete.
fn mcp_tools(id: &str, list: &McpToolList, is_complete: bool) -> Value {
    let shown = |McpListedTool { name, description, input_schema }: &McpListedTool| json!({"name": name, "description": description, "input_schema": input_schema, "annotations": null});
    let tools: Vec<Value> = list.tools.iter().filter(|_| is_complete).map(shown).collect();
    json!({"type": "mcp_list_tools", "id": id, "server_label": list.label, "tools": tools, "error": null})
}
