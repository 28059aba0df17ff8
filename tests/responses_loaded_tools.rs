//! Tools that items of the input bring in `/v1/responses`, as Codex sends them.

use crate::support::Server;
use crate::support::upstream::{Answer, Upstream, tool_results};
use serde_json::{Value, json};

const RESPONSES: &str = "/v1/responses";

fn question() -> Value {
    json!({"role": "user", "content": "go"})
}

fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

#[test]
fn tools_of_an_item_are_offered_and_called_in_their_namespace() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => {
            Answer::calls(&[("functions__exec", json!({"input": "1+1"})), ("clock__sleep", json!({"ms": 1}))])
        }
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let sleep = json!({"type": "function", "name": "sleep", "description": "Waits.", "parameters": {"type": "object"}});
    let tools = json!([
        {"type": "namespace", "name": "functions", "description": "", "tools": [{"type": "custom", "name": "exec"}]},
        {"type": "namespace", "name": "clock", "description": "Time.", "tools": [sleep]},
    ]);
    let brings = json!({"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools});
    let ask = |input: Value| {
        let reasoning = json!({"effort": "low", "context": "all_turns"});
        json!({"model": "scripted", "store": false, "reasoning": reasoning, "input": input})
    };
    let reply = server.post(RESPONSES, &ask(json!([brings, question()])));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let first = reply.json();
    assert_eq!(offered(&upstream.requests()[0]), ["functions__exec", "clock__sleep"]);
    assert_eq!(first["tools"], json!([]), "what the request has under 'tools'");
    let (exec, sleep) = (&first["output"][0], &first["output"][1]);
    let named = |call: &Value| {
        [&call["type"], &call["namespace"], &call["name"]].map(|v| v.as_str().map(str::to_owned))
    };
    let texts = |texts: [&str; 3]| texts.map(|text| Some(text.to_owned()));
    assert_eq!(named(exec), texts(["custom_tool_call", "functions", "exec"]));
    assert_eq!(named(sleep), texts(["function_call", "clock", "sleep"]));
    let result = |kind: &str, call: &Value| json!({"type": kind, "call_id": call["call_id"], "output": "2"});
    let results = [result("custom_tool_call_output", exec), result("function_call_output", sleep)];
    let second =
        server.post(RESPONSES, &ask(json!([brings, question(), exec, sleep, results[0], results[1]])));
    assert_eq!(second.json()["output"][0]["content"][0]["text"], "2 results", "{}", second.body);
    let again = upstream.requests().pop().expect("a request");
    assert_eq!(again["messages"][1]["tool_calls"][0]["function"]["name"], "functions__exec");
}

#[test]
fn the_client_searches_for_tools_and_the_model_calls_what_it_found() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("tool_search", json!({"query": "mail"}))]),
        1 => Answer::calls(&[("mail__send", json!({"to": "ann"}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let search = json!({"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": schema});
    let pages = json!({"type": "web_search", "search_content_types": ["text", "image"]});
    let ask = |input: &[Value], stream: bool| {
        server.post(RESPONSES, &json!({"model": "scripted", "store": false, "stream": stream, "tools": [search, pages], "input": input}))
    };
    let streamed = ask(&[question()], true).body;
    let done = streamed.lines().filter_map(|line| line.strip_prefix("data: "));
    let done = done.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
    let mut done = done.filter(|event| event["type"] == "response.output_item.done");
    let call = done.next().unwrap_or_else(|| panic!("{streamed}"))["item"].clone();
    assert_eq!((&call["type"], &call["execution"]), (&json!("tool_search_call"), &json!("client")), "{call}");
    assert_eq!(call["arguments"], json!({"query": "mail"}));
    assert!(!streamed.contains("arguments.delta"), "{streamed}");
    let mailer =
        json!({"type": "function", "name": "send", "defer_loading": true, "parameters": {"type": "object"}});
    let mail = json!({"type": "namespace", "name": "mail", "description": "Mail.", "tools": [mailer]});
    let found = json!({"type": "tool_search_output", "call_id": call["call_id"], "execution": "client", "status": "completed", "tools": [mail]});
    let mut input = vec![question(), call, found];
    let second = ask(&input, false).json();
    let sent = upstream.requests().pop().expect("a request");
    assert_eq!(offered(&sent).last(), Some(&"mail__send"), "{sent}");
    assert_eq!(tool_results(&sent)[0]["content"], json!({"found": ["mail"]}).to_string());
    let call = &second["output"][0];
    assert_eq!((&call["namespace"], &call["name"]), (&json!("mail"), &json!("send")), "{second}");
    input.extend([
        call.clone(),
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sent"}),
    ]);
    // Another search finds the same.
    let mut twice = input.clone();
    twice.extend([1, 2].map(|at| {
        let mut item = input[at].clone();
        item["call_id"] = "call_other".into();
        item
    }));
    for (input, text) in [(&input, "2 results"), (&twice, "3 results")] {
        let reply = ask(input, false);
        assert_eq!(reply.json()["output"][0]["content"][0]["text"], text, "{}", reply.body);
    }
    let refused = ask(&input[..2], false).json();
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("No tool output found for tool search call")),
        "{refused}"
    );
    for (item, param) in [
        (json!({"type": "additional_tools", "tools": 7}), "input[1].tools"),
        (json!({"type": "tool_search_output", "tools": [7]}), "input.tools"),
        (json!({"type": "additional_tools", "tools": [{"type": "no_such"}]}), "input.tools.type"),
    ] {
        let reply = ask(&[question(), item], false);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{}", reply.body);
    }
    let hosted = json!({"model": "scripted", "input": "x", "tools": [{"type": "tool_search"}]});
    assert_eq!(server.post(RESPONSES, &hosted).json()["error"]["param"], "tools[0].execution");
}

/// The definition of a function.
fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

/// An item that brings these tools.
fn brings(tools: &[Value]) -> Value {
    json!({"type": "additional_tools", "role": "developer", "tools": tools})
}

#[test]
fn a_chain_of_responses_keeps_the_tools_that_its_items_have_brought() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("clock__sleep", json!({"ms": 1}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let ask = |previous: &Value, input: Value| {
        let body = json!({"model": "scripted", "previous_response_id": previous, "input": input});
        let reply = server.post(RESPONSES, &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    };
    let latest = || upstream.requests().pop().expect("a request");
    let clock =
        json!({"type": "namespace", "name": "clock", "description": "", "tools": [function("sleep")]});
    let custom = json!({"type": "custom", "name": "exec"});
    let first = ask(&Value::Null, json!([brings(&[clock.clone(), custom]), question()]));
    let call = &first["output"][0];
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "ok"});
    let second = ask(&first["id"], json!([result]));
    assert_eq!(second["output"][0]["content"][0]["text"], "1 results", "{second}");
    assert_eq!(offered(&latest()), ["clock__sleep", "exec"]);
    assert_eq!(second["tools"], json!([]), "what the request has under 'tools'");
    // The same tools once more, and one that is new.
    let third = ask(&second["id"], json!([brings(&[clock, function("look")]), question()]));
    assert_eq!(offered(&latest()), ["clock__sleep", "exec", "look"]);
    let given = json!({"model": "scripted", "previous_response_id": third["id"], "input": "x", "tools": [function("look")]});
    assert_eq!(server.post(RESPONSES, &given).status, 200);
    assert_eq!(offered(&latest()), ["look", "clock__sleep", "exec"], "a chain of three");
    let counted = server.post("/v1/responses/input_tokens", &given).json()["input_tokens"].as_u64();
    let mut alone = given;
    alone["previous_response_id"] = Value::Null;
    assert!(counted > server.post("/v1/responses/input_tokens", &alone).json()["input_tokens"].as_u64());
    // A call of an inherited tool has its namespace, after a restart, too.
    let server = server.crash_and_restart("");
    let shown = server.get(&format!("/v1/responses/{}", first["id"].as_str().expect("an id"))).json();
    assert_eq!(shown["output"][0]["namespace"], "clock", "{shown}");
}

#[test]
fn a_call_of_an_inherited_tool_is_the_clients() {
    let upstream = Upstream::start(|request, _| match request["messages"].as_array().map_or(0, Vec::len) {
        1 => Answer::text("hello"),
        _ => Answer::calls(&[("clock__sleep", json!({"ms": 1})), ("exec", json!({"input": "1+1"}))]),
    });
    let server = Server::start_against(&upstream, "");
    let clock =
        json!({"type": "namespace", "name": "clock", "description": "", "tools": [function("sleep")]});
    let tools = brings(&[clock, json!({"type": "custom", "name": "exec"})]);
    let first =
        server.post(RESPONSES, &json!({"model": "scripted", "input": [tools.clone(), question()]})).json();
    let body = json!({"model": "scripted", "previous_response_id": first["id"], "input": "go"});
    let second = server.post(RESPONSES, &body).json();
    let of = |response: &Value, index: usize| {
        let call = &response["output"][index];
        [call["type"].clone(), call["namespace"].clone(), call["name"].clone()]
    };
    assert_eq!(of(&second, 0), [json!("function_call"), json!("clock"), json!("sleep")], "{second}");
    assert_eq!(of(&second, 1)[0], "custom_tool_call", "{second}");
}

#[test]
fn a_conversation_keeps_the_tools_that_its_items_have_brought() {
    let upstream = Upstream::start(|_, _| Answer::text("fine"));
    let server = Server::start_against(&upstream, "");
    let conversation = server.post("/v1/conversations", &json!({})).json()["id"].clone();
    let ask = |input: Value| {
        let body = json!({"model": "scripted", "conversation": conversation, "input": input});
        let reply = server.post(RESPONSES, &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        upstream.requests().pop().expect("a request")
    };
    ask(json!([brings(&[function("a")]), question()]));
    assert_eq!(offered(&ask(json!("again"))), ["a"]);
    let path = format!("/v1/conversations/{}/items", conversation.as_str().expect("an id"));
    for name in ["b", "c"] {
        let added = server.post(&path, &json!({"items": [brings(&[function(name)])]}));
        assert_eq!(added.status, 200, "{}", added.body);
    }
    for _ in 0..2 {
        assert_eq!(offered(&ask(json!("and again"))), ["a", "b", "c"]);
    }
}
