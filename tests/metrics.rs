//! `GET /metrics`: counters and gauges match what happened, in valid exposition format, without user data.

#[path = "../src/metrics/testing.rs"]
mod exposition;
use crate::support::receiver::{Receiver, ReceiverReply};
use crate::support::upstream::{Act, Answer, Upstream, content, tool_results};
use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONFIG: &str =
    "approval: [text_process]\nworkers: 5\nwebhooks: {allow_private_addresses: [127.0.0.1]}\n";
/// Appears in names and prompts; no scrape may contain it.
const MARK: &str = "only-for-ann";

/// One scrape, parsed strictly.
struct Scrape {
    text: String,
    samples: BTreeMap<exposition::Series, f64>,
}

impl Scrape {
    fn of(server: &Server) -> Self {
        let reply = server.get("/metrics");
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let samples = exposition::read(&reply.body).unwrap_or_else(|error| panic!("{error}\n{}", reply.body));
        Self { text: reply.body, samples }
    }

    /// The sum over all series of this name that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matches = |series: &exposition::Series| {
            let has = |(name, value): &(&str, &str)| series.1.get(*name).is_some_and(|found| found == value);
            series.0 == name && labels.iter().all(has)
        };
        self.samples.iter().filter(|(series, _)| matches(series)).map(|(_, value)| value).sum()
    }

    #[track_caller]
    fn assert(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let found = self.sum(name, labels);
        assert!((found - value).abs() < 1e-9, "{name} {labels:?}: {found}, not {value}\n{}", self.text);
    }
}

