//! `GET /v1/responses` as a WebSocket, as the Open Responses document of 2026-04-24 has it. Each message
//! `response.create` is what `POST /v1/responses` with `stream` is: a job, whose events are messages of the
//! server. Responses of a connection follow each other.

mod error_event;
mod message;
mod session;

use crate::http::auth::RouteAccess;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::HandlerResult;
use crate::http::response::upgrade::Upgrade;
use crate::http::server::shutdown::ShutdownStage;
use crate::http::v1::idempotency;
use crate::http::v1::openai::headers::JobHeaders;
use crate::http::web_socket::handshake::Handshake;
use crate::ports::StoreError;
use hyper::Method;
use hyper::body::Body;
use session::ResponseSession;
use std::sync::Arc;
use tracing::Instrument;

/// Opens the WebSocket. The `NanoClaw-` headers of the request apply to all its responses.
pub(crate) async fn connect(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let handshake = match Handshake::of(&request, !body.is_end_stream()) {
        Ok(handshake) => handshake,
        Err(error) => return Ok(error.into_response()),
    };
    // What follows writes.
    request.caller.may(&Method::POST, RouteAccess::User)?;
    idempotency::refuse(&request.headers, "a WebSocket has many requests")?;
    let headers = JobHeaders::of(&request.headers)?;
    if context.shutdown.stage() >= ShutdownStage::Draining {
        return Err(ApiError::Store(StoreError::Closed));
    }
    let session = ResponseSession::new(context, &request, headers);
    let span = tracing::Span::current();
    let signal = revocation::signal(context, request.caller);
    let speak = |socket, signal| session.run(socket, signal).instrument(span);
    Ok(handshake.answer(Upgrade::new(signal, speak)))
}
