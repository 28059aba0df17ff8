//! `/v1/batches`: both line formats, errors for bad lines, results in input order and in order of arrival,
//! cancel, idempotency keys, and a server that is killed meanwhile.

use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// `count` lines of small jobs.
fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut all, n| {
        let line = json!({"custom_id": format!("n{n}"), "body": {"input": format!("hello {n}")}});
        writeln!(all, "{line}").expect("writes");
        all
    })
}

fn upload(server: &Server, query: &str, body: &str) -> Reply {
    server.post_text(&format!("/v1/batches{query}"), body)
}

/// Uploads a batch that must be accepted; returns its id.
fn submit_batch(server: &Server, query: &str, body: &str) -> String {
    let reply = upload(server, query, body);
    assert_eq!(reply.status, 202, "{}", reply.body);
    let id = reply.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(reply.header("location"), Some(format!("/v1/batches/{id}").as_str()));
    id
}

fn wait(server: &Server, id: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let batch = server.get(&format!("/v1/batches/{id}?wait=10")).json();
        if matches!(batch["status"].as_str(), Some("completed" | "cancelled")) {
            return batch;
        }
        assert!(Instant::now() < deadline, "the batch does not end: {batch}");
    }
}

fn results(server: &Server, id: &str, query: &str) -> Vec<Value> {
    let reply = server.get(&format!("/v1/batches/{id}/results{query}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[test]
fn p1_a_batch_answers_every_line_in_input_order() {
    let server = Server::start();
    let reply = upload(&server, "?concurrency=3", &lines(20));
    let batch = reply.json();
    assert_eq!(
        (reply.status, &batch["object"], &batch["status"]),
        (202, &json!("batch"), &json!("in_progress"))
    );
    assert_eq!(batch["request_counts"]["total"], 20);
    let id = batch["id"].as_str().expect("an id");
    assert!(id.starts_with("batch_"));
    let ended = wait(&server, id);
    assert_eq!(ended["request_counts"], json!({"total": 20, "completed": 20, "failed": 0}));
    assert!(ended["completed_at"].is_u64() && ended["cancelled_at"].is_null(), "{ended}");
    let results = results(&server, id, "");
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["custom_id"], format!("n{n}"));
        assert_eq!((&result["response"]["status_code"], &result["error"]), (&json!(200), &json!(null)));
        let answer = result["response"]["body"]["output_text"].as_str().expect("an answer");
        assert!(answer.contains(&format!("hello {n}")), "{answer}");
    }
    assert_eq!(results.len(), 20);
    let first = results[0]["response"]["body"]["id"].as_str().expect("a job");
    assert_eq!(server.get(&format!("/v1/jobs/{first}")).json()["batch_id"], json!(id));
    let other = server.submit(&json!({"input": "alone"}));
    assert_eq!(server.get(&format!("/v1/jobs/{other}")).json()["batch_id"], Value::Null);
    let found = server.get(&format!("/v1/jobs?batch_id={id}&limit=100")).json();
    let found = found["data"].as_array().expect("jobs");
    assert!(found.len() == 20 && found.iter().all(|job| job["batch_id"] == id), "{found:?}");
    assert_eq!(server.get("/v1/jobs?batch_id=batch_00000000000000000000000000").json()["data"], json!([]));
    let listed = server.get("/v1/batches?limit=1").json();
    assert_eq!((&listed["data"][0]["id"], &listed["has_more"]), (&json!(id), &json!(false)));
}

#[test]
fn openai_batch_lines_are_accepted() {
    let server = Server::start();
    let chat = json!({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "demo", "messages": [{"role": "user", "content": [{"type": "text", "text": "part one"}]}]}});
    let response = json!({"custom_id": "b", "method": "POST", "url": "/v1/responses",
        "body": {"model": "demo", "input": "part two", "max_output_tokens": 50}});
    let id = submit_batch(&server, "", &format!("{chat}\r\n\r\n{response}"));
    wait(&server, &id);
    let answers = results(&server, &id, "");
    assert!(answers[0]["response"]["body"]["output_text"].as_str().is_some_and(|t| t.contains("part one")));
    assert!(answers[1]["response"]["body"]["output_text"].as_str().is_some_and(|t| t.contains("part two")));
}

