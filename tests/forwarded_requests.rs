//! `/v1/embeddings` and `/v1/completions`: passed on to the model's provider, and booked for the user.

use crate::support::upstream::{Act, Answer, Upstream};
use crate::support::{Reply, Server, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const EMBEDDINGS: &str = "/v1/embeddings";
const COMPLETIONS: &str = "/v1/completions";

fn whole(status: u16, body: &Value) -> Answer {
    let headers = vec![("content-type".into(), "application/json".into())];
    Answer { status, headers, acts: vec![Act::Raw(body.to_string())] }
}

fn assert_error(reply: &Reply, status: u16, code: &str, word: &str) {
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, &error["code"]), (status, &json!(code)), "{error}");
    assert!(error["message"].as_str().expect("a text").contains(word), "{error}");
}

/// A provider that answers one request with this JSON and tells its head.
fn provider_with_heads(answer: &Value) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, heads) = channel();
    let text = answer.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {
                let last = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                if let Some(value) = last.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
            }
            reader.read_exact(&mut vec![0; length]).expect("a body");
            sender.send(head).expect("the test listens");
            let reply = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            );
            drop((&stream).write_all(reply.as_bytes()));
        }
    });
    (format!("http://{address}/base/v1"), heads)
}

fn models(upstream: &str, extra: &str) -> String {
    format!("models: [{{id: scripted, api_url: \"{upstream}\", api_key: topsecret, {extra}}}]\n")
}

