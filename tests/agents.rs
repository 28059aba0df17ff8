//! Agents through the real binary: sub-agents whose steps and cost stand in the job, background jobs beside
//! their conversation, schedules that models make, and messages.

use crate::support::upstream::{Act, Answer, Upstream, tool_results};
use crate::support::{Server, against, assert_whole};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What was said last by a user.
fn asked(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let user = messages.iter().rev().find(|message| message["role"] == "user");
    user.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// The newest tool's result, if it is the newest message.
fn newest(request: &Value) -> Option<Value> {
    let last = request["messages"].as_array()?.last().filter(|message| message["role"] == "tool")?;
    serde_json::from_str(last["content"].as_str()?).ok()
}

/// Calls the tool once, then repeats what it answered.
fn once(request: &Value, name: &str, arguments: Value) -> Answer {
    match newest(request) {
        None => Answer::calls(&[(name, arguments)]),
        Some(result) => Answer::text(&result.to_string()),
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the last model was told by its tool, as the job's answer repeats it.
fn told(job: &Value) -> Value {
    let text = job["output_text"].as_str().expect("an answer");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The ids of the jobs that this job's model began.
fn children(server: &Server, job: &str) -> Vec<Value> {
    let list = server.get(&format!("/v1/jobs?parent={job}")).json();
    list["data"].as_array().expect("a list").clone()
}

/// The texts of a conversation's messages, oldest first.
fn messages(server: &Server, conversation: &str) -> Vec<String> {
    let list = server.get(&format!("/api/conversations/{conversation}/messages")).json();
    let items = list["data"]["items"].as_array().expect("messages").clone();
    items.iter().map(Value::to_string).collect()
}

#[test]
fn p4_sub_agents_work_for_a_job_whose_log_and_bill_tell_all_of_it() {
    let upstream = Upstream::start(|request, _| match asked(request).as_str() {
        "count" => once(request, "calculator", json!({"expression": "6*7"})),
        "fail" => Answer::error(400, "no such thing"),
        _ => once(
            request,
            "multi_agent",
            json!({"tasks": [
                {"name": "a", "instruction": "count", "tools": ["calculator"]},
                {"name": "b", "instruction": "fail"},
            ]}),
        ),
    });
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    let job = server.wait(&id);
    let told = told(&job);
    let results = &told["data"]["results"];
    assert!(results[0]["response"].as_str().is_some_and(|text| text.contains("42")), "{told}");
    assert_eq!((&results[0]["iterations"], &results[1]["success"]), (&json!(2), &json!(false)), "{told}");
    let events = server.events(&id);
    assert_whole(&events);
    let steps: Vec<&Value> = events.iter().filter(|e| e.name == "agent_step").map(|e| &e.data).collect();
    let kinds: Vec<&str> = steps.iter().filter_map(|step| step["type"].as_str()).collect();
    assert_eq!(kinds, ["tool_call", "tool_result", "text"], "{steps:?}");
    assert!(steps.iter().all(|step| step["agent"] == "a" && step["id_ref"] == "call_0"), "{steps:?}");
    // Two calls of the job, two of the agent that answered; 15 tokens each.
    assert_eq!(job["usage"]["total_tokens"], 60, "{job}");
    let usage = server.get("/v1/usage").json().to_string();
    assert!(usage.contains("\"total_tokens\":60"), "{usage}");
    let agents = upstream.requests().into_iter().filter(|request| asked(request) == "count");
    for request in agents {
        assert_eq!(request["messages"][0]["role"], "system", "{request}");
        assert!(!request["messages"].to_string().contains("\"go\""), "it knows its task alone: {request}");
    }
}

#[test]
fn p4_a_cancelled_job_takes_its_sub_agents_with_it() {
    let upstream = Upstream::start(|request, _| match asked(request).as_str() {
        "hang" => Answer::stream(vec![Act::Hang]),
        _ => once(
            request,
            "multi_agent",
            json!({"tasks": [{"name": "a", "instruction": "hang"}, {"name": "b", "instruction": "hang"}]}),
        ),
    });
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    until("both agents ask", || upstream.requests().iter().filter(|r| asked(r) == "hang").count() == 2);
    assert_eq!(server.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    let job = server.wait(&id);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
}

/// A model that begins a slow background job when it is told to, and answers everything else at once. The
/// slow one waits for the flag.
fn spawning(may_end: &Arc<AtomicBool>) -> Upstream {
    let may_end = Arc::clone(may_end);
    Upstream::start(move |request, _| {
        let asked = asked(request);
        if asked.starts_with("[Background task 'slow one']") {
            until("the slow one may end", || may_end.load(Ordering::SeqCst));
            return Answer::text("the slow answer");
        }
        match asked.as_str() {
            "begin" => once(request, "spawn", json!({"task": "take your time", "label": "slow one"})),
            "list" => once(request, "spawn", json!({"action": "list"})),
            _ => Answer::text("quick"),
        }
    })
}

#[test]
fn a_background_job_runs_beside_its_conversation_and_answers_in_it() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let server = Server::start_against(&upstream, "");
    let chat = |text: &str| server.submit(&json!({"input": text, "conversation_id": "chat"}));
    let parent = chat("begin");
    let begun = told(&server.wait(&parent));
    assert_eq!((&begun["data"]["status"], &begun["data"]["label"]), (&json!("queued"), &json!("slow one")));
    let child = begun["data"]["job_id"].as_str().expect("an id").to_owned();
    let shown = server.get(&format!("/v1/jobs/{child}")).json();
    assert_eq!((&shown["parent_id"], &shown["conversation_id"]), (&json!(parent), &json!("chat")));
    assert_eq!(shown["metadata"], json!({"label": "slow one", "spawned_by": parent}));
    assert_eq!(server.get(&format!("/v1/jobs/{parent}")).json()["parent_id"], Value::Null);
    // The conversation goes on meanwhile.
    assert_eq!(server.wait(&chat("hello"))["output_text"], "quick");
    let listed = told(&server.wait(&chat("list")));
    assert_eq!((&listed["data"]["total"], &listed["data"]["jobs"][0]["job_id"]), (&json!(1), &json!(child)));
    may_end.store(true, Ordering::SeqCst);
    assert_eq!(server.wait(&child)["output_text"], "the slow answer");
    let announced = messages(&server, "chat");
    assert!(announced.iter().any(|message| message.contains("the slow answer")), "{announced:?}");
    server.wait(&chat("what did it say?"));
    let last = upstream.requests().pop().expect("a request");
    assert!(last["messages"].to_string().contains("the slow answer"), "later jobs know it: {last}");
    assert_eq!(children(&server, &parent).len(), 1);
    assert_eq!(children(&server, &child).len(), 0);
    assert_eq!(server.get("/v1/jobs?parent=x").status, 400);
    let own =
        upstream.requests().into_iter().find(|r| asked(r).starts_with("[Background")).expect("its request");
    let tools = own["tools"].to_string();
    assert!(tools.contains("\"calculator\"") && !tools.contains("\"spawn\"") && !tools.contains("\"cron\""));
    assert!(!own["messages"].to_string().contains("begin"), "it knows its task alone: {own}");
}

#[test]
fn p1_a_background_job_outlives_kill_9_and_is_there_once() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let config = against(&upstream, "");
    let keep = tempfile::tempdir().expect("a directory");
    let server = Server::start_in(keep.path(), &config);
    let parent = server.submit(&json!({"input": "begin", "conversation_id": "chat"}));
    until("the child asks", || upstream.requests().iter().any(|r| asked(r).starts_with("[Background")));
    let server = server.crash_and_restart(&config);
    may_end.store(true, Ordering::SeqCst);
    assert_eq!(server.wait(&parent)["status"], "succeeded");
    let made = children(&server, &parent);
    assert_eq!(made.len(), 1, "{made:?}");
    let child = server.wait(made[0]["id"].as_str().expect("an id"));
    assert_eq!((&child["status"], &child["output_text"]), (&json!("succeeded"), &json!("the slow answer")));
}

#[test]
fn p8_background_jobs_are_bounded_and_cancelled_and_outlive_their_parents_cancellation() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let server = Server::start_against(&upstream, "limits: {spawned_jobs: 1}");
    let first = server.submit(&json!({"input": "begin"}));
    let child = told(&server.wait(&first))["data"]["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(server.post(&format!("/v1/jobs/{first}/cancel"), &json!({})).status, 200);
    let full = told(&server.wait(&server.submit(&json!({"input": "begin"}))));
    assert!(full["error"].as_str().is_some_and(|error| error.contains("limits.spawned_jobs")), "{full}");
    assert!(
        !server.get(&format!("/v1/jobs/{child}")).json()["status"].as_str().unwrap_or("").contains("cancel")
    );
    assert_eq!(server.post(&format!("/v1/jobs/{child}/cancel"), &json!({})).status, 200);
    assert_eq!(server.wait(&child)["status"], "cancelled");
    let next = told(&server.wait(&server.submit(&json!({"input": "begin"}))));
    assert_eq!(next["success"], true, "{next}");
    may_end.store(true, Ordering::SeqCst);
}

#[test]
fn a_model_makes_a_schedule_and_what_it_fires_makes_none() {
    let upstream = Upstream::start(|request, _| match asked(request).as_str() {
        "plan" => {
            once(request, "cron", json!({"action": "add", "name": "often", "message": "tick", "every_s": 1}))
        }
        "bad" => once(request, "cron", json!({"action": "add", "message": "tick", "cron": "61 * * * *"})),
        // It tries what it was not offered.
        "tick" if newest(request).is_none() => Answer::calls(&[
            ("cron", json!({"action": "add", "message": "tick", "every_s": 1})),
            ("spawn", json!({"task": "x"})),
        ]),
        _ => Answer::text("done"),
    });
    let server = Server::start_against(&upstream, "");
    let refused = told(&server.wait(&server.submit(&json!({"input": "bad", "conversation_id": "chat"}))));
    assert_eq!(refused["success"], false, "{refused}");
    let list = || server.get("/v1/schedules").json()["data"].as_array().expect("a list").clone();
    assert!(list().is_empty(), "nothing was stored");
    let planned = told(&server.wait(&server.submit(&json!({"input": "plan", "conversation_id": "chat"}))));
    let id = planned["data"]["id"].as_str().expect("an id").to_owned();
    until("it fires", || list().iter().any(|schedule| schedule["runs"].as_u64() >= Some(1)));
    let path = format!("/v1/schedules/{id}");
    let shown = server.get(&path).json();
    assert_eq!((&shown["name"], &shown["job"]["input"]), (&json!("often"), &json!("tick")));
    assert_eq!(shown["job"]["approval"], "auto-deny", "nobody is there to be asked");
    assert_eq!(server.request(("DELETE", &path), &[], "").status, 200);
    let fired = server.wait(shown["last_run"]["job_id"].as_str().expect("a job"));
    assert_eq!(
        (&fired["status"], &fired["conversation_id"]),
        (&json!("succeeded"), &json!("chat")),
        "{fired}"
    );
    assert_eq!(fired["metadata"]["schedule_id"], id);
    assert!(list().is_empty(), "what fired made no other");
    // Of the first run; before its own results come those of the conversation.
    let tried = upstream.requests().into_iter().find(|r| asked(r) == "tick" && newest(r).is_some());
    let results = tool_results(&tried.expect("it tried"));
    let own = results.rchunks(2).next().expect("two results");
    let is_refused = |result: &Value| result.to_string().contains("\\\"success\\\":false");
    assert!(own.len() == 2 && own.iter().all(is_refused), "{results:?}");
}

#[test]
fn a_message_goes_out_by_mail_and_the_password_stays_inside() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let letters = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&letters);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut writer = stream.try_clone().expect("a clone");
            drop(writer.write_all(b"220 test\r\n"));
            let mut in_data = false;
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let reply = match (in_data, line.get(..4).unwrap_or(&line)) {
                    (true, ".") => "250 taken\r\n",
                    (true, _) => "",
                    (false, "EHLO") => "250-test\r\n250 AUTH PLAIN\r\n",
                    (false, "AUTH") => "235 welcome\r\n",
                    (false, "DATA") => "354 go on\r\n",
                    (false, _) => "250 fine\r\n",
                };
                in_data = line != "." && (in_data || line == "DATA");
                seen.lock().expect("no panic").extend([line.as_str(), "\n"]);
                drop(writer.write_all(reply.as_bytes()));
            }
        }
    });
    let upstream = Upstream::start(|request, _| {
        once(request, "message", json!({"channel": "mail", "content": "The report is ready"}))
    });
    let channel = format!(
        "channels: {{mail: {{type: email, host: 127.0.0.1, port: {port}, tls: none, username: bot, password: s3cret, \
         from: bot@example.org, to: [me@example.org]}}}}"
    );
    let server = Server::start_against(&upstream, &channel);
    let id = server.submit(&json!({"input": "tell me"}));
    let sent = told(&server.wait(&id));
    assert_eq!(sent["data"], json!({"sent": true, "channel": "mail", "type": "email"}), "{sent}");
    let letters = letters.lock().expect("no panic").clone();
    assert!(
        letters.contains("RCPT TO:<me@example.org>") && letters.contains("Subject: The report is ready"),
        "{letters}"
    );
    assert!(letters.contains(&format!("<{id}.")), "named by its job: {letters}");
    let events: String = server.events(&id).iter().map(|event| event.data.to_string()).collect();
    assert!(!events.contains("s3cret") && !server.log().contains("s3cret"), "P9");
}
