//! One session with a server, from handshake to end.

use super::http_client::{HttpClient, McpHttpError, transport_config};
use super::launch::Launch;
use super::options::{McpServerOptions, McpTransport};
use super::schema;
use super::server::{ListedTool, McpPorts};
use super::sse_transport::SseTransport;
use super::stdio::{self, ServerProcess, StderrTail};
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, PaginatedRequestParams, ProtocolVersion,
    Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, QuitReason, RoleClient, RunningService,
    RunningServiceCancellationToken, ServiceError, serve_client,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio::time::timeout;

/// Longest message of a program; longer ones are dropped.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of pages of a tool list.
const PAGES: usize = 100;
/// Maximum number of tools in a list.
const TOOLS: usize = 512;
const DESCRIPTION_CHARS: usize = 4_096;
const NAME_CHARS: usize = 256;
/// Time for a session to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a program to end by itself after its pipes are closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Our side of a session. The SDK refuses everything else that a server may request: sampling is an unknown
/// method, elicitation is declined, there are no roots.
#[derive(Clone)]
struct Client {
    tools_changed: Arc<Notify>,
}

impl ClientHandler for Client {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(ClientCapabilities::default(), client);
        // Later versions have no handshake, and servers do not support them yet.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }
}

/// A running session.
pub(super) struct Session {
    pub(super) peer: Peer<RoleClient>,
    /// Notified when the server's tools have changed.
    pub(super) tools_changed: Arc<Notify>,
    cancel: Option<RunningServiceCancellationToken>,
    end: Pin<Box<dyn Future<Output = Result<QuitReason, JoinError>> + Send>>,
    process: Option<ServerProcess>,
}

/// Why there is no session.
#[derive(Debug)]
pub(super) struct SessionError {
    /// Without secrets; models may read it.
    pub(super) reason: String,
    /// The end of the program's standard error, for the operator.
    pub(super) stderr: String,
}

/// Opens a session and lists the tools.
pub(super) async fn open(
    name: &str,
    options: &McpServerOptions,
    ports: &McpPorts,
) -> Result<(Session, Vec<Tool>), SessionError> {
    let tail = StderrTail::default();
    let opened = timeout(Duration::from_secs(options.start_timeout_s), async {
        let session = connect(name, options, ports, tail.clone()).await?;
        let tools = list_tools(&session.peer).await;
        Ok((session, tools.map_err(|error| options.quote(&describe_error(&error)))?))
    });
    let late = || Err(format!("it did not tell its tools within {} s", options.start_timeout_s));
    let opened = opened.await.unwrap_or_else(|_| late());
    opened.map_err(|reason| SessionError { reason, stderr: options.quote(&tail.text()) })
}

async fn connect(
    name: &str,
    options: &McpServerOptions,
    ports: &McpPorts,
    tail: StderrTail,
) -> Result<Session, String> {
    let tools_changed = Arc::new(Notify::new());
    let client = Client { tools_changed: Arc::clone(&tools_changed) };
    let refused = |error: ClientInitializeError| options.quote(&describe_refusal(&error));
    if let Some(url) = &options.url {
        let service = connect_http(url, options, &client).await?;
        return Ok(Session::new(service, tools_changed, None));
    }
    let spec = Launch::new(name, options, &ports.host).spec;
    let (mut process, stdout, stdin) =
        stdio::start(name, options, (spec, Arc::clone(&ports.processes)), tail).await?;
    let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MESSAGE_BYTES);
    match serve_client(client, transport).await {
        Ok(service) => Ok(Session::new(service, tools_changed, Some(process))),
        Err(error) => Err(match process.wait(EXIT_TIMEOUT).await {
            Some(end) => format!("it ended before it had introduced itself: {end}"),
            None => refused(error),
        }),
    }
}

/// Connects to an address with the configured transport, or with the other one if the server does not know
/// it.
async fn connect_http(
    url: &str,
    options: &McpServerOptions,
    client: &Client,
) -> Result<RunningService<RoleClient, Client>, String> {
    let is_sse_first = options.transport == Some(McpTransport::Sse);
    let mut first_failure = None;
    for is_sse in [is_sse_first, !is_sse_first] {
        let connected = if is_sse {
            connect_sse(url, options, client.clone()).await
        } else {
            connect_streamable(url, options, client.clone()).await
        };
        match connected {
            Ok(service) => return Ok(service),
            Err(failure) if failure.is_other_transport && first_failure.is_none() => {
                first_failure = Some(failure.reason);
            }
            // The first transport is the likely one, so its failure is reported.
            Err(failure) => return Err(options.quote(&first_failure.unwrap_or(failure.reason))),
        }
    }
    Err(options.quote(&first_failure.unwrap_or_default()))
}

/// Why an address cannot be used with one transport.
struct TransportFailure {
    reason: String,
    /// Whether the server may know the other transport.
    is_other_transport: bool,
}

impl From<String> for TransportFailure {
    fn from(reason: String) -> Self {
        Self { reason, is_other_transport: false }
    }
}

