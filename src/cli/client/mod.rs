//! The HTTP client of the commands: requests with their timeouts, and errors with advice.

pub(super) mod address;
mod early_response;
mod response;
pub(super) mod retry;
mod unix_socket;

use crate::cli::error::CliError;
use crate::domain::secret::Secret;
use address::is_origin;
use early_response::EarlyResponseConnector;
pub(super) use response::{EventStreamError, RequestError, refusal};
use response::{describe, has_no_connection, is_disconnect, parse, read_text, reason, unexpected_response};
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use unix_socket::UnixConnector;
use ureq::config::Config;
use ureq::http::header::{AUTHORIZATION, HeaderValue};
use ureq::http::{Request, Response};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, DefaultConnector};
use ureq::{Agent, Body, SendBody};

/// Address of a server with the default configuration.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8787";

/// Stands in for the host in requests over a unix socket.
const LOCAL: &str = "http://127.0.0.1";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time until the response begins, beyond the time that the server was asked to wait.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time until a running server answers `/healthz`.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Time until `/readyz` answers; the checks of the server take up to 5 seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(7);

/// Statuses after which another try may succeed.
const RETRYABLE: &[u16] = &[408, 429, 502, 503, 504];

/// Time without data on a stream; event streams send a heartbeat every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The MCP server's path, and the header that names a session.
const MCP_PATH: &str = "/mcp";
const MCP_SESSION: &str = "mcp-session-id";

/// A reply of the MCP server.
pub(crate) struct McpReply {
    pub(crate) status: u16,
    /// The session that it begins.
    pub(crate) session: Option<String>,
    /// Whether the body is server-sent events, not JSON.
    pub(crate) is_stream: bool,
    pub(crate) body: Box<dyn Read>,
}

/// Why a message has no reply.
#[derive(Debug)]
pub(crate) struct McpSendError {
    /// There was no connection: the server has not got the message.
    pub(crate) is_unsent: bool,
    pub(crate) reason: String,
}

impl McpReply {
    fn of(response: Response<Body>) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let session = header(MCP_SESSION).map(str::to_owned);
        let is_stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let status = response.status().as_u16();
        Self { status, session, is_stream, body: Box::new(response.into_body().into_reader()) }
    }
}

/// Size, if the server sends it, and content.
pub(crate) type Download = (Option<u64>, Box<dyn Read>);

#[derive(Debug, Clone)]
pub(crate) struct ApiClient {
    /// The address as the user wrote it.
    base: String,
    /// Prefix of all request paths.
    origin: String,
    agent: Agent,
}

