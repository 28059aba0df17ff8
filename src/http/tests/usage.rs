//! What was spent, as its user sees it.

use crate::http::testing::Server;
use serde_json::{Value, json};

fn dates(list: &Value) -> Vec<&str> {
    list["data"].as_array().expect("a list").iter().filter_map(|line| line["date"].as_str()).collect()
}

#[tokio::test]
async fn usage_is_listed_by_day_and_model() {
    let answer = Server::new().get("/v1/usage").await;
    assert_eq!(answer.status, 200);
    let list = answer.json();
    let line = |date, rest: Value| {
        let mut line = json!({
            "object": "usage", "date": date, "model": "demo",
            "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "jobs": 2,
        });
        if let (Value::Object(line), Value::Object(rest)) = (&mut line, rest) {
            line.extend(rest);
        }
        line
    };
    let data = [line("2023-11-13", json!({})), line("2023-11-14", json!({"cost_micros": 9}))];
    assert_eq!(list, json!({"object": "list", "data": data, "has_more": false, "next_cursor": null}));
    let older = Server::new().get("/v1/usage?from=2023-10-01&to=2023-11-13").await.json();
    assert_eq!(dates(&older), ["2023-10-05", "2023-11-13"]);
}

#[tokio::test]
async fn usage_is_grouped_by_user_or_conversation() {
    let server = Server::new();
    let users = server.get("/v1/usage?group_by=user").await.json();
    let user = json!({"object": "usage", "user_id": 1, "username": "default", "prompt_tokens": 3,
        "completion_tokens": 4, "total_tokens": 7, "jobs": 2});
    assert_eq!(users, json!({"object": "list", "data": [user], "has_more": false, "next_cursor": null}));
    let older = server.get("/v1/usage?group_by=user&from=2020-01-01&to=2020-01-02").await.json();
    assert_eq!(older["data"], json!([]));
    let conversations = server.get("/v1/usage?group_by=conversation&from=2023-10-01").await.json();
    let chat = json!({"object": "usage", "conversation_id": "chat", "title": "Sums", "prompt_tokens": 1,
        "completion_tokens": 2, "total_tokens": 3, "jobs": 1});
    assert_eq!((&conversations["data"], &conversations["has_more"]), (&json!([chat]), &json!(true)));
}

#[tokio::test]
async fn p8_invalid_days_are_reported_and_other_methods_are_refused() {
    for (query, param) in [
        ("from=soon", "from"),
        ("to=2023-13-01", "to"),
        ("from=2022-01-01", "from"),
        ("day=1", "day"),
        ("group_by=day", "group_by"),
        ("group_by=user&from=soon", "from"),
        ("conversation_id=chat&group_by=user", "group_by"),
    ] {
        let answer = Server::new().get(&format!("/v1/usage?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert_eq!(answer.json()["error"]["param"], param, "{query}");
    }
    for method in ["POST", "DELETE", "PUT"] {
        let answer = Server::new().ask(&format!("{method} /v1/usage"), &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
}