/// Scrapes until the sum is this.
#[track_caller]
fn wait_for(server: &Server, name: &str, labels: &[(&str, &str)], value: f64) -> Scrape {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let scrape = Scrape::of(server);
        if (scrape.sum(name, labels) - value).abs() < 1e-9 {
            return scrape;
        }
        assert!(Instant::now() < deadline, "{name} {labels:?} does not become {value}\n{}", scrape.text);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A model whose answer depends on the prompt.
fn upstream() -> Upstream {
    Upstream::start(|request, _| {
        let messages = request["messages"].to_string();
        let has = |text: &str| messages.contains(text);
        if has("please-fail") {
            return Answer::error(400, "no");
        }
        if has("please-hang") {
            let content_type = vec![("content-type".into(), "text/event-stream".into())];
            return Answer {
                status: 200,
                headers: content_type,
                acts: vec![Act::Data(content("well ")), Act::Hang],
            };
        }
        if !tool_results(request).is_empty() {
            return Answer::text("done");
        }
        if has("please-ask") {
            return Answer::calls(&[("text_process", json!({"text": "x", "operation": "upper"}))]);
        }
        Answer::calls(&[
            ("calculator", json!({"expression": "6*7"})),
            ("execute_javascript", json!({"code": "6*7"})),
            (MARK, json!({})),
        ])
    })
}

#[test]
fn counters_count_events_and_contain_no_user_data() {
    let (upstream, receiver) = (upstream(), Receiver::start(|_| ReceiverReply::Status(204)));
    let server = Server::start_against(&upstream, CONFIG);
    let before = Scrape::of(&server);
    before.assert("nanoclaw_jobs_accepted_total", &[], 0.0);
    before.assert("nanoclaw_workers", &[], 5.0);
    before.assert("nanoclaw_store_up", &[], 1.0);
    let url = format!("http://127.0.0.1:{}/{MARK}", receiver.port);
    let tools = server.submit(&json!({"input": MARK, "conversation_id": MARK, "webhook_url": url}));
    assert_eq!(server.wait(&tools)["status"], "succeeded");
    let failed = server.submit(&json!({"input": "please-fail", "tools": false}));
    assert_eq!(server.wait(&failed)["status"], "failed");
    assert_eq!(server.get(&format!("/nowhere/{MARK}")).status, 404);
    wait_for(&server, "nanoclaw_webhook_deliveries_total", &[("outcome", "delivered")], 1.0);
    // A client may read the end of a job before its worker is free.
    let after = wait_for(&server, "nanoclaw_workers_busy", &[], 0.0);
    let model = ("model", "scripted");
    for (name, labels, value) in [
        ("nanoclaw_jobs_accepted_total", vec![], 2.0),
        ("nanoclaw_jobs_ended_total", vec![("outcome", "succeeded"), ("code", "none")], 1.0),
        ("nanoclaw_jobs_ended_total", vec![("outcome", "failed"), ("code", "invalid_request")], 1.0),
        ("nanoclaw_job_duration_seconds_count", vec![], 2.0),
        ("nanoclaw_job_queue_wait_seconds_count", vec![], 2.0),
        ("nanoclaw_model_call_duration_seconds_count", vec![model, ("outcome", "ok")], 2.0),
        // The beginning of a tool call is a piece of an answer, too.
        ("nanoclaw_first_token_seconds_count", vec![model], 2.0),
        ("nanoclaw_provider_errors_total", vec![model, ("code", "refused")], 1.0),
        ("nanoclaw_provider_circuit_state", vec![], 0.0),
        (
            "nanoclaw_tool_call_duration_seconds_count",
            vec![("tool", "calculator"), ("outcome", "succeeded")],
            1.0,
        ),
        ("nanoclaw_tool_calls_skipped_total", vec![("tool", "other"), ("reason", "refused")], 1.0),
        ("nanoclaw_sandbox_runs_total", vec![("language", "javascript")], 1.0),
        (
            "nanoclaw_http_requests_total",
            vec![("method", "POST"), ("route", "/v1/jobs"), ("status", "202")],
            2.0,
        ),
        ("nanoclaw_http_requests_total", vec![("route", "none"), ("status", "404")], 1.0),
        ("nanoclaw_http_request_duration_seconds_count", vec![("route", "/v1/jobs")], 2.0),
        ("nanoclaw_store_failures_total", vec![], 0.0),
        ("nanoclaw_workers_busy", vec![], 0.0),
        ("nanoclaw_jobs_queued", vec![], 0.0),
        ("nanoclaw_jobs_running", vec![], 0.0),
    ] {
        after.assert(name, &labels, value);
    }
    assert!(after.sum("nanoclaw_tokens_total", &[model, ("kind", "completion")]) >= 5.0, "{}", after.text);
    assert!(after.sum("nanoclaw_store_commit_seconds_count", &[]) >= 4.0, "{}", after.text);
    assert!(after.sum("nanoclaw_store_file_bytes", &[]) > 0.0 && after.sum("process_open_fds", &[]) > 3.0);
    for secret in [MARK, tools.as_str(), failed.as_str(), "please-fail"] {
        assert!(!after.text.contains(secret), "P7: {secret} in\n{}", after.text);
    }
    // Counters never decrease.
    for ((name, labels), value) in &before.samples {
        if ["_total", "_bucket", "_count"].iter().any(|end| name.ends_with(end)) {
            let now = after.samples.get(&(name.clone(), labels.clone()));
            assert!(now.is_some_and(|now| now >= value), "{name} {labels:?}: {value}, then {now:?}");
        }
    }
}

#[test]
fn gauges_show_the_current_state() {
    let upstream = upstream();
    let server = Server::start_against(&upstream, CONFIG);
    let waiting_job = server.submit(&json!({"input": "please-ask"}));
    wait_for(&server, "nanoclaw_jobs_waiting", &[], 1.0);
    server.submit(&json!({"input": "later", "run_at": "2999-01-01T00:00:00Z"}));
    // Two lines, one after the other: the second has no job yet.
    let line = |id: &str| json!({"custom_id": id, "body": {"input": "please-hang", "tools": false}});
    let lines = format!("{}\n{}\n", line("a"), line("b"));
    let batch = server.post_text("/v1/batches?concurrency=1", &lines);
    assert_eq!(batch.status, 202, "{}", batch.body);
    let (head, mut events) =
        server.open("/v1/jobs?stream=true", &[], &json!({"input": "please-hang", "tools": false}));
    let hanging = head.header("x-job-id").expect("an id").to_owned();
    assert!(events.next().is_some());
    let scrape = wait_for(&server, "nanoclaw_jobs_running", &[], 2.0);
    for (name, value) in [
        ("nanoclaw_jobs_waiting", 1.0),
        ("nanoclaw_jobs_delayed", 1.0),
        ("nanoclaw_jobs_ready", 0.0),
        ("nanoclaw_jobs_queued", 2.0),
        ("nanoclaw_batches_in_progress", 1.0),
        ("nanoclaw_sse_connections", 1.0),
        ("nanoclaw_queue_oldest_seconds", 0.0),
    ] {
        scrape.assert(name, &[], value);
    }
    assert!(scrape.sum("nanoclaw_http_connections", &[]) >= 2.0, "the stream's connection and this one");
    wait_for(&server, "nanoclaw_workers_busy", &[], 2.0);
    drop(events);
    wait_for(&server, "nanoclaw_sse_connections", &[], 0.0);
    let id = batch.json()["id"].as_str().expect("an id").to_owned();
    for path in [
        format!("/v1/jobs/{hanging}/cancel"),
        format!("/v1/jobs/{waiting_job}/cancel"),
        format!("/v1/batches/{id}/cancel"),
    ] {
        let reply = server.post(&path, &Value::Null);
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.body);
    }
    wait_for(&server, "nanoclaw_jobs_running", &[], 0.0);
    wait_for(&server, "nanoclaw_workers_busy", &[], 0.0);
    let idle = wait_for(&server, "nanoclaw_batches_in_progress", &[], 0.0);
    idle.assert("nanoclaw_jobs_waiting", &[], 0.0);
    idle.assert("nanoclaw_jobs_queued", &[], 1.0);
    idle.assert("nanoclaw_jobs_ended_total", &[("outcome", "cancelled")], 3.0);
}

