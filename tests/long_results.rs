//! Results that are too long for the model, through the real binary: the model pages through them, and so
//! can a later job.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Server, assert_whole};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The newest tool result as the model reads it.
fn newest_result(request: &Value) -> Option<Value> {
    let last = request["messages"].as_array()?.last().filter(|message| message["role"] == "tool")?;
    serde_json::from_str(last["content"].as_str()?).ok()
}

/// The handle and the offset that a truncated text names.
fn handle_and_offset(text: &str) -> (String, u64) {
    let handle =
        text.split("{\"handle\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a handle");
    let offset = text.split("\"offset\":").nth(1).and_then(|rest| rest.split('}').next()).expect("an offset");
    (handle.to_owned(), offset.parse().expect("a number"))
}

fn page(handle: &str, offset: u64) -> Answer {
    Answer::calls(&[("read_result", json!({"handle": handle, "offset": offset}))])
}

#[test]
fn a_model_pages_through_a_truncated_result_as_can_a_later_job() {
    let lines: Vec<String> = (0..4_000).map(|n| format!("line {n} \"é\"\n")).collect();
    let long = lines.concat();
    let (whole, gathered) = (long.to_uppercase(), Arc::new(Mutex::new(String::new())));
    let (input, seen) = (long.clone(), Arc::clone(&gathered));
    let handle = Arc::new(Mutex::new(String::new()));
    let known_handle = Arc::clone(&handle);
    let upstream = Upstream::start(move |request, _| {
        let Some(result) = newest_result(request) else {
            let again = request["messages"].to_string().contains("again");
            if again {
                return page(&known_handle.lock().expect("no panic"), 10);
            }
            return Answer::calls(&[("text_process", json!({"text": input, "operation": "upper"}))]);
        };
        let mut seen = seen.lock().expect("no panic");
        if let Some(truncated) = result["data"]["result"].as_str() {
            let (handle, offset) = handle_and_offset(truncated);
            seen.push_str(truncated.split("\n… [").next().expect("a head"));
            known_handle.lock().expect("no panic").clone_from(&handle);
            return page(&handle, offset);
        }
        seen.push_str(result["data"]["content"].as_str().unwrap_or_default());
        match result["data"]["next_offset"]
            .as_u64()
            .filter(|_| request["messages"].to_string().contains("first"))
        {
            Some(next) => page(&known_handle.lock().expect("no panic"), next),
            None => Answer::text(result["error"].as_str().unwrap_or("read")),
        }
    });
    let server = Server::start_against(&upstream, "");
    // The job names one tool; `read_result` is offered as well.
    let job = json!({"input": "first", "tools": ["text_process"], "max_steps": 15});
    let id = server.submit(&job);
    let ended = server.wait(&id);
    assert_eq!((&ended["status"], &ended["output_text"]), (&json!("succeeded"), &json!("read")), "{ended}");
    assert_eq!(*gathered.lock().expect("no panic"), whole, "the head and the pages make the whole text");
    let events = server.events(&id);
    assert_whole(&events);
    let shown = events.iter().filter(|event| event.data["type"] == "tool_result");
    assert!(shown.clone().count() > 3, "{events:?}");
    assert!(
        shown.map(|event| event.data.to_string().len()).all(|bytes| bytes < 40_000),
        "events contain the truncated result that the model saw"
    );
    let offered = |request: &Value| request["tools"].to_string().contains("read_result");
    let requests = upstream.requests();
    assert!(!offered(&requests[0]) && offered(&requests[1]), "offered once there is a truncated result");
    gathered.lock().expect("no panic").clear();
    let again = server.submit(&json!({"input": "again", "tools": ["text_process"]}));
    assert_eq!(server.wait(&again)["output_text"], "read");
    let read = gathered.lock().expect("no panic").clone();
    assert!(read.len() > 1_000 && whole.chars().skip(10).collect::<String>().starts_with(&read));
    // Deleting the job deletes the result.
    assert!(handle.lock().expect("no panic").starts_with(&id));
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    assert_eq!(agent.delete(format!("{}/v1/jobs/{id}", server.url)).call().expect("an answer").status(), 200);
    let after_delete = server.submit(&json!({"input": "again"}));
    let answer = server.wait(&after_delete)["output_text"].as_str().expect("a text").to_owned();
    assert!(answer.starts_with("There is no result 'job_"), "{answer}");
    assert!(upstream.requests().iter().all(|request| tool_results(request).iter().all(|result| {
        result["content"].as_str().is_some_and(|content| content.chars().count() <= 16_000)
    })));
}

#[test]
fn read_result_is_offered_only_after_a_truncated_result() {
    let upstream = Upstream::start(|_, _| Answer::text("fine"));
    let server = Server::start_against(&upstream, "");
    for tools in [json!(false), json!([])] {
        server.wait(&server.submit(&json!({"input": "x", "tools": tools})));
    }
    server.wait(&server.submit(&json!({"input": "x", "tools": ["calculator"]})));
    let offered: Vec<usize> =
        upstream.requests().iter().map(|request| request["tools"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(offered, [0, 0, 1]);
}
