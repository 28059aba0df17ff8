//! Batches of uploaded files with the real binary: the objects of `OpenAI`, faults by line, and the files
//! with the results.

use crate::support::chat::last_text;
use crate::support::receiver::{Receiver, ReceiverReply};
use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning};
use crate::support::{Reply, Server, wait_until};
use serde_json::{Value, json};

fn upload(server: &Server, purpose: &str, lines: &str) -> String {
    let part = |name: &str, data: &str| {
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{data}\r\n")
    };
    let body = part("purpose", purpose) + &part("file\"; filename=\"jobs.jsonl", lines) + "--cut--\r\n";
    let reply = server.request(
        ("POST", "/v1/files"),
        &[("content-type", "multipart/form-data; boundary=cut")],
        &body,
    );
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["id"].as_str().expect("an id").to_owned()
}

fn chat_line(id: &str, text: &str) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    let body = json!({"model": "demo", "messages": messages});
    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string() + "\n"
}

fn order(file: &str, endpoint: &str) -> Value {
    json!({"input_file_id": file, "endpoint": endpoint, "completion_window": "24h"})
}

fn create(server: &Server, file: &str, endpoint: &str) -> Value {
    let reply = server.post("/v1/batches", &order(file, endpoint));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn ended(server: &Server, batch: &Value) -> Value {
    let path = format!("/v1/batches/{}?wait=60", batch["id"].as_str().expect("an id"));
    server.get(&path).json()
}

/// The lines of a file with results, by `custom_id`.
fn results(server: &Server, file: &Value) -> Vec<Value> {
    let path = format!("/v1/files/{}/content", file.as_str().expect("a file"));
    let mut lines: Vec<Value> =
        server.get(&path).body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.sort_by_key(|line| line["custom_id"].to_string());
    lines
}

fn error(reply: &Reply) -> (u16, Value) {
    (reply.status, reply.json()["error"]["param"].clone())
}

#[test]
fn a_batch_of_a_file_ends_with_a_file_of_completions() {
    let server = Server::start();
    let file = upload(&server, "batch", &(chat_line("a", "one") + "\n" + &chat_line("b", "two")));
    let mut body = order(&file, "/v1/chat/completions");
    body["metadata"] = json!({"k": "v"});
    body["output_expires_after"] = json!({"anchor": "created_at", "seconds": 3_600});
    let reply = server.post("/v1/batches", &body);
    let batch = reply.json();
    assert_eq!(reply.status, 200, "{batch}");
    for (field, expected) in [
        ("object", json!("batch")),
        ("endpoint", json!("/v1/chat/completions")),
        ("input_file_id", json!(file)),
        ("completion_window", json!("24h")),
        ("metadata", json!({"k": "v"})),
        ("errors", Value::Null),
    ] {
        assert_eq!(batch[field], expected, "{field}");
    }
    let ended = ended(&server, &batch);
    assert_eq!((&ended["status"], &ended["error_file_id"]), (&json!("completed"), &Value::Null), "{ended}");
    assert_eq!(ended["request_counts"], json!({"total": 2, "completed": 2, "failed": 0}));
    assert!(ended["finalizing_at"].is_u64() && ended["completed_at"].is_u64(), "{ended}");
    let output =
        server.get(&format!("/v1/files/{}", ended["output_file_id"].as_str().expect("a file"))).json();
    assert_eq!(output["purpose"], "batch_output");
    assert_eq!(output["expires_at"].as_u64(), output["created_at"].as_u64().map(|at| at + 3_600));
    let lines = results(&server, &ended["output_file_id"]);
    assert_eq!(lines.len(), 2);
    let (line, answer) = (&lines[0], &lines[0]["response"]["body"]);
    assert_eq!(
        (&line["custom_id"], &line["error"], &line["response"]["status_code"]),
        (&json!("a"), &Value::Null, &json!(200))
    );
    assert!(line["id"].as_str().is_some_and(|id| id.starts_with("batch_req_")), "{line}");
    assert!(answer["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-job_")), "{answer}");
    assert_eq!(
        (&answer["object"], &answer["choices"][0]["finish_reason"]),
        (&json!("chat.completion"), &json!("stop"))
    );
    assert!(
        answer["choices"][0]["message"]["content"].as_str().is_some_and(|text| text.contains("one")),
        "{answer}"
    );
    assert!(answer["usage"]["total_tokens"].is_u64(), "{answer}");
}

