//! Lists of the tools of MCP servers: a chain of responses shows one for each label, before its first call of
//! the model. They are stored with the request, so that a stream has the same numbers whenever it is read.

use super::history::FoundResponse;
use super::ids;
use super::input;
use super::item::mcp_prefix;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::response_request::{McpListedTool, McpToolList, ResponseRequest};
use crate::domain::tool::ToolDefinition;
use crate::http::dependencies::AppDependencies;
use crate::ports::{EntryQuery, StoreError};
use serde_json::Value;

/// How far back earlier responses are searched for one that has listed tools.
const RESPONSES: usize = 32;

/// Adds the tools of a server, which an earlier entry of the request may have named, too.
pub(super) fn add(lists: &mut Vec<McpToolList>, label: &str, tools: &[ToolDefinition]) {
    let prefix = mcp_prefix(label);
    let listed = |tool: &ToolDefinition| {
        let name = tool.name.strip_prefix(prefix.as_str())?.to_owned();
        let (description, input_schema) = (tool.description.to_string(), tool.parameters.clone());
        Some(McpListedTool { name, description, input_schema })
    };
    let place = lists.iter().position(|list| list.label == label).unwrap_or_else(|| {
        lists.push(McpToolList { label: label.to_owned(), tools: Vec::new() });
        lists.len().saturating_sub(1)
    });
    if let Some(list) = lists.get_mut(place) {
        for tool in tools.iter().filter_map(listed) {
            if list.tools.iter().all(|known| known.name != tool.name) {
                list.tools.push(tool);
            }
        }
    }
}

/// What a request continues.
pub(super) struct Continued<'a> {
    pub(super) previous: Option<&'a str>,
    pub(super) conversation: Option<&'a ConversationId>,
    pub(super) input: &'a [Value],
}

impl Continued<'_> {
    /// The labels whose tools the client has a list of.
    pub(super) fn listed(&self, app: &AppDependencies, user: UserId) -> Result<Vec<String>, StoreError> {
        let mut labels = match (self.previous, self.conversation) {
            (Some(id), _) => of_chain(app, user, id)?,
            (None, Some(id)) => of_conversation(app, user, id)?,
            (None, None) => Vec::new(),
        };
        let given = self.input.iter().filter(|item| input::kind(item) == "mcp_list_tools");
        labels.extend(given.filter_map(|item| Some(item.get("server_label")?.as_str()?.to_owned())));
        Ok(labels)
    }
}

/// The labels that a response and those before it have listed. One that never ran has listed nothing.
fn labels_of(found: FoundResponse) -> Vec<String> {
    let ResponseRequest { mcp_lists, mut listed_before, .. } = found.request;
    if found.job.started_at_ms.is_some() {
        listed_before.extend(mcp_lists.into_iter().map(|list| list.label));
    }
    listed_before
}

fn of_chain(app: &AppDependencies, user: UserId, previous: &str) -> Result<Vec<String>, StoreError> {
    let mut next = ids::job_of(previous);
    for _ in 0..RESPONSES {
        let Some(job) = next else { break };
        let Some(found) = FoundResponse::find(&*app.store, user, job)? else { break };
        let previous = found.request.shown.get("previous_response_id").and_then(Value::as_str);
        next = previous.and_then(ids::job_of);
        let labels = labels_of(found);
        if !labels.is_empty() {
            return Ok(labels);
        }
    }
    Ok(Vec::new())
}

fn of_conversation(
    app: &AppDependencies,
    user: UserId,
    id: &ConversationId,
) -> Result<Vec<String>, StoreError> {
    let query = EntryQuery { from: None, is_newest_first: true, limit: RESPONSES };
    let entries = app.conversation_items.entries(user, id, query)?.entries;
    for job in entries.into_iter().filter_map(|entry| entry.job) {
        let labels = FoundResponse::find(&*app.store, user, job.id)?.map(labels_of).unwrap_or_default();
        if !labels.is_empty() {
            return Ok(labels);
        }
    }
    Ok(Vec::new())
}
