//! `/v1/messages`, as a client of Anthropic sees it.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning, tool_results};
use crate::support::{Reply, Server, assert_whole, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const MESSAGES: &str = "/v1/messages";

fn user(text: &str) -> Value {
    json!({"model": "scripted", "max_tokens": 2_000, "messages": [{"role": "user", "content": text}]})
}

/// The request with these fields.
fn with(mut request: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().expect("an object") {
        request[name] = value.clone();
    }
    request
}

fn weather() -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!({"name": "weather", "description": "d", "input_schema": schema})
}

/// The data of all events of a stream.
fn frames(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let read = |frame: &str| {
        let (name, data) = frame.split_once("\ndata: ").expect("two lines");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str(), "{data}");
        data
    };
    reply.body.split_terminator("\n\n").map(read).collect()
}

fn delta_text(frames: &[Value], field: &str) -> String {
    frames.iter().filter_map(|frame| frame["delta"][field].as_str()).collect()
}

fn assert_error(reply: &Reply, status: u16, kind: &str, word: &str) {
    let error = reply.json();
    assert_eq!(
        (reply.status, &error["type"], &error["error"]["type"]),
        (status, &json!("error"), &json!(kind)),
        "{error}"
    );
    assert!(error["error"]["message"].as_str().expect("a text").contains(word), "{error}");
    assert_eq!(error["request_id"].as_str(), reply.header("request-id"), "{error}");
    assert!(error["request_id"].is_string());
}

