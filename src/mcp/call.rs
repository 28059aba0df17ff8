//! One tool call over a session. It is never repeated.

use super::session::describe_error;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// Time to send the cancellation of a call.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// How a call ended.
#[derive(Debug)]
pub(super) enum McpCallOutcome {
    /// A result, which may be an error of the tool.
    Result(Box<CallToolResult>),
    /// The server refused the call.
    Refused {
        /// Because of the arguments.
        invalid_arguments: bool,
        message: String,
    },
    /// The connection failed; the effect of the call is unknown.
    Lost(String),
    Cancelled,
}

/// Calls a tool. `cancelled` ends the call and returns the reason for the server.
pub(super) async fn call(
    peer: Peer<RoleClient>,
    tool: String,
    arguments: Map<String, Value>,
    cancelled: impl Future<Output = String>,
) -> McpCallOutcome {
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let mut handle = match peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
        Ok(handle) => handle,
        Err(error) => return McpCallOutcome::Lost(describe_error(&error)),
    };
    let response = tokio::select! {
        response = &mut handle.rx => response.unwrap_or(Err(ServiceError::TransportClosed)),
        reason = cancelled => {
            // A server that does not read this either is not notified.
            drop(timeout(CANCEL_TIMEOUT, handle.cancel(Some(reason))).await);
            return McpCallOutcome::Cancelled;
        }
    };
    match response {
        Ok(ServerResult::CallToolResult(result)) => McpCallOutcome::Result(Box::new(result)),
        Ok(_) => McpCallOutcome::Lost(describe_error(&ServiceError::UnexpectedResponse)),
        Err(ServiceError::McpError(error)) => McpCallOutcome::Refused {
            invalid_arguments: error.code == ErrorCode::INVALID_PARAMS,
            message: error.message.into_owned(),
        },
        Err(error) => McpCallOutcome::Lost(describe_error(&error)),
    }
}
