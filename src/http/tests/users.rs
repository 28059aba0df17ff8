//! The administrators' API, against a real store in memory.

use crate::http::testing::{Answer, Server};
use serde_json::{Value, json};

async fn post(server: &Server, path: &str, body: &Value) -> Answer {
    server.ask(&format!("POST {path}"), &["content-type: application/json"], &body.to_string()).await
}

async fn patch(server: &Server, path: &str, body: &Value) -> Answer {
    server.ask(&format!("PATCH {path}"), &["content-type: application/json"], &body.to_string()).await
}

async fn made(server: &Server, name: &str) -> Value {
    let answer = post(server, "/api/users", &json!({"username": name, "password": "correct horse"})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["data"].clone()
}

#[tokio::test]
async fn p9_accounts_are_created_shown_and_changed_without_passwords() {
    let server = Server::new();
    let ann = made(&server, "Ann").await;
    let expected = json!({
        "id": 2, "username": "Ann", "email": null, "avatar": null, "role": "admin", "is_active": true,
        "created_at": "2023-11-14T22:13:20Z", "last_login_at": null,
        "quota": {"tokens_per_day": null, "cost_micros_per_day": null, "unfinished_jobs": null, "project_bytes": null, "stored_bytes": null},
    });
    assert_eq!(ann, expected, "the first is an administrator");
    let bob =
        json!({"username": "bob", "password": "correct horse", "email": "bob@example.org", "role": "user"});
    let bob = post(&server, "/api/users", &bob).await;
    assert_eq!((bob.status, &bob.json()["data"]["role"]), (200, &json!("user")));
    let quota = json!({"is_active": false, "quota": {"tokens_per_day": 5}, "role": "admin"});
    let now = patch(&server, "/api/users/3", &quota).await.json()["data"].clone();
    assert_eq!(
        (&now["is_active"], &now["role"], &now["quota"]["tokens_per_day"]),
        (&json!(false), &json!("admin"), &json!(5))
    );
    let kept = patch(&server, "/api/users/3", &json!({"quota": {"project_bytes": 9}})).await.json();
    assert_eq!(
        kept["data"]["quota"],
        json!({"tokens_per_day": 5, "cost_micros_per_day": null, "unfinished_jobs": null, "project_bytes": 9, "stored_bytes": null})
    );
    let reset = patch(&server, "/api/users/3", &json!({"password": "another horse"})).await;
    assert_eq!(reset.status, 200, "{}", reset.body);
    assert!(
        !reset.body.contains("argon2") && !reset.body.contains("horse") && !reset.body.contains("generation")
    );
}

#[tokio::test]
async fn accounts_are_listed_in_pages() {
    let server = Server::new();
    for number in 2..=4 {
        made(&server, &format!("user{number}")).await;
    }
    let page = server.get("/api/users?limit=3").await.json()["data"].clone();
    assert_eq!(
        (page["items"].as_array().map(Vec::len), &page["has_more"]),
        (Some(3), &json!(true)),
        "{page}"
    );
    assert_eq!(page["items"][0]["username"], "default");
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let rest = server.get(&format!("/api/users?cursor={cursor}")).await.json()["data"].clone();
    assert_eq!((&rest["items"][0]["username"], &rest["next_cursor"]), (&json!("user4"), &Value::Null));
    let named = server.get("/api/users?username=USER3").await.json()["data"]["items"].clone();
    assert_eq!((named.as_array().map(Vec::len), &named[0]["id"]), (Some(1), &json!(3)));
    assert_eq!(server.get("/api/users?username=nobody").await.json()["data"]["items"], json!([]));
}

#[tokio::test]
async fn account_request_errors_are_named_and_never_500() {
    let server = Server::new();
    made(&server, "ann").await;
    let password = "correct horse";
    for (body, status, named) in [
        (json!({}), 400, "'username'"),
        (json!({"username": "a", "password": password}), 400, "'username'"),
        (json!({"username": "bob"}), 400, "'password'"),
        (json!({"username": "bob", "password": "short"}), 400, "'password'"),
        (json!({"username": "bob", "password": 12_345_678}), 400, "'password'"),
        (json!({"username": "bob", "password": password, "email": "x"}), 400, "'email'"),
        (json!({"username": "bob", "password": password, "role": "root"}), 400, "'role'"),
        (json!({"username": "bob", "password": password, "admin": true}), 400, "admin"),
        (json!({"username": "ANN", "password": password}), 409, "taken"),
    ] {
        let answer = post(&server, "/api/users", &body).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (status, &json!(status)),
            "{body}: {}",
            answer.body
        );
        assert!(answer.body.contains(named), "{body}: {}", answer.body);
    }
    for (path, body, status) in [
        ("/api/users/2", json!({"role": "user"}), 409),
        ("/api/users/2", json!({"is_active": false}), 409),
        ("/api/users/2", json!({"is_active": "no"}), 400),
        ("/api/users/2", json!({"quota": 5}), 400),
        ("/api/users/2", json!({"username": "bob"}), 400),
        ("/api/users/9", json!({}), 404),
        ("/api/users/ann", json!({}), 404),
        ("/api/users/99999999999999999999", json!({}), 404),
    ] {
        let answer = patch(&server, path, &body).await;
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
    }
    for query in ["limit=0", "limit=101", "cursor=x", "page=1"] {
        assert_eq!(server.get(&format!("/api/users?{query}")).await.status, 400, "{query}");
    }
    let broken = server.ask("POST /api/users", &[], "{").await;
    assert_eq!(broken.status, 400);
}

#[tokio::test]
async fn an_invite_has_a_code_and_an_expiry() {
    let server = Server::new();
    let usual = server.ask("POST /api/invites", &[], "").await.json()["data"].clone();
    assert!(
        usual["code"].as_str().is_some_and(|code| code.starts_with("nci_") && code.len() == 47),
        "{usual}"
    );
    assert_eq!(usual["expires_at"], "2023-11-21T22:13:20Z");
    let short = post(&server, "/api/invites", &json!({"expires_in_s": 60})).await.json();
    assert_eq!(short["data"]["expires_at"], "2023-11-14T22:14:20Z");
    assert_eq!(post(&server, "/api/invites", &json!({"expires_in_s": 0})).await.status, 400);
}