/// A provider in Anthropic's dialect that answers with these blocks.
fn anthropic_answer(blocks: &[Value], stop_reason: &str) -> Answer {
    let usage = json!({"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    let acts = events.iter().map(|event| Act::Raw(format!("event: x\ndata: {event}\n\n")));
    Answer {
        status: 200,
        headers: vec![("content-type".into(), "text/event-stream".into())],
        acts: acts.collect(),
    }
}

/// A server whose model is reached in Anthropic's dialect.
fn start_anthropic(upstream: &Upstream) -> Server {
    let model = format!("{{id: scripted, provider: anthropic, api_url: \"{}\", api_key: k}}", upstream.url);
    Server::start_with(&format!("models: [{model}]\n"))
}

#[test]
fn a_plain_request_reaches_the_model_as_it_is_and_is_a_job_with_events() {
    let upstream = Upstream::start(|_, _| {
        Answer::stream(vec![
            Act::Data(reasoning("hm")),
            Act::Data(content("hello")),
            Act::Data(finish("stop")),
        ])
    });
    let server = Server::start_against(&upstream, "");
    let fields = json!({
        "system": "be brief", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"],
        "metadata": {"user_id": "ann"}, "thinking": {"type": "enabled", "budget_tokens": 1_024},
        "output_config": {"effort": "low"},
    });
    let headers = [("anthropic-version", "2023-06-01"), ("content-type", "application/json")];
    let body = with(user("hi"), &fields).to_string();
    let reply = server.request(("POST", "/v1/messages?beta=true"), &headers, &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let sent = upstream.requests().remove(0);
    let messages = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]);
    assert_eq!(sent["messages"], messages, "no preamble");
    for (field, value) in [
        ("max_tokens", json!(2_000)),
        ("temperature", json!(0.5)),
        ("top_p", json!(0.9)),
        ("top_k", json!(40)),
        ("stop", json!(["END"])),
        ("reasoning_effort", json!("low")),
    ] {
        assert_eq!(sent[field], value, "{field}");
    }
    let answer = reply.json();
    assert_eq!(
        (&answer["type"], &answer["role"], &answer["model"]),
        (&json!("message"), &json!("assistant"), &json!("scripted"))
    );
    assert_eq!(answer["content"][0]["thinking"], "hm");
    assert_eq!(answer["content"][1], json!({"type": "text", "text": "hello", "citations": null}));
    assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    assert_eq!(
        (&answer["usage"]["input_tokens"], &answer["usage"]["output_tokens"]),
        (&json!(10), &json!(5))
    );
    let job = reply.header("x-job-id").expect("a job").to_owned();
    assert!(answer["id"].as_str().is_some_and(|id| id.starts_with("msg_")), "{answer}");
    assert_eq!(server.get(&format!("/v1/jobs/{job}")).json()["metadata"]["user_id"], "ann");
    assert_whole(&server.events(&job));
    let silent = server.post(MESSAGES, &user("hi")).json();
    assert_eq!(
        silent["content"].as_array().map(Vec::len),
        Some(1),
        "thinking that was not asked for: {silent}"
    );
}

#[test]
fn a_stream_has_the_events_of_the_api_in_order() {
    let upstream = Upstream::start(|_, _| {
        let mut answer = Answer::paced_text("one two three", Duration::from_millis(5));
        answer.acts.insert(0, Act::Data(reasoning("hm")));
        answer
    });
    let server = Server::start_against(&upstream, "");
    let fields = json!({"stream": true, "thinking": {"type": "adaptive"}});
    let reply = server.post(MESSAGES, &with(user("go"), &fields));
    let frames = frames(&reply);
    let mut kinds: Vec<&str> = frames.iter().filter_map(|frame| frame["type"].as_str()).collect();
    kinds.dedup();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let expected = [&["message_start"][..], &block, &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(kinds, expected);
    assert_eq!(
        (delta_text(&frames, "thinking"), delta_text(&frames, "text")),
        ("hm".into(), "one two three".into())
    );
    assert!(!delta_text(&frames, "signature").is_empty());
    let [.., last, _] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(
        (&last["delta"]["stop_reason"], &last["usage"]["output_tokens"]),
        (&json!("end_turn"), &json!(5))
    );
}

#[test]
fn a_tool_of_the_client_is_handed_back_and_its_result_continues() {
    let upstream = Upstream::start(|request, _| match tool_results(request).as_slice() {
        [] => Answer::calls(&[("weather", json!({"city": "Rome"})), ("weather", json!({"city": "Oslo"}))]),
        results => {
            let texts: Vec<_> = results.iter().filter_map(|result| result["content"].as_str()).collect();
            Answer::text(&format!("{} results: {}", results.len(), texts.join(",")))
        }
    });
    let server = Server::start_against(&upstream, "");
    let fields = json!({"tools": [weather()], "tool_choice": {"type": "any"}});
    let first = server.post(MESSAGES, &with(user("go"), &fields)).json();
    let calls = first["content"].as_array().expect("blocks").clone();
    assert_eq!((&first["stop_reason"], calls.len()), (&json!("tool_use"), 2), "{first}");
    assert_eq!((&calls[1]["type"], &calls[1]["input"]), (&json!("tool_use"), &json!({"city": "Oslo"})));
    assert_eq!(upstream.requests()[0]["tool_choice"], "required");
    let result =
        |call: &Value, text: &str| json!({"type": "tool_result", "tool_use_id": call["id"], "content": text});
    let messages = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result(&calls[1], "cold"), result(&calls[0], "mild")]},
    ]);
    let second = with(user(""), &json!({"messages": messages, "tools": [weather()]}));
    assert_eq!(server.post(MESSAGES, &second).json()["content"][0]["text"], "2 results: cold,mild");
    let streamed = frames(&server.post(MESSAGES, &with(with(user("go"), &fields), &json!({"stream": true}))));
    let starts: Vec<&Value> =
        streamed.iter().filter(|frame| frame["type"] == "content_block_start").collect();
    assert_eq!(
        starts.iter().map(|frame| &frame["content_block"]["name"]).collect::<Vec<_>>(),
        ["weather", "weather"]
    );
    assert_eq!(delta_text(&streamed, "partial_json"), "{\"city\":\"Rome\"}{\"city\":\"Oslo\"}");
}

