//! Batches that expire, with the real binary: the objects and files of `OpenAI`, and our own lines.

use crate::support::Server;
use crate::support::receiver::{Receiver, ReceiverReply};
use serde_json::{Value, json};

const SLOW: &str = "stream: 600 words, 100 ms";

fn upload(server: &Server, lines: &str) -> String {
    let part = |name: &str, data: &str| {
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{data}\r\n")
    };
    let body = part("purpose", "batch") + &part("file\"; filename=\"jobs.jsonl", lines) + "--cut--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=cut")];
    let reply = server.request(("POST", "/v1/files"), &headers, &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["id"].as_str().expect("an id").to_owned()
}

fn chat_line(id: &str, text: &str) -> String {
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": text}]});
    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string() + "\n"
}

fn shown(server: &Server, batch: &Value) -> Value {
    server.get(&format!("/v1/batches/{}?wait=60", batch["id"].as_str().expect("an id"))).json()
}

/// Lines of JSON, by `custom_id`.
fn lines(text: &str) -> Vec<Value> {
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.sort_by_key(|line| line["custom_id"].to_string());
    lines
}

#[test]
fn a_batch_of_a_file_expires_with_what_was_answered_until_then() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(204));
    let server = Server::start_with("webhooks: {allow_private_addresses: [127.0.0.1]}");
    let text = chat_line("a", "hello") + &chat_line("b", SLOW) + &chat_line("c", SLOW) + &chat_line("d", "x");
    let file = upload(&server, &text);
    let order =
        json!({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"});
    let usual = server.post("/v1/batches?concurrency=1", &order).json();
    let time = |batch: &Value, name: &str| batch[name].as_u64().unwrap_or_else(|| panic!("{name}: {batch}"));
    assert_eq!(time(&usual, "expires_at"), time(&usual, "created_at") + 24 * 3_600);
    assert_eq!((&usual["completion_window"], &usual["expired_at"]), (&json!("24h"), &Value::Null));
    server.post(&format!("/v1/batches/{}/cancel", usual["id"].as_str().expect("an id")), &json!({}));
    assert_eq!(shown(&server, &usual)["status"], "cancelled");

    let hook = format!("webhook_url=http://127.0.0.1:{}/hook", receiver.port);
    let batch =
        server.post(&format!("/v1/batches?concurrency=2&completion_window_s=5&{hook}"), &order).json();
    assert_eq!(time(&batch, "expires_at"), time(&batch, "created_at") + 5, "{batch}");
    let ended = shown(&server, &batch);
    assert_eq!((&ended["status"], &ended["completion_window"]), (&json!("expired"), &json!("5s")), "{ended}");
    assert_eq!(ended["request_counts"], json!({"total": 4, "completed": 1, "failed": 3}), "{ended}");
    assert!(time(&ended, "expired_at") >= time(&ended, "expires_at"), "{ended}");
    for name in ["completed_at", "cancelled_at", "cancelling_at", "failed_at"] {
        assert_eq!(ended[name], Value::Null, "{name}: {ended}");
    }
    let content = |name: &str| {
        let id = ended[name].as_str().unwrap_or_else(|| panic!("{name}: {ended}"));
        lines(&server.get(&format!("/v1/files/{id}/content")).body)
    };
    let answers = content("output_file_id");
    assert_eq!((answers.len(), &answers[0]["custom_id"]), (1, &json!("a")));
    assert_eq!(answers[0]["response"]["body"]["object"], "chat.completion");
    let errors = content("error_file_id");
    for (line, id) in errors.iter().zip(["b", "c", "d"]) {
        assert_eq!((&line["custom_id"], &line["response"]), (&json!(id), &Value::Null), "{line}");
        let message = "This request could not be executed before the completion window expired.";
        assert_eq!(line["error"], json!({"code": "batch_expired", "message": message}), "{line}");
    }
    assert_eq!(errors.len(), 3);
    let told: Value = serde_json::from_str(&receiver.arrivals(1).remove(0).body).expect("JSON");
    assert_eq!((&told["data"]["id"], &told["type"]), (&batch["id"], &json!("batch.expired")), "{told}");
}

#[test]
fn own_lines_expire_if_the_request_asks_for_it() {
    let server = Server::start();
    let line = |id: &str, text: &str| json!({"custom_id": id, "body": {"input": text}}).to_string() + "\n";
    let body = line("a", "hello") + &line("b", SLOW) + &line("c", "x");
    let send = |query: &str| {
        let headers = [("content-type", "application/jsonl")];
        server.request(("POST", &format!("/v1/batches?concurrency=2{query}")), &headers, &body)
    };
    let usual = send("").json();
    assert_eq!((&usual["expires_at"], &usual["completion_window"]), (&Value::Null, &Value::Null), "{usual}");
    let refused = send("&completion_window_s=0");
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("completion_window_s")));
    let short = send("&completion_window_s=2").json();
    assert_eq!(short["completion_window"], "2s", "{short}");
    let ended = shown(&server, &short);
    assert_eq!((&ended["status"], &ended["output_file_id"]), (&json!("expired"), &Value::Null), "{ended}");
    assert!(ended["expired_at"].is_u64(), "{ended}");
    let path = format!("/v1/batches/{}/results", short["id"].as_str().expect("an id"));
    let results = lines(&server.get(&path).body);
    assert_eq!(results.len(), 3, "{results:?}");
    assert_eq!(results[1]["response"]["body"]["status"], "cancelled", "it ran");
    let path = format!("/v1/batches/{}", usual["id"].as_str().expect("an id"));
    assert_eq!(server.get(&path).json()["status"], "in_progress", "it has no window");
}
