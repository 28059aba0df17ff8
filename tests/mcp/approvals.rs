//! Approvals of MCP calls through `/v1/responses`: asked for by the client or by the configuration, granted
//! and denied, after a crash, in chains and in conversations.

use super::fake;
use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Reply, Server, against, wait_until};
use serde_json::{Value, json};

/// A model that calls `echo` once for each question, and says how many results it has read.
fn model() -> Upstream {
    Upstream::start(|request, _| {
        let messages = request["messages"].as_array().expect("messages");
        let is_answered = messages.last().is_some_and(|last| last["role"] == "tool");
        let results = tool_results(request);
        if is_answered {
            let last =
                results.last().and_then(|result| result["content"].as_str()).expect("a result").to_owned();
            return Answer::text(&format!("{} results, the last: {last}", results.len()));
        }
        Answer::calls(&[("mcp_fake_echo", json!({"text": "hi"}))])
    })
}

fn config(upstream: &Upstream, more: &str) -> String {
    against(upstream, &format!("{more}\nmcp_servers:\n{}", fake("fake", "normal", "")))
}

fn start(config: &str) -> Server {
    let server = Server::start_with(config);
    wait_for_echo(&server);
    server
}

fn wait_for_echo(server: &Server) {
    wait_until("the tool is offered", || server.get("/v1/tools").body.contains("mcp_fake_echo"));
}

fn respond(server: &Server, approval: &Value, fields: &Value) -> Reply {
    let tool = json!({"type": "mcp", "server_label": "fake", "require_approval": approval});
    let mut body = json!({"model": "scripted", "tools": [tool]});
    body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    server.post("/v1/responses", &body)
}

/// The items of an answered response, without the list of tools that it may begin with.
fn output(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    let response = reply.json();
    assert_eq!(response["status"], "completed", "{response}");
    let items = response["output"].as_array().expect("items").iter();
    items.filter(|item| item["type"] != "mcp_list_tools").cloned().collect()
}

fn decision(request: &Value, approve: bool) -> Value {
    json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve,
        "reason": "not today"}])
}

fn text(items: &[Value]) -> String {
    items.last().expect("an item")["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn an_approved_call_runs_once_in_the_next_response_after_a_crash() {
    let upstream = model();
    let config = config(&upstream, "");
    let server = start(&config);
    let first = respond(&server, &json!("always"), &json!({"input": "go"}));
    let asked = output(&first);
    let request = &asked[0];
    assert_eq!(
        (&request["type"], &request["server_label"], &request["name"]),
        (&json!("mcp_approval_request"), &json!("fake"), &json!("echo"))
    );
    assert_eq!((asked.len(), &request["arguments"]), (1, &json!("{\"text\":\"hi\"}")));
    let server = server.crash_and_restart(&config);
    wait_for_echo(&server);
    let previous = first.json()["id"].clone();
    let decided = json!({"input": decision(request, true), "previous_response_id": previous});
    let second = respond(&server, &json!("always"), &decided);
    let items = output(&second);
    assert_eq!(
        (&items[0]["type"], &items[0]["server_label"], &items[0]["name"], &items[0]["approval_request_id"]),
        (&json!("mcp_call"), &json!("fake"), &json!("echo"), &request["id"])
    );
    assert!(items[0]["output"].as_str().is_some_and(|output| output.contains("hi")), "{items:?}");
    assert!(text(&items).starts_with("1 results"), "{items:?}");
    let sent = upstream.requests().pop().expect("a request");
    let roles: Vec<&Value> =
        sent["messages"].as_array().expect("messages").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"], "{sent}");
    // What was streamed has the same numbers whenever it is read.
    let id = second.json()["id"].as_str().expect("an id").to_owned();
    let streamed = server.get(&format!("/v1/responses/{id}?stream=true")).body;
    let numbers = streamed.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok());
    let numbers: Vec<usize> = numbers.collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    let third = respond(&server, &json!("never"), &json!({"input": "again", "previous_response_id": id}));
    assert!(text(&output(&third)).starts_with("2 results"), "never asks: {}", third.body);
}

#[test]
fn a_denied_call_never_runs_and_the_model_reads_why() {
    let upstream = model();
    let server = start(&config(&upstream, "approval: [mcp_fake_echo]"));
    let first = respond(&server, &Value::Null, &json!({"input": "go"}));
    let request = output(&first).remove(0);
    assert_eq!(request["type"], "mcp_approval_request", "the configuration asks");
    let decided = json!({"input": decision(&request, false), "previous_response_id": first.json()["id"]});
    let items = output(&respond(&server, &Value::Null, &decided));
    assert_eq!((&items[0]["type"], &items[0]["status"]), (&json!("mcp_call"), &json!("failed")));
    assert!(text(&items).contains("denied: not today"), "{items:?}");
    // A client that names no server knows of no approvals.
    let headers = [("nanoclaw-tools", "mcp_fake_echo"), ("content-type", "application/json")];
    let body = json!({"model": "scripted", "input": "go"}).to_string();
    let reply = server.request(("POST", "/v1/responses"), &headers, &body);
    assert!(text(&output(&reply)).contains("denied"), "{}", reply.body);
}