#[test]
fn signed_reasoning_and_results_of_server_tools_reach_the_provider_again() {
    let upstream = Upstream::start(|_, number| match number {
        0 => anthropic_answer(
            &[
                json!({"type": "thinking", "thinking": "hm", "signature": "signed"}),
                json!({"type": "tool_use", "id": "t1", "name": "calculator", "input": {"expression": "6*7"}}),
                json!({"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Rome", "days": 2}}),
            ],
            "tool_use",
        ),
        _ => anthropic_answer(&[json!({"type": "text", "text": "done"})], "end_turn"),
    });
    let server = start_anthropic(&upstream);
    let headers = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let ask = |body: &Value| server.request(("POST", MESSAGES), &headers, &body.to_string());
    let thinking = json!({"tools": [weather()], "thinking": {"type": "enabled", "budget_tokens": 1_500}});
    let reply = ask(&with(user("go"), &thinking));
    let first = reply.json();
    let sent = &upstream.requests()[0];
    assert_eq!((&sent["max_tokens"], &sent["thinking"]["budget_tokens"]), (&json!(2_000), &json!(1_500)));
    let kinds: Vec<_> =
        first["content"].as_array().expect("blocks").iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "tool_use"], "{first}");
    assert_eq!(
        (&first["usage"]["input_tokens"], &first["usage"]["cache_read_input_tokens"]),
        (&json!(9), &json!(3))
    );
    let result = json!({"type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "mild"});
    let messages = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]);
    let second = ask(&with(with(user(""), &thinking), &json!({"messages": messages}))).json();
    assert_eq!(second["content"], json!([{"type": "text", "text": "done", "citations": null}]));
    let sent = upstream.requests()[1]["messages"].clone();
    assert_eq!(sent[1]["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "signed"}));
    let results = sent[2]["content"].as_array().expect("results");
    assert_eq!(
        (&results[0]["tool_use_id"], &results[1]["tool_use_id"]),
        (&json!("t1"), &json!("t2")),
        "{results:?}"
    );
    assert!(results[0]["content"].as_str().is_some_and(|text| text.contains("42")), "{results:?}");
    assert_eq!(results[1]["content"], "mild");
}

#[test]
fn tools_of_the_provider_stand_for_tools_of_this_server() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("execute_python", json!({"code": "print(6*7)"}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let tool = json!({"type": "code_execution_20250825", "name": "code_execution"});
    let choice = json!({"type": "tool", "name": "code_execution"});
    let reply =
        server.post(MESSAGES, &with(user("go"), &json!({"tools": [tool], "tool_choice": choice}))).json();
    assert_eq!(
        (&reply["content"][0]["text"], &reply["stop_reason"]),
        (&json!("1 results"), &json!("end_turn")),
        "{reply}"
    );
    assert_eq!(upstream.requests()[0]["tool_choice"]["function"]["name"], "execute_python");
    let limited = json!({"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["x.test"]});
    let refused = server.post(MESSAGES, &with(user("go"), &json!({"tools": [limited]})));
    assert_error(&refused, 400, "invalid_request_error", "tools[0].allowed_domains");
}

#[test]
fn errors_have_the_envelope_and_types_of_the_api() {
    let upstream = Upstream::start(|request, _| match request["messages"][0]["content"].as_str() {
        Some("bad") => Answer::error(400, "no such thing"),
        _ => Answer::text("hi"),
    });
    let server = Server::start_against(
        &upstream,
        "limits: {body_bytes: 20000, disk_free_bytes: 0, disk_free_percent: 0}",
    );
    let thread = server.post(MESSAGES, &with(user("x"), &json!({"thread": {"type": "create"}})));
    assert_error(&thread, 400, "invalid_request_error", "thread");
    assert_eq!(
        thread.json()["error"]["details"]["error_code"],
        "thread_unsupported_request",
        "clients know it"
    );
    assert_error(
        &server.post(MESSAGES, &with(user("x"), &json!({"wat": 1}))),
        400,
        "invalid_request_error",
        "wat",
    );
    assert_error(
        &server.post(MESSAGES, &with(user("x"), &json!({"model": "gone"}))),
        404,
        "not_found_error",
        "gone",
    );
    assert_error(&server.post(MESSAGES, &user(&"x".repeat(30_000))), 413, "request_too_large", "body_bytes");
    assert_error(&server.get(MESSAGES), 405, "invalid_request_error", "GET");
    assert_error(&server.post("/v1/messages/gone", &user("x")), 404, "not_found_error", "no such");
    for stream in [true, false] {
        let reply = server.post(MESSAGES, &with(user("bad"), &json!({"stream": stream})));
        assert_error(&reply, 400, "invalid_request_error", "no such thing");
        assert!(reply.header("x-job-id").is_some());
    }
}

#[test]
fn an_answer_that_breaks_off_ends_its_stream_with_an_error_event() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::stream(vec![
            Act::Data(content("one")),
            // An error right behind it could be seen before the text is sent, and be the whole answer.
            Act::Pause(Duration::from_millis(500)),
            Act::Data(json!({"error": {"message": "gone", "code": 400}})),
        ]),
        _ => Answer::error(400, "no such thing"),
    });
    let server = Server::start_against(&upstream, "");
    let frames = frames(&server.post(MESSAGES, &with(user("go"), &json!({"stream": true}))));
    let last = frames.last().expect("an event");
    assert_eq!((&frames[0]["type"], &last["type"]), (&json!("message_start"), &json!("error")), "{frames:?}");
    assert_eq!(last["error"]["type"], "invalid_request_error");
}

#[test]
fn tokens_are_counted_without_a_call_of_the_model() {
    let upstream = Upstream::start(|_, _| Answer::text("hi"));
    let server = Server::start_against(&upstream, "");
    let count = |fields: Value| {
        let mut body = json!({"model": "scripted", "messages": [{"role": "user", "content": "hello there"}]});
        body = with(body, &fields);
        let reply = server.post("/v1/messages/count_tokens", &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["input_tokens"].as_u64().expect("a number")
    };
    let plain = count(json!({}));
    assert!(
        plain > 0
            && count(json!({"system": "be brief"})) > plain
            && count(json!({"tools": [weather()]})) > plain
    );
    assert!(upstream.requests().is_empty());
    let fields = json!({"system": "be brief", "tools": [weather()]});
    let counted = count(fields.clone());
    // A stream begins with the same estimate and ends with the figure of the provider.
    let asked = with(user("hello there"), &with(json!({"stream": true}), &fields));
    let streamed = frames(&server.post(MESSAGES, &asked));
    assert_eq!(streamed[0]["message"]["usage"]["input_tokens"], json!(counted), "{}", streamed[0]);
    let ending = streamed.iter().find(|frame| frame["type"] == "message_delta").expect("an end");
    assert_eq!(ending["usage"]["input_tokens"], 10, "{ending}");
    let refused = server.post("/v1/messages/count_tokens", &json!({"model": "scripted", "messages": []}));
    assert_error(&refused, 400, "invalid_request_error", "messages");
}

#[test]
fn models_have_anthropics_shape_for_its_clients() {
    let ids = ["demo", "org/two", "three", "four"];
    let models: Vec<String> = ids.iter().map(|id| format!("  - {{id: {id}, provider: demo}}\n")).collect();
    let server = Server::start_with(&format!("models:\n{}", models.concat()));
    let get = |path: &str| server.request(("GET", path), &[("anthropic-version", "2023-06-01")], "");
    let list = |query: &str| {
        let reply = get(&format!("/v1/models{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.body);
        reply.json()
    };
    let all = list("?beta=true");
    assert_eq!(
        (&all["has_more"], &all["first_id"], &all["last_id"]),
        (&json!(false), &json!("demo"), &json!("four"))
    );
    let one = &all["data"][1];
    assert_eq!(
        (&one["type"], &one["id"], &one["created_at"]),
        (&json!("model"), &json!("org/two"), &json!("1970-01-01T00:00:00Z"))
    );
    assert!(one["display_name"].is_string() && one.get("object").is_none(), "{one}");
    assert_eq!(get("/v1/models/org/two").json(), *one);
    for (query, first, last, has_more) in [
        ("?limit=2", "demo", "org/two", true),
        ("?limit=2&after_id=org/two", "three", "four", false),
        ("?limit=2&before_id=four", "org/two", "three", true),
        ("?limit=1000&before_id=three", "demo", "org/two", false),
    ] {
        let page = list(query);
        let shown = (&page["first_id"], &page["last_id"], &page["has_more"]);
        assert_eq!(shown, (&json!(first), &json!(last), &json!(has_more)), "{query}");
        assert_eq!(page["data"].as_array().map(Vec::len), Some(2), "{query}: {page}");
    }
    let empty = list("?after_id=four");
    assert_eq!(
        (&empty["data"], &empty["first_id"], &empty["last_id"]),
        (&json!([]), &Value::Null, &Value::Null)
    );
    for (query, word) in [
        ("?limit=0", "limit"),
        ("?limit=1001", "limit"),
        ("?after_id=gone", "after_id"),
        ("?after_id=demo&before_id=demo", "before_id"),
    ] {
        assert_error(&get(&format!("/v1/models{query}")), 400, "invalid_request_error", word);
    }
    assert_error(&get("/v1/models/gone"), 404, "not_found_error", "gone");
    let refused = server.get("/v1/models?limit=2");
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("limit")),
        "{}",
        refused.body
    );
}

#[test]
fn a_key_in_x_api_key_names_the_user() {
    let server = Server::start_with("auth_mode: multi\nlimits: {user_requests_per_minute: 0}\n");
    let registered = server.register(&json!({"username": "ann", "password": "ann-ann-ann"})).json();
    let session = format!("Bearer {}", registered["data"]["token"].as_str().expect("a token"));
    let headers = [("authorization", session.as_str()), ("content-type", "application/json")];
    let made = server.request(("POST", "/api/tokens"), &headers, &json!({"name": "sdk"}).to_string()).json();
    let key = made["data"]["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let ask = |key: &str| {
        let body = with(user("hi"), &json!({"model": "demo"})).to_string();
        server.request(("POST", MESSAGES), &[("x-api-key", key), ("content-type", "application/json")], &body)
    };
    let reply = ask(&key);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_error(&ask("nck_wrong"), 401, "authentication_error", "Unauthorized");
}

#[test]
fn a_client_that_goes_away_ends_its_job() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Data(content("one")), Act::Hang]));
    let server = Server::start_against(&upstream, "");
    for stream in [true, false] {
        let body = with(user("go"), &json!({"stream": stream})).to_string();
        let address = server.url.strip_prefix("http://").expect("an address");
        let mut socket = TcpStream::connect(address).expect("connected");
        let head =
            format!("POST {MESSAGES} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", body.len());
        socket.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        if stream {
            assert!(socket.read(&mut [0; 1_024]).expect("its head") > 0);
        }
        let running = || server.get("/v1/jobs").json()["data"][0].clone();
        wait_until("the job runs", || running()["status"] == "running");
        let job = running()["id"].as_str().expect("an id").to_owned();
        drop(socket);
        wait_until("the job ends", || server.get(&format!("/v1/jobs/{job}")).json()["status"] == "cancelled");
    }
}

