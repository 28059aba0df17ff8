//! Streamable HTTP for the SDK: hyper over a connection for each request. Owns connections, TLS and the bounds of answers;
//! refuses redirects, proxies and content codings. Addresses are the operator's, and may be private ones.

use super::options::McpServerOptions;
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
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Longest time until there is a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Largest answer that is one JSON text, and largest event of a stream, bytes.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Of an answer that is a refusal, what is read, bytes.
const REFUSAL_BYTES: usize = 4 * 1024;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const EVENTS_OR_JSON: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";

type Events = Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>;
type Outcome<T> = Result<T, StreamableHttpError<WireError>>;

/// Why a request got no answer that could be used. Names no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// No connection.
    #[error("the connection failed: {0}")]
    Connect(String),
    /// The connection broke.
    #[error("the request failed: {0}")]
    Http(#[from] hyper::Error),
    /// It cannot even be written.
    #[error("the request cannot be written: {0}")]
    Write(String),
    /// HTTP's way to say no.
    #[error("HTTP {status}{said}")]
    Status {
        /// HTTP's.
        status: u16,
        /// What came with it, or what to do.
        said: String,
    },
    /// The answer is too large, or breaks off.
    #[error("the answer cannot be read: {0}")]
    Read(String),
}

impl From<WireError> for StreamableHttpError<WireError> {
    fn from(error: WireError) -> Self {
        Self::Client(error)
    }
}

/// The client of a session.
#[derive(Clone)]
pub(super) struct HttpClient {
    tls: Arc<ClientConfig>,
}

/// What the SDK is told of a server.
pub(super) fn transport_options(
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
    Ok(StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(ANSWER_BYTES))
}

impl HttpClient {
    /// With the roots that providers are held against, too.
    pub(super) fn new() -> Result<Self, String> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be had: {error}"))?;
        Ok(Self { tls: Arc::new(config.with_root_certificates(roots).with_no_client_auth()) })
    }

    /// Sends a request over a connection of its own, which ends with the answer.
    async fn ask(&self, asked: Asked) -> Outcome<Response<Incoming>> {
        let uri: Uri = asked.uri.parse().map_err(|_| WireError::Write("its address is none".to_owned()))?;
        let request = asked.into_request(&uri)?;
        let late = |_| WireError::Connect(format!("not within {} s", CONNECT_TIME.as_secs()));
        let socket = timeout(CONNECT_TIME, self.connect(&uri)).await.map_err(late)??;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
        let (mut sender, connection) = shaken.map_err(WireError::Http)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to an MCP server broke");
            }
        });
        Ok(sender.send_request(request).await.map_err(WireError::Http)?)
    }

    async fn connect(&self, uri: &Uri) -> Result<Box<dyn Socket>, WireError> {
        let refused = |error: std::io::Error| WireError::Connect(error.to_string());
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let socket = TcpStream::connect((host.as_str(), port)).await.map_err(refused)?;
        socket.set_nodelay(true).map_err(refused)?;
        if !is_tls {
            return Ok(Box::new(socket));
        }
        let unchecked = |_| WireError::Connect("its name is none that TLS could check".to_owned());
        let name = ServerName::try_from(host).map_err(unchecked)?;
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        Ok(Box::new(tls.connect(name, socket).await.map_err(refused)?))
    }
}

/// A connection, with TLS or without.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A request before it is written.
struct Asked {
    method: Method,
    uri: Arc<str>,
    headers: HashMap<HeaderName, HeaderValue>,
    session: Option<Arc<str>>,
    last_event: Option<String>,
    body: Bytes,
}

impl Asked {
    fn into_request(self, uri: &Uri) -> Result<Request<Full<Bytes>>, WireError> {
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
        if let Some(last) = self.last_event {
            builder = builder.header("last-event-id", last);
        }
        builder.body(Full::new(self.body)).map_err(|error| WireError::Write(error.to_string()))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = WireError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<StreamableHttpPostResponse> {
        let (needs_answer, has_session) =
            (matches!(message, ClientJsonRpcMessage::Request(_)), session_id.is_some());
        let body = serde_json::to_vec(&message)?.into();
        let asked = Asked { method: Method::POST, uri, headers, session: session_id, last_event: None, body };
        let response = self.ask(asked).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return Err(refusal(response).await.into());
        }
        if !needs_answer || matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = text(&response, SESSION);
        match text(&response, CONTENT_TYPE.as_str()).unwrap_or_default() {
            kind if kind.starts_with(EVENTS) => {
                Ok(StreamableHttpPostResponse::Sse(events(response.into_body()), session))
            }
            kind if kind.starts_with(JSON) => {
                let message: ServerJsonRpcMessage =
                    serde_json::from_slice(&read(response, ANSWER_BYTES).await?)?;
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
    ) -> Outcome<()> {
        let (session, body) = (Some(session_id), Bytes::new());
        let asked = Asked { method: Method::DELETE, uri, headers, session, last_event: None, body };
        let response = self.ask(asked).await?;
        // Many servers keep their sessions to themselves.
        let is_fine = response.status().is_success() || response.status() == StatusCode::METHOD_NOT_ALLOWED;
        if is_fine { Ok(()) } else { Err(refusal(response).await.into()) }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<Events> {
        let (session, last_event) = (session_id, last_event_id);
        let asked = Asked { method: Method::GET, uri, headers, session, last_event, body: Bytes::new() };
        let response = self.ask(asked).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => Err(refusal(response).await.into()),
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

/// What a status that is no success comes to.
async fn refusal(response: Response<Incoming>) -> WireError {
    let status = response.status().as_u16();
    let said = match status {
        401 | 403 => "; put what it wants to see (an Authorization, say) into headers".to_owned(),
        300..=399 => "; redirects are not followed: put the address that it leads to into url".to_owned(),
        _ => match read(response, REFUSAL_BYTES).await {
            Ok(body) if !body.is_empty() => format!(": {}", String::from_utf8_lossy(&body)),
            _ => String::new(),
        },
    };
    WireError::Status { status, said }
}

async fn read(response: Response<Incoming>, most: usize) -> Result<Bytes, WireError> {
    let body = Limited::new(response.into_body(), most).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| WireError::Read(error.to_string()))
}

/// The events of an answer, none larger than the bound. Whoever drops them ends the connection.
fn events(body: Incoming) -> Events {
    let mut bound = Bound::default();
    let pieces = body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(WireError::Http)?;
        if bound.holds(&piece) { Ok(piece) } else { Err(WireError::Read("an event is too large".to_owned())) }
    });
    Box::pin(SseStream::from_bytes_stream(pieces))
}

/// Bytes of the event that is being read.
struct Bound {
    bytes: usize,
    is_line_empty: bool,
}

impl Default for Bound {
    fn default() -> Self {
        Self { bytes: 0, is_line_empty: true }
    }
}

impl Bound {
    fn holds(&mut self, piece: &[u8]) -> bool {
        piece.iter().all(|byte| {
            match byte {
                b'\n' if self.is_line_empty => self.bytes = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            self.bytes += 1;
            self.bytes <= ANSWER_BYTES
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_bound_and_a_stream_has_none() {
        let mut bound = Bound::default();
        let event = format!("data: {}\n\n", "x".repeat(ANSWER_BYTES / 2));
        assert!((0..5).all(|_| bound.holds(event.as_bytes())), "each of them fits");
        let half = "y".repeat(ANSWER_BYTES / 2);
        assert!(bound.holds(half.as_bytes()) && bound.holds(b"\n") && !bound.holds(half.as_bytes()));
    }
}
