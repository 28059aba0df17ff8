//! MCP servers over HTTP: the current transport and the old one of server-sent events.

use super::{HttpFake, call, call_one, calling_model, start, wait_for_tools, wait_until};
use serde_json::json;

#[test]
fn mcp_servers_work_over_http_with_json_and_sse_responses() {
    let upstream = calling_model();
    let (json_fake, sse_fake) = (HttpFake::start("json"), HttpFake::start("sse"));
    let auth = "headers: {Authorization: Bearer sk-fake-123}, timeout_s: 2";
    let moved = json_fake.1.replace("/mcp", "/moved");
    let servers = format!(
        "  json: {{url: '{}', {auth}}}\n  sse: {{url: '{}', {auth}}}\n  nobody: {{url: '{}'}}\n  moved: {{url: '{moved}'}}\n",
        json_fake.1, sse_fake.1, json_fake.1
    );
    let server = start(&upstream, &servers);
    for name in ["json", "sse"] {
        wait_for_tools(&server, name);
        let results = call(
            &server,
            &[
                (&format!("mcp_{name}_echo"), json!({"text": "over HTTP"})),
                (&format!("mcp_{name}_get_sum"), json!({"a": 1})),
                (&format!("mcp_{name}_fail"), json!({})),
            ],
        );
        assert_eq!((&results[0]["data"], &results[1]["data"]), (&json!("over HTTP"), &json!({"sum": 1})));
        assert_eq!(results[2]["error"], "no such thing");
        let ended = call_one(&server, &format!("mcp_{name}_die"), json!({}));
        assert!(ended["error"].as_str().expect("an error").contains("HTTP 500"), "{ended}");
        wait_until(&server, "a session that the server lost is opened again", || {
            call_one(&server, &format!("mcp_{name}_echo"), json!({"text": "again"}))["data"] == "again"
        });
    }
    let timed_out = call_one(&server, "mcp_sse_hang", json!({}));
    assert_eq!(timed_out["error"], "the MCP server 'sse' gave no answer within 2 s", "{timed_out}");
    for message in ["HTTP 401; put what it wants", "HTTP 307; redirects are not followed"] {
        wait_until(&server, message, || server.log().contains(message));
    }
    assert!(!server.log().contains("sk-fake-123"), "P9");
}

#[test]
fn mcp_servers_of_the_old_sse_transport_work_with_and_without_their_type() {
    let upstream = calling_model();
    let old = HttpFake::start("old");
    let servers = format!("  typed: {{type: sse, url: '{}'}}\n  untyped: {{url: '{}'}}\n", old.1, old.1);
    let server = start(&upstream, &servers);
    for name in ["typed", "untyped"] {
        wait_for_tools(&server, name);
        let echoed = call_one(&server, &format!("mcp_{name}_echo"), json!({"text": "old but alive"}));
        assert_eq!(echoed["data"], "old but alive", "{echoed}");
    }
}