/// The same without what differs between two requests: ids and times.
fn stripped(mut answer: Value) -> Value {
    let map = answer.as_object_mut().expect("an object");
    for name in ["id", "created", "created_at", "completed_at"] {
        if let Some(value) = map.get_mut(name) {
            *value = json!(value.is_string());
        }
    }
    for item in map.get_mut("output").and_then(Value::as_array_mut).into_iter().flatten() {
        for name in ["id", "call_id"] {
            if let Some(value) = item.get_mut(name) {
                *value = json!(value.is_string());
            }
        }
    }
    for choice in map.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
        for call in choice["message"]["tool_calls"].as_array_mut().into_iter().flatten() {
            call["id"] = json!(call["id"].is_string());
        }
    }
    answer
}

/// A model that answers as the prompt says.
fn scripted() -> Upstream {
    Upstream::start(|request, _| match last_text(request).as_str() {
        "refuse" => Answer::error(400, "no such thing"),
        "call" => Answer::calls(&[("weather", json!({"city": "Bonn"}))]),
        "think" => Answer::stream(vec![
            Act::Data(reasoning("hm")),
            Act::Data(content("{\"a\":1}")),
            Act::Data(finish("stop")),
        ]),
        _ => Answer::stream(vec![Act::Data(content("cut")), Act::Data(finish("length"))]),
    })
}

#[test]
fn each_line_is_read_and_answered_as_its_route_does_it() {
    let upstream = scripted();
    let server = Server::start_against(&upstream, "limits: {model_failures: 1}\n");
    let function = json!({"name": "weather", "parameters": {"type": "object", "properties": {}}});
    let mut typed = function.clone();
    typed["type"] = json!("function");
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let chat = [
        ("call", json!({"tools": [{"type": "function", "function": function}], "tool_choice": "auto"})),
        (
            "think",
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
        ),
        ("short", json!({"max_completion_tokens": 1, "stop": ["x"], "top_p": 0.5, "seed": 1, "store": true})),
        ("refuse", json!({"metadata": {"k": "v"}})),
    ];
    let responses = [
        ("call", json!({"tools": [typed], "store": false})),
        ("think", json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}})),
        ("short", json!({"max_output_tokens": 1, "instructions": "be brief"})),
        ("refuse", json!({"metadata": {"k": "v"}})),
    ];
    for (endpoint, cases) in [("/v1/chat/completions", chat), ("/v1/responses", responses)] {
        let cases = cases.map(|(text, fields)| {
            let mut body = if endpoint == "/v1/responses" {
                json!({"model": "scripted", "input": text})
            } else {
                json!({"model": "scripted", "messages": [{"role": "user", "content": text}]})
            };
            for (name, value) in fields.as_object().expect("an object") {
                body[name] = value.clone();
            }
            (text, body)
        });
        let line = |(text, body): &(&str, Value)| {
            json!({"custom_id": text, "method": "POST", "url": endpoint, "body": body}).to_string() + "\n"
        };
        let file = upload(&server, "batch", &cases.iter().map(line).collect::<String>());
        let batch = ended(&server, &create(&server, &file, endpoint));
        assert_eq!(batch["request_counts"], json!({"total": 4, "completed": 3, "failed": 1}), "{batch}");
        let mut lines = results(&server, &batch["output_file_id"]);
        lines.extend(results(&server, &batch["error_file_id"]));
        let sent_by_lines = upstream.requests().len();
        for (text, body) in cases {
            let found = lines.iter().find(|line| line["custom_id"] == text);
            let response = &found.unwrap_or_else(|| panic!("{text} is missing"))["response"];
            let direct = server.post(endpoint, &body);
            assert_eq!(response["status_code"], direct.status, "{text}: {response}");
            let (line, route) = (&response["body"], direct.json());
            if direct.status == 200 {
                assert_eq!(stripped(line.clone()), stripped(route), "{endpoint} {text}");
            } else {
                assert_eq!((direct.status, line), (400, &route), "{endpoint} {text}");
            }
            let job = response["request_id"].as_str().expect("a job");
            assert_eq!(server.get(&format!("/v1/jobs/{job}")).json()["object"], "job");
        }
        let requests = upstream.requests();
        let (lines, routes) = requests.split_at(sent_by_lines);
        for route in routes.iter().rev().take(4) {
            assert!(lines.contains(route), "{endpoint}: the model got the same: {route}");
        }
    }
}

