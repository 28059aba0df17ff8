//! `/mcp`.

use super::Drawing;
use super::operation::{Operation, json_of};
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing) {
    let message = json!({
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer"]}, "method": {"type": "string"}},
        "required": ["jsonrpc"],
    });
    drawing.component("McpMessage", message);
    let shape = super::operation::named("McpMessage");
    let header = json!({"type": "string"});
    let post = Operation::new("POST", "/mcp", "A message of MCP (streamable HTTP)")
        .header("Mcp-Session-Id", header.clone())
        .header("MCP-Protocol-Version", header.clone())
        .takes(json_of(shape.clone()))
        .says(200, "The reply: JSON, or events that end with it", content(&shape))
        .says(202, "A notification has arrived, or the request was cancelled", Value::Null);
    drawing.add(post);
    let delete = Operation::new("DELETE", "/mcp", "Ends a session of MCP").header("Mcp-Session-Id", header);
    drawing.add(delete.says(204, "It has ended", Value::Null));
}

fn content(message: &Value) -> Value {
    json!({"application/json": {"schema": message}, "text/event-stream": {"schema": {"type": "string"}}})
}
