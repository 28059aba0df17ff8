//! The OpenAI-style wire format; each test has its own provider.

use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::model_settings::ModelSettings;
use nanoclaw::llm::Router;
use nanoclaw::ports::{
    CancelReason, CancelToken, Chunk, Clock, Completion, Model, ModelCaller, ModelError, ModelRequest,
};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct RealClock(Instant);

impl RealClock {
    #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
    fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).expect("a short test")
    }
    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

/// Serves each connection on its own thread until the test process ends.
pub(super) fn provider(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("has an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads one request; returns its head and body.
pub(super) fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Holds the connection open until the client closes it.
pub(super) fn hold_open(stream: &mut impl Read) {
    drop(std::io::copy(stream, &mut std::io::sink()));
}

pub(super) fn write(stream: &BufReader<TcpStream>, text: &str) -> bool {
    (&mut stream.get_ref()).write_all(text.as_bytes()).is_ok()
}

pub(super) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(super) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn event(content: &str, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": {"content": content}, "finish_reason": finish});
    chunk(&format!("data: {}\n\n", json!({"choices": [choice]})))
}

pub(super) fn limits() -> Limits {
    Limits { model_connect_timeout_s: 30, model_idle_timeout_s: 30, ..Limits::default() }
}

fn router(url: &str, limits: &Limits) -> Router {
    let model = json!([{"id": "m", "api_url": url, "api_key": "topsecret"}]);
    Router::new(serde_json::from_value(model).expect("options"), limits).expect("valid")
}

pub(super) struct Call {
    cancel: CancelToken,
    pub(super) text: String,
    pub(super) result: Result<Completion, ModelError>,
    took: Duration,
}

pub(super) fn request() -> ModelRequest {
    let (messages, tools) = (vec![Message::user("hi")], Vec::new());
    ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: "m".into(),
        messages,
        tools,
        temperature: None,
        max_tokens: None,
        thinking: false,
        may_call: true,
        settings: ModelSettings::default(),
    }
}

pub(super) fn cancel() -> CancelToken {
    CancelToken::new(Arc::new(RealClock::start())).with_deadline(60_000)
}

pub(super) fn ask(router: &Router, cancel: CancelToken) -> Call {
    let mut text = String::new();
    let mut sink = |chunk: Chunk<'_>| {
        if let Chunk::Text(piece) = chunk {
            text.push_str(piece);
        }
        ControlFlow::Continue(())
    };
    let started = cancel.clock().monotonic_ms();
    let result = router.ask(&request(), &cancel, &mut sink);
    let took = Duration::from_millis(cancel.clock().monotonic_ms() - started);
    Call { cancel, text, result, took }
}

/// Raises the flag after 500 ms; the call must end within a second of that.
fn assert_cancels(router: &Router) -> Call {
    let cancel = cancel();
    let stop = cancel.clone();
    std::thread::spawn(move || {
        CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(500));
        stop.cancel(CancelReason::Cancelled);
    });
    let call = ask(router, cancel);
    assert_eq!(call.result, Err(ModelError::Stopped));
    let after =
        call.took.checked_sub(Duration::from_millis(450)).expect("the call did not end before the cancel");
    assert!(after < Duration::from_secs(1), "took {after:?} after the cancel");
    call
}

fn base(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

#[test]
fn an_answer_streams_and_the_connection_is_reused() {
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&connections);
    let address = provider(move |stream| {
        seen.fetch_add(1, Ordering::SeqCst);
        let mut stream = BufReader::new(stream);
        while let Some((head, body)) = read_request(&mut stream) {
            assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
            assert!(head.to_lowercase().contains("authorization: bearer topsecret\r\n"), "{head}");
            let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
            let answer =
                [STREAM_HEAD, &event("hel", None), &event("lo", Some("stop")), &chunk("data: [DONE]\n\n")];
            write(&stream, &(answer.concat() + "0\r\n\r\n"));
        }
    });
    let router = router(&base(address), &limits());
    for _ in 0..3 {
        let call = ask(&router, cancel());
        assert_eq!(call.text, "hello");
        assert!(call.result.is_ok(), "{:?}", call.result);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1, "one connection serves all calls");
}

#[test]
fn cancelling_ends_a_call_without_any_answer_within_a_second() {
    let address = provider(|mut stream| hold_open(&mut stream));
    assert_cancels(&router(&base(address), &limits()));
}

#[test]
fn cancelling_ends_a_stalled_stream_within_a_second() {
    let address = provider(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        write(&stream, &(STREAM_HEAD.to_owned() + &event("first", None)));
        hold_open(&mut stream);
    });
    let call = assert_cancels(&router(&base(address), &limits()));
    assert_eq!(call.text, "first");
}

