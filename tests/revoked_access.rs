//! Every answer that is held or streamed ends within the time that the README promises once its caller has
//! lost its access. The operations come from `/openapi.json`: a new one needs a request in [`requests`].

use crate::support::upstream::{Act, Answer, Upstream, content};
use crate::support::{Server, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONFIG: &str = "auth_mode: multi\nworkers: 64\nlimits: {user_requests_per_minute: 0}\n";
/// Within this time, says the README.
const PROMISE: Duration = Duration::from_secs(15);
/// Within this time every request has reached its handler, and every stream has begun.
const BEGINNING: Duration = Duration::from_secs(2);
/// An input that the model answers for a minute.
const SLOW: &str = "stream: 600 words, 100 ms";
/// The bytes of a file that no socket buffers as a whole.
const FILE_BYTES: usize = 24 << 20;

/// Operations whose answer comes in pieces, and at once: what ends one of them ends all.
const PROMPT: [&str; 7] = [
    "GET /",
    "GET /console/{version}/{file}",
    "GET /metrics",
    "GET /v1/jobs/{id}/output",
    "GET /v1/jobs/{id}/images/{n}",
    "GET /v1/jobs/{id}/export",
    "GET /api/projects/{id}/files/{path}",
];
/// The same of administrators.
const PROMPT_FOR_ADMINISTRATORS: &str = "GET /v1/backup";

/// A user with an API key.
struct User {
    id: Value,
    session: String,
    key: String,
    key_id: String,
}

fn json_as(server: &Server, credential: &str, line: &str, body: &Value) -> Value {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let bearer = format!("Bearer {credential}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let reply = server.request((method, path), &headers, &text);
    assert!(reply.status < 300, "{line}: {} {}", reply.status, reply.body);
    reply.json()
}

impl User {
    fn new(server: &Server, name: &str) -> Self {
        let account = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let data = server.register(&account).json()["data"].clone();
        let session = data["token"].as_str().unwrap_or_else(|| panic!("{data}")).to_owned();
        let key = json_as(server, &session, "POST /api/tokens", &json!({}))["data"].clone();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        Self { id: data["user"]["id"].clone(), session, key: text(&key["key"]), key_id: text(&key["id"]) }
    }

    fn json(&self, server: &Server, line: &str, body: &Value) -> Value {
        json_as(server, &self.key, line, body)
    }
}

/// A request whose answer takes longer than the test.
struct LongRequest {
    /// As `/openapi.json` has it.
    operation: String,
    name: String,
    bytes: Vec<u8>,
    /// Its client reads nothing before this moment after the loss.
    reads_after: Duration,
}

impl LongRequest {
    /// `line` is the method and the path; `body` is JSON.
    fn new(user: &User, operation: &str, (line, header): (&str, &str), body: &Value) -> Self {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let length = text.len();
        Self::with_head(user, operation, (line, header), &format!("content-length: {length}\r\n\r\n{text}"))
    }

    fn with_head(user: &User, operation: &str, (line, header): (&str, &str), rest: &str) -> Self {
        let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
        let type_line = if header.contains("content-type") || operation.starts_with("GET") {
            ""
        } else {
            "content-type: application/json\r\n"
        };
        let bytes = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n{type_line}{header}{rest}",
            user.key
        );
        let name = format!("{line} {}", header.trim());
        Self { operation: operation.to_owned(), name, bytes: bytes.into_bytes(), reads_after: Duration::ZERO }
    }
}

/// How a request ended.
struct RequestEnd {
    name: String,
    at: Instant,
    bytes: Vec<u8>,
}

/// Sends the request and reads its answer to the end.
fn send(server: &Server, request: &LongRequest, lost: &std::sync::OnceLock<Instant>) -> RequestEnd {
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut socket = TcpStream::connect(address).expect("connects");
    socket.write_all(&request.bytes).expect("sends");
    if request.reads_after > Duration::ZERO {
        std::thread::sleep(request.reads_after.saturating_sub(lost.wait().elapsed()));
    }
    socket.set_read_timeout(Some(2 * PROMISE)).expect("a time limit");
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = socket.read(&mut piece) {
        bytes.extend_from_slice(&piece[..count]);
    }
    RequestEnd { name: request.name.clone(), at: Instant::now(), bytes }
}

/// A chat, a message and a response, and what reads them again.
fn model_requests(server: &Server, user: &User) -> Vec<LongRequest> {
    let slow = || json!([{"role": "user", "content": SLOW}]);
    let sse = "accept: text/event-stream";
    let mut requests = Vec::new();
    for stream in [false, true] {
        for (path, body) in [
            ("/v1/chat/completions", json!({"messages": slow()})),
            ("/v1/messages", json!({"messages": slow(), "max_tokens": 4_000})),
            ("/v1/responses", json!({"input": SLOW})),
            ("/v1/completions", json!({"model": "scripted", "prompt": "x"})),
        ] {
            let (mut body, line) = (body, format!("POST {path}"));
            body["stream"] = stream.into();
            if body["model"].is_null() {
                body["model"] = "demo".into();
            }
            requests.push(LongRequest::new(user, &line, (&line, ""), &body));
        }
        let arguments = json!({"timeout_s": 60, "job_id": slow_job(server, user)});
        let meta = if stream { json!({"progressToken": 1}) } else { json!({}) };
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "wait_job", "arguments": arguments, "_meta": meta}});
        let accept = "accept: application/json, text/event-stream";
        requests.push(LongRequest::new(user, "POST /mcp", ("POST /mcp", accept), &call));
    }
    let texts = json!({"model": "scripted", "input": "x"});
    requests.push(LongRequest::new(user, "POST /v1/embeddings", ("POST /v1/embeddings", ""), &texts));
    let response =
        user.json(server, "POST /v1/responses", &json!({"model": "demo", "input": SLOW, "background": true}));
    let line = format!("GET /v1/responses/{}?stream=true", response["id"].as_str().expect("an id"));
    requests.push(LongRequest::new(user, "GET /v1/responses/{id}", (&line, sse), &Value::Null));
    requests
}

