//! A server without a socket, and the client at the other end of its pipe.

use super::{MemoryStore, app};
use crate::domain::id::JobId;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::middleware::host_origin::HostOriginGuard;
use crate::http::request::peer::Peer;
use crate::http::server::client_socket::SocketState;
use crate::http::server::connection;
use crate::http::server::listener::BoundAddress;
use crate::http::server::shutdown::{ShutdownSender, ShutdownStage};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A running server without a socket.
pub(crate) struct Server {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) stages: ShutdownSender,
    context: Arc<ServerContext>,
    /// A header line that goes with each `ask`.
    pub(crate) credential: Option<String>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server whose room was changed before it started.
    pub(crate) fn with(change: impl FnOnce(&mut AppDependencies)) -> Self {
        let store = Arc::new(MemoryStore::default());
        let mut app = app(&store);
        change(&mut app);
        let (stages, shutdown) = ShutdownSender::new();
        let bound = BoundAddress::Tcp("127.0.0.1:8787".parse().expect("an address"));
        let guard = HostOriginGuard::new(&bound, &app.allowed_hosts, &app.allowed_origins);
        let context = Arc::new(ServerContext::new(Arc::new(app), guard, shutdown));
        Self { store, stages, context, credential: None }
    }

    pub(crate) fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(connection::run(far, Peer(None), SocketState::default(), Arc::clone(&self.context)));
        near
    }

    /// Sends the bytes and reads all that comes back until the server closes.
    pub(crate) async fn raw(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut io = self.connect();
        io.write_all(request.as_ref()).await.expect("sends");
        read_all(io).await
    }

    /// `METHOD target`, with more header lines and a body, on a connection of its own.
    pub(crate) async fn ask(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let headers: Vec<&str> = headers.iter().copied().chain(self.credential.as_deref()).collect();
        self.raw(request(line, &headers, body)).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.ask(&format!("GET {target}"), &[], "").await
    }

    /// Submits a job.
    pub(crate) async fn submit(&self, body: &str) -> Answer {
        self.ask("POST /v1/jobs", &["content-type: application/json"], body).await
    }

    /// A stored job.
    pub(crate) async fn job(&self) -> JobId {
        let answer = self.submit(r#"{"input":"hello"}"#).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        self.store.newest_id()
    }

    pub(crate) fn advance(&self, stage: ShutdownStage) {
        self.stages.advance(stage);
    }
}

/// A request's bytes.
pub(crate) fn request(line: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        text = format!("{text}content-length: {}\r\n", body.len());
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Reads until the peer closes, and takes a chunked body apart.
pub(crate) async fn read_all(mut io: DuplexStream) -> Answer {
    let mut bytes = Vec::new();
    let reading = io.read_to_end(&mut bytes);
    tokio::time::timeout(Duration::from_secs(20), reading).await.expect("an end").expect("reads");
    parse(&String::from_utf8(bytes).expect("UTF-8"))
}

pub(crate) fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunk(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

fn dechunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        body.push_str(&after[..size.min(after.len())]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    body
}
