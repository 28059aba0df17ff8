//! `POST /v1/jobs`.

use crate::domain::job::JobStatus;
use crate::domain::message::Message;
use crate::http::testing::{Server, request};
use crate::ports::{StoreError, SubmitError};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_json_job_is_stored_and_shown_as_documented() {
    let server = Server::new();
    let answer = server.submit(r#"{"input":"hello","metadata":{"k":"v"},"conversation_id":"c"}"#).await;
    let id = server.store.newest_id();
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("location"), Some(format!("/v1/jobs/{id}").as_str()));
    assert_eq!(answer.header("x-job-id"), Some(id.to_string().as_str()));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let usage = json!({"prompt_tokens":0,"completion_tokens":0,"total_tokens":0});
    assert_eq!(
        answer.json(),
        json!({"id":id.to_string(),"object":"job","status":"queued","attempt":0,"created_at":1_700_000_000,
            "started_at":null,"finished_at":null,"model":"demo","conversation_id":"c","parent_id":null,"project_id":null,"batch_id":null,"schedule_id":null,
            "input":"hello","input_truncated":false,"tools":null,"output_text":null,
            "usage":usage,"error":null,"approval":null,"waits_for":null,"after":[],"on_failure":"fail","deadline_at":null,"expires_at":null,
            "max_cost_micros":null,"metadata":{"k":"v"},"last_event_id":1,"log_head":null})
    );
}

#[tokio::test]
async fn a_body_of_another_type_is_a_job_if_it_is_an_object_else_a_prompt() {
    let server = Server::new();
    let form = "content-type: application/x-www-form-urlencoded";
    for (headers, body, prompt) in [
        (vec![form], "What is 2+2?", "What is 2+2?"),
        (vec![], "{broken", "{broken"),
        (vec!["content-type: text/plain"], "[1,2]", "[1,2]"),
        (vec![form], r#" {"input":"from json"}"#, "from json"),
        (vec![], "line\n", "line\n"),
    ] {
        let answer = server.ask("POST /v1/jobs", &headers, body).await;
        assert_eq!(answer.status, 202, "{body}: {}", answer.body);
        let job = server.store.new_job(server.store.newest_id());
        assert_eq!(job.spec.input, [Message::user(prompt)]);
    }
    let answer = server.ask("POST /v1/jobs", &[form], r#"{"inptu":"x"}"#).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "unknown_field"), "an object is read as a job");
}

#[tokio::test]
async fn a_body_announced_as_json_must_be_an_object() {
    let server = Server::new();
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    for body in [
        "hello",
        "[]",
        "1",
        "null",
        r#"{"input":"\ud800"}"#,
        r#"{"input":1e999}"#,
        &deep,
        "{\"input\":\"a\u{1}\"}",
        &format!(r#"{{"input":{deep}}}"#),
        r#"{"input":"x"} trailing"#,
        r#"{"input":"x",}"#,
    ] {
        let json = ["content-type: Application/JSON; charset=utf-8"];
        let answer = server.ask("POST /v1/jobs", &json, body).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["type"].as_str()),
            (400, Some("invalid_request_error")),
            "{body}"
        );
    }
    assert_eq!(server.store.count(), 0);
}

#[tokio::test]
async fn empty_and_non_utf8_bodies_are_refused() {
    let server = Server::new();
    assert_eq!(server.ask("POST /v1/jobs", &[], "").await.status, 400);
    assert_eq!(server.ask("POST /v1/jobs", &[], " \n").await.status, 400);
    let mut bytes = request("POST /v1/jobs", &["content-length: 2"], "");
    bytes.extend([0xff, 0xfe]);
    assert_eq!(server.raw(bytes).await.status, 400);
    assert_eq!(server.store.count(), 0);
}

#[tokio::test]
async fn invalid_queries_store_no_job() {
    let server = Server::new();
    for query in [
        "wait=601",
        "wait=-1",
        "wait=1.5",
        "wait=",
        "wait=1&wait=1",
        "stream=yes",
        "stream=true&wait=1",
        "wiat=1",
        "format=x",
        "wait=%zz",
    ] {
        let answer = server.ask(&format!("POST /v1/jobs?{query}"), &[], "hi").await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.json()["error"]["message"].is_string());
    }
    assert_eq!(server.store.count(), 0);
}

#[tokio::test]
async fn wait_answers_200_after_the_end_and_202_at_the_timeout() {
    let server = Server::new();
    let (answer, ()) = tokio::join!(server.ask("POST /v1/jobs?wait=20", &[], "hi"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let id = server.store.newest_id();
        server.store.say(id, 0, "not yet the end");
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.store.end(id, "the answer");
    });
    assert_eq!(answer.status, 200);
    let job = answer.json();
    assert_eq!(
        (job["status"].as_str(), job["output_text"].as_str()),
        (Some("succeeded"), Some("the answer"))
    );
    assert_eq!(job["last_event_id"], 3);
    let answer = server.ask("POST /v1/jobs?wait=1", &[], "hi").await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("queued")));
}

