//! The export of spans to a collector of OpenTelemetry: encoding, retries, crashes, losses, and secrets.

use crate::support::receiver::{Arrival, Receiver, ReceiverReply};
use crate::support::upstream::{Act, Answer, Upstream, tool_results};
use crate::support::{Server, command, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SECRET: &str = "Bearer s3cret-token";

fn config(receiver: &Receiver) -> String {
    format!(
        "otlp: {{endpoint: \"http://127.0.0.1:{}/base/\", headers: {{x-key: \"{SECRET}\"}}}}\n",
        receiver.port
    )
}

/// All spans of the requests so far.
fn spans(arrivals: &[Arrival]) -> Vec<Value> {
    let of_request = |arrival: &Arrival| {
        let body: Value = serde_json::from_str(&arrival.body).expect("JSON");
        body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
    };
    arrivals.iter().flat_map(of_request).collect()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let found = span["attributes"].as_array().expect("attributes").iter().find(|one| one["key"] == name);
    found.map_or(&Value::Null, |found| &found["value"])
}

/// The ids of the jobs whose roots are among the spans.
fn jobs(spans: &[Value]) -> BTreeSet<String> {
    let ids = spans.iter().map(|span| &attribute(span, "nanoclaw.job.id")["stringValue"]);
    ids.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn metric(server: &Server, series: &str) -> Option<f64> {
    let text = server.get("/metrics").body;
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

fn wait_for_metric(server: &Server, series: &str, value: f64) {
    wait_until(series, || metric(server, series).is_some_and(|found| (found - value).abs() < 1e-9));
}

fn run(server: &Server, body: &Value) -> String {
    let id = server.submit(body);
    server.wait(&id);
    id
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().expect("a string").parse().expect("a number")
}

#[test]
fn a_job_is_exported_as_a_tree_of_spans_in_otlp_json() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            Answer::calls(&[("calculator", json!({"expression": "6*7"})), ("no_such_tool", json!({}))])
        } else {
            Answer::text("It is 42.")
        }
    });
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_against(&upstream, &config(&receiver));
    let id = run(&server, &json!({"input": "private question", "conversation_id": "chat-1"}));
    let arrived = receiver.arrivals(1);
    assert_eq!(arrived[0].path, "/base/v1/traces");
    assert_eq!(arrived[0].header("content-type"), "application/json");
    assert_eq!(arrived[0].header("x-key"), SECRET);
    let body: Value = serde_json::from_str(&arrived[0].body).expect("JSON");
    let resource = &body["resourceSpans"][0]["resource"]["attributes"];
    assert_eq!(resource[0], json!({"key": "service.name", "value": {"stringValue": "nanoclaw"}}));
    assert!(!arrived[0].body.contains("private question") && !arrived[0].body.contains("It is 42"));
    let mut spans = spans(&arrived);
    // The call that is refused ends first.
    spans.sort_by_key(|span| attribute(span, "gen_ai.tool.name")["stringValue"] == "no_such_tool");
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().expect("a name")).collect();
    let expected = [
        "invoke_agent nanoclaw",
        "chat scripted",
        "execute_tool calculator",
        "chat scripted",
        "execute_tool no_such_tool",
    ];
    assert_eq!(names, expected);
    let root = &spans[0];
    assert_eq!(root["traceId"].as_str().map(str::len), Some(32), "hexadecimal digits");
    assert_eq!(root["spanId"].as_str().map(str::len), Some(16));
    assert!(root.get("parentSpanId").is_none() && root.get("status").is_none());
    assert_eq!((&root["kind"], &spans[1]["kind"], &spans[2]["kind"]), (&json!(1), &json!(3), &json!(1)));
    for (name, value) in [
        ("gen_ai.operation.name", json!({"stringValue": "invoke_agent"})),
        ("gen_ai.conversation.id", json!({"stringValue": "chat-1"})),
        ("gen_ai.agent.name", json!({"stringValue": "nanoclaw"})),
        ("gen_ai.provider.name", json!({"stringValue": "openai"})),
        ("nanoclaw.job.id", json!({"stringValue": id})),
        ("nanoclaw.job.attempts", json!({"intValue": "1"})),
    ] {
        assert_eq!(*attribute(root, name), value, "{name}");
    }
    let reasons = json!({"arrayValue": {"values": [{"stringValue": "tool_calls"}]}});
    assert_eq!(*attribute(&spans[1], "gen_ai.response.finish_reasons"), reasons);
    assert_eq!(attribute(&spans[1], "server.address")["stringValue"], "127.0.0.1");
    assert_eq!(attribute(&spans[2], "gen_ai.tool.name")["stringValue"], "calculator");
    assert_eq!(spans[4]["status"], json!({"code": 2}));
    assert_eq!(attribute(&spans[4], "error.type")["stringValue"], "tool_error");
    for span in &spans[1..] {
        assert_eq!((&span["parentSpanId"], &span["traceId"]), (&root["spanId"], &root["traceId"]));
        assert!(time(root, "startTimeUnixNano") <= time(span, "startTimeUnixNano"));
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"));
        assert!(time(span, "endTimeUnixNano") <= time(root, "endTimeUnixNano"));
        assert!(attribute(span, "nanoclaw.times.estimated").is_null(), "{span}");
    }
    wait_for_metric(&server, "nanoclaw_otlp_spans_total{outcome=\"exported\"}", 5.0);
    wait_for_metric(&server, "nanoclaw_otlp_jobs_waiting", 0.0);
}

