//! Deliveries as their owner sees them, and what a `webhook_url` may be.

use crate::domain::id::{DeliveryId, JobId, UserId};
use crate::domain::webhook::{AfterAttempt, Delivery, DeliveryAttempt, WebhookSubject, WebhookUrl};
use crate::http::testing::{MemoryOutbox, Server};
use serde_json::json;
use std::sync::Arc;

/// Delivery 1 is pending, 2 delivered, 3 dead, 4 somebody else's.
fn outbox() -> Arc<MemoryOutbox> {
    let outbox = MemoryOutbox::default();
    for (bits, user, next) in [
        (1, UserId::SINGLE, AfterAttempt::Retry { at_ms: 7_000 }),
        (2, UserId::SINGLE, AfterAttempt::Delivered),
        (3, UserId::SINGLE, AfterAttempt::Dead),
        (4, UserId(2), AfterAttempt::Dead),
    ] {
        let url = WebhookUrl::try_from("https://x.test/hook?token=s3cret".to_owned()).expect("a URL");
        let (id, subject) = (DeliveryId::from_bits(bits), WebhookSubject::Job(JobId::from_bits(bits)));
        let mut delivery = Delivery::new(id, user, subject, url, 5_000);
        delivery.take(
            &DeliveryAttempt { status: Some(500), error: Some("the receiver answered 500".into()), next },
            6_000,
        );
        outbox.0.lock().expect("lock").insert(id, delivery);
    }
    Arc::new(outbox)
}

fn server() -> Server {
    Server::with(|app| app.outbox = outbox())
}

fn id(bits: u128) -> String {
    DeliveryId::from_bits(bits).to_string()
}

#[tokio::test]
async fn p9_a_delivery_is_shown_without_the_query_of_its_url() {
    let answer = server().get(&format!("/v1/webhooks/{}", id(1))).await;
    assert_eq!(
        answer.json(),
        json!({
            "id": id(1), "object": "webhook_delivery", "state": "pending", "url": "https://x.test/hook?***",
            "subject": JobId::from_bits(1).to_string(), "tries": 1, "created_at": 5, "next_try_at": 7,
            "last_status": 500, "last_error": "the receiver answered 500",
        })
    );
}

#[tokio::test]
async fn p7_delivery_lists_contain_own_items_newest_first_in_pages() {
    let server = server();
    let ids = |answer: serde_json::Value| -> Vec<String> {
        let data = answer["data"].as_array().expect("a list").clone();
        data.iter().map(|d| d["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(server.get("/v1/webhooks").await.json()), [id(3), id(2), id(1)]);
    assert_eq!(ids(server.get("/v1/webhooks?state=dead").await.json()), [id(3)]);
    let page = server.get("/v1/webhooks?limit=2").await.json();
    assert_eq!((&page["has_more"], &page["next_cursor"]), (&json!(true), &json!(id(2))));
    assert_eq!(ids(server.get(&format!("/v1/webhooks?cursor={}", id(2))).await.json()), [id(1)]);
    for bad in ["state=deed", "limit=0", "cursor=x", "status=dead"] {
        assert_eq!(server.get(&format!("/v1/webhooks?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn p7_foreign_and_unknown_deliveries_both_get_404() {
    let server = server();
    for id in [id(4).as_str(), id(9).as_str(), "x", "whd_", "job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
        assert_eq!(server.get(&format!("/v1/webhooks/{id}")).await.status, 404, "{id}");
        assert_eq!(server.ask(&format!("POST /v1/webhooks/{id}/retry"), &[], "").await.status, 404, "{id}");
    }
}

#[tokio::test]
async fn a_dead_delivery_is_retried_and_a_delivered_one_is_not() {
    let server = server();
    let retry = |bits| {
        let line = format!("POST /v1/webhooks/{}/retry", id(bits));
        let server = &server;
        async move { server.ask(&line, &[], "").await }
    };
    let answer = retry(3).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!((&answer.json()["state"], &answer.json()["tries"]), (&json!("pending"), &json!(0)));
    let answer = retry(2).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "already_delivered"));
    assert_eq!(server.get(&format!("/v1/webhooks/{}/retry", id(3))).await.status, 405);
}

#[tokio::test]
async fn p9_a_forbidden_webhook_url_is_refused_at_once() {
    let server = Server::new();
    let submit = |url: &str| {
        let (server, body) = (&server, json!({"input": "x", "webhook_url": url}).to_string());
        async move { server.submit(&body).await }
    };
    for private in ["http://127.0.0.1/x", "https://[::1]:8443/", "http://10.1.2.3", "http://169.254.169.254/"]
    {
        let answer = submit(private).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "address_not_allowed"), "{private}");
        assert!(answer.body.contains("webhooks.allow_private_addresses"), "{}", answer.body);
    }
    for bad in ["", "example.com", "ftp://x.test/", "https://u:p@x.test/", "https://x.test/a b"] {
        let answer = submit(bad).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_value"), "{bad}");
    }
    let answer = submit("https://x.test/hook?token=s3cret").await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let spec = server.store.new_job(server.store.newest_id()).spec;
    assert_eq!(spec.webhook_url.expect("kept").reveal(), "https://x.test/hook?token=s3cret");
    assert!(!answer.body.contains("s3cret"));
}
