//! `nanoclaw replay`: unchanged to the byte, and with another model, prompt or tools.

use super::{agent, export, file, run, text};
use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning, tool_results};
use crate::support::{Ran, Server, against, command, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Replays without a server. The configuration is the default one.
fn replay(server: &Server, name: &str, run: &str, arguments: &[&str]) -> Ran {
    let path = file(server, name, run);
    command(&[&["replay", text(&path)], arguments].concat()).output().expect("the binary runs").into()
}

/// A configuration with the models `m` and `other` of this provider.
fn two_models(upstream: &Upstream) -> String {
    let models = ["m", "other"].map(|id| format!("  - {{id: {id}, api_url: \"{}/v1\"}}\n", upstream.url));
    format!("default_model: m\nmodels:\n{}", models.concat())
}

fn assert_identical(server: &Server, job: &str) {
    let run = export(server, job);
    let ran = replay(server, "run.jsonl", &run, &[]);
    assert!(ran.code == 0 && ran.out.contains("identical"), "{}{}\n{run}", ran.out, ran.err);
}

#[test]
fn an_unchanged_replay_is_identical_and_a_changed_log_is_not() {
    let upstream = agent();
    let server = Server::start_against(&upstream, "");
    let job = server.submit(&json!({"input": "go", "conversation_id": "trip"}));
    server.wait(&job);
    let ran = run(&server, &["replay", &job]);
    assert!(ran.code == 0 && ran.out.starts_with(&format!("{job} identical: ")), "{}{}", ran.out, ran.err);
    assert_identical(&server, &job);
    let asked = upstream.requests().len();
    let whole = export(&server, &job);
    let from = replay(&server, "run.jsonl", &whole, &["--from", "2"]);
    assert!(from.code == 0 && from.out.contains("identical"), "{}{}", from.out, from.err);
    let beyond = replay(&server, "run.jsonl", &whole, &["--from", "9"]);
    assert!(beyond.code == 1 && beyond.err.contains("2 model calls"), "{}", beyond.err);
    // A number that follows from the records before it was changed after the run.
    let forged = whole.replace("\"token_count\":", "\"token_count\":1");
    assert_ne!(forged, whole);
    let ran = replay(&server, "forged.jsonl", &forged, &["--json"]);
    let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &shown["identical"]), (1, &json!(false)), "{}", ran.err);
    assert!(shown["difference"]["recorded"].as_str().expect("a text").contains("token_count"), "{shown}");
    assert_eq!(upstream.requests().len(), asked, "a replay asks no model");
}

#[test]
fn failures_continuations_and_reasoning_replay_identically() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::error(503, "busy"),
        1 => Answer::stream(vec![
            Act::Data(reasoning("hmm")),
            Act::Data(content("The answer ")),
            Act::Pause(Duration::from_millis(30)),
            Act::Data(content("is ")),
            Act::Data(finish("length")),
        ]),
        _ => Answer::text("long."),
    });
    let server = Server::start_against(&upstream, "");
    let job = server.submit(&json!({"input": "speak"}));
    assert_eq!(server.wait(&job)["output_text"], "The answer is long.");
    assert_identical(&server, &job);
    let refused = Upstream::start(|_, _| Answer::error(400, "not this"));
    let server = Server::start_against(&refused, "");
    let job = server.submit(&json!({"input": "speak", "max_attempts": 2}));
    assert_eq!(server.wait(&job)["status"], "failed");
    assert_identical(&server, &job);
}

#[test]
fn calls_whose_arguments_were_streamed_replay_identically() {
    let upstream = Upstream::start(|_, number| {
        let piece = |call: &Value| {
            Act::Data(
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]}),
            )
        };
        let arguments = |text: &str| piece(&json!({"index": 0, "function": {"arguments": text}}));
        let mut acts = vec![
            Act::Data(content("Let me look.")),
            piece(&json!({"index": 0, "id": "a", "function": {"name": "weather", "arguments": ""}})),
            arguments("{\"city\":"),
            Act::Pause(Duration::from_millis(80)),
            arguments("\"Rome\"}"),
        ];
        if number == 0 {
            return Answer { acts, ..Answer::text("") };
        }
        acts.push(piece(&json!({"index": 1, "id": "b", "function": {"name": "weather", "arguments": "{}"}})));
        acts.push(Act::Data(finish("tool_calls")));
        Answer::stream(acts)
    });
    let server = Server::start_against(&upstream, "");
    let function =
        json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let messages = json!([{"role": "user", "content": "go"}]);
    let body = json!({"model": "scripted", "messages": messages, "tools": [function]});
    let reply = server.post("/v1/chat/completions", &body);
    assert_eq!(reply.json()["choices"][0]["finish_reason"], "tool_calls", "{}", reply.body);
    let job = reply.header("x-job-id").expect("a job").to_owned();
    let run = export(&server, &job);
    assert!(run.contains("call_begun") && run.contains("step_discarded"), "{run}");
    assert_identical(&server, &job);
}

