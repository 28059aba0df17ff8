//! `GET /v1/responses` as a WebSocket.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, tool_results};
use crate::support::web_socket::{Incoming, ResponseSocket, create};
use crate::support::{Server, against, wait_until};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

const RESPONSES: &str = "/v1/responses";
const ACCOUNTS: &str = "auth_mode: multi\nlimits: {user_requests_per_minute: 0}\n";

fn last_response(events: &[Value]) -> &Value {
    &events.last().expect("events")["response"]
}

fn id_of(events: &[Value]) -> String {
    last_response(events)["id"].as_str().unwrap_or_else(|| panic!("{events:?}")).to_owned()
}

fn text_of(events: &[Value]) -> &str {
    last_response(events)["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{events:?}"))
}

/// The events of a stored response, read over HTTP.
fn stored_events(server: &Server, id: &str, after: Option<u64>) -> Vec<Value> {
    let after = after.map(|after| format!("&starting_after={after}")).unwrap_or_default();
    let body = server.get(&format!("{RESPONSES}/{id}?stream=true{after}")).body;
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

fn job_of(id: &str) -> &str {
    id.strip_prefix("resp_").expect("an id")
}

/// Says one word and hangs, if the question has "hang"; else echoes the number of messages.
fn counting() -> Upstream {
    Upstream::start(|request, _| {
        let messages = request["messages"].as_array().expect("messages");
        if messages.last().is_some_and(|last| last.to_string().contains("hang")) {
            return Answer::stream(vec![Act::Data(content("one ")), Act::Hang]);
        }
        Answer::text(&format!("{} messages", messages.len()))
    })
}

#[test]
fn responses_follow_each_other_and_have_the_events_of_the_route() {
    let upstream = counting();
    let server = Server::start_against(&upstream, "");
    let mut socket = ResponseSocket::open(&server);
    let first = socket.ask(&json!({}));
    let numbers: Vec<u64> = first.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..first.len() as u64).collect::<Vec<_>>());
    assert_eq!((text_of(&first), &first[0]["type"]), ("1 messages", &json!("response.created")));
    assert_eq!(stored_events(&server, &id_of(&first), None), first);
    let second = socket.ask(&json!({"input": "more", "previous_response_id": id_of(&first)}));
    assert_eq!(text_of(&second), "3 messages");
    // Sent before the one before it has ended.
    for _ in 0..3 {
        socket.send_json(&create(&json!({"previous_response_id": id_of(&second)})));
    }
    for _ in 0..3 {
        assert_eq!(text_of(&socket.events()), "5 messages");
    }
}

#[test]
fn a_function_call_is_handed_back_and_continued() {
    let upstream = Upstream::start(|request, _| match tool_results(request).as_slice() {
        [] => Answer::calls(&[("weather", json!({"city": "Rome"}))]),
        results => Answer::text(&format!("{} results", results.len())),
    });
    let server = Server::start_against(&upstream, "");
    let tools =
        json!([{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]);
    for is_stored in [true, false] {
        let mut socket = ResponseSocket::open(&server);
        let first = socket.ask(&json!({"tools": tools, "store": is_stored}));
        let call = &last_response(&first)["output"][0];
        assert_eq!(call["name"], "weather", "{call}");
        let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "mild"}]);
        let second = json!({
            "input": output, "previous_response_id": id_of(&first), "tools": tools, "store": is_stored,
        });
        assert_eq!(text_of(&socket.ask(&second)), "1 results");
    }
}

