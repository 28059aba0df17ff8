//! Clients that close their sending side after the request, as `nc -N` does.

use crate::domain::job::JobStatus;
use crate::http::testing::{Server, parse, read_all, request};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Sends the bytes and closes the sending side.
async fn half_closed(server: &Server, bytes: &[u8]) -> DuplexStream {
    let mut io = server.connect();
    io.write_all(bytes).await.expect("sends");
    io.shutdown().await.expect("closes");
    io
}

#[tokio::test]
async fn half_closed_clients_get_their_answers() {
    let server = Server::new();
    let job = server.job().await;
    let one = read_all(half_closed(&server, &request(&format!("GET /v1/jobs/{job}"), &[], "")).await).await;
    assert_eq!((one.status, one.json()["status"].as_str()), (200, Some("queued")));
    let body = r#"{"input":"hello"}"#;
    let json = ["content-type: application/json"];
    let made = read_all(half_closed(&server, &request("POST /v1/jobs", &json, body)).await).await;
    assert_eq!(made.status, 202, "{}", made.body);
    let waiting = half_closed(&server, &request(&format!("GET /v1/jobs/{job}?wait=20"), &[], "")).await;
    let stream = half_closed(&server, &request(&format!("GET /v1/jobs/{job}/events"), &[], "")).await;
    let posted = half_closed(&server, &request("POST /v1/jobs?stream=true", &json, body)).await;
    // Longer than the time within which an end of the input belongs to the request.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let newest = server.store.newest_id();
    for id in [job, newest] {
        server.store.say(id, 0, "at last");
        server.store.end(id, "at last");
    }
    assert_eq!(read_all(waiting).await.json()["status"], "succeeded");
    for stream in [stream, posted] {
        let answer = read_all(stream).await;
        assert!(answer.body.contains("at last") && answer.body.contains("event: done"), "{}", answer.body);
    }
}

#[tokio::test]
async fn pipelined_requests_of_a_half_closed_client_are_all_answered() {
    let server = Server::new();
    let job = server.job().await;
    let line = format!("GET /v1/jobs/{job} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut io = half_closed(&server, line.repeat(3).as_bytes()).await;
    let mut text = String::new();
    let reading = io.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("the server closes").expect("reads");
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3, "{text}");
}

#[tokio::test]
async fn with_on_disconnect_cancel_the_end_of_the_input_is_a_disconnect() {
    let server = Server::new();
    let body = r#"{"input":"x","on_disconnect":"cancel"}"#;
    let _io = half_closed(&server, &request("POST /v1/jobs?stream=true", &[], body)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.store.status(server.store.newest_id()), JobStatus::Cancelled);
}

#[tokio::test]
async fn a_request_that_is_cut_off_is_not_waited_for() {
    let server = Server::new();
    let cut = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"input\"";
    for bytes in [cut, "GET /v1/jobs HTTP/1.1\r\nhost: local", ""] {
        let mut io = half_closed(&server, bytes.as_bytes()).await;
        let mut text = Vec::new();
        let reading = io.read_to_end(&mut text);
        tokio::time::timeout(Duration::from_secs(5), reading).await.expect("an end").expect("reads");
        assert!(
            text.is_empty() || parse(&String::from_utf8_lossy(&text)).status == 400,
            "{bytes:?}: {text:?}"
        );
    }
}
