//! Batches of messages, which MCP 2025-03-26 and earlier versions have. The requests of one run at the same
//! time and without notices of progress; the reply is one array.

use super::exchange::{hear, id_in_use, perform};
use super::initialize;
use super::message::{self, ClientMessage, RpcError};
use crate::http::auth;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use futures_util::future::join_all;
use hyper::StatusCode;
use serde_json::Value;
use std::sync::Arc;

/// Why a client of this version may send no batch. `None`: it may, as one that names no version.
pub(super) fn refusal(version: Option<&str>) -> Option<RpcError> {
    let version = version.filter(|version| !initialize::BATCHED.contains(version))?;
    Some(RpcError::request(format!("MCP {version} has no batches: send one message a request")))
}

/// Performs all messages of a batch.
pub(super) async fn answer(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    session: Option<&str>,
    messages: Vec<Result<ClientMessage, RpcError>>,
) -> HandlerResult {
    let replying = messages
        .into_iter()
        .enumerate()
        .map(|(nth, message)| reply(context, request, session, (nth, message)));
    let replies: Result<Vec<_>, ApiError> = join_all(replying).await.into_iter().collect();
    let replies: Vec<Value> = replies?.into_iter().flatten().collect();
    Ok(if replies.is_empty() {
        response::empty(StatusCode::ACCEPTED)
    } else {
        response::json(StatusCode::OK, &replies)
    })
}

/// The reply to one message, if it gets one. Each request counts; the first message did already.
async fn reply(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    session: Option<&str>,
    (nth, message): (usize, Result<ClientMessage, RpcError>),
) -> Result<Option<Value>, ApiError> {
    let (id, call) = match message {
        Ok(ClientMessage::Request { id, call }) => (id, call),
        Ok(ClientMessage::Notification(call)) => {
            hear(context, request, session, &call);
            return Ok(None);
        }
        Ok(ClientMessage::Refused { id, error }) => return Ok(Some(message::reply(&id, Err(error)))),
        Ok(ClientMessage::Reply) => return Ok(None),
        Err(error) => return Ok(Some(message::refusal(&error))),
    };
    if call.method == initialize::METHOD {
        let refusal = RpcError::request("'initialize' begins a session: send it by itself");
        return Ok(Some(message::reply(&id, Err(refusal))));
    }
    if nth > 0
        && let Err(error) = auth::count_message(context, request.user)
    {
        return Ok(Some(message::reply(&id, Err(RpcError::Api(error)))));
    }
    match context.mcp_sessions.begin(session, request.user, &id.to_string())? {
        Some(running) => Ok(perform(context, request, (id, call), running, None).await),
        None => Ok(Some(message::reply(&id, Err(id_in_use(&id))))),
    }
}
