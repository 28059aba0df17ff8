//! Custom tools of the client in `/v1/responses`: free text in place of arguments.

use crate::support::Server;
use crate::support::upstream::{Answer, Upstream, tool_results};
use serde_json::{Value, json};

const RESPONSES: &str = "/v1/responses";
const PATCH: &str = "*** Begin Patch\n+é\n*** End Patch";

fn editing() -> Upstream {
    Upstream::start(|request, _| match tool_results(request).as_slice() {
        [] => Answer::calls(&[("apply_patch", json!({"input": PATCH}))]),
        results => Answer::text(&format!("{} results: {}", results.len(), results[0]["content"])),
    })
}

fn tools() -> Value {
    let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: PATCH"});
    json!([{"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": format}])
}

fn ask(fields: &Value) -> Value {
    let mut body = json!({"model": "scripted", "input": "go", "tools": tools()});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[test]
fn a_custom_tool_is_called_with_text_and_its_output_continues() {
    let upstream = editing();
    let server = Server::start_against(&upstream, "");
    let reply =
        server.post(RESPONSES, &ask(&json!({"tool_choice": {"type": "custom", "name": "apply_patch"}})));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let first = reply.json();
    let call = &first["output"][0];
    assert_eq!(
        (&call["type"], &call["name"], &call["input"]),
        (&json!("custom_tool_call"), &json!("apply_patch"), &json!(PATCH))
    );
    assert!(call["id"].as_str().is_some_and(|id| id.starts_with("ctc_")), "{call}");
    assert_eq!(first["tools"], tools());
    let sent = &upstream.requests()[0];
    let function = &sent["tools"][0]["function"];
    assert_eq!(function["parameters"]["required"], json!(["input"]));
    assert_eq!(
        function["description"],
        "Edits files.\n\n'input' must match this lark grammar:\n\nstart: PATCH"
    );
    assert_eq!(sent["tool_choice"]["function"]["name"], "apply_patch");

    let output = json!({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"});
    let question = json!({"role": "user", "content": "go"});
    for body in [
        ask(&json!({"previous_response_id": first["id"], "input": [output]})),
        ask(&json!({"store": false, "input": [question, call, output]})),
        ask(
            &json!({"previous_response_id": first["id"], "input": [{"type": "custom_tool_call_output", "call_id": call["call_id"], "output": [{"type": "input_text", "text": "done"}]}]}),
        ),
    ] {
        let second = server.post(RESPONSES, &body).json();
        assert_eq!(second["output"][0]["content"][0]["text"], "1 results: \"done\"", "{second}");
        let sent = upstream.requests().pop().expect("a request");
        let calls = sent["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .filter_map(|m| m["tool_calls"][0]["function"].as_object());
        let arguments: Vec<&Value> = calls.map(|function| &function["arguments"]).collect();
        assert_eq!(arguments, [&json!(json!({"input": PATCH}).to_string())]);
    }
    let refused = server.post(RESPONSES, &ask(&json!({"input": [question, call]}))).json();
    let text =
        format!("No tool output found for custom tool call {}.", call["call_id"].as_str().expect("an id"));
    assert_eq!(refused["error"]["message"], text);
}

#[test]
fn a_stream_has_the_input_of_a_custom_tool_in_events_of_its_own() {
    let server = Server::start_against(&editing(), "");
    let body = server.post(RESPONSES, &ask(&json!({"stream": true}))).body;
    let frames: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    let of = |kind: &str| {
        frames.iter().find(|frame| frame["type"] == kind).unwrap_or_else(|| panic!("{kind}: {body}"))
    };
    let added = &of("response.output_item.added")["item"];
    assert_eq!(
        (&added["type"], &added["input"], &added["status"]),
        (&json!("custom_tool_call"), &json!(""), &json!("in_progress"))
    );
    let (delta, done) =
        (of("response.custom_tool_call_input.delta"), of("response.custom_tool_call_input.done"));
    assert_eq!((&delta["delta"], &done["input"]), (&json!(PATCH), &json!(PATCH)));
    assert_eq!((&delta["item_id"], &done["output_index"]), (&added["id"], &json!(0)));
    assert_eq!(of("response.output_item.done")["item"]["input"], PATCH);
}

#[test]
fn a_custom_tool_continues_in_a_conversation() {
    let upstream = editing();
    let server = Server::start_against(&upstream, "");
    let conversation = server.post("/v1/conversations", &json!({})).json()["id"].clone();
    let first = server.post(RESPONSES, &ask(&json!({"conversation": conversation}))).json();
    let output = json!({"type": "custom_tool_call_output", "call_id": first["output"][0]["call_id"], "output": "done"});
    let second =
        server.post(RESPONSES, &ask(&json!({"conversation": conversation, "input": [output]}))).json();
    assert_eq!(second["output"][0]["content"][0]["text"], "1 results: \"done\"", "{second}");
    let items = server
        .get(&format!("/v1/conversations/{}/items?order=asc", conversation.as_str().expect("an id")))
        .json();
    let kinds: Vec<&Value> =
        items["data"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "custom_tool_call", "custom_tool_call_output", "message"]);
    assert!(items["data"][2]["id"].as_str().is_some_and(|id| id.starts_with("ctco_")), "{items}");
}

#[test]
fn commands_that_a_client_ran_are_history() {
    let upstream = Upstream::start(|_, _| Answer::text("ok"));
    let server = Server::start_against(&upstream, "");
    let action = json!({"type": "exec", "command": ["ls", "-l"], "env": {}});
    let call = json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed", "action": action});
    for name in ["id", "call_id"] {
        let mut output = json!({"type": "local_shell_call_output", "output": "a.txt"});
        output[name] = "call_1".into();
        let input =
            json!([{"role": "user", "content": "go"}, call, output, {"role": "user", "content": "and?"}]);
        let reply = server.post(RESPONSES, &json!({"model": "scripted", "input": input}));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let sent = upstream.requests().pop().expect("a request");
        let function = &sent["messages"][1]["tool_calls"][0]["function"];
        assert_eq!(
            (&function["name"], &function["arguments"]),
            (&json!("bash"), &json!("{\"command\":\"ls -l\"}"))
        );
        assert_eq!(sent["messages"][2]["content"], "a.txt");
    }
}

#[test]
fn formats_and_names_are_checked() {
    let server = Server::start();
    for (tool, param) in [
        (json!({"type": "custom", "name": "a b"}), "tools[0].name"),
        (json!({"type": "custom", "name": "a", "format": {"type": "json"}}), "tools[0].format.type"),
        (json!({"type": "custom", "name": "a", "format": {"type": "grammar"}}), "tools[0].format.syntax"),
        (json!({"type": "custom", "name": "a", "parameters": {}}), "tools[0].parameters"),
    ] {
        let refused = server.post(RESPONSES, &json!({"model": "demo", "input": "x", "tools": [tool]})).json();
        assert_eq!(refused["error"]["param"], param, "{refused}");
    }
}
