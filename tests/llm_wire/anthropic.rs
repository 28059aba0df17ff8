//! The Anthropic wire format over real sockets: path and headers, paused turns, and errors.

use super::openai::{
    STREAM_HEAD, answer, cancel, chunk, hold_open, limits, provider, read_request, request, write,
};
use nanoclaw::domain::event::FinishReason;
use nanoclaw::domain::usage::Usage;
use nanoclaw::llm::Router;
use nanoclaw::ports::{CancelReason, CancelToken, Chunk, Completion, Model, ModelError, ModelRequest};
use serde_json::{Value, json};
use std::io::BufReader;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEY: &str = "topsecret";

fn router(address: SocketAddr, options: &Value) -> Router {
    let mut model = json!({
        "id": "m",
        "api_url": format!("http://{address}/api/anthropic"),
        "api_key": KEY,
        "provider": "anthropic",
    });
    model.as_object_mut().expect("an object").extend(options.as_object().expect("an object").clone());
    Router::new(serde_json::from_value(json!([model])).expect("options"), &limits()).expect("valid")
}

/// Sends each request's head and body to the test and answers with the next answer, all on one connection.
fn scripted(answers: Vec<String>) -> (SocketAddr, Receiver<(String, Value)>) {
    let (sender, receiver) = channel();
    let answers = Mutex::new(answers.into_iter());
    let sender: Arc<Mutex<Sender<(String, Value)>>> = Arc::new(Mutex::new(sender));
    let address = provider(move |stream| {
        let mut stream = BufReader::new(stream);
        while let Some((head, body)) = read_request(&mut stream) {
            let body = serde_json::from_slice(&body).expect("JSON");
            sender.lock().expect("unpoisoned").send((head, body)).expect("the test listens");
            let Some(answer) = answers.lock().expect("unpoisoned").next() else { return };
            write(&stream, &answer);
        }
    });
    (address, receiver)
}

fn streamed(events: &[Value]) -> String {
    let chunks = events.iter().map(|event| chunk(&format!("event: x\ndata: {event}\n\n")));
    STREAM_HEAD.to_owned() + &chunks.collect::<String>() + "0\r\n\r\n"
}

fn message(blocks: &[Value], stop_reason: &str, tokens: u64) -> Vec<Value> {
    let start =
        json!({"type": "message_start", "message": {"usage": {"input_tokens": tokens, "output_tokens": 1}}});
    let blocks = blocks.iter().enumerate();
    let blocks =
        blocks.map(|(i, block)| json!({"type": "content_block_start", "index": i, "content_block": block}));
    let delta = json!({"stop_reason": stop_reason});
    let end = json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}});
    std::iter::once(start).chain(blocks).chain([end, json!({"type": "message_stop"})]).collect()
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

struct Call {
    text: String,
    spent: Usage,
    result: Result<Completion, ModelError>,
}

fn ask(router: &Router, request: &ModelRequest, cancel: &CancelToken) -> Call {
    let (mut text, mut spent) = (String::new(), Usage::default());
    let mut sink = |chunk: Chunk<'_>| {
        match chunk {
            Chunk::Text(piece) => text.push_str(piece),
            Chunk::Spent(usage) => spent = usage,
            Chunk::Thinking(_) | Chunk::TextWasThinking | Chunk::Call { .. } | Chunk::CaughtUp => {}
        }
        ControlFlow::Continue(())
    };
    let result = router.ask(request, cancel, &mut sink);
    Call { text, spent, result }
}

#[test]
fn a_request_has_the_anthropic_path_and_headers() {
    let response = streamed(&message(&[text_block("hello")], "end_turn", 3));
    let (address, seen) = scripted(vec![response.clone(), response]);
    let options = json!({
        "upstream_id": "claude-x",
        "extra_body": {"metadata": {"user_id": "u"}},
        "extra_headers": {"Anthropic-Beta": "one,two"},
    });
    let router = router(address, &options);
    for _ in 0..2 {
        let call = ask(&router, &request(), &cancel());
        assert_eq!((call.text.as_str(), call.spent), ("hello", Usage::new(3, 5)));
        assert_eq!(call.result.expect("complete").finish_reason, FinishReason::Stop);
        let (head, body) = seen.recv_timeout(Duration::from_secs(30)).expect("a request");
        assert!(head.starts_with("POST /api/anthropic/v1/messages HTTP/1.1\r\n"), "{head}");
        let head = head.to_ascii_lowercase();
        for header in ["x-api-key: topsecret", "anthropic-version: 2023-06-01", "anthropic-beta: one,two"] {
            assert_eq!(head.matches(&format!("\r\n{header}\r\n")).count(), 1, "{header} in {head}");
        }
        assert!(!head.contains("authorization"), "{head}");
        assert_eq!((&body["model"], &body["max_tokens"]), (&json!("claude-x"), &json!(8192)));
        assert_eq!(body["messages"], json!([{"role": "user", "content": [text_block("hi")]}]));
        assert_eq!(body["metadata"], json!({"user_id": "u"}));
    }
}

