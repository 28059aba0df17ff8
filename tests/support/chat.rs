//! Helpers for conversations through `/api`: create one, send messages, read it.

use super::upstream::{Act, Answer, Upstream, content, reasoning, tool_results};
use super::{Event, Events, Reply, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A model that calls the calculator if asked to, and echoes the last user message.
pub(crate) fn echo() -> Upstream {
    Upstream::start(|request, _| {
        let question = last_text(request);
        if question.contains("calculate") && tool_results(request).is_empty() {
            let mut answer = Answer::calls(&[("calculator", json!({"expression": "6*7"}))]);
            answer.acts.insert(0, Act::Data(content("Let me see. ")));
            answer.acts.insert(0, Act::Data(reasoning("hm")));
            return answer;
        }
        Answer::text(&format!("You said: {question}"))
    })
}

/// The last user message of a request.
pub(crate) fn last_text(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.iter().rev().find(|message| message["role"] == "user");
    last.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

pub(crate) fn create(server: &Server, body: &Value) -> Value {
    let reply = server.post("/api/conversations", body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let object = reply.json();
    assert_eq!(object["code"], 0);
    object["data"].clone()
}

pub(crate) fn new(server: &Server) -> String {
    create(server, &json!({}))["id"].as_str().expect("an id").to_owned()
}

/// Sends a message and reads its stream to the end.
pub(crate) fn say(server: &Server, conversation: &str, body: &Value) -> Vec<Event> {
    let (reply, events) = begin(server, conversation, body);
    assert!(reply.starts_with("job_"), "{reply}");
    events.collect()
}

/// Sends a message; returns its job id and its stream.
pub(crate) fn begin(server: &Server, conversation: &str, body: &Value) -> (String, Events) {
    let path = format!("/api/conversations/{conversation}/messages");
    let (reply, events) = server.open(&path, &[], body);
    assert_eq!(reply.status, 200, "{:?}", events.collect::<Vec<_>>());
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    (reply.header("x-job-id").expect("a job").to_owned(), events)
}

pub(crate) fn page(server: &Server, path: &str) -> Value {
    let reply = server.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    reply.json()["data"].clone()
}

pub(crate) fn messages(server: &Server, conversation: &str) -> Vec<Value> {
    let page = page(server, &format!("/api/conversations/{conversation}/messages"));
    page["items"].as_array().expect("items").clone()
}

pub(crate) fn show(server: &Server, conversation: &str) -> Value {
    page(server, &format!("/api/conversations/{conversation}"))
}

/// The steps that a client has at the end of a stream: the newest frame of each id, without discarded steps.
pub(crate) fn seen(events: &[Event]) -> Vec<Value> {
    let mut steps = BTreeMap::new();
    for event in events {
        let key = || {
            let name = event.data["id"].as_str().and_then(|id| id.strip_prefix("step-"));
            name.and_then(|number| number.parse::<u64>().ok()).expect("a step")
        };
        match event.name.as_str() {
            "process_step" => drop(steps.insert(key(), event.data.clone())),
            "step_discarded" => drop(steps.remove(&key())),
            _ => {}
        }
    }
    steps.into_values().collect()
}

/// Waits until `is_complete` accepts the messages of the conversation.
pub(crate) fn wait_for(
    server: &Server,
    conversation: &str,
    description: &str,
    is_complete: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let received = messages(server, conversation);
        if is_complete(&received) {
            return received;
        }
        assert!(Instant::now() < deadline, "{description} does not come: {received:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn fails(reply: &Reply, status: u16, says: &str) {
    let object = reply.json();
    assert_eq!((reply.status, &object["code"]), (status, &json!(status)), "{}", reply.body);
    let message = object["message"].as_str().expect("a message");
    assert!(message.contains(says), "'{says}' is not in: {message}");
}
