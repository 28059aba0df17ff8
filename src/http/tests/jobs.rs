//! Reading, listing and cancelling jobs; health; methods and paths.

use crate::domain::event::{Event, FailureCode};
use crate::domain::job::JobOutcome;
use crate::http::testing::{Counted, HandClock, Server, Short, Told};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn failed(output: &str) -> JobOutcome {
    let event = Event::Error {
        content: "the provider is gone".into(),
        code: FailureCode::ProviderError,
        retry_after_ms: None,
    };
    JobOutcome { event, output_text: output.into(), messages: Vec::new(), summary: None }
}

#[tokio::test]
async fn a_job_is_shown_in_its_current_state() {
    let server = Server::new();
    let id = server.job().await;
    server.store.say(id, 0, "a");
    let job = server.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!(
        (job["last_event_id"].as_u64(), &job["output_text"]),
        (Some(2), &json!(null)),
        "exact while running"
    );
    server.store.settle(id, failed("half"));
    let job = server.get(&format!("/v1/jobs/{id}?wait=20")).await.json();
    assert_eq!(job["error"], json!({"code":"provider_error","message":"the provider is gone"}));
    assert_eq!((job["status"].as_str(), job["output_text"].as_str()), (Some("failed"), Some("half")));
}

#[tokio::test]
async fn waiting_for_a_job_returns_at_its_end() {
    let server = Server::new();
    let id = server.job().await;
    let target = format!("/v1/jobs/{id}?wait=20");
    let (answer, ()) = tokio::join!(server.get(&target), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.store.end(id, "x");
    });
    assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("succeeded")));
}

#[tokio::test]
async fn p7_foreign_and_unknown_job_ids_both_get_404() {
    let server = Server::new();
    let foreign = server.job().await;
    server.store.end(foreign, "secret");
    server.store.give_away(foreign);
    let unknown = "job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
    for id in [foreign.to_string().as_str(), unknown, "x", "job_", "%00", "job_%0d%0a"] {
        for target in ["", "?wait=5", "/output", "/events"] {
            let answer = server.get(&format!("/v1/jobs/{id}{target}")).await;
            assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{id}{target}");
            assert!(!answer.body.contains("secret"));
        }
        let answer = server.ask(&format!("POST /v1/jobs/{id}/cancel"), &[], "").await;
        assert_eq!(answer.status, 404, "{id}");
    }
    assert_eq!(server.get("/v1/jobs").await.json()["data"], json!([]));
}

#[tokio::test]
async fn the_output_is_plain_text_or_409_without_one() {
    let server = Server::new();
    let id = server.job().await;
    let output = format!("/v1/jobs/{id}/output");
    let answer = server.get(&output).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "job_not_finished"));
    server.store.end(id, "the\nanswer\n");
    let answer = server.get(&output).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "the\nanswer\n"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));

    let id = server.job().await;
    server.store.settle(id, failed(""));
    let answer = server.get(&format!("/v1/jobs/{id}/output")).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "no_output"));
    assert!(answer.body.contains("the provider is gone"));
    let id = server.job().await;
    server.store.settle(id, failed("half"));
    let answer = server.get(&format!("/v1/jobs/{id}/output")).await;
    assert_eq!(
        (answer.status, answer.body.as_str(), answer.header("x-job-status")),
        (200, "half", Some("failed"))
    );
}

