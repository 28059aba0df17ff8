//! Messages through `/api`: streams and reloads show the same, also after disconnects, cancels and failures.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, tool_results};
use crate::support::{Event, Events, Server, against};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::chat::{begin, create, echo, fails, last_text, messages, new, say, seen, show, wait_for};

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
    let [question, answered] = found.as_slice() else { panic!("{found:?}") };
    let expected = json!({
        "id": question["id"], "conversation_id": id, "role": "user", "text": "calculate, please",
        "content": "{\"text\":\"calculate, please\"}", "token_count": 0, "created_at": question["created_at"],
    });
    assert_eq!(*question, expected);
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
    let stored: Value = serde_json::from_str(answered["content"].as_str().expect("a text")).expect("JSON");
    for (field, name) in [("text", "text"), ("tool_calls", "tool_calls"), ("steps", "process_steps")] {
        assert_eq!(stored[field], answered[name], "{field}");
    }
    let shown = show(&server, &id);
    assert_eq!((&shown["title"], &shown["message_count"]), (&json!("calculate, please"), &json!(2)));
    let request = &upstream.requests()[0];
    assert_eq!((&request["temperature"], &request["max_tokens"]), (&json!(0.25), &json!(99)));
    let system = &request["messages"][0];
    assert_eq!(system["role"], "system");
    assert!(system["content"].as_str().is_some_and(|text| text.ends_with("\n\nBe kind.")), "{system}");
    // The same stream, addressed by the message id.
    let path = format!("/api/conversations/{id}/messages/{}/events", answered["id"].as_str().expect("an id"));
    assert_eq!(seen(&server.stream(&path, 0).collect::<Vec<_>>()), seen(&events));
    fails(&server.get(&path.replace("/msg_", "/ask_")), 404, "message not found");
    let other = new(&server);
    fails(&server.get(&path.replace(&id, &other)), 404, "message not found");
}

#[test]
fn set_options_are_sent_to_the_model_and_unset_ones_are_not() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let (shown, whole) = (
        json!({"temperature": 1.0, "max_tokens": 65_536}),
        json!({"title": "t", "model": "scripted", "system_prompt": "", "temperature": 1.0,
            "max_tokens": 65_536, "thinking_enabled": false}),
    );
    let fields = ["temperature", "max_tokens", "tools"];
    let nothing = [None, None, None];
    let both = [Some(json!(1.0)), Some(json!(65_536)), None];
    // A setting counts as set when its value is the one that is shown by default, too. The settings form of
    // the front end repeats everything it was shown, which sets nothing.
    for (created, changed, expected) in [
        (json!({}), None, &nothing),
        (shown.clone(), None, &both),
        (whole.clone(), None, &both),
        (json!({}), Some(shown), &both),
        (json!({}), Some(whole), &nothing),
    ] {
        let id = create(&server, &created)["id"].as_str().expect("an id").to_owned();
        if let Some(change) = &changed {
            assert_eq!(server.ask("PATCH", &format!("/api/conversations/{id}"), change).status, 200);
        }
        say(&server, &id, &json!({"text": "hi", "tools_enabled": false}));
        let request = upstream.requests().pop().expect("a request");
        let sent = fields.map(|field| request.get(field).cloned());
        assert_eq!(&sent, expected, "{created} {changed:?}");
        let found = show(&server, &id);
        assert_eq!((&found["temperature"], &found["max_tokens"]), (&json!(1.0), &json!(65_536)));
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
    let stored: Value = serde_json::from_str(found[0]["content"].as_str().expect("a text")).expect("JSON");
    assert_eq!(stored, json!({"text": "explain", "attachments": files}));
    assert_eq!((&found[2]["text"], &found[2]["attachments"]), (&json!(""), &files));
}

/// A model that sends a few words and then hangs.
fn hanging_model() -> Upstream {
    Upstream::start(|request, _| match last_text(request).as_str() {
        "hang" => {
            Answer::stream(vec![Act::Data(content("So far ")), Act::Data(content("so good")), Act::Hang])
        }
        other => Answer::text(&format!("You said: {other}")),
    })
}

/// Reads until a text step has this content.
fn read_until_text(events: &mut Events, text: &str) {
    assert!(events.any(|event| event.data["content"] == text), "no step with the content '{text}'");
}

