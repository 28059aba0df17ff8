//! P7 for the ids of the APIs of `OpenAI` and Anthropic, in places that no route of the matrix in
//! `tenant_isolation.rs` has: other APIs, streams, bodies, cursors and ids of calls.

use crate::support::upstream::{Act, Answer, Upstream, content, tool_results};
use crate::support::{Reply, Server};
use serde_json::{Value, json};

const CONFIG: &str = "auth_mode: multi\nlimits: {user_requests_per_minute: 0}\n";
/// What Ann alone may read.
const MARK: &str = "only-for-ann";

/// A registered user.
struct WalledUser<'s> {
    server: &'s Server,
    credential: String,
}

impl<'s> WalledUser<'s> {
    fn register(server: &'s Server, name: &str) -> Self {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = server.register(&body).json();
        let token = reply["data"]["token"].as_str().expect("a token");
        Self { server, credential: format!("Bearer {token}") }
    }

    /// Status and body of the answer to a request with the server's calculator.
    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let headers = [
            ("authorization", self.credential.as_str()),
            ("nanoclaw-tools", "calculator"),
            ("content-type", "application/json"),
        ];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let Reply { status, body, .. } = self.server.request((method, path), &headers, &text);
        (status, body)
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, text) = self.send(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Makes something; returns its id.
    fn make(&self, path: &str, body: &Value) -> String {
        let made = self.json("POST", path, body);
        made["id"].as_str().unwrap_or_else(|| panic!("{path}: {made}")).to_owned()
    }
}

/// An id of the same form that no user has.
fn unknown(id: &str) -> String {
    let (head, tail) = id.split_at(id.len() - 4);
    format!("{head}{}", if tail == "0123" { "3210" } else { "0123" })
}

/// Answers as the text wants: hangs, calls functions, or says the number of results.
fn provider() -> Upstream {
    Upstream::start(|request, _| {
        let results = tool_results(request).len();
        let text = request["messages"].to_string();
        match results {
            0 if text.contains("hang") => Answer::stream(vec![Act::Data(content(MARK)), Act::Hang]),
            0 if text.contains("call") => {
                Answer::calls(&[("weather", json!({})), ("calculator", json!({"expression": "6*7"}))])
            }
            0 => Answer::text(MARK),
            count => Answer::text(&format!("{count} results")),
        }
    })
}

fn start(upstream: &Upstream) -> Server {
    Server::start_against(upstream, CONFIG)
}

/// Two users, none of whom is the administrator: that is the first one.
fn ann_and_bob(server: &Server) -> (WalledUser<'_>, WalledUser<'_>) {
    WalledUser::register(server, "root");
    (WalledUser::register(server, "ann"), WalledUser::register(server, "bob"))
}

fn chat(text: &str) -> Value {
    json!({"model": "scripted", "messages": [{"role": "user", "content": text}]})
}

fn with(mut body: Value, fields: Value) -> Value {
    let fields: serde_json::Map<_, _> = serde_json::from_value(fields).expect("an object");
    body.as_object_mut().expect("an object").extend(fields);
    body
}