#[tokio::test]
async fn job_lists_are_paged_without_gap_or_repetition() {
    let server = Server::new();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(server.job().await.to_string());
    }
    server.store.end(ids[1].parse().expect("an id"), "x");
    ids.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for _ in 0..3 {
        let page = server.get(&format!("/v1/jobs?limit=2{cursor}")).await.json();
        assert_eq!(page["object"], "list");
        seen.extend(
            page["data"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|job| job["id"].as_str().expect("an id").to_owned()),
        );
        assert_eq!(page["has_more"].as_bool(), Some(seen.len() < 5));
        assert_eq!(page["next_cursor"].is_null(), seen.len() == 5);
        cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap_or_default());
    }
    assert_eq!(seen, ids);
    let page = server.get("/v1/jobs?status=succeeded").await.json();
    assert_eq!((page["data"].as_array().map(Vec::len), &page["data"][0]["id"]), (Some(1), &json!(ids[3])));
    for bad in [
        "limit=0",
        "limit=101",
        "limit=x",
        "status=done",
        "cursor=x",
        "cursor=",
        "status=queued&status=queued",
        "page=2",
        "metadata=team",
        "created_from=yesterday",
        "created_before=-1",
        "conversation_id=a%20b",
        "batch_id=x",
        "schedule_id=job_00000000000000000000000000",
        "model=a&model=b",
    ] {
        assert_eq!(server.get(&format!("/v1/jobs?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_job_shows_the_start_of_its_input_and_its_tools() {
    let server = Server::new();
    let long = "é".repeat(600);
    let body = json!({"input": long, "tools": ["files"]}).to_string();
    let id = server.ask("POST /v1/jobs", &[], &body).await.json()["id"].as_str().expect("an id").to_owned();
    let job = server.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!((&job["input"], &job["input_truncated"]), (&json!("é".repeat(512)), &json!(true)));
    assert_eq!(job["tools"], json!(["files"]));
    assert_eq!(server.get("/v1/jobs").await.json()["data"][0]["input"], job["input"]);
    let whole = server.get(&format!("/v1/jobs/{id}?include=input")).await.json();
    assert_eq!((&whole["input"], &whole["input_truncated"]), (&json!(long), &json!(false)));
    assert_eq!(server.get(&format!("/v1/jobs/{id}?include=output")).await.status, 400);

    let messages = json!([
        {"role": "system", "content": "brief"},
        {"role": "user", "content": "hi", "attachments": [{"name": "a.txt", "content": "x"}]},
    ]);
    let body = json!({"input": messages}).to_string();
    let id = server.ask("POST /v1/jobs", &[], &body).await.json()["id"].as_str().expect("an id").to_owned();
    let job = server.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&job["input"], &job["input_truncated"], &job["tools"]),
        (&json!("hi"), &json!(true), &json!(null))
    );
    let whole = server.get(&format!("/v1/jobs/{id}?include=input")).await.json();
    assert_eq!(whole["input"][1]["attachments"][0]["name"], "a.txt");
    assert_eq!(whole["input"][0], messages[0]);
}

#[tokio::test]
async fn job_lists_are_filtered_by_model_label_and_time() {
    let server = Server::new();
    let submit = async |body: serde_json::Value| {
        let reply = server.ask("POST /v1/jobs", &[], &body.to_string()).await;
        reply.json()["id"].as_str().expect("an id").to_owned()
    };
    let first = submit(json!({"input": "a", "metadata": {"team": "blue"}})).await;
    let second = submit(json!({"input": "b", "conversation_id": "chat"})).await;
    let ids = async |query: &str| {
        let page = server.get(&format!("/v1/jobs?{query}")).await.json();
        let jobs = page["data"].as_array().unwrap_or_else(|| panic!("{query}: {page}")).clone();
        let ids: Vec<&str> = jobs.iter().map(|job| job["id"].as_str().expect("an id")).collect();
        ids.join(" ")
    };
    assert_eq!(ids("metadata=team=blue").await, first);
    assert_eq!(ids("conversation_id=chat").await, second);
    assert_eq!(ids("model=none").await, "");
    assert_eq!(ids("created_from=1970-01-01T00:00:00Z").await, format!("{second} {first}"));
    assert_eq!(ids("created_before=0.5").await, "");
}

#[tokio::test]
async fn cancelling_a_job_is_idempotent() {
    let server = Server::new();
    let id = server.job().await;
    let cancel = format!("POST /v1/jobs/{id}/cancel");
    let (first, second) = (server.ask(&cancel, &[], "").await, server.ask(&cancel, &[], "ignored").await);
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.json()["status"], "cancelled");
    assert_eq!(first.json(), second.json());
}

