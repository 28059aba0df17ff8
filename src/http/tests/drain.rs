//! The end of the server, over real sockets.

use crate::domain::job::JobStatus;
use crate::http::testing::{MemoryStore, Server, app, request};
use crate::http::{AppDependencies, BoundAddress, HttpListener, ShutdownSender, ShutdownStage, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

async fn text(io: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = String::new();
    let reading = io.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(10), reading).await.expect("an end").expect("reads");
    text
}

/// A server behind a real socket: where it listens, what ends it, and its end.
fn listening(app: AppDependencies) -> (SocketAddr, ShutdownSender, JoinHandle<()>) {
    let listener = HttpListener::tcp("127.0.0.1:0".parse().expect("an address")).expect("binds");
    let BoundAddress::Tcp(address) = *listener.bound() else { panic!("TCP") };
    let (stages, shutdown) = ShutdownSender::new();
    (address, stages, tokio::spawn(serve(listener, Arc::new(app), shutdown)))
}

#[tokio::test]
async fn streams_continue_during_a_drain_and_end_with_retry_at_closing() {
    let store = Arc::new(MemoryStore::default());
    let (address, stages, serving) = listening(app(&store));

    let mut idle = TcpStream::connect(address).await.expect("connects");
    let mut streaming = TcpStream::connect(address).await.expect("connects");
    let body = r#"{"input":"x","on_disconnect":"cancel"}"#;
    streaming.write_all(&request("POST /v1/jobs?stream=true", &[], body)).await.expect("sends");
    let mut begin = [0; 1024];
    assert!(streaming.read(&mut begin).await.expect("reads") > 0);

    stages.advance(ShutdownStage::Draining);
    assert_eq!(text(&mut idle).await, "", "an idle connection is closed");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody new is let in");
    let id = store.newest_id();
    store.say(id, 0, "still here");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!serving.is_finished());

    stages.advance(ShutdownStage::Closing);
    let rest = text(&mut streaming).await;
    assert!(rest.contains("still here") && rest.contains("retry: 1"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "a clean end: {rest}");
    tokio::time::timeout(Duration::from_secs(5), serving).await.expect("returns").expect("runs");
    assert_eq!(store.status(id), JobStatus::Queued, "the server's end is not the client's");
}

#[tokio::test]
async fn p1_connections_accepted_before_the_drain_are_answered() {
    let store = Arc::new(MemoryStore::default());
    let (address, stages, serving) = listening(app(&store));
    let fresh = TcpStream::connect(address).await.expect("connects");
    let mut kept = TcpStream::connect(address).await.expect("connects");
    let ask = "GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
    kept.write_all(ask.as_bytes()).await.expect("sends");
    let mut first = [0; 1024];
    let count = kept.read(&mut first).await.expect("reads");
    let first = String::from_utf8_lossy(&first[..count]).to_ascii_lowercase();
    assert!(first.starts_with("http/1.1 200") && !first.contains("connection: close"), "{first}");

    stages.advance(ShutdownStage::Draining);
    stages.advance(ShutdownStage::Closing);
    for mut late in [fresh, kept] {
        late.write_all(ask.as_bytes()).await.expect("sends");
        let answer = text(&mut late).await.to_ascii_lowercase();
        assert!(
            answer.starts_with("http/1.1 200") && answer.contains("\r\nconnection: close\r\n"),
            "{answer}"
        );
    }
    tokio::time::timeout(Duration::from_secs(5), serving).await.expect("returns").expect("runs");
}

#[tokio::test]
async fn the_abort_stage_ends_remaining_connections() {
    let store = Arc::new(MemoryStore::default());
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s");
    let (stages, shutdown) = ShutdownSender::new();
    let listener = HttpListener::unix(&path).expect("binds");
    let serving = tokio::spawn(serve(listener, Arc::new(app(&store)), shutdown));
    let mut slow = UnixStream::connect(&path).await.expect("connects");
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: any.host\r\ncontent-length: 5\r\n\r\nhi";
    slow.write_all(head.as_bytes()).await.expect("sends");
    tokio::time::sleep(Duration::from_millis(50)).await;
    stages.advance(ShutdownStage::Closing);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!serving.is_finished(), "a request under way keeps its place");
    stages.advance(ShutdownStage::Aborting);
    tokio::time::timeout(Duration::from_secs(5), serving).await.expect("returns").expect("runs");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_waiting_request_is_answered_when_the_server_closes() {
    let server = Server::new();
    let (answer, ()) = tokio::join!(server.ask("POST /v1/jobs?wait=600", &[], "hi"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.advance(ShutdownStage::Draining);
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.advance(ShutdownStage::Closing);
    });
    assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("queued")));
}

#[tokio::test]
async fn an_early_error_response_is_not_lost_to_a_connection_reset() {
    let store = Arc::new(MemoryStore::default());
    let mut app = app(&store);
    app.limits.body_bytes = 1_000;
    let (address, _stages, _serving) = listening(app);
    let mut io = TcpStream::connect(address).await.expect("connects");
    let whole = request("POST /v1/jobs", &[], &"x".repeat(300_000));
    io.write_all(&whole).await.expect("a client that sends all before it listens");
    assert!(text(&mut io).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_free_one() {
    let store = Arc::new(MemoryStore::default());
    let mut app = app(&store);
    app.limits.connections = 1;
    let (address, _stages, _serving) = listening(app);
    let mut first = TcpStream::connect(address).await.expect("connects");
    first.write_all(&request("POST /v1/jobs?wait=600", &[], "hi")).await.expect("a request under way");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut second = TcpStream::connect(address).await.expect("waits in the backlog");
    second.write_all(&request("GET /healthz", &[], "")).await.expect("sends");
    let early = tokio::time::timeout(Duration::from_millis(300), second.read(&mut [0; 16])).await;
    assert!(early.is_err(), "the place is taken");
    drop(first);
    assert!(text(&mut second).await.starts_with("HTTP/1.1 200"), "and free again");
}

#[tokio::test]
async fn a_stream_ended_by_the_server_does_not_cancel_the_job() {
    let server = Server::new();
    let mut slow = server.connect();
    let body = r#"{"input":"x","on_disconnect":"cancel"}"#;
    slow.write_all(&request("POST /v1/jobs?stream=true&format=delta", &[], body)).await.expect("sends");
    slow.read_exact(&mut [0; 16]).await.expect("the stream begins");
    let id = server.store.newest_id();
    for _ in 0..50 {
        server.store.say(id, 0, &"more than the pipe takes ".repeat(1_000));
    }
    for stage in [ShutdownStage::Draining, ShutdownStage::Closing, ShutdownStage::Aborting] {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.advance(stage);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.store.status(id), JobStatus::Queued, "the server's end is not the client's");
    drop(slow);
}
