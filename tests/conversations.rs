//! `/api/conversations` as its front end uses it: what is streamed is what a reload shows, whoever stays or leaves.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts processes and waits for them"
)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::upstream::{Act, Answer, Upstream, content, reasoning, tool_results};
use support::{Event, Events, Server};

/// Calculates once when asked to, and echoes what it was told last.
fn echo() -> Upstream {
    Upstream::start(|request, _| {
        let asked = last_text(request);
        if asked.contains("calculate") && tool_results(request).is_empty() {
            let mut answer = Answer::calls(&[("calculator", json!({"expression": "6*7"}))]);
            answer.acts.insert(0, Act::Data(content("Let me see. ")));
            answer.acts.insert(0, Act::Data(reasoning("hm")));
            return answer;
        }
        Answer::text(&format!("You said: {asked}"))
    })
}

/// What the user said last.
fn last_text(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let said = messages.iter().rev().find(|message| message["role"] == "user");
    said.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

fn create(server: &Server, body: &Value) -> Value {
    let reply = server.post("/api/conversations", body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let object = reply.json();
    assert_eq!(object["code"], 0);
    object["data"].clone()
}

fn new(server: &Server) -> String {
    create(server, &json!({}))["id"].as_str().expect("an id").to_owned()
}

/// Sends a message and reads its stream to the end.
fn say(server: &Server, conversation: &str, body: &Value) -> Vec<Event> {
    let (reply, events) = begin(server, conversation, body);
    assert!(reply.starts_with("job_"), "{reply}");
    events.collect()
}

/// Sends a message: its job, and its stream.
fn begin(server: &Server, conversation: &str, body: &Value) -> (String, Events) {
    let path = format!("/api/conversations/{conversation}/messages");
    let (reply, events) = server.open(&path, &[], body);
    assert_eq!(reply.status, 200, "{:?}", events.collect::<Vec<_>>());
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    (reply.header("x-job-id").expect("a job").to_owned(), events)
}

fn page(server: &Server, path: &str) -> Value {
    let reply = server.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    reply.json()["data"].clone()
}

fn messages(server: &Server, conversation: &str) -> Vec<Value> {
    let page = page(server, &format!("/api/conversations/{conversation}/messages"));
    page["items"].as_array().expect("items").clone()
}

fn show(server: &Server, conversation: &str) -> Value {
    page(server, &format!("/api/conversations/{conversation}"))
}

/// The steps that a client has at the end of a stream: the newest frame of each id, without those that were discarded.
fn seen(events: &[Event]) -> Vec<Value> {
    let mut steps = BTreeMap::new();
    for event in events {
        let key = || {
            let name = event.data["id"].as_str().and_then(|id| id.strip_prefix("step-"));
            name.and_then(|number| number.parse::<u64>().ok()).expect("a step")
        };
        match event.name.as_str() {
            "process_step" => drop(steps.insert(key(), event.data.clone())),
            "step_discarded" => drop(steps.remove(&key())),
            _ => {}
        }
    }
    steps.into_values().collect()
}

/// Waits until the conversation looks as it should.
fn wait_for(server: &Server, conversation: &str, what: &str, is: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = messages(server, conversation);
        if is(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come: {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn fails(reply: &support::Reply, status: u16, says: &str) {
    let object = reply.json();
    assert_eq!((reply.status, &object["code"]), (status, &json!(status)), "{}", reply.body);
    let message = object["message"].as_str().expect("a message");
    assert!(message.contains(says), "'{says}' is not in: {message}");
}

#[test]
fn a_conversation_has_its_settings_and_they_change() {
    let server = Server::start_against(&echo(), "");
    let made = create(&server, &json!({}));
    assert!(made["id"].as_str().is_some_and(|id| id.starts_with("conv_")), "{made}");
    let expected = json!({
        "id": made["id"], "title": "", "model": "scripted", "system_prompt": "", "temperature": 1.0,
        "max_tokens": 65_536, "thinking_enabled": false, "message_count": 0,
        "created_at": made["created_at"], "updated_at": made["updated_at"],
    });
    assert_eq!(made, expected, "and nothing that is null");
    let path = format!("/api/conversations/{}", made["id"].as_str().expect("an id"));
    let change = json!({"title": "Étude", "system_prompt": "Be kind.", "temperature": 0.5, "max_tokens": 77,
        "thinking_enabled": true, "model": "demo", "project_id": null});
    let changed = server.ask("PATCH", &path, &change).json()["data"].clone();
    for field in ["title", "system_prompt", "temperature", "max_tokens", "thinking_enabled", "model"] {
        assert_eq!(changed[field], change[field], "{field}");
    }
    assert_eq!(page(&server, &path), changed);
    assert_eq!(server.ask("PATCH", &path, &Value::Null).json()["data"]["title"], "Étude", "nothing is named");
    assert_eq!(server.ask("DELETE", &path, &Value::Null).json(), json!({"code": 0, "message": "deleted"}));
    for method in ["GET", "PATCH", "DELETE"] {
        fails(&server.ask(method, &path, &Value::Null), 404, "conversation not found");
    }
    fails(&server.get("/api/conversations/a%20b"), 404, "conversation not found");
}

#[test]
fn p8_wrong_fields_are_named() {
    let server = Server::start_against(&echo(), "");
    let id = new(&server);
    let path = format!("/api/conversations/{id}");
    for (body, says) in [
        (json!({"title": 7}), "'title'"),
        (json!({"title": "x".repeat(256)}), "'title'"),
        (json!({"model": "gpt-9"}), "'gpt-9' is not configured"),
        (json!({"temperature": "hot"}), "'temperature'"),
        (json!({"temperature": 3}), "'temperature'"),
        (json!({"max_tokens": -5}), "'max_tokens'"),
        (json!({"thinking_enabled": "yes"}), "'thinking_enabled'"),
        (json!({"system_prompt": ["x"]}), "'system_prompt'"),
        (json!({"project_id": 4}), "'project_id'"),
        (json!({"colour": "red"}), "unknown field 'colour'"),
        (json!(["x"]), "must be a JSON object"),
    ] {
        fails(&server.ask("PATCH", &path, &body), 400, says);
        fails(&server.post("/api/conversations", &body), 400, says);
    }
    fails(&server.post("/api/conversations", &json!({"project_id": "nope"})), 404, "project not found");
    let messages = format!("{path}/messages");
    for (body, says) in [
        (json!({}), "'text'"),
        (json!({"text": "  ", "attachments": []}), "'text'"),
        (json!({"text": 1}), "'text'"),
        (json!({"text": "x", "attachments": [{"name": "a"}]}), "'content'"),
        (json!({"text": "x", "tools_enabled": 1}), "'tools_enabled'"),
    ] {
        fails(&server.post(&messages, &body), 400, says);
    }
    fails(&server.post(&messages, &json!({"text": "x", "project_id": "nope"})), 404, "project not found");
    for query in
        ["limit=abc", "limit=-5", "limit=0", "limit=101", "cursor=a%20b", "cursor=1.2.3", "cursor=nope"]
    {
        fails(
            &server.get(&format!("/api/conversations?{query}")),
            400,
            query.split('=').next().expect("a name"),
        );
    }
    for query in ["limit=x", "cursor=conv_1", "page=2"] {
        fails(&server.get(&format!("{messages}?{query}")), 400, query.split('=').next().expect("a name"));
    }
    fails(&server.get("/api/conversations/nope/messages"), 404, "conversation not found");
    assert!(messages_are_none(&server, &id), "nothing of this was stored");
}

fn messages_are_none(server: &Server, id: &str) -> bool {
    messages(server, id).is_empty() && show(server, id)["message_count"] == 0
}

#[test]
fn a_reload_shows_the_same_steps_as_the_stream() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let id =
        create(&server, &json!({"system_prompt": "Be kind.", "temperature": 0.25, "max_tokens": 99}))["id"]
            .as_str()
            .expect("an id")
            .to_owned();
    let events = say(&server, &id, &json!({"text": "calculate, please"}));
    let done = events.last().expect("an end");
    assert_eq!((done.name.as_str(), &done.data["suggested_title"]), ("done", &json!("calculate, please")));
    let kinds: Vec<_> = seen(&events).iter().map(|step| step["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_call", "tool_result", "text"]);
    let found = messages(&server, &id);
    let [asked, answered] = found.as_slice() else { panic!("{found:?}") };
    let words = json!({
        "id": asked["id"], "conversation_id": id, "role": "user", "text": "calculate, please",
        "content": "{\"text\":\"calculate, please\"}", "token_count": 0, "created_at": asked["created_at"],
    });
    assert_eq!(*asked, words);
    assert_eq!(answered["process_steps"], json!(seen(&events)));
    assert_eq!(answered["id"], done.data["message_id"]);
    assert_eq!((&answered["role"], &answered["status"]), (&json!("assistant"), &json!("succeeded")));
    assert_eq!(
        (&answered["token_count"], &answered["model"]),
        (&done.data["token_count"], &json!("scripted"))
    );
    assert_eq!(answered["text"], "You said: calculate, please");
    let call = &answered["tool_calls"][0];
    assert_eq!(
        (&call["type"], &call["success"], &call["skipped"]),
        (&json!("function"), &json!(true), &json!(false))
    );
    let function = json!({"name": "calculator", "arguments": "{\"expression\":\"6*7\"}"});
    assert_eq!((&call["function"], call["execution_time"].is_number()), (&function, true));
    assert!(call["result"].as_str().is_some_and(|result| result.contains("42")), "{call}");
    let kept: Value = serde_json::from_str(answered["content"].as_str().expect("a text")).expect("JSON");
    for (field, name) in [("text", "text"), ("tool_calls", "tool_calls"), ("steps", "process_steps")] {
        assert_eq!(kept[field], answered[name], "{field}");
    }
    let shown = show(&server, &id);
    assert_eq!((&shown["title"], &shown["message_count"]), (&json!("calculate, please"), &json!(2)));
    let request = &upstream.requests()[0];
    assert_eq!((&request["temperature"], &request["max_tokens"]), (&json!(0.25), &json!(99)));
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "Be kind."}));
    // The stream once more, by the message's name.
    let path = format!("/api/conversations/{id}/messages/{}/events", answered["id"].as_str().expect("an id"));
    assert_eq!(seen(&server.stream(&path, 0).collect::<Vec<_>>()), seen(&events));
    fails(&server.get(&path.replace("/msg_", "/ask_")), 404, "message not found");
    let other = new(&server);
    fails(&server.get(&path.replace(&id, &other)), 404, "message not found");
}

#[test]
fn what_nobody_has_set_is_not_sent() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    // As the front end hands back what it was shown.
    let id = create(&server, &json!({"temperature": 1.0, "max_tokens": 65_536}))["id"].clone();
    say(&server, id.as_str().expect("an id"), &json!({"text": "hi", "tools_enabled": false}));
    let request = &upstream.requests()[0];
    for field in ["temperature", "max_tokens", "max_completion_tokens", "tools"] {
        assert!(request.get(field).is_none(), "{field}: {request}");
    }
}

