//! Truncated, empty and late answers, failing providers and too long conversations, as clients and providers
//! see them.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, tool_results};
use crate::support::{Server, assert_whole};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A configuration of these models at the upstream; each entry is an `id` and further keys.
fn models(upstream: &Upstream, models: &[&str], extra: &str) -> String {
    let line = |model: &&str| format!("  - {{api_url: \"{}/v1\", {model}}}\n", upstream.url);
    let list: String = models.iter().map(line).collect();
    format!("models:\n{list}{extra}")
}

fn answer(text: &str, reason: &str) -> Answer {
    Answer::stream(vec![Act::Data(content(text)), Act::Data(finish(reason))])
}

fn last_message(request: &Value) -> &Value {
    request["messages"].as_array().and_then(|messages| messages.last()).expect("a message")
}

#[test]
fn a_truncated_answer_is_continued_and_stays_one_answer() {
    let upstream = Upstream::start(|_, number| match number {
        0 => answer("The answer ", "length"),
        1 => answer("is long.", "stop"),
        _ => answer("unasked", "stop"),
    });
    let server = Server::start_with(&models(&upstream, &["id: m"], ""));
    let job = server.submit(&json!({"input": "speak", "conversation_id": "c"}));
    let ended = server.wait(&job);
    assert_eq!(ended["output_text"], "The answer is long.");
    assert_eq!(ended["usage"], json!({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}));
    let events = server.events(&job);
    assert_whole(&events);
    assert_eq!(events.last().expect("events").data["finish_reason"], "stop");
    server.wait(&server.submit(&json!({"input": "again", "conversation_id": "c"})));
    let spent = server.get("/v1/usage?conversation_id=c").json();
    let line = json!({"object": "usage", "model": "m", "prompt_tokens": 30, "completion_tokens": 15, "total_tokens": 45});
    assert_eq!(spent["data"], json!([line]), "both jobs");
    assert_eq!(server.get("/v1/usage?conversation_id=other").json()["data"], json!([]));
    assert_eq!(server.get("/v1/usage?conversation_id=c&from=2026-01-01").status, 400);
    let third = &upstream.requests()[2]["messages"];
    assert_eq!(third[2], json!({"role": "assistant", "content": "The answer is long."}), "{third}");
    assert_eq!(third.as_array().map(Vec::len), Some(4), "the continuation prompt is not kept: {third}");
}

#[test]
fn an_empty_answer_is_retried_and_finally_fails_the_job() {
    let upstream = Upstream::start(|request, number| match last_message(request)["content"].as_str() {
        Some("never") => answer("", "stop"),
        _ if number < 2 => answer("", "stop"),
        _ => answer("at last", "stop"),
    });
    let server = Server::start_with(&models(&upstream, &["id: m"], ""));
    let job = server.submit(&json!({"input": "speak"}));
    assert_eq!(server.wait(&job)["output_text"], "at last");
    let job = server.submit(&json!({"input": "never"}));
    let ended = server.wait(&job);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("provider_error")));
    assert_eq!(upstream.requests().len(), 6);
}

#[test]
fn a_fallback_model_answers_when_a_model_fails() {
    let upstream = Upstream::start(|request, _| match request["model"].as_str() {
        Some("broke") => Answer {
            acts: vec![Act::Raw(
                json!({"error": {"message": "no money", "code": "insufficient_quota"}}).to_string(),
            )],
            ..Answer::error(429, "")
        },
        Some("cut") => Answer { acts: vec![Act::Data(content("half "))], ..answer("", "stop") },
        _ => answer("from the fallback", "stop"),
    });
    let config = models(
        &upstream,
        &["id: broke, fallback: [cut, good]", "id: cut", "id: good, price: {prompt: 1, completion: 2}"],
        "limits: {model_failures: 2, model_circuit_failures: 0}\n",
    );
    let server = Server::start_with(&config);
    let job = server.submit(&json!({"input": "hi", "model": "broke"}));
    let ended = server.wait(&job);
    assert_eq!(ended["output_text"], "from the fallback", "{ended}");
    assert_eq!(ended["model"], "broke", "the job keeps the requested model");
    assert_eq!(ended["usage"]["cost_micros"], 20, "only the model with a price costs: {ended}");
    assert!(
        ended["usage"]["total_tokens"].as_u64() > Some(15),
        "tokens of partial answers count as well: {ended}"
    );
    let events = server.events(&job);
    assert_whole(&events);
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "step_discarded").count(), 2, "{names:?}");
    let reasons: Vec<_> = events.iter().filter_map(|event| event.data["reason"].as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.ends_with("going on with model 'cut'")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.ends_with("going on with model 'good'")), "{reasons:?}");
    assert!(!reasons.concat().contains(&upstream.url), "P9: {reasons:?}");
}