#[test]
fn a_bad_line_rejects_the_whole_batch_and_names_its_number() {
    let server =
        Server::start_with("limits:\n  batch_lines: 50\n  batch_bytes: 100000\n  body_bytes: 60000\n");
    let good = lines(2);
    for (line, word) in [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        (r#"{"custom_id":"x"}"#, "'body' is missing"),
        (r#"{"body":{"input":"x"}}"#, "'custom_id' is missing"),
        (r#"{"custom_id":"","body":{"input":"x"}}"#, "1 to 256"),
        (r#"{"custom_id":"n1","body":{"input":"x"}}"#, "used twice"),
        (r#"{"custom_id":"x","body":{"input":"x","colour":1}}"#, "unknown field"),
        (r#"{"custom_id":"x","body":{"input":"x","model":"nope"}}"#, "model"),
        (r#"{"custom_id":"x","body":{"input":"x","priority":10}}"#, "'priority'"),
        (r#"{"custom_id":"x","url":"/v1/responses","body":{"input":"x"}}"#, "model"),
        (r#"{"custom_id":"x","url":"/v1/embeddings","body":{"input":"x"}}"#, "/v1/chat/completions"),
        (r#"{"custom_id":"x","method":"GET","url":"/v1/responses","body":{"input":"x"}}"#, "POST"),
        (r#"{"input_file_id":"file-1"}"#, "application/json"),
        (r#"{"custom_id":"x","body":{"input":"x"},"bodi":1}"#, "did you mean 'body'"),
    ] {
        let reply = upload(&server, "", &format!("{good}\n{line}\n{}", lines(1)));
        assert_eq!(reply.status, 400, "{line}: {}", reply.body);
        let message = reply.json()["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with("line 4: ") && message.contains(word), "{line}: {message}");
    }
    assert_eq!(upload(&server, "", " \n\n").status, 400, "empty");
    assert_eq!(upload(&server, "", &lines(51)).status, 400, "too many lines");
    assert_eq!(upload(&server, "", &"x".repeat(60_001)).status, 400, "a line too long");
    assert_eq!(upload(&server, "", &"\n".repeat(100_001)).status, 413);
    assert_eq!(upload(&server, "?concurrency=0", &good).status, 400);
    let posted = server.get_with("/v1/batches/batch_x", &[]);
    assert_eq!(posted.status, 404);
    assert_eq!(server.get("/v1/batches").json()["data"], json!([]));
    assert_eq!(server.get("/v1/jobs").json()["data"], json!([]), "nothing was enqueued");
}

#[test]
fn followed_results_arrive_as_lines_end_and_can_be_resumed() {
    let server = Server::start();
    let slow = json!({"custom_id": "slow", "body": {"input": "stream: 40 words, 50 ms"}});
    let id = submit_batch(&server, "", &format!("{slow}\n{}", lines(3)));
    let partial = results(&server, &id, "");
    assert!(
        partial.iter().all(|line| line["custom_id"] != "slow"),
        "a line that has not ended has no result yet"
    );
    let names = |lines: Vec<Value>| -> Vec<String> {
        lines.iter().map(|line| line["custom_id"].as_str().expect("a name").to_owned()).collect()
    };
    let followed = names(results(&server, &id, "?follow=true"));
    assert_eq!((followed.len(), followed[3].as_str()), (4, "slow"), "{followed:?}");
    assert_eq!(names(results(&server, &id, "?follow=true&after=1")), followed[1..]);
    assert_eq!(names(results(&server, &id, "")), ["slow", "n0", "n1", "n2"]);
    for bad in ["?after=1", "?follow=true&after=5", "?follow=true&after=-1", "?follow=yes"] {
        assert_eq!(server.get(&format!("/v1/batches/{id}/results{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn an_ended_batch_can_be_deleted_and_its_jobs_stay() {
    let server = Server::start();
    let id = submit_batch(&server, "", &lines(3));
    let path = format!("/v1/batches/{id}");
    wait(&server, &id);
    let deleted = server.ask("DELETE", &path, &Value::Null);
    assert_eq!(deleted.json(), json!({"id": id, "object": "batch.deleted", "deleted": true}));
    for (method, path) in [("GET", path.clone()), ("GET", format!("{path}/results")), ("DELETE", path)] {
        assert_eq!(server.ask(method, &path, &Value::Null).status, 404, "{method} {path}");
    }
    assert_eq!(server.get("/v1/jobs").json()["data"].as_array().map(Vec::len), Some(3));
    let open = submit_batch(
        &server,
        "?concurrency=1",
        &json!({"custom_id": "later", "body": {"input": "x", "run_at": 4_000_000_000_u64}}).to_string(),
    );
    let refused = server.ask("DELETE", &format!("/v1/batches/{open}"), &Value::Null);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &json!("batch_not_ended")));
}

#[test]
fn a_cancelled_batch_has_a_result_for_every_line() {
    let server = Server::start();
    let slow = (0..10).fold(String::new(), |mut all, n| {
        let line = json!({"custom_id": format!("s{n}"), "body": {"input": "stream: 2000 words, 50 ms"}});
        writeln!(all, "{line}").expect("writes");
        all
    });
    let id = submit_batch(&server, "?concurrency=2", &slow);
    while server.get("/v1/jobs?status=running").json()["data"].as_array().map_or(0, Vec::len) < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let cancelled = server.post(&format!("/v1/batches/{id}/cancel"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelling")));
    let ended = wait(&server, &id);
    assert_eq!((&ended["status"], &ended["request_counts"]["failed"]), (&json!("cancelled"), &json!(10)));
    let results = results(&server, &id, "");
    let codes: Vec<_> = results.iter().map(|line| line["error"]["code"].as_str().expect("a code")).collect();
    assert_eq!(codes.iter().filter(|code| **code == "cancelled").count(), 2, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == "batch_cancelled").count(), 8, "{codes:?}");
    let again = server.post(&format!("/v1/batches/{id}/cancel"), &json!({}));
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("cancelled")));
}

#[test]
fn p1_p3_a_batch_survives_kill_9_and_runs_each_line_once() {
    // On a busy machine a line may run during each crash.
    let config = "limits: {crashes: 100}\n";
    let mut server = Server::start_with(config);
    let id = submit_batch(&server, "?concurrency=8", &lines(300));
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(150));
        server = server.crash_and_restart(config);
    }
    let ended = wait(&server, &id);
    assert_eq!(ended["request_counts"], json!({"total": 300, "completed": 300, "failed": 0}));
    let results = results(&server, &id, "");
    let jobs: HashSet<_> = results
        .iter()
        .map(|line| line["response"]["body"]["id"].as_str().expect("a job").to_owned())
        .collect();
    assert_eq!((results.len(), jobs.len()), (300, 300));
}

/// Sends a request head and these bytes of its body, and leaves the connection open.
fn send_partially(server: &Server, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("connects");
    stream.write_all(format!("{head}\r\nhost: localhost\r\n\r\n").as_bytes()).expect("sends");
    stream.write_all(body).expect("sends");
    stream
}

#[test]
fn an_incomplete_upload_creates_no_batch() {
    let server = Server::start();
    let body = lines(2_000);
    let half = body.as_bytes().split_at(body.len() / 2).0;
    drop(send_partially(
        &server,
        &format!("POST /v1/batches HTTP/1.1\r\ncontent-length: {}", body.len()),
        half,
    ));
    let whole = submit_batch(&server, "", &lines(1));
    wait(&server, &whole);
    assert_eq!(server.get("/v1/batches").json()["data"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/v1/jobs").json()["data"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_put_upload_gets_100_continue_as_curl_expects() {
    let server = Server::start();
    let body = lines(3);
    let head = format!("PUT /v1/batches HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}", body.len());
    let mut stream = send_partially(&server, &head, b"");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer");
    assert!(line.starts_with("HTTP/1.1 100"), "{line}");
    stream.write_all(body.as_bytes()).expect("sends");
    reader.read_line(&mut line).expect("the blank line");
    line.clear();
    reader.read_line(&mut line).expect("an answer");
    assert!(line.starts_with("HTTP/1.1 202"), "{line}");
}

#[test]
fn a_client_that_reads_only_after_sending_gets_the_refusal() {
    let server = Server::start();
    let body = format!("{{\n{}", lines(300_000));
    let head = format!("POST /v1/batches HTTP/1.1\r\ncontent-length: {}", body.len());
    let mut answer = String::new();
    send_partially(&server, &head, body.as_bytes()).read_to_string(&mut answer).expect("an answer");
    assert!(body.len() > 10_000_000 && answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("line 1: "), "{answer}");
}

#[test]
fn an_idempotency_key_makes_one_batch_even_across_kill_9() {
    let server = Server::start();
    let post = |server: &Server, body: &str| {
        let head = format!(
            "POST /v1/batches HTTP/1.1\r\nconnection: close\r\nidempotency-key: k-1\r\ncontent-length: {}",
            body.len()
        );
        let mut answer = String::new();
        send_partially(server, &head, body.as_bytes()).read_to_string(&mut answer).expect("an answer");
        answer
    };
    let id_of = |answer: &str| {
        let json: Value =
            serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
        json["id"].as_str().map(str::to_owned)
    };
    let first = post(&server, &lines(5));
    assert!(!first.contains("idempotency-replayed"));
    let server = server.crash_and_restart("");
    let again = post(&server, &lines(5));
    assert!(again.contains("idempotency-replayed: true"), "{again}");
    assert_eq!(id_of(&first), id_of(&again));
    assert!(post(&server, &lines(6)).starts_with("HTTP/1.1 422"));
    assert_eq!(server.get("/v1/batches").json()["data"].as_array().map(Vec::len), Some(1));
}

#[test]
fn p8_a_large_batch_is_not_held_in_memory() {
    let server = Server::start();
    let filler = "x".repeat(20_000);
    let body = (0..3_000).fold(String::new(), |mut all, n| {
        let run_at = "2999-01-01T00:00:00Z";
        let line = json!({"custom_id": format!("n{n}"), "body": {"input": filler, "run_at": run_at}});
        writeln!(all, "{line}").expect("writes");
        all
    });
    let before = server.status_kb("VmHWM");
    let id = submit_batch(&server, "", &body);
    let grown_kb = server.status_kb("VmHWM") - before;
    assert!(grown_kb < 64 * 1024, "60 MB of lines cost {grown_kb} kB");
    assert_eq!(server.get(&format!("/v1/batches/{id}")).json()["request_counts"]["total"], 3_000);
}