#[test]
fn files_reach_the_model_as_fenced_blocks() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    let files = json!([{"name": "a.py", "extension": "py", "content": "print(1)\n"}]);
    say(&server, &id, &json!({"text": "explain", "attachments": files}));
    say(&server, &id, &json!({"attachments": files}));
    let block = "Attached file `a.py`:\n```py\nprint(1)\n```";
    let texts: Vec<String> = upstream.requests().iter().map(last_text).collect();
    assert_eq!(texts, [format!("explain\n\n{block}"), block.to_owned()]);
    let found = messages(&server, &id);
    assert_eq!((&found[0]["text"], &found[0]["attachments"]), (&json!("explain"), &files));
    let kept: Value = serde_json::from_str(found[0]["content"].as_str().expect("a text")).expect("JSON");
    assert_eq!(kept, json!({"text": "explain", "attachments": files}));
    assert_eq!((&found[2]["text"], &found[2]["attachments"]), (&json!(""), &files));
}

/// Says a few words and then nothing more.
fn hanging() -> Upstream {
    Upstream::start(|request, _| match last_text(request).as_str() {
        "hang" => {
            Answer::stream(vec![Act::Data(content("So far ")), Act::Data(content("so good")), Act::Hang])
        }
        other => Answer::text(&format!("You said: {other}")),
    })
}