fn slow_job(server: &Server, user: &User) -> String {
    user.json(server, "POST /v1/jobs", &json!({"input": SLOW}))["id"].as_str().expect("an id").to_owned()
}

fn job_requests(server: &Server, user: &User) -> Vec<LongRequest> {
    let (job, body) = (slow_job(server, user), json!({"input": SLOW}));
    let line = json!({"custom_id": "a", "body": body}).to_string();
    let batch = server.request(
        ("POST", "/v1/batches"),
        &[("authorization", &format!("Bearer {}", user.key)), ("content-type", "application/jsonl")],
        &line,
    );
    let batch = batch.json()["id"].as_str().unwrap_or_else(|| panic!("{}", batch.body)).to_owned();
    let get = |operation: &str, path: String, header: &str| {
        LongRequest::new(user, operation, (&format!("GET {path}"), header), &Value::Null)
    };
    let post = |query: &str, header| {
        LongRequest::new(user, "POST /v1/jobs", (&format!("POST /v1/jobs?{query}"), header), &body)
    };
    let (sse, ndjson) = ("accept: text/event-stream", "accept: application/x-ndjson");
    let events = format!("/v1/jobs/{job}/events");
    vec![
        get("GET /v1/jobs/{id}", format!("/v1/jobs/{job}?wait=60"), ""),
        get("GET /v1/jobs/{id}/events", events.clone(), sse),
        get("GET /v1/jobs/{id}/events", format!("{events}?format=delta"), ndjson),
        get("GET /v1/batches/{id}", format!("/v1/batches/{batch}?wait=60"), ""),
        get("GET /v1/batches/{id}/results", format!("/v1/batches/{batch}/results?follow=true"), ""),
        post("wait=60", ""),
        post("stream=true", sse),
        post("stream=true&format=delta", ndjson),
    ]
}

/// The ids of the question and the answer that a conversation shows.
fn answer_of(server: &Server, user: &User, conversation: &str) -> Option<String> {
    let path = format!("GET /api/conversations/{conversation}/messages");
    let items = user.json(server, &path, &Value::Null)["data"]["items"].clone();
    Some(items[1]["id"].as_str()?.to_owned())
}

