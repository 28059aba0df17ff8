//! Provider differences over real sockets: configured fields, compressed answers, unsupported parameters.

use super::openai::{ask, cancel, limits, provider, read_request};
use flate2::Compression;
use flate2::write::GzEncoder;
use nanoclaw::app::system::SystemClock;
use nanoclaw::llm::Router;
use nanoclaw::ports::{CancelReason, CancelToken, ModelError};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GOOD: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"fine\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The heads and bodies of the requests to a provider.
type ReceivedRequests = Arc<Mutex<Vec<(String, Value)>>>;

/// A provider that answers each request with `answer` of its body.
fn scripted_provider(
    answer: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
) -> (String, ReceivedRequests) {
    let received = ReceivedRequests::default();
    let seen = Arc::clone(&received);
    let address = provider(move |stream| {
        let mut stream = BufReader::new(stream);
        while let Some((head, body)) = read_request(&mut stream) {
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            let (status, text) = answer(&body);
            seen.lock().expect("no panic").push((head, body));
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", text.len());
            if (&mut stream.get_ref()).write_all(format!("{head}{text}").as_bytes()).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}/v1"), received)
}

fn router(url: &str, options: &Value) -> Router {
    let mut model = json!({"id": "m", "api_url": url, "api_key": "topsecret"});
    let fields = model.as_object_mut().expect("an object");
    fields.extend(options.as_object().expect("an object").clone());
    Router::new(serde_json::from_value(json!([model])).expect("options"), &limits()).expect("valid")
}

#[test]
fn a_field_unknown_to_the_provider_is_omitted_from_then_on() {
    let (url, received) = scripted_provider(|body| {
        let unknown = ["stream_options", "max_tokens"].iter().find(|field| body.get(**field).is_some());
        match unknown {
            Some(field) => {
                (400, json!({"error": {"message": format!("Unknown parameter: '{field}'")}}).to_string())
            }
            None => (200, GOOD.to_owned()),
        }
    });
    let router = router(&url, &json!({"max_output_tokens": 7}));
    for requests in [3, 4] {
        let call = ask(&router, cancel());
        assert!(call.result.is_ok() && call.text == "fine", "{:?}", call.result);
        let received = received.lock().expect("no panic");
        assert_eq!(received.len(), requests);
        let body = &received.last().expect("was asked").1;
        assert!(body.get("stream_options").is_none() && body.get("max_tokens").is_none(), "{body}");
        assert_eq!(body["max_completion_tokens"], 7);
    }
}

#[test]
fn an_unhelpful_omission_of_fields_is_not_repeated() {
    let refusal =
        json!({"error": {"message": "Unsupported: stream_options, temperature, model"}}).to_string();
    let (url, received) = scripted_provider(move |_| (400, refusal.clone()));
    let call = ask(&router(&url, &json!({})), cancel());
    assert!(matches!(call.result, Err(ModelError::Refused(_))), "{:?}", call.result);
    assert_eq!(received.lock().expect("no panic").len(), 2);
}

#[test]
fn the_configured_model_name_fields_and_headers_are_sent() {
    let (url, received) = scripted_provider(|_| (200, GOOD.to_owned()));
    let options = json!({
        "upstream_id": "vendor/model",
        "extra_body": {"top_k": 3, "stream_options": null},
        "extra_headers": {"X-Title": "claw", "Authorization": "Basic abc"},
    });
    assert!(ask(&router(&url, &options), cancel()).result.is_ok());
    let received = received.lock().expect("no panic");
    let (head, body) = received.first().expect("was asked");
    assert_eq!((&body["model"], &body["top_k"]), (&json!("vendor/model"), &json!(3)));
    assert!(body.get("stream_options").is_none());
    let head = head.to_ascii_lowercase();
    assert!(head.contains("x-title: claw\r\n") && head.contains("authorization: basic abc\r\n"), "{head}");
    assert!(!head.contains("topsecret"), "one authorization replaces the other: {head}");
}

fn packed(pieces: &[&str]) -> Vec<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    let mut parts = Vec::new();
    for piece in pieces {
        packer.write_all(piece.as_bytes()).expect("packs");
        packer.flush().expect("packs");
        parts.push(std::mem::take(packer.get_mut()));
    }
    parts.push(packer.finish().expect("packs"));
    parts
}

fn send_packed(coding: &'static str, parts: Vec<Vec<u8>>, hangs: bool) -> String {
    let address = provider(move |stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream);
        let mut stream = stream.get_ref();
        let mut bytes =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n")
                .into_bytes();
        for part in &parts {
            bytes.extend(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend(part);
            bytes.extend(b"\r\n");
        }
        if !hangs {
            bytes.extend(b"0\r\n\r\n");
        }
        drop(stream.write_all(&bytes));
        if hangs {
            CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_secs(20));
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn an_unrequested_gzip_answer_is_decoded() {
    for coding in ["gzip", "x-gzip", "GZIP"] {
        let url = send_packed(coding, packed(&[GOOD]), false);
        let call = ask(&router(&url, &json!({})), cancel());
        assert!(call.result.is_ok() && call.text == "fine", "{coding}: {:?}", call.result);
    }
}

#[test]
fn a_partial_gzip_answer_is_delivered_and_the_call_can_be_cancelled() {
    let first = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    for coding in ["gzip", "x-gzip"] {
        let mut parts = packed(&[first, GOOD]);
        parts.truncate(1);
        let url = send_packed(coding, parts, true);
        let cancel = cancel();
        let stop = cancel.clone();
        std::thread::spawn(move || {
            CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(700));
            stop.cancel(CancelReason::Cancelled);
        });
        let call = ask(&router(&url, &json!({})), cancel);
        assert_eq!(call.result, Err(ModelError::Stopped), "{coding}");
        assert_eq!(call.text, "half", "{coding}");
    }
}
