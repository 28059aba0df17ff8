//! `GET /v1/jobs/{id}/events`.

use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::JobId;
use crate::http::testing::{Server, request};
use crate::ports::StoreError;
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

fn path(id: JobId) -> String {
    format!("/v1/jobs/{id}/events")
}

fn lines(body: &str) -> Vec<Value> {
    body.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

async fn ndjson(server: &Server, target: &str) -> Vec<Value> {
    let answer = server.ask(&format!("GET {target}"), &["accept: application/x-ndjson"], "").await;
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    lines(&answer.body)
}

/// Reads until `text` has come by.
async fn read_until(io: &mut DuplexStream, text: &str) -> String {
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    let mut checked = 0; // what has been looked through already
    while !seen[checked..].contains(text) {
        checked = (0..=seen.len().saturating_sub(text.len()))
            .rev()
            .find(|at| seen.is_char_boundary(*at))
            .unwrap_or(0);
        let reading = tokio::time::timeout(Duration::from_secs(10), io.read(&mut buffer));
        let n = reading.await.unwrap_or_else(|_| panic!("no {text:?} in {seen:?}")).expect("reads");
        assert!(n > 0, "closed before {text:?}: {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    seen
}

/// All that comes until the server closes.
async fn read_all_text(mut io: DuplexStream) -> String {
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(10), io.read_to_end(&mut bytes));
    reading.await.expect("an end").expect("reads");
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn an_ended_job_is_replayed_in_the_documented_frames() {
    let server = Server::new();
    let id = server.job().await;
    server.store.say(id, 0, "one ");
    server.store.say(id, 0, "two");
    server.store.end(id, "one two");
    let answer = server.get(&path(id)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.header("cache-control"), Some("no-cache, no-store"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_eq!(answer.header("x-job-id"), Some(id.to_string().as_str()));
    let blocks: Vec<&str> = answer.body.split_terminator("\n\n").collect();
    assert_eq!(
        blocks[..2],
        [
            "retry: 1000\nid: 1\nevent: status\ndata: {\"status\":\"queued\",\"attempt\":0}",
            "id: 3\nevent: process_step\ndata: {\"id\":\"step-0\",\"index\":0,\"type\":\"text\",\"content\":\"one two\"}",
        ]
    );
    assert!(blocks[2].starts_with("id: 4\nevent: done\ndata: {\"message_id\":\"msg_"), "{}", blocks[2]);
    assert_eq!(blocks.len(), 3);
}

#[tokio::test]
async fn p2_a_stream_whose_store_recovers_ends_and_can_be_resumed() {
    let server = Server::new();
    let id = server.job().await;
    let mut io = server.connect();
    let body = r#"{"input":"x","on_disconnect":"cancel"}"#;
    io.write_all(&request("POST /v1/jobs?stream=true", &[], body)).await.expect("sends");
    read_until(&mut io, "queued").await;
    let streamed = server.store.newest_id();
    *server.store.unreadable.lock().expect("lock") = Some(StoreError::Recovering);
    server.store.say(streamed, 0, "a");
    let rest = read_until(&mut io, "retry: ").await;
    assert!(rest.contains(": the store is recovering") && rest.contains("retry: "), "{rest}");
    let rest = rest + &read_all_text(io).await;
    assert!(rest.ends_with("0\r\n\r\n"), "a clean end: {rest:?}");
    for (job, headers) in [(streamed, "last-event-id: 1"), (id, "accept: application/x-ndjson")] {
        let refused = server.ask(&format!("GET {}", path(job)), &[headers], "").await;
        assert_eq!((refused.status, refused.code().as_str()), (503, "recovering"), "{}", refused.body);
        assert!(refused.header("retry-after").is_some());
    }
    let alive = server.get("/healthz").await;
    assert_eq!(alive.status, 200, "it reads no store: {}", alive.body);
    *server.store.unreadable.lock().expect("lock") = None;
    assert_eq!(*server.store.cancels.lock().expect("lock"), 0, "the client did not leave");
    server.store.end(streamed, "a");
    let resumed = server.ask(&format!("GET {}", path(streamed)), &["last-event-id: 1"], "").await;
    assert!(resumed.body.contains("id: 2\n") && !resumed.body.contains("id: 1\n"), "{}", resumed.body);
}

#[tokio::test]
async fn a_live_stream_sends_committed_events_and_ends_with_the_job() {
    let server = Server::new();
    let id = server.job().await;
    let mut io = server.connect();
    io.write_all(&request(&format!("GET {}", path(id)), &[], "")).await.expect("sends");
    read_until(&mut io, "queued").await;
    server.store.say(id, 0, "a");
    read_until(&mut io, r#""content":"a"}"#).await;
    server.store.say(id, 0, "b");
    read_until(&mut io, r#""content":"ab"}"#).await;
    assert_eq!(*server.store.step_texts.lock().expect("lock"), 0, "the reader holds the step's text");
    server.store.end(id, "ab");
    read_until(&mut io, "event: done").await;
    let mut rest = String::new();
    io.read_to_string(&mut rest).await.expect("the server closes");
}

#[tokio::test]
async fn resuming_inside_a_step_sends_the_whole_step_first() {
    let server = Server::new();
    let id = server.job().await;
    for piece in ["é", "b", "c", "d"] {
        server.store.say(id, 0, piece);
    }
    server.store.end(id, "");
    let target = format!("{}?after=3&follow=false", path(id));
    let seen = ndjson(&server, &target).await;
    assert_eq!(
        (seen.len(), seen[0]["id"].as_u64(), seen[0]["data"]["content"].as_str()),
        (2, Some(5), Some("ébcd"))
    );
    let deltas = ndjson(&server, &format!("{target}&format=delta")).await;
    assert_eq!(
        (deltas[0]["data"]["delta"].as_str(), deltas[0]["data"]["offset"].as_u64()),
        (Some("c"), Some(3))
    );
}

#[tokio::test]
async fn the_cursor_header_overrides_the_query_and_the_end_gives_204() {
    let server = Server::new();
    let id = server.job().await;
    server.store.end(id, "");
    let target = format!("GET {}?after=0", path(id));
    let answer = server.ask(&target, &["last-event-id: 1", "accept: application/x-ndjson"], "").await;
    assert_eq!(lines(&answer.body).len(), 1);
    let answer = server.ask(&target, &["Last-Event-ID: 2"], "").await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""), "an EventSource stops");
}

#[tokio::test]
async fn invalid_event_cursors_get_400() {
    let server = Server::new();
    let id = server.job().await;
    for query in [
        "after=-1",
        "after=2",
        "after=x",
        "after=99999999999999999999",
        "after=1&starting_after=1",
        "follow=1",
        "format=sse",
        "aftr=1",
    ] {
        let answer = server.get(&format!("{}?{query}", path(id))).await;
        assert_eq!(answer.status, 400, "{query}");
    }
    let answer = server.ask(&format!("GET {}", path(id)), &["last-event-id: 7"], "").await;
    assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some("after")));
}

#[tokio::test]
async fn follow_false_returns_the_events_so_far() {
    let server = Server::new();
    let id = server.job().await;
    for n in 0..700 {
        server.store.say(id, n, "x");
    }
    let seen = ndjson(&server, &format!("{}?follow=false", path(id))).await;
    assert_eq!(seen.len(), 701, "more than two pages, every step its own frame");
    let seen = ndjson(&server, &format!("{}?follow=false&after=701", path(id))).await;
    assert!(seen.is_empty(), "nothing yet, and no waiting");
}

#[tokio::test]
async fn a_stream_reads_all_committed_events_without_notifications() {
    let server = Server::new();
    *server.store.mute.lock().expect("lock") = Some(tokio::sync::watch::channel(0).0);
    let id = server.job().await;
    for n in 0..700 {
        server.store.say(id, n, "x");
    }
    server.store.end(id, "");
    let target = path(id);
    let reading = tokio::time::timeout(Duration::from_secs(10), ndjson(&server, &target));
    let seen = reading.await.expect("all of it, at once");
    assert_eq!(seen.len(), 702, "three pages without a single hint");
}

#[tokio::test(start_paused = true)]
async fn a_lost_notification_only_delays_the_stream() {
    let server = Server::new();
    *server.store.mute.lock().expect("lock") = Some(tokio::sync::watch::channel(0).0);
    let id = server.job().await;
    let mut io = server.connect();
    io.write_all(&request(&format!("GET {}", path(id)), &[], "")).await.expect("sends");
    read_until(&mut io, "queued").await;
    server.store.end(id, "");
    let mut rest = String::new();
    let reading = tokio::time::timeout(Duration::from_secs(20), io.read_to_string(&mut rest));
    reading.await.expect("found at the next heartbeat").expect("reads");
    assert!(rest.contains("event: done"), "{rest}");
}

#[tokio::test]
async fn a_client_that_does_not_read_causes_no_page_reads() {
    let server = Server::new();
    let id = server.job().await;
    let mut io = server.connect();
    io.write_all(&request(&format!("GET {}?format=delta", path(id)), &[], "")).await.expect("sends");
    read_until(&mut io, "queued").await;
    for attempt in 0..40_000 {
        let reason = Some("some words, so that all of it is more than sockets hold".to_owned());
        server.store.push(id, Event::Status { status: StatusPhase::Retrying, attempt, reason });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pages = *server.store.pages.lock().expect("lock");
    assert!(pages < 40, "{pages} pages were read for somebody who reads nothing");
    server.store.end(id, "");
    let rest = read_until(&mut io, "event: done").await;
    assert_eq!(rest.matches("event: status").count(), 40_000, "and nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_sends_heartbeats() {
    let server = Server::new();
    let id = server.job().await;
    let mut io = server.connect();
    io.write_all(&request(&format!("GET {}", path(id)), &[], "")).await.expect("sends");
    read_until(&mut io, "queued").await;
    let mut buffer = [0; 64];
    let n = io.read(&mut buffer).await.expect("reads");
    assert_eq!(&buffer[..n], b"3\r\n: \n\r\n", "a comment without a blank line");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// P2: cut at any byte, resumed at the last id, a client ends with exactly the log.
    #[test]
    fn p2_a_stream_cut_anywhere_is_resumed_without_loss(pieces in prop::collection::vec("[a-zé]{1,5}", 1..30), cuts in prop::collection::vec(1_usize..900, 0..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let server = Server::new();
            let id = server.job().await;
            for piece in &pieces {
                server.store.say(id, 0, piece);
            }
            server.store.end(id, "");
            let (mut last, mut text, mut ended) = (0, String::new(), false);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let target = format!("{}?format=delta&after={last}", path(id));
                let answer = server.ask(&format!("GET {target}"), &["accept: application/x-ndjson"], "").await;
                if answer.status == 204 {
                    ended = true;
                    break;
                }
                let cut = (0..=cut.min(answer.body.len())).rev().find(|at| answer.body.is_char_boundary(*at));
                let whole = answer.body[..cut.unwrap_or(0)].rsplit_once('\n').map_or("", |(whole, _)| whole);
                for line in lines(whole) {
                    assert_eq!(line["id"].as_u64(), Some(last + 1), "no gap, no repetition");
                    last += 1;
                    if let Some(delta) = line["data"]["delta"].as_str() {
                        assert_eq!(line["data"]["offset"].as_u64(), Some(text.len() as u64));
                        text.push_str(delta);
                    }
                    ended = line["event"] == "done";
                }
            }
            assert!(ended);
            assert_eq!(text, pieces.concat());
        });
    }
}