#[test]
fn a_partial_answer_is_kept_when_the_job_is_cancelled() {
    let server = Server::start_against(&hanging_model(), "");
    let id = new(&server);
    let (_, mut events) = begin(&server, &id, &json!({"text": "hang"}));
    read_until_text(&mut events, "So far so good");
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
    // A second message waits in the queue and is cancelled as well.
    let (second, second_stream) = begin(&server, &id, &json!({"text": "next"}));
    let cancelled = server.post(&format!("/api/conversations/{id}/cancel"), &json!({}));
    assert_eq!(cancelled.json(), json!({"code": 0, "data": {"cancelled": 2}}));
    let end = events.last().expect("an end");
    assert_eq!((end.name.as_str(), &end.data["code"]), ("error", &json!("cancelled")));
    assert_eq!(second_stream.last().expect("an end").data["code"], "cancelled");
    assert_eq!(server.wait(&second)["status"], "cancelled");
    let found = messages(&server, &id);
    assert_eq!((&found[1]["status"], &found[1]["text"]), (&json!("cancelled"), &json!("So far so good")));
    assert_eq!(found[1]["error"]["code"], "cancelled");
    assert_eq!(found[1]["process_steps"][0]["content"], "So far so good");
    let cancelled = server.post(&format!("/api/conversations/{id}/cancel"), &Value::Null);
    assert_eq!(cancelled.json()["data"]["cancelled"], 0);
    fails(&server.post("/api/conversations/nope/cancel", &json!({})), 404, "conversation not found");
    let continued = say(&server, &id, &json!({"text": "and now?"}));
    assert_eq!(continued.last().expect("an end").name, "done", "the conversation continues");
}

#[test]
fn a_partial_answer_is_kept_when_the_provider_fails() {
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
    assert_eq!((end.name.as_str(), &end.data["code"]), ("error", &json!("invalid_request")));
    let found = messages(&server, &id);
    let answer = &found[1];
    assert_eq!((&answer["status"], &answer["text"]), (&json!("failed"), &json!("Let me see. ")));
    assert_eq!(answer["process_steps"], json!(seen(&events)), "{events:?}");
    assert_eq!(
        (&answer["error"]["code"], &answer["tool_calls"][0]["success"]),
        (&json!("invalid_request"), &json!(true))
    );
    assert_eq!(show(&server, &id)["message_count"], 2);
}