#[test]
fn cancelled_crashed_and_approved_runs_replay_identically() {
    let upstream = Upstream::start(|request, number| match (tool_results(request).len(), number) {
        (0, 0) => Answer::calls(&[("text_process", json!({"text": "abc", "operation": "upper"}))]),
        (1, 1) => Answer::stream(vec![Act::Data(content("I am ")), Act::Hang]),
        (1, _) => Answer::text("done"),
        _ => Answer::stream(vec![Act::Data(content("slow ")), Act::Hang]),
    });
    // What a crash has cost is estimated with the price, which the configuration of the replay does not have.
    let price = "price: {prompt: 1000, completion: 2000}";
    let config =
        against(&upstream, "approval: [\"text_process\"]\n").replace("/v1\"}", &format!("/v1\", {price}}}"));
    let server = Server::start_with(&config);
    let job = server.submit(&json!({"input": "go"}));
    let status = |server: &Server, job: &str| server.get(&format!("/v1/jobs/{job}")).json()["status"].clone();
    wait_until("an approval is asked", || status(&server, &job) == "waiting");
    assert_eq!(server.post(&format!("/v1/jobs/{job}/approve"), &json!({})).status, 200);
    wait_until("the model answers", || export_of_events(&server, &job).contains("I am"));
    let server = server.crash_and_restart(&config);
    assert_eq!(server.wait(&job)["status"], "succeeded");
    assert!(export(&server, &job).contains("\"mark\":\"spent\""), "the crash has cost something");
    assert_identical(&server, &job);
    let job = server.submit(&json!({"input": "other", "tools": false}));
    wait_until("the model answers", || export_of_events(&server, &job).contains("slow"));
    server.ask("POST", &format!("/v1/jobs/{job}/cancel"), &Value::Null);
    wait_until("it is cancelled", || status(&server, &job) == "cancelled");
    assert_identical(&server, &job);
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64() + 2.0;
    let job = server.submit(&json!({"input": "late", "tools": false, "deadline_at": soon}));
    assert_eq!(server.wait(&job)["error"]["code"], "deadline_exceeded");
    assert!(export_of_events(&server, &job).contains("slow"), "it was running");
    assert_identical(&server, &job);
}

fn export_of_events(server: &Server, job: &str) -> String {
    server.get(&format!("/v1/jobs/{job}/events?follow=false")).body
}

#[test]
fn another_model_is_asked_anew_over_the_recorded_results() {
    let upstream = Upstream::start(|request, _| {
        let results = tool_results(request);
        match (request["model"].as_str(), results.len()) {
            (Some("other"), 0) => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
            (Some("other"), 1) => Answer::calls(&[("calculator", json!({"expression": "1+1"}))]),
            (Some("other"), _) => Answer::text("other says 42"),
            (_, 0) => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
            _ => Answer::text("42"),
        }
    });
    let config = two_models(&upstream);
    let server = Server::start_with(&config);
    let job = server.submit(&json!({"input": "go"}));
    server.wait(&job);
    let (path, config) =
        (file(&server, "run.jsonl", &export(&server, &job)), file(&server, "c.yml", &config));
    let replay = |more: &[&str]| -> Ran {
        let arguments = [&["replay", text(&path), "--config", text(&config)], more].concat();
        command(&arguments).output().expect("it runs").into()
    };
    let ran = replay(&["--model", "other", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&shown["recorded"]["steps"], &shown["replay"]["steps"]), (&json!(2), &json!(3)), "{shown}");
    assert_eq!(shown["replay"]["output_text"], "other says 42");
    assert_eq!((&shown["steps"][0]["is_same"], &shown["steps"][1]["is_same"]), (&json!(true), &json!(false)));
    let requests = upstream.requests();
    let last = requests.last().expect("a request").to_string();
    assert!(last.contains("the recorded run has no call of this tool with these arguments"), "{last}");
    let table = replay(&["--model", "other"]);
    assert!(table.out.contains("RECORDED") && table.out.contains("answers"), "{}", table.out);
    let live = replay(&["--model", "other", "--tools", "live"]);
    assert!(live.code == 0 && live.out.contains("other says 42"), "{}{}", live.out, live.err);
    let last = upstream.requests().last().expect("a request").to_string();
    assert!(!last.contains("no call of this tool"), "{last}");
    let denied = replay(&["--tools", "deny", "--json"]);
    let shown: Value = serde_json::from_str(&denied.out).expect("JSON");
    assert_eq!(shown["replay"]["output_text"], "42", "the recorded answers come in their order: {shown}");
    let prompt = replay(&["--prompt", "something else", "--from", "1"]);
    assert_eq!(prompt.code, 0, "{}", prompt.err);
    assert!(upstream.requests().last().expect("a request").to_string().contains("something else"));
    let unknown = replay(&["--model", "nobody"]);
    assert!(unknown.code == 1 && unknown.err.contains("m, other"), "{}", unknown.err);
}

