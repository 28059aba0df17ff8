//! Calls that need approval, through the real binary: waiting across `kill -9`, approval and denial over
//! HTTP and on the command line, timeout, and `auto-deny`.

use crate::support::upstream::{Act, Answer, Upstream, tool_results};
use crate::support::{Server, against, assert_whole, command, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const GUARDED: &str = "approval: [\"text_process\"]";

/// A model that makes one guarded and one unguarded call, then repeats the result of the guarded call.
fn upstream() -> Upstream {
    Upstream::start(|request, _| {
        let results = tool_results(request);
        match results.first().and_then(|result| result["content"].as_str()) {
            None => Answer::calls(&[
                ("text_process", json!({"text": "abc", "operation": "upper"})),
                ("calculator", json!({"expression": "6*7"})),
            ]),
            Some(content) => Answer::text(content),
        }
    })
}

/// Waits until the job waits for approval.
fn wait_until_waiting(server: &Server, id: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let job = server.get(&format!("/v1/jobs/{id}")).json();
        if job["status"] == "waiting" {
            return job;
        }
        assert!(Instant::now() < deadline, "the job does not wait: {job}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the job has ended; waiting for approval is not an end.
fn ended(server: &Server, id: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let job = server.get(&format!("/v1/jobs/{id}?wait=5")).json();
        if !["queued", "running", "waiting"].contains(&job["status"].as_str().expect("a status")) {
            return job;
        }
        assert!(Instant::now() < deadline, "the job does not end: {job}\n{}", server.log());
    }
}

fn statuses(server: &Server, id: &str) -> Vec<String> {
    let events = server.events(id);
    assert_whole(&events);
    let statuses = events.into_iter().filter(|event| event.name == "status");
    statuses.map(|event| event.data["status"].as_str().expect("a status").to_owned()).collect()
}

fn run(server: &Server, arguments: &[&str]) -> (i32, String, String) {
    let output =
        command(&[&["--server", &server.url], arguments].concat()).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[test]
fn a_waiting_job_survives_a_crash_and_continues_after_approval() {
    let upstream = upstream();
    let server = Server::start_against(&upstream, GUARDED);
    let id = server.submit(&json!({"input": "go", "conversation_id": "chat"}));
    let job = wait_until_waiting(&server, &id);
    let calls = job["approval"]["calls"].as_array().expect("calls");
    assert_eq!((calls.len(), &calls[0]["name"]), (1, &json!("text_process")), "{job}");
    assert!(
        job["approval"]["expires_at"].as_u64().expect("a time") > job["created_at"].as_u64().expect("a time")
    );
    let queued = server.submit(&json!({"input": "me too", "conversation_id": "chat", "tools": false}));
    let server = server.crash_and_restart(&against(&upstream, GUARDED));
    assert_eq!(
        server.get(&format!("/v1/jobs/{id}")).json()["status"],
        "waiting",
        "a restart changes nothing"
    );
    assert_eq!(server.get(&format!("/v1/jobs/{queued}")).json()["status"], "queued");
    let shown = server.get("/api/conversations/chat/messages").json().to_string();
    assert!(shown.contains("\"waiting\""), "{shown}");
    let events: Vec<_> = server.stream(&format!("/v1/jobs/{id}/events?follow=false"), 0).collect();
    let last = &events.last().expect("events").data;
    assert_eq!((&last["status"], &last["calls"]), (&json!("waiting_approval"), &json!([calls[0]["id_ref"]])));
    assert!(!events.iter().any(|event| event.data["type"] == "tool_result"), "no call of the step has run");
    let approved = server.post(&format!("/v1/jobs/{id}/approve"), &json!({"calls": [calls[0]["id_ref"]]}));
    assert_eq!(approved.status, 200, "{}", approved.body);
    let done = ended(&server, &id);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert!(done["output_text"].as_str().expect("a text").contains("ABC"), "{done}");
    assert_eq!((&done["approval"], &done["attempt"]), (&Value::Null, &json!(1)));
    let phases = ["queued", "running", "waiting_approval", "queued", "running"];
    assert_eq!(statuses(&server, &id), phases);
    assert_eq!(ended(&server, &queued)["status"], "succeeded");
    assert_eq!(server.post(&format!("/v1/jobs/{id}/deny"), &json!({})).status, 409);
}

#[test]
fn an_approval_without_names_never_approves_calls_that_nobody_has_seen() {
    // Two guarded calls, one after the other.
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        round @ (0 | 1) => {
            let arguments = json!({"text": format!("abc{round}"), "operation": "upper"});
            Answer::calls(&[("text_process", arguments)])
        }
        _ => Answer::text("finished"),
    });
    let server = Server::start_against(&upstream, GUARDED);
    let id = server.submit(&json!({"input": "go"}));
    let first = wait_until_waiting(&server, &id)["approval"]["calls"][0]["id_ref"].clone();
    let approve = |body: &Value| server.post(&format!("/v1/jobs/{id}/approve"), body);
    let replies: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| approve(&json!({})))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    // One that arrives behind the second request is refused.
    for reply in &replies {
        let told = reply.json();
        let is_first = (reply.status, &told["decided_calls"]) == (200, &json!([first]));
        assert!(is_first || told["error"]["code"] == "calls_not_named", "{told}");
    }
    assert!(replies.iter().any(|reply| reply.status == 200));
    let mut second = Value::Null;
    wait_until("the second call waits", || {
        second = server.get(&format!("/v1/jobs/{id}")).json()["approval"]["calls"][0]["id_ref"].clone();
        second.is_string() && second != first
    });
    let second = second.as_str().expect("an id").to_owned();
    for act in ["approve", "deny"] {
        let bare = server.post(&format!("/v1/jobs/{id}/{act}"), &json!({}));
        assert_eq!((bare.status, &bare.json()["error"]["code"]), (409, &json!("calls_not_named")));
        assert!(bare.body.contains(&second), "the error names the calls: {}", bare.body);
    }
    let late = approve(&json!({"calls": [first]}));
    assert_eq!((late.status, &late.json()["decided_calls"]), (200, &json!([first])), "{}", late.body);
    let (code, _, err) = run(&server, &["approve", &id]);
    assert!(code != 0 && err.contains(&second), "{err}");
    let waiting = server.get(&format!("/v1/jobs/{id}")).json();
    assert_eq!(waiting["approval"]["calls"][0]["id_ref"], json!(second), "nothing was approved: {waiting}");
    let (code, out, err) = run(&server, &["approve", &id, "--call", &second]);
    assert!(code == 0 && out.contains(&format!("approved: {second}")), "{out}{err}");
    assert_eq!(ended(&server, &id)["output_text"], "finished");
}