#[test]
fn a_connection_keeps_its_last_response_even_if_that_is_not_stored() {
    let upstream = counting();
    let server = Server::start_against(&upstream, "");
    let mut socket = ResponseSocket::open(&server);
    let missing = (400, "previous_response_not_found".to_owned());
    let after = |id: &str| json!({"store": false, "previous_response_id": id});
    let first = id_of(&socket.ask(&json!({"store": false})));
    assert_eq!(server.get(&format!("{RESPONSES}/{first}")).status, 404);
    assert_eq!(ResponseSocket::open(&server).refusal(&after(&first)), missing, "of another connection");
    let events = socket.ask(&after(&first));
    assert_eq!(text_of(&events), "3 messages");
    let second = id_of(&events);
    wait_until("the first is gone", || server.get(&format!("/v1/jobs/{}", job_of(&first))).status == 404);
    assert_eq!(socket.refusal(&after(&first)), missing, "only the last is kept");
    assert_eq!(text_of(&socket.ask(&after(&second))), "5 messages");
    // A continuation that fails leaves nothing to continue.
    let third = id_of(&socket.ask(&json!({"store": false})));
    let mut failing = after(&third);
    failing["model"] = "no-such-model".into();
    assert_eq!(socket.refusal(&failing), (404, "model_not_found".to_owned()));
    assert_eq!(socket.refusal(&after(&third)), missing);
    let last = id_of(&socket.ask(&json!({"store": false})));
    drop(socket);
    wait_until("the last is gone", || server.get(&format!("/v1/jobs/{}", job_of(&last))).status == 404);
}

#[test]
fn an_unstored_response_that_ended_is_deleted_although_its_client_did_not_read_the_end() {
    // An answer that no socket buffer holds: its text comes five times.
    let upstream = Upstream::start(|_, _| Answer::text(&"x".repeat(3_500_000)));
    let server = Server::start_against(&upstream, "");
    let jobs = || server.get("/v1/jobs").json()["data"].as_array().expect("jobs").clone();
    let has_one_that_ended = || {
        let jobs = jobs();
        jobs.len() == 1 && jobs.iter().all(|job| job["status"] == "succeeded")
    };
    let mut socket = ResponseSocket::open(&server);
    socket.send_json(&create(&json!({"store": false})));
    wait_until("the job ends", has_one_that_ended);
    socket.cut();
    wait_until("the job of the WebSocket is gone", || jobs().is_empty());

    let body = json!({"model": "scripted", "input": "go", "store": false, "stream": true}).to_string();
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut http = TcpStream::connect(address).expect("connects");
    let length = body.len();
    write!(http, "POST {RESPONSES} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}")
        .expect("sent");
    wait_until("the job ends", has_one_that_ended);
    drop(http);
    wait_until("the job of the stream is gone", || jobs().is_empty());
}

#[test]
fn an_error_is_an_event_and_the_connection_goes_on() {
    let upstream = counting();
    let server = Server::start_against(&upstream, "");
    let mut socket = ResponseSocket::open(&server);
    for bad in ["", "{", "[]", "7", r#"{"type": "response.create", "input": NaN}"#] {
        socket.send(Message::text(bad));
        let error = socket.event();
        assert_eq!((&error["type"], &error["status"]), (&json!("error"), &json!(400)), "{bad}: {error}");
        assert_eq!(error["error"]["code"], "invalid_request", "{error}");
    }
    for (fields, status, code) in [
        (json!({"type": "response.cancel"}), 400, "invalid_value"),
        (json!({"background": true}), 400, "unsupported_parameter"),
        (json!({"stream": false}), 400, "unsupported_parameter"),
        (json!({"no_such_field": 1}), 400, "unsupported_parameter"),
        (json!({"model": null}), 400, "missing_required_parameter"),
        (json!({"model": "no-such-model"}), 404, "model_not_found"),
        (json!({"previous_response_id": "resp_x"}), 400, "previous_response_not_found"),
    ] {
        assert_eq!(socket.refusal(&fields), (status, code.to_owned()), "{fields}");
    }
    socket.send(Message::Ping("still there?".into()));
    assert_eq!(text_of(&socket.ask(&json!({}))), "1 messages");
}