async fn connect_streamable(
    url: &str,
    options: &McpServerOptions,
    client: Client,
) -> Result<RunningService<RoleClient, Client>, TransportFailure> {
    let config = transport_config(url, options)?;
    let transport = StreamableHttpClientTransport::with_client(HttpClient::new()?, config);
    serve_client(client, transport).await.map_err(|error| {
        let is_other_transport = match &error {
            ClientInitializeError::TransportError { error, .. } => error
                .error
                .downcast_ref::<StreamableHttpError<McpHttpError>>()
                .is_some_and(is_unknown_transport),
            _ => false,
        };
        TransportFailure { reason: describe_refusal(&error), is_other_transport }
    })
}

async fn connect_sse(
    url: &str,
    options: &McpServerOptions,
    client: Client,
) -> Result<RunningService<RoleClient, Client>, TransportFailure> {
    let headers = transport_config(url, options)?.custom_headers;
    let transport = SseTransport::open(HttpClient::new()?, url, headers).await.map_err(|error| {
        let is_other_transport = is_unknown_transport(&error);
        TransportFailure { reason: describe_http_error(&error), is_other_transport }
    })?;
    serve_client(client, transport).await.map_err(|error| describe_refusal(&error).into())
}

/// Whether a server that speaks only the other transport answers so.
fn is_unknown_transport(error: &StreamableHttpError<McpHttpError>) -> bool {
    match error {
        StreamableHttpError::ServerDoesNotSupportSse | StreamableHttpError::SessionExpired => true,
        StreamableHttpError::Client(McpHttpError::Status { status, .. }) => {
            matches!(status, 400 | 404 | 405 | 406 | 415)
        }
        _ => false,
    }
}

/// Describes a failed handshake.
fn describe_refusal(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("it refused the session: {}", error.message),
        ClientInitializeError::TransportError { error, .. } => describe_transport_error(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        other => format!("it does not speak MCP as it should: {other}"),
    }
}

fn describe_transport_error(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<McpHttpError>>() {
        Some(error) => describe_http_error(error),
        None => error.error.to_string(),
    }
}

fn describe_http_error(error: &StreamableHttpError<McpHttpError>) -> String {
    match error {
        StreamableHttpError::Client(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// Describes a failed request.
pub(super) fn describe_error(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => format!("it answered with an error: {}", error.message),
        ServiceError::TransportSend(error) => describe_transport_error(error),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        ServiceError::UnexpectedResponse => "its answer is not what the protocol has for it".to_owned(),
        other => other.to_string(),
    }
}

/// Lists the tools, page by page. A server without the method has none.
pub(super) async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = match peer.list_tools(Some(params)).await {
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
            page => page?,
        };
        tools.extend(page.tools);
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() || tools.len() >= TOOLS {
            break;
        }
    }
    tools.truncate(TOOLS);
    Ok(tools)
}

/// The usable tools, and the names of the others with the reason.
pub(super) fn usable_tools(tools: Vec<Tool>) -> (Vec<ListedTool>, Vec<(String, String)>) {
    let (mut usable, mut unusable): (Vec<ListedTool>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    for tool in tools {
        let raw_name = tool.name.into_owned();
        let schema = if raw_name.is_empty() || raw_name.chars().count() > NAME_CHARS {
            Err(format!("its name is empty or longer than {NAME_CHARS} characters"))
        } else if usable.iter().any(|earlier| earlier.raw_name == raw_name) {
            Err("another one has the same name".to_owned())
        } else {
            schema::normalise(&tool.input_schema)
        };
        match schema {
            Ok(schema) => {
                let is_read_only =
                    tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint == Some(true));
                let text = tool.description.map(Cow::into_owned).or(tool.title).unwrap_or_default();
                let description = text.chars().take(DESCRIPTION_CHARS).collect();
                usable.push(ListedTool {
                    raw_name,
                    description,
                    schema,
                    is_read_only,
                    reads_resources: false,
                });
            }
            Err(reason) => unusable.push((raw_name.chars().take(NAME_CHARS).collect(), reason)),
        }
    }
    (usable, unusable)
}

impl Session {
    fn new(
        service: RunningService<RoleClient, Client>,
        tools_changed: Arc<Notify>,
        process: Option<ServerProcess>,
    ) -> Self {
        let (peer, cancel) = (service.peer().clone(), Some(service.cancellation_token()));
        Self { peer, tools_changed, cancel, end: Box::pin(service.waiting()), process }
    }

    /// Waits until the server or the connection ends, and returns the reason. Cancel safe.
    pub(super) async fn closed(&mut self) -> String {
        drop((&mut self.end).await);
        // A finished future must not be polled again.
        self.end = Box::pin(std::future::pending());
        self.cancel = None;
        match &mut self.process {
            Some(process) => {
                process.wait(EXIT_TIMEOUT).await.unwrap_or_else(|| "it closed its output".to_owned())
            }
            None => "the connection was closed".to_owned(),
        }
    }

    /// Ends the session of a server that does not respond.
    pub(super) async fn kill(mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Ends the session. A program first reads the end of its input, and is killed if it does not exit.
    pub(super) async fn close(mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
            drop(timeout(CLOSE_TIMEOUT, &mut self.end).await);
        }
        if let Some(mut process) = self.process.take() {
            drop(process.wait(EXIT_TIMEOUT).await);
            process.kill().await;
        }
    }
}