/// Reads until a text step stands whole.
fn until_text(events: &mut Events, text: &str) {
    assert!(events.any(|event| event.data["content"] == text), "'{text}' never came");
}

#[test]
fn a_partial_answer_stays_when_it_is_cancelled() {
    let server = Server::start_against(&hanging(), "");
    let id = new(&server);
    let (_, mut events) = begin(&server, &id, &json!({"text": "hang"}));
    until_text(&mut events, "So far so good");
    let running = messages(&server, &id);
    assert_eq!((&running[1]["status"], &running[1]["text"]), (&json!("running"), &json!("So far so good")));
    let answer = running[1]["id"].as_str().expect("an id").to_owned();
    for path in
        [format!("messages/{answer}"), format!("messages/{}", running[0]["id"].as_str().expect("an id"))]
    {
        fails(
            &server.ask("DELETE", &format!("/api/conversations/{id}/{path}"), &Value::Null),
            409,
            "running",
        );
    }
    let again = format!("/api/conversations/{id}/regenerate/{answer}");
    fails(&server.post(&again, &json!({})), 409, "has not ended");
    // A second message waits for its turn, and is cancelled as well.
    let (second, behind) = begin(&server, &id, &json!({"text": "next"}));
    let cancelled = server.post(&format!("/api/conversations/{id}/cancel"), &json!({}));
    assert_eq!(cancelled.json(), json!({"code": 0, "data": {"cancelled": 2}}));
    let end = events.last().expect("an end");
    assert_eq!((end.name.as_str(), &end.data["code"]), ("error", &json!("cancelled")));
    assert_eq!(behind.last().expect("an end").data["code"], "cancelled");
    assert_eq!(server.wait(&second)["status"], "cancelled");
    let found = messages(&server, &id);
    assert_eq!((&found[1]["status"], &found[1]["text"]), (&json!("cancelled"), &json!("So far so good")));
    assert_eq!(found[1]["error"]["code"], "cancelled");
    assert_eq!(found[1]["process_steps"][0]["content"], "So far so good");
    let cancelled = server.post(&format!("/api/conversations/{id}/cancel"), &Value::Null);
    assert_eq!(cancelled.json()["data"]["cancelled"], 0);
    fails(&server.post("/api/conversations/nope/cancel", &json!({})), 404, "conversation not found");
    let spoken = say(&server, &id, &json!({"text": "and now?"}));
    assert_eq!(spoken.last().expect("an end").name, "done", "the conversation goes on");
}