#[test]
fn what_is_no_message_ends_the_connection_with_a_code() {
    let upstream = counting();
    let server = Server::start_against(&upstream, "limits: {body_bytes: 65536}");
    let mut socket = ResponseSocket::open(&server);
    socket.send(Message::binary(vec![123, 125]));
    assert_eq!(socket.next(), Incoming::Closed(1003));
    let mut socket = ResponseSocket::open(&server);
    socket.send_json(&create(&json!({"input": "x".repeat(70_000)})));
    let error = socket.event();
    assert_eq!((&error["status"], &error["error"]["code"]), (&json!(413), &json!("body_too_large")));
    assert_eq!(socket.next(), Incoming::Closed(1009));
}

#[test]
fn what_is_no_websocket_is_told_what_to_do() {
    let server = Server::start();
    let plain = server.get(RESPONSES);
    assert_eq!((plain.status, plain.header("upgrade")), (426, Some("websocket")), "{}", plain.body);
    assert!(plain.body.contains("POST /v1/responses"), "{}", plain.body);
    let refused = |headers: &[(&str, &str)]| match ResponseSocket::open_with(&server, headers) {
        Ok(_) => 101,
        Err((status, _)) => status,
    };
    let own = server.url.clone();
    assert_eq!(refused(&[("origin", &own)]), 101);
    for (headers, status) in [
        (("origin", "http://evil.example"), 403),
        (("origin", "null"), 403),
        (("host", "evil.example"), 403),
        (("sec-fetch-site", "cross-site"), 403),
        (("sec-websocket-version", "8"), 426),
        (("idempotency-key", "once"), 400),
        (("nanoclaw-priority", "high"), 400),
    ] {
        assert_eq!(refused(&[headers]), status, "{headers:?}");
    }
}

#[test]
fn a_client_that_leaves_cancels_only_what_is_not_stored() {
    let upstream = counting();
    let server = Server::start_against(&upstream, "");
    for (is_stored, expected) in [(false, "cancelled"), (true, "running")] {
        let mut socket = ResponseSocket::open(&server);
        socket.send_json(&create(&json!({"input": "hang", "store": is_stored})));
        let id = socket.event()["response"]["id"].as_str().expect("an id").to_owned();
        while socket.event()["type"] != "response.output_text.delta" {}
        socket.cut();
        let path = format!("/v1/jobs/{}", job_of(&id));
        if is_stored {
            std::thread::sleep(Duration::from_millis(300));
        } else {
            wait_until("the job has ended", || server.get(&path).json()["status"] != "running");
        }
        assert_eq!(server.get(&path).json()["status"], expected);
    }
}

