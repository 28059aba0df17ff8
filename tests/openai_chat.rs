//! `/v1/chat/completions` and `/v1/models`, as a client of `OpenAI` sees them.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning, tool_results};
use crate::support::{Reply, Server, assert_whole, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

fn user(text: &str) -> Value {
    json!({"model": "scripted", "messages": [{"role": "user", "content": text}]})
}

/// The request with these fields.
fn with(mut request: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().expect("an object") {
        request[name] = value.clone();
    }
    request
}

fn function(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}})
}

/// The data of all frames of a stream.
fn frames(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let data = reply.body.split_terminator("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

fn delta_text(frames: &[Value], field: &str) -> String {
    frames.iter().filter_map(|frame| frame["choices"][0]["delta"][field].as_str()).collect()
}

fn job_of(reply: &Reply) -> String {
    reply.header("x-job-id").expect("a job").to_owned()
}

fn assert_error(reply: &Reply, status: u16, code: &str, param: &Value) {
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, &error["code"], &error["param"]), (status, &json!(code), param), "{error}");
}

#[test]
fn a_plain_request_reaches_the_model_as_it_is_and_is_a_job_with_events() {
    let upstream = Upstream::start(|_, _| {
        Answer::stream(vec![Act::Data(reasoning("hm")), Act::Data(content("{}")), Act::Data(finish("stop"))])
    });
    let server = Server::start_against(&upstream, "");
    let fields = json!({
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ],
        "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 9, "stop": "END", "seed": 7,
        "frequency_penalty": 0.5, "presence_penalty": -0.5, "reasoning_effort": "low",
        "response_format": {"type": "json_object"}, "metadata": {"team": "blue"}, "user": "u", "n": 1,
        "service_tier": "auto", "logprobs": false, "store": false,
    });
    let reply = server.post(CHAT, &with(user(""), &fields));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let sent = upstream.requests().remove(0);
    let messages = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "ab"}]);
    assert_eq!(sent["messages"], messages, "no preamble");
    assert!(sent.get("tools").is_none() && sent.get("tool_choice").is_none());
    for (field, value) in [
        ("temperature", json!(0.5)),
        ("top_p", json!(0.9)),
        ("max_tokens", json!(9)),
        ("stop", json!(["END"])),
        ("seed", json!(7)),
        ("frequency_penalty", json!(0.5)),
        ("presence_penalty", json!(-0.5)),
        ("reasoning_effort", json!("low")),
        ("response_format", json!({"type": "json_object"})),
    ] {
        assert_eq!(sent[field], value, "{field}");
    }
    let (answer, job) = (reply.json(), job_of(&reply));
    assert_eq!(answer["id"], format!("chatcmpl-{job}"));
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("scripted")));
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], "{}");
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("stop"), &Value::Null));
    assert_eq!(answer["usage"]["total_tokens"], 15);
    let stored = server.get(&format!("/v1/jobs/{job}")).json();
    assert_eq!((&stored["status"], &stored["metadata"]["team"]), (&json!("succeeded"), &json!("blue")));
    assert_whole(&server.events(&job));
}

#[test]
fn a_stream_has_the_chunks_of_a_whole_completion() {
    let upstream = Upstream::start(|_, _| {
        let mut answer = Answer::paced_text("one two three", Duration::from_millis(5));
        answer.acts.insert(0, Act::Data(reasoning("hm")));
        answer
    });
    let server = Server::start_against(&upstream, "");
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let reply = server.post(CHAT, &with(user("go"), &options));
    let frames = frames(&reply);
    assert_eq!(frames[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(delta_text(&frames, "content"), "one two three");
    assert_eq!(delta_text(&frames, "reasoning_content"), "hm");
    let [.., last, usage, done] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(15)));
    assert_eq!(done, "[DONE]");
    for frame in &frames[..frames.len() - 1] {
        assert_eq!(frame["id"], format!("chatcmpl-{}", job_of(&reply)));
        assert_eq!(frame["object"], "chat.completion.chunk");
    }
    let plain = self::frames(&server.post(CHAT, &with(user("go"), &json!({"stream": true}))));
    assert!(plain.iter().all(|frame| frame.get("usage").is_none()), "{plain:?}");
}

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
    let calls: Vec<&&Value> = calls.iter().filter(|call| call.is_object()).collect();
    assert_eq!(calls.iter().map(|call| &call["index"]).collect::<Vec<_>>(), [0, 1]);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
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
    assert_error(&ask(&clash), 400, "invalid_value", &json!("tools[0].function.name"));
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
        let reply = server.post("/api/auth/register", &body);
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
fn models_are_listed_and_shown() {
    let server = Server::start_with("models:\n  - {id: demo}\n  - {id: org/demo, provider: demo}\n");
    let list = server.get("/v1/models").json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][1]["id"], "org/demo");
    for path in ["/v1/models/org/demo", "/v1/models/org%2Fdemo"] {
        assert_eq!(server.get(path).json(), list["data"][1], "{path}");
    }
    assert_error(&server.get("/v1/models/gone"), 404, "model_not_found", &json!("model"));
    let unknown = server.post(CHAT, &with(user("x"), &json!({"model": "gone"})));
    assert_error(&unknown, 404, "model_not_found", &json!("model"));
}