#[test]
fn a_partial_answer_stays_when_the_provider_fails() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            let mut answer = Answer::calls(&[("calculator", json!({"expression": "1+1"}))]);
            answer.acts.insert(0, Act::Data(content("Let me see. ")));
            return answer;
        }
        Answer {
            status: 400,
            ..Answer::stream(vec![Act::Raw("{\"error\":{\"message\":\"no\"}}".to_owned())])
        }
    });
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    let events = say(&server, &id, &json!({"text": "go"}));
    let end = events.last().expect("an end");
    assert_eq!((end.name.as_str(), &end.data["code"]), ("error", &json!("provider_error")));
    let found = messages(&server, &id);
    let answer = &found[1];
    assert_eq!((&answer["status"], &answer["text"]), (&json!("failed"), &json!("Let me see. ")));
    assert_eq!(answer["process_steps"], json!(seen(&events)), "{events:?}");
    assert_eq!(
        (&answer["error"]["code"], &answer["tool_calls"][0]["success"]),
        (&json!("provider_error"), &json!(true))
    );
    assert_eq!(show(&server, &id)["message_count"], 2);
}

#[test]
fn whoever_leaves_finds_the_answer_and_whoever_leaves_to_stop_has_stopped_it() {
    let (asked, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen_asked, gate) = (Arc::clone(&asked), Arc::clone(&go));
    let upstream = Upstream::start(move |_, number| {
        seen_asked.fetch_add(1, Ordering::SeqCst);
        if number == 0 {
            let patience = Instant::now() + Duration::from_secs(60);
            while gate.load(Ordering::SeqCst) == 0 && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
            return Answer::text("here it is");
        }
        Answer::stream(vec![Act::Data(content("never ")), Act::Hang])
    });
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    let (job, events) = begin(&server, &id, &json!({"text": "hi"}));
    drop(events);
    go.store(1, Ordering::SeqCst);
    assert_eq!(server.wait(&job)["status"], "succeeded");
    assert_eq!(messages(&server, &id)[1]["text"], "here it is");
    let (job, mut events) = begin(&server, &id, &json!({"text": "hi", "on_disconnect": "cancel"}));
    until_text(&mut events, "never ");
    drop(events);
    let found = wait_for(&server, &id, "the end", |found| found[3]["status"] == "cancelled");
    assert_eq!(found[3]["text"], "never ");
    assert_eq!(server.wait(&job)["error"]["code"], "cancelled");
}

