//! Performs a request of a client, and replies to it.

use super::client_request::McpClientRequest;
use super::message::{self, RpcCall, RpcError, RpcId};
use super::progress::ProgressNotifier;
use super::session::RunningRequest;
use super::{methods, reply_stream};
use crate::http::context::ServerContext;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult, HttpResponse};
use crate::http::v1::jobs::events;
use hyper::StatusCode;
use serde_json::Value;
use std::sync::Arc;

/// Acts on a notification.
pub(super) fn hear(context: &ServerContext, request: &RequestContext, session: Option<&str>, call: &RpcCall) {
    if let (Some(session), Some(cancelled)) = (session, message::cancelled_request(call)) {
        context.mcp_sessions.cancel(session, request.user, &cancelled.to_string());
    }
}

pub(super) fn id_in_use(id: &RpcId) -> RpcError {
    RpcError::request(format!("the id {id} is in use already"))
}

/// Performs a request. The reply is a stream if the client follows the progress.
pub(super) async fn answer(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    (id, call): (RpcId, RpcCall),
    running: RunningRequest,
) -> HandlerResult {
    let token = message::progress_token(&call).filter(|_| events::wants_sse(&request.headers));
    let (progress, notifications) = token.map(ProgressNotifier::new).unzip();
    let performed = perform(context, request, (id, call), running, progress);
    if let Some(notifications) = notifications {
        return Ok(reply_stream::open(context, request.caller, notifications, performed));
    }
    Ok(match performed.await {
        Some(reply) => response::json(StatusCode::OK, &reply),
        // A cancelled request gets no reply.
        None => response::empty(StatusCode::ACCEPTED),
    })
}

/// The reply to a request; `None` if it was cancelled.
pub(super) fn perform(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    (id, call): (RpcId, RpcCall),
    mut running: RunningRequest,
    progress: Option<ProgressNotifier>,
) -> impl Future<Output = Option<Value>> + Send + use<> {
    let (context, caller, owner) = (Arc::clone(context), request.caller, request.owner);
    let asked = McpClientRequest { context, caller, owner, progress };
    async move {
        tokio::select! {
            biased;
            () = running.cancelled() => None,
            result = methods::perform(&asked, call) => Some(message::reply(&id, result)),
        }
    }
}

/// The response to a message that is no request of JSON-RPC.
pub(super) fn refused(error: &RpcError) -> HttpResponse {
    response::json(StatusCode::BAD_REQUEST, &message::refusal(error))
}
