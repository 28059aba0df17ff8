//! Invites: listed without their codes, used once, revoked.

use super::{PASSWORD, ask, register, token, with};
use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::time::Duration;

const BY_INVITE: &str = "auth_mode: multi\nregistration: invite\n";

fn invite(server: &Server, admin: &str, body: &Value) -> (String, String) {
    let reply = with(server, admin, "POST /api/invites", body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let data = reply.json()["data"].clone();
    let text = |name: &str| data[name].as_str().expect("a text").to_owned();
    (text("id"), text("code"))
}

fn come(server: &Server, name: &str, code: &str) -> Reply {
    let body = json!({"username": name, "password": PASSWORD, "invite": code});
    ask(server, "POST /api/auth/register", &[], &body)
}

#[test]
fn p9_pending_invites_are_listed_without_codes_and_a_revoked_one_is_refused() {
    let server = Server::start_with(BY_INVITE);
    let ann = register(&server, "ann");
    let admin = token(&ann);
    let (first, code) = invite(&server, &admin, &json!({}));
    let (second, other_code) = invite(&server, &admin, &json!({"expires_in_s": 3_600}));
    let list = |query: &str| with(&server, &admin, &format!("GET /api/invites{query}"), &Value::Null);
    let ids = |data: &Value| {
        let mut ids: Vec<String> = Vec::new();
        ids.extend(data["items"].as_array().expect("items").iter().map(|each| each["id"].to_string()));
        ids
    };
    let all = list("");
    assert!(!all.body.contains("nci_") && !all.body.contains(&code), "{}", all.body);
    let data = all.json()["data"].clone();
    let mut wanted = vec![format!("\"{first}\""), format!("\"{second}\"")];
    wanted.sort();
    assert_eq!(ids(&data), wanted);
    let shown = &data["items"][0];
    let names: Vec<&String> = shown.as_object().expect("an invite").keys().collect();
    assert_eq!(names, ["id", "created_at", "expires_at", "created_by"]);
    assert!(shown["created_by"] == ann["user"]["id"] && shown["created_at"].is_string(), "{shown}");
    let page = list("?limit=1").json()["data"].clone();
    assert_eq!((ids(&page), &page["has_more"]), (wanted[..1].to_vec(), &json!(true)));
    let next = list(&format!("?cursor={}", page["next_cursor"].as_str().expect("a cursor")));
    assert_eq!(ids(&next.json()["data"]), wanted[1..]);
    for bad in ["?cursor=x", "?cursor=tok_00000000000000000000000000", "?limit=0", "?limit=x", "?lmit=1"] {
        assert_eq!(list(bad).status, 400, "{bad}");
    }
    let bob = come(&server, "bob", &code);
    assert_eq!(bob.status, 200, "{}", bob.body);
    assert_eq!(ids(&list("").json()["data"]), [format!("\"{second}\"")], "a used one is gone");
    let revoke =
        |token: &str, id: &str| with(&server, token, &format!("DELETE /api/invites/{id}"), &Value::Null);
    let bob = token(&bob.json()["data"]);
    assert_eq!(with(&server, &bob, "GET /api/invites", &Value::Null).status, 403);
    assert_eq!((revoke(&bob, &second).status, revoke(&bob, "x").status), (403, 403));
    assert_eq!(server.get("/api/invites").status, 401);
    for unknown in [first.as_str(), "inv_00000000000000000000000000", "x", &other_code, "inv_"] {
        assert_eq!(revoke(&admin, unknown).status, 404, "{unknown}");
    }
    let revoked = revoke(&admin, &second);
    assert_eq!((revoked.status, &revoked.json()["message"]), (200, &json!("revoked")));
    assert_eq!(revoke(&admin, &second).status, 404);
    let (_, short) = invite(&server, &admin, &json!({"expires_in_s": 1}));
    std::thread::sleep(Duration::from_millis(1_100));
    let (expired, refused) = (come(&server, "eve", &short), come(&server, "eve", &other_code));
    assert_eq!((refused.status, &refused.body), (403, &expired.body), "as an expired one");
    assert_eq!(list("").json()["data"]["items"], json!([]));
    let server = server.crash_and_restart(BY_INVITE);
    assert_eq!(come(&server, "eve", &other_code).status, 403);
}