#[test]
fn tokens_of_sub_agents_are_not_compared_with_reused_results() {
    let upstream = Upstream::start(|request, _| {
        let is_agent = request["messages"].to_string().contains("count");
        match (is_agent && request["tools"].to_string().len() < 3, tool_results(request).len()) {
            (true, _) => Answer::text("1 2 3"),
            (false, 0) => Answer::calls(&[(
                "multi_agent",
                json!({"tasks": [{"name": "a", "instruction": "count", "tools": []}]}),
            )]),
            _ => Answer::text("done"),
        }
    });
    let config = two_models(&upstream);
    let server = Server::start_with(&config);
    let job = server.submit(&json!({"input": "go"}));
    assert_eq!(server.wait(&job)["usage"]["total_tokens"], 45, "two calls of the job, one of the agent");
    let config = file(&server, "c.yml", &config);
    let run = export(&server, &job);
    let ran = replay(&server, "run.jsonl", &run, &["--config", text(&config), "--model", "other", "--json"]);
    let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
    let tokens = |run: &str| shown[run]["usage"]["total_tokens"].clone();
    assert_eq!((tokens("recorded"), tokens("replay")), (json!(30), json!(30)), "{shown}");
    assert!(ran.err.contains("sub-agents"), "{}", ran.err);
}

#[test]
fn a_run_with_skills_and_memory_replays_with_the_prompt_that_it_had() {
    let upstream = Upstream::start(|request, number| match (tool_results(request).len(), number) {
        (0, _) => Answer::calls(&[("memory", json!({"command": "append", "text": "likes coffee"}))]),
        (_, 1) => Answer::stream(vec![Act::Data(content("I am ")), Act::Hang]),
        _ => Answer::text("done"),
    });
    let skills = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(skills.path().join("greet")).expect("a folder");
    let skill = "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n";
    std::fs::write(skills.path().join("greet/SKILL.md"), skill).expect("a skill");
    let dir = skills.path().display();
    let config = against(&upstream, &format!("memory: {{enabled: true}}\nskills: {{dir: {dir}}}\n"));
    let server = Server::start_with(&config);
    let kept = server.request(
        ("PUT", "/v1/memory"),
        &[("content-type", "application/json")],
        &json!({"content": "The user likes tea.\n"}).to_string(),
    );
    assert_eq!(kept.status, 200, "{}", kept.body);
    let job = server.submit(&json!({"input": "go"}));
    wait_until("the model answers", || export_of_events(&server, &job).contains("I am"));
    let server = server.crash_and_restart(&config);
    assert_eq!(server.wait(&job)["status"], "succeeded");
    let system = |request: &Value| request["messages"][0]["content"].as_str().expect("a text").to_owned();
    let asked: Vec<String> = upstream.requests().iter().map(system).collect();
    assert!(asked[0].contains("likes tea") && asked[0].contains("greet: Greets people."), "{}", asked[0]);
    assert!(asked.len() == 3 && asked.iter().all(|text| text == &asked[0]), "a resumed run says the same");
    let run = export(&server, &job);
    assert_eq!(run.matches("\"mark\":\"instructions\"").count(), 1, "{run}");
    // Neither skills nor a memory are on the machine of the replay.
    assert_identical(&server, &job);
    let from = replay(&server, "run.jsonl", &run, &["--from", "2"]);
    assert!(from.code == 0 && from.out.contains("identical"), "{}{}", from.out, from.err);
    let forged = replay(&server, "forged.jsonl", &run.replace("likes tea", "likes ale"), &[]);
    assert_eq!(forged.code, 0, "a replay repeats what the log has; nanoclaw verify finds the change");
    let path = file(&server, "plain.yml", &against(&upstream, ""));
    let varied = replay(&server, "run.jsonl", &run, &["--config", text(&path), "--prompt", "stop"]);
    assert_eq!(varied.code, 0, "{}{}", varied.out, varied.err);
    let last = system(upstream.requests().last().expect("a request"));
    assert!(last.contains("likes tea") && !last.contains("coffee"), "as it was: {last}");
}

