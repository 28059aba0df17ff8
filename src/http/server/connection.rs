//! HTTP/1 on one connection: buffers, header limits, keep-alive, and a close that lets the client read the
//! last response.

use super::client_body::ClientBody;
use super::client_socket::{ActiveRequest, ClientSocket, SocketState};
use super::handover::{HandedStream, OfferedBody, StreamFraming, StreamHandover};
use super::shutdown::{Shutdown, ShutdownStage};
use super::stream_sender::send_rest;
use crate::http::context::ServerContext;
use crate::http::middleware::access_log::MeteredBody;
use crate::http::middleware::measurement::OTHER;
use crate::http::request::peer::Peer;
use crate::http::request::tokens::has_token;
use crate::http::router;
use crate::ports::Measurement;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// hyper's smallest buffer, bytes.
const LEAST_BUFFER: usize = 8 * 1024;
/// Up to this many header lines hyper needs no allocation.
const FREE_HEADERS: usize = 100;
/// After an early error, input is read until the client pauses for this long. Closing earlier would reset
/// the connection, and clients that send everything first would lose the response.
const LINGER: Duration = Duration::from_secs(1);
/// The same in total; the bound in bytes is the largest body.
const LINGER_TOTAL: Duration = Duration::from_secs(30);

/// A refused connection is closed after this time.
const REFUSAL_TIME: Duration = Duration::from_secs(2);

/// An idle connection stays open this long after the drain begins, so that a request already on its way is
/// answered (with `Connection: close`).
const IDLE_CLOSE_DELAY: Duration = Duration::from_secs(1);

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<OfferedBody>, Infallible>> + Send>>;

/// How hyper's part on a connection ended.
enum HttpEnd<IO> {
    /// The response is a stream that waits.
    Stream(ClientSocket<IO>, HandedStream),
    /// The client and the server now speak another protocol; this body has it.
    Upgrade(ClientSocket<IO>, MeteredBody),
    /// The last response was sent, or the input cannot be read further.
    Last(ClientSocket<IO>),
    /// The connection broke off, or the shutdown demands the end.
    Broken,
}

/// Speaks HTTP with the peer on `io` until the client leaves, a limit is passed, or the shutdown demands
/// the end.
pub(crate) async fn run<IO>(io: IO, peer: Peer, state: SocketState, context: Arc<ServerContext>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stall_limit = Duration::from_secs(context.app.limits.write_stall_s);
    let mut io = ClientSocket::new(io, stall_limit, state.clone());
    let mut shutdown = context.shutdown.clone();
    loop {
        // Boxed: the buffers and the state of hyper are freed while a stream waits.
        let speaking = Box::pin(speak(io, peer, state.clone(), Arc::clone(&context)));
        match speaking.await {
            HttpEnd::Stream(socket, stream) => {
                io = socket;
                match send_rest(&mut io, stream, &mut shutdown).await {
                    Ok(true) if state.is_body_read() && shutdown.stage() < ShutdownStage::Draining => {}
                    Ok(_) => break,
                    Err(error) => return tracing::debug!(%error, "connection broke off"),
                }
            }
            HttpEnd::Upgrade(socket, body) => return upgraded(socket, body, &context).await,
            HttpEnd::Last(socket) => {
                io = socket;
                break;
            }
            HttpEnd::Broken => return,
        }
    }
    linger(io, most_bytes(&context)).await;
}

/// Answers requests, until the end of the connection or until a response is a stream that waits.
async fn speak<IO>(
    io: ClientSocket<IO>,
    peer: Peer,
    state: SocketState,
    context: Arc<ServerContext>,
) -> HttpEnd<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut shutdown = context.shutdown.clone();
    let idle_close = idle_close(shutdown.clone());
    let (http, meter) = (http_builder(&context), Arc::clone(&context.app.meter));
    let handover = StreamHandover::default();
    let service = service_fn(|mut request: hyper::Request<Incoming>| -> ResponseFuture {
        let Some(active) = state.begin_request(!request.body().is_end_stream()) else {
            return Box::pin(std::future::pending());
        };
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(state.clone());
        let request = request.map(|body| ClientBody::new(body, state.clone()));
        Box::pin(answer(request, active, Arc::clone(&context), handover.clone()))
    });
    let mut speaking = http.serve_connection(TokioIo::new(io), service);
    let handed = |polled: Poll<hyper::Result<()>>| match polled {
        Poll::Ready(ended) => Poll::Ready(ended.map(|()| None)),
        Poll::Pending if state.is_flushed() => {
            handover.take().map_or(Poll::Pending, |s| Poll::Ready(Ok(Some(s))))
        }
        Poll::Pending => Poll::Pending,
    };
    let ended = tokio::select! {
        ended = poll_fn(|cx| handed(speaking.poll_without_shutdown(cx))) => ended,
        () = idle_close => {
            Pin::new(&mut speaking).graceful_shutdown();
            tokio::select! {
                ended = poll_fn(|cx| handed(speaking.poll_without_shutdown(cx))) => ended,
                () = shutdown.reached(ShutdownStage::Aborting) => return HttpEnd::Broken,
            }
        }
    };
    let parts = speaking.into_parts();
    let mut io = parts.io.into_inner();
    match ended {
        Ok(None) => match handover.take_upgrade() {
            Some(body) => {
                io.put_back(&parts.read_buf);
                HttpEnd::Upgrade(io, body)
            }
            None => HttpEnd::Last(io),
        },
        Ok(Some(stream)) => {
            io.put_back(&parts.read_buf);
            HttpEnd::Stream(io, stream)
        }
        Err(error) => {
            if error.is_parse() {
                // hyper has answered with the status alone.
                let status = if error.is_parse_too_large() { 431 } else { 400 };
                meter.record(Measurement::Answered { method: OTHER, route: None, status, took_us: 0 });
            }
            if !error.is_parse() && !error.is_timeout() {
                tracing::debug!(%error, "connection broke off");
                return HttpEnd::Broken;
            }
            tracing::debug!(%error, "bad request");
            HttpEnd::Last(io)
        }
    }
}

