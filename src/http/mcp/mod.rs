//! `/mcp`: this server for MCP clients, over streamable HTTP of MCP 2025-11-25 and earlier versions. A
//! message is a `POST`, its reply is JSON, or server-sent events when the client wants to see the progress.
//! There is no stream that only the server begins, so a `GET` is a 405.
//!
//! A request ends when its client leaves, as MCP 2026-07-28 requires: closing the response is the signal that
//! cancels it. The versions of 2025 advise against that, but without streams that can be resumed nobody could
//! get the reply of what went on. Jobs go on.

mod batch;
mod client_request;
mod exchange;
mod headers;
mod initialize;
mod message;
mod methods;
mod progress;
mod reply_stream;
mod resources;
mod session;
mod tools;

#[cfg(test)]
pub(super) use initialize::VERSIONS;
#[cfg(test)]
pub(super) use message::BATCH_MESSAGES;
pub(crate) use session::McpSessions;

use super::context::ServerContext;
use super::error::ApiError;
use super::request::body::{self, BufferedBody, RequestBody};
use super::request::context::RequestContext;
use super::request::json;
use super::response::{self, HandlerResult, HttpResponse};
use crate::domain::id::UserId;
use exchange::{answer, hear, id_in_use, refused};
use headers::{PROTOCOL_VERSION, SESSION_ID, check_media_type, check_version, header};
use hyper::StatusCode;
use message::{ClientMessage, RpcCall, RpcError, RpcId, SentMessages};
use std::sync::Arc;

/// Larger messages are parsed on a thread that may block.
const INLINE_BYTES: usize = 64 * 1024;

/// `POST /mcp`: one message of a client.
pub(crate) async fn post(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    check_enabled(context)?;
    check_media_type(&request.headers)?;
    let body = body::read(context, &request.headers, body).await?;
    let sent = match parse(context, request.user, body).await? {
        Ok(sent) => sent,
        Err(error) => return Ok(refused(&error)),
    };
    let session = header(&request.headers, &SESSION_ID)?.map(str::to_owned);
    if let SentMessages::One(ClientMessage::Request { id, call }) = &sent
        && call.method == initialize::METHOD
    {
        return Ok(begin_session(context, &request, id, call));
    }
    check_version(&request.headers)?;
    let agreed = match &session {
        Some(session) => Some(context.mcp_sessions.version(session, request.user)?),
        None => None,
    };
    let message = match sent {
        SentMessages::One(message) => message,
        SentMessages::Batch(messages) => {
            let version = header(&request.headers, &PROTOCOL_VERSION)?.or(agreed);
            if let Some(error) = batch::refusal(version) {
                return Ok(refused(&error));
            }
            return batch::answer(context, &request, session.as_deref(), messages).await;
        }
    };
    match message {
        ClientMessage::Request { id, call } => {
            let running = context.mcp_sessions.begin(session.as_deref(), request.user, &id.to_string())?;
            let Some(running) = running else { return Ok(refused(&id_in_use(&id))) };
            answer(context, &request, (id, call), running).await
        }
        ClientMessage::Notification(call) => {
            hear(context, &request, session.as_deref(), &call);
            Ok(response::empty(StatusCode::ACCEPTED))
        }
        ClientMessage::Refused { id, error } => {
            Ok(response::json(StatusCode::BAD_REQUEST, &message::reply(&id, Err(error))))
        }
        // This server asks clients for nothing.
        ClientMessage::Reply => Ok(response::empty(StatusCode::ACCEPTED)),
    }
}

/// `DELETE /mcp`: ends the session and cancels its requests.
pub(crate) fn delete(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    check_enabled(context)?;
    let session = header(&request.headers, &SESSION_ID)?;
    let session = session.ok_or_else(|| {
        ApiError::value(
            SESSION_ID.as_str(),
            "the header 'Mcp-Session-Id' is missing: it names the session to end",
        )
    })?;
    context.mcp_sessions.end(session, request.user)?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}

/// Replies to `initialize`. A refused one begins no session.
fn begin_session(
    context: &ServerContext,
    request: &RequestContext,
    id: &RpcId,
    call: &RpcCall,
) -> HttpResponse {
    let (version, result) = match initialize::answer(&call.params) {
        Ok((version, result)) => (Some(version), Ok(result)),
        Err(error) => (None, Err(error)),
    };
    let mut response = response::json(StatusCode::OK, &message::reply(id, result));
    if let Some(version) = version {
        let session = context.mcp_sessions.open(request.user, version, context.app.entropy.random());
        response::set(&mut response, SESSION_ID, &session);
    }
    response
}

fn check_enabled(context: &ServerContext) -> Result<(), ApiError> {
    if context.app.has_mcp_server { Ok(()) } else { Err(ApiError::NotFound("resource")) }
}

async fn parse(
    context: &ServerContext,
    user: UserId,
    body: BufferedBody,
) -> Result<Result<SentMessages, RpcError>, ApiError> {
    let most_values = json::most_values(&context.app.limits);
    if body.bytes.len() <= INLINE_BYTES {
        return Ok(SentMessages::parse(&body.bytes, most_values));
    }
    context
        .app
        .blocking(user, move || {
            let BufferedBody { bytes, place } = body;
            let message = SentMessages::parse(&bytes, most_values);
            drop(place);
            message
        })
        .await
}
