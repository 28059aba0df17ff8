//! One user cannot keep another one waiting: workers, sandbox slots, places at providers and webhooks are
//! shared between accounts.

use crate::support::directories::user_directory;
use crate::support::receiver::{Receiver, ReceiverReply};
use crate::support::upstream::{Act, Answer, Upstream};
use crate::support::{Server, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with accounts.
struct Shared {
    server: Server,
}

impl Shared {
    fn start(config: &str) -> Self {
        let shared = Self { server: Server::start_with(&format!("auth_mode: multi\n{config}")) };
        // The first account is the administrator.
        shared.account("admin");
        shared
    }

    /// Registers an account; returns its token.
    fn account(&self, name: &str) -> String {
        let body = json!({"username": name, "password": "correct horse"});
        let reply = self.server.register(&body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["data"]["token"].as_str().expect("a token").to_owned()
    }

    fn ask(&self, token: &str, (method, path): (&str, &str), body: &Value) -> Value {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.server.request((method, path), &headers, &text);
        assert!(matches!(reply.status, 200 | 202), "{}", reply.body);
        reply.json()
    }

    fn submit(&self, token: &str, input: &str) -> String {
        let job = self.ask(token, ("POST", "/v1/jobs"), &json!({"input": input, "timeout_s": 3_600}));
        job["id"].as_str().expect("an id").to_owned()
    }

    fn status(&self, token: &str, job: &str) -> String {
        let job = self.ask(token, ("GET", &format!("/v1/jobs/{job}")), &Value::Null);
        job["status"].as_str().expect("a status").to_owned()
    }

    /// Waits for a job's end; returns its status.
    fn end(&self, token: &str, job: &str) -> String {
        let path = format!("/v1/jobs/{job}?wait=40");
        let job = self.ask(token, ("GET", &path), &Value::Null);
        job["status"].as_str().expect("a status").to_owned()
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "still waiting: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn endless_streams_of_one_user_do_not_keep_another_users_job_queued() {
    let shared = Shared::start("workers: 2\n");
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let streams: Vec<String> =
        (0..4).map(|_| shared.submit(&eve, "stream: 100000 words, 60000 ms")).collect();
    let running = || streams.iter().filter(|job| shared.status(&eve, job) == "running").count();
    until("both workers stream", || running() == 2);
    let job = shared.submit(&bob, "hello");
    assert_eq!(shared.end(&bob, &job), "succeeded");
    let again = shared.submit(&bob, "hello again");
    assert_eq!(shared.end(&bob, &again), "succeeded", "the reserve is free again");
    assert_eq!(running(), 2, "one user alone uses all workers and never the reserve");
}

#[test]
fn sleeping_commands_of_one_user_do_not_hold_all_sandbox_slots() {
    let shared = Shared::start("code_execution: {max_parallel: 2}\n");
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let sleeping = r#"tool: bash {"command": "touch started; sleep 500", "timeout": 600}"#;
    let jobs: Vec<String> = (0..3).map(|_| shared.submit(&eve, sleeping)).collect();
    let started = || {
        let of_eve = user_directory(&shared.server.dir.join("data/jobs"), 3);
        jobs.iter().filter(|job| of_eve.join(job).join("started").exists()).count()
    };
    until("both slots sleep", || started() == 2);
    let job = shared.submit(&bob, r#"tool: bash {"command": "echo awake"}"#);
    assert_eq!(shared.end(&bob, &job), "succeeded");
    assert_eq!(started(), 2, "one user never uses the reserve");
    assert!(jobs.iter().all(|job| shared.status(&eve, job) == "running"));
}

/// Sends a request and a part of its body; returns the open connection.
fn unfinished(server: &Server, token: &str, line: &str, length: usize, sent: usize) -> TcpStream {
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut connection = TcpStream::connect(address).expect("connects");
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).expect("sends");
    // The server may refuse the body and close.
    drop(connection.write_all(&vec![b'x'; sent]));
    connection
}

/// The status of a response whose body may never end.
fn status_of(connection: &mut TcpStream) -> u16 {
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).expect("a response");
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// Sends a whole request of a user; returns the open connection.
fn begun(server: &Server, token: &str, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut connection = unfinished(server, token, &format!("POST {path}"), body.len(), 0);
    connection.write_all(body.as_bytes()).expect("sends");
    connection
}

/// What everybody needs: a list, a submission, a login and the readiness of the server.
fn assert_served(shared: &Shared, token: &str) {
    let get = |path| unfinished(&shared.server, token, &format!("GET {path}"), 0, 0);
    let post = |path, body: &Value| begun(&shared.server, token, path, body);
    let login = json!({"username": "bob", "password": "correct horse"});
    assert_eq!(status_of(&mut get("/v1/jobs")), 200);
    assert_eq!(status_of(&mut post("/v1/jobs", &json!({"input": "hello"}))), 202);
    assert_eq!(status_of(&mut post("/api/auth/login", &login)), 200);
    assert_eq!(status_of(&mut get("/readyz")), 200);
}

const EMBEDDINGS: &str = "/v1/embeddings";

#[test]
fn requests_of_one_user_to_a_silent_provider_delay_nobody() {
    let upstream = Upstream::start(|request, _| match request["input"].as_str() {
        Some("hang") => Answer { status: 200, headers: Vec::new(), acts: vec![Act::Hang] },
        _ => Answer { status: 200, headers: Vec::new(), acts: vec![Act::Raw("{\"data\": []}".into())] },
    });
    let config = format!("models: [{{id: silent, api_url: \"{}\"}}, {{id: demo}}]\n", upstream.url);
    let shared = Shared::start(&format!("{config}limits: {{user_requests_per_minute: 0}}\n"));
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let hang = json!({"model": "silent", "input": "hang"});
    let calls: Vec<_> = (0..16).map(|_| begun(&shared.server, &eve, EMBEDDINGS, &hang)).collect();
    wait_until("all of them wait for the provider", || upstream.requests().len() == calls.len());
    assert_served(&shared, &bob);
    let more: Vec<_> = (16..64).map(|_| begun(&shared.server, &eve, EMBEDDINGS, &hang)).collect();
    wait_until("eve has her share", || upstream.requests().len() == calls.len() + more.len());
    let bearer = format!("Bearer {eve}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let refused = shared.server.request(("POST", EMBEDDINGS), &headers, &hang.to_string());
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.body);
    assert!(refused.body.contains("your share of the 128"), "{}", refused.body);
    shared.ask(&bob, ("POST", EMBEDDINGS), &json!({"model": "silent", "input": "x"}));
}

#[test]
fn completions_that_one_user_reads_slowly_delay_nobody() {
    // More than all buffers between the provider and a client that reads nothing.
    let piece = json!({"choices": [{"index": 0, "text": "word ".repeat(20_000)}]});
    let upstream = Upstream::start(move |_, _| Answer::stream(vec![Act::Data(piece.clone()); 300]));
    let models = format!("models: [{{id: fast, api_url: \"{}\"}}, {{id: demo}}]\n", upstream.url);
    let shared = Shared::start(&format!("{models}limits: {{write_stall_s: 3600}}\n"));
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let stream = json!({"model": "fast", "prompt": "x", "stream": true});
    let mut calls: Vec<_> =
        (0..16).map(|_| begun(&shared.server, &eve, "/v1/completions", &stream)).collect();
    assert!(calls.iter_mut().all(|call| status_of(call) == 200), "all of them stream");
    assert_served(&shared, &bob);
}

#[test]
fn unfinished_bodies_of_one_user_do_not_refuse_another_users_job() {
    let shared = Shared::start("limits: {body_bytes: 1048576, bodies_bytes: 4194304}\n");
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let post = |token: &str, bytes: usize| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
        shared.server.request(("POST", "/v1/jobs"), &headers, &"x".repeat(bytes))
    };
    let (mut bodies, mut refused) = (Vec::new(), None);
    until("eve's bodies fill her share", || {
        bodies.push(unfinished(&shared.server, &eve, "POST /v1/jobs", 1_048_576, 1_048_000));
        let reply = post(&eve, 1_000_000);
        (reply.status != 202).then(|| refused = Some(reply)).is_some()
    });
    let refused = refused.expect("a response");
    assert_eq!(post(&bob, 600_000).status, 202, "another user's share is free");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.body);
    assert!(refused.body.contains("send fewer at the same time"), "{}", refused.body);
}

#[test]
fn event_streams_of_one_user_leave_connections_to_others() {
    let shared = Shared::start("limits: {connections: 40}\n");
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let job = shared.submit(&eve, "stream: 100000 words, 60000 ms");
    let mut streams = Vec::new();
    let line = format!("GET /v1/jobs/{job}/events");
    until("streams take half of the connections", || {
        let mut stream = unfinished(&shared.server, &eve, &line, 0, 0);
        if status_of(&mut stream) == 200 {
            streams.push(stream);
        }
        streams.len() == 20
    });
    assert_eq!(shared.ask(&bob, ("GET", "/v1/jobs"), &Value::Null)["data"], json!([]));
    let bearer = format!("Bearer {eve}");
    let reply = shared.server.get_with("/v1/jobs", &[("authorization", &bearer)]);
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")), "{}", reply.body);
    drop(streams);
    until("ended streams give their places back", || {
        shared.server.get_with("/v1/jobs", &[("authorization", &bearer)]).status == 200
    });
}

#[test]
fn p7_many_calls_of_one_user_do_not_keep_another_users_call_from_a_provider_with_one_place() {
    let upstream = Upstream::start(|_, _| {
        std::thread::sleep(Duration::from_millis(200));
        Answer::text("done")
    });
    let model = format!("{{id: one, api_url: \"{}/v1\", rate: {{concurrent: 1}}}}", upstream.url);
    let shared = Shared::start(&format!("default_model: one\nmodels: [{model}]\n"));
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    (0..60).for_each(|number| drop(shared.submit(&eve, &format!("eve {number}"))));
    until("the provider is called", || upstream.requests().len() >= 4);
    let before = upstream.requests().len();
    let job = shared.submit(&bob, "of bob");
    assert_eq!(shared.end(&bob, &job), "succeeded");
    let requests = upstream.requests();
    let at = requests.iter().position(|request| request.to_string().contains("of bob")).expect("the call");
    assert!(at - before <= 4, "{} calls of eve went before", at - before);
}

#[test]
fn p7_receivers_of_one_user_that_hang_do_not_delay_the_webhook_of_another() {
    // Nobody accepts these connections; the kernel opens them.
    let silent = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let receiver = Receiver::start(|_| ReceiverReply::Status(204));
    let shared = Shared::start(
        "webhooks: {allow_private_addresses: [127.0.0.0/8], timeout_s: 300}\nmodels: [{id: demo}]\n",
    );
    let (eve, bob) = (shared.account("eve"), shared.account("bob"));
    let submit = |token: &str, url: String| {
        let job = shared.ask(token, ("POST", "/v1/jobs"), &json!({"input": "hello", "webhook_url": url}));
        job["id"].as_str().expect("an id").to_owned()
    };
    let hanging: Vec<String> =
        (1..=40).map(|host| submit(&eve, format!("http://127.0.1.{host}:{port}/hook"))).collect();
    for job in &hanging {
        assert_eq!(shared.end(&eve, job), "succeeded");
    }
    submit(&bob, format!("http://127.0.0.1:{}/hook", receiver.port));
    receiver.arrivals(1);
    let list = shared.ask(&eve, ("GET", "/v1/webhooks?limit=100"), &Value::Null);
    let deliveries = list["data"].as_array().expect("a list");
    assert_eq!(deliveries.len(), 40);
    assert!(deliveries.iter().all(|delivery| delivery["tries"] == 0), "all of them hang: {list}");
}