async fn answer(
    request: hyper::Request<ClientBody>,
    active: ActiveRequest,
    context: Arc<ServerContext>,
    handover: StreamHandover,
) -> Result<Response<OfferedBody>, Infallible> {
    let (version, client_closes) = (request.version(), closes(request.headers()));
    // A client that waits for leave to send the body is not asked for it after the answer.
    let body = (!request.headers().contains_key(EXPECT)).then(|| request.body().clone());
    let mut response = router::answer(&context, request).await;
    let state = &active.0;
    let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if !state.is_body_read()
        && let Some(body) = body
        && body.read_rest().await
    {
        state.body_read();
    }
    let is_last = !state.is_body_read() || context.shutdown.stage() >= ShutdownStage::Draining;
    if is_last && !is_upgrade {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let framing = StreamFraming::of(version, client_closes || closes(response.headers()));
    response.body_mut().keep_active(active);
    Ok(response.map(|body| OfferedBody::new(body, framing, handover)))
}

fn closes(headers: &HeaderMap) -> bool {
    has_token(headers, &CONNECTION, "close")
}

/// Speaks the protocol that a 101 has announced. The request is logged at its end.
async fn upgraded<IO>(socket: ClientSocket<IO>, mut body: MeteredBody, context: &ServerContext)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(upgrade) = body.take_upgrade() else { return };
    let mut shutdown = context.shutdown.clone();
    let rest = tokio::select! {
        rest = upgrade.run(Box::new(socket)) => rest,
        () = shutdown.reached(ShutdownStage::Aborting) => None,
    };
    if let Some(io) = rest {
        linger(io, most_bytes(context)).await;
    }
}

/// Answers a client whose address has its share of the connections, and closes.
pub(crate) async fn refuse<IO>(mut io: IO, connections: usize)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let message = format!(
        "the connections from your address fill its share of limits.connections = {connections}; close some of them, \
         and try again"
    );
    let body = json!({
        "error": {"message": message, "type": "rate_limit_error", "param": null, "code": "rate_limited"}
    })
    .to_string();
    let response = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: 1\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    let sent = async {
        if io.write_all(response.as_bytes()).await.is_ok() {
            linger(io, LEAST_BUFFER as u64).await;
        }
    };
    drop(tokio::time::timeout(REFUSAL_TIME, sent).await);
}

/// Returns when idle connections shall close.
async fn idle_close(mut shutdown: Shutdown) {
    shutdown.reached(ShutdownStage::Draining).await;
    drop(tokio::time::timeout(IDLE_CLOSE_DELAY, shutdown.reached(ShutdownStage::Aborting)).await);
}

fn most_bytes(context: &ServerContext) -> u64 {
    context.app.limits.batch_bytes.max(context.app.limits.body_bytes as u64)
}

fn http_builder(context: &ServerContext) -> http1::Builder {
    let limits = &context.app.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .half_close(true)
        .header_read_timeout(Duration::from_secs(limits.header_timeout_s))
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(LEAST_BUFFER));
    // The router checks smaller bounds.
    if limits.headers > FREE_HEADERS {
        http.max_headers(limits.headers);
    }
    http
}

/// Closes the sending side and reads what the client still sends: closing on unread data would reset the
/// connection and lose the response.
async fn linger<IO: AsyncRead + AsyncWrite + Unpin>(mut io: IO, most_bytes: u64) {
    if io.shutdown().await.is_err() {
        return;
    }
    let rest = async {
        let mut sink = vec![0_u8; LEAST_BUFFER];
        let mut seen = 0_u64;
        while let Ok(Ok(n @ 1..)) = tokio::time::timeout(LINGER, io.read(&mut sink)).await {
            seen = seen.saturating_add(n as u64);
            if seen > most_bytes {
                break;
            }
        }
    };
    drop(tokio::time::timeout(LINGER_TOTAL, rest).await);
}
