//! The server's log: JSON lines with job and request ids, warnings about slow commits and stalled jobs, and
//! no secrets (P9).

use crate::support::Server;
use crate::support::upstream::{Act, Answer, Upstream, content};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a log line may take on a slow machine.
const LOG_TIMEOUT: Duration = Duration::from_secs(60);

/// Every line as JSON.
fn lines(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Waits for a complete line that matches.
fn wait_for(log: impl Fn() -> String, matches: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + LOG_TIMEOUT;
    loop {
        let log = log();
        let complete_lines = log.rfind('\n').map_or("", |end| &log[..end]);
        if let Some(line) = complete_lines.lines().find(|line| matches(line)) {
            return line.to_owned();
        }
        assert!(Instant::now() < deadline, "no such line:\n{log}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn p9_json_logs_describe_requests_and_jobs_without_secrets() {
    let upstream = Upstream::start(|_, _| Answer::text("an answer-secret"));
    let models = format!(
        "models: [{{id: scripted, api_url: \"{}/v1\", api_key: key-secret}}]\ndefault_model: scripted",
        upstream.url
    );
    let server = Server::start_with(&format!("{models}\nlog: {{format: json, level: debug}}"));
    let name = [("x-request-id", "from-the-proxy.1"), ("content-type", "application/json")];
    let body = json!({"input": "a prompt-secret"}).to_string();
    let reply = server.request(("POST", "/v1/jobs"), &name, &body);
    assert_eq!(
        (reply.status, reply.header("x-request-id")),
        (202, Some("from-the-proxy.1")),
        "{}",
        reply.body
    );
    let job = reply.json()["id"].as_str().expect("an id").to_owned();
    server.wait(&job);
    let refused =
        server.get_with("/v1/jobs?ticket=ticket-secret", &[("authorization", "Bearer bearer-secret")]);
    assert!(refused.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    let events = format!("/v1/jobs/{job}/events?ticket=ticket-secret");
    let stream = server.get_with(&events, &[("x-request-id", "the-stream")]);
    assert_eq!(stream.header("x-request-id"), Some("the-stream"));
    wait_for(|| server.log(), |line| line.contains("the-stream"));
    wait_for(|| server.log(), |line| line.contains("job ended"));
    let log = server.log();
    for secret in ["key-secret", "prompt-secret", "answer-secret", "ticket-secret", "bearer-secret"] {
        assert!(!log.contains(secret), "{secret}:\n{log}");
    }

    let parsed = lines(&log[..=log.rfind('\n').expect("a line")]);
    assert!(parsed.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{log}");
    let find = |message: &str, field: &str, value: &Value| {
        let found: Vec<&Value> =
            parsed.iter().filter(|line| line["message"] == message && line[field] == *value).collect();
        assert_eq!(found.len(), 1, "{message} {field} {value}:\n{log}");
        found[0].clone()
    };
    let accepted = find("request", "request", &json!("from-the-proxy.1"));
    assert_eq!((&accepted["status"], &accepted["route"]), (&json!(202), &json!("/v1/jobs")));
    assert_eq!((&accepted["method"], &accepted["job"]), (&json!("POST"), &json!(job)));
    assert!(accepted["bytes"].as_u64() > Some(0) && accepted["duration_ms"].is_u64(), "{accepted}");
    let streamed = find("request", "request", &json!("the-stream"));
    assert_eq!((&streamed["route"], &streamed["job"]), (&json!("/v1/jobs/{id}/events"), &json!(job)));
    let started = find("job started", "job", &json!(job));
    assert_eq!((&started["attempt"], &started["level"]), (&json!(1), &json!("DEBUG")));
    let ended = find("job ended", "job", &json!(job));
    assert_eq!(
        (&ended["attempt"], &ended["status"], &ended["steps"]),
        (&json!(1), &json!("succeeded"), &json!(1))
    );
    assert_eq!(ended["level"], "INFO");
    assert!(ended["tokens"].is_u64() && ended["duration_ms"].is_u64(), "{ended}");
}

#[test]
fn info_level_logs_refused_requests_but_not_successful_ones() {
    let server = Server::start_with("auth_mode: multi\nlimits: {disk_free_bytes: 1152921504606846976}");
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/nowhere").status, 404);
    assert_eq!(server.get("/v1/jobs").status, 401);
    let line = wait_for(|| server.log(), |line| line.contains("status=401"));
    assert!(line.contains(" INFO request request=req_") && line.contains("route=/v1/jobs"), "{line}");
    let log = server.log();
    assert!(!log.contains("/healthz") && !log.contains("nowhere"), "{log}");
}

#[test]
fn a_client_that_disconnects_early_is_logged_and_counted_as_499() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Data(content("half")), Act::Hang]));
    let server = Server::start_against(&upstream, "log: {level: debug}");
    let job = server.submit(&json!({"input": "x"}));
    let address = server.url.strip_prefix("http://").expect("an address");
    let deadline = Instant::now() + LOG_TIMEOUT;
    // A client that disconnects before the server read its request is not counted, so try again.
    while !server.log().contains("status=499") {
        assert!(Instant::now() < deadline, "{}", server.log());
        let mut client = TcpStream::connect(address).expect("connected");
        write!(client, "GET /v1/jobs/{job}?wait=600 HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
        std::thread::park_timeout(Duration::from_millis(200));
        drop(client);
        std::thread::park_timeout(Duration::from_millis(200));
    }
    let line = wait_for(|| server.log(), |line| line.contains("status=499"));
    assert!(line.contains("DEBUG request ") && line.contains("route=/v1/jobs/{id} "), "{line}");
    assert!(line.contains(&format!("job={job}")), "{line}");
    let counted = server.get("/metrics").body;
    assert!(counted.contains("route=\"/v1/jobs/{id}\",status=\"499\"}"), "{counted}");
}

#[test]
fn readyz_reports_a_nearly_full_disk_and_reads_still_work() {
    let server = Server::start_with("limits: {disk_free_bytes: 1152921504606846976}");
    let ready = server.get("/readyz");
    let readiness = ready.json();
    assert_eq!((ready.status, &readiness["status"]), (200, &json!("degraded")), "{readiness}");
    let checks = readiness["checks"].as_array().expect("checks");
    let disk = checks.iter().find(|check| check["name"] == "disk").expect("the disk's");
    let reason = disk["reason"].as_str().expect("a reason");
    assert!(disk["ok"] == true && reason.contains("507") && reason.contains("disk_free_bytes"), "{disk}");
    for name in ["store", "workers", "sandbox_strict", "sandbox_standard", "sandbox_lenient", "python"] {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}: {readiness}");
    }
    let refused = server.post("/v1/jobs", &json!({"input": "x"}));
    assert_eq!(refused.status, 507);
    let id = refused.header("x-request-id").expect("a name").to_owned();
    let line = wait_for(|| server.log(), |line| line.contains(&id));
    assert!(
        line.contains(" WARN request ") && line.contains("status=507") && line.contains("error="),
        "{line}"
    );
    assert_eq!(server.get("/v1/jobs").status, 200);
}

#[test]
fn a_slow_commit_is_logged_with_its_writes_and_file_size() {
    let server = Server::start_with("store: {slow_commit_ms: 1}");
    let input = "x".repeat(3 * 1024 * 1024);
    let deadline = Instant::now() + LOG_TIMEOUT;
    // No disk writes megabytes in a millisecond every time: if one commit does, a later one will not.
    while !server.log().contains("slow commit") {
        assert!(Instant::now() < deadline, "{}", server.log());
        server.submit(&json!({"input": input}));
    }
    let line = wait_for(|| server.log(), |line| line.contains("slow commit"));
    for field in [" WARN ", "duration_ms=", "writes=", "file_bytes=", "unreported=0"] {
        assert!(line.contains(field), "{field}: {line}");
    }
}

#[test]
fn a_stalled_job_is_logged_once_and_once_more_when_it_resumes() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Data(content("half")), Act::Hang]));
    let server = Server::start_against(&upstream, "limits: {stuck_job_s: 1}");
    let job = server.submit(&json!({"input": "x"}));
    let stuck = wait_for(|| server.log(), |line| line.contains("job stalled"));
    for part in [&format!("job={job}"), "attempt=1", "asking the model 'scripted'", " WARN "] {
        assert!(stuck.contains(part), "{part}: {stuck}");
    }
    assert_eq!(server.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).status, 200);
    let resumed = wait_for(|| server.log(), |line| line.contains("job resumed"));
    assert!(resumed.contains(&format!("job={job}")), "{resumed}");
    assert_eq!(server.log().matches("job stalled").count(), 1, "{}", server.log());
}

#[test]
fn a_journal_line_has_a_priority_and_no_timestamp() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, config) = (dir.path().join("log"), dir.path().join("config.yml"));
    std::fs::write(&config, "log: {level: debug}").expect("written");
    let log = std::fs::File::create(&path).expect("a log");
    let file = log.metadata().expect("it is there");
    let mut child = crate::support::command(&["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .env("JOURNAL_STREAM", format!("{}:{}", file.dev(), file.ino()))
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("it runs");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut url).expect("its address");
    let answer = ureq::get(format!("{}/healthz", url.trim())).call().expect("an answer");
    let id = answer.headers().get("x-request-id").expect("a name").to_str().expect("ASCII").to_owned();
    let read = || std::fs::read_to_string(&path).expect("readable");
    let line = wait_for(read, |line| line.contains(&id));
    child.kill().expect("killed");
    child.wait().expect("reaped");
    assert!(
        line.starts_with(&format!("<7>request request={id} method=GET route=/healthz status=200")),
        "{line}"
    );
}