/// Checks that what Bob gets for Ann's id is what he gets for one that nobody has.
fn assert_unknown(
    (bob, id, expected): (&WalledUser<'_>, &str, u16),
    method: &str,
    request: &dyn Fn(&str) -> (String, Value),
) {
    let ask = |id: &str| {
        let (path, body) = request(id);
        let (status, text) = bob.send(method, &path, &body);
        (status, text.replace(id, "ID"))
    };
    let foreign = ask(id);
    assert_eq!(foreign, ask(&unknown(id)), "{method} {:?}", request(id));
    assert_eq!(foreign.0, expected, "{method} {:?}: {}", request(id), foreign.1);
    assert!(!foreign.1.contains(MARK), "{}", foreign.1);
}

#[test]
fn p7_an_answer_of_another_user_is_unknown_to_every_api() {
    let upstream = provider();
    let server = start(&upstream);
    let (ann, bob) = ann_and_bob(&server);
    let respond = |fields: Value| ann.make("/v1/responses", &with(json!({"model": "scripted"}), fields));
    let completion = |fields: Value| ann.make("/v1/chat/completions", &with(chat("go"), fields));
    let running = respond(json!({"input": "hang", "background": true}));
    let ids = [
        completion(json!({"store": true})),
        completion(json!({})),
        completion(json!({"store": false})),
        ann.make("/v1/messages", &with(chat("go"), json!({"max_tokens": 50}))),
        respond(json!({"input": "go"})),
        respond(json!({"input": "go", "store": false})),
        running.clone(),
    ];
    for id in ids {
        let job = format!("job_{}", id.rsplit('_').next().expect("the id of a job"));
        for (method, path) in [
            ("GET", "/v1/jobs/{}"),
            ("GET", "/v1/jobs/{}/events"),
            ("POST", "/v1/jobs/{}/cancel"),
            ("GET", "/v1/responses/resp_{}"),
            ("GET", "/v1/responses/resp_{}?stream=true"),
            ("GET", "/v1/responses/resp_{}?stream=true&starting_after=0"),
            ("GET", "/v1/responses/resp_{}?include[]=reasoning.encrypted_content"),
            ("GET", "/v1/responses/resp_{}/input_items"),
            ("POST", "/v1/responses/resp_{}/cancel"),
            ("DELETE", "/v1/responses/resp_{}"),
            ("GET", "/v1/chat/completions/chatcmpl-{}"),
            ("GET", "/v1/chat/completions/chatcmpl-{}/messages"),
            ("DELETE", "/v1/chat/completions/chatcmpl-{}"),
        ] {
            assert_unknown((&bob, &job, 404), method, &|job| (path.replace("{}", job), Value::Null));
        }
    }
    let status = ann.json("GET", &format!("/v1/responses/{running}"), &Value::Null)["status"].clone();
    assert_eq!(status, "in_progress", "nothing of Bob's ends it");
}

#[test]
fn p7_no_body_takes_a_response_a_conversation_or_an_item_of_another_user() {
    let upstream = provider();
    let server = start(&upstream);
    let (ann, bob) = ann_and_bob(&server);
    let response = ann.json("POST", "/v1/responses", &json!({"model": "scripted", "input": MARK}));
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let (item, response) = (text(&response["output"][0]["id"]), text(&response["id"]));
    let said = json!({"items": [{"role": "user", "content": MARK}]});
    let conversation = ann.make("/v1/conversations", &said);
    let items = ann.json("GET", &format!("/v1/conversations/{conversation}/items"), &Value::Null);
    let added = text(&items["data"][0]["id"]);
    let bobs = bob.make("/v1/conversations", &json!({}));
    for named in [json!(conversation), json!({"id": conversation})] {
        assert_unknown((&bob, &conversation, 404), "POST", &|id| {
            let named = named.to_string().replace(&conversation, id);
            let named: Value = serde_json::from_str(&named).expect("JSON");
            ("/v1/responses".to_owned(), json!({"model": "scripted", "input": "x", "conversation": named}))
        });
    }
    for path in ["/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"] {
        let ask = |fields: Value| (path.to_owned(), with(json!({"model": "scripted", "input": "x"}), fields));
        assert_unknown((&bob, &response, 400), "POST", &|id| ask(json!({"previous_response_id": id})));
        for item in [&item, &added] {
            assert_unknown((&bob, item, 400), "POST", &|id| {
                ask(json!({"input": [{"type": "item_reference", "id": id}]}))
            });
        }
    }
    for item in [&item, &added] {
        let path = format!("/v1/conversations/{bobs}/items");
        assert_unknown((&bob, item, 400), "POST", &|id| {
            (path.clone(), json!({"items": [{"type": "item_reference", "id": id}]}))
        });
    }
    let seen = upstream.requests().iter().filter(|request| request.to_string().contains(MARK)).count();
    assert_eq!(seen, 1, "the model read Ann's text for Ann alone");
}

/// The paths of a user's lists, with an id of each.
fn lists(user: &WalledUser<'_>) -> Vec<(String, String)> {
    let completion = user.make("/v1/chat/completions", &with(chat("go"), json!({"store": true})));
    let response = user.make("/v1/responses", &json!({"model": "scripted", "input": "go"}));
    let said = json!({"items": [{"role": "user", "content": "go"}]});
    let conversation = user.make("/v1/conversations", &said);
    let batch = json!({"custom_id": "a", "body": {"input": "go"}});
    let batch = user.make("/v1/batches", &batch);
    let first = |path: &str| {
        let list = user.json("GET", path, &Value::Null);
        list["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{path}: {list}")).to_owned()
    };
    let (asked, said) =
        (format!("/v1/responses/{response}/input_items"), format!("/v1/conversations/{conversation}/items"));
    let (asked_id, said_id) = (first(&asked), first(&said));
    vec![
        ("/v1/chat/completions".to_owned(), completion),
        ("/v1/batches".to_owned(), batch),
        (asked, asked_id),
        (said, said_id),
    ]
}

#[test]
fn p7_a_cursor_of_another_user_is_an_unknown_cursor() {
    let upstream = provider();
    let server = start(&upstream);
    let (ann, bob) = ann_and_bob(&server);
    for ((_, anns), (path, _)) in lists(&ann).into_iter().zip(lists(&bob)) {
        let (status, text) = bob.send("GET", &format!("{path}?after={anns}"), &Value::Null);
        let none = bob.send("GET", &format!("{path}?after={}", unknown(&anns)), &Value::Null);
        assert_eq!(
            (status, text.replace(&anns, "ID")),
            (none.0, none.1.replace(&unknown(&anns), "ID")),
            "{path}"
        );
    }
}

#[test]
fn p7_the_id_of_another_users_call_restores_nothing_in_responses_and_messages() {
    let upstream = provider();
    let server = start(&upstream);
    let (ann, bob) = ann_and_bob(&server);
    let tool = json!({"type": "function", "name": "weather", "parameters": {"type": "object"}});
    let ask = |input: Value| json!({"model": "scripted", "input": input, "tools": [tool]});
    let first = ann.json("POST", "/v1/responses", &ask(json!("call")));
    let output = first["output"].as_array().expect("items");
    let call = output.iter().find(|item| item["type"] == "function_call").expect("a call").clone();
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "mild"});
    let again = ask(json!([{"role": "user", "content": "call"}, call, result]));
    for (user, results) in [(&bob, "1 results"), (&ann, "2 results")] {
        let answer = user.json("POST", "/v1/responses", &again);
        assert_eq!(answer["output"][0]["content"][0]["text"], results, "{answer}");
    }

    let tool = json!({"name": "weather", "input_schema": {"type": "object"}});
    let ask = |messages: Value| json!({"model": "scripted", "max_tokens": 50, "messages": messages, "tools": [tool]});
    let question = json!({"role": "user", "content": "call"});
    let first = ann.json("POST", "/v1/messages", &ask(json!([question])));
    let call = first["content"][0].clone();
    let result = json!({"type": "tool_result", "tool_use_id": call["id"], "content": "mild"});
    let again = ask(json!([question, {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]}]));
    for (user, results) in [(&bob, "1 results"), (&ann, "2 results")] {
        let answer = user.json("POST", "/v1/messages", &again);
        assert_eq!(answer["content"][0]["text"], results, "{answer}");
    }
}