#[test]
fn a_span_has_the_model_that_its_provider_names() {
    let upstream = Upstream::start(|request, _| {
        let named = if tool_results(request).is_empty() { "scripted-2026" } else { "scripted" };
        let mut answer = match named {
            "scripted" => Answer::text("It is 42."),
            _ => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
        };
        for act in &mut answer.acts {
            if let Act::Data(chunk) = act {
                chunk["model"] = json!(named);
            }
        }
        answer
    });
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_against(&upstream, &config(&receiver));
    run(&server, &json!({"input": "hello"}));
    let spans = spans(&receiver.arrivals(1));
    let chats = spans.iter().filter(|span| span["name"] == "chat scripted");
    let models: Vec<_> =
        chats.map(|span| attribute(span, "gen_ai.response.model")["stringValue"].clone()).collect();
    assert_eq!(models, [json!("scripted-2026"), json!("scripted")]);
}

#[test]
fn sub_agents_are_spans_below_their_tool_call() {
    let upstream = Upstream::start(|request, _| {
        let is_agent = request["messages"].to_string().contains("You are the agent");
        match (is_agent, tool_results(request).is_empty()) {
            (true, true) => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
            (false, true) => {
                let task = json!({"name": "counter", "instruction": "count", "tools": ["calculator"]});
                Answer::calls(&[("multi_agent", json!({"tasks": [task]}))])
            }
            (_, false) => Answer::text("It is 42."),
        }
    });
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_against(&upstream, &config(&receiver));
    run(&server, &json!({"input": "go"}));
    let spans = spans(&receiver.arrivals(1));
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).expect("a span");
    let (tool, agent) = (named("execute_tool multi_agent"), named("invoke_agent counter"));
    let below = |parent: &Value| -> Vec<&Value> {
        spans.iter().filter(|span| span["parentSpanId"] == parent["spanId"]).collect()
    };
    assert_eq!(below(tool), [agent]);
    assert_eq!((&tool["kind"], &agent["kind"]), (&json!(1), &json!(1)));
    let own_calls = below(agent);
    let operations: Vec<_> = own_calls.iter().map(|span| span["name"].as_str().expect("a name")).collect();
    assert_eq!(operations, ["chat scripted", "execute_tool calculator", "chat scripted"]);
    assert_eq!(attribute(agent, "gen_ai.agent.name")["stringValue"], "counter");
    assert!(attribute(agent, "nanoclaw.times.estimated").is_null());
    let mut last = time(agent, "startTimeUnixNano");
    for span in own_calls {
        assert!(last <= time(span, "startTimeUnixNano"), "one after the other: {span}");
        last = time(span, "endTimeUnixNano");
    }
    assert!(last <= time(agent, "endTimeUnixNano"));
    assert!(time(agent, "endTimeUnixNano") <= time(tool, "endTimeUnixNano"));
    assert!(time(tool, "startTimeUnixNano") <= time(agent, "startTimeUnixNano").saturating_add(1_000_000));
}

