//! Deciding about calls that wait, and what a waiting job looks like.

use crate::domain::approval::ApprovalDecision;
use crate::domain::id::JobId;
use crate::domain::tool::ToolCall;
use crate::http::testing::{Server, request};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn call(id_ref: &str) -> ToolCall {
    ToolCall { id_ref: id_ref.into(), name: "bash".into(), arguments: r#"{"command":"ls"}"#.into() }
}

/// A job that waits for two calls.
async fn waiting(server: &Server) -> JobId {
    let id = server.job().await;
    server.store.ask(id, vec![call("a"), call("b")]);
    id
}

#[tokio::test]
async fn a_waiting_job_shows_its_calls_and_its_deadline() {
    let server = Server::new();
    let (other, id) = (server.job().await, waiting(&server).await);
    let job = server.get(&format!("/v1/jobs/{id}")).await.json();
    let arguments = "{\"command\":\"ls\"}";
    let calls = [("a", "bash"), ("b", "bash")]
        .map(|(id_ref, name)| json!({"id_ref": id_ref, "name": name, "arguments": arguments}));
    assert_eq!(
        (&job["status"], &job["approval"]),
        (&json!("waiting"), &json!({"calls": calls, "expires_at": 60}))
    );
    assert_eq!(server.get(&format!("/v1/jobs/{other}")).await.json()["approval"], json!(null));
    let listed = server.get("/v1/jobs?status=waiting").await.json();
    assert_eq!(listed["data"].as_array().expect("a list").len(), 1);
    assert_eq!(listed["data"][0]["id"], json!(id));
    let deleted = server.ask(&format!("DELETE /v1/jobs/{id}"), &[], "").await;
    assert_eq!((deleted.status, deleted.code().as_str()), (409, "job_not_ended"));
}

#[tokio::test]
async fn a_decision_covers_some_or_all_calls_and_returns_the_job() {
    let server = Server::new();
    let id = waiting(&server).await;
    let denied =
        server.ask(&format!("POST /v1/jobs/{id}/deny"), &[], r#"{"calls":["a"],"reason":"no"}"#).await;
    let left = denied.json();
    assert_eq!((denied.status, &left["status"]), (200, &json!("waiting")), "{}", denied.body);
    assert_eq!(left["approval"]["calls"].as_array().map(Vec::len), Some(1));
    let approved = server.ask(&format!("POST /v1/jobs/{id}/approve"), &[], "").await;
    let queued = approved.json();
    assert_eq!(
        (approved.status, &queued["status"], &queued["approval"]),
        (200, &json!("queued"), &json!(null))
    );
    let some = ApprovalDecision {
        approve: false,
        id_refs: Some(vec!["a".into()]),
        reason: Some("no".into()),
        is_lasting: false,
    };
    let all = ApprovalDecision { approve: true, id_refs: None, reason: None, is_lasting: false };
    assert_eq!(*server.store.decisions.lock().expect("lock"), [some, all]);
}

#[tokio::test]
async fn p7_only_the_owner_decides_and_only_on_waiting_calls() {
    let server = Server::new();
    let (id, idle) = (waiting(&server).await, server.job().await);
    for act in ["approve", "deny"] {
        let early = server.ask(&format!("POST /v1/jobs/{idle}/{act}"), &[], "").await;
        assert_eq!((early.status, early.code().as_str()), (409, "job_not_waiting"));
        let strange = server.ask(&format!("POST /v1/jobs/{id}/{act}"), &[], r#"{"calls":["a","zzz"]}"#).await;
        assert_eq!((strange.status, strange.code().as_str()), (400, "not_pending"));
        assert!(strange.body.contains("zzz"), "{}", strange.body);
        for body in ["[]", r#"{"calls":[]}"#, r#"{"call":["a"]}"#, "{"] {
            let bad = server.ask(&format!("POST /v1/jobs/{id}/{act}"), &[], body).await;
            assert_eq!(bad.status, 400, "{body}");
        }
        for unknown in ["job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "x"] {
            assert_eq!(server.ask(&format!("POST /v1/jobs/{unknown}/{act}"), &[], "").await.status, 404);
        }
    }
    server.store.give_away(id);
    for act in ["approve", "deny"] {
        let foreign = server.ask(&format!("POST /v1/jobs/{id}/{act}"), &[], "").await;
        assert_eq!((foreign.status, foreign.code().as_str()), (404, "not_found"));
    }
    assert!(server.store.decisions.lock().expect("lock").is_empty());
}

#[tokio::test]
async fn a_stream_and_a_wait_stay_open_while_a_job_waits_for_approval() {
    let server = Server::new();
    let id = waiting(&server).await;
    let mut io = server.connect();
    io.write_all(&request(&format!("GET /v1/jobs/{id}/events"), &[], "")).await.expect("sends");
    let held = format!("/v1/jobs/{id}?wait=20");
    let (answer, stream) = tokio::join!(server.get(&held), async {
        let mut seen = String::new();
        let mut buffer = [0; 4096];
        while !seen.contains("event: done") {
            let reading = tokio::time::timeout(Duration::from_secs(10), io.read(&mut buffer));
            let n = reading.await.expect("in time").expect("reads");
            assert!(n > 0, "closed early: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
            if seen.contains("waiting_approval") && server.store.status(id).as_str() == "waiting" {
                server.ask(&format!("POST /v1/jobs/{id}/approve"), &[], "").await;
                server.store.end(id, "x");
            }
        }
        seen
    });
    assert_eq!(answer.json()["status"], "succeeded");
    let frame = r#""status":"waiting_approval","attempt":0,"reason":"bash (a), bash (b) wait for approval"#;
    assert!(stream.contains(frame) && stream.contains(r#""calls":["a","b"]}"#), "{stream}");
}