#[test]
fn unsupported_fields_are_refused_by_name() {
    let server = Server::start();
    let image = json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]);
    for (fields, code, param) in [
        (json!({"n": 2}), "unsupported_parameter", "n"),
        (json!({"logprobs": true}), "unsupported_parameter", "logprobs"),
        (json!({"logit_bias": {"1": 2}}), "unsupported_parameter", "logit_bias"),
        (json!({"modalities": ["audio"]}), "unsupported_parameter", "modalities"),
        (json!({"audio": {}}), "unsupported_parameter", "audio"),
        (json!({"nonsense": 1}), "unsupported_parameter", "nonsense"),
        (json!({"messages": image}), "unsupported_parameter", "messages[0].content[0].type"),
        (json!({"tools": [{"type": "custom"}]}), "unsupported_parameter", "tools[0].type"),
        (json!({"stream_options": {"x": 1}}), "unsupported_parameter", "stream_options.x"),
        (json!({"stream_options": {}}), "invalid_value", "stream_options"),
        (json!({"messages": []}), "invalid_value", "messages"),
        (json!({"top_p": 2}), "invalid_value", "top_p"),
        (json!({"seed": "x"}), "invalid_value", "seed"),
        (json!({"stop": ["a", "b", "c", "d", "e"]}), "invalid_value", "stop"),
        (json!({"tool_choice": "required"}), "invalid_value", "tool_choice"),
        (json!({"reasoning_effort": "huge"}), "invalid_value", "reasoning_effort"),
        (
            json!({"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}),
            "invalid_value",
            "messages[0].tool_call_id",
        ),
    ] {
        let reply = server.post(CHAT, &with(user("x"), &with(json!({"model": "demo"}), &fields)));
        assert_error(&reply, 400, code, &json!(param));
    }
    for (header, value) in
        [("nanoclaw-tools", "nonsense"), ("nanoclaw-strictness", "lax"), ("nanoclaw-priority", "10")]
    {
        let headers = [(header, value), ("content-type", "application/json")];
        let body = with(user("x"), &json!({"model": "demo"})).to_string();
        let reply = server.request(("POST", CHAT), &headers, &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(header)), "{}", reply.body);
    }
}

/// A model that fails as the prompt says.
fn failing() -> Upstream {
    Upstream::start(|request, _| {
        let text = request["messages"][0]["content"].as_str().unwrap_or_default();
        match text {
            "long" => Answer::error(400, "This model's maximum context length is 8192 tokens"),
            "broken" => Answer {
                acts: vec![
                    Act::Data(content("half an ")),
                    Act::Pause(Duration::from_millis(300)),
                    Act::Raw("data: {".into()),
                ],
                ..Answer::text("")
            },
            "refused" => Answer::error(400, "'seed' must be positive, not at https://provider.test/docs"),
            "filtered" => Answer::error(400, "the prompt triggered the content management policy"),
            "key" => Answer::error(401, "bad key sk-secret"),
            "forbidden" => Answer::error(403, "not for you"),
            "model" => Answer::error(404, "The model 'x' does not exist"),
            "path" => Answer::error(404, "nothing here"),
            "large" => Answer::error(413, "too large"),
            "down" => Answer::error(503, "down"),
            "late refusal" => Answer {
                acts: vec![
                    Act::Data(content("half an ")),
                    Act::Pause(Duration::from_millis(300)),
                    Act::Data(json!({"error": {"code": 400, "message": "no such thing"}})),
                ],
                ..Answer::text("")
            },
            _ => Answer::error(429, "slow down").with_header("retry-after", "1"),
        }
    })
}

