//! One session with a server, from its handshake to its end. Owns the order of both; refuses to start it again.

use super::client::Client;
use super::options::McpServerOptions;
use super::redact::quote;
use super::server::Listed;
use super::stdio::{self, Held, Tail};
use super::wire::{HttpClient, WireError, transport_options};
use super::{schema, servers::McpPorts};
use rmcp::model::{ErrorCode, PaginatedRequestParams, Tool};
use rmcp::service::{
    ClientInitializeError, Peer, QuitReason, RoleClient, RunningService, RunningServiceCancellationToken,
    ServiceError, serve_client,
};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Longest message of a program, bytes; what is longer is dropped.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Pages of tools that are asked for.
const PAGES: usize = 100;
/// Tools of one server.
const TOOLS: usize = 512;
/// Longest description of a tool, characters.
const DESCRIPTION_CHARS: usize = 4_096;
/// Longest name of a tool, characters.
const NAME_CHARS: usize = 256;
/// How long a session may take to end.
const ENDING: Duration = Duration::from_secs(2);
/// How long a program whose pipes are closed may take to end of its own.
const DYING: Duration = Duration::from_millis(500);

type Over = Pin<Box<dyn Future<Output = Result<QuitReason, tokio::task::JoinError>> + Send>>;

/// A session that runs.
pub(super) struct Session {
    /// Whom to ask.
    pub(super) peer: Peer<RoleClient>,
    /// Rung when the server's tools have changed.
    pub(super) changed: Arc<Notify>,
    end: Option<RunningServiceCancellationToken>,
    over: Over,
    process: Option<Held>,
}

/// Why there is no session.
#[derive(Debug)]
pub(super) struct Failure {
    /// In words that may be told to a model.
    pub(super) why: String,
    /// The program's last words, for the operator.
    pub(super) stderr: String,
}

/// Opens a session and asks for the tools.
pub(super) async fn open(
    name: &str,
    options: &McpServerOptions,
    ports: &McpPorts,
) -> Result<(Session, Vec<Tool>), Failure> {
    let (tail, patience) = (Tail::default(), Duration::from_secs(options.start_timeout_s));
    let opened = timeout(patience, async {
        let session = begin(name, options, ports, tail.clone()).await?;
        let tools = list(&session.peer).await.map_err(|error| quote(&tell(&error), options))?;
        Ok((session, tools))
    });
    let late = || Err(format!("it did not tell its tools within {} s", options.start_timeout_s));
    let opened = opened.await.unwrap_or_else(|_| late());
    opened.map_err(|why| Failure { why, stderr: quote(&tail.text(), options) })
}

async fn begin(
    name: &str,
    options: &McpServerOptions,
    ports: &McpPorts,
    tail: Tail,
) -> Result<Session, String> {
    let changed = Arc::new(Notify::new());
    let client = Client { changed: Arc::clone(&changed) };
    let Some(url) = &options.url else {
        let (mut held, stdout, stdin) =
            stdio::start(name, options, Arc::clone(&ports.processes), tail).await?;
        let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MESSAGE_BYTES);
        return match serve_client(client, transport).await {
            Ok(service) => Ok(Session::of(service, changed, Some(held))),
            Err(error) => Err(match held.ended(DYING).await {
                Some(end) => format!("it ended before it had introduced itself: {end}"),
                None => quote(&refusal(&error), options),
            }),
        };
    };
    let transport =
        StreamableHttpClientTransport::with_client(HttpClient::new()?, transport_options(url, options)?);
    let service = serve_client(client, transport).await;
    service.map(|s| Session::of(s, changed, None)).map_err(|error| quote(&refusal(&error), options))
}

/// What a failed handshake comes to.
fn refusal(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("it refused the session: {}", error.message),
        ClientInitializeError::TransportError { error, .. } => of_the_way(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        other => format!("it does not speak MCP as it should: {other}"),
    }
}

/// What a failed way to the server comes to.
fn of_the_way(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<WireError>>() {
        Some(StreamableHttpError::Client(error)) => error.to_string(),
        _ => error.error.to_string(),
    }
}

/// What a failed request comes to.
pub(super) fn tell(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => format!("it answered with an error: {}", error.message),
        ServiceError::TransportSend(error) => of_the_way(error),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        ServiceError::UnexpectedResponse => "its answer is not what the protocol has for it".to_owned(),
        other => other.to_string(),
    }
}

/// All tools, page by page.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
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

/// The tools that can be used, and those that cannot with the reason.
pub(super) fn sort_out(tools: Vec<Tool>) -> (Vec<Listed>, Vec<(String, String)>) {
    let (mut listed, mut left_out): (Vec<Listed>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    for tool in tools {
        let raw = tool.name.into_owned();
        let is_known = listed.iter().any(|known| known.raw == raw);
        let schema = if raw.is_empty() || raw.chars().count() > NAME_CHARS {
            Err(format!("its name is empty or longer than {NAME_CHARS} characters"))
        } else if is_known {
            Err("another one has the same name".to_owned())
        } else {
            schema::fit(&tool.input_schema)
        };
        match schema {
            Ok(schema) => {
                let said = tool.description.map(Cow::into_owned).or(tool.title).unwrap_or_default();
                let description = said.chars().take(DESCRIPTION_CHARS).collect();
                listed.push(Listed { raw, description, schema });
            }
            Err(why) => left_out.push((raw.chars().take(NAME_CHARS).collect(), why)),
        }
    }
    (listed, left_out)
}

impl Session {
    fn of(service: RunningService<RoleClient, Client>, changed: Arc<Notify>, process: Option<Held>) -> Self {
        let (peer, end) = (service.peer().clone(), service.cancellation_token());
        Self { peer, changed, end: Some(end), over: Box::pin(service.waiting()), process }
    }

    /// Waits until the server, or the way to it, is gone, and says why. Gives up nothing when it is not waited for.
    pub(super) async fn lost(&mut self) -> String {
        drop((&mut self.over).await);
        // Whoever is over is not to be waited for again.
        self.over = Box::pin(std::future::pending());
        self.end = None;
        match &mut self.process {
            Some(process) => process.ended(DYING).await.unwrap_or_else(|| "it closed its output".to_owned()),
            None => "the connection was closed".to_owned(),
        }
    }

    /// Ends it: the server first reads the end of its input, then it is ended.
    pub(super) async fn close(mut self) {
        if let Some(end) = self.end.take() {
            end.cancel();
            drop(timeout(ENDING, &mut self.over).await);
        }
        if let Some(mut process) = self.process.take() {
            drop(process.ended(DYING).await);
            process.end().await;
        }
    }
}
