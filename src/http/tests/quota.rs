//! Quotas, where work is handed in.

use crate::domain::account::{AuthMode, Quota};
use crate::domain::id::UserId;
use crate::http::api_key;
use crate::http::testing::Server;
use crate::ports::AccountChange;
use std::sync::Arc;

/// A server with accounts, whose one user may use so much.
async fn bounded(mode: AuthMode, quota: Quota) -> Server {
    let mut users = None;
    let mut server = Server::with(|app| {
        app.auth.mode = mode;
        app.auth.control_key_digest = Some(api_key::digest("key"));
        users = Some(Arc::clone(&app.users));
    });
    // Everyone with this key is the one user.
    server.credential = Some("authorization: Bearer key".into());
    let change = AccountChange { quota: Some(quota), ..AccountChange::default() };
    users.expect("its users").change_account(UserId::SINGLE, change).await.expect("stored");
    server
}

#[tokio::test]
async fn p8_jobs_over_the_quota_are_refused_until_one_ends() {
    let server = bounded(AuthMode::Multi, Quota { unfinished_jobs: Some(2), ..Quota::default() }).await;
    let first = server.job().await;
    server.job().await;
    let refused = server.submit(r#"{"input":"third"}"#).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"), "{}", refused.body);
    assert!(refused.body.contains("2 unfinished jobs") && refused.header("retry-after").is_some());
    assert_eq!(server.store.count(), 2, "nothing was stored");
    let batch = server.ask("POST /v1/batches", &[], r#"{"custom_id":"a","body":{"input":"x"}}"#).await;
    assert_eq!(batch.status, 429, "a batch is work as well: {}", batch.body);
    server.store.end(first, "done");
    server.job().await;
}

#[tokio::test]
async fn p1_a_repeated_idempotency_key_is_answered_despite_a_full_quota() {
    let server = bounded(AuthMode::Multi, Quota { unfinished_jobs: Some(1), ..Quota::default() }).await;
    let body = r#"{"input":"x"}"#;
    let ask =
        async |key: &str| server.ask("POST /v1/jobs", &[&format!("idempotency-key: {key}")], body).await;
    let first = ask("one").await;
    assert_eq!(first.status, 202, "{}", first.body);
    let again = ask("one").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, Some("true")), "{}", again.body);
    assert_eq!(again.header("x-job-id"), first.header("x-job-id"));
    assert_eq!(ask("two").await.status, 429, "a key that is new is new work");
    assert_eq!(server.store.count(), 1);
}

#[tokio::test]
async fn p8_schedules_and_retries_count_towards_the_quota() {
    let server = bounded(AuthMode::Multi, Quota { unfinished_jobs: Some(0), ..Quota::default() }).await;
    let order = r#"{"name":"n","cron":"0 0 * * *","job":{"input":"x"}}"#;
    let schedule = server.ask("POST /v1/schedules", &[], order).await;
    assert_eq!((schedule.status, schedule.code().as_str()), (429, "rate_limited"), "{}", schedule.body);
    let job = crate::domain::id::JobId::from_bits(1);
    let retry = server.ask(&format!("POST /v1/jobs/{job}/retry"), &[], "").await;
    assert_eq!((retry.status, retry.code().as_str()), (429, "rate_limited"), "{}", retry.body);
}

#[tokio::test]
async fn p8_an_exhausted_token_quota_refuses_jobs_until_midnight() {
    // The usage of today, by the tests' books, is 7 tokens; yesterday's 7 do not count.
    for (most, status) in [(7, 429), (8, 202)] {
        let server = bounded(AuthMode::Multi, Quota { tokens_per_day: Some(most), ..Quota::default() }).await;
        let answer = server.submit(r#"{"input":"x"}"#).await;
        assert_eq!(answer.status, status, "{most}: {}", answer.body);
        if status == 429 {
            // 22:13:20.123 by the tests' clock.
            assert_eq!(answer.header("retry-after"), Some("6400"));
        }
    }
}

#[tokio::test]
async fn single_mode_has_no_quota() {
    let zero = Some(0);
    let none = Quota {
        unfinished_jobs: zero,
        tokens_per_day: zero,
        cost_micros_per_day: zero,
        project_bytes: zero,
        stored_bytes: zero,
    };
    let server = bounded(AuthMode::Single, none).await;
    server.job().await;
}
