//! `/mcp`: this server for MCP clients, over streamable HTTP of MCP 2025-11-25 and earlier versions. A
//! message is a `POST`, its reply is JSON, or server-sent events when the client wants to see the progress.
//! There is no stream that only the server begins, so a `GET` is a 405.
//!
//! A request ends when its client leaves, as MCP 2026-07-28 requires: closing the response is the signal that
//! cancels it. The versions of 2025 advise against that, but without streams that can be resumed nobody could
//! get the reply of what went on. Jobs go on.

mod client_request;
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
pub(crate) use session::McpSessions;

use super::blocking::blocking;
use super::context::ServerContext;
use super::error::ApiError;
use super::request::body::{self, BufferedBody, RequestBody};
use super::request::context::RequestContext;
use super::request::json;
use super::request::quoted::quoted;
use super::response::{self, HandlerResult, HttpResponse};
use super::v1::jobs::events;
use client_request::McpClientRequest;
use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::{HeaderMap, StatusCode};
use message::{ClientMessage, RpcCall, RpcError, RpcId};
use progress::ProgressNotifier;
use session::RunningRequest;
use std::sync::Arc;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

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
    let message = match parse(context, body).await? {
        Ok(message) => message,
        Err(error) => return Ok(refused(&error)),
    };
    let session = header(&request.headers, &SESSION_ID)?.map(str::to_owned);
    if let ClientMessage::Request { id, call } = &message
        && call.method == initialize::METHOD
    {
        return Ok(begin_session(context, &request, id, call));
    }
    check_version(&request.headers)?;
    if let Some(session) = &session {
        context.mcp_sessions.check(session, request.user)?;
    }
    match message {
        ClientMessage::Request { id, call } => {
            let running = context.mcp_sessions.begin(session.as_deref(), request.user, &id.to_string())?;
            let Some(running) = running else {
                return Ok(refused(&RpcError::request(format!("the id {id} is in use already"))));
            };
            answer(context, &request, (id, call), running).await
        }
        ClientMessage::Notification(call) => {
            if let (Some(session), Some(cancelled)) = (&session, message::cancelled_request(&call)) {
                context.mcp_sessions.cancel(session, request.user, &cancelled.to_string());
            }
            Ok(response::empty(StatusCode::ACCEPTED))
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
    let result = initialize::answer(&call.params);
    let is_begun = result.is_ok();
    let mut response = response::json(StatusCode::OK, &message::reply(id, result));
    if is_begun {
        let session = context.mcp_sessions.open(request.user, context.app.entropy.random());
        response::set(&mut response, SESSION_ID, &session);
    }
    response
}

/// Performs a request. The reply is a stream if the client follows the progress.
async fn answer(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    (id, call): (RpcId, RpcCall),
    mut running: RunningRequest,
) -> HandlerResult {
    let token = message::progress_token(&call).filter(|_| events::wants_sse(&request.headers));
    let (progress, notifications) = token.map(ProgressNotifier::new).unzip();
    let asked = McpClientRequest {
        context: Arc::clone(context),
        caller: request.caller,
        owner: request.owner,
        progress,
    };
    let performed = async move {
        tokio::select! {
            biased;
            () = running.cancelled() => None,
            result = methods::perform(&asked, call) => Some(message::reply(&id, result)),
        }
    };
    if let Some(notifications) = notifications {
        return Ok(reply_stream::open(context, notifications, performed));
    }
    Ok(match performed.await {
        Some(reply) => response::json(StatusCode::OK, &reply),
        // A cancelled request gets no reply.
        None => response::empty(StatusCode::ACCEPTED),
    })
}

fn check_enabled(context: &ServerContext) -> Result<(), ApiError> {
    if context.app.has_mcp_server { Ok(()) } else { Err(ApiError::NotFound("resource")) }
}

async fn parse(
    context: &ServerContext,
    body: BufferedBody,
) -> Result<Result<ClientMessage, RpcError>, ApiError> {
    let most_values = json::most_values(&context.app.limits);
    if body.bytes.len() <= INLINE_BYTES {
        return Ok(ClientMessage::parse(&body.bytes, most_values));
    }
    blocking(move || {
        let BufferedBody { bytes, place } = body;
        let message = ClientMessage::parse(&bytes, most_values);
        drop(place);
        message
    })
    .await
}

/// The response to a message that is no request of JSON-RPC.
fn refused(error: &RpcError) -> HttpResponse {
    response::json(StatusCode::BAD_REQUEST, &message::refusal(error))
}

/// A message is JSON: forms of web pages, which need no permission of CORS, are not read.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let line = header(headers, &CONTENT_TYPE)?.unwrap_or_default();
    let essence = line.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::Refused {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        code: "unsupported_media_type",
        message: format!("the Content-Type must be application/json, not {}", quoted(line)),
    })
}

/// Without the header the client speaks a version that does not have it.
fn check_version(headers: &HeaderMap) -> Result<(), ApiError> {
    match header(headers, &PROTOCOL_VERSION)? {
        Some(version) if !initialize::VERSIONS.contains(&version) => Err(ApiError::value(
            PROTOCOL_VERSION.as_str(),
            format!(
                "the MCP-Protocol-Version {} is not supported; supported: {}",
                quoted(version),
                initialize::VERSIONS.join(", ")
            ),
        )),
        _ => Ok(()),
    }
}

/// The value of a header that may be given once.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(ApiError::value(name.as_str(), format!("the header '{name}' is given twice")));
    }
    let text = line.to_str();
    text.map(Some).map_err(|_| ApiError::value(name.as_str(), format!("the header '{name}' is not ASCII")))
}