impl ApiClient {
    /// A client for the server at `base`, such as [`DEFAULT_SERVER`], that authenticates with `key`.
    pub(crate) fn new(base: &str, key: Option<&Secret>) -> Result<Self, CliError> {
        let base = base.trim_end_matches('/');
        let socket = base.strip_prefix("unix:").filter(|path| !path.is_empty());
        if socket.is_none() && !is_origin(base) {
            return Err(CliError::usage(format!("'{base}' is not a server URL"))
                .hint("give one like http://127.0.0.1:8787, or unix:/run/nanoclaw.sock"));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .middleware(bearer_auth(key)?)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // Until the response begins; the body may take longer. Requests with `?wait=` set a longer one.
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
            .build();
        let (origin, agent) = match socket {
            Some(path) => (LOCAL, agent(config, UnixConnector(path.into()))),
            None => (base, agent(config, DefaultConnector::new())),
        };
        Ok(Self { base: base.to_owned(), origin: origin.to_owned(), agent })
    }

    /// Fails if no server responds within a few seconds, whatever the status.
    pub(crate) fn check_reachable(&self) -> Result<(), CliError> {
        if self.is_responding()? { Ok(()) } else { Err(self.unreachable("no answer in time")) }
    }

    /// Whether a server responds; false if it accepts the connection and sends nothing. An error means that
    /// no program listens at the address.
    pub(crate) fn is_responding(&self) -> Result<bool, CliError> {
        let request = self.agent.get(self.url("/healthz")).config();
        let request = request.timeout_recv_response(Some(HEALTH_TIMEOUT)).build();
        match request.call() {
            Ok(_) => Ok(true),
            Err(ureq::Error::Timeout(ureq::Timeout::RecvResponse)) => Ok(false),
            // The server closed the connection: it is probably restarting.
            Err(ureq::Error::Io(error)) if is_disconnect(&error) => Ok(true),
            Err(error) => Err(self.unreachable(&describe(&error))),
        }
    }

    /// Reads `/readyz`, whose status is 200 or 503.
    pub(crate) fn readiness(&self) -> Result<Value, String> {
        let request = self.agent.get(self.url("/readyz")).config();
        let response = request.timeout_global(Some(READY_TIMEOUT)).build().call();
        let (status, text) = response.and_then(read_text).map_err(|error| describe(&error))?;
        serde_json::from_str(&text).map_err(|_| format!("it answers {status} without JSON"))
    }

    /// Reads a JSON resource; the server may delay the response by `wait`.
    pub(crate) fn get_waiting(&self, path: &str, wait: Duration) -> Result<Value, RequestError> {
        let timeout = wait.saturating_add(RESPONSE_TIMEOUT);
        let request = self.agent.get(self.url(path)).config().timeout_recv_response(Some(timeout));
        parse(request.build().call(), RETRYABLE)
    }

    /// Posts a JSON object with an idempotency key, so that the request can be repeated.
    pub(crate) fn submit(&self, path: &str, key: &str, body: &Value) -> Result<Value, RequestError> {
        let request = self.agent.post(self.url(path)).header("idempotency-key", key);
        // 429 is final here: the quota is used up.
        parse(request.content_type("application/json").send(body.to_string()), &[408, 502, 503, 504])
    }

    /// Streams a body of `bytes` bytes with an idempotency key.
    pub(crate) fn upload(
        &self,
        path: &str,
        key: &str,
        body: &mut dyn Read,
        bytes: u64,
    ) -> Result<Value, RequestError> {
        let request = self
            .agent
            .post(self.url(path))
            .header("idempotency-key", key)
            .header("content-length", bytes.to_string())
            .content_type("application/jsonl")
            .config()
            .timeout_per_write(Some(SILENCE_TIMEOUT))
            .build();
        parse(request.send(SendBody::from_reader(body)), RETRYABLE)
    }

    /// Opens a stream of JSON lines.
    pub(crate) fn lines(&self, path: &str) -> Result<Box<dyn Read>, RequestError> {
        let request = self.agent.get(self.url(path)).config().timeout_per_read(Some(SILENCE_TIMEOUT));
        match request.build().call() {
            Ok(response) if response.status().is_success() => {
                Ok(Box::new(response.into_body().into_reader()))
            }
            response => Err(parse(response, RETRYABLE)
                .err()
                .unwrap_or_else(|| RequestError::Unavailable("no results".to_owned()))),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, CliError> {
        self.read_json(self.agent.get(self.url(path)).call())
    }

    /// Posts a JSON object, or an empty body.
    pub(crate) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        let request = self.agent.post(self.url(path));
        self.read_json(match body {
            Some(body) => request.content_type("application/json").send(body.to_string()),
            None => request.send_empty(),
        })
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        let request = self.agent.patch(self.url(path)).content_type("application/json");
        self.read_json(request.send(body.to_string()))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Value, CliError> {
        self.read_json(self.agent.delete(self.url(path)).call())
    }

    /// Opens a job's event stream after a cursor, in delta format. `None` if there is nothing more (204).
    pub(crate) fn events(&self, job: &str, after: u64) -> Result<Option<Box<dyn Read>>, EventStreamError> {
        let url = self.url(&format!("/v1/jobs/{job}/events?format=delta"));
        let request = self
            .agent
            .get(url)
            .header("accept", "text/event-stream")
            .header("last-event-id", after.to_string())
            .config()
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .build();
        let response = request.call().map_err(|e| EventStreamError::Unreachable(describe(&e)))?;
        match response.status().as_u16() {
            200 => Ok(Some(Box::new(response.into_body().into_reader()))),
            204 => Ok(None),
            503 => Err(EventStreamError::Busy("the server is busy".to_owned())),
            code if RETRYABLE.contains(&code) => {
                Err(EventStreamError::Busy(format!("it answers {}", response.status())))
            }
            _ => Err(EventStreamError::Refused(
                self.read_json(Ok(response)).err().unwrap_or_else(|| unexpected_response("no event stream")),
            )),
        }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Opens a file of the server.
    pub(crate) fn download(&self, path: &str) -> Result<Download, CliError> {
        // The server may take long to prepare a large file.
        let request = self.agent.get(self.url(path)).config().timeout_recv_response(None).build();
        let response = request.call().map_err(|error| self.unreachable(&describe(&error)))?;
        if response.status().as_u16() != 200 {
            let error = self.read_json(Ok(response)).err();
            return Err(error.unwrap_or_else(|| unexpected_response("no file")));
        }
        let body = response.into_body();
        let bytes = body.content_length();
        Ok((bytes, Box::new(body.into_reader())))
    }

    /// Posts a message to the MCP server and opens the reply, which may begin late: a tool runs until then.
    pub(crate) fn mcp_message(&self, message: &str, session: Option<&str>) -> Result<McpReply, McpSendError> {
        let request = self.agent.post(self.url(MCP_PATH)).content_type("application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = match session {
            Some(session) => request.header(MCP_SESSION, session),
            None => request,
        };
        let response = request.config().timeout_recv_response(None).build().send(message);
        response
            .map(McpReply::of)
            .map_err(|error| McpSendError { is_unsent: has_no_connection(&error), reason: describe(&error) })
    }

    /// Ends a session of the MCP server. A server that is gone has none.
    pub(crate) fn end_mcp_session(&self, session: &str) {
        drop(self.agent.delete(self.url(MCP_PATH)).header(MCP_SESSION, session).call());
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// The error for a server that does not answer.
    pub(crate) fn unreachable(&self, reason: &str) -> CliError {
        CliError::failed(format!("cannot reach the server at {}: {reason}", self.base))
            .hint("start one with 'nanoclaw serve', or name another with --server")
    }

    fn read_json(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Value, CliError> {
        let response = response.map_err(|error| self.unreachable(&describe(&error)))?;
        let (status, text) = read_text(response).map_err(|error| {
            CliError::failed(format!("the response of {} broke off: {error}", self.base))
                .hint("try again; if it happens again, the server's log says why")
        })?;
        let value: Value = serde_json::from_str(&text).map_err(|_| {
            CliError::failed(format!(
                "{} answered {status} without JSON; is it a NanoClaw server?",
                self.base
            ))
            .hint("name the server itself with --server, as in http://127.0.0.1:8787")
        })?;
        if status.is_success() {
            return Ok(value);
        }
        let message = reason(&value).unwrap_or("no reason given");
        Err(refusal(status.as_u16(), format!("the server refused ({status}): {message}")))
    }
}

fn agent(config: Config, connector: impl Connector) -> Agent {
    Agent::with_parts(config, connector.chain(EarlyResponseConnector), DefaultResolver::default())
}

/// Adds the API key to every request as an `Authorization` header (P9: and nowhere else).
fn bearer_auth(key: Option<&Secret>) -> Result<impl Middleware, CliError> {
    // $NANOCLAW_TOKEN may be empty.
    let key = key.map(|key| key.reveal().trim()).filter(|key| !key.is_empty());
    let mut header =
        key.map(|key| HeaderValue::from_str(&format!("Bearer {key}"))).transpose().map_err(|_| {
            CliError::usage("the token is invalid: it has characters that a header cannot carry")
                .hint("it looks like nck_ and 43 letters, digits, '-' or '_'")
        })?;
    if let Some(header) = &mut header {
        header.set_sensitive(true);
    }
    Ok(move |mut request: Request<SendBody>, next: MiddlewareNext| {
        request.headers_mut().extend(header.clone().map(|header| (AUTHORIZATION, header)));
        next.handle(request)
    })
}
