//! API tokens over HTTP, against a real store in memory.

use crate::domain::account::TokenScopes;
use crate::http::auth::api_key;
use crate::http::testing::{Answer, Server};
use crate::ports::Users;
use serde_json::{Value, json};
use std::sync::Arc;

async fn post(server: &Server, path: &str, body: &Value) -> Answer {
    server.ask(&format!("POST {path}"), &["content-type: application/json"], &body.to_string()).await
}

/// A server, and what stands behind it.
fn server() -> (Server, Arc<dyn Users>) {
    let mut users = None;
    let server = Server::with(|app| users = Some(Arc::clone(&app.users)));
    (server, users.expect("its users"))
}

#[tokio::test]
async fn p9_an_api_key_is_shown_once_and_stored_as_a_digest() {
    let (server, users) = server();
    let asked = json!({"name": "ci", "scopes": ["read", "admin"], "expires_in_s": 60});
    let made = post(&server, "/api/tokens", &asked).await.json()["data"].clone();
    let key = made["key"].as_str().expect("a key").to_owned();
    assert!(key.starts_with("nck_") && key.len() == 47, "{key}");
    let kept = users.token(&api_key::digest(&key)).expect("read").expect("kept");
    assert_eq!(
        (kept.scopes, kept.name.as_str()),
        (TokenScopes { read: true, write: false, admin: true }, "ci")
    );
    let list = server.get("/api/tokens").await;
    let expected = json!([{
        "id": made["id"], "name": "ci", "scopes": ["read", "admin"], "created_at": "2023-11-14T22:13:20Z",
        "expires_at": "2023-11-14T22:14:20Z", "hint": &key[43..],
    }]);
    assert_eq!(list.json()["data"], expected);
    let id = made["id"].as_str().expect("an id");
    let gone = server.ask(&format!("DELETE /api/tokens/{id}"), &[], "").await;
    assert_eq!(gone.json(), json!({"code": 0, "message": "revoked"}));
    assert_eq!(users.token(&api_key::digest(&key)).expect("read"), None);
    for path in [&format!("/api/tokens/{id}"), "/api/tokens/tok_x", "/api/tokens/1"] {
        let answer = server.ask(&format!("DELETE {path}"), &[], "").await;
        assert_eq!(answer.json(), json!({"code": 404, "message": "token not found"}), "{path}");
    }
}

#[tokio::test]
async fn p7_administrators_create_and_revoke_tokens_of_users() {
    let (server, _) = server();
    post(&server, "/api/users", &json!({"username": "ann", "password": "correct horse"})).await;
    let made = post(&server, "/api/users/2/tokens", &json!({})).await.json()["data"].clone();
    assert_eq!((&made["name"], &made["scopes"]), (&json!(""), &json!(["read", "write"])));
    assert_eq!(server.get("/api/tokens").await.json()["data"], json!([]), "it is ann's");
    let id = made["id"].as_str().expect("an id");
    assert_eq!(server.ask(&format!("DELETE /api/tokens/{id}"), &[], "").await.status, 404);
    assert_eq!(server.get("/api/users/2/tokens").await.json()["data"][0]["id"], made["id"]);
    assert_eq!(server.ask(&format!("DELETE /api/users/2/tokens/{id}"), &[], "").await.status, 200);
    for path in ["/api/users/9/tokens", "/api/users/x/tokens"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
        assert_eq!(post(&server, path, &json!({})).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn p8_the_number_of_tokens_is_bounded() {
    let server = Server::with(|app| app.limits.tokens = 1);
    assert_eq!(post(&server, "/api/tokens", &json!({})).await.status, 200);
    let full = post(&server, "/api/tokens", &json!({})).await;
    assert_eq!((full.status, &full.json()["code"]), (429, &json!(429)));
    assert!(full.body.contains("limits.tokens"), "{}", full.body);
}
