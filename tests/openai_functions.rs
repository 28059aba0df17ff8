//! Functions of the client and tools of the server in `/v1/chat/completions`.

use crate::openai_chat::{CHAT, assert_error, delta_text, frames, function, job_of, user, with};
use crate::support::upstream::{Act, Answer, Upstream, content, tool_results};
use crate::support::{Reply, Server};
use serde_json::{Value, json};

#[test]
fn a_client_function_is_handed_back_and_its_result_continues_the_chat() {
    let upstream = Upstream::start(|request, _| match tool_results(request).as_slice() {
        [] => Answer::calls(&[("weather", json!({"city": "Rome"})), ("weather", json!({"city": "Oslo"}))]),
        results => Answer::text(&format!("{} results", results.len())),
    });
    let server = Server::start_against(&upstream, "");
    let fields = json!({
        "tools": [function("weather")],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": true,
    });
    let first = server.post(CHAT, &with(user("go"), &fields)).json();
    let choice = &first["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let calls = choice["message"]["tool_calls"].as_array().expect("calls").clone();
    assert_eq!((calls.len(), &calls[1]["function"]["arguments"]), (2, &json!("{\"city\":\"Oslo\"}")));
    let sent = &upstream.requests()[0];
    assert_eq!(sent["tool_choice"]["function"]["name"], "weather");
    assert_eq!(sent["parallel_tool_calls"], true);

    let result = |call: &Value| json!({"role": "tool", "tool_call_id": call["id"], "content": "mild"});
    let question = json!({"role": "user", "content": "go"});
    let messages = json!([question, choice["message"], result(&calls[1]), result(&calls[0])]);
    let second = with(user(""), &json!({"messages": messages, "tools": [function("weather")]}));
    let reply = server.post(CHAT, &with(second.clone(), &json!({"stream": true})));
    assert_eq!(delta_text(&frames(&reply), "content"), "2 results");
    assert_eq!(server.post(CHAT, &second).json()["choices"][0]["message"]["content"], "2 results");

    let streamed = frames(&server.post(CHAT, &with(user("go"), &with(fields, &json!({"stream": true})))));
    let calls: Vec<&Value> = streamed.iter().map(|f| &f["choices"][0]["delta"]["tool_calls"][0]).collect();
    // Pieces of arguments have no id.
    let calls: Vec<&&Value> = calls.iter().filter(|call| call["id"].is_string()).collect();
    assert_eq!(calls.iter().map(|call| &call["index"]).collect::<Vec<_>>(), [0, 1]);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
}

#[test]
fn an_answer_that_a_client_has_parsed_continues_the_chat() {
    let upstream =
        Upstream::start(|request, _| Answer::text(&format!("{} results", tool_results(request).len())));
    let server = Server::start_against(&upstream, "");
    // openai-python and openai-node keep what they parsed beside the text, and send it back.
    let function = json!({"name": "f", "arguments": "{\"n\":1}", "parsed_arguments": {"n": 1}});
    let call = json!({"id": "call_a", "type": "function", "function": function});
    let answer = json!({"role": "assistant", "content": null, "parsed": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "call_a", "content": "1"});
    let parsed = json!({"role": "assistant", "content": "{\"n\":1}", "parsed": {"n": 1}});
    let question = json!({"role": "user", "content": "go"});
    let messages = json!([question, answer, result, parsed, question]);
    let reply = server.post(CHAT, &with(user(""), &json!({"messages": messages})));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "1 results", "{}", reply.body);
    let sent = upstream.requests().pop().expect("a request").to_string();
    assert!(!sent.contains("parsed"), "{sent}");
}