#[test]
fn embeddings_reach_the_provider_with_its_name_and_key_and_come_back_unchanged() {
    let vectors = vec![json!(0.125); 30_000];
    let answer = json!({
        "object": "list", "model": "up", "data": [{"object": "embedding", "index": 0, "embedding": vectors}],
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    });
    let (url, heads) = provider_with_heads(&answer);
    let server = Server::start_with(&models(&url, "upstream_id: up"));
    let reply = server.post(EMBEDDINGS, &json!({"model": "scripted", "input": ["hello"], "dimensions": 3}));
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json")),
        "{}",
        reply.body
    );
    assert_eq!(reply.body, answer.to_string());
    let head = heads.recv().expect("a request");
    assert!(head.starts_with("POST /base/v1/embeddings HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("authorization: bearer topsecret"), "{head}");
    let booked = || server.get("/v1/usage").json()["data"][0].clone();
    wait_until("the tokens are booked", || booked()["prompt_tokens"] == 7);
    assert_eq!((&booked()["model"], &booked()["jobs"]), (&json!("scripted"), &json!(0)), "{}", booked());
    assert_eq!(server.get("/v1/jobs").json()["data"], json!([]), "it is no job");
}

#[test]
fn a_completion_passes_whole_and_as_a_stream() {
    let upstream = Upstream::start(|request, _| {
        let choice = json!({"index": 0, "text": "one two", "finish_reason": "stop"});
        let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
        if request["stream"] == true {
            return Answer::stream(vec![Act::Data(json!({"choices": [choice], "usage": usage}))]);
        }
        whole(200, &json!({"object": "text_completion", "choices": [choice], "usage": usage}))
    });
    let server = Server::start_with(&models(&upstream.url, "upstream_id: up, max_output_tokens: 5"));
    let body = json!({"model": "scripted", "prompt": "count", "max_tokens": 9, "suffix": "."});
    let reply = server.post(COMPLETIONS, &body);
    assert_eq!(
        (reply.status, &reply.json()["choices"][0]["text"]),
        (200, &json!("one two")),
        "{}",
        reply.body
    );
    let sent = json!({"model": "up", "prompt": "count", "max_tokens": 5, "suffix": "."});
    assert_eq!(upstream.requests()[0], sent);
    let reply = server.post(COMPLETIONS, &json!({"model": "scripted", "prompt": "count", "stream": true}));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    assert!(reply.body.starts_with("data: {") && reply.body.ends_with("data: [DONE]\n\n"), "{}", reply.body);
    wait_until("both are booked", || server.get("/v1/usage").json()["data"][0]["total_tokens"] == 10);
}

#[test]
fn what_a_provider_does_not_have_is_a_404_with_the_reason() {
    let upstream = Upstream::start(|request, _| match request["input"].as_str() {
        Some("bad") => Answer::error(400, "the input is bad"),
        Some("busy") => Answer::error(429, "slow down").with_header("retry-after", "7"),
        Some("down") => Answer::error(500, "broken"),
        _ => Answer::error(404, "no such path"),
    });
    let url = &upstream.url;
    let anthropic = format!("{{id: claude, provider: anthropic, api_url: \"{url}\", api_key: k}}");
    let server = Server::start_with(&format!(
        "models: [{{id: scripted, api_url: \"{url}\"}}, {anthropic}, {{id: demo}}]\n"
    ));
    let ask = |model: &str, input: &str| server.post(EMBEDDINGS, &json!({"model": model, "input": input}));
    assert_error(&ask("scripted", "x"), 404, "not_offered", "no such path");
    assert_error(&ask("claude", "x"), 404, "not_offered", "/embeddings");
    assert_error(&ask("demo", "x"), 404, "not_offered", "/embeddings");
    assert_error(&ask("gone", "x"), 404, "model_not_found", "gone");
    assert_error(&ask("scripted", "bad"), 400, "invalid_request", "the input is bad");
    assert_error(&ask("scripted", "down"), 502, "provider_error", "broken");
    let busy = ask("scripted", "busy");
    assert_error(&busy, 429, "rate_limit_exceeded", "slow down");
    assert_eq!(busy.header("retry-after"), Some("7"));
    assert_error(
        &server.post(EMBEDDINGS, &json!({"input": "x"})),
        400,
        "missing_required_parameter",
        "model",
    );
    assert_error(
        &server.post(COMPLETIONS, &json!({"model": "demo"})),
        400,
        "missing_required_parameter",
        "prompt",
    );
}

#[test]
fn tokens_of_forwarded_requests_count_against_the_quota_of_their_user() {
    let usage = json!({"prompt_tokens": 50, "total_tokens": 50});
    let upstream = Upstream::start(move |_, _| whole(200, &json!({"data": [], "usage": usage})));
    let settings = "auth_mode: multi\nlimits: {user_requests_per_minute: 0}\n";
    let server = Server::start_with(&format!("{}{settings}", models(&upstream.url, "")));
    let register = |name: &str| {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = server.register(&body).json()["data"].clone();
        (format!("Bearer {}", reply["token"].as_str().expect("a token")), reply["user"]["id"].to_string())
    };
    let ((root, _), (ann, id), (bob, _)) = (register("root"), register("ann"), register("bob"));
    let send = |who: &str, method: &str, path: &str, body: &Value| {
        let headers = [("authorization", who), ("content-type", "application/json")];
        server.request((method, path), &headers, &body.to_string())
    };
    let quota = json!({"quota": {"tokens_per_day": 40}});
    assert_eq!(send(&root, "PATCH", &format!("/api/users/{id}"), &quota).status, 200);
    let ask = |who: &str| send(who, "POST", EMBEDDINGS, &json!({"model": "scripted", "input": "x"}));
    assert_eq!(ask(&ann).status, 200);
    wait_until("the quota is used up", || ask(&ann).status == 429);
    assert!(ask(&ann).body.contains("40 tokens"), "{}", ask(&ann).body);
    assert_eq!(ask(&bob).status, 200, "the tokens are Ann's alone");
}

#[test]
fn a_client_that_goes_away_ends_the_call_and_a_break_ends_a_stream_with_an_error() {
    let upstream = Upstream::start(|request, _| match request["prompt"].as_str() {
        Some("hang") => Answer::stream(vec![Act::Data(json!({"choices": [{"text": "one"}]})), Act::Hang]),
        _ => Answer {
            // The chunked body ends in the middle of a chunk's head.
            acts: vec![
                Act::Raw("data: {\"choices\": []}\n\n".into()),
                Act::Pause(Duration::from_secs(3_600)),
            ],
            ..Answer::stream(Vec::new())
        },
    });
    let config =
        format!("{}limits: {{model_idle_timeout_s: 1}}\n", models(&upstream.url, "rate: {concurrent: 1}"));
    let server = Server::start_with(&config);
    let body = json!({"model": "scripted", "prompt": "hang", "stream": true}).to_string();
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut socket = TcpStream::connect(address).expect("connected");
    let head =
        format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).expect("sent");
    assert!(socket.read(&mut [0; 1_024]).expect("its head") > 0);
    drop(socket);
    // The one permit of the provider is free again.
    let reply = server.post(COMPLETIONS, &json!({"model": "scripted", "prompt": "break", "stream": true}));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let last = reply.body.trim_end().rsplit("\n\n").next().expect("a frame");
    assert!(last.contains("\"provider_error\"") && last.contains("silent for 1 s"), "{}", reply.body);
}