#[test]
fn the_stop_sequence_is_reported_where_the_provider_says_it() {
    let upstream = Upstream::start(|_, _| {
        let answer = anthropic_answer(&[json!({"type": "text", "text": "one"})], "stop_sequence");
        let named = |act: Act| match act {
            Act::Raw(text) => Act::Raw(text.replace("\"stop_sequence\":null", "\"stop_sequence\":\"END\"")),
            other => other,
        };
        Answer { acts: answer.acts.into_iter().map(named).collect(), ..answer }
    });
    check_stops(&start_anthropic(&upstream), &json!("stop_sequence"), &json!("END"));
    // Servers with OpenAI's wire format say "stop"; few name the text.
    for (field, reason, text) in [
        (None, "end_turn", Value::Null),
        (Some(("stop_reason", json!("END"))), "stop_sequence", json!("END")),
        (Some(("matched_stop", json!("END"))), "stop_sequence", json!("END")),
        // A token, or a text that the request does not have.
        (Some(("matched_stop", json!(128_009))), "end_turn", Value::Null),
        (Some(("stop_reason", json!("<|im_end|>"))), "end_turn", Value::Null),
    ] {
        let upstream = Upstream::start(move |_, _| {
            let mut choice = json!({"index": 0, "delta": {"content": "one"}, "finish_reason": "stop"});
            if let Some((name, value)) = &field {
                choice[*name] = value.clone();
            }
            let end = Act::Raw("data: [DONE]\n\n".into());
            Answer { acts: vec![Act::Data(json!({"choices": [choice]})), end], ..Answer::text("") }
        });
        check_stops(&Server::start_against(&upstream, ""), &json!(reason), &text);
    }
}