#[test]
fn a_message_to_a_conversation_that_is_deleted_meanwhile_does_not_bring_it_back() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    let body = json!({"text": "still there?"}).to_string();
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let length = body.len();
    let head = format!(
        "POST /api/conversations/{id}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sends");
    // The server asks for the body when it has found the conversation.
    let mut told = [0; 25];
    stream.read_exact(&mut told).expect("an answer");
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    let path = format!("/api/conversations/{id}");
    assert_eq!(server.ask("DELETE", &path, &Value::Null).status, 200);
    stream.write_all(body.as_bytes()).expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.trim_end().ends_with(r#"{"code":404,"message":"conversation not found"}"#), "{answer}");
    fails(&server.get(&path), 404, "conversation not found");
    assert_eq!(upstream.requests().len(), 0, "nobody was asked");
}

#[test]
fn another_answer_takes_the_place_of_the_old_one_and_all_behind_it() {
    let count = Arc::new(AtomicUsize::new(0));
    let number = Arc::clone(&count);
    let upstream = Upstream::start(move |_, _| {
        Answer::text(&format!("answer {}", number.fetch_add(1, Ordering::SeqCst)))
    });
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    for text in ["one", "two", "three"] {
        say(&server, &id, &json!({"text": text}));
    }
    let before = messages(&server, &id);
    assert_eq!(before.len(), 6);
    let name = |message: &Value| message["id"].as_str().expect("an id").to_owned();
    let path = |message: &str| format!("/api/conversations/{id}/regenerate/{message}");
    fails(
        &server.post(&path(&name(&before[2])), &json!({})),
        400,
        "only an assistant message can be regenerated",
    );
    fails(&server.post(&path("msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"), &json!({})), 404, "message not found");
    fails(&server.post(&path("nope"), &json!({})), 404, "message not found");
    fails(&server.post(&path(&name(&before[3])), &json!({"text": "x"})), 400, "unknown field 'text'");
    let other = new(&server);
    fails(&server.post(&path(&name(&before[3])).replace(&id, &other), &json!({})), 404, "message not found");
    server.ask("PATCH", &format!("/api/conversations/{id}"), &json!({"temperature": 0.1}));
    let (reply, events) = server.open(&path(&name(&before[3])), &[], &json!({"tools_enabled": false}));
    assert_eq!(reply.status, 200);
    assert_eq!(events.last().expect("an end").name, "done");
    let after = messages(&server, &id);
    assert_eq!(after[..3], before[..3], "what came before it, and its question, stay");
    assert_eq!((after.len(), &after[3]["text"]), (4, &json!("answer 3")));
    assert_ne!(after[3]["id"], before[3]["id"]);
    let request = upstream.requests()[3].clone();
    let told: Vec<_> =
        request["messages"].as_array().expect("messages").iter().map(|m| m["content"].clone()).collect();
    assert_eq!(told, ["one", "answer 0", "two"]);
    assert_eq!((&request["temperature"], request.get("tools")), (&json!(0.1), None));
    fails(&server.post(&path(&name(&before[3])), &json!({})), 404, "message not found");
    assert_eq!(show(&server, &id)["message_count"], 4);
    let ask = format!("/api/conversations/{id}/messages/{}", name(&after[2]));
    assert_eq!(server.ask("DELETE", &ask, &Value::Null).status, 200);
    fails(&server.post(&path(&name(&after[3])), &json!({})), 409, "the question was deleted");
}