#[test]
fn a_denial_on_the_command_line_reaches_the_model_with_its_reason() {
    let upstream = upstream();
    let server = Server::start_against(&upstream, GUARDED);
    let id = server.submit(&json!({"input": "go"}));
    let job = wait_until_waiting(&server, &id);
    let call = job["approval"]["calls"][0]["id_ref"].as_str().expect("an id").to_owned();
    let (code, out, _) = run(&server, &["jobs", "--status", "waiting"]);
    assert!(code == 0 && out.contains(&id), "{out}");
    let (code, _, err) = run(&server, &["approve", &id, "--call", "zzz"]);
    assert!(code != 0 && err.contains("zzz"), "{err}");
    let (code, out, err) = run(&server, &["deny", &id, "--call", &call, "--reason", "not on a Sunday"]);
    assert!(code == 0 && out.starts_with(&id), "{out}{err}");
    let done = ended(&server, &id);
    let answer = done["output_text"].as_str().expect("a text");
    assert!(answer.contains("denied: not on a Sunday"), "{done}");
    let (_, _, err) = run(&server, &["tail", &id]);
    assert!(err.contains(&format!("waits for approval; decide with: nanoclaw approve {id}")), "{err}");
    let results: Vec<_> =
        server.events(&id).into_iter().filter(|event| event.data["type"] == "tool_result").collect();
    assert_eq!((&results[0].data["skipped"], &results[1].data["skipped"]), (&json!(true), &json!(false)));
    let (code, out, _) = run(&server, &["approve", &id]);
    assert!(code != 0, "the job has ended: {out}");
}