#[test]
fn cancelling_ends_a_stream_of_slow_comments_within_a_second() {
    for pause in [1_000, 5] {
        let address = provider(move |stream| {
            let mut stream = BufReader::new(stream);
            read_request(&mut stream);
            write(&stream, STREAM_HEAD);
            while write(&stream, &chunk(":")) {
                CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(pause));
            }
        });
        assert_cancels(&router(&base(address), &limits()));
    }
}

#[test]
fn a_stream_of_only_comments_or_empty_deltas_times_out() {
    let empty = event("", None);
    for event in [":\n\n".to_owned(), empty] {
        let address = provider(move |stream| {
            let mut stream = BufReader::new(stream);
            read_request(&mut stream);
            write(&stream, STREAM_HEAD);
            while write(&stream, &chunk(&event)) {
                CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(100));
            }
        });
        let call = ask(&router(&base(address), &Limits { model_idle_timeout_s: 1, ..limits() }), cancel());
        let message = "the model's provider sent nothing of an answer for 5 s".to_owned();
        assert_eq!(call.result, Err(ModelError::Unavailable { message, retry_after_ms: None }));
    }
}

#[test]
fn cancelling_ends_a_hanging_tls_handshake_within_a_second() {
    let address = provider(|mut stream| hold_open(&mut stream));
    assert_cancels(&router(&format!("https://{address}/v1"), &limits()));
}

#[test]
fn a_provider_without_tls_is_reported_as_a_failed_secure_connection() {
    let address = provider(|mut stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    let call = ask(&router(&format!("https://{address}/v1"), &limits()), cancel());
    let message = "the secure connection to the model's provider failed".to_owned();
    assert_eq!(call.result, Err(ModelError::Unavailable { message, retry_after_ms: None }));
}

/// A listener whose backlog is full: the kernel drops further connection attempts.
fn full_backlog() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    rustix::net::listen(&listener, 0).expect("the backlog shrinks");
    let address = listener.local_addr().expect("has an address");
    let full =
        (0..8).map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok()).collect();
    (listener, full)
}

#[test]
fn cancelling_ends_a_hanging_connect_within_a_second() {
    let (listener, _full) = full_backlog();
    let address = listener.local_addr().expect("has an address");
    assert_cancels(&router(&base(address), &limits()));
    let short_timeout = Limits { model_connect_timeout_s: 1, ..limits() };
    let call = ask(&router(&base(address), &short_timeout), cancel());
    let message = "no connection to the model's provider within 1 s".to_owned();
    assert_eq!(call.result, Err(ModelError::Unavailable { message, retry_after_ms: None }));
    assert!(call.took < Duration::from_secs(2), "{:?}", call.took);
}

#[test]
fn shutdown_ends_an_upload_that_the_provider_does_not_read() {
    let address = provider(|stream| {
        CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_secs(20));
        drop(stream);
    });
    let router = router(&base(address), &limits());
    let cancel = cancel();
    let stop = cancel.clone();
    std::thread::spawn(move || {
        CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(500));
        stop.cancel(CancelReason::Shutdown);
    });
    let long = ModelRequest { messages: vec![Message::user("x".repeat(32 << 20))], ..request() };
    let started = cancel.clock().monotonic_ms();
    let result = router.ask(&long, &cancel, &mut |_| ControlFlow::Continue(()));
    assert_eq!(result, Err(ModelError::Stopped));
    assert!(cancel.clock().monotonic_ms() - started < 15_000, "long before the provider closes");
}

#[test]
fn a_deadline_or_a_breaking_sink_ends_a_call() {
    let address = provider(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        write(&stream, &(STREAM_HEAD.to_owned() + &event("first", None)));
        hold_open(&mut stream);
    });
    let router = router(&base(address), &limits());
    let short = cancel().with_timeout(Duration::from_millis(300));
    let call = ask(&router, short);
    assert_eq!(call.result, Err(ModelError::Stopped));
    assert!(call.took < Duration::from_millis(1_300), "{:?}", call.took);
    let result =
        router.ask(&request(), &call.cancel.with_timeout(Duration::ZERO), &mut |_| ControlFlow::Continue(()));
    assert_eq!(result, Err(ModelError::Stopped), "a cancelled token sends no request");
    let result = router.ask(&request(), &cancel(), &mut |_| ControlFlow::Break(()));
    assert_eq!(result, Err(ModelError::Stopped));
}

#[test]
fn silence_beyond_the_idle_timeout_makes_the_provider_unavailable() {
    let address = provider(|mut stream| hold_open(&mut stream));
    let call = ask(&router(&base(address), &Limits { model_idle_timeout_s: 1, ..limits() }), cancel());
    let message = "the model's provider was silent for 1 s".to_owned();
    assert_eq!(call.result, Err(ModelError::Unavailable { message, retry_after_ms: None }));
    assert!(call.took < Duration::from_secs(2), "{:?}", call.took);
}

