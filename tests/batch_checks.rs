//! `POST /v1/batches?dry_run=true`: the faults of an upload by line, and nothing is stored.

use crate::support::Server;
use serde_json::{Value, json};

fn line(id: &str, body: &Value) -> String {
    json!({"custom_id": id, "body": body}).to_string()
}

fn check(server: &Server, lines: &str) -> Value {
    let reply = server.post_text("/v1/batches?dry_run=true", lines);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

/// Line, code, parameter and custom id of each fault.
fn faults(check: &Value) -> Vec<(Value, Value, Value, Value)> {
    let of = |fault: &Value| {
        let member = |name: &str| fault[name].clone();
        (member("line"), member("code"), member("param"), member("custom_id"))
    };
    check["faults"].as_array().expect("faults").iter().map(of).collect()
}

fn assert_nothing_stored(server: &Server) {
    assert_eq!(server.get("/v1/batches").json()["data"], json!([]));
    assert_eq!(server.get("/v1/jobs").json()["data"], json!([]));
}

#[test]
fn a_dry_run_lists_the_faults_of_all_lines_and_stores_nothing() {
    let server = Server::start();
    let lines = [
        line("a", &json!({"input": "x"})),
        "{".to_owned(),
        String::new(),
        line("a", &json!({"input": "x"})),
        line("d", &json!({"input": "x", "model": "nope"})),
        line("e", &json!({"input": "x", "priority": 10})),
        json!({"custom_id": "f", "url": "/v1/chat/completions", "body": {"model": "demo"}}).to_string(),
        line("g", &json!({"input": "x"})),
    ]
    .join("\n");
    let checked = check(&server, &lines);
    assert_eq!((&checked["object"], &checked["faults_cut"]), (&json!("batch.check"), &json!(false)));
    assert_eq!((&checked["lines"], &checked["valid"]), (&json!(7), &json!(2)), "{checked}");
    let fault = |line: u64, code: &str, param: Value, id: Value| (json!(line), json!(code), param, id);
    let expected = [
        fault(2, "invalid_request", Value::Null, Value::Null),
        fault(4, "invalid_value", json!("custom_id"), json!("a")),
        fault(5, "model_not_found", json!("model"), json!("d")),
        fault(6, "invalid_value", json!("priority"), json!("e")),
        fault(7, "invalid_value", json!("messages"), json!("f")),
    ];
    assert_eq!(faults(&checked), expected, "{checked}");
    // The words are those of an upload, which adds the number of the line.
    let refused = server.post_text("/v1/batches", &lines).json()["error"]["message"].clone();
    let first = checked["faults"][0]["message"].as_str().expect("a message");
    assert_eq!(refused, format!("line 2: {first}"));
    let fine = check(&server, &line("a", &json!({"input": "x"})));
    assert_eq!(
        fine,
        json!({"object": "batch.check", "lines": 1, "valid": 1, "faults": [], "faults_cut": false})
    );
    assert_nothing_stored(&server);
}

#[test]
fn p8_a_dry_run_counts_limits_among_the_faults_and_bounds_their_number() {
    let server =
        Server::start_with("limits:\n  batch_lines: 150\n  batch_bytes: 100000\n  body_bytes: 60000\n");
    let bad = check(&server, &"nonsense\n".repeat(120));
    assert_eq!((&bad["lines"], &bad["valid"], &bad["faults_cut"]), (&json!(120), &json!(0), &json!(true)));
    assert_eq!(bad["faults"].as_array().map(Vec::len), Some(100));
    let good = |count: usize| {
        (0..count).map(|n| line(&n.to_string(), &json!({"input": "x"})) + "\n").collect::<String>()
    };
    let long = format!("{}{}", good(2), "x".repeat(60_001));
    let long = server.post_text("/v1/batches?dry_run=true", &format!("nonsense\n{long}")).json();
    assert_eq!((&long["lines"], &long["valid"]), (&json!(3), &json!(2)), "lines before it count: {long}");
    for (lines, word) in [
        (" \n\n".to_owned(), "the batch is empty"),
        (good(151), "limits.batch_lines"),
        ("\n".repeat(100_001), "limits.batch_bytes"),
        (format!("{}{}", good(1), "x".repeat(60_001)), "line 2 is longer than limits.body_bytes"),
    ] {
        let checked = check(&server, &lines);
        let fault = &checked["faults"][0];
        assert_eq!(fault["line"], Value::Null, "{checked}");
        assert!(fault["message"].as_str().is_some_and(|text| text.contains(word)), "{word}: {checked}");
    }
    for (query, param) in [("dry_run=1", "dry_run"), ("dry_run=true&concurrency=0", "concurrency")] {
        let reply = server.post_text(&format!("/v1/batches?{query}"), &good(1));
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{query}");
    }
    assert_nothing_stored(&server);
}

#[test]
fn a_dry_run_of_a_file_answers_with_its_faults_and_makes_no_failed_batch() {
    let server = Server::start();
    let chat = |id: &str| {
        let body = json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]});
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string()
    };
    let text = format!("{}\n{}\n", chat("a"), line("b", &json!({"input": "x"})));
    let part = |head: &str, content: &str| {
        format!("--b\r\ncontent-disposition: form-data; {head}\r\n\r\n{content}\r\n")
    };
    let form =
        part("name=\"purpose\"", "batch") + &part("name=\"file\"; filename=\"a.jsonl\"", &text) + "--b--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let file = server.request(("POST", "/v1/files"), &kind, &form).json()["id"].clone();
    let order =
        json!({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"});
    let reply = server.post("/v1/batches?dry_run=true", &order);
    let checked = reply.json();
    assert_eq!((reply.status, &checked["object"]), (200, &json!("batch.check")), "{checked}");
    assert_eq!((&checked["lines"], &checked["valid"]), (&json!(2), &json!(1)));
    assert_eq!(faults(&checked), [(json!(2), json!("invalid_value"), json!("url"), json!("b"))]);
    assert_nothing_stored(&server);
}

#[test]
fn a_dry_run_leaves_an_idempotency_key_to_the_upload() {
    let server = Server::start();
    let key = [("idempotency-key", "k")];
    let text = line("a", &json!({"input": "x"}));
    let dry = server.request(("POST", "/v1/batches?dry_run=true"), &key, &text);
    assert_eq!((dry.status, dry.header("idempotency-replayed")), (200, None), "{}", dry.body);
    let real = server.request(("POST", "/v1/batches"), &key, &text);
    assert_eq!((real.status, real.header("idempotency-replayed")), (202, None), "{}", real.body);
}
