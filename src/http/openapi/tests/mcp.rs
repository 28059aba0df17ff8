//! `/mcp`.

use super::Drawing;
use super::operation::{Operation, json_of, named};
use crate::http::mcp::{BATCH_MESSAGES, VERSIONS};
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing) {
    let call = json!({
        "properties": {
            "method": {"type": "string"},
            "id": {"type": ["string", "integer"], "description": "At most 256 bytes of JSON"},
            "params": {"type": ["object", "null"]},
        },
        "required": ["method"],
    });
    let reply = json!({
        "properties": {"method": false},
        "anyOf": [{"required": ["result"]}, {"required": ["error"]}],
    });
    let message = json!({
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}},
        "required": ["jsonrpc"],
        "anyOf": [call, reply],
    });
    drawing.component("McpMessage", message);
    let shape = named("McpMessage");
    let batch = json!({"type": "array", "items": shape, "minItems": 1, "maxItems": BATCH_MESSAGES,
        "description": "Of MCP 2025-03-26 and earlier"});
    let one_or_more = json!({"anyOf": [shape, batch]});
    let header = json!({"type": "string"});
    let post = Operation::new("POST", "/mcp", "A message of MCP (streamable HTTP)")
        .header("Mcp-Session-Id", header.clone())
        .header("MCP-Protocol-Version", json!({"enum": VERSIONS}))
        .takes(json_of(one_or_more.clone()))
        .says(200, "The reply: JSON, or events that end with it", content(&one_or_more))
        .says(202, "A notification has arrived, or the request was cancelled", Value::Null)
        .says(
            400,
            "A header is wrong, or the body is no message",
            json_of(json!({"anyOf": [shape, named("ErrorResponse")]})),
        );
    drawing.add(post);
    let delete = Operation::new("DELETE", "/mcp", "Ends a session of MCP");
    let delete = delete.needed_header("Mcp-Session-Id", header);
    drawing.add(delete.says(204, "It has ended", Value::Null));
}

fn content(message: &Value) -> Value {
    json!({"application/json": {"schema": message}, "text/event-stream": {"schema": {"type": "string"}}})
}