fn conversation_requests(server: &Server, user: &User) -> Vec<LongRequest> {
    let conversation = || {
        let made = user.json(server, "POST /api/conversations", &json!({}));
        made["data"]["id"].as_str().expect("an id").to_owned()
    };
    let answered = |text: &str| {
        let id = conversation();
        user.json_stream(server, &format!("/api/conversations/{id}/messages"), text);
        let mut answer = None;
        wait_until("the conversation has an answer", || {
            answer = answer_of(server, user, &id);
            answer.is_some()
        });
        (id, answer.expect("an answer"))
    };
    let sse = "accept: text/event-stream";
    let (first, (again, answer)) = (conversation(), answered("hello"));
    let (followed, running) = answered(SLOW);
    let send = format!("POST /api/conversations/{first}/messages");
    let regenerate = format!("POST /api/conversations/{again}/regenerate/{answer}");
    let events = format!("GET /api/conversations/{followed}/messages/{running}/events");
    let text = json!({"text": SLOW});
    vec![
        LongRequest::new(user, "POST /api/conversations/{id}/messages", (&send, sse), &text),
        LongRequest::new(user, "POST /api/conversations/{id}/regenerate/{mid}", (&regenerate, sse), &text),
        LongRequest::new(
            user,
            "GET /api/conversations/{id}/messages/{mid}/events",
            (&events, sse),
            &Value::Null,
        ),
    ]
}

impl User {
    /// Sends a message; returns at the end of a short answer, or when a slow one has begun.
    fn json_stream(&self, server: &Server, path: &str, text: &str) {
        let bearer = format!("Bearer {}", self.key);
        let (reply, mut events) = server.open(path, &[("authorization", &bearer)], &json!({"text": text}));
        assert_eq!(reply.status, 200);
        if text == SLOW {
            events.next();
        } else {
            events.count();
        }
    }
}

/// A file whose client reads it late.
fn late_reader(server: &Server, user: &User) -> LongRequest {
    let (form, end) = ("--x\r\ncontent-disposition: form-data; name=", "\r\n--x--\r\n");
    let content = "a".repeat(FILE_BYTES);
    let file = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n";
    let body = format!("{form}\"purpose\"\r\n\r\nuser_data\r\n{file}{content}{end}");
    let bearer = format!("Bearer {}", user.key);
    let headers = [("authorization", bearer.as_str()), ("content-type", "multipart/form-data; boundary=x")];
    let reply = server.request(("POST", "/v1/files"), &headers, &body);
    let id = reply.json()["id"].as_str().unwrap_or_else(|| panic!("{}", reply.body)).to_owned();
    let line = format!("GET /v1/files/{id}/content");
    let request = LongRequest::new(user, "GET /v1/files/{id}/content", (&line, ""), &Value::Null);
    LongRequest { reads_after: PROMISE.saturating_sub(Duration::from_secs(2)), ..request }
}

/// A WebSocket that waits for a message, and one whose response is under way.
fn web_sockets(user: &User) -> [LongRequest; 2] {
    let create = json!({"type": "response.create", "model": "demo", "input": SLOW}).to_string();
    let length = u8::try_from(create.len()).expect("a short message");
    let frame = [&[0x81, 0x80 | length, 0, 0, 0, 0], create.as_bytes()].concat();
    [Vec::new(), frame].map(|frame| {
        let head = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let mut request = LongRequest::with_head(user, "GET /v1/responses", ("GET /v1/responses", ""), head);
        let text = String::from_utf8(request.bytes).expect("a head").replace("connection: close\r\n", "");
        request.bytes = [text.as_bytes(), &frame].concat();
        request.name.push_str(if frame.is_empty() { "(idle)" } else { "(response under way)" });
        request
    })
}

/// For each operation with a body: one of which only the start arrives.
fn uploads(document: &Value, user: &User) -> Vec<LongRequest> {
    let with_body = |(operation, described): (String, &Value)| {
        let kinds = described["requestBody"]["content"].as_object()?;
        let kind = kinds.keys().next()?.replace("multipart/form-data", "multipart/form-data; boundary=x");
        let line = operation.replace(['{', '}'], "");
        let head = format!("content-type: {kind}");
        let rest = "content-length: 4000\r\n\r\n{";
        Some(LongRequest::with_head(user, &operation, (&line, &head), rest))
    };
    // What needs no credential has none to lose.
    let is_guarded = |(_, described): &(String, &Value)| described["security"] != json!([]);
    operations(document).into_iter().filter(is_guarded).filter_map(with_body).collect()
}

