//! Streamable HTTP for the SDK: hyper, with one connection for each request. There are no redirects, proxies
//! or content codings. The operator chooses the addresses, so they may be private.

use super::options::McpServerOptions;
use crate::net::client_tls;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest JSON response, and largest event of a stream.
const RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes read of an error response.
const ERROR_BYTES: usize = 4 * 1024;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const EVENTS_OR_JSON: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";

type EventStream = Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>;
type HttpResult<T> = Result<T, StreamableHttpError<McpHttpError>>;

/// Why a request failed. The texts contain no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum McpHttpError {
    #[error("the connection failed: {0}")]
    Connect(String),
    #[error("the request failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be written: {0}")]
    Write(String),
    #[error("HTTP {status}{detail}")]
    Status {
        status: u16,
        /// The body, or advice for the operator.
        detail: String,
    },
    /// The response is too large or incomplete.
    #[error("the answer cannot be read: {0}")]
    Read(String),
}

impl From<McpHttpError> for StreamableHttpError<McpHttpError> {
    fn from(error: McpHttpError) -> Self {
        Self::Client(error)
    }
}

#[derive(Clone)]
pub(super) struct HttpClient {
    tls: Arc<ClientConfig>,
}

pub(super) fn transport_config(
    url: &str,
    options: &McpServerOptions,
) -> Result<StreamableHttpClientTransportConfig, String> {
    let mut headers = HashMap::new();
    for (name, value) in &options.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is no header"))?;
        let mut value = HeaderValue::from_str(value.reveal())
            .map_err(|_| format!("the value of '{name}' is no header's"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers))
}

impl HttpClient {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self { tls: client_tls()? })
    }

    /// Sends a request over its own connection, which ends with the response.
    async fn send(&self, request: McpRequest) -> HttpResult<Response<Incoming>> {
        let uri: Uri =
            request.uri.parse().map_err(|_| McpHttpError::Write("its address is none".to_owned()))?;
        let request = request.into_http(&uri)?;
        let timed_out = |_| McpHttpError::Connect(format!("not within {} s", CONNECT_TIMEOUT.as_secs()));
        let socket = timeout(CONNECT_TIMEOUT, self.connect(&uri)).await.map_err(timed_out)??;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
        let (mut sender, connection) = handshake.map_err(McpHttpError::Http)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to an MCP server failed");
            }
        });
        Ok(sender.send_request(request).await.map_err(McpHttpError::Http)?)
    }

    async fn connect(&self, uri: &Uri) -> Result<Box<dyn McpSocket>, McpHttpError> {
        let failed = |error: std::io::Error| McpHttpError::Connect(error.to_string());
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let socket = TcpStream::connect((host.as_str(), port)).await.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        if !is_tls {
            return Ok(Box::new(socket));
        }
        let unchecked = |_| McpHttpError::Connect("its name is none that TLS could check".to_owned());
        let name = ServerName::try_from(host).map_err(unchecked)?;
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        Ok(Box::new(tls.connect(name, socket).await.map_err(failed)?))
    }
}

/// A connection, with TLS or without.
trait McpSocket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> McpSocket for S {}

/// A request of the SDK.
struct McpRequest {
    method: Method,
    uri: Arc<str>,
    headers: HashMap<HeaderName, HeaderValue>,
    session: Option<Arc<str>>,
    last_event: Option<String>,
    body: Bytes,
}