#[test]
fn content_is_exported_where_the_operator_wants_it() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let config = format!(
        "otlp: {{endpoint: \"http://127.0.0.1:{}\", include_content: true, service_name: my-agents}}",
        receiver.port
    );
    let server = Server::start_with(&config);
    run(&server, &json!({"input": "a question", "system_prompt": "be brief"}));
    let arrived = receiver.arrivals(1);
    assert!(arrived[0].body.contains("my-agents"));
    let root = &spans(&arrived)[0];
    let messages = attribute(root, "gen_ai.input.messages")["stringValue"].as_str().expect("content");
    let messages: Value = serde_json::from_str(messages).expect("JSON");
    assert_eq!(messages, json!([{"role": "user", "parts": [{"type": "text", "content": "a question"}]}]));
    let system = attribute(root, "gen_ai.system_instructions")["stringValue"].as_str().expect("content");
    assert!(system.contains("be brief"));
}

#[test]
fn a_job_joins_the_trace_that_its_client_names() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_with(&config(&receiver));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("content-type", "application/json"), ("traceparent", parent)];
    let job = json!({"input": "hello"}).to_string();
    assert_eq!(server.request(("POST", "/v1/jobs?wait=30"), &headers, &job).status, 200);
    let chat = json!({"model": "demo", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    assert_eq!(server.request(("POST", "/v1/chat/completions"), &headers, &chat).status, 200);
    wait_until("both jobs", || jobs(&spans(&receiver.arrivals(1))).len() == 2);
    for span in spans(&receiver.arrivals(1)) {
        assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
        let is_root = !attribute(&span, "nanoclaw.job.id").is_null();
        assert_eq!(span["parentSpanId"] == "b7ad6b7169203331", is_root, "{span}");
    }
}

#[test]
fn a_busy_collector_gets_the_same_spans_again_after_its_pause() {
    let receiver = Receiver::start(|number| match number {
        0 => ReceiverReply::Answer(503, "retry-after: 3\r\n", ""),
        _ => ReceiverReply::Status(200),
    });
    let server = Server::start_with(&config(&receiver));
    run(&server, &json!({"input": "hello"}));
    receiver.arrivals(1);
    let start = Instant::now();
    let arrived = receiver.arrivals(2);
    assert!(start.elapsed() >= Duration::from_millis(2_500), "{:?}", start.elapsed());
    assert_eq!(arrived[0].body, arrived[1].body, "the same ids and times");
    wait_for_metric(&server, "nanoclaw_otlp_requests_total{outcome=\"taken\"}", 1.0);
    assert_eq!(metric(&server, "nanoclaw_otlp_requests_total{outcome=\"failed\"}"), Some(1.0));
    assert!(server.log().contains("the collector answered 503"), "{}", server.log());
}

#[test]
fn p1_after_a_crash_each_ended_job_is_exported() {
    let is_up = Arc::new(AtomicBool::new(false));
    let script = Arc::clone(&is_up);
    let receiver = Receiver::start(move |_| {
        ReceiverReply::Status(if script.load(Ordering::SeqCst) { 200 } else { 503 })
    });
    let config = config(&receiver);
    let server = Server::start_with(&config);
    let ended: BTreeSet<String> =
        (0..20).map(|number| run(&server, &json!({"input": format!("n {number}")}))).collect();
    receiver.arrivals(1);
    let mut server = server;
    server.kill();
    let before = receiver.arrivals(1).len();
    is_up.store(true, Ordering::SeqCst);
    let server = server.crash_and_restart(&config);
    wait_until("all jobs to arrive", || jobs(&spans(&receiver.arrivals(1)[before..])) == ended);
    wait_for_metric(&server, "nanoclaw_otlp_jobs_waiting", 0.0);
}

#[test]
fn p9_refused_spans_are_dropped_and_secrets_stay_out_of_the_log() {
    let receiver = Receiver::start(|number| match number {
        0 => ReceiverReply::Answer(400, "", "no such key: Bearer s3cret-token, s3cret-token"),
        1 => ReceiverReply::Answer(
            200,
            "",
            "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"s3cret-token is old\"}}",
        ),
        _ => ReceiverReply::Status(200),
    });
    let server = Server::start_with(&config(&receiver));
    run(&server, &json!({"input": "one"}));
    wait_for_metric(&server, "nanoclaw_otlp_spans_total{outcome=\"dropped\"}", 2.0);
    let second = run(&server, &json!({"input": "two"}));
    wait_for_metric(&server, "nanoclaw_otlp_spans_total{outcome=\"rejected\"}", 1.0);
    assert_eq!(metric(&server, "nanoclaw_otlp_spans_total{outcome=\"exported\"}"), Some(1.0));
    let arrived = receiver.arrivals(2);
    assert_eq!(jobs(&spans(&arrived[1..])), [second].into(), "the refused request is not repeated");
    let log = server.log();
    assert!(log.contains("the collector refused spans; they are dropped"), "{log}");
    assert!(log.contains("the collector has not taken all spans"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
    assert!(!arrived.iter().any(|arrival| arrival.body.contains("s3cret")));
}

#[test]
fn a_job_that_is_deleted_before_its_export_is_reported() {
    let is_up = Arc::new(AtomicBool::new(false));
    let script = Arc::clone(&is_up);
    let receiver = Receiver::start(move |_| {
        ReceiverReply::Status(if script.load(Ordering::SeqCst) { 200 } else { 429 })
    });
    let server = Server::start_with(&config(&receiver));
    let (gone, kept) = (run(&server, &json!({"input": "one"})), run(&server, &json!({"input": "two"})));
    receiver.arrivals(1);
    assert_eq!(server.ask("DELETE", &format!("/v1/jobs/{gone}"), &Value::Null).status, 200);
    let before = receiver.arrivals(1).len();
    is_up.store(true, Ordering::SeqCst);
    wait_for_metric(&server, "nanoclaw_otlp_jobs_lost_total{reason=\"removed\"}", 1.0);
    wait_until("the other job", || jobs(&spans(&receiver.arrivals(1)[before..])).contains(&kept));
    assert!(server.log().contains("spans of an ended job are lost"), "{}", server.log());
}

#[test]
fn without_an_endpoint_there_is_no_thread_and_no_request() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let threads = |server: &Server| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads");
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.expect("a thread").path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).map(|name| name.trim().to_owned()).collect()
    };
    let off = Server::start();
    let early = run(&off, &json!({"input": "before"}));
    assert!(!threads(&off).contains(&"otlp".to_owned()));
    assert!(!off.get("/metrics").body.contains("nanoclaw_otlp_requests_total{"));
    let on = off.crash_and_restart(&config(&receiver));
    let late = run(&on, &json!({"input": "after"}));
    assert_eq!(jobs(&spans(&receiver.arrivals(1))), [late].into(), "not {early}: it ended before");
    // It has started by now, which can be after the server is ready.
    assert!(threads(&on).contains(&"otlp".to_owned()));
}