/// `METHOD /path`, and what the document says of it.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let described = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods
            .iter()
            .map(move |(method, described)| (format!("{} {path}", method.to_uppercase()), described))
    });
    described.collect()
}

/// The operations that wait, or whose answers are more than JSON.
fn long_operations(document: &Value) -> BTreeSet<String> {
    let waits = |described: &Value| {
        let parameters = described["parameters"].as_array().cloned().unwrap_or_default();
        parameters.iter().any(|parameter| {
            ["wait", "follow", "stream"].contains(&parameter["name"].as_str().unwrap_or_default())
        })
    };
    let streams = |described: &Value| {
        let responses = described["responses"].as_object().into_iter().flatten();
        responses
            .filter(|(status, _)| status.starts_with('2'))
            .filter_map(|(_, response)| response["content"].as_object())
            .flatten()
            .any(|(kind, _)| kind != "application/json")
    };
    let long =
        operations(document).into_iter().filter(|(_, described)| waits(described) || streams(described));
    long.map(|(operation, _)| operation).collect()
}

fn requests(server: &Server, document: &Value, user: &User) -> Vec<LongRequest> {
    let mut requests = model_requests(server, user);
    requests.extend(job_requests(server, user));
    requests.extend(conversation_requests(server, user));
    requests.push(late_reader(server, user));
    let known: BTreeSet<String> = requests.iter().map(|request| request.operation.clone()).collect();
    let prompt = PROMPT.iter().chain([&PROMPT_FOR_ADMINISTRATORS]).map(|operation| (*operation).to_owned());
    let missing: Vec<String> =
        long_operations(document).difference(&prompt.chain(known).collect()).cloned().collect();
    assert!(missing.is_empty(), "what ends these answers when access is lost? {missing:?}");
    requests.extend(web_sockets(user));
    requests.extend(uploads(document, user));
    requests
}

/// An upstream that begins a stream and never ends anything.
fn silent_upstream() -> Upstream {
    Upstream::start(|request, _| {
        let begun = if request["stream"] == true { vec![Act::Data(content("one "))] } else { Vec::new() };
        Answer::stream(begun.into_iter().chain([Act::Hang]).collect())
    })
}

#[test]
fn p9_every_held_or_streamed_answer_ends_when_its_caller_loses_access() {
    let upstream = silent_upstream();
    let models = format!(
        "models: [{{id: demo, provider: demo}}, {{id: scripted, api_url: \"{}/v1\"}}]\n",
        upstream.url
    );
    let server = Server::start_with(&format!("{CONFIG}default_model: demo\n{models}"));
    let (root, ann, bob) = (User::new(&server, "root"), User::new(&server, "ann"), User::new(&server, "bob"));
    let document = server.get("/openapi.json").json();
    let requests: Vec<LongRequest> =
        [&ann, &bob].into_iter().flat_map(|user| requests(&server, &document, user)).collect();
    let lost = std::sync::OnceLock::new();
    let (lost_at, ends) = std::thread::scope(|scope| {
        let sent: Vec<_> =
            requests.iter().map(|request| scope.spawn(|| send(&server, request, &lost))).collect();
        std::thread::sleep(BEGINNING);
        let line = format!("DELETE /api/tokens/{}", ann.key_id);
        json_as(&server, &ann.session, &line, &Value::Null);
        let line = format!("PATCH /api/users/{}", bob.id);
        json_as(&server, &root.session, &line, &json!({"is_active": false}));
        let lost_at = *lost.get_or_init(Instant::now);
        let ends: Vec<RequestEnd> = sent.into_iter().map(|sent| sent.join().expect("an end")).collect();
        (lost_at, ends)
    });
    let mut faults = Vec::new();
    for end in &ends {
        let (late, text) = (end.at.saturating_duration_since(lost_at), String::from_utf8_lossy(&end.bytes));
        let is_whole = ["event: done", "[DONE]", "message_stop", "response.completed", "\"succeeded\""];
        let is_over = is_whole.iter().any(|mark| text.contains(mark)) || end.bytes.len() > FILE_BYTES;
        if late > PROMISE || is_over {
            let start: String = text.chars().take(40).collect();
            faults.push(format!("{}: after {late:.1?}, {} bytes, {start:?}", end.name, end.bytes.len()));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), ends.len(), faults.join("\n"));
}
