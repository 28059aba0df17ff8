//! `mcp_list_tools` in responses: once for each label of a chain, with the same numbers whenever it is read.

use super::fake;
use crate::support::upstream::{Answer, Upstream};
use crate::support::{Reply, Server, against, wait_until};
use serde_json::{Value, json};

fn config(upstream: &Upstream) -> String {
    against(upstream, &format!("\nmcp_servers:\n{}", fake("fake", "normal", "")))
}

fn wait_for_tools(server: &Server) {
    wait_until("the tool is offered", || server.get("/v1/tools").body.contains("mcp_fake_echo"));
}

fn respond(server: &Server, fields: &Value) -> Reply {
    let mut body = json!({"model": "scripted", "input": "go"});
    body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    let reply = server.post("/v1/responses", &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

fn types(reply: &Reply) -> Vec<String> {
    let items = reply.json()["output"].as_array().expect("items").clone();
    items.iter().map(|item| item["type"].as_str().expect("a type").to_owned()).collect()
}

fn mcp() -> Value {
    json!([{"type": "mcp", "server_label": "fake", "require_approval": "never"}])
}

#[test]
fn the_tools_of_a_server_are_listed_before_the_first_call_of_the_model() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let config = config(&upstream);
    let server = Server::start_with(&config);
    wait_for_tools(&server);
    let streamed = respond(&server, &json!({"tools": mcp(), "stream": true})).body;
    let frames: Vec<Value> =
        streamed.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let kinds: Vec<&str> = frames.iter().filter_map(|frame| frame["type"].as_str()).collect();
    let begin = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
        "response.output_item.added",
    ];
    assert_eq!(kinds[..begin.len()], begin, "{streamed}");
    for (number, frame) in frames.iter().enumerate() {
        assert_eq!(frame["sequence_number"], number, "{frame}");
    }
    assert_eq!(frames[2]["item"]["tools"], json!([]), "the list is not there yet");
    let item = &frames[5]["item"];
    let id = item["id"].as_str().expect("an id");
    assert!(id.starts_with("mcpl_") && frames[3]["item_id"] == *id, "{item}");
    assert_eq!((&item["server_label"], &item["error"]), (&json!("fake"), &Value::Null), "{item}");
    let echo = item["tools"].as_array().expect("tools").iter().find(|tool| tool["name"] == "echo");
    let echo = echo.expect("echo is listed by its own name");
    assert_eq!(echo["input_schema"]["type"], "object", "{echo}");
    assert!(echo["description"].is_string() && echo["annotations"].is_null(), "{echo}");
    // The same numbers and items after a restart, also while the server of the tools is not there.
    let response = frames.last().expect("an end")["response"].clone();
    let path = format!("/v1/responses/{}", response["id"].as_str().expect("an id"));
    let server = server.crash_and_restart(&against(&upstream, ""));
    assert_eq!(server.get(&format!("{path}?stream=true")).body, streamed);
    assert_eq!(server.get(&path).json()["output"], response["output"]);
}

#[test]
fn a_label_is_listed_once_in_a_chain() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let server = Server::start_with(&config(&upstream));
    wait_for_tools(&server);
    let first = respond(&server, &json!({"tools": mcp()}));
    assert_eq!(types(&first), ["mcp_list_tools", "message"]);
    let second = respond(&server, &json!({"tools": mcp(), "previous_response_id": first.json()["id"]}));
    assert_eq!(types(&second), ["message"]);
    let third = respond(&server, &json!({"previous_response_id": second.json()["id"]}));
    let fourth = respond(&server, &json!({"tools": mcp(), "previous_response_id": third.json()["id"]}));
    assert_eq!(types(&fourth), ["message"], "a response without tools does not break the chain");
    let conversation = server.post("/v1/conversations", &json!({})).json()["id"].clone();
    let of_conversation = json!({"tools": mcp(), "conversation": conversation});
    assert_eq!(types(&respond(&server, &of_conversation)), ["mcp_list_tools", "message"]);
    assert_eq!(types(&respond(&server, &of_conversation)), ["message"]);
    // A client without a memory sends the list again.
    let mut items = first.json()["output"].as_array().expect("items").clone();
    items.push(json!({"role": "user", "content": "more"}));
    assert_eq!(types(&respond(&server, &json!({"tools": mcp(), "input": items}))), ["message"]);
    // Only what may be called is listed, and nothing if nothing may be.
    let some = json!([{"type": "mcp", "server_label": "fake", "allowed_tools": ["echo"]}]);
    let listed = respond(&server, &json!({"tools": some})).json()["output"][0]["tools"].clone();
    assert_eq!(listed.as_array().expect("tools").len(), 1, "{listed}");
    let none = respond(&server, &json!({"tools": mcp(), "tool_choice": "none"}));
    assert_eq!(types(&none), ["message"]);
}

#[test]
fn tool_choice_may_name_an_mcp_server_or_one_of_its_tools() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let server = Server::start_with(&config(&upstream));
    wait_for_tools(&server);
    let function = json!({"type": "function", "name": "own", "parameters": {"type": "object"}});
    let tools = json!([function, mcp()[0]]);
    let choice = json!({"type": "mcp", "server_label": "fake"});
    respond(&server, &json!({"tools": tools, "tool_choice": choice}));
    let named = json!({"type": "mcp", "server_label": "fake", "name": "echo"});
    respond(&server, &json!({"tools": tools, "tool_choice": named}));
    let sent = upstream.requests();
    let offered = sent[0]["tools"].as_array().expect("tools");
    let is_of_server =
        |tool: &Value| tool["function"]["name"].as_str().expect("a name").starts_with("mcp_fake_");
    assert!(offered.iter().all(is_of_server), "{offered:?}");
    assert_eq!(sent[0]["tool_choice"], "required");
    assert_eq!(sent[1]["tool_choice"]["function"]["name"], "mcp_fake_echo");
    for (label, name) in [("gone", json!(null)), ("fake", json!("gone"))] {
        let choice = json!({"type": "mcp", "server_label": label, "name": name});
        let body = json!({"model": "scripted", "input": "go", "tools": tools, "tool_choice": choice});
        let reply = server.post("/v1/responses", &body);
        assert_eq!(
            (reply.status, &reply.json()["error"]["param"]),
            (400, &json!("tool_choice")),
            "{}",
            reply.body
        );
    }
}