fn check_stops(server: &Server, reason: &Value, text: &Value) {
    let request = with(user("count"), &json!({"stop_sequences": ["END", "\n"]}));
    let whole = server.post("/v1/messages", &request).json();
    assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (reason, text), "{whole}");
    let streamed = frames(&server.post("/v1/messages", &with(request, &json!({"stream": true}))));
    let ending = streamed.iter().find(|frame| frame["type"] == "message_delta").expect("an end");
    assert_eq!((&ending["delta"]["stop_reason"], &ending["delta"]["stop_sequence"]), (reason, text));
}

#[test]
fn calls_without_results_are_refused_by_their_ids() {
    let upstream =
        Upstream::start(|request, _| Answer::text(&format!("{} results", tool_results(request).len())));
    let server = Server::start_against(&upstream, "");
    let question = json!({"role": "user", "content": "go"});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "weather", "input": {}});
    let calls = json!({"role": "assistant", "content": [call("toolu_a"), call("toolu_b")]});
    let results = |ids: &[&str]| {
        let blocks = ids.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "1"}));
        json!({"role": "user", "content": blocks.collect::<Value>()})
    };
    let said = json!({"role": "assistant", "content": "so"});
    for (messages, open) in [
        (json!([question, calls]), "toolu_a, toolu_b."),
        (json!([question, calls, question]), "toolu_a, toolu_b."),
        (json!([question, calls, results(&["toolu_b"]), said, results(&["toolu_a"])]), "toolu_a."),
    ] {
        let asked = with(user(""), &json!({"messages": messages, "tools": [weather()]}));
        let words = format!(
            "messages[1]: `tool_use` ids were found without `tool_result` blocks immediately after: {open}"
        );
        assert_error(&server.post(MESSAGES, &asked), 400, "invalid_request_error", &words);
        // Clients count parts of a conversation.
        assert_eq!(server.post("/v1/messages/count_tokens", &asked).status, 200);
    }
    // Neighbours of one role are one message.
    for messages in [
        json!([question, calls, results(&["toolu_b"]), results(&["toolu_a"])]),
        json!([question, calls, said, results(&["toolu_b", "toolu_a"]), said, question]),
    ] {
        let asked = with(user(""), &json!({"messages": messages, "tools": [weather()]}));
        let reply = server.post(MESSAGES, &asked);
        assert_eq!(reply.json()["content"][0]["text"], "2 results", "{}", reply.body);
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn results_of_a_search_become_text_with_title_and_source() {
    let upstream = Upstream::start(|_, _| Answer::text("ok"));
    let server = Server::start_against(&upstream, "");
    let texts = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let found = json!({
        "type": "search_result", "source": "https://a.example/x", "title": "Rome", "content": texts,
        "citations": {"enabled": true}, "cache_control": {"type": "ephemeral"},
    });
    let call = json!({"type": "tool_use", "id": "toolu_a", "name": "weather", "input": {}});
    let document = json!({"type": "document", "title": "Oslo", "source": {"type": "text", "media_type": "text/plain", "data": "cold"}});
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "go"}, found]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_a", "content": [found, document]}]},
    ]);
    let asked = with(user(""), &json!({"messages": messages, "tools": [weather()]}));
    let reply = server.post(MESSAGES, &asked);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let sent = upstream.requests().remove(0);
    let block = "Attached file `Rome`:\n```\n(source: https://a.example/x)\n\none\n\ntwo\n```";
    assert_eq!(sent["messages"][0]["content"], format!("go\n\n{block}"));
    assert_eq!(sent["messages"][2]["content"], format!("{block}\n\nAttached file `Oslo`:\n```\ncold\n```"));
    for (field, value, path) in [
        ("source", Value::Null, "messages[0].content[0].source"),
        ("content", json!([{"type": "image"}]), "messages[0].content[0].content[0].type"),
        ("colour", json!(1), "messages[0].content[0].colour"),
    ] {
        let mut bad = found.clone();
        bad[field] = value;
        let reply = server
            .post(MESSAGES, &with(user(""), &json!({"messages": [{"role": "user", "content": [bad]}]})));
        assert_eq!(
            (reply.status, &reply.json()["error"]["details"]["param"]),
            (400, &json!(path)),
            "{}",
            reply.body
        );
    }
}

#[test]
fn examples_of_a_tools_input_reach_anthropic_alone() {
    let upstream =
        Upstream::start(|_, _| anthropic_answer(&[json!({"type": "text", "text": "ok"})], "end_turn"));
    let examples = json!([{"city": "Rome"}, {"city": "Oslo"}]);
    let asked = with(user("go"), &json!({"tools": [with(weather(), &json!({"input_examples": examples}))]}));
    let reply = start_anthropic(&upstream).post(MESSAGES, &asked);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(upstream.requests()[0]["tools"][0]["input_examples"], examples);
    let other = Upstream::start(|_, _| Answer::text("ok"));
    let server = Server::start_against(&other, "");
    assert_error(
        &server.post(MESSAGES, &asked),
        400,
        "invalid_request_error",
        "'input_examples' of the tool 'weather'",
    );
    let none = with(user("go"), &json!({"tools": [with(weather(), &json!({"input_examples": []}))]}));
    assert_eq!(server.post(MESSAGES, &none).status, 200);
    let wrong = with(user("go"), &json!({"tools": [with(weather(), &json!({"input_examples": ["Rome"]}))]}));
    assert_error(&server.post(MESSAGES, &wrong), 400, "invalid_request_error", "tools[0].input_examples[0]");
}
