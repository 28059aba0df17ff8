//! The methods of MCP beside `initialize`.

use super::client_request::McpClientRequest;
use super::message::{RpcCall, RpcError, unknown_method};
use super::{resources, tools};
use serde_json::{Value, json};

/// The result of the method that a request calls.
pub(super) async fn perform(request: &McpClientRequest, call: RpcCall) -> Result<Value, RpcError> {
    let RpcCall { method, params } = call;
    match method.as_str() {
        "ping" => Ok(json!({})),
        "tools/list" => tools::list(request, params).await,
        "tools/call" => tools::call(request, params).await,
        "resources/list" => resources::list(request, params).await,
        "resources/templates/list" => resources::templates(params),
        "resources/read" => resources::read(request, params).await,
        _ => Err(unknown_method(&method)),
    }
}
