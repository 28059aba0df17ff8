//! What a request to `/v1/responses` said beside the job that it became.

use super::id::JobId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Marks a job as a response and holds what its response object repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseRequest {
    /// The input items as given, without those of earlier responses.
    pub input: Vec<Value>,
    /// Fields of the response object that repeat the request.
    pub shown: Map<String, Value>,
    /// Whether the response can be read after its end.
    pub is_stored: bool,
    /// Whether the request was answered before the job began.
    pub is_background: bool,
    /// Tools of MCP servers that the response lists before its first call of the model, as they were then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_lists: Vec<McpToolList>,
    /// Labels of the servers whose tools earlier responses of the chain have listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed_before: Vec<String>,
    /// Tools that the items of earlier responses of the chain have brought.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_before: Vec<Value>,
}

/// Tools of an MCP server that a request names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpToolList {
    /// The label of the server.
    pub label: String,
    /// The tools that the request allows.
    pub tools: Vec<McpListedTool>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpListedTool {
    /// Its name there.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

/// What ids of responses begin with, before the id of the job.
pub const RESPONSE_PREFIX: &str = "resp_";

/// The id of a job's response.
pub fn response_id(job: JobId) -> String {
    format!("{RESPONSE_PREFIX}{job}")
}