#[test]
fn failures_before_the_first_token_have_a_status_and_later_ones_end_the_stream() {
    let upstream = failing();
    let server = Server::start_against(&upstream, "limits: {model_failures: 1, model_circuit_failures: 0}\n");
    for stream in [false, true] {
        let ask = |text: &str| server.post(CHAT, &with(user(text), &json!({"stream": stream})));
        assert_error(&ask("long"), 400, "context_length_exceeded", &json!("messages"));
        assert_error(&ask("large"), 400, "context_length_exceeded", &json!("messages"));
        assert_error(&ask("model"), 404, "model_not_found", &json!("model"));
        for (text, status, code, kind) in [
            ("refused", 400, "invalid_request", "invalid_request_error"),
            ("filtered", 400, "content_filter", "invalid_request_error"),
            ("key", 502, "provider_error", "server_error"),
            ("forbidden", 502, "provider_error", "server_error"),
            ("path", 502, "provider_error", "server_error"),
            ("down", 502, "provider_error", "server_error"),
            ("busy", 429, "rate_limited", "rate_limit_error"),
        ] {
            let reply = ask(text);
            assert_error(&reply, status, code, &Value::Null);
            let error = &reply.json()["error"];
            assert_eq!(error["type"], kind, "{error}");
            assert_eq!(reply.header("retry-after").is_some(), status == 429, "{error}");
            for secret in ["sk-secret", "provider.test"] {
                assert!(!reply.body.contains(secret), "P9: {error}");
            }
            let job = reply.header("x-job-id").expect("errors name the job, too");
            let job = server.get(&format!("/v1/jobs/{job}")).json();
            assert_eq!(job["error"], json!({"code": code, "message": error["message"]}), "{job}");
        }
        let message = ask("refused").json()["error"]["message"].clone();
        let expected = "refused the request (HTTP 400): 'seed' must be positive, not at [url]";
        assert!(message.as_str().is_some_and(|text| text.ends_with(expected)), "{message}");
    }
    let late = frames(&server.post(CHAT, &with(user("late refusal"), &json!({"stream": true}))));
    let error = &late.last().expect("an end")["error"];
    assert_eq!(
        (&error["code"], &error["type"]),
        (&json!("invalid_request"), &json!("invalid_request_error"))
    );
    let frames = frames(&server.post(CHAT, &with(user("broken"), &json!({"stream": true}))));
    assert_eq!(delta_text(&frames, "content"), "half an ");
    let last = frames.last().expect("an end");
    assert_eq!(last["error"]["code"], "provider_error", "{frames:?}");
}

/// Sends a request and leaves after its first bytes, or without waiting for any.
fn leave(server: &Server, body: &Value, waits_for_bytes: bool) {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("connect");
    let body = body.to_string();
    let head = "host: localhost\r\ncontent-type: application/json";
    write!(stream, "POST {CHAT} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .expect("send");
    if waits_for_bytes {
        stream.read_exact(&mut [0; 64]).expect("the head");
    } else {
        wait_until("the job runs", || server.get("/v1/jobs?status=running").json()["data"] != json!([]));
    }
}

#[test]
fn a_client_that_leaves_ends_its_job_unless_it_is_stored() {
    let upstream = Upstream::start(|_, _| Answer::paced_text(&"word ".repeat(30), Duration::from_millis(50)));
    let server = Server::start_against(&upstream, "");
    for (store, stream, expected) in [
        (false, true, "cancelled"),
        (false, false, "cancelled"),
        (true, true, "succeeded"),
        (true, false, "succeeded"),
    ] {
        leave(&server, &with(user("go"), &json!({"store": store, "stream": stream})), stream);
        let newest =
            server.get("/v1/jobs?limit=1").json()["data"][0]["id"].as_str().expect("an id").to_owned();
        assert_eq!(server.wait(&newest)["status"], expected, "store: {store}, stream: {stream}");
    }
}

#[test]
fn a_repeated_idempotency_key_gets_the_same_completion() {
    let upstream = Upstream::start(|_, count| Answer::text(&format!("answer {count}")));
    let server = Server::start_against(&upstream, "");
    let headers = [("idempotency-key", "k"), ("content-type", "application/json")];
    let ask = |body: &Value| server.request(("POST", CHAT), &headers, &body.to_string());
    let (first, second) = (ask(&user("go")), ask(&user("go")));
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(ask(&user("other")).status, 422);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_answer_that_does_not_match_the_schema_is_asked_for_once_more() {
    let upstream = Upstream::start(|request, _| {
        let messages = request["messages"].as_array().expect("messages");
        match messages.last().and_then(|last| last["content"].as_str()).unwrap_or_default() {
            text if text.contains("requested form") => Answer::text("{\"city\": \"Rome\"}"),
            _ => Answer::text("```json\n{\"town\": 1}\n```"),
        }
    });
    let server = Server::start_against(&upstream, "");
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": true}});
    let body = with(user("where?"), &json!({"response_format": format}));
    let reply = server.post(CHAT, &body);
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "{\"city\": \"Rome\"}", "{}", reply.body);
    assert_eq!(reply.json()["usage"]["total_tokens"], 30, "both answers count");
    let sent = upstream.requests();
    assert_eq!(sent[0]["response_format"], format);
    let messages = sent[1]["messages"].as_array().expect("messages");
    assert_eq!((sent.len(), messages.len()), (2, 3), "{messages:?}");
    let events = server.events(&job_of(&reply));
    assert_whole(&events);
    assert!(events.iter().any(|event| event.name == "step_discarded"), "{events:?}");
    // What was streamed cannot be taken back.
    let streamed = frames(&server.post(CHAT, &with(body, &json!({"stream": true}))));
    assert_eq!(delta_text(&streamed, "content"), "```json\n{\"town\": 1}\n```");
}
