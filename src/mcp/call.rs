//! One call over a session. Owns the waiting, and the notification that takes a call back; refuses to try again.

use super::session::tell;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// How long a call may take to be taken back.
const TAKING_BACK: Duration = Duration::from_secs(1);

/// What a call came to.
#[derive(Debug)]
pub(super) enum Answer {
    /// A result, an error of the tool's own included.
    Result(Box<CallToolResult>),
    /// The server refused it: whether for its arguments, and why.
    Refused {
        /// They are the reason.
        for_arguments: bool,
        /// In the server's words.
        why: String,
    },
    /// Nobody knows what came of it.
    Lost(String),
    /// It was taken back.
    TakenBack,
}

/// Asks, and waits for the answer or until `given_up` says why it is not wanted any more.
pub(super) async fn call(
    peer: Peer<RoleClient>,
    tool: String,
    arguments: Map<String, Value>,
    given_up: impl Future<Output = String>,
) -> Answer {
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
    let mut handle = match sent.await {
        Ok(handle) => handle,
        Err(error) => return Answer::Lost(tell(&error)),
    };
    let answer = tokio::select! {
        answer = &mut handle.rx => answer,
        why = given_up => {
            // A server that does not even read this is told no more.
            drop(timeout(TAKING_BACK, handle.cancel(Some(why))).await);
            return Answer::TakenBack;
        }
    };
    match answer {
        Ok(Ok(ServerResult::CallToolResult(result))) => Answer::Result(Box::new(result)),
        Ok(Ok(_)) => Answer::Lost(tell(&ServiceError::UnexpectedResponse)),
        Ok(Err(ServiceError::McpError(error))) => Answer::Refused {
            for_arguments: error.code == ErrorCode::INVALID_PARAMS,
            why: error.message.into_owned(),
        },
        Ok(Err(error)) => Answer::Lost(tell(&error)),
        Err(_) => Answer::Lost(tell(&ServiceError::TransportClosed)),
    }
}
