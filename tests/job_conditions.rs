//! `after`, `on_failure`, `deadline_at`, `expires_at` and `max_cost_micros` of jobs, and references to the
//! results of others.

use crate::support::upstream::{Act, Answer, Upstream, content, tool_results};
use crate::support::{Server, against, assert_whole, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An upstream that answers "say X" with X, and "hang" never.
fn parrot() -> Upstream {
    Upstream::start(|request, _| {
        let asked = question(request);
        match asked.strip_prefix("say ") {
            Some(answer) => Answer::text(answer),
            None if asked == "hang" => {
                Answer { acts: vec![Act::Data(content("so far ")), Act::Hang], ..Answer::text("") }
            }
            None if asked == "fail" => Answer::error(400, "refused"),
            None => Answer::text("fine"),
        }
    })
}

/// The newest message of a request.
fn question(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

fn code(job: &Value) -> (&str, &str) {
    (job["status"].as_str().unwrap_or_default(), job["error"]["code"].as_str().unwrap_or_default())
}

fn reference(job: &str) -> String {
    format!("{{{{result:{job}}}}}")
}

#[test]
fn a_job_sees_the_results_of_those_that_it_comes_after() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "");
    let (one, two) =
        (server.submit(&json!({"input": "say one {{after}}"})), server.submit(&json!({"input": "say two"})));
    let input = format!("Compare {} with {} and {}.", reference(&one), reference(&two), reference(&one));
    let joined = server.submit(&json!({"input": input, "after": [two, one, two]}));
    let ended = server.wait(&joined);
    assert_eq!(code(&ended), ("succeeded", ""), "{ended}");
    assert_eq!(
        question(upstream.requests().last().expect("requests")),
        "Compare one {{after}} with two and one {{after}}."
    );
    assert_eq!(
        (&ended["input"], &ended["after"]),
        (&json!(input), &json!([two, one])),
        "as the client sent it"
    );
    let whole = server.get(&format!("/v1/jobs/{joined}?include=input")).json();
    assert_eq!(whole["input"], json!(input));
    assert_whole(&server.events(&joined));
}

#[test]
fn system_prompts_and_later_turns_have_the_results() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "");
    let one = server.submit(&json!({"input": "say one"}));
    let prompt = format!("S {}", reference(&one));
    let refused = server.post(
        "/v1/jobs",
        &json!({"input": "x", "system_prompt": reference("job_00000000000000000000000001"),
            "after": [one]}),
    );
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("'system_prompt' refers to"), "{}", refused.body);
    let first = format!("first {}", reference(&one));
    for job in [
        json!({"input": first, "system_prompt": prompt, "after": [one], "conversation_id": "chat"}),
        json!({"input": "second", "conversation_id": "chat"}),
    ] {
        let job = server.submit(&job);
        assert_eq!(code(&server.wait(&job)), ("succeeded", ""));
    }
    let requests = upstream.requests();
    let sent = |nth: usize| requests[requests.len() - nth]["messages"].to_string();
    assert!(sent(2).contains("S one") && sent(2).contains("first one"), "{}", sent(2));
    assert!(sent(1).contains("first one") && !sent(1).contains("{{result:"), "{}", sent(1));
}

#[test]
fn p8_references_in_earlier_turns_show_a_bounded_text() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "");
    let long = server.submit(&json!({"input": format!("say {}", "x".repeat(60_000))}));
    server.wait(&long);
    let many = format!("hello {}", reference(&long).repeat(3_000));
    for input in [many, format!("say {}", reference(&long)), "third".to_owned()] {
        let job = server.submit(&json!({"input": input, "conversation_id": "chat"}));
        assert_eq!(code(&server.wait(&job)), ("succeeded", ""));
    }
    let sent = upstream.requests().last().expect("requests")["messages"].to_string();
    assert!(sent.len() < 1_000_000, "{} bytes", sent.len());
    assert!(sent.contains(&"x".repeat(60_000)) && sent.contains("is left out here]"), "{} bytes", sent.len());
}

