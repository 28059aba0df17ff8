//! Webhooks: content, signatures, retries, crashes, and addresses that are refused.

use crate::support::Server;
use crate::support::receiver::{Arrival, Receiver, ReceiverReply};
use crate::support::upstream::{Act, Answer, Upstream, content, finish};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ALLOW: &str = "webhooks: {allow_private_addresses: [127.0.0.1]}";

/// Verifies a signature like a receiver, with a secret that it knows.
fn is_signed(arrival: &Arrival, secret: &str) -> bool {
    let key = STANDARD.decode(secret.trim().strip_prefix("whsec_").expect("a secret")).expect("base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
    let (id, time) = (arrival.header("webhook-id"), arrival.header("webhook-timestamp"));
    mac.update(format!("{id}.{time}.{}", arrival.body).as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    arrival.header("webhook-signature").split(' ').any(|signature| signature == expected)
}

/// Submits a job that reports to `host`, and waits for its end.
fn run(server: &Server, host: &str, receiver: &Receiver) -> String {
    let url = format!("http://{host}:{}/hook?token=s3cret", receiver.port);
    let id = server.submit(&json!({"input": "hello", "webhook_url": url}));
    server.wait(&id);
    id
}

/// Waits until the only delivery is in this state.
fn delivery(server: &Server, state: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let list = server.get("/v1/webhooks").json();
        let all = list["data"].as_array().expect("a list");
        if all.len() == 1 && all[0]["state"] == state {
            return all[0].clone();
        }
        assert!(Instant::now() < deadline, "no {state} delivery: {list}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn p9_a_webhook_contains_the_job_signed_with_each_secret() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(204));
    let config = format!("webhooks: {{allow_private_addresses: [127.0.0.0/8], secrets: [{NEW}, {OLD}]}}");
    let server = Server::start_with(&config);
    let id = run(&server, "127.0.0.1", &receiver);
    let arrived = &receiver.arrivals(1)[0];
    assert_eq!(
        arrived.body,
        server.get(&format!("/v1/jobs/{id}")).body.trim_end(),
        "the body equals the job byte by byte"
    );
    assert!(is_signed(arrived, OLD) && is_signed(arrived, NEW));
    assert!(!is_signed(arrived, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), "a wrong secret does not verify");
    assert_eq!(arrived.path, "/hook?token=s3cret");
    assert_eq!(arrived.header("content-type"), "application/json");
    assert!(arrived.header("user-agent").starts_with("nanoclaw/"));
    let delivered = delivery(&server, "delivered");
    assert_eq!(delivered["id"], arrived.header("webhook-id"));
    assert_eq!((&delivered["subject"], &delivered["last_status"]), (&json!(id), &json!(204)));
    assert_eq!(delivered["url"], format!("http://127.0.0.1:{}/hook?***", receiver.port));
    let fetched = server.get(&format!("/v1/webhooks/{}", arrived.header("webhook-id")));
    assert_eq!(fetched.json(), delivered);
    assert!(!server.log().contains("s3cret"), "no token in the log");
}

#[test]
fn p9_webhooks_to_private_addresses_are_refused_unless_allowed() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start();
    let literal = json!({"input": "x", "webhook_url": format!("http://127.0.0.1:{}/", receiver.port)});
    let reply = server.post("/v1/jobs", &literal);
    assert_eq!((reply.status, reply.json()["error"]["param"].as_str()), (400, Some("webhook_url")));
    run(&server, "localhost", &receiver);
    let dead = delivery(&server, "dead");
    let reason = dead["last_error"].as_str().expect("a reason");
    assert!(reason.contains("webhooks.allow_private_addresses") && dead["tries"] == 1, "{dead}");
    let names_address = ["127.0.0.1", "::1"].iter().any(|address| reason.contains(address));
    assert!(!names_address, "it does not tell which address a name leads to: {reason}");
    let again =
        server.post(&format!("/v1/webhooks/{}/retry", dead["id"].as_str().expect("an id")), &json!({}));
    assert_eq!((again.status, &again.json()["state"]), (202, &json!("pending")));
    delivery(&server, "dead");
    assert!(receiver.arrivals(0).is_empty(), "no request was sent");
}

#[test]
fn p1_a_webhook_delivery_survives_a_crash_and_keeps_its_id() {
    let receiver =
        Receiver::start(
            |number| if number == 0 { ReceiverReply::Nothing } else { ReceiverReply::Status(200) },
        );
    let server = Server::start_with(ALLOW);
    let id = run(&server, "127.0.0.1", &receiver);
    receiver.arrivals(1);
    let server = server.crash_and_restart(ALLOW);
    let arrived = receiver.arrivals(2);
    assert_eq!(arrived[0].header("webhook-id"), arrived[1].header("webhook-id"));
    assert_eq!(arrived[0].body, arrived[1].body);
    assert_eq!(delivery(&server, "delivered")["subject"], json!(id));
    // No secret is configured: the generated secret survives the crash as well.
    let file = server.dir.join("data/webhook_secret");
    let secret = std::fs::read_to_string(&file).expect("the secret");
    assert!(arrived.iter().all(|arrival| is_signed(arrival, &secret)));
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_failed_webhook_delivery_waits_and_can_be_retried_at_once() {
    let receiver = Receiver::start(|number| ReceiverReply::Status(if number == 0 { 503 } else { 200 }));
    let server = Server::start_with(ALLOW);
    run(&server, "127.0.0.1", &receiver);
    receiver.arrivals(1);
    let deadline = Instant::now() + Duration::from_secs(60);
    let path = format!("/v1/webhooks/{}", receiver.arrivals(1)[0].header("webhook-id"));
    // The attempt is stored shortly after its answer.
    while server.get(&path).json()["tries"] == 0 {
        assert!(Instant::now() < deadline, "the attempt is not stored");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.post(&format!("{path}/retry"), &json!({}));
    let delivered = delivery(&server, "delivered");
    assert_eq!((&delivered["tries"], &delivered["last_error"]), (&json!(2), &json!(null)), "{delivered}");
    let arrived = receiver.arrivals(2);
    assert_eq!(arrived[0].header("webhook-id"), arrived[1].header("webhook-id"));
    assert_eq!(server.post(&format!("{path}/retry"), &json!({})).status, 409);
}

#[test]
fn each_ended_job_has_a_webhook_delivery_with_its_own_id() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_with(ALLOW);
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    let submit = |n: usize| server.submit(&json!({"input": format!("{n}"), "webhook_url": url}));
    let jobs: BTreeSet<String> = (0..40).map(submit).collect();
    let arrived = receiver.arrivals(40);
    let job_of = |arrival: &Arrival| -> Value { serde_json::from_str(&arrival.body).expect("JSON") };
    let subjects: BTreeSet<String> =
        arrived.iter().map(|arrival| job_of(arrival)["id"].as_str().expect("an id").to_owned()).collect();
    let ids: BTreeSet<&str> = arrived.iter().map(|arrival| arrival.header("webhook-id")).collect();
    assert_eq!((subjects, ids.len()), (jobs, 40));
}

#[test]
fn a_hanging_receiver_does_not_delay_a_shutdown() {
    let receiver = Receiver::start(|_| ReceiverReply::Nothing);
    let mut server = Server::start_with("webhooks: {allow_private_addresses: [127.0.0.1], timeout_s: 120}");
    run(&server, "127.0.0.1", &receiver);
    receiver.arrivals(1);
    let start = Instant::now();
    assert!(server.terminate().success());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn p9_an_invalid_webhook_secret_is_refused_and_not_printed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    for config in ["webhooks: {secrets: [whsec_tooshort]}", "webhooks: {secrets: whsec_tooshort}"] {
        std::fs::write(&file, config).expect("writes");
        let checked =
            crate::support::command(&["config", "check", "--config"]).arg(&file).output().expect("runs");
        let output =
            String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert!(!checked.status.success() && output.contains("webhooks.secrets"), "{output}");
        assert!(!output.contains("tooshort"), "{output}");
    }
}

/// Sends a request to `/v1/responses` that is reported to the receiver; returns the id of the response.
fn respond(server: &Server, receiver: &Receiver, fields: &Value) -> String {
    let mut body = json!({"model": "scripted", "input": "hello", "background": true});
    body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    let headers = [("content-type", "application/json"), ("nanoclaw-webhook", url.as_str())];
    let reply = server.request(("POST", "/v1/responses"), &headers, &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["id"].as_str().expect("an id").to_owned()
}

/// The event that has arrived last; its id, its type and what it names.
fn event(receiver: &Receiver, count: usize) -> (String, String, Value) {
    let arrived = receiver.arrivals(count).pop().expect("an arrival");
    let event: Value = serde_json::from_str(&arrived.body).expect("JSON");
    assert_eq!((&event["object"], event.as_object().map(serde_json::Map::len)), (&json!("event"), Some(5)));
    assert!(event["created_at"].as_u64().is_some_and(|at| at > 1_700_000_000), "{event}");
    let text = |name: &str| event[name].as_str().expect("a text").to_owned();
    (text("id"), text("type"), event["data"].clone())
}

#[test]
fn responses_are_reported_as_events_of_openai() {
    let upstream = Upstream::start(|request, _| match request["messages"][0]["content"].as_str() {
        Some("long") => Answer::stream(vec![Act::Data(content("one ")), Act::Hang]),
        Some("cut") => Answer::stream(vec![Act::Data(content("one ")), Act::Data(finish("content_filter"))]),
        Some("bad") => Answer::error(400, "no"),
        _ => Answer::text("Hello."),
    });
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_against(&upstream, ALLOW);
    let done = respond(&server, &receiver, &json!({}));
    let (first, kind, data) = event(&receiver, 1);
    assert_eq!((kind.as_str(), data), ("response.completed", json!({"id": done})));
    assert!(first.starts_with("evt_"), "{first}");
    let cut = respond(&server, &receiver, &json!({"input": "cut"}));
    let (second, kind, data) = event(&receiver, 2);
    assert_eq!((kind.as_str(), data), ("response.incomplete", json!({"id": cut})));
    assert_ne!(first, second);
    let failed = respond(&server, &receiver, &json!({"input": "bad"}));
    assert_eq!(event(&receiver, 3).1, "response.failed", "{failed}");
    let long = respond(&server, &receiver, &json!({"input": "long"}));
    server.ask("POST", &format!("/v1/responses/{long}/cancel"), &Value::Null);
    assert_eq!(event(&receiver, 4).1, "response.cancelled");
    let body = json!({"model": "scripted", "input": "x", "store": false}).to_string();
    for (url, status) in [("http://127.0.0.1:1/", 400), ("http://10.0.0.1/", 400), ("no url", 400)] {
        let headers = [("content-type", "application/json"), ("nanoclaw-webhook", url)];
        let reply = server.request(("POST", "/v1/responses"), &headers, &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (status, &json!("nanoclaw-webhook")));
    }
}

#[test]
fn batches_of_files_are_reported_as_events_of_openai_refused_ones_too() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(200));
    let server = Server::start_with(ALLOW);
    let batch = |lines: &str| {
        let part = |name: &str, text: &str| {
            format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
        };
        let file = part("file\"; filename=\"a.jsonl", lines);
        let form = format!("{}{file}--b--\r\n", part("purpose", "batch"));
        let kind = [("content-type", "multipart/form-data; boundary=b")];
        let file = server.request(("POST", "/v1/files"), &kind, &form).json()["id"].clone();
        let order = json!({"input_file_id": file, "endpoint": "/v1/jobs", "completion_window": "24h"});
        let path = format!("/v1/batches?webhook_url=http://127.0.0.1:{}/hook", receiver.port);
        server.post(&path, &order).json()["id"].clone()
    };
    let done = batch(&json!({"custom_id": "a", "url": "/v1/jobs", "body": {"input": "x"}}).to_string());
    let (_, kind, data) = event(&receiver, 1);
    assert_eq!((kind.as_str(), data), ("batch.completed", json!({"id": done})));
    let refused = batch("no JSON");
    let (_, kind, data) = event(&receiver, 2);
    assert_eq!((kind.as_str(), data), ("batch.failed", json!({"id": refused})));
}