#[test]
fn a_loopback_provider_needs_no_key() {
    let (address, seen) = scripted(vec![streamed(&message(&[text_block("x")], "end_turn", 1))]);
    let call = ask(&router(address, &json!({"api_key": ""})), &request(), &cancel());
    assert!(call.result.is_ok(), "{:?}", call.result);
    let (head, _) = seen.recv_timeout(Duration::from_secs(30)).expect("a request");
    assert!(!head.to_ascii_lowercase().contains("x-api-key"), "{head}");
}

#[test]
fn a_paused_turn_is_continued_until_it_ends() {
    let search =
        json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []});
    let first =
        streamed(&message(&[search.clone(), found.clone(), text_block("I look. ")], "pause_turn", 10));
    let second = streamed(&message(&[text_block("Found it.")], "end_turn", 20));
    let (address, seen) = scripted(vec![first, second]);
    let call = ask(&router(address, &json!({})), &request(), &cancel());
    assert_eq!((call.text.as_str(), call.spent), ("I look. Found it.", Usage::new(30, 10)));
    let completion = call.result.expect("complete");
    let echo = completion.echo.expect("an echo").parts;
    assert_eq!(echo, json!([search, found, text_block("I look. "), text_block("Found it.")]));
    let (_, first) = seen.recv_timeout(Duration::from_secs(30)).expect("the first request");
    let (_, second) = seen.recv_timeout(Duration::from_secs(30)).expect("the second request");
    assert_eq!(second["messages"][0], first["messages"][0]);
    let so_far = json!({"role": "assistant", "content": [search, found, text_block("I look.")]});
    assert_eq!(second["messages"].as_array().map(|all| &all[1..]), Some(&[so_far][..]));
}

#[test]
fn a_turn_that_pauses_more_than_five_times_ends_as_truncated() {
    let paused = streamed(&message(&[text_block("on ")], "pause_turn", 1));
    let (address, seen) = scripted(vec![paused; 9]);
    let call = ask(&router(address, &json!({})), &request(), &cancel());
    assert_eq!(call.text, "on on on on on on ");
    assert_eq!(call.result.expect("complete").finish_reason, FinishReason::Length);
    assert_eq!((seen.try_iter().count(), call.spent), (6, Usage::new(6, 30)));
}

#[test]
fn cancelling_ends_a_paused_turn_and_keeps_its_usage() {
    let first = streamed(&message(&[text_block("I look. ")], "pause_turn", 10));
    let (second_request, has_second_request) = channel();
    let second_request = Mutex::new(second_request);
    let address = provider(move |stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        write(&stream, &first);
        read_request(&mut stream);
        second_request.lock().expect("unpoisoned").send(()).expect("the test listens");
        hold_open(&mut stream);
    });
    let cancel = cancel();
    let stop = cancel.clone();
    std::thread::spawn(move || {
        has_second_request.recv_timeout(Duration::from_secs(30)).expect("it goes on");
        stop.cancel(CancelReason::Cancelled);
    });
    let call = ask(&router(address, &json!({})), &request(), &cancel);
    assert_eq!((call.text.as_str(), call.result), ("I look. ", Err(ModelError::Stopped)));
    assert_eq!(call.spent, Usage::new(10, 5), "the usage of the first call is kept");
}

#[test]
fn p9_provider_errors_contain_neither_key_nor_address() {
    let message = "the key topsecret at http://127.0.0.1/v1 is bad";
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let refusal = |head: &str, kind: &str| answer(head, &error(kind).to_string());
    for bad in [
        refusal("401 Unauthorized", "authentication_error"),
        refusal("400 Bad Request", "invalid_request_error"),
        refusal("529 Overloaded", "overloaded_error"),
        streamed(&[error("overloaded_error")]),
        answer("200 OK", &error("permission_error").to_string()),
    ] {
        let (address, _seen) = scripted(vec![bad.clone()]);
        let error = ask(&router(address, &json!({})), &request(), &cancel()).result.expect_err("a failure");
        for secret in [KEY, "127.0.0.1", "http://"] {
            assert!(!error.to_string().contains(secret), "{error} after {bad}");
        }
    }
    let long = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens"}});
    let (address, _seen) = scripted(vec![answer("400 Bad Request", &long.to_string())]);
    let error = ask(&router(address, &json!({})), &request(), &cancel()).result;
    assert!(matches!(error, Err(ModelError::ContextTooLong(_))), "{error:?}");
    assert!(!format!("{:?}", router(address, &json!({}))).contains(KEY));
}