#[test]
fn lines_get_tools_of_the_server_only_with_a_header() {
    let upstream = scripted();
    let server = Server::start_against(&upstream, "");
    let body = json!({"model": "scripted", "messages": [{"role": "user", "content": "think"}]});
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body});
    let file = upload(&server, "batch", &line.to_string());
    let create = |headers: &[(&str, &str)]| {
        let headers = [&[("content-type", "application/json")], headers].concat();
        server.request(("POST", "/v1/batches"), &headers, &order(&file, "/v1/chat/completions").to_string())
    };
    for headers in [&[][..], &[("nanoclaw-tools", "calculator"), ("nanoclaw-priority", "2")]] {
        let batch = ended(&server, &create(headers).json());
        assert_eq!(batch["request_counts"]["completed"], 1, "{batch}");
    }
    let offered: Vec<Value> =
        upstream.requests().iter().map(|request| request["tools"][0]["function"]["name"].clone()).collect();
    assert_eq!(offered, [Value::Null, json!("calculator")]);
    assert_eq!(
        create(&[("nanoclaw-tools", "nonsense")]).json()["errors"]["data"][0]["param"],
        "nanoclaw-tools"
    );
    assert_eq!(create(&[("nanoclaw-priority", "x")]).status, 400);
}

#[test]
fn lines_that_fail_are_in_a_file_of_their_own() {
    let server = Server::start();
    let responses = |id: &str, body: Value| {
        json!({"custom_id": id, "method": "POST", "url": "/v1/responses", "body": body}).to_string() + "\n"
    };
    let jobs =
        |id: &str, body: Value| json!({"custom_id": id, "url": "/v1/jobs", "body": body}).to_string() + "\n";
    let file = upload(&server, "batch", &responses("a", json!({"model": "demo", "input": "hello"})));
    let answered = ended(&server, &create(&server, &file, "/v1/responses"));
    let answer = results(&server, &answered["output_file_id"])[0]["response"]["body"].clone();
    assert_eq!((&answer["object"], &answer["status"]), (&json!("response"), &json!("completed")));
    assert!(answer["output"][0]["content"][0]["text"].as_str().is_some_and(|text| text.contains("hello")));
    let slow = json!({"input": "stream: 500 words, 100 ms", "timeout_s": 1});
    let lines = jobs("a", json!({"input": "fine"})) + &jobs("b", slow);
    let batch = ended(&server, &create(&server, &upload(&server, "batch", &lines), "/v1/jobs"));
    assert_eq!(batch["request_counts"], json!({"total": 2, "completed": 1, "failed": 1}), "{batch}");
    assert_eq!(results(&server, &batch["output_file_id"])[0]["response"]["body"]["object"], "job");
    let failed = results(&server, &batch["error_file_id"]).remove(0);
    assert_eq!(
        (&failed["custom_id"], &failed["response"]["status_code"]),
        (&json!("b"), &json!(504)),
        "{failed}"
    );
    assert_eq!(failed["response"]["body"]["error"]["code"], "timeout", "{failed}");
}

#[test]
fn a_cancelled_batch_of_a_file_tells_which_lines_never_began() {
    let server = Server::start_with("workers: 1");
    let lines: String = (0..3).map(|n| chat_line(&n.to_string(), "stream: 600 words, 100 ms")).collect();
    let file = upload(&server, "batch", &lines);
    let reply = server.post("/v1/batches?concurrency=1", &order(&file, "/v1/chat/completions"));
    let batch = reply.json();
    let cancelled =
        server.post(&format!("/v1/batches/{}/cancel", batch["id"].as_str().expect("an id")), &json!({}));
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    let ended = ended(&server, &batch);
    assert_eq!((&ended["status"], &ended["output_file_id"]), (&json!("cancelled"), &Value::Null), "{ended}");
    let lines = results(&server, &ended["error_file_id"]);
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[2]["response"], &lines[2]["error"]["code"]),
        (&Value::Null, &json!("batch_cancelled"))
    );
}