#[test]
fn a_deleted_message_is_gone_for_models_as_well() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    say(&server, &id, &json!({"text": "secret"}));
    say(&server, &id, &json!({"text": "plain"}));
    let path = |message: &str| format!("/api/conversations/{id}/messages/{message}");
    for place in [1, 0] {
        let message = messages(&server, &id)[place]["id"].as_str().expect("an id").to_owned();
        let deleted = server.ask("DELETE", &path(&message), &Value::Null).json();
        assert_eq!(deleted, json!({"code": 0, "message": "deleted"}));
        let again = server.get(&format!("{}/events", path(&message)));
        fails(&again, 404, "message not found");
        fails(&server.ask("DELETE", &path(&message), &Value::Null), 404, "message not found");
    }
    assert_eq!(server.ask("DELETE", &path("temp_123"), &Value::Null).json()["message"], "deleted");
    let foreign = path("temp_123").replace(&id, "nope");
    fails(&server.ask("DELETE", &foreign, &Value::Null), 404, "conversation not found");
    fails(&server.ask("DELETE", &path("nope"), &Value::Null), 404, "message not found");
    let texts: Vec<_> = messages(&server, &id).iter().map(|message| message["text"].clone()).collect();
    assert_eq!(texts, ["plain", "You said: plain"]);
    say(&server, &id, &json!({"text": "what do you know?"}));
    let request = upstream.requests().pop().expect("a request");
    assert!(!request.to_string().contains("secret"), "{request}");
    assert!(request.to_string().contains("plain"));
}

#[test]
fn messages_of_one_conversation_are_answered_in_order() {
    let server = Server::start_against(&echo(), "");
    let id = new(&server);
    let texts: Vec<String> = (0..6).map(|number| format!("number {number}")).collect();
    let streams: Vec<Events> =
        texts.iter().map(|text| begin(&server, &id, &json!({"text": text})).1).collect();
    for (stream, text) in streams.into_iter().zip(&texts) {
        let events: Vec<Event> = stream.collect();
        assert_eq!(seen(&events)[0]["content"], format!("You said: {text}"));
    }
    let found = messages(&server, &id);
    let spoken: Vec<_> = found.iter().map(|message| message["text"].as_str().expect("a text")).collect();
    let expected: Vec<String> =
        texts.iter().flat_map(|text| [text.clone(), format!("You said: {text}")]).collect();
    assert_eq!(spoken, expected);
}

#[test]
fn a_message_sent_twice_with_one_key_is_one_message() {
    let server = Server::start_against(&echo(), "");
    let id = new(&server);
    let path = format!("/api/conversations/{id}/messages");
    let send = |text: &str| server.open(&path, &[("idempotency-key", "k1")], &json!({"text": text}));
    let (first, events) = send("hi");
    let first_events: Vec<Event> = events.collect();
    let (second, events) = send("hi");
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.header("x-job-id"), second.header("x-job-id"));
    assert_eq!(seen(&events.collect::<Vec<_>>()), seen(&first_events));
    assert_eq!(send("ho").0.status, 422);
    assert_eq!(messages(&server, &id).len(), 2);
}