#[test]
fn server_tools_run_before_a_client_function_of_the_same_answer_is_handed_back() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("weather", json!({})), ("calculator", json!({"expression": "6*7"}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let tools = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let ask = |body: &Value| server.request(("POST", CHAT), &tools, &body.to_string());
    let body = with(user("go"), &json!({"tools": [function("weather")]}));
    let reply = ask(&body);
    let first = reply.json();
    let message = &first["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().expect("calls");
    assert_eq!((calls.len(), &calls[0]["function"]["name"]), (1, &json!("weather")), "{first}");
    let events = server.events(&job_of(&reply));
    let result = events.iter().find(|event| event.data["type"] == "tool_result").expect("a result");
    assert!(result.data["content"].as_str().expect("text").contains("42"), "{result:?}");
    let handed = events.iter().find(|event| event.data["is_client"] == true).expect("a client's call");
    assert_eq!(handed.data["name"], "weather");
    let names: Vec<_> = upstream.requests()[0]["tools"].as_array().expect("tools").clone();
    assert_eq!(names.len(), 2, "{names:?}");
    let clash = with(user("go"), &json!({"tools": [function("calculator")]}));
    assert_error(&ask(&clash), 400, "invalid_value", &json!("tools"));
}

/// A job whose model called a tool of the server and a function of the client: the function call, and the
/// server's tools as a header.
fn mixed_answer(ask: &dyn Fn(&Value) -> Reply) -> Value {
    let reply = ask(&with(user("go"), &json!({"tools": [function("weather")]})));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["choices"][0]["message"].clone()
}

#[test]
fn the_model_sees_the_servers_results_and_its_reasoning_again_when_the_client_continues() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => {
            let calls = [("weather", json!({"city": "Rome"})), ("calculator", json!({"expression": "6*7"}))];
            let mut answer = Answer::calls(&calls);
            answer.acts.insert(0, Act::Data(content("Let me see.")));
            answer
        }
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let headers = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let ask = |body: &Value| server.request(("POST", CHAT), &headers, &body.to_string());
    let message = mixed_answer(&ask);
    assert_eq!(message["content"], "Let me see.");
    let continued = |message: &Value, results: usize| {
        let result =
            json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "mild"});
        let messages = json!([{"role": "user", "content": "go"}, message, result]);
        let reply = ask(&with(user(""), &json!({"messages": messages, "tools": [function("weather")]})));
        let expected = format!("{results} results");
        assert_eq!(reply.json()["choices"][0]["message"]["content"], json!(expected), "{}", reply.body);
        upstream.requests().pop().expect("a request")["messages"].as_array().expect("messages").clone()
    };
    let sent = continued(&message, 2);
    let [.., answer, calculated, mild] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(answer["tool_calls"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(calculated["tool_call_id"], answer["tool_calls"][1]["id"]);
    assert!(calculated["content"].as_str().expect("text").contains("42"), "{calculated}");
    assert_eq!((&mild["tool_call_id"], &mild["content"]), (&answer["tool_calls"][0]["id"], &json!("mild")));
    let edited = with(message.clone(), &json!({"content": "I am sure."}));
    let sent = continued(&edited, 1);
    assert_eq!(sent[sent.len() - 2]["content"], "I am sure.", "the client's own text counts");
    let silent = with(message.clone(), &json!({"content": null}));
    continued(&silent, 2);
    // Some clients read the arguments and write them anew.
    for (arguments, results) in [(r#"{ "city" : "Rome" }"#, 2), (r#"{"city":"Oslo"}"#, 1), ("Rome", 1)] {
        let mut rewritten = message.clone();
        rewritten["tool_calls"][0]["function"]["arguments"] = json!(arguments);
        continued(&rewritten, results);
    }
}

#[test]
fn p7_the_id_of_another_users_call_restores_nothing() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("weather", json!({})), ("calculator", json!({"expression": "6*7"}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "auth_mode: multi\n");
    let token = |name: &str| {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = server.register(&body);
        format!("Bearer {}", reply.json()["data"]["token"].as_str().expect("a token"))
    };
    let (ann, bob) = (token("ann"), token("bob"));
    let ask = |token: &str, body: &Value| {
        let headers = [
            ("authorization", token),
            ("nanoclaw-tools", "calculator"),
            ("content-type", "application/json"),
        ];
        server.request(("POST", CHAT), &headers, &body.to_string())
    };
    assert_eq!(server.post(CHAT, &user("go")).status, 401);
    let message = mixed_answer(&|body| ask(&ann, body));
    let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "mild"});
    let messages = json!([{"role": "user", "content": "go"}, message, result]);
    let body = with(user(""), &json!({"messages": messages, "tools": [function("weather")]}));
    for (token, results) in [(&bob, "1 results"), (&ann, "2 results")] {
        assert_eq!(ask(token, &body).json()["choices"][0]["message"]["content"], results);
    }
}

#[test]
fn an_agent_model_and_the_header_bring_the_servers_tools_and_none_takes_them() {
    let upstream = Upstream::start(|_, _| Answer::text("done"));
    let models = format!(
        "models:\n  - {{id: scripted, api_url: \"{0}/v1\", agent: true}}\n  - {{id: plain, api_url: \"{0}/v1\"}}\n",
        upstream.url
    );
    let server = Server::start_with(&models);
    let names = |model: &str, header: Option<&str>| {
        let before = upstream.requests().len();
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(header.map(|value| ("nanoclaw-tools", value)));
        let body = with(user("go"), &json!({"model": model}));
        let reply = server.request(("POST", CHAT), &headers, &body.to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
        let sent = upstream.requests().remove(before);
        let has_preamble = sent["messages"][0]["role"] == "system";
        let tools = sent["tools"].as_array().map_or(0, Vec::len);
        (tools > 1, tools == 1, has_preamble)
    };
    assert_eq!(names("plain", None), (false, false, false));
    assert_eq!(names("plain", Some("default")), (true, false, true));
    assert_eq!(names("plain", Some("calculator")), (false, true, true));
    assert_eq!(names("scripted", None), (true, false, true));
    assert_eq!(names("scripted", Some("none")), (false, false, false));
}

#[test]
fn calls_without_results_are_refused_by_their_ids() {
    let upstream =
        Upstream::start(|request, _| Answer::text(&format!("{} results", tool_results(request).len())));
    let server = Server::start_against(&upstream, "");
    let question = json!({"role": "user", "content": "go"});
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call("call_a"), call("call_b")]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "1"});
    for (messages, open) in [
        (json!([question, calls]), "call_a, call_b"),
        (json!([question, calls, result("call_a")]), "call_b"),
        (json!([question, calls, result("call_b"), question, result("call_a")]), "call_a"),
    ] {
        let reply = server.post(CHAT, &with(user(""), &json!({"messages": messages})));
        assert_error(&reply, 400, "invalid_value", &json!("messages[1].tool_calls"));
        let text = reply.json()["error"]["message"].as_str().expect("a text").to_owned();
        let end = format!("The following tool_call_ids did not have response messages: {open}");
        assert!(
            text.starts_with("An assistant message with 'tool_calls' must be") && text.ends_with(&end),
            "{text}"
        );
    }
    let messages = json!([question, calls, result("call_b"), result("call_a"), question]);
    let reply = server.post(CHAT, &with(user(""), &json!({"messages": messages})));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "2 results", "{}", reply.body);
    assert_eq!(upstream.requests().len(), 1);
}