#[tokio::test]
async fn store_errors_map_to_their_status() {
    let server = Server::new();
    for (error, status, code, retry) in [
        (StoreError::Busy.into(), 503, "busy", true),
        (StoreError::Recovering.into(), 503, "recovering", true),
        (SubmitError::QueueFull { limit: 5 }, 429, "queue_full", true),
        (StoreError::Misplaced.into(), 503, "store_moved", true),
        (StoreError::Closed.into(), 503, "shutting_down", true),
        (StoreError::Full.into(), 507, "disk_full", false),
        (StoreError::Corrupt("page 7".into()).into(), 500, "damaged_data", false),
    ] {
        *server.store.refuse.lock().expect("lock") = Some(error);
        let answer = server.ask("POST /v1/jobs", &[], "hi").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
        assert_eq!(answer.header("retry-after").is_some(), retry, "{code}");
        assert!(!answer.body.contains("page 7"));
    }
}

#[tokio::test]
async fn a_streamed_submission_returns_the_event_stream_with_the_job_id() {
    let server = Server::new();
    let ((answer, by_accept), ()) = tokio::join!(
        async {
            let asked =
                server.ask("POST /v1/jobs?stream=true", &["accept: application/x-ndjson"], "hi").await;
            (asked, server.ask("POST /v1/jobs", &["accept: text/event-stream"], "ho").await)
        },
        async {
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                server.store.end(server.store.newest_id(), "");
            }
        }
    );
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    assert!(answer.header("x-job-id").is_some_and(|id| id.starts_with("job_")));
    assert_eq!(answer.body.lines().count(), 2);
    assert_eq!(by_accept.header("content-type"), Some("text/event-stream"));
    assert!(by_accept.body.starts_with("retry: 1000\nid: 1\nevent: status\n"), "{}", by_accept.body);
}

/// Streams a submission, leaves after the first bytes, and returns how the job stands a moment later.
async fn left_alone(server: &Server, on_disconnect: &str) -> JobStatus {
    let mut io = server.connect();
    let body = format!(r#"{{"input":"x","on_disconnect":"{on_disconnect}"}}"#);
    io.write_all(&request("POST /v1/jobs?stream=true", &[], &body)).await.expect("sends");
    io.read_exact(&mut [0; 16]).await.expect("the stream begins");
    drop(io);
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.store.status(server.store.newest_id())
}

#[tokio::test]
async fn a_disconnected_client_cancels_only_with_on_disconnect_cancel() {
    let server = Server::new();
    assert_eq!(left_alone(&server, "cancel").await, JobStatus::Cancelled);
    assert_eq!(left_alone(&server, "continue").await, JobStatus::Queued);
}

#[tokio::test]
async fn a_completed_stream_does_not_cancel_the_job() {
    let server = Server::new();
    let body = r#"{"input":"x","on_disconnect":"cancel"}"#;
    let (_, ()) = tokio::join!(server.ask("POST /v1/jobs?stream=true", &[], body), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.store.end(server.store.newest_id(), "fine");
    });
    assert_eq!(server.store.status(server.store.newest_id()), JobStatus::Succeeded);
}

const CANCEL: &str = r#"{"input":"x","on_disconnect":"cancel"}"#;

#[tokio::test]
async fn a_client_that_disconnects_before_the_response_cancels_the_job() {
    let server = Server::new();
    *server.store.unanswered.lock().expect("lock") = Some(Vec::new());
    let mut io = server.connect();
    io.write_all(&request("POST /v1/jobs?stream=true", &[], CANCEL)).await.expect("sends");
    while server.store.count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*server.store.cancels.lock().expect("lock"), 0);
    drop(io);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.store.status(server.store.newest_id()), JobStatus::Cancelled);
}

#[tokio::test]
async fn only_a_possibly_stored_submission_is_cancelled() {
    let server = Server::new();
    for (error, cancels) in [
        (StoreError::Busy.into(), 0),
        (SubmitError::QueueFull { limit: 5 }, 0),
        (StoreError::Closed.into(), 0),
        (StoreError::Io("the commit may have landed".into()).into(), 1),
    ] {
        *server.store.refuse.lock().expect("lock") = Some(error.clone());
        *server.store.cancels.lock().expect("lock") = 0;
        let answer = server.ask("POST /v1/jobs?stream=true", &[], CANCEL).await;
        assert!(answer.status >= 400);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(*server.store.cancels.lock().expect("lock"), cancels, "{error}");
    }
}
