//! Agents through the real binary: sub-agents whose steps and tokens count for the job, background jobs,
//! schedules that models create, and messages.

use crate::support::upstream::{Act, Answer, Upstream, tool_results};
use crate::support::{Server, against, assert_whole, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The last user message of a request.
fn last_question(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let user = messages.iter().rev().find(|message| message["role"] == "user");
    user.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// The newest message, if it is a tool result.
fn newest_result(request: &Value) -> Option<Value> {
    let last = request["messages"].as_array()?.last().filter(|message| message["role"] == "tool")?;
    serde_json::from_str(last["content"].as_str()?).ok()
}

/// Calls the tool once, then answers with its result.
fn call_once(request: &Value, name: &str, arguments: Value) -> Answer {
    match newest_result(request) {
        None => Answer::calls(&[(name, arguments)]),
        Some(result) => Answer::text(&result.to_string()),
    }
}

/// The tool result that the job's answer repeats.
fn tool_result_of(job: &Value) -> Value {
    let text = job["output_text"].as_str().expect("an answer");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The jobs that this job started.
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
fn p4_sub_agent_steps_and_tokens_appear_in_the_log_and_usage_of_the_job() {
    let upstream = Upstream::start(|request, _| match last_question(request).as_str() {
        "count" => call_once(request, "calculator", json!({"expression": "6*7"})),
        "fail" => Answer::error(400, "no such thing"),
        _ => call_once(
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
    let result = tool_result_of(&job);
    let results = &result["data"]["results"];
    assert!(results[0]["response"].as_str().is_some_and(|text| text.contains("42")), "{result}");
    assert_eq!((&results[0]["iterations"], &results[1]["success"]), (&json!(2), &json!(false)), "{result}");
    let events = server.events(&id);
    assert_whole(&events);
    let steps: Vec<&Value> = events.iter().filter(|e| e.name == "agent_step").map(|e| &e.data).collect();
    let kinds: Vec<&str> = steps.iter().filter_map(|step| step["type"].as_str()).collect();
    assert_eq!(kinds, ["tool_call", "tool_result", "text"], "{steps:?}");
    assert!(steps.iter().all(|step| step["agent"] == "a" && step["id_ref"] == "call_0"), "{steps:?}");
    assert!(steps.iter().all(|step| step.get("times").is_none()), "times are for spans: {steps:?}");
    // Two calls of the job, two of the agent that answered; 15 tokens each.
    assert_eq!(job["usage"]["total_tokens"], 60, "{job}");
    let usage = server.get("/v1/usage").json().to_string();
    assert!(usage.contains("\"total_tokens\":60"), "{usage}");
    let agents = upstream.requests().into_iter().filter(|request| last_question(request) == "count");
    for request in agents {
        assert_eq!(request["messages"][0]["role"], "system", "{request}");
        assert!(
            !request["messages"].to_string().contains("\"go\""),
            "the sub-agent sees only its task: {request}"
        );
    }
}

#[test]
fn p4_cancelling_a_job_cancels_its_sub_agents() {
    let upstream = Upstream::start(|request, _| match last_question(request).as_str() {
        "hang" => Answer::stream(vec![Act::Hang]),
        _ => call_once(
            request,
            "multi_agent",
            json!({"tasks": [{"name": "a", "instruction": "hang"}, {"name": "b", "instruction": "hang"}]}),
        ),
    });
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    wait_until("both agents call the model", || {
        upstream.requests().iter().filter(|r| last_question(r) == "hang").count() == 2
    });
    assert_eq!(server.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    let job = server.wait(&id);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
}

/// A model that starts a slow background job on "begin" and answers everything else at once. The slow job
/// waits for the flag.
fn spawning(may_end: &Arc<AtomicBool>) -> Upstream {
    let may_end = Arc::clone(may_end);
    Upstream::start(move |request, _| {
        let last_question = last_question(request);
        if last_question.starts_with("[Background task 'slow one']") {
            wait_until("the slow one may end", || may_end.load(Ordering::SeqCst));
            return Answer::text("the slow answer");
        }
        if let Some(job) = last_question.strip_prefix("cancel ") {
            return call_once(request, "spawn", json!({"action": "cancel", "job_id": job}));
        }
        match last_question.as_str() {
            "begin" => call_once(request, "spawn", json!({"task": "take your time", "label": "slow one"})),
            "list" => call_once(request, "spawn", json!({"action": "list"})),
            _ => Answer::text("quick"),
        }
    })
}

#[test]
fn a_background_job_runs_in_parallel_and_answers_in_its_conversation() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let server = Server::start_against(&upstream, "");
    let chat = |text: &str| server.submit(&json!({"input": text, "conversation_id": "chat"}));
    let parent = chat("begin");
    let spawned = tool_result_of(&server.wait(&parent));
    assert_eq!(
        (&spawned["data"]["status"], &spawned["data"]["label"]),
        (&json!("queued"), &json!("slow one"))
    );
    let child = spawned["data"]["job_id"].as_str().expect("an id").to_owned();
    let shown = server.get(&format!("/v1/jobs/{child}")).json();
    assert_eq!((&shown["parent_id"], &shown["conversation_id"]), (&json!(parent), &json!("chat")));
    assert_eq!(shown["metadata"], json!({"label": "slow one", "spawned_by": parent}));
    assert_eq!(server.get(&format!("/v1/jobs/{parent}")).json()["parent_id"], Value::Null);
    // The conversation continues meanwhile.
    assert_eq!(server.wait(&chat("hello"))["output_text"], "quick");
    let listed = tool_result_of(&server.wait(&chat("list")));
    assert_eq!((&listed["data"]["total"], &listed["data"]["jobs"][0]["job_id"]), (&json!(1), &json!(child)));
    may_end.store(true, Ordering::SeqCst);
    assert_eq!(server.wait(&child)["output_text"], "the slow answer");
    let announced = messages(&server, "chat");
    assert!(announced.iter().any(|message| message.contains("the slow answer")), "{announced:?}");
    server.wait(&chat("what did it say?"));
    let last = upstream.requests().pop().expect("a request");
    assert!(last["messages"].to_string().contains("the slow answer"), "later jobs see the answer: {last}");
    assert_eq!(children(&server, &parent).len(), 1);
    assert_eq!(children(&server, &child).len(), 0);
    assert_eq!(server.get("/v1/jobs?parent=x").status, 400);
    let background_request = upstream
        .requests()
        .into_iter()
        .find(|r| last_question(r).starts_with("[Background"))
        .expect("its request");
    let tools = background_request["tools"].to_string();
    assert!(tools.contains("\"calculator\"") && !tools.contains("\"spawn\"") && !tools.contains("\"cron\""));
    assert!(
        !background_request["messages"].to_string().contains("begin"),
        "the background job sees only its task: {background_request}"
    );
}

#[test]
fn p1_a_background_job_survives_kill_9_and_exists_once() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let config = against(&upstream, "");
    let keep = tempfile::tempdir().expect("a directory");
    let server = Server::start_in(keep.path(), &config);
    let parent = server.submit(&json!({"input": "begin", "conversation_id": "chat"}));
    wait_until("the child calls the model", || {
        upstream.requests().iter().any(|r| last_question(r).starts_with("[Background"))
    });
    let server = server.crash_and_restart(&config);
    may_end.store(true, Ordering::SeqCst);
    assert_eq!(server.wait(&parent)["status"], "succeeded");
    let made = children(&server, &parent);
    assert_eq!(made.len(), 1, "{made:?}");
    let child = server.wait(made[0]["id"].as_str().expect("an id"));
    assert_eq!((&child["status"], &child["output_text"]), (&json!("succeeded"), &json!("the slow answer")));
}

#[test]
fn p8_background_jobs_are_limited_and_survive_a_cancel_of_their_parent() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let server = Server::start_against(&upstream, "limits: {spawned_jobs: 1}");
    let first = server.submit(&json!({"input": "begin"}));
    let child = tool_result_of(&server.wait(&first))["data"]["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(server.post(&format!("/v1/jobs/{first}/cancel"), &json!({})).status, 200);
    let full = tool_result_of(&server.wait(&server.submit(&json!({"input": "begin"}))));
    assert!(full["error"].as_str().is_some_and(|error| error.contains("limits.spawned_jobs")), "{full}");
    assert!(
        !server.get(&format!("/v1/jobs/{child}")).json()["status"].as_str().unwrap_or("").contains("cancel")
    );
    assert_eq!(server.post(&format!("/v1/jobs/{child}/cancel"), &json!({})).status, 200);
    assert_eq!(server.wait(&child)["status"], "cancelled");
    let next = tool_result_of(&server.wait(&server.submit(&json!({"input": "begin"}))));
    assert_eq!(next["success"], true, "{next}");
    may_end.store(true, Ordering::SeqCst);
}

#[test]
fn a_model_can_create_a_schedule_but_a_scheduled_job_cannot() {
    let upstream = Upstream::start(|request, _| match last_question(request).as_str() {
        "plan" => call_once(
            request,
            "cron",
            json!({"action": "add", "name": "often", "message": "tick", "every_s": 1}),
        ),
        "bad" => {
            call_once(request, "cron", json!({"action": "add", "message": "tick", "cron": "61 * * * *"}))
        }
        // It calls tools that it was not offered.
        "tick" if newest_result(request).is_none() => Answer::calls(&[
            ("cron", json!({"action": "add", "message": "tick", "every_s": 1})),
            ("spawn", json!({"task": "x"})),
        ]),
        _ => Answer::text("done"),
    });
    let server = Server::start_against(&upstream, "limits: {model_schedule_s: 1}");
    let refused =
        tool_result_of(&server.wait(&server.submit(&json!({"input": "bad", "conversation_id": "chat"}))));
    assert_eq!(refused["success"], false, "{refused}");
    let list = || server.get("/v1/schedules").json()["data"].as_array().expect("a list").clone();
    assert!(list().is_empty(), "nothing was stored");
    let planned =
        tool_result_of(&server.wait(&server.submit(&json!({"input": "plan", "conversation_id": "chat"}))));
    let id = planned["data"]["id"].as_str().expect("an id").to_owned();
    wait_until("the schedule fires", || list().iter().any(|schedule| schedule["runs"].as_u64() >= Some(1)));
    let path = format!("/v1/schedules/{id}");
    let shown = server.get(&path).json();
    assert_eq!((&shown["name"], &shown["job"]["input"]), (&json!("often"), &json!("tick")));
    assert_eq!(shown["job"]["approval"], "auto-deny", "nobody can approve a call of a scheduled job");
    assert_eq!(server.request(("DELETE", &path), &[], "").status, 200);
    let fired = server.wait(shown["last_run"]["job_id"].as_str().expect("a job"));
    assert_eq!(
        (&fired["status"], &fired["conversation_id"]),
        (&json!("succeeded"), &json!("chat")),
        "{fired}"
    );
    assert_eq!(fired["metadata"]["schedule_id"], id);
    assert!(list().is_empty(), "the scheduled job created no schedule");
    // The request of the first run; results of the conversation precede its own results.
    let tried =
        upstream.requests().into_iter().find(|r| last_question(r) == "tick" && newest_result(r).is_some());
    let results = tool_results(&tried.expect("it made the calls"));
    let own_results = results.rchunks(2).next().expect("two results");
    let is_refused = |result: &Value| result.to_string().contains("\\\"success\\\":false");
    assert!(own_results.len() == 2 && own_results.iter().all(is_refused), "{results:?}");
}

#[test]
fn a_message_is_sent_by_mail_without_logging_the_password() {
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
        call_once(request, "message", json!({"channel": "mail", "content": "The report is ready"}))
    });
    let channel = format!(
        "channels: {{mail: {{type: email, host: 127.0.0.1, port: {port}, tls: none, username: bot, password: s3cret, \
         from: bot@example.org, to: [me@example.org]}}}}"
    );
    let server = Server::start_against(&upstream, &channel);
    let id = server.submit(&json!({"input": "tell me"}));
    let sent = tool_result_of(&server.wait(&id));
    assert_eq!(sent["data"], json!({"sent": true, "channel": "mail", "type": "email"}), "{sent}");
    let letters = letters.lock().expect("no panic").clone();
    assert!(
        letters.contains("RCPT TO:<me@example.org>") && letters.contains("Subject: The report is ready"),
        "{letters}"
    );
    assert!(letters.contains(&format!("<{id}.")), "the message id contains the job id: {letters}");
    let events: String = server.events(&id).iter().map(|event| event.data.to_string()).collect();
    assert!(!events.contains("s3cret") && !server.log().contains("s3cret"), "P9");
}

#[test]
fn p8_a_schedule_of_a_model_has_a_shortest_interval_a_number_and_daily_tokens() {
    let upstream = Upstream::start(|request, _| match last_question(request).as_str() {
        "tick" => Answer::text("ticked"),
        plan => call_once(request, "cron", serde_json::from_str(plan).expect("arguments")),
    });
    let limits = "limits: {model_schedule_s: 2, model_schedules: 2, model_schedule_tokens: 40}";
    let server = Server::start_against(&upstream, limits);
    let add = |timing: Value| {
        let mut plan = json!({"action": "add", "message": "tick"});
        plan.as_object_mut().expect("an object").extend(timing.as_object().expect("an object").clone());
        tool_result_of(&server.wait(&server.submit(&json!({"input": plan.to_string()}))))
    };
    let refused = add(json!({"every_s": 1}))["error"].as_str().expect("an error").to_owned();
    assert!(refused.contains("limits.model_schedule_s") && refused.contains("every 2 s"), "{refused}");
    let made = add(json!({"every_s": 2}));
    assert_eq!(made["success"], true, "{made}");
    assert_eq!(add(json!({"cron": "@daily"}))["success"], true);
    let full = add(json!({"cron": "@daily"}))["error"].as_str().expect("an error").to_owned();
    assert!(full.contains("limits.model_schedules"), "{full}");
    let whole = server.post("/v1/schedules", &json!({"every_s": 1, "job": {"input": "by hand"}}));
    assert!(whole.status < 300, "a user's own schedule has none of these limits: {}", whole.body);
    // Each run costs 15 tokens: the third one may spend the last 10, and no fourth one begins on this day.
    let path = format!("/v1/schedules/{}", made["data"]["id"].as_str().expect("an id"));
    wait_until("the log says so", || server.log().contains("occurrence skipped"));
    let runs = || server.get(&path).json()["runs"].as_u64().expect("a number");
    let count = runs();
    assert!((2..=3).contains(&count), "{count}");
    std::thread::sleep(Duration::from_secs(5));
    assert!(runs() <= 3, "{}", server.get(&path).body);
}

#[test]
fn p7_a_model_lists_and_cancels_the_same_background_jobs() {
    let may_end = Arc::new(AtomicBool::new(false));
    let upstream = spawning(&may_end);
    let server = Server::start_against(&upstream, "");
    let begin = |conversation: &str| {
        let job = server.submit(&json!({"input": "begin", "conversation_id": conversation}));
        tool_result_of(&server.wait(&job))["data"]["job_id"].as_str().expect("an id").to_owned()
    };
    let (own, other) = (begin("one"), begin("two"));
    let ask = |question: String| {
        tool_result_of(&server.wait(&server.submit(&json!({"input": question, "conversation_id": "one"}))))
    };
    let listed = ask("list".to_owned());
    assert!(listed.to_string().contains(&own) && !listed.to_string().contains(&other), "{listed}");
    assert_eq!(ask(format!("cancel {other}"))["success"], false, "of another conversation");
    assert_eq!(ask(format!("cancel {own}"))["success"], true);
    may_end.store(true, Ordering::SeqCst);
}