/// All items of a list, page by page; `between` is done after each page.
fn walk(server: &Server, path: &str, limit: usize, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut all, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = page(server, &format!("{path}?limit={limit}{cursor}"));
        let items = page["items"].as_array().expect("items");
        assert!(items.len() <= limit);
        all.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        assert_eq!(page["has_more"] == true, page["next_cursor"].is_string(), "{page}");
        between(pages);
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[test]
fn pages_are_right_while_rows_are_added() {
    let server = Server::start_against(&echo(), "");
    let mut made: Vec<String> = (0..7).map(|_| new(&server)).collect();
    let late = std::cell::RefCell::new(Vec::new());
    let found = walk(&server, "/api/conversations", 3, |_| late.borrow_mut().push(new(&server)));
    made.reverse();
    assert_eq!(found, made, "newest first; those that were made meanwhile stand before the first page");
    let all = walk(&server, "/api/conversations", 4, |_| {});
    assert_eq!(all.len(), 7 + late.borrow().len());
    let behind = page(&server, &format!("/api/conversations?cursor={}", made[4]));
    let rest: Vec<_> =
        behind["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect();
    assert_eq!(rest, made[5..], "an id means behind it");
    let id = &made[6];
    for number in 0..4 {
        say(&server, id, &json!({"text": format!("number {number}")}));
    }
    assert_eq!(page(&server, "/api/conversations?limit=1")["items"][0]["id"], **id, "it has changed last");
    let path = format!("/api/conversations/{id}/messages");
    let before: Vec<_> =
        messages(&server, id).iter().map(|m| m["id"].as_str().expect("an id").to_owned()).collect();
    let found = walk(&server, &path, 3, |page| {
        if page == 0 {
            say(&server, id, &json!({"text": "one more"}));
        }
    });
    let (old, fresh) = found.split_at(before.len());
    assert_eq!((old, fresh.len()), (before.as_slice(), 2), "oldest first, and what was added comes last");
}

#[test]
fn a_model_that_is_gone_is_told_and_the_conversation_can_have_another() {
    let upstream = echo();
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start_in(dir.path(), &support::against(&upstream, ""));
    let id = create(&server, &json!({"model": "demo"}))["id"].as_str().expect("an id").to_owned();
    assert!(server.terminate().success());
    let without =
        format!("default_model: scripted\nmodels:\n  - {{id: scripted, api_url: \"{}/v1\"}}\n", upstream.url);
    let server = Server::start_in(dir.path(), &without);
    let path = format!("/api/conversations/{id}");
    fails(
        &server.post(&format!("{path}/messages"), &json!({"text": "hi"})),
        400,
        "model 'demo' is not configured",
    );
    server.ask("PATCH", &path, &json!({"model": "scripted"}));
    assert_eq!(say(&server, &id, &json!({"text": "hi"})).last().expect("an end").name, "done");
}

#[test]
fn tools_are_told_as_models_are_told() {
    let server = Server::start();
    let told = page(&server, "/api/tools");
    let tools = told["tools"].as_array().expect("tools");
    assert_eq!(told["total"], tools.len());
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert!(names.contains(&"calculator") && names.contains(&"execute_python"), "{names:?}");
    for tool in tools {
        assert_eq!(
            (&tool["type"], &tool["function"]["parameters"]["type"]),
            (&json!("function"), &json!("object"))
        );
        assert!(tool["function"]["description"].is_string());
    }
}

#[test]
fn statistics_have_every_hour_and_day_and_tell_models_apart() {
    let server = Server::start_against(&echo(), "");
    let nothing = page(&server, "/api/stats/tokens?period=daily");
    assert_eq!((&nothing["total_tokens"], &nothing["by_model"]), (&json!(0), &json!({})));
    for model in ["scripted", "demo"] {
        let id = create(&server, &json!({"model": model}))["id"].as_str().expect("an id").to_owned();
        say(&server, &id, &json!({"text": "hi"}));
    }
    // Midnight may pass between two requests: the last week has both days.
    let week = page(&server, "/api/stats/tokens?period=weekly");
    assert_eq!(week["by_model"]["scripted"], json!({"prompt": 10, "completion": 5, "total": 15}));
    assert!(week["by_model"]["demo"]["total"].as_u64().is_some_and(|total| total > 0));
    let days = week["daily"].as_object().expect("days");
    let sum: u64 = days.values().filter_map(|day| day["total"].as_u64()).sum();
    assert_eq!((days.len(), json!(sum)), (7, week["total_tokens"].clone()));
    let shown = (days.keys().next().cloned(), days.keys().next_back().cloned());
    assert_eq!(
        shown,
        (week["start_date"].as_str().map(str::to_owned), week["end_date"].as_str().map(str::to_owned))
    );
    let month = page(&server, "/api/stats/tokens?period=monthly&tz=Asia/Kolkata");
    assert_eq!(month["daily"].as_object().expect("days").len(), 30);
    assert_eq!(month["total_tokens"], week["total_tokens"]);
    let day = page(&server, "/api/stats/tokens?tz=Europe/Berlin");
    let hours = day["hourly"].as_object().expect("hours");
    assert_eq!((day["period"].as_str(), hours.len()), (Some("daily"), 24));
    for query in ["user_id=1", "user_id=all"] {
        let same = page(&server, &format!("/api/stats/tokens?period=monthly&{query}"));
        assert_eq!(same["total_tokens"], week["total_tokens"], "{query}");
    }
    assert_eq!(page(&server, "/api/stats/tokens?period=monthly&user_id=2")["total_tokens"], 0);
    for (query, says) in
        [("period=yearly", "invalid period"), ("tz=Mars/Base", "'Mars/Base'"), ("user_id=x", "'user_id'")]
    {
        fails(&server.get(&format!("/api/stats/tokens?{query}")), 400, says);
    }
}
