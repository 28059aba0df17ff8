//! Chat completions that were created with `store: true`: listed, shown, changed and deleted.

use crate::support::Server;
use crate::support::upstream::{Answer, Upstream};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn ask(server: &Server, text: &str, fields: &Value) -> Value {
    let messages = json!([{"role": "system", "content": "be kind"}, {"role": "user", "content": text}]);
    let mut body = json!({"model": "scripted", "messages": messages});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let reply = server.post(CHAT, &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    serde_json::from_str(&reply.body).unwrap_or(Value::Null)
}

fn stored(server: &Server, text: &str) -> String {
    let made = ask(server, text, &json!({"store": true, "metadata": {"topic": text}}));
    made["id"].as_str().expect("an id").to_owned()
}

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().expect("a list").iter().filter_map(|entry| entry["id"].as_str()).collect()
}

#[test]
fn stored_completions_are_listed_and_shown_after_a_restart_and_others_are_not() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let server = Server::start_against(&upstream, "");
    let whole = ask(&server, "a", &json!({"store": true, "metadata": {"topic": "a"}}));
    let (one, two) = (whole["id"].as_str().expect("an id").to_owned(), stored(&server, "b"));
    ask(&server, "streamed", &json!({"store": true, "stream": true}));
    let other = ask(&server, "not stored", &json!({}))["id"].clone();
    let response = server.post("/v1/responses", &json!({"model": "scripted", "input": "x"})).json();
    let job = response["id"].as_str().expect("an id").replace("resp_", "chatcmpl-");
    let server = server.crash_and_restart(&crate::support::against(&upstream, ""));
    let list = server.get(CHAT).json();
    assert_eq!((&list["object"], ids(&list).len()), (&json!("list"), 3), "{list}");
    assert_eq!(ids(&list)[..2], [one.as_str(), two.as_str()], "oldest first");
    assert_eq!((&list["first_id"], &list["has_more"]), (&json!(one), &json!(false)), "{list}");
    let mut expected = whole;
    expected["metadata"] = json!({"topic": "a"});
    assert_eq!(list["data"][0], expected);
    assert_eq!(server.get(&format!("{CHAT}/{one}")).json(), expected);
    let page = server.get(&format!("{CHAT}?limit=1&order=desc")).json();
    assert_eq!((ids(&page).len(), &page["has_more"]), (1, &json!(true)), "{page}");
    let newest = page["last_id"].as_str().expect("an id");
    assert_eq!(ids(&server.get(&format!("{CHAT}?order=desc&after={newest}")).json()), [&*two, &*one]);
    assert_eq!(ids(&server.get(&format!("{CHAT}?model=demo")).json()), [""; 0]);
    for missing in [other.as_str().expect("an id"), &job, "chatcmpl-x", "x"] {
        assert_eq!(server.get(&format!("{CHAT}/{missing}")).status, 404, "{missing}");
    }
    for (query, param) in [
        ("after=x", "after"),
        ("limit=0", "limit"),
        ("order=up", "order"),
        ("metadata%5Ba%5D=b", "metadata[a]"),
    ] {
        let refused = server.get(&format!("{CHAT}?{query}"));
        assert_eq!(
            (refused.status, &refused.json()["error"]["param"]),
            (400, &json!(param)),
            "{}",
            refused.body
        );
    }
}

#[test]
fn the_messages_of_a_stored_completion_are_pages() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let server = Server::start_against(&upstream, "");
    let id = stored(&server, "a");
    let list = server.get(&format!("{CHAT}/{id}/messages")).json();
    let said: Vec<(&Value, &Value)> = list["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|message| (&message["role"], &message["content"]))
        .collect();
    assert_eq!(said, [(&json!("system"), &json!("be kind")), (&json!("user"), &json!("a"))]);
    let after = list["first_id"].as_str().expect("an id");
    let rest = server.get(&format!("{CHAT}/{id}/messages?after={after}&limit=1")).json();
    assert_eq!(
        (ids(&rest).len(), &rest["data"][0]["role"], &rest["has_more"]),
        (1, &json!("user"), &json!(false))
    );
    let newest = server.get(&format!("{CHAT}/{id}/messages?order=desc")).json();
    assert_eq!(newest["data"][0]["role"], "user");
}

#[test]
fn metadata_is_replaced_and_a_deleted_completion_is_gone() {
    let upstream = Upstream::start(|_, _| Answer::text("hello"));
    let server = Server::start_against(&upstream, "");
    let id = stored(&server, "a");
    let path = format!("{CHAT}/{id}");
    let changed = server.post(&path, &json!({"metadata": {"topic": "z", "more": "1"}}));
    assert_eq!((changed.status, &changed.json()["metadata"]), (200, &json!({"topic": "z", "more": "1"})));
    assert_eq!(server.get(&path).json(), changed.json());
    let job = server.get(&format!("/v1/jobs/{}", id.trim_start_matches("chatcmpl-"))).json();
    assert_eq!(job["metadata"], json!({"topic": "z", "more": "1"}), "one set of labels");
    let refused = server.post(&path, &json!({"metadata": {}, "model": "x"}));
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("model")),
        "{}",
        refused.body
    );
    let deleted = server.request(("DELETE", &path), &[], "");
    let expected = json!({"id": id, "object": "chat.completion.deleted", "deleted": true});
    assert_eq!((deleted.status, deleted.json()), (200, expected));
    for (method, body) in [("GET", ""), ("DELETE", ""), ("POST", "{\"metadata\":{}}")] {
        let headers = [("content-type", "application/json")];
        assert_eq!(server.request((method, &path), &headers, body).status, 404, "{method}");
    }
    assert_eq!(ids(&server.get(CHAT).json()), [""; 0]);
}
