//! The WebSocket of responses: limits of time and size, and clients that do not read.

use crate::http::ShutdownStage;
use crate::http::testing::Server;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

type Client = WebSocketStream<DuplexStream>;

const ADDRESS: &str = "ws://localhost:8787/v1/responses";
const MINUTE: u64 = 60;

async fn open(server: &Server) -> Client {
    client_async(ADDRESS, server.connect()).await.expect("a WebSocket").0
}

async fn ask(client: &mut Client, fields: &Value) {
    let mut message = json!({"type": "response.create", "model": "demo", "input": "x"});
    message.as_object_mut().expect("an object").extend(fields.as_object().cloned().unwrap_or_default());
    client.send(Message::text(message.to_string())).await.expect("sends");
}

/// All that follows: events, then the code of the close frame.
async fn rest(client: &mut Client) -> (Vec<Value>, Option<u16>) {
    let (mut events, mut code) = (Vec::new(), None);
    while let Some(Ok(message)) = client.next().await {
        match message {
            Message::Text(text) => events.push(serde_json::from_str(&text).expect("JSON")),
            Message::Close(frame) => code = frame.map(|frame| frame.code.into()),
            _ => {}
        }
    }
    (events, code)
}

async fn event(client: &mut Client) -> Value {
    loop {
        match client.next().await {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("JSON"),
            Some(Ok(Message::Ping(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p8_a_connection_ends_after_sixty_minutes() {
    let server = Server::new();
    let began = tokio::time::Instant::now();
    let (events, code) = rest(&mut open(&server).await).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["type"], &events[0]["status"]), (&json!("error"), &json!(400)));
    assert_eq!(events[0]["error"]["code"], "websocket_connection_limit_reached");
    assert_eq!((code, began.elapsed().as_secs() / MINUTE), (Some(1001), 60));
}

#[tokio::test(start_paused = true)]
async fn p8_a_client_that_answers_no_ping_is_gone_after_fifteen_minutes() {
    let server = Server::new();
    let mut io = open(&server).await.into_inner();
    let began = tokio::time::Instant::now();
    let mut seen = Vec::new();
    io.read_to_end(&mut seen).await.expect("an end");
    assert_eq!(began.elapsed().as_secs() / MINUTE, 15);
    assert_eq!((&seen[..2], &seen[2..4]), (&[0x89, 0][..], &[0x89, 0][..]), "pings");
}

#[tokio::test(start_paused = true)]
async fn p8_a_message_has_to_arrive_within_the_time_of_a_body() {
    let server = Server::new();
    let mut io = open(&server).await.into_inner();
    // The head of a masked text frame of 100 bytes, and a first byte.
    io.write_all(&[0x81, 0xe4, 0, 0, 0, 0, b'{']).await.expect("sends");
    let (began, mut seen) = (tokio::time::Instant::now(), Vec::new());
    io.read_to_end(&mut seen).await.expect("an end");
    assert!(String::from_utf8_lossy(&seen).contains("body_timeout"), "{seen:?}");
    assert!(began.elapsed().as_secs() < 5 * MINUTE);
}

#[tokio::test]
async fn p8_messages_count_against_the_memory_of_bodies() {
    let server = Server::with(|app| app.limits.bodies_bytes = 100_000);
    let mut client = open(&server).await;
    let large = json!({"input": "x".repeat(300_000)});
    let sending = ask(&mut client, &large);
    drop(tokio::time::timeout(Duration::from_secs(2), sending).await);
    let (events, code) = rest(&mut client).await;
    assert_eq!((&events[0]["status"], &events[0]["error"]["code"]), (&json!(503), &json!("busy")));
    assert_eq!(code, Some(1013));
    // What was held is free again.
    let mut client = open(&server).await;
    ask(&mut client, &json!({"input": "x".repeat(90_000)})).await;
    assert_eq!(event(&mut client).await["type"], "response.created");
}

#[tokio::test]
async fn p8_a_client_that_does_not_read_is_gone_after_the_write_limit() {
    let server = Server::with(|app| app.limits.write_stall_s = 1);
    let mut client = open(&server).await;
    ask(&mut client, &json!({"store": false})).await;
    assert_eq!(event(&mut client).await["type"], "response.created");
    let job = server.store.newest_id();
    server.store.say(job, 0, &"x".repeat(500_000));
    let waiting = async {
        while *server.store.cancels.lock().expect("lock") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the job is cancelled");
}

#[tokio::test]
async fn p8_only_so_many_messages_wait() {
    let server = Server::new();
    let mut client = open(&server).await;
    ask(&mut client, &json!({})).await;
    assert_eq!(event(&mut client).await["type"], "response.created");
    for _ in 0..17 {
        ask(&mut client, &json!({})).await;
    }
    let mut next = event(&mut client).await;
    while next["type"] != "error" {
        next = event(&mut client).await;
    }
    assert_eq!((&next["status"], &next["error"]["code"]), (&json!(429), &json!("rate_limit_exceeded")));
    assert_eq!(server.store.count(), 1);
    for _ in 0..2 {
        server.store.end(server.store.newest_id(), "done");
        while event(&mut client).await["type"] != "response.created" {}
    }
    assert_eq!(server.store.count(), 3);
}

#[tokio::test]
async fn a_drain_closes_what_waits_and_lets_a_response_end() {
    let server = Server::new();
    let (mut idle, mut busy) = (open(&server).await, open(&server).await);
    ask(&mut busy, &json!({})).await;
    assert_eq!(event(&mut busy).await["type"], "response.created");
    server.advance(ShutdownStage::Draining);
    assert_eq!(rest(&mut idle).await, (Vec::new(), Some(1001)));
    server.store.end(server.store.newest_id(), "done");
    let (events, code) = rest(&mut busy).await;
    assert_eq!((&events.last().expect("events")["type"], code), (&json!("response.completed"), Some(1001)));
    let refused = client_async(ADDRESS, server.connect()).await.expect_err("no new one");
    assert!(refused.to_string().contains("503"), "{refused}");
}

#[tokio::test]
async fn the_end_of_all_streams_is_an_event_that_names_the_job() {
    let server = Server::new();
    let mut client = open(&server).await;
    ask(&mut client, &json!({})).await;
    assert_eq!(event(&mut client).await["type"], "response.created");
    server.advance(ShutdownStage::Closing);
    let (events, code) = rest(&mut client).await;
    let error = events.last().expect("an event");
    assert_eq!((&error["error"]["code"], code), (&json!("shutting_down"), Some(1001)));
    assert!(error["error"]["message"].to_string().contains(&server.store.newest_id().to_string()));
    assert!(error["sequence_number"].is_number(), "{error}");
}

#[tokio::test]
async fn a_request_that_came_with_the_handshake_is_read() {
    let server = Server::new();
    let mut io = server.connect();
    let head = "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut bytes = head.as_bytes().to_vec();
    // An empty ping, masked.
    bytes.extend_from_slice(&[0x89, 0x80, 0, 0, 0, 0]);
    io.write_all(&bytes).await.expect("sends");
    let mut seen = Vec::new();
    while !seen.ends_with(&[0x8a, 0]) {
        let mut buffer = [0; 512];
        let count = tokio::time::timeout(Duration::from_secs(5), io.read(&mut buffer)).await.expect("a pong");
        let count = count.expect("reads");
        assert!(count > 0, "closed: {seen:?}");
        seen.extend_from_slice(&buffer[..count]);
    }
    let head = String::from_utf8_lossy(&seen).into_owned();
    assert!(head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
}
