//! Quotas of accounts: unfinished jobs, tokens of a day, intervals of schedules.

use super::{MULTI, PASSWORD, ask, login, register, token, with};
use crate::support::{Server, wait_until};
use serde_json::{Value, json};

#[test]
fn p1_an_idempotent_replay_is_answered_even_when_the_quota_is_zero() {
    let server = Server::start_with(MULTI);
    let ann = token(&register(&server, "ann"));
    let made = with(&server, &ann, "POST /api/conversations", &json!({"title": "t"})).json();
    let messages =
        format!("POST /api/conversations/{}/messages", made["data"]["id"].as_str().expect("an id"));
    let line = json!({"custom_id": "a", "body": {"input": "hi"}});
    let works = [
        ("POST /v1/jobs?wait=60", json!({"input": "hi"})),
        ("POST /v1/batches", line),
        (messages.as_str(), json!({"text": "hi"})),
    ];
    let bearer = format!("Bearer {ann}");
    let send = |(line, body): &(&str, Value), key: &str| {
        let key = format!("{key} of {line}");
        ask(&server, line, &[("authorization", &bearer), ("idempotency-key", &key)], body)
    };
    for work in &works {
        let first = send(work, "one");
        assert!(matches!(first.status, 200 | 202), "{work:?}: {}", first.body);
    }
    let none = json!({"quota": {"unfinished_jobs": 0}});
    let bounded = with(&server, &ann, "PATCH /api/users/2", &none);
    assert_eq!(bounded.status, 200, "{}", bounded.body);
    for work in &works {
        let again = send(work, "one");
        assert!(matches!(again.status, 200 | 202), "{work:?}: {}", again.body);
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{work:?}");
        let new = send(work, "two");
        assert_eq!(new.status, 429, "{work:?}: {}", new.body);
    }
}

#[test]
fn p8_a_batch_and_a_schedule_stop_when_the_tokens_of_the_day_are_spent() {
    let server = Server::start_with(&format!("{MULTI}limits: {{schedule_s: 1}}\n"));
    register(&server, "ann");
    let eve = register(&server, "eve");
    let root = token(&login(&server, "ann", PASSWORD).json()["data"]);
    let (eve, path) = (token(&eve), format!("PATCH /api/users/{}", eve["user"]["id"]));
    assert_eq!(with(&server, &root, &path, &json!({"quota": {"tokens_per_day": 500}})).status, 200);
    let schedule = json!({"name": "s", "every_s": 1, "job": {"input": "x"}});
    let made = with(&server, &eve, "POST /v1/schedules", &schedule);
    assert_eq!(made.status, 201, "{}", made.body);
    let line =
        |n: usize| json!({"custom_id": n.to_string(), "body": {"input": "word ".repeat(100)}}).to_string();
    let body = (0..60).map(line).collect::<Vec<_>>().join("\n");
    let bearer = format!("Bearer {eve}");
    let batch =
        server.request(("POST", "/v1/batches?concurrency=4"), &[("authorization", &bearer)], &body).json();
    let batch = format!("GET /v1/batches/{}", batch["id"].as_str().expect("an id"));
    wait_until("the batch waits", || {
        with(&server, &eve, &batch, &Value::Null).json()["waiting_for"].is_string()
    });
    let seen = with(&server, &eve, &batch, &Value::Null).json();
    assert_eq!((&seen["status"], &seen["waiting_for"]), (&json!("in_progress"), &json!("tokens_per_day")));
    let schedule = format!("GET /v1/schedules/{}", made.json()["id"].as_str().expect("an id"));
    let skip = || with(&server, &eve, &schedule, &Value::Null).json()["last_skip"].clone();
    wait_until("the schedule is skipped", || skip()["quota"] == "tokens_per_day");
    assert_eq!(
        with(&server, &eve, "POST /v1/jobs", &json!({"input": "x"})).status,
        429,
        "like any other job"
    );
    // A larger quota frees the lines that waited.
    assert_eq!(with(&server, &root, &path, &json!({"quota": null})).status, 200);
    wait_until("every line has an answer", || {
        with(&server, &eve, &batch, &Value::Null).json()["request_counts"]["completed"] == 60
    });
}

#[test]
fn p8_a_schedule_of_a_user_has_a_least_interval() {
    let server = Server::start_with(MULTI);
    let (root, eve) = (token(&register(&server, "ann")), token(&register(&server, "eve")));
    let schedule = json!({"every_s": 30, "job": {"input": "x"}});
    let refused = with(&server, &eve, "POST /v1/schedules", &schedule);
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("every_s")),
        "{}",
        refused.body
    );
    assert!(refused.body.contains("limits.schedule_s"), "{}", refused.body);
    assert_eq!(with(&server, &root, "POST /v1/schedules", &schedule).status, 201, "administrators may");
}

#[test]
fn p8_a_batch_beyond_the_quota_of_unfinished_jobs_is_refused_whole() {
    let server = Server::start_with(MULTI);
    let account = register(&server, "ann");
    let (ann, path) = (token(&account), format!("PATCH /api/users/{}", account["user"]["id"]));
    let quota = json!({"quota": {"unfinished_jobs": 2}});
    assert_eq!(with(&server, &ann, &path, &quota).status, 200);
    let upload = |lines: usize| {
        let line = |n: usize| json!({"custom_id": n.to_string(), "body": {"input": "hi"}}).to_string();
        let body = (0..lines).map(line).collect::<Vec<_>>().join("\n");
        server.request(("POST", "/v1/batches"), &[("authorization", &format!("Bearer {ann}"))], &body)
    };
    let refused = upload(3);
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.header("retry-after").is_some(), "{}", refused.body);
    let message = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("3 new jobs") && message.contains("may have 2"), "{message}");
    for list in ["GET /v1/batches", "GET /v1/jobs"] {
        assert_eq!(with(&server, &ann, list, &Value::Null).json()["data"], json!([]), "nothing is stored");
    }
    let accepted = upload(2);
    assert_eq!(accepted.status, 202, "as many as may be: {}", accepted.body);
}