impl McpRequest {
    fn into_http(self, uri: &Uri) -> Result<Request<Full<Bytes>>, McpHttpError> {
        let host = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut builder = Request::builder()
            .method(&self.method)
            .uri(target)
            .header(HOST, host)
            .header(USER_AGENT, concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, if self.method == Method::GET { EVENTS } else { EVENTS_OR_JSON });
        if self.method == Method::POST {
            builder = builder.header(CONTENT_TYPE, JSON);
        }
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        if let Some(session) = self.session {
            builder = builder.header(SESSION, session.as_ref());
        }
        if let Some(event_id) = self.last_event {
            builder = builder.header("last-event-id", event_id);
        }
        builder.body(Full::new(self.body)).map_err(|error| McpHttpError::Write(error.to_string()))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = McpHttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let (needs_response, has_session) =
            (matches!(message, ClientJsonRpcMessage::Request(_)), session_id.is_some());
        let body = serde_json::to_vec(&message)?.into();
        let request =
            McpRequest { method: Method::POST, uri, headers, session: session_id, last_event: None, body };
        let response = self.send(request).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return Err(status_error(response).await.into());
        }
        if !needs_response || matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = text(&response, SESSION);
        match text(&response, CONTENT_TYPE.as_str()).unwrap_or_default() {
            kind if kind.starts_with(EVENTS) => {
                Ok(StreamableHttpPostResponse::Sse(events(response.into_body()), session))
            }
            kind if kind.starts_with(JSON) => {
                let message: ServerJsonRpcMessage =
                    serde_json::from_slice(&read(response, RESPONSE_BYTES).await?)?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            kind => Err(StreamableHttpError::UnexpectedContentType(Some(kind.chars().take(100).collect()))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<()> {
        let (session, body) = (Some(session_id), Bytes::new());
        let request = McpRequest { method: Method::DELETE, uri, headers, session, last_event: None, body };
        let response = self.send(request).await?;
        // Many servers do not let clients end sessions.
        let is_ok = response.status().is_success() || response.status() == StatusCode::METHOD_NOT_ALLOWED;
        if is_ok { Ok(()) } else { Err(status_error(response).await.into()) }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<EventStream> {
        let (session, last_event) = (session_id, last_event_id);
        let request =
            McpRequest { method: Method::GET, uri, headers, session, last_event, body: Bytes::new() };
        let response = self.send(request).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => Err(status_error(response).await.into()),
            _ if text(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(EVENTS)) => {
                Ok(events(response.into_body()))
            }
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

fn text(response: &Response<Incoming>, header: &str) -> Option<String> {
    response.headers().get(header)?.to_str().ok().map(str::to_owned)
}

/// The error for a status that is not a success.
async fn status_error(response: Response<Incoming>) -> McpHttpError {
    let status = response.status().as_u16();
    let detail = match status {
        401 | 403 => "; put what it wants to see (an Authorization, say) into headers".to_owned(),
        300..=399 => "; redirects are not followed: put the address that it leads to into url".to_owned(),
        _ => match read(response, ERROR_BYTES).await {
            Ok(body) if !body.is_empty() => format!(": {}", String::from_utf8_lossy(&body)),
            _ => String::new(),
        },
    };
    McpHttpError::Status { status, detail }
}

async fn read(response: Response<Incoming>, max_bytes: usize) -> Result<Bytes, McpHttpError> {
    let body = Limited::new(response.into_body(), max_bytes).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| McpHttpError::Read(error.to_string()))
}

/// The events of a response, each within the size limit. Dropping the stream ends the connection.
fn events(body: Incoming) -> EventStream {
    let mut limit = EventSizeLimit::default();
    let chunks = body.into_data_stream().map(move |chunk| {
        let chunk = chunk.map_err(McpHttpError::Http)?;
        if limit.allows(&chunk) {
            Ok(chunk)
        } else {
            Err(McpHttpError::Read("an event is too large".to_owned()))
        }
    });
    Box::pin(SseStream::from_bytes_stream(chunks))
}

/// Counts the bytes of the current event.
struct EventSizeLimit {
    bytes: usize,
    is_line_empty: bool,
}

impl Default for EventSizeLimit {
    fn default() -> Self {
        Self { bytes: 0, is_line_empty: true }
    }
}

impl EventSizeLimit {
    fn allows(&mut self, chunk: &[u8]) -> bool {
        chunk.iter().all(|byte| {
            match byte {
                b'\n' if self.is_line_empty => self.bytes = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            self.bytes += 1;
            self.bytes <= RESPONSE_BYTES
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_limited_and_streams_are_not() {
        let mut limit = EventSizeLimit::default();
        let event = format!("data: {}\n\n", "x".repeat(RESPONSE_BYTES / 2));
        assert!((0..5).all(|_| limit.allows(event.as_bytes())), "each of them fits");
        let half = "y".repeat(RESPONSE_BYTES / 2);
        assert!(limit.allows(half.as_bytes()) && limit.allows(b"\n") && !limit.allows(half.as_bytes()));
    }
}