#[test]
fn a_disconnect_keeps_the_job_running_unless_on_disconnect_is_cancel() {
    let (calls, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, gate) = (Arc::clone(&calls), Arc::clone(&go));
    let upstream = Upstream::start(move |_, number| {
        counted.fetch_add(1, Ordering::SeqCst);
        if number == 0 {
            let deadline = Instant::now() + Duration::from_secs(60);
            while gate.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
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
    read_until_text(&mut events, "never ");
    drop(events);
    let found = wait_for(&server, &id, "the end", |found| found[3]["status"] == "cancelled");
    assert_eq!(found[3]["text"], "never ");
    assert_eq!(server.wait(&job)["error"]["code"], "cancelled");
}

#[test]
fn a_message_does_not_recreate_a_conversation_deleted_meanwhile() {
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
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("an answer");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    let path = format!("/api/conversations/{id}");
    assert_eq!(server.ask("DELETE", &path, &Value::Null).status, 200);
    stream.write_all(body.as_bytes()).expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.trim_end().ends_with(r#"{"code":404,"message":"conversation not found"}"#), "{answer}");
    fails(&server.get(&path), 404, "conversation not found");
    assert_eq!(upstream.requests().len(), 0, "no model was called");
}

#[test]
fn regenerate_replaces_an_answer_and_removes_all_later_messages() {
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
    fails(&server.post(&path(&name(&before[3])), &json!({"text": " "})), 400, "both empty");
    let other = new(&server);
    fails(&server.post(&path(&name(&before[3])).replace(&id, &other), &json!({})), 404, "message not found");
    server.ask("PATCH", &format!("/api/conversations/{id}"), &json!({"temperature": 0.1}));
    let (reply, events) = server.open(&path(&name(&before[3])), &[], &json!({"tools_enabled": false}));
    assert_eq!(reply.status, 200);
    assert_eq!(events.last().expect("an end").name, "done");
    let after = messages(&server, &id);
    assert_eq!(after[..3], before[..3], "the earlier messages and the question stay");
    assert_eq!((after.len(), &after[3]["text"]), (4, &json!("answer 3")));
    assert_ne!(after[3]["id"], before[3]["id"]);
    let request = upstream.requests()[3].clone();
    let interim: Vec<_> =
        request["messages"].as_array().expect("messages").iter().map(|m| m["content"].clone()).collect();
    assert_eq!(interim[1..], ["one", "answer 0", "two"], "after the preamble");
    assert_eq!((&request["temperature"], request.get("tools")), (&json!(0.1), None));
    fails(&server.post(&path(&name(&before[3])), &json!({})), 404, "message not found");
    assert_eq!(show(&server, &id)["message_count"], 4);
    let ask = format!("/api/conversations/{id}/messages/{}", name(&after[2]));
    assert_eq!(server.ask("DELETE", &ask, &Value::Null).status, 200);
    fails(&server.post(&path(&name(&after[3])), &json!({})), 409, "the question was deleted");
}

#[test]
fn a_deleted_message_is_not_sent_to_models() {
    let upstream = echo();
    let server = Server::start_against(&upstream, "");
    let id = new(&server);
    say(&server, &id, &json!({"text": "secret"}));
    say(&server, &id, &json!({"text": "plain"}));
    let path = |message: &str| format!("/api/conversations/{id}/messages/{message}");
    for index in [1, 0] {
        let message = messages(&server, &id)[index]["id"].as_str().expect("an id").to_owned();
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
    let contents: Vec<_> = found.iter().map(|message| message["text"].as_str().expect("a text")).collect();
    let expected: Vec<String> =
        texts.iter().flat_map(|text| [text.clone(), format!("You said: {text}")]).collect();
    assert_eq!(contents, expected);
}

#[test]
fn an_idempotency_key_makes_one_message() {
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

#[test]
fn reasoning_that_a_local_model_writes_as_text_becomes_thinking_steps() {
    // With both tags, cut at odd places; with the closing tag only; without a stream.
    let upstream = Upstream::start(|request, _| {
        let pieces: &[&str] = match last_text(request).as_str() {
            "both" => &["<thi", "nk>\nhm", ", so\n</", "think>\n", "\nyes"],
            "closing" => &["hm, ", "so\n</thi", "nk>\n\nyes"],
            _ => {
                let message = json!({"role": "assistant", "content": "<think>hm, so</think>yes"});
                let whole = json!({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
                let headers = vec![("content-type".into(), "application/json".into())];
                return Answer { status: 200, headers, acts: vec![Act::Raw(whole.to_string())] };
            }
        };
        let mut acts: Vec<Act> = pieces.iter().map(|piece| Act::Data(content(piece))).collect();
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    let server = Server::start_against(&upstream, "");
    for form in ["both", "closing", "whole"] {
        let id = new(&server);
        let events = say(&server, &id, &json!({"text": form}));
        let steps = seen(&events);
        let parts: Vec<_> =
            steps.iter().map(|step| (step["type"].clone(), step["content"].clone())).collect();
        assert_eq!(parts, [(json!("thinking"), json!("hm, so")), (json!("text"), json!("yes"))], "{form}");
        let answered = messages(&server, &id)[1].clone();
        assert_eq!((&answered["text"], &answered["process_steps"]), (&json!("yes"), &json!(steps)), "{form}");
    }
}

#[test]
fn a_question_can_be_replaced_by_another_one_once_for_each_key() {
    let server = Server::start_against(&echo(), "");
    let id = new(&server);
    for text in ["one", "two"] {
        say(&server, &id, &json!({"text": text}));
    }
    let before = messages(&server, &id);
    let path = format!("/api/conversations/{id}/regenerate/{}", before[1]["id"].as_str().expect("an id"));
    let key = [("idempotency-key", "edit-1")];
    let file = json!({"name": "a.txt", "content": "inside"});
    let body = json!({"text": "three", "attachments": [file]});
    let (reply, events) = server.open(&path, &key, &body);
    assert_eq!((reply.status, reply.header("idempotency-replayed")), (200, None));
    assert_eq!(events.last().expect("an end").name, "done");
    let job = reply.header("x-job-id").expect("a job").to_owned();
    let after = messages(&server, &id);
    assert_eq!((after.len(), &after[0]["text"]), (2, &json!("three")), "{after:?}");
    assert!(after[1]["text"].as_str().expect("a text").contains("inside"), "{after:?}");
    assert_ne!(after[0]["id"], before[0]["id"], "it is another question");
    let server = server.crash_and_restart(&against(&echo(), ""));
    let (reply, _) = server.open(&path, &key, &body);
    assert_eq!((reply.status, reply.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(reply.header("x-job-id"), Some(job.as_str()), "although the old answer is gone");
    let (reply, _) = server.open(&path, &key, &json!({"text": "four"}));
    assert_eq!(reply.status, 422);
    assert_eq!(messages(&server, &id), after);
}