#[test]
fn a_run_whose_context_was_shortened_replays_identically_without_its_configuration() {
    let server = Server::start_with("models: [{id: demo, context_window: 6000}]\n");
    let mut summaries = 0;
    for number in 0..3 {
        let input = format!("message {number} {}", "lorem ipsum dolor sit amet ".repeat(150));
        let job = server.submit(&json!({"input": input, "conversation_id": "long"}));
        assert_eq!(server.wait(&job)["status"], "succeeded");
        summaries += export(&server, &job).matches("\"event\":\"summary\"").count();
        assert_identical(&server, &job);
    }
    assert!(summaries > 0, "a context was shortened");
}

#[test]
fn closing_answers_and_cut_summaries_replay_identically() {
    let upstream = agent();
    let server = Server::start_against(&upstream, "");
    let job = server.submit(&json!({"input": "go", "max_steps": 1}));
    assert_eq!(server.wait(&job)["output_text"], "the-answer-is-42");
    assert_identical(&server, &job);
    let verbose = Upstream::start(|request, _| {
        let prompt = request["messages"][0]["content"].as_str().unwrap_or_default();
        if prompt.contains("compress") {
            Answer::text(&"123 lorem ipsum, 汉字 ".repeat(700))
        } else {
            Answer::text("fine")
        }
    });
    let config = against(&verbose, "").replace("id: scripted", "id: scripted, context_window: 6000");
    let server = Server::start_with(&config);
    let config = file(&server, "replay.yml", &config);
    let mut summaries = 0;
    for number in 0..3 {
        let input = format!("message {number} {}", "lorem ipsum dolor sit amet ".repeat(150));
        let job = server.submit(&json!({"input": input, "conversation_id": "long"}));
        assert_eq!(server.wait(&job)["status"], "succeeded");
        let run = export(&server, &job);
        summaries += run.matches("\"event\":\"summary\"").count();
        assert_identical(&server, &job);
        let ran = replay(&server, "run.jsonl", &run, &["--config", text(&config)]);
        assert!(ran.code == 0 && ran.out.contains("identical"), "{}{}", ran.out, ran.err);
    }
    assert!(summaries > 0, "a context was shortened");
}

#[test]
fn live_tools_without_the_mcp_servers_of_the_run_are_refused() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("mcp_files_read", json!({"path": "a"}))]),
        _ => Answer::text("done"),
    });
    let server = Server::start_against(&upstream, "");
    let job = server.submit(&json!({"input": "go"}));
    server.wait(&job);
    let run = export(&server, &job);
    assert!(run.contains("mcp_files_read"), "{run}");
    let live = replay(&server, "run.jsonl", &run, &["--tools", "live"]);
    assert!(live.code == 1 && live.err.contains("mcp_files_read"), "{}{}", live.out, live.err);
    assert!(live.err.contains("--tools record"), "{}", live.err);
    let recorded = replay(&server, "run.jsonl", &run, &["--model", "demo"]);
    assert!(
        recorded.code == 0 && recorded.err.contains("not offered tools of MCP servers"),
        "{}",
        recorded.err
    );
}

#[test]
fn live_tools_work_in_a_directory_of_the_job() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[("file_write", json!({"path": "a.txt", "content": "text"}))]),
        1 => Answer::calls(&[("file_read", json!({"path": "a.txt"}))]),
        _ => Answer::text("done"),
    });
    let config = two_models(&upstream);
    let server = Server::start_with(&config);
    let job = server.submit(&json!({"input": "go"}));
    server.wait(&job);
    let (run, config) = (export(&server, &job), file(&server, "c.yml", &config));
    let live = ["--config", text(&config), "--model", "m", "--tools", "live"];
    let ran = replay(&server, "run.jsonl", &run, &live);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let last = upstream.requests().last().expect("a request").to_string();
    assert_eq!(last.matches("\\\"success\\\":true").count(), 2, "{last}");
}

