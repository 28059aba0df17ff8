//! `/v1/conversations` and responses in a conversation, as clients of `OpenAI` see them.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, tool_results};
use crate::support::{Server, against, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const CONVERSATIONS: &str = "/v1/conversations";

fn create(server: &Server, body: &Value) -> String {
    let reply = server.post(CONVERSATIONS, body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let made = reply.json();
    assert_eq!(made["object"], "conversation");
    made["id"].as_str().expect("an id").to_owned()
}

fn respond(server: &Server, conversation: &Value, input: &Value) -> Value {
    let body = json!({"model": "scripted", "conversation": conversation, "input": input});
    let reply = server.post("/v1/responses", &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn items(server: &Server, id: &str, query: &str) -> Vec<Value> {
    let reply = server.get(&format!("{CONVERSATIONS}/{id}/items?{query}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["data"].as_array().expect("a list").clone()
}

/// The texts of messages; the types of other items.
fn texts(items: &[Value]) -> Vec<String> {
    let text =
        |item: &Value| item["content"][0]["text"].as_str().or(item["type"].as_str()).map(str::to_owned);
    items.iter().map(|item| text(item).unwrap_or_else(|| panic!("{item}"))).collect()
}

fn delete(server: &Server, path: &str) -> Value {
    let reply = server.ask("DELETE", path, &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn sent(upstream: &Upstream) -> Vec<Value> {
    let request = upstream.requests().pop().expect("a request");
    request["messages"].as_array().expect("messages").clone()
}

#[test]
fn a_conversation_has_items_and_metadata_and_is_deleted_whole() {
    let server = Server::start();
    let items_of_mine = json!([
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
    ]);
    let id = create(&server, &json!({"items": items_of_mine, "metadata": {"team": "blue"}}));
    let path = format!("{CONVERSATIONS}/{id}");
    assert_eq!(server.get(&path).json()["metadata"], json!({"team": "blue"}));
    let changed = server.post(&path, &json!({"metadata": {"team": "red"}})).json();
    assert_eq!((&changed["id"], &changed["metadata"]), (&json!(id), &json!({"team": "red"})));
    let more = json!({"items": [{"role": "assistant", "content": "Hi"}]});
    let added = server.post(&format!("{path}/items"), &more).json();
    assert_eq!(added["data"][0]["content"][0]["type"], "output_text", "{added}");
    assert_eq!((&added["first_id"], &added["has_more"]), (&added["data"][0]["id"], &json!(false)));
    assert_eq!(texts(&items(&server, &id, "order=asc")), ["be brief", "Hello", "Hi"]);
    assert_eq!(texts(&items(&server, &id, "")), ["Hi", "Hello", "be brief"]);
    let newest = &items(&server, &id, "limit=1")[0];
    let after = newest["id"].as_str().expect("an id");
    assert_eq!(texts(&items(&server, &id, &format!("limit=1&after={after}&include=x"))), ["Hello"]);
    assert_eq!(server.get(&format!("{path}/items/{after}")).json(), *newest);
    assert_eq!(delete(&server, &format!("{path}/items/{after}"))["id"], json!(id));
    assert_eq!(server.get(&format!("{path}/items/{after}")).status, 404);
    assert_eq!(server.get(&format!("{path}/items?after={after}")).status, 400);
    assert_eq!(texts(&items(&server, &id, "order=asc")), ["be brief", "Hello"]);
    let gone = json!({"id": id, "object": "conversation.deleted", "deleted": true});
    assert_eq!(delete(&server, &path), gone);
    for path in [path.clone(), format!("{path}/items")] {
        assert_eq!(server.get(&path).status, 404, "{path}");
    }
}

#[test]
fn responses_of_a_conversation_run_in_order_and_read_what_is_before_them() {
    let upstream = Upstream::start(|request, _| {
        let asked = request["messages"].as_array().and_then(|messages| messages.last()).cloned();
        let text = asked.expect("a message")["content"].as_str().unwrap_or_default().to_owned();
        Answer::paced_text(&format!("re {text}"), Duration::from_millis(20))
    });
    let server = Server::start_against(&upstream, "title_model: scripted");
    let id = create(&server, &json!({"items": [{"role": "system", "content": "be brief"}]}));
    let first = respond(&server, &json!(id), &json!("one"));
    assert_eq!(first["conversation"], json!({"id": id}));
    let body =
        |input| json!({"model": "scripted", "conversation": {"id": id}, "input": input, "background": true});
    let made: Vec<Value> = ["two", "three"].map(|i| server.post("/v1/responses", &body(i)).json()).to_vec();
    wait_until("both have ended", || {
        let ended = |made: &Value| {
            let path = format!("/v1/responses/{}", made["id"].as_str().expect("an id"));
            server.get(&path).json()["status"] == "completed"
        };
        made.iter().all(ended)
    });
    let expected = ["be brief", "one", "re one", "two", "re two", "three", "re three"];
    assert_eq!(texts(&items(&server, &id, "order=asc")), expected);
    let read: Vec<Value> = sent(&upstream).iter().map(|message| message["content"].clone()).collect();
    assert_eq!(read, expected[..6].iter().map(|text| json!(text)).collect::<Vec<_>>());
    assert_eq!(upstream.requests().len(), 3, "no model writes titles of API conversations");
    let messages = server.get(&format!("/api/conversations/{id}/messages")).json();
    assert_eq!(
        messages["data"]["items"].as_array().map(Vec::len),
        Some(6),
        "the same conversation: {messages}"
    );
    let pages: Vec<String> = texts(&items(&server, &id, "limit=3"));
    assert_eq!(pages, ["re three", "three", "re two"]);
}

#[test]
fn a_deleted_item_is_not_read_again_and_the_response_keeps_it() {
    let upstream = Upstream::start(|_, number| Answer::text(&format!("answer {number}")));
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let id = create(&server, &json!({}));
    let two = json!([{"role": "user", "content": "keep"}, {"role": "user", "content": "secret"}]);
    let response = respond(&server, &json!(id), &two);
    let listed = items(&server, &id, "order=asc");
    assert_eq!(texts(&listed), ["keep", "secret", "answer 0"]);
    let path =
        |at: usize| format!("{CONVERSATIONS}/{id}/items/{}", listed[at]["id"].as_str().expect("an id"));
    delete(&server, &path(1));
    let server = server.crash_and_restart(&config);
    assert_eq!(texts(&items(&server, &id, "order=asc")), ["keep", "answer 0"]);
    respond(&server, &json!(id), &json!("next"));
    assert_eq!(
        sent(&upstream).iter().map(|m| m["content"].clone()).collect::<Vec<_>>(),
        [json!("keep"), json!("answer 0"), json!("next")]
    );
    delete(&server, &path(2));
    delete(&server, &path(0));
    assert_eq!(texts(&items(&server, &id, "order=asc")), ["next", "answer 1"]);
    respond(&server, &json!(id), &json!("last"));
    assert_eq!(sent(&upstream)[0]["content"], "next");
    let kept = server.get(&format!("/v1/responses/{}", response["id"].as_str().expect("an id"))).json();
    assert_eq!(kept["output"][0]["content"][0]["text"], "answer 0", "the response is as it was");
    assert_eq!(server.ask("DELETE", &path(0), &Value::Null).status, 404);
}

#[test]
fn a_function_call_is_answered_inside_its_conversation_after_a_crash() {
    let upstream = Upstream::start(|request, _| match tool_results(request).as_slice() {
        [] => Answer::calls(&[("weather", json!({"city": "Rome"}))]),
        results => Answer::text(&format!("{} results", results.len())),
    });
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let id = create(&server, &json!({}));
    let tools =
        json!([{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]);
    let body = json!({"model": "scripted", "conversation": id, "input": "go", "tools": tools});
    let first = server.post("/v1/responses", &body).json();
    let call = first["output"][0]["call_id"].clone();
    let server = server.crash_and_restart(&config);
    let output = json!([{"type": "function_call_output", "call_id": call, "output": "mild"}]);
    let body = json!({"model": "scripted", "conversation": id, "input": output, "tools": tools});
    let second = server.post("/v1/responses", &body);
    assert_eq!(second.json()["output"][0]["content"][0]["text"], "1 results", "{}", second.body);
    let kinds = ["go", "function_call", "function_call_output", "1 results"];
    assert_eq!(texts(&items(&server, &id, "order=asc")), kinds);
    let unknown = json!([{"type": "function_call_output", "call_id": "call_x", "output": "mild"}]);
    let reply =
        server.post("/v1/responses", &json!({"model": "scripted", "conversation": id, "input": unknown}));
    assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!("input[0].call_id")));
    // The same in items that a session of a client adds.
    let copied = json!({"items": [
        {"type": "function_call", "call_id": "c9", "name": "weather", "arguments": "{}"},
    ]});
    assert_eq!(server.post(&format!("{CONVERSATIONS}/{id}/items"), &copied).status, 200);
    let result = json!({"items": [{"type": "function_call_output", "call_id": "c9", "output": "cold"}]});
    assert_eq!(server.post(&format!("{CONVERSATIONS}/{id}/items"), &result).status, 200);
    respond(&server, &json!(id), &json!("and?"));
    let read = sent(&upstream).into_iter().filter(|message| message["role"] == "tool").collect::<Vec<_>>();
    assert_eq!(read.iter().map(|m| m["content"].clone()).collect::<Vec<_>>(), [json!("mild"), json!("cold")]);
}

#[test]
fn a_response_that_was_cut_off_by_a_crash_joins_its_conversation() {
    let upstream = Upstream::start(|_, number| {
        let mut acts = vec![Act::Data(content("one "))];
        acts.push(if number == 0 { Act::Hang } else { Act::Data(content("two")) });
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let id = create(&server, &json!({"items": [{"role": "user", "content": "before"}]}));
    let body = json!({"model": "scripted", "conversation": id, "input": "go", "background": true});
    let made = server.post("/v1/responses", &body).json();
    let path = format!("/v1/responses/{}", made["id"].as_str().expect("an id"));
    wait_until("text is there", || server.get(&path).body.contains("one "));
    assert_eq!(texts(&items(&server, &id, "")), ["before"], "it has not ended");
    let server = server.crash_and_restart(&config);
    wait_until("it has ended", || server.get(&path).json()["status"] == "completed");
    assert_eq!(texts(&items(&server, &id, "order=asc")), ["before", "go", "one two"]);
}

#[test]
fn bad_requests_are_refused_by_name() {
    let server = Server::start();
    let id = create(&server, &json!({}));
    let respond = |fields: &Value| {
        let mut body = json!({"model": "demo", "input": "x", "conversation": id});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        server.post("/v1/responses", &body)
    };
    for (fields, status, param) in [
        (json!({"conversation": "conv_unknown"}), 404, Value::Null),
        (json!({"conversation": "no such name"}), 404, Value::Null),
        (json!({"conversation": 7}), 400, json!("conversation")),
        (json!({"previous_response_id": "resp_x"}), 400, json!("conversation")),
        (json!({"store": false}), 400, json!("conversation")),
    ] {
        let reply = respond(&fields);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (status, &param), "{}", reply.body);
    }
    for (path, body, param) in [
        ("", json!({"items": [{"type": "computer_call"}]}), "items[0].type"),
        ("", json!({"metadata": {"": "x"}}), "metadata."),
        ("", json!({"colour": 1}), "colour"),
        ("/items", json!({"items": []}), "items"),
        ("/items", json!({"items": [{"role": "user"}]}), "items[0].content"),
    ] {
        let path =
            if path.is_empty() { CONVERSATIONS.to_owned() } else { format!("{CONVERSATIONS}/{id}{path}") };
        let reply = server.post(&path, &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{}", reply.body);
    }
    assert_eq!(server.get(&format!("{CONVERSATIONS}/{id}/items?limit=101")).status, 400);
}