#[test]
fn jobs_wait_while_a_provider_is_at_its_concurrency_limit() {
    let (inside, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let peak: &'static AtomicUsize = Box::leak(Box::new(peak));
    let inside: &'static AtomicUsize = Box::leak(Box::new(inside));
    let upstream = Upstream::start(|_, _| {
        peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1_600));
        inside.fetch_sub(1, Ordering::SeqCst);
        answer("done", "stop")
    });
    let extra = "workers: 3\nlimits: {model_wait_s: 1}\n";
    let server = Server::start_with(&models(&upstream, &["id: m, rate: {concurrent: 1}"], extra));
    let jobs: Vec<String> = (0..4).map(|n| server.submit(&json!({"input": format!("{n}")}))).collect();
    let mut waited = 0;
    for job in &jobs {
        let ended = server.wait(job);
        assert_eq!((&ended["status"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{ended}");
        let events = server.events(job);
        assert_whole(&events);
        waited +=
            events.iter().filter(|e| e.data["status"] == "queued" && e.data["reason"].is_string()).count();
    }
    assert!(waited > 0, "at least one job released its worker");
    assert_eq!((upstream.requests().len(), peak.load(Ordering::SeqCst)), (4, 1));
}

#[test]
fn p4_a_job_that_repeats_a_failing_call_ends_with_a_final_answer() {
    let upstream = Upstream::start(|request, _| match request.get("tools") {
        Some(_) => Answer::calls(&[("calculator", json!({"expression": "1/0"}))]),
        None => answer("it cannot be done", "stop"),
    });
    let server = Server::start_with(&models(&upstream, &["id: m"], ""));
    let job = server.submit(&json!({"input": "divide"}));
    assert_eq!(server.wait(&job)["output_text"], "it cannot be done");
    assert_eq!(upstream.requests().len(), 4);
    assert_eq!(server.events(&job).last().expect("events").data["finish_reason"], "repeated_failure");
}

#[test]
fn p8_a_conversation_too_long_for_its_model_is_summarised_and_continues() {
    let upstream = Upstream::start(|request, _| {
        let prompt = request["messages"][0]["content"].as_str().unwrap_or_default();
        if prompt.starts_with("You compress conversations") {
            return answer("They counted words.", "stop");
        }
        answer(&"word ".repeat(300), "stop")
    });
    let server =
        Server::start_with(&models(&upstream, &["id: m, context_window: 4096, max_output_tokens: 512"], ""));
    let mut summaries = Vec::new();
    for turn in 0..10 {
        let input = format!("question {turn} {}", "more ".repeat(200));
        let job = server.submit(&json!({"input": input, "conversation_id": "long", "tools": false}));
        assert_eq!(server.wait(&job)["status"], "succeeded");
        let events = server.events(&job);
        assert_whole(&events);
        summaries.extend(events.into_iter().filter(|event| event.name == "summary").map(|event| event.data));
    }
    assert!(!summaries.is_empty() && summaries.len() < 5, "a summary is kept for later jobs: {summaries:?}");
    assert!(summaries.iter().all(|summary| summary["content"] == "They counted words."), "{summaries:?}");
    let requests = upstream.requests();
    let last = requests.last().expect("requests").to_string();
    assert!(last.contains("They counted words.") && last.contains("question 9"), "{last}");
    assert!(!last.contains("question 0 "), "{last}");
    assert!(requests.iter().all(|request| request.to_string().len() < 4096 * 4), "no request is too long");
}

#[test]
fn a_prompt_refused_as_too_long_is_summarised_and_sent_again() {
    let upstream = Upstream::start(|request, _| {
        let size = request["messages"].to_string().len();
        match size {
            _ if request["messages"][0]["content"].to_string().contains("compress") => answer("In short.", "stop"),
            4_000.. => Answer {
                acts: vec![Act::Raw(
                    json!({"error": {"message": "the prompt is too long", "code": "context_length_exceeded"}}).to_string(),
                )],
                ..Answer::error(400, "")
            },
            _ if tool_results(request).len() < 6 && request.get("tools").is_some() => {
                let text = format!("{} {}", size, "x ".repeat(300));
                Answer::calls(&[("text_process", json!({"text": text, "operation": "upper"}))])
            }
            _ => answer("done", "stop"),
        }
    });
    let server = Server::start_with(&models(&upstream, &["id: m"], ""));
    let job = server.submit(&json!({"input": "shout", "tools": ["text_process"], "max_steps": 8}));
    let ended = server.wait(&job);
    assert_eq!((&ended["status"], &ended["output_text"]), (&json!("succeeded"), &json!("done")), "{ended}");
    assert!(server.events(&job).iter().any(|event| event.name == "summary"));
}

#[test]
fn titles_come_from_the_configured_title_model() {
    let upstream = Upstream::start(|request, _| match request["model"].as_str() {
        Some("titles") => answer("\"Greetings\"", "stop"),
        _ => answer("hello", "stop"),
    });
    let config = models(&upstream, &["id: m", "id: titles"], "title_model: titles\n");
    let server = Server::start_with(&config);
    for (input, title) in [("hi there", json!("Greetings")), ("and again", Value::Null)] {
        let job = server.submit(&json!({"input": input, "conversation_id": "c", "model": "m"}));
        let ended = server.wait(&job);
        assert_eq!(server.events(&job).last().expect("events").data["suggested_title"], title, "{ended}");
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn a_job_whose_model_gives_no_final_text_says_what_was_done() {
    let upstream = Upstream::start(|request, _| {
        if request["tools"].is_array() {
            Answer::calls(&[("calculator", json!({"expression": "1/0"}))])
        } else {
            answer("", "stop")
        }
    });
    let server = Server::start_with(&models(&upstream, &["id: m"], ""));
    for (max_steps, reason, cause) in
        [(2, "max_steps", "(max_steps: 2)"), (9, "repeated_failure", "failed 3 times")]
    {
        let job = server.submit(&json!({"input": "divide", "max_steps": max_steps}));
        let ended = server.wait(&job);
        let output = ended["output_text"].as_str().expect("a text").to_owned();
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert!(output.starts_with("There is no final answer: ") && output.contains(cause), "{output}");
        assert!(
            output.contains("Tools called: calculator") && output.contains("The last call failed: "),
            "{output}"
        );
        let events = server.events(&job);
        assert_whole(&events);
        assert_eq!(events.last().expect("events").data["finish_reason"], reason);
    }
    let requests = upstream.requests();
    let told = |request: &Value| last_message(request).to_string().contains("Answer now, without tools");
    for request in &requests {
        assert_eq!(told(request), request.get("tools").is_none(), "{request}");
    }
}

#[test]
fn a_call_written_as_text_in_the_last_answer_is_not_the_answer() {
    let upstream = Upstream::start(|request, _| {
        if request["tools"].is_array() {
            Answer::calls(&[("calculator", json!({"expression": "6*7"}))])
        } else {
            answer(
                r#"<tool_call>{"name": "calculator", "arguments": {"expression": "1"}}</tool_call>"#,
                "stop",
            )
        }
    });
    let server = Server::start_with(&models(&upstream, &["id: m, text_tool_calls: true"], ""));
    let ended = server.wait(&server.submit(&json!({"input": "go", "max_steps": 1})));
    let output = ended["output_text"].as_str().expect("a text");
    assert!(output.contains("Tools called: calculator once."), "{output}");
}

#[test]
fn failures_name_model_host_and_cause() {
    let upstream = Upstream::start(|request, number| match request["model"].as_str() {
        Some("busy") if number == 0 => Answer::error(429, "the words sk-secret of the provider"),
        Some("cut") => Answer { acts: vec![Act::Data(content("half"))], ..answer("", "stop") },
        _ => answer("at last", "stop"),
    });
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let host = "127.0.0.1";
    let extra = format!(
        "  - {{id: gone, api_url: \"http://{closed}/v1?key=topsecret\"}}\nlimits: {{model_failures: 2}}\n"
    );
    let server = Server::start_with(&models(&upstream, &["id: busy", "id: cut"], &extra));
    let job = server.submit(&json!({"input": "speak", "model": "busy"}));
    assert_eq!(server.wait(&job)["output_text"], "at last");
    let events = server.events(&job);
    let reasons: Vec<_> = events.iter().filter_map(|event| event.data["reason"].as_str()).collect();
    let reason = reasons.iter().find(|reason| reason.contains("trying again")).expect("a retry");
    assert!(
        reason.contains(&format!("model 'busy' at {host}: ")) && reason.contains("(HTTP 429)"),
        "{reason}"
    );
    for (model, place, cause) in [
        ("cut", format!("model 'cut' at {host}: "), "was cut off"),
        ("gone", format!("model 'gone' at {host}: "), "refused the connection"),
    ] {
        let ended = server.wait(&server.submit(&json!({"input": "speak", "model": model})));
        let message = ended["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with(&place) && message.contains(cause), "{ended}");
    }
    let log = server.log();
    for (model, cause) in [("busy", "(HTTP 429)"), ("cut", "was cut off"), ("gone", "refused the connection")]
    {
        let is_logged = |line: &str| {
            line.contains("model call failed")
                && line.contains(&format!("model={model}"))
                && line.contains(cause)
        };
        assert!(log.lines().any(is_logged), "{model}: {log}");
    }
    assert!(
        log.contains(&format!("host={host}")) && !log.contains("topsecret") && !log.contains("sk-secret"),
        "{log}"
    );
}
