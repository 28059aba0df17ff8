//! Jobs through MCP.

use super::{McpClient, request};
use crate::support::Server;
use serde_json::{Value, json};

#[test]
fn a_job_is_submitted_followed_and_read() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let input = "tool: calculator {\"expression\": \"6*7\"}";
    let job = client.done("submit_job", &json!({"input": input, "metadata": {"from": "mcp"}}));
    let id = job["id"].as_str().expect("an id").to_owned();
    let ended = client.done("wait_job", &json!({"job_id": id, "timeout_s": 30}));
    assert_eq!(
        (&ended["status"], &ended["metadata"]["from"]),
        (&json!("succeeded"), &json!("mcp")),
        "{ended}"
    );
    assert!(ended["output_text"].as_str().is_some_and(|text| text.contains("42")), "{ended}");
    assert_eq!(ended, server.get(&format!("/v1/jobs/{id}")).json(), "the same object as over HTTP");
    let page = client.done("job_events", &json!({"job_id": id, "limit": 2}));
    assert_eq!(
        (page["events"].as_array().map(Vec::len), &page["has_more"]),
        (Some(2), &json!(true)),
        "{page}"
    );
    let mut events = page["events"].as_array().expect("events").clone();
    let mut after = page["last_event_id"].clone();
    loop {
        let page = client.done("job_events", &json!({"job_id": id, "after": after}));
        events.extend(page["events"].as_array().expect("events").clone());
        after = page["last_event_id"].clone();
        if page["has_more"] == false {
            break;
        }
    }
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["id"].as_u64()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "no event is missing or twice");
    assert_eq!(events.last().map(|event| event["event"].clone()), Some(json!("done")));
}

#[test]
fn waiting_ends_with_its_time_and_a_job_can_be_cancelled() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let command = "tool: bash {\"command\": \"sleep 600\", \"timeout\": 600}";
    let id = client.done("submit_job", &json!({"input": command}))["id"].clone();
    let waited = client.done("wait_job", &json!({"job_id": id, "timeout_s": 1}));
    assert!(matches!(waited["status"].as_str(), Some("queued" | "running")), "{waited}");
    let params = json!({"name": "wait_job", "arguments": {"job_id": id, "timeout_s": 3}, "_meta": {"progressToken": 4}});
    let reply = client.send(&request(50, "tools/call", &params));
    assert!(reply.body.contains("\"progressToken\":4") && reply.body.contains("\"id\":50"), "{}", reply.body);
    client.done("cancel_job", &json!({"job_id": id}));
    let ended = client.done("wait_job", &json!({"job_id": id, "timeout_s": 30}));
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(client.done("cancel_job", &json!({"job_id": id}))["status"], "cancelled", "again");
}

#[test]
fn bad_arguments_of_job_tools_are_named() {
    let server = Server::start_with("limits: {wait_s: 20}\n");
    let client = McpClient::open(&server);
    let unknown = "job_00000000000000000000000000";
    for (tool, arguments, message) in [
        ("submit_job", json!({}), "'input' is missing"),
        ("submit_job", json!({"input": "x", "modle": "demo"}), "did you mean 'model'?"),
        ("submit_job", json!({"input": "x", "idempotency_key": ""}), "1 to 255 characters"),
        ("submit_job", json!({"input": "x", "idempotency_key": 7}), "'idempotency_key' must be a string"),
        ("wait_job", json!({"job_id": unknown}), "no such job"),
        ("wait_job", json!({"job_id": "../x"}), "no such job"),
        ("wait_job", json!({"job_id": unknown, "timeout_s": 21}), "from 0 to 20"),
        ("wait_job", json!({"job_id": unknown, "timeout": 1}), "unknown field"),
        ("job_events", json!({"job_id": unknown, "limit": 0}), "'limit'"),
        ("job_events", json!({"job_id": unknown}), "no such job"),
        ("cancel_job", json!({"job_id": unknown}), "no such job"),
        ("cancel_job", json!({}), "'job_id' is missing"),
    ] {
        let told = client.failed(tool, &arguments);
        assert!(told.contains(message), "{tool} {arguments}: {told}");
    }
}

#[test]
fn a_repeated_idempotency_key_is_the_same_job() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let id = |input: &str| client.call("submit_job", &json!({"input": input, "idempotency_key": "k"}));
    let (first, again) = (id("one"), id("one"));
    assert_eq!(first["structuredContent"]["id"], again["structuredContent"]["id"]);
    assert_eq!(id("two")["isError"], true, "another job under the same key");
    let jobs: Value = server.get("/v1/jobs").json();
    assert_eq!(jobs["data"].as_array().map(Vec::len), Some(1));
}
