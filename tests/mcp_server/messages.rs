//! Messages, sessions and headers of `/mcp`.

use super::{McpClient, VERSION, initialize, request};
use crate::support::Server;
use serde_json::{Value, json};

#[test]
fn a_client_gets_a_session_and_learns_what_the_server_has() {
    let server = Server::start();
    let client = McpClient::unopened(&server, None);
    for (asked, given) in [("2025-06-18", "2025-06-18"), (VERSION, VERSION), ("1999-01-01", VERSION)] {
        let reply = client.send(&initialize(asked));
        let session = reply.header("mcp-session-id").expect("a session").to_owned();
        assert!(session.len() >= 32 && session.bytes().all(|byte| byte.is_ascii_graphic()), "{session}");
        let result = &reply.json()["result"];
        assert_eq!(result["protocolVersion"], given, "{result}");
        assert_eq!(result["capabilities"], json!({"tools": {}, "resources": {}}));
        assert_eq!(result["serverInfo"]["name"], "nanoclaw");
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("submit_job")));
    }
    let client = McpClient::open(&server);
    assert_eq!(client.result("ping", &json!({})), json!({}));
}

#[test]
fn methods_of_capabilities_that_the_server_does_not_have_are_unknown() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let methods = [
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("logging/setLevel", json!({"level": "info"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
        ),
        ("resources/subscribe", json!({"uri": "nanoclaw://jobs/x"})),
        ("tasks/list", json!({})),
    ];
    for (method, params) in methods {
        let unknown = client.error(method, &params);
        assert_eq!(unknown["code"], -32_601, "{method}: {unknown}");
        assert!(unknown["message"].as_str().is_some_and(|text| text.contains(method)), "{unknown}");
    }
}

#[test]
fn bodies_that_are_no_message_are_refused() {
    let server = Server::start_with("limits: {body_bytes: 4096}\n");
    let client = McpClient::open(&server);
    let send = |body: &str| {
        let reply = server.request(("POST", "/mcp"), &client.headers(), body);
        (reply.status, reply.json()["error"]["code"].clone())
    };
    let batch = json!([request(1, "ping", &json!({})), request(2, "ping", &json!({}))]).to_string();
    for (body, code) in [
        ("{", -32_700),
        (batch.as_str(), -32_600),
        (r#"{"id":1,"method":"ping"}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32_600),
    ] {
        assert_eq!(send(body), (400, json!(code)), "{body}");
    }
    let large = request(1, "ping", &json!({"pad": "x".repeat(5_000)})).to_string();
    assert_eq!(send(&large), (413, json!("body_too_large")));
    let form = [("content-type", "text/plain")];
    let reply = server.request(("POST", "/mcp"), &form, &request(1, "ping", &json!({})).to_string());
    assert_eq!(reply.status, 415, "{}", reply.body);
    let refused = client.error("tools/call", &json!({"arguments": {}}));
    assert_eq!((&refused["code"], &refused["data"]["param"]), (&json!(-32_602), &json!("name")), "{refused}");
    assert_eq!(client.error("tools/call", &json!({"name": "nothing"}))["code"], -32_602);
}

#[test]
fn a_client_of_a_version_with_batches_sends_many_messages_at_once() {
    let server = Server::start();
    let mut client = McpClient::unopened(&server, None);
    let reply = client.send(&initialize("2025-03-26"));
    assert_eq!(reply.json()["result"]["protocolVersion"], "2025-03-26");
    client.session = reply.header("mcp-session-id").map(str::to_owned);
    let session = client.session.clone().expect("a session");
    let headers = [("content-type", "application/json"), ("mcp-session-id", session.as_str())];
    let send = |messages: &Value| server.request(("POST", "/mcp"), &headers, &messages.to_string());
    let code = json!({"code": "print(6 * 7)"});
    let reply = send(&json!([
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(1, "tools/call", &json!({"name": "run_python", "arguments": code})),
        {"jsonrpc": "2.0", "id": 2},
        request(3, "no/such", &json!({})),
        initialize("2025-03-26"),
        request(1, "ping", &json!({})),
    ]));
    let replies = reply.json();
    assert_eq!((reply.status, replies.as_array().map(Vec::len)), (200, Some(5)), "{replies}");
    assert!(replies[0]["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("42")));
    let codes: Vec<&Value> =
        replies.as_array().expect("an array").iter().map(|r| &r["error"]["code"]).collect();
    let refused = json!(-32_600);
    assert_eq!(codes, [&Value::Null, &refused, &json!(-32_601), &refused, &refused], "{replies}");
    assert_eq!((&replies[1]["id"], &replies[2]["id"]), (&json!(2), &json!(3)));
    let notified = send(&json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]));
    assert_eq!((notified.status, notified.body.as_str()), (202, ""));
    assert_eq!(send(&json!([])).status, 400);
}

#[test]
fn p8_each_message_of_a_batch_counts_as_a_request() {
    let server = Server::start_with("auth_mode: multi\nlimits: {user_requests_per_minute: 8}\n");
    let body = json!({"username": "ann", "password": "ann-ann-ann"});
    let token = server.register(&body).json()["data"]["token"].to_string();
    let token = format!("Bearer {}", token.trim_matches('"'));
    let send = |headers: &[(&str, &str)], body: &Value| {
        let own = [("authorization", token.as_str()), ("content-type", "application/json")];
        server.request(("POST", "/mcp"), &[&own, headers].concat(), &body.to_string())
    };
    let session = send(&[], &initialize("2025-03-26"));
    let session = session.header("mcp-session-id").expect("a session").to_owned();
    let pings: Vec<Value> = (1..=12).map(|id| request(id, "ping", &json!({}))).collect();
    let replies = send(&[("mcp-session-id", &session)], &json!(pings)).json();
    let is_done = |reply: &&Value| reply.get("result").is_some();
    let done = replies.as_array().expect("replies").iter().filter(is_done).count();
    assert!((1..=7).contains(&done), "{replies}");
    let last = &replies[11]["error"];
    assert!(last["message"].to_string().contains("user_requests_per_minute"), "{replies}");
}

#[test]
fn an_unknown_or_ended_session_is_a_404() {
    let server = Server::start();
    let mut client = McpClient::open(&server);
    let ping = request(1, "ping", &json!({}));
    assert_eq!(server.request(("DELETE", "/mcp"), &client.headers(), "").status, 204);
    assert_eq!(client.send(&ping).status, 404, "the session has ended");
    assert_eq!(server.request(("DELETE", "/mcp"), &client.headers(), "").status, 404);
    client.session = Some("0".repeat(32));
    assert_eq!(client.send(&ping).status, 404, "there was no such session");
    client.session = None;
    assert_eq!(client.send(&ping).status, 200, "a request needs no session");
    assert_eq!(server.request(("DELETE", "/mcp"), &client.headers(), "").status, 400);
}

#[test]
fn the_headers_of_a_request_are_checked() {
    let server = Server::start();
    let ping = request(1, "ping", &json!({})).to_string();
    let send = |name: &str, value: &str| {
        let headers = [("content-type", "application/json"), (name, value)];
        server.request(("POST", "/mcp"), &headers, &ping).status
    };
    assert_eq!(send("mcp-protocol-version", "2025-06-18"), 200);
    assert_eq!(send("mcp-protocol-version", "2099-01-01"), 400);
    assert_eq!(send("origin", "http://evil.example"), 403);
    assert_eq!(send("host", "evil.example"), 403);
    let reply = server.get_with("/mcp", &[("accept", "text/event-stream")]);
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("POST, DELETE, OPTIONS")),
        "no stream of its own"
    );
}

#[test]
fn the_mcp_server_can_be_switched_off() {
    let server = Server::start_with("mcp_server: {enabled: false}\n");
    let client = McpClient::unopened(&server, None);
    assert_eq!(client.send(&initialize(VERSION)).status, 404);
    assert_eq!(server.request(("DELETE", "/mcp"), &client.headers(), "").status, 404);
}

#[test]
fn every_tool_has_schemas_and_says_what_it_does() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let list = client.result("tools/list", &json!({}));
    let names =
        ["run_shell", "run_javascript", "run_python", "submit_job", "wait_job", "job_events", "cancel_job"];
    let mut listed = client.tools();
    let mut expected = names.map(str::to_owned);
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    for tool in list["tools"].as_array().expect("tools") {
        let is_text = |name: &str| tool[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_text("title") && is_text("description"), "{tool}");
        assert!(
            tool["inputSchema"]["type"] == "object" && tool["outputSchema"]["type"] == "object",
            "{tool}"
        );
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
    }
    assert_eq!(list["nextCursor"], Value::Null);
    assert_eq!(client.error("tools/list", &json!({"cursor": "x"}))["code"], -32_602);
}
