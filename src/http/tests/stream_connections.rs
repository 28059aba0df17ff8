//! The connections of event streams that have waited for events: framing, and requests before and behind a
//! stream.

use crate::domain::id::JobId;
use crate::http::ShutdownStage;
use crate::http::testing::{Server, parse};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const LAST_CHUNK: &str = "\r\n0\r\n\r\n";

/// A request that leaves its connection open.
fn open_request(line: &str) -> String {
    format!("{line} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

/// Reads until the text has arrived.
async fn read_until(io: &mut DuplexStream, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut buffer = [0; 1024];
        let reading = tokio::time::timeout(Duration::from_secs(5), io.read(&mut buffer));
        let count = reading.await.unwrap_or_else(|_| panic!("no {text:?} in {seen:?}")).expect("reads");
        assert!(count > 0, "closed before {text:?}: {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    seen
}

async fn read_to_close(io: &mut DuplexStream) -> String {
    let mut seen = String::new();
    let reading = tokio::time::timeout(Duration::from_secs(5), io.read_to_string(&mut seen));
    reading.await.expect("the server closes").expect("reads");
    seen
}

/// A connection that has sent this request, and the response up to the first event. The stream waits.
async fn waiting_stream(server: &Server, request: &str) -> (DuplexStream, String) {
    let mut io = server.connect();
    io.write_all(request.as_bytes()).await.expect("sends");
    let begin = read_until(&mut io, "queued").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    (io, begin)
}

/// Ends the job after one event.
async fn say_and_end(server: &Server, job: JobId) {
    server.store.say(job, 0, "a word");
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.store.end(job, "a word");
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_stream_has_waited() {
    let server = Server::new();
    let job = server.job().await;
    let stream = open_request(&format!("GET /v1/jobs/{job}/events"));
    let (mut io, begin) = waiting_stream(&server, &stream).await;
    say_and_end(&server, job).await;
    let response = parse(&(begin + &read_until(&mut io, LAST_CHUNK).await));
    assert_eq!(response.header("transfer-encoding"), Some("chunked"));
    assert!(response.body.contains("\"content\":\"a word\"}\n\nid: 3\nevent: done\n"), "{}", response.body);
    for _ in 0..2 {
        io.write_all(open_request("GET /healthz").as_bytes()).await.expect("sends");
        assert!(read_until(&mut io, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    }
    io.write_all(stream.as_bytes()).await.expect("sends");
    assert!(read_until(&mut io, LAST_CHUNK).await.contains("a word"));
}

#[tokio::test]
async fn a_connection_is_used_again_after_the_stream_of_a_submitted_job() {
    let server = Server::new();
    let head = open_request("POST /v1/jobs?stream=true").replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\n");
    let (mut io, _) = waiting_stream(&server, &(head + "hello")).await;
    say_and_end(&server, server.store.newest_id()).await;
    read_until(&mut io, LAST_CHUNK).await;
    io.write_all(open_request("GET /healthz").as_bytes()).await.expect("sends");
    assert!(read_until(&mut io, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn requests_behind_a_stream_are_answered_after_it() {
    let server = Server::new();
    let job = server.job().await;
    let requests = open_request(&format!("GET /v1/jobs/{job}/events")) + &open_request("GET /healthz");
    let (mut io, _) = waiting_stream(&server, &requests).await;
    // Sent while the stream waits.
    io.write_all(open_request("GET /v1/no-such-path").as_bytes()).await.expect("sends");
    say_and_end(&server, job).await;
    let rest = read_until(&mut io, "HTTP/1.1 404").await;
    let (stream, responses) = rest.split_once(LAST_CHUNK).expect("the end of the stream");
    assert!(stream.contains("event: done") && responses.starts_with("HTTP/1.1 200"), "{rest}");
}

#[tokio::test]
async fn a_body_that_nobody_has_read_is_not_taken_for_a_request() {
    let server = Server::new();
    let job = server.job().await;
    let hidden = open_request("GET /healthz");
    let length = format!("\r\ncontent-length: {}\r\n\r\n", hidden.len());
    let head = open_request(&format!("GET /v1/jobs/{job}/events")).replace("\r\n\r\n", &length);
    let (sent, late) = hidden.split_at(10);
    let (mut io, _) = waiting_stream(&server, &(head + sent)).await;
    io.write_all(late.as_bytes()).await.expect("sends");
    say_and_end(&server, job).await;
    io.shutdown().await.expect("closes");
    let rest = read_to_close(&mut io).await;
    assert!(rest.ends_with(LAST_CHUNK) && !rest.contains("HTTP/1.1"), "{rest}");
}

#[tokio::test]
async fn an_http_1_0_stream_has_no_chunks_and_ends_with_its_connection() {
    let server = Server::new();
    let job = server.job().await;
    let stream = format!("GET /v1/jobs/{job}/events HTTP/1.0\r\nhost: localhost\r\n\r\n");
    let (mut io, begin) = waiting_stream(&server, &stream).await;
    say_and_end(&server, job).await;
    let response = parse(&(begin + &read_to_close(&mut io).await));
    assert_eq!(response.header("transfer-encoding"), None);
    assert!(response.body.contains("\"a word\"}\n\nid: 3\nevent: done\n"), "{}", response.body);
}

#[tokio::test]
async fn the_response_to_head_has_no_stream_and_the_connection_continues() {
    let server = Server::new();
    let job = server.job().await;
    let requests = open_request(&format!("HEAD /v1/jobs/{job}/events")) + &open_request("GET /healthz");
    let mut io = server.connect();
    io.write_all(requests.as_bytes()).await.expect("sends");
    let both = read_until(&mut io, "ok").await;
    let (head, health) = both.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("text/event-stream") && health.starts_with("HTTP/1.1 200"), "{both}");
}

#[tokio::test]
async fn p8_a_stream_that_nobody_reads_is_cut_after_the_write_limit() {
    let server = Server::with(|app| app.limits.write_stall_s = 1);
    let job = server.job().await;
    let stream = open_request(&format!("GET /v1/jobs/{job}/events?format=delta"));
    let (mut io, _) = waiting_stream(&server, &stream).await;
    for _ in 0..8 {
        server.store.say(job, 0, &"more than the pipe takes ".repeat(1_000));
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.store.end(job, "");
    let rest = read_to_close(&mut io).await;
    assert!(!rest.contains("event: done") && !rest.ends_with(LAST_CHUNK), "a stream that was cut off");
}

#[tokio::test]
async fn the_abort_stage_ends_a_stream_that_nobody_reads() {
    let server = Server::new();
    let job = server.job().await;
    let stream = open_request(&format!("GET /v1/jobs/{job}/events?format=delta"));
    let (mut io, _) = waiting_stream(&server, &stream).await;
    for _ in 0..8 {
        server.store.say(job, 0, &"more than the pipe takes ".repeat(1_000));
    }
    for stage in [ShutdownStage::Draining, ShutdownStage::Closing, ShutdownStage::Aborting] {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.advance(stage);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!read_to_close(&mut io).await.ends_with(LAST_CHUNK), "a stream that was cut off");
}