#[test]
fn p2_all_prompts_of_a_job_show_the_same_results() {
    let upstream = Upstream::start(|request, _| {
        let text = request["messages"].to_string();
        match (text.contains("say"), tool_results(request).len()) {
            (true, _) => Answer::text("the first answer"),
            (_, 0) => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
            _ => Answer::text("done"),
        }
    });
    let server = Server::start_against(&upstream, "approval: [calculator]");
    let first = server.submit(&json!({"input": "say it"}));
    server.wait(&first);
    let job = server.submit(&json!({"input": format!("use {}", reference(&first)), "after": [first]}));
    wait_until("the job waits", || server.get(&format!("/v1/jobs/{job}")).json()["status"] == "waiting");
    assert_eq!(server.ask("DELETE", &format!("/v1/jobs/{first}"), &Value::Null).status, 200);
    let approved = server.ask("POST", &format!("/v1/jobs/{job}/approve"), &json!({}));
    assert_eq!(approved.status, 200, "{}", approved.body);
    assert_eq!(server.wait(&job)["status"], "succeeded");
    let sent = upstream.requests().last().expect("requests")["messages"].to_string();
    assert!(sent.contains("use the first answer"), "{sent}");
}

#[test]
fn another_answer_to_a_question_has_its_results_too() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "");
    let first = server.submit(&json!({"input": "say one"}));
    let body =
        json!({"input": format!("use {}", reference(&first)), "after": [first], "conversation_id": "chat"});
    let job = server.submit(&body);
    assert_eq!(code(&server.wait(&job)), ("succeeded", ""));
    let message = format!("msg_{}", job.trim_start_matches("job_"));
    let again = server.post(&format!("/api/conversations/chat/regenerate/{message}"), &json!({}));
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(question(upstream.requests().last().expect("requests")), "use one");
}

#[test]
fn a_result_that_is_long_missing_or_of_a_failed_job_says_so() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "limits: {job_result_bytes: 256}");
    let long = server.submit(&json!({"input": format!("say {}", "x".repeat(300))}));
    let failed = server.submit(&json!({"input": "fail"}));
    let deleted = server.submit(&json!({"input": "say gone"}));
    for job in [&long, &failed, &deleted] {
        server.wait(job);
    }
    let input = [&long, &failed, &deleted].map(|job| reference(job)).join("|");
    let body = json!({"input": input, "after": [long, failed, deleted], "on_failure": "run", "run_at": now_s() + 2.0});
    let joined = server.submit(&body);
    assert_eq!(server.ask("DELETE", &format!("/v1/jobs/{deleted}"), &json!({})).status, 200);
    assert_eq!(server.wait(&joined)["status"], "succeeded");
    let seen = question(upstream.requests().last().expect("requests"));
    let parts: Vec<&str> = seen.split('|').collect();
    assert!(parts[0].starts_with(&format!("{}\n[the answer of", "x".repeat(256))), "{seen}");
    assert!(parts[0].contains("300 bytes") && parts[1].contains("has no answer: "), "{seen}");
    assert!(parts[1].contains("refused") && parts[2].contains("was deleted"), "{seen}");
}

#[test]
fn p1_a_kill_between_the_end_of_a_job_and_the_start_of_the_next_loses_neither() {
    let upstream = parrot();
    let config = against(&upstream, "workers: 1");
    let server = Server::start_with(&config);
    let first = server.submit(&json!({"input": "say one"}));
    // It is ready when the first has ended, and behind another job then.
    let blocking = server.submit(&json!({"input": "hang", "priority": 0}));
    let mut last = first.clone();
    let chain: Vec<String> = (0..3)
        .map(|_| {
            last = server.submit(&json!({"input": format!("say {}!", reference(&last)), "after": [last]}));
            last.clone()
        })
        .collect();
    wait_until("the first has ended", || {
        server.get(&format!("/v1/jobs/{first}")).json()["status"] == "succeeded"
            || server.get(&format!("/v1/jobs/{blocking}")).json()["status"] == "running"
    });
    let server = server.crash_and_restart(&config);
    server.post(&format!("/v1/jobs/{blocking}/cancel"), &json!({}));
    for (nth, job) in chain.iter().enumerate() {
        let ended = server.wait(job);
        assert_eq!(ended["output_text"], format!("one{}", "!".repeat(nth + 1)), "{ended}");
        assert_whole(&server.events(job));
    }
}