#[test]
fn a_response_goes_on_over_http_after_a_crash() {
    let upstream = Upstream::start(|_, number| {
        let mut acts = vec![Act::Data(content("one ")), Act::Data(content("two "))];
        acts.push(if number == 0 { Act::Hang } else { Act::Data(content("three")) });
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let mut socket = ResponseSocket::open(&server);
    socket.send_json(&create(&json!({})));
    let mut seen = vec![socket.event()];
    let id = seen[0]["response"]["id"].as_str().expect("an id").to_owned();
    while seen.last().expect("events")["type"] != "response.output_text.delta" {
        seen.push(socket.event());
    }
    let server = server.crash_and_restart(&config);
    while let Incoming::Event(event) = socket.next() {
        seen.push(event);
    }
    let newest = seen.last().expect("events")["sequence_number"].as_u64().expect("a number");
    seen.extend(stored_events(&server, &id, Some(newest)));
    assert_eq!(stored_events(&server, &id, None), seen);
    assert_eq!(last_response(&seen)["status"], "completed");
    let next = json!({"previous_response_id": id});
    assert_eq!(last_response(&ResponseSocket::open(&server).ask(&next))["status"], "completed");
}

#[test]
fn connections_do_not_wait_for_each_other() {
    let upstream = counting();
    let server = Server::start_against(&upstream, "");
    let mut sockets = [ResponseSocket::open(&server), ResponseSocket::open(&server)];
    sockets[0].send_json(&create(&json!({"input": "hang"})));
    assert_eq!(text_of(&sockets[1].ask(&json!({}))), "1 messages");
    wait_until("one stream is open", || server.get("/metrics").body.contains("nanoclaw_sse_connections 1\n"));
}

fn register(server: &Server, name: &str) -> String {
    let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
    server.register(&body).json()["data"]["token"].as_str().expect("a token").to_owned()
}

fn mint(server: &Server, session: &str, scopes: &Value) -> String {
    let headers = [("authorization", &*format!("Bearer {session}")), ("content-type", "application/json")];
    let made = server.request(
        ("POST", "/api/tokens"),
        &headers,
        &json!({"name": "k", "scopes": scopes}).to_string(),
    );
    made.json()["data"]["key"].as_str().unwrap_or_else(|| panic!("{}", made.body)).to_owned()
}

#[test]
fn p7_users_cannot_continue_responses_of_others() {
    let server = Server::start_with(ACCOUNTS);
    let open = |credential: &str| {
        ResponseSocket::open_with(&server, &[("authorization", &format!("Bearer {credential}"))])
    };
    let refused = |credential: &str| open(credential).err().map(|(status, _)| status);
    register(&server, "root");
    let (ann, bob) = (register(&server, "ann"), register(&server, "bob"));
    let demo = |fields: Value| {
        let mut fields = fields;
        fields["model"] = "demo".into();
        fields
    };
    let mut anns = open(&ann).expect("Ann's");
    let stored = id_of(&anns.ask(&demo(json!({}))));
    let kept = id_of(&anns.ask(&demo(json!({"store": false}))));
    let mut bobs = open(&bob).expect("Bob's");
    for id in [stored, kept] {
        let refusal = bobs.refusal(&demo(json!({"previous_response_id": id})));
        assert_eq!(refusal, (400, "previous_response_not_found".to_owned()));
    }
    assert_eq!(ResponseSocket::open_with(&server, &[]).err().map(|(status, _)| status), Some(401));
    assert_eq!(refused("nonsense"), Some(401));
    let cookie = format!("nanoclaw_session={ann}");
    assert!(ResponseSocket::open_with(&server, &[("cookie", &cookie), ("origin", &server.url)]).is_ok());
    assert_eq!(refused(&mint(&server, &ann, &json!(["read"]))), Some(403), "a key that may only read");
    assert_eq!(refused(&mint(&server, &ann, &json!(["read", "write"]))), None);
}

#[test]
fn p8_every_message_counts_as_a_request() {
    let server = Server::start_with("auth_mode: multi\nlimits: {user_requests_per_minute: 3}\n");
    let session = register(&server, "root");
    let credential = format!("Bearer {session}");
    let mut socket = ResponseSocket::open_with(&server, &[("authorization", &credential)]).expect("one");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let events = socket.ask(&json!({"model": "demo"}));
        seen.push(events.last().expect("events").clone());
    }
    assert_eq!(seen[1]["type"], "response.completed");
    assert_eq!((&seen[2]["status"], &seen[2]["error"]["code"]), (&json!(429), &json!("rate_limit_exceeded")));
    assert!(seen[2]["error"]["headers"]["retry-after"].is_string(), "{}", seen[2]);
}

#[test]
fn a_server_that_stops_ends_responses_and_closes_with_1001() {
    let upstream =
        Upstream::start(|_, _| Answer::paced_text("one two three four", Duration::from_millis(200)));
    let mut server = Server::start_against(&upstream, "");
    let (mut idle, mut busy) = (ResponseSocket::open(&server), ResponseSocket::open(&server));
    busy.send_json(&create(&json!({})));
    while busy.event()["type"] != "response.output_text.delta" {}
    let reader = std::thread::spawn(move || {
        let idle = idle.next();
        let events = busy.events();
        (idle, events, busy.next())
    });
    server.terminate();
    let (idle, events, end) = reader.join().expect("reads");
    assert_eq!((idle, end), (Incoming::Closed(1001), Incoming::Closed(1001)));
    let last = events.last().expect("events");
    assert!(last["type"] == "response.completed" || last["error"]["code"] == "shutting_down", "{last}");
}
