//! Options of `/v1/responses` and of its calls of tools: how many, when, and with which history.

use crate::openai_chat::job_of;
use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Server, wait_until};
use serde_json::{Value, json};

const RESPONSES: &str = "/v1/responses";

/// Calls the calculator `rounds` times, twice in each answer, then gives a text.
fn calculating(rounds: usize) -> Upstream {
    Upstream::start(move |request, _| {
        if tool_results(request).len() < 2 * rounds {
            let call = ("calculator", json!({"expression": "6*7"}));
            Answer::calls(&[call.clone(), call])
        } else {
            Answer::text("done")
        }
    })
}

fn calculator() -> (&'static str, &'static str) {
    ("nanoclaw-tools", "calculator")
}

#[test]
fn max_tool_calls_counts_each_call_and_the_model_learns_of_the_others() {
    for (most, made) in [(1, 1), (2, 2), (3, 3), (9, 4)] {
        let upstream = calculating(2);
        let server = Server::start_against(&upstream, "");
        let body = json!({"model": "scripted", "input": "go", "max_tool_calls": most}).to_string();
        let reply = server.request(("POST", RESPONSES), &[calculator()], &body);
        let response = reply.json();
        assert_eq!((&response["status"], &response["max_tool_calls"]), (&json!("completed"), &json!(most)));
        let results = tool_results(upstream.requests().last().expect("requests"));
        let (ran, refused): (Vec<_>, Vec<_>) =
            results.iter().map(|m| m["content"].to_string()).partition(|text| text.contains("42"));
        assert_eq!((ran.len(), refused.len()), (made, 4 - made), "{most}: {results:?}");
        assert!(refused.iter().all(|text| text.contains("max_tool_calls")), "{refused:?}");
    }
}

#[test]
fn max_uses_bounds_the_only_tool_of_an_anthropic_request() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            let call = ("execute_python", json!({"code": "print(6*7)"}));
            Answer::calls(&[call.clone(), call])
        } else {
            Answer::text("done")
        }
    });
    let server = Server::start_against(&upstream, "");
    let python = json!({"type": "code_execution_20250825", "name": "code_execution", "max_uses": 1});
    let ask = |tools: &Value| {
        server.post(
            "/v1/messages",
            &json!({"model": "scripted", "max_tokens": 99, "tools": tools,
            "messages": [{"role": "user", "content": "go"}]}),
        )
    };
    let reply = ask(&json!([python]));
    assert_eq!((reply.status, &reply.json()["stop_reason"]), (200, &json!("end_turn")), "{}", reply.body);
    let results = tool_results(&upstream.requests()[1]);
    let refused = results.iter().filter(|m| m["content"].to_string().contains("max_tool_calls"));
    assert_eq!((results.len(), refused.count()), (2, 1), "{results:?}");
    let shell = json!({"type": "bash_20250124", "name": "bash"});
    for tools in [json!([python, shell]), json!([{"type": "bash_20250124", "name": "bash", "max_uses": 0}])] {
        let reply = ask(&tools);
        assert!(reply.status == 400 && reply.body.contains("max_uses"), "{}", reply.body);
    }
}

#[test]
fn a_get_takes_several_values_of_include() {
    let server = Server::start();
    let id = server.post(RESPONSES, &json!({"model": "demo", "input": "hi"})).json()["id"].clone();
    let id = id.as_str().expect("an id").to_owned();
    for path in [
        format!("{RESPONSES}/{id}?include[]=reasoning.encrypted_content&include[]=web_search_call.results"),
        format!("{RESPONSES}/{id}/input_items?include=a&include=b&limit=1"),
    ] {
        let reply = server.get(&path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
    assert_eq!(server.get(&format!("{RESPONSES}/{id}/input_items?limit=1&limit=2")).status, 400);
}

#[test]
fn a_conversation_is_answered_without_further_input() {
    let upstream = Upstream::start(|_, _| Answer::text("four"));
    let server = Server::start_against(&upstream, "");
    let items = json!({"items": [{"type": "message", "role": "user", "content": "two and two?"}]});
    let conversation = server.post("/v1/conversations", &items).json()["id"].clone();
    let body = json!({"model": "scripted", "conversation": conversation});
    let reply = server.post(RESPONSES, &body);
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("completed")), "{}", reply.body);
    let asked = upstream.requests()[0]["messages"].clone();
    assert_eq!(asked, json!([{"role": "user", "content": "two and two?"}]));
    let path = format!("/v1/conversations/{}/items?order=asc", conversation.as_str().expect("an id"));
    let items = server.get(&path).json();
    assert_eq!(items["data"].as_array().map(Vec::len), Some(2), "{items}");
}

