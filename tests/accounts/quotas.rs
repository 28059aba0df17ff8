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
fn p8_a_dry_run_of_a_batch_counts_a_quota_among_its_faults() {
    let server = Server::start_with(MULTI);
    let ann = token(&register(&server, "ann"));
    let bounded = with(&server, &ann, "PATCH /api/users/2", &json!({"quota": {"unfinished_jobs": 1}}));
    assert_eq!(bounded.status, 200, "{}", bounded.body);
    let bearer = format!("Bearer {ann}");
    let check = |count: usize| {
        let line = |n: usize| json!({"custom_id": n.to_string(), "body": {"input": "x"}}).to_string();
        let body = (0..count).map(line).collect::<Vec<_>>().join("\n");
        let headers = [("authorization", bearer.as_str())];
        server.request(("POST", "/v1/batches?dry_run=true"), &headers, &body).json()
    };
    assert_eq!((&check(1)["valid"], &check(1)["faults"]), (&json!(1), &json!([])));
    let much = check(2);
    assert_eq!((&much["valid"], &much["faults"][0]["line"]), (&json!(2), &Value::Null), "{much}");
    let message = much["faults"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("2 new jobs") && much["faults"][1].is_null(), "{much}");
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

#[test]
fn p8_an_account_that_stores_too_much_must_delete_before_it_may_go_on() {
    let server = Server::start_with(MULTI);
    let root = token(&register(&server, "ann"));
    let eve = register(&server, "eve");
    let (eve, path) = (token(&eve), format!("PATCH /api/users/{}", eve["user"]["id"]));
    let bounded = with(&server, &root, &path, &json!({"quota": {"stored_bytes": 100_000}}));
    assert_eq!(bounded.json()["data"]["quota"]["stored_bytes"], 100_000, "{}", bounded.body);
    let submit = |bytes: usize| {
        with(&server, &eve, "POST /v1/jobs?wait=60", &json!({"input": "x".repeat(bytes), "model": "demo"}))
    };
    let refused = submit(150_000);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")), "{}", refused.body);
    let message = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("quota.stored_bytes") && message.contains("delete jobs"), "{message}");
    let mut kept = Vec::new();
    for _ in 0..20 {
        let reply = submit(20_000);
        if reply.status == 429 {
            break;
        }
        assert_eq!(reply.status, 200, "{}", reply.body);
        kept.push(reply.json()["id"].as_str().expect("an id").to_owned());
    }
    assert!((1..5).contains(&kept.len()), "input and answer count: {} jobs", kept.len());
    let line = json!({"custom_id": "a", "body": {"input": "x".repeat(90_000)}});
    let prompt = json!({"title": "t", "system_prompt": "x".repeat(60_000)});
    let schedule = json!({"every_s": 3_600, "job": {"input": "x".repeat(90_000)}});
    for (request, body) in
        [("POST /v1/batches", line), ("POST /api/conversations", prompt), ("POST /v1/schedules", schedule)]
    {
        let reply = with(&server, &eve, request, &body);
        assert_eq!(reply.status, 429, "{request}: {}", reply.body);
        assert!(reply.body.contains("stored_bytes"), "{request}: {}", reply.body);
    }
    assert_eq!(with(&server, &root, "POST /v1/jobs", &json!({"input": "x"})).status, 202, "others go on");
    for id in kept {
        assert_eq!(with(&server, &eve, &format!("DELETE /v1/jobs/{id}"), &Value::Null).status, 200);
    }
    assert_eq!(submit(20_000).status, 200, "what was deleted counts no more");
}

#[test]
fn p8_a_batch_without_a_length_ends_at_the_quota_of_stored_bytes() {
    let server = Server::start_with(MULTI);
    let account = register(&server, "ann");
    let (ann, path) = (token(&account), format!("PATCH /api/users/{}", account["user"]["id"]));
    let quota = json!({"quota": {"stored_bytes": 1_000_000}});
    assert_eq!(with(&server, &ann, &path, &quota).status, 200);
    let line =
        |n: usize| json!({"custom_id": n.to_string(), "body": {"input": "x".repeat(10_000)}}).to_string();
    let body = (0..300).map(line).collect::<Vec<_>>().join("\n");
    let bearer = format!("Bearer {ann}");
    let headers = [("authorization", &*bearer), ("transfer-encoding", "chunked")];
    let refused = server.request(("POST", "/v1/batches"), &headers, &body);
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.body.contains("stored_bytes"), "{}", refused.body);
    let list = with(&server, &ann, "GET /v1/batches", &Value::Null);
    assert_eq!(list.json()["data"], json!([]), "nothing is stored");
}

#[test]
fn p7_the_profile_shows_the_quotas_of_the_account_and_its_use_of_them() {
    let server = Server::start_with(MULTI);
    let root = token(&register(&server, "ann"));
    let bob = register(&server, "bob");
    let (bob, path) = (token(&bob), format!("PATCH /api/users/{}", bob["user"]["id"]));
    let quota = json!({"tokens_per_day": 5_000, "project_bytes": 1_000});
    assert_eq!(with(&server, &root, &path, &json!({"quota": quota})).status, 200);
    for (name, content) in [("one", "0123456789"), ("two", "01234")] {
        let made = with(&server, &bob, "POST /api/projects", &json!({"name": name})).json();
        let file = format!("PUT /api/projects/{}/files/a.txt", made["data"]["id"].as_str().expect("an id"));
        assert_eq!(with(&server, &bob, &file, &json!({"content": content})).status, 200);
    }
    let ended = with(&server, &bob, "POST /v1/jobs?wait=30", &json!({"input": "hello"})).json();
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let later = json!({"input": "later", "run_at": 4_000_000_000_u64});
    assert_eq!(with(&server, &bob, "POST /v1/jobs", &later).status, 202);
    let profile = |token: &str, query: &str| {
        with(&server, token, &format!("GET /api/auth/profile{query}"), &Value::Null)
    };
    let plain = profile(&bob, "").json()["data"].clone();
    let none = json!({"cost_micros_per_day": null, "unfinished_jobs": null, "stored_bytes": null});
    let mut wanted = quota;
    wanted.as_object_mut().expect("an object").extend(none.as_object().expect("an object").clone());
    assert_eq!((&plain["quota"], &plain["used"]), (&wanted, &Value::Null), "{plain}");
    let used = profile(&bob, "?include=used").json()["data"]["used"].clone();
    assert_eq!((&used["project_bytes"], &used["unfinished_jobs"]), (&json!(15), &json!(1)), "{used}");
    assert!(used["tokens_today"].as_u64() > Some(0) && used["stored_bytes"].as_u64() > Some(0), "{used}");
    let others = profile(&root, "?include=used").json()["data"]["used"].clone();
    assert_eq!((&others["project_bytes"], &others["tokens_today"]), (&json!(0), &json!(0)), "{others}");
    for bad in ["?include=", "?include=quota", "?include=used&include=used", "?used=true"] {
        assert_eq!(profile(&bob, bad).status, 400, "{bad}");
    }
    let single = Server::start().get("/api/auth/profile?include=used").json()["data"]["used"].clone();
    let nothing = json!({
        "tokens_today": 0, "cost_micros_today": 0, "unfinished_jobs": 0, "project_bytes": 0, "stored_bytes": null,
    });
    assert_eq!(single, nothing);
}
