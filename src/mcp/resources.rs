//! Resources of a server, which models list and read through a tool of ours.

use super::call::McpCallOutcome;
use super::server::ListedTool;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, PaginatedRequestParams, ReadResourceRequestParams, Resource,
    ResourceContents,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};
use std::future::Future;

/// The tool's name on the server; a tool of the server with this name has precedence.
const READER: &str = "read_resource";
/// Maximum number of listed resources, and of pages of their list.
const RESOURCES: usize = 200;
const PAGES: usize = 20;

/// The tools of a server with the reader of its resources, if it has any.
pub(super) fn with_reader(mut tools: Vec<ListedTool>, has_resources: bool) -> Vec<ListedTool> {
    if has_resources && !tools.iter().any(|tool| tool.raw_name == READER) {
        tools.push(ListedTool {
            raw_name: READER.to_owned(),
            description: "Reads a resource of this server by its URI; without a URI, lists the resources."
                .to_owned(),
            schema: json!({"type": "object", "properties": {"uri": {"type": "string"}}}),
            is_read_only: true,
            reads_resources: true,
        });
    }
    tools
}

/// Whether the server has resources.
pub(super) fn has_resources(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().as_ref().is_some_and(|info| info.capabilities.resources.is_some())
}

/// Lists the resources, or reads the one that the arguments name. `cancelled` ends the call.
pub(super) async fn read(
    peer: Peer<RoleClient>,
    arguments: Map<String, Value>,
    cancelled: impl Future<Output = String>,
) -> McpCallOutcome {
    let uri = arguments.get("uri").and_then(Value::as_str).filter(|uri| !uri.is_empty());
    let reading = async {
        match uri {
            Some(uri) => read_one(&peer, uri).await,
            None => list(&peer).await,
        }
    };
    let result = tokio::select! {
        result = reading => result,
        _ = cancelled => return McpCallOutcome::Cancelled,
    };
    match result {
        Ok(content) => McpCallOutcome::Result(Box::new(CallToolResult::success(content))),
        Err(ServiceError::McpError(error)) => McpCallOutcome::Refused {
            invalid_arguments: error.code == ErrorCode::INVALID_PARAMS,
            message: error.message.into_owned(),
        },
        Err(error) => McpCallOutcome::Lost(error.to_string()),
    }
}

async fn read_one(peer: &Peer<RoleClient>, uri: &str) -> Result<Vec<ContentBlock>, ServiceError> {
    let result = peer.read_resource(ReadResourceRequestParams::new(uri)).await?;
    let block = |contents: ResourceContents| match contents {
        ResourceContents::TextResourceContents { text, .. } => ContentBlock::text(text),
        other => ContentBlock::resource(other),
    };
    Ok(result.contents.into_iter().map(block).collect())
}

async fn list(peer: &Peer<RoleClient>) -> Result<Vec<ContentBlock>, ServiceError> {
    let (mut resources, mut cursor): (Vec<Resource>, _) = (Vec::new(), None);
    for _ in 0..PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_resources(Some(params)).await?;
        resources.extend(page.resources);
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() || resources.len() >= RESOURCES {
            break;
        }
    }
    resources.truncate(RESOURCES);
    let mut lines: Vec<Value> = resources.into_iter().map(|resource| describe(&resource)).collect();
    // A server may have patterns of URIs, and no method for them.
    if let Ok(page) = peer.list_resource_templates(None).await {
        let templates = page.resource_templates.into_iter().take(RESOURCES);
        lines.extend(templates.map(|template| json!({"uri": template.uri_template, "name": template.name})));
    }
    Ok(vec![ContentBlock::text(Value::Array(lines).to_string())])
}

fn describe(resource: &Resource) -> Value {
    let mut line = Map::from_iter([("uri".to_owned(), json!(resource.uri))]);
    line.insert("name".to_owned(), json!(resource.name));
    line.extend(resource.description.iter().map(|text| ("description".to_owned(), json!(text))));
    line.extend(resource.mime_type.iter().map(|mime| ("type".to_owned(), json!(mime))));
    Value::Object(line)
}