#[test]
fn a_prompt_with_the_answer_of_another_job_can_be_replayed() {
    let upstream = Upstream::start(|request, number| match number {
        0 => Answer::text("the first answer"),
        _ => Answer::text(&format!("{} messages", request["messages"].as_array().map_or(0, Vec::len))),
    });
    let config = two_models(&upstream);
    let server = Server::start_with(&config);
    let first = server.submit(&json!({"input": "go"}));
    server.wait(&first);
    let job = server.submit(&json!({"input": format!("use {{{{result:{first}}}}}"), "after": [first]}));
    server.wait(&job);
    let run = export(&server, &job);
    let unchanged = replay(&server, "run.jsonl", &run, &[]);
    assert!(unchanged.code == 0 && unchanged.out.contains("identical"), "{}{}", unchanged.out, unchanged.err);
    let config = file(&server, "c.yml", &config);
    let other = replay(&server, "run.jsonl", &run, &["--model", "other", "--config", text(&config)]);
    assert_eq!(other.code, 0, "{}", other.err);
    let last = upstream.requests().last().expect("a request").to_string();
    assert!(last.contains("use the first answer"), "{last}");
}

#[test]
fn a_turn_behind_answers_of_other_jobs_replays_without_its_conversation() {
    let (server, other) = (Server::start(), Server::start());
    let first = server.submit(&json!({"input": "one"}));
    let input = format!("more of {{{{result:{first}}}}}");
    let turns = [
        json!({"input": input, "after": [first], "conversation_id": "chat"}),
        json!({"input": "three", "conversation_id": "chat"}),
    ];
    let [_, last] = turns.map(|turn| {
        let job = server.submit(&turn);
        assert_eq!(server.wait(&job)["status"], "succeeded");
        job
    });
    assert!(export(&server, &last).contains(&format!("\"results\":{{\"{first}\"")));
    assert_identical(&server, &last);
    // An imported run has no history.
    assert_eq!(super::import(&other, &export(&server, &last)).status, 201);
    assert_identical(&other, &last);
}

#[test]
fn a_run_whose_model_lost_its_price_replays_identically() {
    let upstream = Upstream::start(|_, _| Answer::text("done"));
    let config = two_models(&upstream);
    let priced = config.replace("/v1\"}", "/v1\", price: {prompt: 1, completion: 1}}");
    assert_ne!(priced, config);
    let server = Server::start_with(&priced);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let job = server.submit(&json!({"input": "x", "max_cost_micros": 30, "run_at": now_s + 3}));
    let server = server.crash_and_restart(&config);
    assert_eq!(server.wait(&job)["error"]["code"], "max_cost");
    assert_identical(&server, &job);
}

#[test]
fn a_replay_says_what_cannot_be_replayed() {
    let server = Server::start();
    let job = server.submit(&json!({"input": "hello"}));
    server.wait(&job);
    let run = export(&server, &job);
    let two = replay(&server, "two.jsonl", &format!("{run}{run}"), &[]);
    assert!(two.code == 2 && two.err.contains("holds 2 runs"), "{}", two.err);
    let folded =
        replay(&server, "folded.jsonl", &run.replace("\"log\":\"whole\"", "\"log\":\"folded\""), &[]);
    assert!(folded.code == 1 && folded.err.contains("retention has shortened"), "{}", folded.err);
    let torn = replay(&server, "torn.jsonl", &run[..run.len() - 20], &[]);
    assert!(torn.code == 1 && torn.err.contains("line "), "{}", torn.err);
    let none = super::run(&server, &["replay", "job_01ARZ3NDEKTSV4RRFFQ69G5FAV"]);
    assert!(none.code == 1 && none.err.contains("no such job"), "{}", none.err);
}

#[test]
fn a_prompt_with_the_answer_of_another_job_is_not_asked_anew_without_it() {
    let server = Server::start();
    let first = server.submit(&json!({"input": "one"}));
    let input = format!("more of {{{{result:{first}}}}}");
    let second = server.submit(&json!({"input": input, "after": [first]}));
    assert_eq!(server.wait(&second)["status"], "succeeded");
    assert_identical(&server, &second);
    // An earlier version did not record the answer.
    let results =
        regex::Regex::new(r#","results":\{"job_[0-9A-Z]*":"(?:[^"\\]|\\.)*"\}"#).expect("a pattern");
    let run = results.replace_all(&export(&server, &second), "").into_owned();
    let refused = replay(&server, "run.jsonl", &run, &["--model", "demo"]);
    assert!(refused.code == 1 && refused.err.contains(&first), "{}{}", refused.out, refused.err);
    let asked = replay(&server, "run.jsonl", &run, &["--model", "demo", "--prompt", "two"]);
    assert_eq!(asked.code, 0, "{}{}", asked.out, asked.err);
}