#[test]
fn a_failed_job_fails_those_after_it_and_wakes_who_waits_for_them() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "");
    let first = server.submit(&json!({"input": "fail", "run_at": now_s() + 1.0}));
    let second = server.submit(&json!({"input": "x", "after": [first]}));
    let shown = server.get(&format!("/v1/jobs/{second}")).json();
    let waits = json!({"reason": "predecessor", "until": null, "after_job": first});
    assert_eq!((&shown["waits_for"], &shown["on_failure"]), (&waits, &json!("fail")), "{shown}");
    let third = json!({"input": "x", "after": [second], "on_failure": "run"});
    let third = server.post("/v1/jobs?wait=20", &third).json();
    assert_eq!(third["status"], "succeeded", "{third}");
    let shown = server.get(&format!("/v1/jobs/{second}")).json();
    assert_eq!(code(&shown), ("failed", "dependency_failed"), "{shown}");
    assert!(shown["error"]["message"].as_str().is_some_and(|text| text.contains(&first)), "{shown}");
    let listed = server.get("/v1/jobs").json();
    assert_eq!(listed["data"][1]["after"], json!([first]), "{listed}");
}

#[test]
fn a_deadline_ends_a_running_job_and_an_expiry_a_queued_one() {
    let upstream = parrot();
    let server = Server::start_against(&upstream, "workers: 1");
    let running = server.submit(&json!({"input": "hang", "deadline_at": now_s() + 3.0, "max_attempts": 3}));
    let expiring = server.submit(&json!({"input": "x", "expires_at": now_s() + 1.0}));
    let late = server.submit(&json!({"input": "x", "deadline_at": "2001-01-01T00:00:00Z"}));
    let expired = server.wait(&expiring);
    assert_eq!((code(&expired), &expired["attempt"]), (("failed", "expired"), &json!(0)), "{expired}");
    assert_eq!(code(&server.wait(&late)), ("failed", "deadline_exceeded"));
    let ended = server.wait(&running);
    assert_eq!(
        (code(&ended), &ended["output_text"]),
        (("failed", "deadline_exceeded"), &json!("so far ")),
        "{ended}"
    );
    assert_whole(&server.events(&running));
    assert_eq!(
        server.wait(&server.submit(&json!({"input": "say on"})))["output_text"],
        "on",
        "the worker is free"
    );
}

#[test]
fn jobs_that_expired_while_the_server_was_away_do_not_start() {
    let upstream = parrot();
    let config = against(&upstream, "");
    let mut server = Server::start_with(&config);
    let soon = now_s() + 1.5;
    let job = server.submit(&json!({"input": "x", "run_at": soon, "expires_at": soon + 0.5}));
    server.kill();
    std::thread::sleep(Duration::from_secs(3));
    let server = server.crash_and_restart(&config);
    let ended = server.wait(&job);
    assert_eq!((code(&ended), &ended["attempt"]), (("failed", "expired"), &json!(0)), "{ended}");
}

#[test]
fn max_cost_ends_a_job_and_needs_a_price() {
    let upstream = Upstream::start(|_, _| Answer::calls(&[("calculator", json!({"expression": "1+1"}))]));
    let url = &upstream.url;
    let config = format!(
        "default_model: priced\nmodels:\n\
         - {{id: priced, api_url: \"{url}/v1\", price: {{prompt: 1, completion: 2}}}}\n\
         - {{id: free, api_url: \"{url}/v1\"}}\n\
         - {{id: partly, api_url: \"{url}/v1\", price: {{prompt: 1, completion: 2}}, fallback: [free]}}\n"
    );
    let server = Server::start_with(&config);
    let ended = server.wait(&server.submit(&json!({"input": "x", "max_cost_micros": 30})));
    assert_eq!((code(&ended), &ended["max_cost_micros"]), (("failed", "max_cost"), &json!(30)), "{ended}");
    assert_eq!(ended["usage"]["cost_micros"], 40, "the second call passes the limit: {ended}");
    for model in ["free", "partly"] {
        let refused = server.post("/v1/jobs", &json!({"input": "x", "model": model, "max_cost_micros": 30}));
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["param"]), (400, &json!("max_cost_micros")), "{error}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("'free' has no price")),
            "{error}"
        );
    }
    // The operator may take the price away before the job starts.
    let body = json!({"input": "x", "max_cost_micros": 30, "run_at": now_s() + 3.0});
    let job = server.submit(&body);
    let server = server.crash_and_restart(&config.replace(", price: {prompt: 1, completion: 2}", ""));
    let ended = server.wait(&job);
    assert_eq!(
        (code(&ended), &ended["usage"]["total_tokens"]),
        (("failed", "max_cost"), &json!(0)),
        "{ended}"
    );
    assert!(ended["error"]["message"].to_string().contains("no price any more"), "{ended}");
}