#[test]
fn a_hanging_collector_does_not_delay_a_shutdown() {
    let receiver = Receiver::start(|_| ReceiverReply::Nothing);
    let mut server = Server::start_with(&config(&receiver));
    run(&server, &json!({"input": "hello"}));
    receiver.arrivals(1);
    let start = Instant::now();
    assert!(server.terminate().success());
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}

#[test]
fn p9_bad_options_are_refused_at_the_start_and_headers_are_masked() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    let ran = |config: &str, arguments: &[&str]| {
        std::fs::write(&file, config).expect("writes");
        let output = command(arguments).arg("--config").arg(&file).output().expect("runs");
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        (output.status.success(), text)
    };
    for (config, wanted) in [
        (
            "otlp: {endpoint: 'http://h:4318/v1/traces'}",
            "otlp.endpoint: 'http://h:4318/v1/traces' is not allowed",
        ),
        ("otlp: {endpoint: 'grpc://h:4317'}", "otlp.endpoint"),
        ("otlp: {headers: {content-type: s3cret}}", "otlp.headers: 'content-type'"),
        ("otlp: {timeout_s: 0}", "otlp.timeout_s: '0'"),
        ("otlp: {header: {a: s3cret}}", "did you mean"),
    ] {
        let (is_valid, text) = ran(config, &["config", "check"]);
        assert!(!is_valid && text.contains(wanted) && !text.contains("s3cret"), "{config}: {text}");
    }
    let (is_valid, text) = ran("otlp: {headers: {a: s3cret-1}}", &["config", "show"]);
    assert!(is_valid && text.contains("a: '***'") && !text.contains("s3cret"), "{text}");
}