#[test]
fn jobs_waiting_for_a_worker_count_as_ready_and_their_age_grows() {
    let upstream = upstream();
    let server = Server::start_against(&upstream, "workers: 1\n");
    let hanging = server.submit(&json!({"input": "please-hang", "tools": false}));
    wait_for(&server, "nanoclaw_workers_busy", &[], 1.0);
    for priority in [9, 0, 5] {
        server.submit(&json!({"input": "please-fail", "tools": false, "priority": priority}));
    }
    let scrape = wait_for(&server, "nanoclaw_jobs_ready", &[], 3.0);
    let age = scrape.sum("nanoclaw_queue_oldest_seconds", &[]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while Scrape::of(&server).sum("nanoclaw_queue_oldest_seconds", &[]) < age + 0.2 {
        assert!(Instant::now() < deadline, "the age does not grow");
    }
    server.post(&format!("/v1/jobs/{hanging}/cancel"), &Value::Null);
    wait_for(&server, "nanoclaw_jobs_ended_total", &[("outcome", "failed")], 3.0);
}

fn with(server: &Server, key: &str, (method, path): (&str, &str), body: &Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    server.request((method, path), &headers, &if body.is_null() { String::new() } else { body.to_string() })
}

fn register(server: &Server, name: &str) -> String {
    let body = json!({"username": name, "password": "correct horse"});
    let reply = server.register(&body);
    reply.json()["data"]["token"].as_str().unwrap_or_else(|| panic!("{}", reply.body)).to_owned()
}

fn read_only_key(server: &Server, session: &str) -> String {
    let body = json!({"name": "prometheus", "scopes": ["read"]});
    let made = with(server, session, ("POST", "/api/tokens"), &body);
    let found = made.body.split('"').find(|part| part.starts_with("nck_") && part.len() == 47);
    found.unwrap_or_else(|| panic!("{}", made.body)).to_owned()
}

#[test]
fn metrics_with_accounts_need_an_administrator_unless_public() {
    let server = Server::start_with("auth_mode: multi\n");
    let (root, ann) = (register(&server, "root"), register(&server, "ann"));
    let scrape = |key: &str| with(&server, key, ("GET", "/metrics"), &Value::Null).status;
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!((scrape(&root), scrape(&ann), scrape("nck_made-up")), (200, 403, 401));
    let (roots, anns) = (read_only_key(&server, &root), read_only_key(&server, &ann));
    assert_eq!((scrape(&roots), scrape(&anns)), (200, 403), "scope read is enough, but the role is checked");
    assert_eq!(
        with(&server, &roots, ("HEAD", "/v1/backup"), &Value::Null).status,
        403,
        "the key opens nothing else"
    );
    assert_eq!(with(&server, &root, ("POST", "/metrics"), &json!({})).status, 405);

    let open = Server::start_with("auth_mode: multi\nmetrics: {public: true}\n");
    let scrape = Scrape::of(&open);
    scrape.assert("nanoclaw_http_requests_total", &[("route", "/metrics")], 0.0);
    assert_eq!(open.get("/v1/jobs").status, 401);
    assert_eq!(open.get_with("/metrics", &[("host", "evil.test")]).status, 403);
    let mut stream = TcpStream::connect(open.url.trim_start_matches("http://")).expect("connects");
    stream.write_all(b"NO SUCH THING\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let scrape = Scrape::of(&open);
    let unread = [("method", "other"), ("route", "none"), ("status", "400")];
    scrape.assert("nanoclaw_http_requests_total", &unread, 1.0);
    scrape.assert("nanoclaw_http_requests_total", &[("route", "/v1/jobs"), ("status", "401")], 1.0);
    scrape.assert("nanoclaw_http_requests_total", &[("route", "none"), ("status", "403")], 1.0);
}