#[test]
fn a_file_with_faults_makes_a_failed_batch_that_names_them() {
    let server = Server::start_with("limits: {batch_lines: 4}");
    let bad = json!({"custom_id": "c", "method": "POST", "url": "/v1/responses", "body": {"input": "x"}})
        .to_string();
    let chat = |id: &str, field: &str, value: Value| {
        let mut body = json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]});
        body[field] = value;
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string()
    };
    let odd = [
        chat("d", "n", json!(2)),
        chat("e", "stream", json!(true)),
        chat("f", "model", json!("no-such-model")),
        chat("g", "top_p", json!(7)),
        chat("h", "model", Value::Null),
    ]
    .join("\n");
    let lines = format!("{}nonsense\n{}{bad}\n{odd}\n", chat_line("a", "x"), chat_line("a", "y"));
    let batch = create(&server, &upload(&server, "batch", &lines), "/v1/chat/completions");
    assert_eq!(
        (&batch["status"], &batch["request_counts"]["total"]),
        (&json!("failed"), &json!(0)),
        "{batch}"
    );
    let faults: Vec<(Value, Value, Value)> = batch["errors"]["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fault| (fault["line"].clone(), fault["code"].clone(), fault["param"].clone()))
        .collect();
    let expected = [
        (json!(2), json!("invalid_request"), Value::Null),
        (json!(3), json!("invalid_value"), json!("custom_id")),
        (json!(4), json!("invalid_value"), json!("url")),
        (json!(5), json!("unsupported_parameter"), json!("n")),
        (json!(6), json!("invalid_value"), json!("stream")),
        (json!(7), json!("model_not_found"), json!("model")),
        (json!(8), json!("invalid_value"), json!("top_p")),
        (json!(9), json!("missing_required_parameter"), json!("model")),
    ];
    assert_eq!(faults, expected);
    assert!(batch["failed_at"].is_u64() && batch["in_progress_at"].is_null(), "{batch}");
    assert_eq!(ended(&server, &batch), batch, "it stays");
    let long: String = (0..5).map(|n| chat_line(&n.to_string(), "x")).collect();
    for (lines, word) in [(" \n", "empty"), (long.as_str(), "limits.batch_lines")] {
        let batch = create(&server, &upload(&server, "batch", lines), "/v1/chat/completions");
        let fault = &batch["errors"]["data"][0];
        assert_eq!((&batch["status"], &fault["line"]), (&json!("failed"), &Value::Null), "{batch}");
        assert!(fault["message"].as_str().is_some_and(|text| text.contains(word)), "{fault}");
    }
    let id = batch["id"].as_str().expect("an id");
    assert_eq!(server.ask("DELETE", &format!("/v1/batches/{id}"), &Value::Null).status, 200);
    assert_eq!(server.get("/v1/jobs").json()["data"], json!([]), "no line ran");
}

#[test]
fn a_wrong_request_for_a_batch_of_a_file_names_its_field() {
    let server = Server::start();
    let (file, image) = (upload(&server, "batch", &chat_line("a", "x")), upload(&server, "vision", "x"));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = order(&file, "/v1/chat/completions");
        change(&mut body);
        server.post("/v1/batches", &body)
    };
    let set = |name: &'static str, value: Value| with(&|body| body[name] = value.clone());
    assert_eq!(error(&set("endpoint", json!("/v1/embeddings"))), (400, json!("endpoint")));
    assert_eq!(error(&set("completion_window", json!("1h"))), (400, json!("completion_window")));
    assert_eq!(error(&set("input_file_id", json!("x"))), (400, json!("input_file_id")));
    assert_eq!(error(&set("input_file_id", json!(image))), (400, json!("input_file_id")));
    assert_eq!(error(&set("priority", json!(1))), (400, json!("priority")));
    assert_eq!(error(&set("metadata", json!({"k": 1}))), (400, json!("metadata.k")));
    let short = json!({"anchor": "created_at", "seconds": 1});
    assert_eq!(error(&set("output_expires_after", short)), (400, json!("output_expires_after.seconds")));
    let missing = set("input_file_id", json!(format!("{}0000", &file[..file.len() - 4])));
    assert_eq!(missing.status, 404, "{}", missing.body);
    server.ask("DELETE", &format!("/v1/files/{file}"), &Value::Null);
    assert_eq!(with(&|_| {}).status, 404);
    // JSON lines as application/json are still a batch of their own.
    let line = json!({"custom_id": "a", "body": {"input": "x"}});
    let own = server.post("/v1/batches", &line);
    assert_eq!((own.status, &own.json()["input_file_id"]), (202, &Value::Null), "{}", own.body);
}