#[test]
fn approvals_work_in_conversations_and_in_lists_of_items() {
    let upstream = model();
    let server = start(&config(&upstream, ""));
    let conversation = server.post("/v1/conversations", &json!({})).json()["id"].clone();
    let always = json!({"always": {"tool_names": ["echo"]}});
    let first = respond(&server, &always, &json!({"input": "go", "conversation": conversation}));
    let request = output(&first).remove(0);
    let decided = json!({"input": decision(&request, true), "conversation": conversation});
    assert!(text(&output(&respond(&server, &always, &decided))).starts_with("1 results"));
    let again = json!({"input": "again", "conversation": conversation});
    respond(&server, &json!("never"), &again);
    let sent = upstream.requests().pop().expect("a request");
    assert_eq!(tool_results(&sent).len(), 2, "no result of a call that only asked: {sent}");
    let path = format!("/v1/conversations/{}/items?order=asc", conversation.as_str().expect("an id"));
    let listed = server.get(&path).json();
    let types: Vec<&Value> =
        listed["data"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
    let expected =
        ["message", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "message"];
    assert_eq!(types[..6], expected, "{listed}");
    // A client without a memory sends everything again: a decision that was acted on counts no more.
    let mut all = vec![json!({"role": "user", "content": "go"})];
    all.extend(listed["data"].as_array().expect("items")[1..6].iter().cloned());
    all.push(json!({"role": "user", "content": "once more"}));
    let reply = respond(&server, &json!("never"), &json!({"input": all}));
    assert!(text(&output(&reply)).starts_with("2 results"), "{}", reply.body);
}

#[test]
fn bad_decisions_are_refused_by_name() {
    let upstream = model();
    let server = start(&config(&upstream, ""));
    let first = respond(&server, &json!("always"), &json!({"input": "go"}));
    let request = output(&first).remove(0);
    let of = |item: Value| json!({"input": [item], "previous_response_id": first.json()["id"]});
    let id = request["id"].as_str().expect("an id");
    let kind = "mcp_approval_response";
    for (fields, param) in [
        (
            of(json!({"type": kind, "approval_request_id": "mcpr_x", "approve": true})),
            "input[0].approval_request_id",
        ),
        (
            of(json!({"type": kind, "approval_request_id": id.replace("mcpr", "msg"), "approve": true})),
            "input[0].approval_request_id",
        ),
        (of(json!({"type": kind, "approval_request_id": id})), "input[0].approve"),
        (json!({"input": "x", "store": false}), "store"),
    ] {
        let reply = respond(&server, &json!("always"), &fields);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{}", reply.body);
    }
    let reply = respond(&server, &json!("sometimes"), &json!({"input": "x"}));
    assert_eq!(reply.json()["error"]["param"], "tools[0].require_approval");
}

#[test]
fn a_request_is_answered_once_in_a_race_and_after_a_restart() {
    let upstream = model();
    let config = config(&upstream, "");
    let server = start(&config);
    let first = respond(&server, &json!("always"), &json!({"input": "go"}));
    let request = output(&first).remove(0);
    let previous = first.json()["id"].clone();
    let decided = json!({"input": decision(&request, true), "previous_response_id": previous});
    let asked = upstream.requests().len();
    let answers: Vec<Reply> = std::thread::scope(|scope| {
        let asked = || respond(&server, &json!("always"), &decided);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(asked)).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    let (ran, refused): (Vec<Reply>, Vec<Reply>) = answers.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((ran.len(), refused.len()), (1, 3), "P3: the call runs once");
    assert_eq!(output(&ran[0])[0]["type"], "mcp_call");
    let by = ran[0].json()["id"].as_str().expect("an id").to_owned();
    let is_refusal = |reply: &Reply| {
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["code"]), (400, &json!("approval_already_answered")), "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(&by)), "{error} names {by}");
    };
    refused.iter().for_each(is_refusal);
    assert_eq!(upstream.requests().len(), asked + 1, "one answer of the model");
    let server = server.crash_and_restart(&config);
    wait_for_echo(&server);
    is_refusal(&respond(&server, &json!("always"), &decided));
    // Another answer is no first one either, and neither is one without the earlier response.
    let denied = json!({"input": decision(&request, false), "previous_response_id": previous});
    is_refusal(&respond(&server, &json!("always"), &denied));
    is_refusal(&respond(&server, &json!("always"), &json!({"input": decision(&request, true)})));
    // The answer may be deleted; it has run.
    assert_eq!(server.request(("DELETE", &format!("/v1/responses/{by}")), &[], "").status, 200);
    is_refusal(&respond(&server, &json!("always"), &decided));
}

#[test]
fn a_repeated_request_with_a_key_gets_the_first_answer() {
    let upstream = model();
    let server = start(&config(&upstream, ""));
    let first = respond(&server, &json!("always"), &json!({"input": "go"}));
    let request = output(&first).remove(0);
    let tool = json!({"type": "mcp", "server_label": "fake", "require_approval": "always"});
    let body = json!({"model": "scripted", "tools": [tool], "input": decision(&request, true),
        "previous_response_id": first.json()["id"]});
    let headers = [("idempotency-key", "once"), ("content-type", "application/json")];
    let ask = || server.request(("POST", "/v1/responses"), &headers, &body.to_string());
    let (one, two) = (ask(), ask());
    assert_eq!((one.status, two.status), (200, 200), "{}", two.body);
    assert_eq!(one.json()["id"], two.json()["id"]);
}
