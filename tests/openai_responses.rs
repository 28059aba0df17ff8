//! `/v1/responses`, as clients of `OpenAI` and of Open Responses see it.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning, tool_results};
use crate::support::{Reply, Server, against, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const RESPONSES: &str = "/v1/responses";

fn ask(fields: &Value) -> Value {
    let mut body = json!({"model": "scripted", "input": "go"});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// The data of all frames of a stream.
pub(crate) fn frames(body: &str) -> Vec<Value> {
    let data = body
        .split_terminator("\n\n")
        .filter_map(|frame| frame.lines().find_map(|l| l.strip_prefix("data: ")));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

/// The `sequence_number` of each frame.
pub(crate) fn numbers(frames: &[Value]) -> Vec<u64> {
    frames.iter().filter_map(|frame| frame["sequence_number"].as_u64()).collect()
}

fn id_of(response: &Value) -> String {
    response["id"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

fn assert_error(reply: &Reply, status: u16, code: &str, param: &str) {
    let error = reply.json()["error"].clone();
    assert_eq!(
        (reply.status, &error["code"], &error["param"]),
        (status, &json!(code), &json!(param)),
        "{error}"
    );
}

fn ended(server: &Server, id: &str) -> Value {
    let mut response = Value::Null;
    wait_until("the response has ended", || {
        response = server.get(&format!("{RESPONSES}/{id}")).json();
        !matches!(response["status"].as_str(), Some("queued" | "in_progress"))
    });
    response
}

#[test]
fn a_whole_response_repeats_its_request_and_is_stored() {
    let upstream = Upstream::start(|_, _| {
        Answer::stream(vec![
            Act::Data(reasoning("hm")),
            Act::Data(content("Hello.")),
            Act::Data(finish("stop")),
        ])
    });
    let server = Server::start_against(&upstream, "");
    let reply = server.post(RESPONSES, &ask(&json!({
        "instructions": "be brief", "temperature": 0.5, "max_output_tokens": 9, "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "string"}}, "verbosity": "low"},
        "metadata": {"team": "blue"}, "service_tier": "auto", "user": "u", "truncation": "auto", "stream": false,
    })));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let response = reply.json();
    assert_eq!((&response["status"], &response["object"]), (&json!("completed"), &json!("response")));
    assert_eq!(response["output"][0]["summary"][0]["text"], "hm");
    assert_eq!(response["output"][1]["content"][0]["text"], "Hello.");
    for (field, value) in [
        ("instructions", json!("be brief")),
        ("temperature", json!(0.5)),
        ("max_output_tokens", json!(9)),
        ("truncation", json!("auto")),
        ("store", json!(true)),
        ("background", json!(false)),
        ("service_tier", json!("default")),
        ("previous_response_id", Value::Null),
        ("top_p", json!(1.0)),
    ] {
        assert_eq!(response[field], value, "{field}");
    }
    assert!(response["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    let sent = upstream.requests().remove(0);
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "be brief"}));
    assert_eq!(sent["reasoning_effort"], "low");
    let id = id_of(&response);
    assert_eq!(server.get(&format!("{RESPONSES}/{id}")).json(), response);
    let items = server.get(&format!("{RESPONSES}/{id}/input_items")).json();
    assert_eq!(items["data"][0]["content"], json!([{"type": "input_text", "text": "go"}]));
    let deleted = server.ask("DELETE", &format!("{RESPONSES}/{id}"), &Value::Null).json();
    assert_eq!(deleted, json!({"id": id, "object": "response", "deleted": true}));
    assert_eq!(server.get(&format!("{RESPONSES}/{id}")).status, 404);
    let job = server.submit(&json!({"model": "scripted", "input": "go"}));
    assert_eq!(server.get(&format!("{RESPONSES}/resp_{job}")).status, 404, "it came another way");
}

#[test]
fn a_stream_is_numbered_and_can_be_read_again_from_any_number() {
    let upstream = Upstream::start(|_, _| Answer::paced_text("one two three", Duration::from_millis(5)));
    let server = Server::start_against(&upstream, "");
    let reply = server.post(RESPONSES, &ask(&json!({"stream": true})));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let streamed = frames(&reply.body);
    assert_eq!(numbers(&streamed), (0..streamed.len() as u64).collect::<Vec<_>>());
    assert_eq!(streamed[0]["type"], "response.created");
    let last = streamed.last().expect("frames");
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.completed"), &json!("completed"))
    );
    let id = id_of(&last["response"]);
    let path = format!("{RESPONSES}/{id}?stream=true");
    for after in 0..streamed.len() {
        let rest = frames(&server.get(&format!("{path}&starting_after={after}")).body);
        assert_eq!(rest, streamed[after + 1..], "after {after}");
    }
    let rest = server.get_with(&path, &[("last-event-id", "3")]);
    assert_eq!(frames(&rest.body), streamed[4..]);
    assert_eq!(frames(&server.get(&path).body), streamed);
    assert_error(&server.get(&format!("{path}&starting_after=99")), 400, "invalid_value", "starting_after");
}

#[test]
fn a_stream_goes_on_with_the_next_number_after_a_crash() {
    let upstream = Upstream::start(|_, number| {
        let mut acts = vec![Act::Data(content("one ")), Act::Data(content("two "))];
        acts.push(if number == 0 { Act::Hang } else { Act::Data(content("three")) });
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let made = server.post(RESPONSES, &ask(&json!({"background": true, "stream": false}))).json();
    assert_eq!(made["status"], "queued");
    let id = id_of(&made);
    wait_until("text is there", || server.get(&format!("{RESPONSES}/{id}")).body.contains("one "));
    let job = id.strip_prefix("resp_").expect("an id").to_owned();
    let newest = server.get(&format!("/v1/jobs/{job}")).json()["last_event_id"].as_u64().expect("a number");
    assert!(newest >= 3, "created, queued, in progress, text");
    let before = 5; // the first delta has the number 5
    let server = server.crash_and_restart(&config);
    let response = ended(&server, &id);
    assert_eq!(response["status"], "completed", "{response}");
    let texts: Vec<&Value> = response["output"].as_array().expect("output").iter().collect();
    assert_eq!((texts.len(), &texts[0]["content"][0]["text"]), (1, &json!("one two three")));
    let streamed = frames(&server.get(&format!("{RESPONSES}/{id}?stream=true")).body);
    assert_eq!(numbers(&streamed), (0..streamed.len() as u64).collect::<Vec<_>>());
    let cut = streamed.iter().find(|f| f["type"] == "response.output_item.done").expect("an item");
    assert_eq!(cut["item"]["status"], "incomplete");
    let rest = frames(&server.get(&format!("{RESPONSES}/{id}?stream=true&starting_after={before}")).body);
    assert_eq!(numbers(&rest).first(), Some(&(before + 1)));
}

#[test]
fn a_function_call_is_handed_back_and_previous_response_id_continues_it_after_a_crash() {
    let upstream = Upstream::start(|request, _| match tool_results(request).as_slice() {
        [] => Answer::calls(&[("weather", json!({"city": "Rome"}))]),
        results => Answer::text(&format!("{} results", results.len())),
    });
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let tools =
        json!([{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]);
    let first = server.post(RESPONSES, &ask(&json!({"tools": tools, "tool_choice": "required"}))).json();
    let call = &first["output"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("weather")), "{first}");
    assert_eq!(first["tools"][0]["strict"], Value::Null);
    let server = server.crash_and_restart(&config);
    let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "mild"}]);
    let second = json!({"input": output, "previous_response_id": first["id"], "tools": tools});
    let reply = server.post(RESPONSES, &ask(&second));
    assert_eq!(reply.json()["output"][0]["content"][0]["text"], "1 results", "{}", reply.body);
    let sent = upstream.requests().pop().expect("a request");
    assert_eq!(sent["messages"][0], json!({"role": "user", "content": "go"}), "{sent}");
    let third = json!({"input": "and now?", "previous_response_id": reply.json()["id"]});
    assert_eq!(server.post(RESPONSES, &ask(&third)).status, 200);
    let sent = upstream.requests().pop().expect("a request");
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(5), "{sent}");
    for id in ["resp_x", &id_of(&first).replace("resp_job_", "resp_job_0")] {
        let reply = server.post(RESPONSES, &ask(&json!({"previous_response_id": id})));
        assert_error(&reply, 400, "previous_response_not_found", "previous_response_id");
    }
}

#[test]
fn hosted_tools_run_here_and_show_as_items() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
        _ => Answer::text("42"),
    });
    let server = Server::start_against(&upstream, "");
    let headers = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let body = ask(&json!({"stream": true})).to_string();
    let streamed = frames(&server.request(("POST", RESPONSES), &headers, &body).body);
    let response = &streamed.last().expect("frames")["response"];
    let item = &response["output"][0];
    // A client that joins the deltas to the item that they begin has the arguments once.
    let added = streamed.iter().find(|frame| frame["item"]["type"] == "mcp_call").expect("an item");
    assert_eq!(
        (&added["item"]["arguments"], &item["arguments"]),
        (&json!(""), &json!(r#"{"expression":"6*7"}"#))
    );
    assert_eq!(
        (&item["type"], &item["name"], &item["status"]),
        (&json!("mcp_call"), &json!("calculator"), &json!("completed"))
    );
    assert!(item["output"].as_str().is_some_and(|text| text.contains("42")), "{item}");
    let echoed =
        json!({"input": [{"role": "user", "content": "go"}, item, {"role": "user", "content": "again"}]});
    assert_eq!(server.post(RESPONSES, &ask(&echoed)).status, 200);
    let reply = server.post(RESPONSES, &ask(&json!({"tools": [{"type": "file_search"}]})));
    assert_error(&reply, 400, "unsupported_parameter", "tools[0].type");
    let reply = server.post(RESPONSES, &ask(&json!({"tools": [{"type": "mcp", "server_label": "x"}]})));
    assert_error(&reply, 400, "invalid_value", "tools[0].server_label");
}

#[test]
fn a_response_can_be_cancelled_and_one_that_is_not_stored_is_gone() {
    let upstream = Upstream::start(|request, _| {
        let is_long = request["messages"].to_string().contains("long");
        let mut acts = vec![Act::Data(content("one "))];
        if is_long {
            acts.push(Act::Hang);
        }
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    let server = Server::start_against(&upstream, "");
    let id = id_of(&server.post(RESPONSES, &ask(&json!({"input": "long", "background": true}))).json());
    wait_until("text is there", || server.get(&format!("{RESPONSES}/{id}")).body.contains("one "));
    assert_eq!(server.ask("DELETE", &format!("{RESPONSES}/{id}"), &Value::Null).status, 409);
    let cancelled = server.ask("POST", &format!("{RESPONSES}/{id}/cancel"), &Value::Null);
    assert_eq!(cancelled.json()["status"], "cancelled", "{}", cancelled.body);
    assert_eq!(ended(&server, &id)["status"], "cancelled");
    let streamed = frames(&server.get(&format!("{RESPONSES}/{id}?stream=true")).body);
    assert_eq!(streamed.last().expect("frames")["type"], "response.incomplete");

    for is_stream in [false, true] {
        let reply = server.post(RESPONSES, &ask(&json!({"store": false, "stream": is_stream})));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let job = reply.header("x-job-id").expect("a job").to_owned();
        assert_eq!(server.get(&format!("{RESPONSES}/resp_{job}")).status, 404);
        wait_until("the job is deleted", || server.get(&format!("/v1/jobs/{job}")).status == 404);
    }
}

#[test]
fn bad_requests_are_refused_by_name() {
    let server = Server::start();
    for (fields, code, param) in [
        (json!({"model": null}), "missing_required_parameter", "model"),
        (json!({"model": "demo", "prompt": {"id": "p"}}), "unsupported_parameter", "prompt"),
        (json!({"model": "demo", "colour": 1}), "unsupported_parameter", "colour"),
        (json!({"model": "demo", "background": true, "store": false}), "invalid_value", "background"),
        (json!({"model": "demo", "temperature": 3}), "invalid_value", "temperature"),
        (json!({"model": "demo", "input": []}), "invalid_value", "input"),
        (json!({"model": "demo", "tool_choice": "sometimes"}), "invalid_value", "tool_choice"),
        (
            json!({"model": "demo", "input": [{"role": "user", "content": [{"type": "input_file"}]}]}),
            "unsupported_parameter",
            "input[0].content[0].type",
        ),
    ] {
        assert_error(&server.post(RESPONSES, &ask(&fields)), 400, code, param);
    }
    assert_eq!(server.post(RESPONSES, &ask(&json!({"model": "gone"}))).status, 404);
}

#[test]
fn tokens_are_estimated_and_a_conversation_is_compacted() {
    let upstream = Upstream::start(|_, _| Answer::text("They launch on Tuesday."));
    let server = Server::start_against(&upstream, "");
    let counted = server.post("/v1/responses/input_tokens", &ask(&json!({}))).json();
    assert_eq!(counted["object"], "response.input_tokens");
    assert!(counted["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{counted}");
    let compacted = server.post("/v1/responses/compact", &ask(&json!({"prompt_cache_key": "k"}))).json();
    assert_eq!(compacted["object"], "response.compaction");
    let item = &compacted["output"][0];
    let reply = server.post(RESPONSES, &ask(&json!({"input": [item, {"role": "user", "content": "When?"}]})));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let sent = upstream.requests().pop().expect("a request");
    assert!(sent["messages"][0]["content"].as_str().is_some_and(|text| text.contains("Tuesday")), "{sent}");
    assert_error(
        &server.post("/v1/responses/compact", &json!({"input": "x"})),
        400,
        "missing_required_parameter",
        "model",
    );
}

#[test]
fn a_refusal_of_the_provider_is_a_400_or_a_failed_response() {
    let upstream = Upstream::start(|request, _| match request["messages"].to_string() {
        text if text.contains("too often") => Answer::error(429, "slow down").with_header("retry-after", "1"),
        _ => Answer::error(400, "no such thing"),
    });
    let server = Server::start_against(&upstream, "limits: {model_failures: 1}\n");
    for (input, status, code, streamed_code) in [
        ("go", 400, "invalid_request", "invalid_prompt"),
        ("too often", 429, "rate_limit_exceeded", "rate_limit_exceeded"),
    ] {
        let refused = server.post(RESPONSES, &ask(&json!({"input": input})));
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"]), (status, &json!(code)), "{error}");
        assert_eq!(refused.header("retry-after").is_some(), status == 429, "{error}");
        let streamed = frames(&server.post(RESPONSES, &ask(&json!({"input": input, "stream": true}))).body);
        let last = streamed.last().expect("frames");
        assert_eq!(last["type"], "response.failed", "{last}");
        assert_eq!(last["response"]["error"]["code"], streamed_code, "{last}");
    }
}

#[test]
fn options_of_tools_are_honoured_neutral_or_refused_by_name() {
    let upstream = Upstream::start(|_, _| Answer::text("fine"));
    let server = Server::start_against(&upstream, "");
    let tools = |tool: &Value| server.post(RESPONSES, &ask(&json!({"input": "go", "tools": [tool]})));
    for tool in [
        json!({"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "4g", "file_ids": []}}),
        json!({"type": "code_interpreter", "container": "nanoclaw"}),
        json!({"type": "web_search", "search_context_size": "high", "filters": null, "user_location": null}),
        json!({"type": "web_search", "filters": {"allowed_domains": []}, "user_location": {"type": "approximate"}}),
        json!({"type": "shell", "environment": {"type": "container_auto"}}),
        json!({"type": "function", "name": "f", "parameters": null, "strict": null, "defer_loading": false}),
    ] {
        let reply = tools(&tool);
        assert_eq!(reply.status, 200, "{tool}: {}", reply.body);
    }
    for (tool, field) in [
        (json!({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}), "container"),
        (json!({"type": "code_interpreter", "container": "cntr_1"}), "container"),
        (json!({"type": "web_search", "filters": {"allowed_domains": ["a.test"]}}), "filters"),
        (
            json!({"type": "web_search", "user_location": {"type": "approximate", "city": "Rome"}}),
            "user_location",
        ),
        (json!({"type": "shell", "environment": {"type": "local"}}), "environment"),
        (json!({"type": "function", "name": "f", "parameters": {}, "output_schema": {}}), "output_schema"),
        (json!({"type": "function", "name": "f", "parameters": {}, "defer_loading": true}), "defer_loading"),
        (json!({"type": "mcp", "server_label": "x", "tunnel_id": "t"}), "tunnel_id"),
        (
            json!({"type": "mcp", "server_label": "x", "allowed_tools": {"read_only": true}}),
            "allowed_tools.read_only",
        ),
    ] {
        let reply = tools(&tool);
        let error = reply.json()["error"].clone();
        let expected = (400, json!("unsupported_parameter"), json!(format!("tools[0].{field}")));
        assert_eq!((reply.status, error["code"].clone(), error["param"].clone()), expected, "{error}");
    }
    let reply = tools(&json!({"type": "mcp", "server_label": "x", "allowed_tools": "all"}));
    assert_eq!(reply.json()["error"]["param"], "tools[0].allowed_tools", "{}", reply.body);
}

#[test]
fn newer_parameters_of_clients_are_unused_or_refused_by_name() {
    let upstream = Upstream::start(|_, _| Answer::text("fine"));
    let server = Server::start_against(&upstream, "");
    let chat = json!({"model": "scripted", "messages": [{"role": "user", "content": "x"}]});
    for (route, body) in [("/v1/chat/completions", chat), (RESPONSES, ask(&json!({"input": "x"})))] {
        let post = |field: &str, value: &Value| {
            let mut body = body.clone();
            body[field] = value.clone();
            server.post(route, &body)
        };
        let cached = post("prompt_cache_options", &json!({"mode": "implicit", "ttl": "30m"}));
        assert_eq!(cached.status, 200, "{}", cached.body);
        for field in ["moderation", "web_search_options", "background_options", "access_programs", "nonsense"]
        {
            let reply = post(field, &json!({"model": "x"}));
            let error = reply.json()["error"].clone();
            let expected = (400, json!("unsupported_parameter"), json!(field));
            assert_eq!((reply.status, error["code"].clone(), error["param"].clone()), expected, "{error}");
        }
    }
    let most = json!({"input": "x", "reasoning": {"effort": "max"}});
    assert_eq!(server.post(RESPONSES, &ask(&most)).json()["reasoning"]["effort"], "max");
    assert_eq!(upstream.requests().pop().expect("a request")["reasoning_effort"], "max");
}

#[test]
fn a_result_that_is_sent_twice_runs_nothing_again() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("calculator", json!({"expression": "6*7"})), ("lookup", json!({}))]),
        results => Answer::text(&format!("{results} results")),
    });
    let server = Server::start_against(&upstream, "");
    let tools = json!([{"type": "function", "name": "lookup", "parameters": {"type": "object"}}]);
    let headers = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let post = |body: Value| {
        let reply = server.request(("POST", RESPONSES), &headers, &ask(&body).to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    };
    let first = post(json!({"input": "go", "tools": tools}));
    let items = first["output"].as_array().expect("items");
    let call = items.iter().find(|item| item["type"] == "function_call").expect("a call");
    let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "mild"}]);
    for _ in 0..2 {
        let next = post(json!({"input": output, "previous_response_id": first["id"], "tools": tools}));
        let types: Vec<&Value> =
            next["output"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
        assert_eq!(types, ["message"], "the result is text alone: {next}");
        assert_eq!(next["output"][0]["content"][0]["text"], "2 results", "{next}");
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn functions_in_a_namespace_are_called_by_both_names() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("agents__spawn", json!({"n": 1}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let spawn =
        json!({"type": "function", "name": "spawn", "description": "Starts one.", "parameters": null});
    let tools = json!([
        {"type": "namespace", "name": "agents", "description": "Other agents.", "tools": [spawn]},
        {"type": "web_search", "external_web_access": false},
    ]);
    // As Codex sends them.
    let request = |input: Value| json!({"model": "scripted", "input": input, "tools": tools, "store": false, "client_metadata": {"client": "x"}});
    let question = json!({"role": "user", "content": "go"});
    let reply = server.post("/v1/responses", &request(json!([question])));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let first = reply.json();
    let call = &first["output"][0];
    assert_eq!((&call["namespace"], &call["name"]), (&json!("agents"), &json!("spawn")), "{first}");
    let offered = upstream.requests()[0]["tools"].clone();
    let function =
        &offered.as_array().expect("tools").iter().find(|t| t["function"]["name"] == "agents__spawn");
    let function = function.expect("the function");
    assert_eq!(function["function"]["description"], "Other agents.\n\nStarts one.");
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "done"});
    let second = server.post("/v1/responses", &request(json!([question, call, result]))).json();
    assert_eq!(second["output"][0]["content"][0]["text"], "1 results", "{second}");
    let sent = upstream.requests().pop().expect("a request");
    let mut messages = sent["messages"].as_array().expect("messages").iter();
    assert!(
        messages.any(|message| message["tool_calls"][0]["function"]["name"] == "agents__spawn"),
        "{sent}"
    );
    let hosted = json!({"type": "namespace", "name": "a", "tools": [{"type": "web_search"}]});
    let refused =
        server.post("/v1/responses", &json!({"model": "scripted", "input": "x", "tools": [hosted]})).json();
    assert_eq!(refused["error"]["param"], "tools[0].tools[0].type", "{refused}");
    // The functions of all namespaces count together.
    let namespace = |name: &str, count: usize| {
        let function = |n| json!({"type": "function", "name": format!("f{n}")});
        json!({"type": "namespace", "name": name, "tools": (0..count).map(function).collect::<Value>()})
    };
    for (count, status) in [(64, 200), (65, 400)] {
        let tools = json!([namespace("a", 64), namespace("b", count)]);
        let reply = server
            .post("/v1/responses/input_tokens", &json!({"model": "scripted", "input": "x", "tools": tools}));
        assert_eq!(reply.status, status, "{count}: {}", reply.body);
    }
}

#[test]
fn calls_without_results_are_refused_by_their_ids() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("weather", json!({"city": "Rome"})), ("weather", json!({"city": "Oslo"}))]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let tools = json!([{"type": "function", "name": "weather"}]);
    let post = |fields: &Value| server.post(RESPONSES, &ask(fields));
    let refused = |reply: &Reply, id: &Value| {
        assert_error(reply, 400, "invalid_value", "input");
        let text = format!("No tool output found for function call {}.", id.as_str().expect("an id"));
        assert_eq!(reply.json()["error"]["message"], text);
    };
    let question = json!({"role": "user", "content": "go"});
    let result = |id: &Value| json!({"type": "function_call_output", "call_id": id, "output": "1"});
    let first = post(&json!({"tools": tools})).json();
    let calls = first["output"].as_array().expect("calls");
    let (one, two) = (&calls[0]["call_id"], &calls[1]["call_id"]);
    let continued =
        |input: Value| post(&json!({"tools": tools, "previous_response_id": first["id"], "input": input}));
    refused(&continued(json!("and?")), one);
    refused(&continued(json!([result(one)])), two);
    refused(&post(&json!({"tools": tools, "input": [question, calls[0], calls[1], result(two)]})), one);
    refused(
        &post(
            &json!({"tools": tools, "input": [question, {"type": "item_reference", "id": calls[1]["id"]}]}),
        ),
        two,
    );
    for reply in [
        continued(json!([result(two), result(one), question])),
        post(&json!({"tools": tools, "input": [question, calls[0], calls[1], result(two), result(one)]})),
    ] {
        assert_eq!(reply.json()["output"][0]["content"][0]["text"], "2 results", "{}", reply.body);
    }
    // An estimate judges nothing.
    let counted = json!({"model": "scripted", "input": [question, calls[0]], "tools": tools});
    assert_eq!(server.post("/v1/responses/input_tokens", &counted).status, 200);
    assert_eq!(upstream.requests().len(), 3);
}
