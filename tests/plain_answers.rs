//! Calls of the model without tools of the server, in all three dialects: the model is asked once, and what
//! it gives is the answer, also when it is empty or cut.

use crate::openai_chat::{CHAT, delta_text, frames};
use crate::openai_responses::frames as response_frames;
use crate::support::Server;
use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning};
use serde_json::{Value, json};

/// What the provider answers, and what the dialects say of it.
struct Case {
    chunks: Vec<Value>,
    thoughts: &'static str,
    text: &'static str,
    /// `finish_reason` of the provider and of chat completions.
    finish: &'static str,
    status: &'static str,
    stop_reason: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |chunks, (thoughts, text), finish| {
        let (status, stop_reason) =
            if finish == "length" { ("incomplete", "max_tokens") } else { ("completed", "end_turn") };
        Case { chunks, thoughts, text, finish, status, stop_reason }
    };
    vec![
        case(vec![reasoning("hm")], ("hm", ""), "length"),
        case(vec![reasoning("hm")], ("hm", ""), "stop"),
        case(vec![], ("", ""), "stop"),
        case(vec![], ("", ""), "length"),
        case(vec![content("{\"a\":")], ("", "{\"a\":"), "length"),
    ]
}

fn upstream(case: &Case) -> Upstream {
    let mut acts: Vec<Act> = case.chunks.iter().cloned().map(Act::Data).collect();
    acts.push(Act::Data(finish(case.finish)));
    Upstream::start(move |_, _| Answer::stream(acts.clone()))
}

/// Tries `check` on a server of each case; each of its requests reaches the model once.
fn for_each_case(requests: usize, check: impl Fn(&Server, &Case)) {
    for case in cases() {
        let upstream = upstream(&case);
        let server = Server::start_against(&upstream, "");
        check(&server, &case);
        assert_eq!(upstream.requests().len(), requests, "{} {:?}", case.finish, case.chunks);
    }
}

#[test]
fn a_chat_completion_is_the_first_answer_even_if_it_is_empty_or_cut() {
    let body = json!({"model": "scripted", "messages": [{"role": "user", "content": "go"}],
        "response_format": {"type": "json_object"}});
    for_each_case(2, |server, case| {
        let reply = server.post(CHAT, &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let choice = &reply.json()["choices"][0];
        assert_eq!(choice["finish_reason"], case.finish, "{choice}");
        assert_eq!(choice["message"]["content"].as_str().unwrap_or_default(), case.text, "{choice}");
        let thoughts = choice["message"]["reasoning_content"].as_str().unwrap_or_default();
        assert_eq!(thoughts, case.thoughts, "{choice}");
        let mut streamed = body.clone();
        streamed["stream"] = true.into();
        let frames = frames(&server.post(CHAT, &streamed));
        assert_eq!(delta_text(&frames, "content"), case.text, "{frames:?}");
        assert_eq!(delta_text(&frames, "reasoning_content"), case.thoughts, "{frames:?}");
        let finish = frames.iter().find_map(|frame| frame["choices"][0]["finish_reason"].as_str());
        assert_eq!((finish, frames.last()), (Some(case.finish), Some(&json!("[DONE]"))));
    });
}

#[test]
fn a_response_is_the_first_answer_even_if_it_is_empty_or_cut() {
    for_each_case(3, |server, case| {
        let first = server.post("/v1/responses", &json!({"model": "scripted", "input": "go"})).json();
        let text: String = texts(&first, "message");
        assert_eq!((&first["status"], text.as_str()), (&json!(case.status), case.text), "{first}");
        assert_eq!(texts(&first, "reasoning"), case.thoughts, "{first}");
        let details = &first["incomplete_details"]["reason"];
        assert_eq!(details.as_str(), (case.status == "incomplete").then_some("max_output_tokens"));
        let next =
            json!({"model": "scripted", "input": "on", "stream": true, "previous_response_id": first["id"]});
        let frames = response_frames(&server.post("/v1/responses", &next).body);
        let last = frames.last().expect("frames");
        assert_eq!(last["type"], format!("response.{}", case.status), "{last}");
        assert_eq!(texts(&last["response"], "message"), case.text, "{last}");
        let conversation = server.post("/v1/conversations", &json!({})).json();
        let talk = json!({"model": "scripted", "input": "go", "conversation": conversation["id"]});
        assert_eq!(server.post("/v1/responses", &talk).json()["status"], case.status);
    });
}

/// The texts of all items of this type.
fn texts(response: &Value, kind: &str) -> String {
    let items = response["output"].as_array().unwrap_or_else(|| panic!("{response}"));
    let parts = items.iter().filter(|item| item["type"] == kind).flat_map(|item| {
        let parts = [&item["content"], &item["summary"]];
        parts.into_iter().filter_map(Value::as_array).flatten().filter_map(|part| part["text"].as_str())
    });
    parts.collect()
}

#[test]
fn a_message_is_the_first_answer_even_if_it_is_empty_or_cut() {
    let body = json!({"model": "scripted", "max_tokens": 2_000, "thinking": {"type": "enabled", "budget_tokens": 1_024},
        "messages": [{"role": "user", "content": "go"}]});
    for_each_case(2, |server, case| {
        let reply = server.post("/v1/messages", &body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let message = reply.json();
        assert_eq!(message["stop_reason"], case.stop_reason, "{message}");
        let blocks = message["content"].as_array().expect("blocks");
        let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let thoughts: String = blocks.iter().filter_map(|block| block["thinking"].as_str()).collect();
        assert_eq!((thoughts.as_str(), text.as_str()), (case.thoughts, case.text), "{message}");
        let mut streamed = body.clone();
        streamed["stream"] = true.into();
        let sent = server.post("/v1/messages", &streamed).body;
        assert!(sent.contains(&format!("\"stop_reason\":\"{}\"", case.stop_reason)), "{sent}");
        assert!(sent.contains("event: message_stop") && !sent.contains("event: error"), "{sent}");
    });
}
