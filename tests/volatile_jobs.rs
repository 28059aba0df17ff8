//! Requests that end with their client are in memory until their end: a crash loses them, and everything else
//! is as for other jobs.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{Server, against, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

/// A model that speaks for some seconds.
fn slow() -> Upstream {
    Upstream::start(|_, _| Answer::paced_text(&"word ".repeat(40), Duration::from_millis(50)))
}

/// A request to the route, as a stream.
fn body(route: &str, store: bool) -> Value {
    let content = if route == CHAT { "messages" } else { "input" };
    json!({
        "model": "scripted", "stream": true, "store": store,
        content: [{"role": "user", "content": "go"}],
    })
}

/// Sends a request and reads until the text of the answer has begun.
fn begin(server: &Server, route: &str, store: bool) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("connect");
    let body = body(route, store).to_string();
    let head = "host: localhost\r\ncontent-type: application/json";
    write!(stream, "POST {route} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .expect("send");
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("word") {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).expect("the stream");
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&bytes[..count]);
    }
    stream
}

fn newest(server: &Server) -> Value {
    server.get("/v1/jobs?limit=1").json()["data"][0].clone()
}

fn newest_id(server: &Server) -> String {
    newest(server)["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_crash_loses_a_request_without_store_and_nothing_else() {
    let upstream = slow();
    let config = against(&upstream, "");
    for route in [CHAT, RESPONSES] {
        let server = Server::start_with(&config);
        let _kept = begin(&server, route, true);
        let kept = newest_id(&server);
        let _lost = begin(&server, route, false);
        let lost = newest_id(&server);
        assert_ne!(kept, lost);
        let running = server.get(&format!("/v1/jobs/{lost}"));
        assert_eq!((running.status, &running.json()["status"]), (200, &json!("running")));
        let seen: Vec<_> =
            server.stream(&format!("/v1/jobs/{lost}/events?format=delta"), 0).take(4).collect();
        assert!(seen.iter().map(|event| event.seq).eq(1..=4), "{seen:?}");
        let server = server.crash_and_restart(&config);
        assert_eq!(server.get(&format!("/v1/jobs/{lost}")).status, 404);
        assert_eq!(server.wait(&kept)["status"], "succeeded");
        assert_eq!(server.get("/v1/jobs").json()["data"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn a_client_that_leaves_cancels_its_request_and_pays_for_what_it_got() {
    let upstream = slow();
    let server = Server::start_against(&upstream, "");
    drop(begin(&server, CHAT, false));
    let id = newest_id(&server);
    let job = server.wait(&id);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
    let events = server.events(&id);
    assert!(events.iter().map(|event| event.seq).eq(1..=events.len() as u64), "{events:?}");
    wait_until("its usage is booked", || {
        let booked = server.get("/v1/usage").json()["data"][0]["total_tokens"].clone();
        booked == job["usage"]["total_tokens"] && booked.as_u64() > Some(0)
    });
}

#[test]
fn an_answered_chat_stays_in_the_list_and_an_answered_response_does_not() {
    let upstream = Upstream::start(|_, _| Answer::text("short"));
    let server = Server::start_against(&upstream, "");
    let reply = server.post(CHAT, &body(CHAT, false));
    assert!(reply.body.ends_with("data: [DONE]\n\n"), "{}", reply.body);
    let job = newest(&server);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(1)));
    assert_eq!(server.get("/v1/usage").json()["data"][0]["total_tokens"], job["usage"]["total_tokens"]);
    let reply = server.post(RESPONSES, &body(RESPONSES, false));
    assert!(reply.body.contains("event: response.completed"), "{}", reply.body);
    wait_until("it is deleted", || newest(&server)["id"] == job["id"]);
}

#[test]
fn p8_jobs_in_memory_count_as_unfinished() {
    let upstream = slow();
    let server = Server::start_against(&upstream, "workers: 4\nlimits: {queue_jobs: 1}");
    let _running = begin(&server, CHAT, false);
    for store in [false, true] {
        let reply = server.post(CHAT, &body(CHAT, store));
        assert_eq!(reply.status, 429, "{store}: {}", reply.body);
    }
}

#[test]
fn a_shutdown_stores_a_request_that_it_cuts_off_and_the_next_start_ends_it() {
    let upstream = slow();
    let config = against(&upstream, "limits: {drain_s: 1}");
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start_in(dir.path(), &config);
    let mut stream = begin(&server, CHAT, false);
    let id = newest_id(&server);
    assert!(server.terminate().success());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the end of the stream");
    assert!(rest.contains("error"), "the client is told: {rest}");
    let server = Server::start_in(dir.path(), &config);
    assert_eq!(server.wait(&id)["status"], "succeeded");
}