#[tokio::test]
async fn an_unknown_method_is_405_and_an_unknown_path_404() {
    let server = Server::new();
    let id = server.job().await;
    for (line, status, allow) in [
        ("DELETE /v1/jobs".to_owned(), 405, Some("GET, HEAD, POST, OPTIONS")),
        (format!("PUT /v1/jobs/{id}"), 405, Some("GET, HEAD, DELETE, OPTIONS")),
        (format!("GET /v1/jobs/{id}/cancel"), 405, Some("POST, OPTIONS")),
        (format!("POST /v1/jobs/{id}/events"), 405, Some("GET, HEAD, OPTIONS")),
        ("POST /healthz".to_owned(), 405, Some("GET, HEAD, OPTIONS")),
        ("OPTIONS /v1/jobs".to_owned(), 204, Some("GET, HEAD, POST, OPTIONS")),
        ("GET /console".to_owned(), 404, None),
        ("GET /v1/jobs/".to_owned(), 404, None),
        ("GET /v1/batch".to_owned(), 404, None),
        (format!("POST /v1/jobs/{id}/again"), 404, None),
        (format!("GET /v1/jobs/{id}/output/x"), 404, None),
        ("OPTIONS *".to_owned(), 404, None),
    ] {
        let answer = server.ask(&line, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (status, allow), "{line}");
        if status != 204 {
            assert!(answer.json()["error"]["message"].is_string(), "{line}");
        }
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let server = Server::new();
    let id = server.job().await;
    for target in ["/healthz".to_owned(), format!("/v1/jobs/{id}"), format!("/v1/jobs/{id}/events")] {
        let answer = server.ask(&format!("HEAD {target}"), &[], "").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{target}");
    }
}

#[tokio::test]
async fn readiness_names_the_failed_check() {
    let server = Server::with(|app| app.probes = vec![Box::new(Told(Ok(())))]);
    let answer = server.get("/readyz").await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"status":"ok","checks":[{"name":"told","ok":true}]}))
    );
    let server = Server::with(|app| app.probes = vec![Box::new(Told(Err("no python3".into())))]);
    let answer = server.get("/readyz").await;
    let check = json!({"name":"told","ok":false,"reason":"no python3"});
    assert_eq!((answer.status, answer.json()), (503, json!({"status":"unavailable","checks":[check]})));
    assert_eq!(server.get("/healthz").await.json(), json!({"status":"ok"}));
}

#[tokio::test]
async fn a_degraded_check_is_reported_and_the_server_stays_ready() {
    let server = Server::with(|app| app.probes = vec![Box::new(Told(Ok(()))), Box::new(Short)]);
    let answer = server.get("/readyz").await;
    let checks = json!([{"name":"told","ok":true},{"name":"short","ok":true,"reason":"no room"}]);
    let degraded = json!([{"part":"short","reason":"no room"}]);
    let body = json!({"status":"degraded","checks":checks,"degraded":degraded});
    assert_eq!((answer.status, answer.json()), (200, body));
    let server = Server::with(|app| app.probes = vec![Box::new(Told(Err("gone".into()))), Box::new(Short)]);
    let answer = server.get("/readyz").await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &json!("unavailable")));
    assert_eq!(answer.json()["degraded"], degraded, "a failed check is no degraded part");
}