#[test]
fn an_answer_with_a_finish_reason_is_complete_without_a_stream_end() {
    let address = provider(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        write(&stream, &(STREAM_HEAD.to_owned() + &event("all", Some("stop"))));
        hold_open(&mut stream);
    });
    let call = ask(&router(&base(address), &Limits { model_idle_timeout_s: 1, ..limits() }), cancel());
    assert!(call.result.is_ok() && call.text == "all", "{:?}", call.result);
    assert!(call.took < Duration::from_secs(2), "{:?}", call.took);
    let address = provider(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        write(&stream, &(STREAM_HEAD.to_owned() + &event("all", Some("stop"))));
    });
    assert!(
        ask(&router(&base(address), &limits()), cancel()).result.is_ok(),
        "a complete body is not needed"
    );
}

/// The error for this answer of the provider.
fn error_for(answer: String) -> ModelError {
    let address = provider(move |stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        write(&stream, &answer);
    });
    let error = ask(&router(&base(address), &limits()), cancel()).result.expect_err("no answer");
    for secret in ["topsecret", "127.0.0.1", "http://"] {
        assert!(!error.to_string().contains(secret), "P9: {error}");
    }
    error
}

pub(super) fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn provider_errors_are_mapped_to_model_errors() {
    let refusal = r#"{"error":{"message":"the key topsecret at http://127.0.0.1/v1 is bad"}}"#;
    assert!(matches!(error_for(answer("401 Unauthorized", refusal)), ModelError::Denied(_)));
    let error = error_for(answer("400 Bad Request", refusal));
    assert_eq!(
        error.to_string(),
        "the model's provider refused the request (HTTP 400): the key [key] at [url] is bad"
    );
    let busy = error_for(answer("429 Too Many Requests\r\nretry-after: 3", "{}"));
    assert!(matches!(busy, ModelError::RateLimited { retry_after_ms: Some(3_000), .. }), "{busy:?}");
    let moved = error_for(answer("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/", ""));
    assert!(matches!(moved, ModelError::Denied(_)), "{moved:?}");
    let reset = error_for(answer("429 Too Many Requests\r\nx-ratelimit-reset-tokens: 6m0s", "{}"));
    assert!(matches!(reset, ModelError::RateLimited { retry_after_ms: Some(360_000), .. }), "{reset:?}");
    let long = error_for(answer("400 Bad Request", r#"{"error":{"code":"context_length_exceeded"}}"#));
    assert!(matches!(long, ModelError::ContextTooLong(_)), "{long:?}");
    let page = error_for(answer("502 Bad Gateway", "<html><body>nginx</body></html>"));
    assert_eq!(page.to_string(), "the model's provider is in trouble (HTTP 502)");
    for body in ["", "<!DOCTYPE html><title>login</title>"] {
        let invalid = error_for(answer("200 OK", body));
        assert!(matches!(invalid, ModelError::Unavailable { .. }), "{invalid:?}");
    }
    let brotli = error_for(answer("200 OK\r\ncontent-encoding: br", "xx"));
    assert!(brotli.to_string().contains("content coding"), "{brotli:?}");
    let truncated = error_for(format!("{STREAM_HEAD}{}", event("half", None)));
    assert!(matches!(truncated, ModelError::Unavailable { .. }), "{truncated:?}");
    let endless = error_for(format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(100_000)));
    assert!(matches!(endless, ModelError::TooLarge(_) | ModelError::Unavailable { .. }), "{endless:?}");
    assert!(matches!(error_for("SSH-2.0-OpenSSH\r\n\r\n".to_owned()), ModelError::Unavailable { .. }));
}

#[test]
fn an_unreachable_address_makes_the_provider_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("has an address");
    drop(listener);
    let refused = ask(&router(&base(address), &limits()), cancel()).result;
    let message = "the model's provider refused the connection".to_owned();
    assert_eq!(refused, Err(ModelError::Unavailable { message, retry_after_ms: None }));
    let unknown = ask(&router("http://no-such-host.invalid/v1", &limits()), cancel());
    assert!(matches!(unknown.result, Err(ModelError::Unavailable { .. })), "{:?}", unknown.result);
}

#[test]
fn an_unknown_model_gives_not_found() {
    let router = router("http://127.0.0.1:1/v1", &limits());
    let unknown = ModelRequest { model: "other".into(), ..request() };
    let result = router.ask(&unknown, &cancel(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(result, Err(ModelError::NotFound("other".into())));
}
