//! `/v1/chat/completions` and `/v1/models`, as a client of `OpenAI` sees them.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning};
use crate::support::{Reply, Server, assert_whole, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) const CHAT: &str = "/v1/chat/completions";

pub(crate) fn user(text: &str) -> Value {
    json!({"model": "scripted", "messages": [{"role": "user", "content": text}]})
}

/// The request with these fields.
pub(crate) fn with(mut request: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().expect("an object") {
        request[name] = value.clone();
    }
    request
}

pub(crate) fn function(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}})
}

/// The data of all frames of a stream.
pub(crate) fn frames(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let data = reply.body.split_terminator("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

pub(crate) fn delta_text(frames: &[Value], field: &str) -> String {
    frames.iter().filter_map(|frame| frame["choices"][0]["delta"][field].as_str()).collect()
}

pub(crate) fn job_of(reply: &Reply) -> String {
    reply.header("x-job-id").expect("a job").to_owned()
}

pub(crate) fn assert_error(reply: &Reply, status: u16, code: &str, param: &Value) {
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
        "frequency_penalty": 0.5, "presence_penalty": -0.5, "reasoning": {"effort": "low", "summary": "auto"},
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
        (json!({"reasoning": {"exclude": true}}), "unsupported_parameter", "reasoning.exclude"),
        (
            json!({"reasoning_effort": "low", "reasoning": {"effort": "high"}}),
            "unsupported_parameter",
            "reasoning.effort",
        ),
        (json!({"model": null}), "missing_required_parameter", "model"),
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
            ("busy", 429, "rate_limit_exceeded", "rate_limit_error"),
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
            let code = if status == 429 { "rate_limited" } else { code };
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

#[test]
fn the_wait_that_a_provider_asks_for_reaches_the_client() {
    let chat = |stream: bool| (CHAT, with(user("x"), &json!({"stream": stream})));
    let message = |stream: bool| ("/v1/messages", with(chat(stream).1, &json!({"max_tokens": 9})));
    let cases = [
        (None, "20", chat(false)),
        (Some(("retry-after-ms", "6500")), "7", chat(false)),
        (Some(("x-ratelimit-reset-requests", "1m1s")), "61", chat(false)),
        (Some(("retry-after", "86400")), "3600", chat(true)),
        (Some(("retry-after", "3")), "3", chat(true)),
        (Some(("retry-after", "3")), "3", message(false)),
        (Some(("retry-after", "3")), "3", message(true)),
        (Some(("retry-after", "3")), "3", ("/v1/responses", json!({"input": "x"}))),
    ];
    // A provider each: after a 429 a server lets the provider alone for that time.
    let upstreams: Vec<Upstream> = cases
        .iter()
        .map(|(header, _, _)| {
            let header = *header;
            Upstream::start(move |_, _| match header {
                Some((name, value)) => Answer::error(429, "slow down").with_header(name, value),
                None => Answer::error(429, "slow down"),
            })
        })
        .collect();
    let models = upstreams
        .iter()
        .enumerate()
        .map(|(place, upstream)| format!("  - {{id: m{place}, api_url: \"{}/v1\"}}\n", upstream.url));
    let server = Server::start_with(&format!(
        "models:\n{}limits: {{model_failures: 1, model_circuit_failures: 0}}\n",
        models.collect::<String>()
    ));
    for (place, (header, wait_s, (route, body))) in cases.into_iter().enumerate() {
        let reply = server.post(route, &with(body, &json!({"model": format!("m{place}")})));
        let got = (reply.status, reply.header("retry-after"));
        assert_eq!(got, (429, Some(wait_s)), "{route} {header:?}: {}", reply.body);
    }
}