#[tokio::test]
async fn every_response_carries_the_id_of_its_request() {
    let server = Server::new();
    let id = server.job().await;
    for target in [
        "GET /healthz".to_owned(),
        "GET /nowhere".to_owned(),
        "DELETE /v1/jobs".to_owned(),
        format!("HEAD /v1/jobs/{id}/events"),
        "OPTIONS /v1/jobs".to_owned(),
    ] {
        let named = server.ask(&target, &["x-request-id: from-the-proxy.1"], "").await;
        assert_eq!(named.header("x-request-id"), Some("from-the-proxy.1"), "{target}");
        let generated = server.ask(&target, &[], "").await;
        assert!(generated.header("x-request-id").is_some_and(|id| id.starts_with("req_")), "{target}");
    }
    let forged = server.ask("GET /healthz", &["x-request-id: a b\"c"], "").await;
    assert!(forged.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
}

#[tokio::test]
async fn repeated_readiness_requests_cost_one_probe() {
    let (probe, clock) = (Counted::default(), HandClock::default());
    let server = Server::with(|app| {
        app.probes = vec![Box::new(probe.clone())];
        app.clock = Arc::new(clock.clone());
    });
    for _ in 0..5 {
        assert_eq!(server.get("/readyz").await.status, 200);
    }
    assert_eq!(probe.asked(), 1);
    clock.pass(1_000);
    assert_eq!(server.get("/readyz").await.status, 200);
    assert_eq!(probe.asked(), 2);
}

#[tokio::test]
async fn a_retried_job_continues_its_event_stream_after_the_old_end() {
    let server = Server::new();
    let id = server.job().await;
    let retry = format!("POST /v1/jobs/{id}/retry");
    let answer = server.ask(&retry, &[], "").await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "job_not_failed"));
    server.store.settle(id, failed("half"));
    let answer = server.ask(&retry, &[], "").await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("queued")));
    assert_eq!(answer.json()["error"], json!(null));
    server.store.end(id, "whole");
    let events = server.get(&format!("/v1/jobs/{id}/events")).await.body;
    let (error, done) = (events.find("event: error"), events.find("event: done"));
    assert!(error.is_some() && error < done, "{events}");
    assert_eq!(server.ask("POST /v1/jobs/x/retry", &[], "").await.status, 404);
}

#[tokio::test]
async fn one_idempotency_key_creates_one_job() {
    let server = Server::new();
    let post = async |key: &str, body: &str| {
        let line = format!("idempotency-key: {key}");
        server.ask("POST /v1/jobs", &[&line], body).await
    };
    let first = post("\"a-1\"", "hello").await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, None));
    let again = post("a-1", "hello").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, Some("true")));
    assert_eq!(
        (again.header("location"), &again.json()["id"]),
        (first.header("location"), &first.json()["id"])
    );
    let other = post("a-1", "hello!").await;
    assert_eq!((other.status, other.code().as_str()), (422, "idempotency_key_reused"));
    assert_eq!(post("", "hello").await.status, 400);
    assert_eq!(server.get("/v1/jobs").await.json()["data"].as_array().map(Vec::len), Some(1));
    let id: crate::domain::id::JobId = first.json()["id"].as_str().expect("an id").parse().expect("an id");
    server.store.end(id, "the answer");
    let late = post("a-1", "hello").await;
    assert_eq!((late.status, late.json()["output_text"].as_str()), (200, Some("the answer")));
    let streamed = server.ask("POST /v1/jobs?stream=true", &["idempotency-key: a-1"], "hello").await;
    assert_eq!(streamed.header("x-job-id"), first.json()["id"].as_str());
    assert!(streamed.body.contains("event: done"), "{}", streamed.body);
}

#[tokio::test]
async fn an_ended_job_can_be_deleted() {
    let server = Server::new();
    let id = server.job().await;
    let line = format!("DELETE /v1/jobs/{id}");
    let answer = server.ask(&line, &[], "").await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "job_not_ended"));
    server.store.end(id, "x");
    let answer = server.ask(&line, &[], "").await;
    assert_eq!((answer.status, answer.json()["deleted"].as_bool()), (200, Some(true)));
    assert_eq!(server.ask(&line, &[], "").await.status, 404);
    assert_eq!(server.get(&format!("/v1/jobs/{id}")).await.status, 404);
}