#[test]
fn p8_a_bad_condition_is_refused_by_its_name() {
    let server = Server::start_with("limits: {job_predecessors: 2}");
    let first = server.submit(&json!({"input": "x"}));
    let ids: Vec<String> = (0..3).map(|_| server.submit(&json!({"input": "x"}))).collect();
    let unknown = "job_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let stranger = reference(unknown);
    for (body, param, word) in [
        (json!({"after": first}), "after", "a list"),
        (json!({"after": ["x"]}), "after", "job_"),
        (json!({"after": ids}), "after", "limits.job_predecessors = 2"),
        (json!({"on_failure": "run"}), "on_failure", "'after'"),
        (json!({"after": [first], "on_failure": "skip"}), "on_failure", "run"),
        (json!({"after": [first], "input": stranger}), "input", unknown),
        (json!({"after": [first], "input": reference(&first).repeat(65)}), "input", "64"),
        (json!({"deadline_at": "soon"}), "deadline_at", "RFC 3339"),
        (json!({"expires_at": -1}), "expires_at", "unix seconds"),
        (json!({"run_at": 4_000_000_000_u64, "deadline_at": 4_000_000_000_u64}), "deadline_at", "run_at"),
        (json!({"run_at": 4_000_000_000_u64, "expires_at": 3_000_000_000_u64}), "expires_at", "run_at"),
        (json!({"max_cost_micros": 0}), "max_cost_micros", "1"),
        (json!({"max_cost_micros": 1}), "max_cost_micros", "no price"),
    ] {
        let mut job = json!({"input": "x"});
        job.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
        let reply = server.post("/v1/jobs", &job);
        let error = &reply.json()["error"];
        let place = error["param"].as_str().unwrap_or_default();
        assert_eq!((reply.status, place.split('[').next()), (400, Some(param)), "{job}: {error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(word)), "{job}: {error}");
    }
    let missing = server.post("/v1/jobs", &json!({"input": "x", "after": [unknown]}));
    assert_eq!(
        (missing.status, &missing.json()["error"]["code"]),
        (404, &json!("not_found")),
        "{}",
        missing.body
    );
    // Without 'after' it is text.
    assert_eq!(server.wait(&server.submit(&json!({"input": stranger})))["status"], "succeeded");
    let line = json!({"custom_id": "a", "body": {"input": "x", "after": [first]}}).to_string();
    let refused = server.post_text("/v1/batches", &line);
    assert!(refused.status == 400 && refused.body.contains("no 'after'"), "{}", refused.body);
    let schedule = json!({"every_s": 60, "job": {"input": "x", "deadline_at": 4_000_000_000_u64}});
    let refused = server.post("/v1/schedules", &schedule);
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("job.deadline_at")),
        "{}",
        refused.body
    );
}

#[test]
fn p7_a_job_of_another_user_cannot_be_waited_for() {
    let config = "auth_mode: multi\nlimits: {user_requests_per_minute: 0}\n";
    let server = Server::start_with(config);
    let tokens = ["ann", "bob"].map(|name| {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = server.register(&body);
        format!(
            "Bearer {}",
            reply.json()["data"]["token"].as_str().unwrap_or_else(|| panic!("{}", reply.body))
        )
    });
    let submit = |token: &str, body: &Value| {
        let headers = [("authorization", token), ("content-type", "application/json")];
        server.request(("POST", "/v1/jobs"), &headers, &body.to_string())
    };
    let of_ann = submit(&tokens[0], &json!({"input": "x", "run_at": 4_000_000_000_u64}));
    assert_eq!(of_ann.status, 202, "{}", of_ann.body);
    let known = of_ann.json()["id"].as_str().expect("an id").to_owned();
    let unknown = "job_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let of_bob = |job: &str| {
        let reply = submit(&tokens[1], &json!({"input": reference(job), "after": [job]}));
        (reply.status, reply.body.replace(job, "JOB"))
    };
    assert_eq!(of_bob(&known).0, 404);
    assert_eq!(of_bob(&known), of_bob(unknown));
}