#[test]
fn a_call_without_a_decision_or_with_auto_deny_is_denied() {
    let upstream = upstream();
    let server = Server::start_against(&upstream, &format!("{GUARDED}\nlimits: {{approval_timeout_s: 1}}"));
    let undecided = ended(&server, &server.submit(&json!({"input": "go", "timeout_s": 60})));
    let answer = undecided["output_text"].as_str().expect("a text");
    assert!(answer.contains("denied: nobody decided within 1 s"), "{undecided}");
    let unattended = server.submit(&json!({"input": "go", "approval": "auto-deny"}));
    let answer = ended(&server, &unattended)["output_text"].as_str().expect("a text").to_owned();
    assert!(answer.contains("approval: auto-deny"), "{answer}");
    assert_eq!(statuses(&server, &unattended), ["queued", "running"], "the job never waits");
    let bad = server.post("/v1/jobs", &json!({"input": "x", "approval": "maybe"}));
    assert_eq!(bad.status, 400, "{}", bad.body);
}

#[test]
fn waiting_jobs_can_be_cancelled_and_waiting_batch_lines_approved() {
    let upstream = upstream();
    let server = Server::start_against(&upstream, GUARDED);
    let id = server.submit(&json!({"input": "go"}));
    wait_until_waiting(&server, &id);
    let cancelled = server.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).json();
    assert_eq!((&cancelled["status"], &cancelled["approval"]), (&json!("cancelled"), &Value::Null));
    let lines = "{\"custom_id\":\"w\",\"body\":{\"input\":\"go\"}}\n\
                 {\"custom_id\":\"d\",\"body\":{\"input\":\"go\",\"approval\":\"auto-deny\"}}\n";
    let batch = server.post_text("/v1/batches", lines).json();
    let batch = format!("/v1/batches/{}", batch["id"].as_str().expect("an id"));
    let every = json!({"name": "n", "every_s": 3_600, "job": {"input": "go", "approval": "auto-deny"}});
    assert_eq!(server.post("/v1/schedules", &every).status, 201);
    let deadline = Instant::now() + Duration::from_secs(60);
    let line = loop {
        let listed = server.get("/v1/jobs?status=waiting").json();
        if let Some(job) = listed["data"].as_array().expect("a list").first() {
            break job["id"].as_str().expect("an id").to_owned();
        }
        assert!(Instant::now() < deadline, "no line waits\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(server.get(&batch).json()["status"], "in_progress");
    assert_eq!(server.post(&format!("/v1/jobs/{line}/approve"), &json!({})).status, 200);
    let counts = loop {
        let batch = server.get(&format!("{batch}?wait=5")).json();
        if batch["status"] == "completed" {
            break batch["request_counts"].clone();
        }
        assert!(Instant::now() < deadline + Duration::from_secs(60), "{batch}\n{}", server.log());
    };
    assert_eq!((&counts["completed"], &counts["failed"]), (&json!(2), &json!(0)), "{counts}");
}

#[test]
fn a_tool_that_is_approved_always_asks_once_even_across_a_crash() {
    // Two guarded rounds, with a pause in which the server is killed.
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        round @ (0 | 1) => {
            let mut answer = Answer::calls(&[(
                "text_process",
                json!({"text": format!("abc{round}"), "operation": "upper"}),
            )]);
            if round == 1 {
                answer.acts.insert(0, Act::Pause(Duration::from_millis(1_500)));
            }
            answer
        }
        _ => Answer::text("finished"),
    });
    let server = Server::start_against(&upstream, GUARDED);
    let id = server.submit(&json!({"input": "go"}));
    let job = wait_until_waiting(&server, &id);
    assert_eq!(job["waits_for"]["reason"], "approval", "{job}");
    assert_eq!(job["waits_for"]["until"], job["approval"]["expires_at"], "{job}");
    let (code, out, err) = run(&server, &["approve", &id, "--always"]);
    assert!(code == 0, "{out}{err}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while upstream.requests().len() < 2 {
        assert!(Instant::now() < deadline, "no second round\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = server.crash_and_restart(&against(&upstream, GUARDED));
    let done = ended(&server, &id);
    assert_eq!((&done["status"], &done["output_text"]), (&json!("succeeded"), &json!("finished")), "{done}");
    let asked = statuses(&server, &id).iter().filter(|status| *status == "waiting_approval").count();
    assert_eq!(asked, 1, "{:?}", statuses(&server, &id));
    let other = server.submit(&json!({"input": "go"}));
    wait_until_waiting(&server, &other);
    let denial = server.post(&format!("/v1/jobs/{other}/deny"), &json!({"always": true}));
    assert_eq!((denial.status, &denial.json()["error"]["param"]), (400, &json!("always")));
}