#[test]
fn p1_files_with_results_are_written_after_a_crash_and_after_a_retry() {
    let server = Server::start();
    let lines = json!({"custom_id": "a", "url": "/v1/jobs", "body": {"input": "stream: 20 words, 100 ms", "timeout_s": 1}});
    let file = upload(&server, "batch", &lines.to_string());
    let batch = create(&server, &file, "/v1/jobs");
    let server = server.crash_and_restart("");
    let id = batch["id"].as_str().expect("an id").to_owned();
    let mut failed = Value::Null;
    wait_until("the file", || {
        failed = server.get(&format!("/v1/batches/{id}")).json();
        failed["error_file_id"].is_string()
    });
    assert_eq!(failed["status"], "completed", "{failed}");
    let line = results(&server, &failed["error_file_id"]).remove(0);
    let job = line["response"]["request_id"].as_str().expect("a job").to_owned();
    let retried = server.post(&format!("/v1/jobs/{job}/retry"), &json!({}));
    assert_eq!(retried.status, 202, "{}", retried.body);
    let again = ended(&server, &batch);
    assert_ne!(again["error_file_id"], failed["error_file_id"], "{again}");
    let old = failed["error_file_id"].as_str().expect("a file");
    assert_eq!(server.get(&format!("/v1/files/{old}")).status, 404, "it is replaced");
    let outputs = server.get("/v1/files?purpose=batch_output").json();
    assert_eq!(outputs["data"].as_array().map(Vec::len), Some(1), "{outputs}");
}

#[test]
fn an_idempotency_key_makes_one_batch_of_a_file_and_lists_have_both_cursors() {
    let server = Server::start();
    let file = upload(&server, "batch", &chat_line("a", "x"));
    let send = || {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let reply = server.request(
            ("POST", "/v1/batches"),
            &headers,
            &order(&file, "/v1/chat/completions").to_string(),
        );
        (reply.status, reply.json()["id"].clone())
    };
    let first = send();
    assert_eq!((first.0, send()), (200, first.clone()));
    let second = create(&server, &file, "/v1/chat/completions");
    let page = server.get("/v1/batches?limit=1").json();
    assert_eq!(
        (&page["first_id"], &page["last_id"], &page["has_more"]),
        (&second["id"], &second["id"], &json!(true))
    );
    let after = page["last_id"].as_str().expect("an id");
    for name in ["after", "cursor"] {
        let rest = server.get(&format!("/v1/batches?{name}={after}")).json();
        assert_eq!((&rest["data"][0]["id"], &rest["has_more"]), (&first.1, &json!(false)), "{rest}");
    }
}

#[test]
fn the_webhook_of_a_batch_of_a_file_comes_when_its_files_are_there() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(204));
    let server = Server::start_with("webhooks: {allow_private_addresses: [127.0.0.1]}");
    let file = upload(&server, "batch", &chat_line("a", "x"));
    let path = format!("/v1/batches?webhook_url=http://127.0.0.1:{}/hook", receiver.port);
    let batch = server.post(&path, &order(&file, "/v1/chat/completions")).json();
    let arrival = receiver.arrivals(1).remove(0);
    let told: Value = serde_json::from_str(&arrival.body).expect("JSON");
    assert_eq!((&told["data"]["id"], &told["type"]), (&batch["id"], &json!("batch.completed")), "{told}");
    let batch = server.get(&format!("/v1/batches/{}", batch["id"].as_str().expect("an id"))).json();
    assert_eq!(results(&server, &batch["output_file_id"]).len(), 1);
}
