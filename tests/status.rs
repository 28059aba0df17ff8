//! `GET /v1/status`: the state of the server for administrators, and the part of it that other users see.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PASSWORD: &str = "correct horse";

/// Asks until the status passes.
#[track_caller]
fn wait_for_status(ask: impl Fn() -> Reply, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = ask();
        assert_eq!(reply.status, 200, "{}", reply.body);
        let status = reply.json();
        if is_wanted(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn as_user(server: &Server, token: &str, line: &str, body: &Value) -> Reply {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    server.request((method, path), &headers, &if body.is_null() { String::new() } else { body.to_string() })
}

/// Registers an account; the first one is an administrator.
fn register(server: &Server, name: &str) -> String {
    let reply = server.register(&json!({"username": name, "password": PASSWORD}));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["data"]["token"].as_str().expect("a token").to_owned()
}

fn model<'s>(status: &'s Value, id: &str) -> &'s Value {
    let models = status["models"].as_array().expect("models");
    models.iter().find(|model| model["id"] == id).unwrap_or_else(|| panic!("no {id}: {status}"))
}

#[test]
fn in_single_mode_everybody_sees_figures_that_match_what_happened() {
    let server = Server::start_with("workers: 3\napproval: [calculator]\n");
    let before = server.get("/v1/status").json();
    assert_eq!((&before["object"], &before["mode"]), (&json!("status"), &json!("single")));
    assert_eq!(before["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(before["workers"], json!({"busy": 0, "total": 3}));
    assert_eq!(before["jobs"], json!({"queued": 0, "delayed": 0, "waiting": 0, "running": 0}));
    assert_eq!((&before["first_token_ms"], &before["job_ms"]), (&Value::Null, &Value::Null), "not measured");
    assert_eq!((&model(&before, "demo")["state"], &before["mcp"]), (&json!("unknown"), &json!([])));

    server.wait(&server.submit(&json!({"input": "hello"})));
    server.submit(&json!({"input": "later", "run_at": 4_000_000_000_u64}));
    server.submit(&json!({"input": "tool: calculator {\"expression\": \"6*7\"}"}));
    let running = server.submit(&json!({"input": "stream: 2000 words, 50 ms"}));
    let counted = json!({"queued": 1, "delayed": 1, "waiting": 1, "running": 1});
    let ask = || server.get("/v1/status");
    let status = wait_for_status(ask, |status| status["jobs"] == counted && status["workers"]["busy"] == 1);
    for time in [&status["store"]["commit_ms"], &status["first_token_ms"], &status["job_ms"]] {
        let (p50, p99) = (time["p50"].as_f64(), time["p99"].as_f64());
        assert!(p50.zip(p99).is_some_and(|(p50, p99)| 0.0 < p50 && p50 <= p99), "{status}");
    }
    assert!(status["store"]["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{status}");
    assert!(status["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{status}");
    assert!(status["uptime_s"].as_u64().is_some_and(|seconds| seconds < 600), "{status}");
    let created = server.get(&format!("/v1/jobs/{running}")).json()["created_at"].as_f64().expect("a time");
    let started = status["started_at"].as_f64().expect("a time");
    assert!(started <= created && created - started < 600.0, "{started} {created}");
    let demo = model(&status, "demo");
    assert_eq!((&demo["state"], &demo["reason"], &demo["failures"]), (&json!("ok"), &Value::Null, &json!(0)));
    assert!(demo["calls"].as_u64().is_some_and(|calls| calls >= 1), "{demo}");
    let levels: Vec<_> =
        status["sandbox"].as_array().into_iter().flatten().map(|each| &each["level"]).collect();
    assert_eq!(levels, ["strict", "standard", "lenient", "shell"]);
    let checks: Vec<_> =
        status["checks"].as_array().into_iter().flatten().map(|each| &each["name"]).collect();
    assert!(checks.contains(&&json!("store")) && checks.contains(&&json!("workers")), "{status}");
    server.post(&format!("/v1/jobs/{running}/cancel"), &json!({}));
    assert_eq!(server.get("/v1/status?verbose=1").status, 400, "it takes no parameter");
}

#[test]
fn open_streams_are_counted() {
    let server = Server::start();
    let job = server.submit(&json!({"input": "stream: 2000 words, 50 ms"}));
    let stream = server.stream(&format!("/v1/jobs/{job}/events"), 0);
    let ask = || server.get("/v1/status");
    wait_for_status(ask, |status| status["streams"] == 1);
    server.post(&format!("/v1/jobs/{job}/cancel"), &json!({}));
    drop(stream);
    wait_for_status(ask, |status| status["streams"] == 0 && status["workers"]["busy"] == 0);
}

#[test]
fn p7_users_see_their_own_jobs_and_nothing_of_the_configuration() {
    let upstream = Upstream::start(|_, _| Answer::error(401, "no such key"));
    let config = format!(
        "auth_mode: multi\nmodels: [{{id: demo}}, {{id: broken, name: Broken, api_url: \"{}/v1\"}}]\n",
        upstream.url
    );
    let server = Server::start_with(&config);
    let root = register(&server, "root");
    let (ann, bob) = (register(&server, "ann"), register(&server, "bob"));
    assert_eq!(server.get("/v1/status").status, 401);
    let submit = |token: &str, line: &str, body: &Value| {
        let reply = as_user(&server, token, line, body);
        assert!(reply.status < 300, "{}", reply.body);
        reply.json()
    };
    let later = json!({"input": "later", "run_at": 4_000_000_000_u64});
    for token in [&ann, &ann, &bob] {
        submit(token, "POST /v1/jobs", &later);
    }
    let line = json!({"custom_id": "a", "body": later}).to_string();
    let lines = format!("{line}\n{}\n", line.replace("\"a\"", "\"b\""));
    let bearer = format!("Bearer {ann}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/jsonl")];
    let batch = server.request(("POST", "/v1/batches?concurrency=1"), &headers, &lines);
    assert_eq!(batch.status, 202, "{}", batch.body);
    let failed = submit(&ann, "POST /v1/jobs?wait=30", &json!({"input": "x", "model": "broken"}));
    assert_eq!(failed["status"], "failed");

    let status = |token: &str| as_user(&server, token, "GET /v1/status", &Value::Null).json();
    let counted = json!({"queued": 5, "delayed": 4, "waiting": 0, "running": 0});
    let ask = || as_user(&server, &root, "GET /v1/status", &Value::Null);
    let all = wait_for_status(ask, |status| status["jobs"] == counted);
    let (anns, bobs) = (status(&ann), status(&bob));
    assert_eq!(anns["jobs"], json!({"queued": 4, "delayed": null, "waiting": 0, "running": 0}), "{anns}");
    assert_eq!(bobs["jobs"], json!({"queued": 1, "delayed": null, "waiting": 0, "running": 0}), "{bobs}");
    let broken = model(&all, "broken");
    assert_eq!((&broken["state"], &broken["failures"]), (&json!("failing"), &json!(1)), "{broken}");
    assert_eq!(broken["provider"], "127.0.0.1", "{broken}");
    assert!(broken["reason"].as_str().is_some_and(|reason| !reason.contains("no such key")), "{broken}");
    for seen in [&anns, &bobs] {
        let keys = |status: &Value| status.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        assert_eq!(keys(seen), keys(&all), "one shape for all");
        for hidden in ["started_at", "uptime_s", "streams", "memory_bytes", "store", "mcp", "checks"] {
            assert_eq!(seen[hidden], Value::Null, "{hidden}: {seen}");
            assert_ne!(all[hidden], Value::Null, "{hidden}: {all}");
        }
        let expected = json!({
            "id": "broken", "name": "Broken", "provider": null, "state": "failing", "until": null, "reason": null,
            "calls": null, "failures": null, "agent": false, "vision": false, "context_window": broken["context_window"],
        });
        assert_eq!(model(seen, "broken"), &expected);
        assert_eq!((&seen["mode"], &seen["workers"]["total"]), (&json!("multi"), &all["workers"]["total"]));
        let levels = seen["sandbox"].as_array().expect("levels");
        assert!(levels.len() == 4 && levels.iter().all(|level| level["reason"].is_null()), "{seen}");
        assert!(!seen.to_string().contains("127.0.0.1"), "{seen}");
    }
}

#[test]
fn a_key_needs_the_scope_read_and_keeps_the_role_of_its_account() {
    let server = Server::start_with("auth_mode: multi\n");
    let (root, ann) = (register(&server, "root"), register(&server, "ann"));
    let key = |token: &str, scope: &str| {
        let reply = as_user(&server, token, "POST /api/tokens", &json!({"name": "k", "scopes": [scope]}));
        reply.json()["data"]["key"].as_str().unwrap_or_else(|| panic!("{}", reply.body)).to_owned()
    };
    let status = |key: &str| as_user(&server, key, "GET /v1/status", &Value::Null);
    assert!(status(&key(&root, "read")).json()["checks"].is_array());
    assert!(status(&key(&ann, "read")).json()["checks"].is_null());
    let refused = status(&key(&root, "write"));
    assert!(refused.status == 403 && refused.body.contains("'read'"), "{}", refused.body);
}

#[test]
fn a_failing_provider_is_unreachable_until_its_circuit_breaker_lets_a_call_through() {
    let upstream = Upstream::start(|_, _| Answer::error(500, "boom"));
    let config = format!(
        "models: [{{id: a, api_url: \"{0}/v1\"}}, {{id: b, api_url: \"{0}/v1\"}}]\n\
         limits: {{model_failures: 1, model_circuit_failures: 1}}\n",
        upstream.url
    );
    let server = Server::start_with(&config);
    assert_eq!(server.wait(&server.submit(&json!({"input": "x", "model": "a"})))["status"], "failed");
    let status = server.get("/v1/status").json();
    for id in ["a", "b"] {
        let seen = model(&status, id);
        assert_eq!(seen["state"], "unreachable", "the models share the provider: {status}");
        assert!(seen["reason"].is_string(), "{seen}");
        let left_s = seen["until"].as_f64().expect("a time") - status["started_at"].as_f64().expect("a time");
        assert!((0.0..600.0).contains(&left_s), "{status}");
    }
    assert_eq!((&model(&status, "a")["calls"], &model(&status, "b")["calls"]), (&json!(1), &json!(0)));
}

#[test]
fn a_check_says_what_is_wrong_and_what_helps() {
    let server = Server::start_with("limits: {disk_free_bytes: 1152921504606846976}");
    let status = server.get("/v1/status").json();
    let checks = status["checks"].as_array().expect("checks");
    let disk = checks.iter().find(|check| check["name"] == "disk").expect("the disk's");
    assert!(disk["reason"].as_str().is_some_and(|reason| reason.contains("507")), "{disk}");
    assert!(disk["hint"].as_str().is_some_and(|hint| hint.contains("limits.disk_free_bytes")), "{disk}");
    assert!(!disk["reason"].to_string().contains("free some space"), "the reason is not the hint: {disk}");
    let store = checks.iter().find(|check| check["name"] == "store").expect("the store's");
    assert_eq!(store, &json!({"name": "store", "ok": true, "reason": null, "hint": null}));
}