#[test]
fn run_at_delays_a_response_in_the_background_and_is_refused_elsewhere() {
    let server = Server::start();
    let later = |path: &str, at: &str, fields: Value| {
        let mut body = json!({"model": "demo"});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        server.request(("POST", path), &[("nanoclaw-run-at", at)], &body.to_string())
    };
    let background = json!({"input": "hi", "background": true});
    let reply = later(RESPONSES, "4000000000", background.clone());
    assert_eq!(reply.json()["status"], "queued", "{}", reply.body);
    let waits_for = server.get(&format!("/v1/jobs/{}", job_of(&reply))).json()["waits_for"].clone();
    assert_eq!((&waits_for["reason"], &waits_for["until"]), (&json!("time"), &json!(4_000_000_000_u64)));
    let past = later(RESPONSES, "2020-01-01T00:00:00Z", background.clone()).json();
    let path = format!("{RESPONSES}/{}", past["id"].as_str().expect("an id"));
    wait_until("it runs", || server.get(&path).json()["status"] == "completed");
    let messages = json!([{"role": "user", "content": "hi"}]);
    for (path, at, fields) in [
        (RESPONSES, "4000000000", json!({"input": "hi"})),
        (RESPONSES, "soon", background),
        ("/v1/responses/compact", "4000000000", json!({"input": "hi"})),
        ("/v1/chat/completions", "4000000000", json!({"messages": messages})),
        ("/v1/messages", "4000000000", json!({"max_tokens": 9, "messages": messages})),
    ] {
        let reply = later(path, at, fields);
        assert_eq!(reply.status, 400, "{path}: {}", reply.body);
        assert!(reply.body.contains("nanoclaw-run-at"), "{path}: {}", reply.body);
    }
}

#[test]
fn what_a_search_found_is_read_again_by_the_next_response() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("web_search", json!({"query": "rust"}))]),
        _ => Answer::text("done"),
    });
    let server = Server::start_against(&upstream, "web_search: {base_url: \"http://127.0.0.1:9\"}\n");
    let first = json!({"model": "scripted", "input": "go", "tools": [{"type": "web_search"}]});
    let first = server.post(RESPONSES, &first).json();
    assert_eq!(first["output"][0]["type"], "web_search_call", "{first}");
    let next = json!({"model": "scripted", "input": "on", "previous_response_id": first["id"]});
    assert_eq!(server.post(RESPONSES, &next).json()["status"], "completed");
    let results: Vec<_> =
        upstream.requests()[1..].iter().map(|sent| tool_results(sent)[0]["content"].clone()).collect();
    assert_eq!(results[0], results[1]);
}

#[test]
fn a_summary_refuses_what_it_does_not_read_by_name() {
    let upstream = Upstream::start(|_, _| Answer::text("in short"));
    let server = Server::start_against(&upstream, "");
    let ask = |fields: Value| {
        let mut body = json!({"model": "scripted", "input": "a long story"});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        server.post("/v1/responses/compact", &body)
    };
    for (name, value) in [
        ("stream", json!(true)),
        ("background", json!(true)),
        ("metadata", json!({})),
        ("max_tool_calls", json!(1)),
    ] {
        let reply = ask(json!({name: value}));
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["param"]), (400, &json!(name)), "{error}");
    }
    assert_eq!(ask(json!({"max_output_tokens": 77, "temperature": 0.5, "stream": false})).status, 200);
    let sent = &upstream.requests()[0];
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(77), &json!(0.5)));
}

#[test]
fn routes_of_openai_answer_with_its_codes() {
    let upstream = Upstream::start(|_, _| Answer::error(429, "slow down"));
    let server = Server::start_against(&upstream, "limits: {model_failures: 1}\n");
    let codes = |path: &str, body: Value| server.post(path, &body).json()["error"]["code"].clone();
    let chat = json!({"model": "scripted", "messages": [{"role": "user", "content": "x"}]});
    assert_eq!(codes("/v1/chat/completions", chat.clone()), "rate_limit_exceeded");
    assert_eq!(codes(RESPONSES, json!({"model": "scripted", "input": "x"})), "rate_limit_exceeded");
    let mut streamed = chat;
    streamed["stream"] = true.into();
    assert_eq!(codes("/v1/chat/completions", streamed), "rate_limit_exceeded");
    let locked = Server::start_with("auth_mode: multi\nmodels: [{id: demo}]\n");
    for path in ["/v1/models", "/v1/files", "/v1/conversations/conv_x/items"] {
        let reply = locked.get(path);
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (401, &json!("invalid_api_key")),
            "{path}"
        );
    }
    assert_eq!(locked.get("/v1/jobs").json()["error"]["code"], "unauthorized", "this server's own API");
}
