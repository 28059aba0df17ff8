//! What the user owns who fills operations: large answers, a batch, a project of many files.

use super::fillers::Content;
use crate::support::tenants::Tenants;
use crate::support::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amounts {
    /// Words of the long answer.
    pub(super) words: usize,
    /// Files of the project, in thousands.
    pub(super) uploads: usize,
    /// Lines of the batch.
    pub(super) lines: usize,
}

/// What a text may name in braces.
const POSSESSIONS: [&str; 17] = [
    "long",
    "running",
    "batch",
    "schedule",
    "webhook",
    "completion",
    "response",
    "items",
    "file",
    "token",
    "chat",
    "project",
    "item",
    "message",
    "run",
    "asset",
    "silent_chat",
];

/// The boundary of form data.
const BOUNDARY: &str = "b";

/// A user with possessions. Each is made when a text first names it.
pub(super) struct Owner<'t> {
    pub(super) tenants: &'t Tenants,
    token: String,
    amounts: Amounts,
    known: Mutex<BTreeMap<String, String>>,
    projects: AtomicUsize,
}

impl<'t> Owner<'t> {
    pub(super) fn new(tenants: &'t Tenants, name: &str, amounts: Amounts) -> Self {
        Self {
            tenants,
            token: tenants.token(name),
            amounts,
            known: Mutex::default(),
            projects: AtomicUsize::new(0),
        }
    }

    fn ask(&self, (method, target): (&str, &str), body: &Value) -> Value {
        let reply = self.tenants.ask(&self.token, (method, &self.filled(target)), body);
        assert!((200..300).contains(&reply.status), "{method} {target}: {} {}", reply.status, reply.body);
        serde_json::from_str(&reply.body).unwrap_or(Value::Null)
    }

    fn send(&self, (method, target): (&str, &str), (kind, body): (&str, &str)) -> Value {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let reply = self.tenants.server.request((method, target), &headers, body);
        assert!((200..300).contains(&reply.status), "{method} {target}: {} {}", reply.status, reply.body);
        reply.json()
    }

    fn ended(&self, input: &str, more: &Value) -> String {
        let mut body = json!({"input": input, "model": "demo"});
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        let job = self.tenants.submit(&self.token, &body);
        let path = format!("/v1/jobs/{job}?wait=30");
        wait_until("a job ends", || self.ask(("GET", &path), &Value::Null)["status"] == "succeeded");
        job
    }

    /// Makes a thing of this name; returns its id.
    fn new_possession(&self, name: &str) -> String {
        let long = format!("stream: {} words, 0 ms", self.amounts.words);
        let chat = json!([{"role": "user", "content": long}]);
        match name {
            "long" => self.ended(&long, &Value::Null),
            "running" => {
                let job = json!({"input": "x", "model": "silent"});
                self.tenants.submit(&self.token, &job)
            }
            "batch" => {
                let kind = "application/jsonl";
                id_of(&self.send(("POST", "/v1/batches"), (kind, &lines(self.amounts.lines)))["id"])
            }
            "schedule" => {
                let schedule = json!({"name": "s", "every_s": 86_400, "job": {"input": "x"}});
                id_of(&self.ask(("POST", "/v1/schedules"), &schedule)["id"])
            }
            "webhook" => self.new_delivery(),
            "completion" => {
                let body = json!({"model": "demo", "messages": chat, "store": true});
                id_of(&self.ask(("POST", "/v1/chat/completions"), &body)["id"])
            }
            "response" => {
                id_of(&self.ask(("POST", "/v1/responses"), &json!({"model": "demo", "input": long}))["id"])
            }
            "items" => {
                let item = json!({"type": "message", "role": "user", "content": "word ".repeat(1_000)});
                id_of(&self.ask(("POST", "/v1/conversations"), &json!({"items": vec![item; 20]}))["id"])
            }
            "file" => {
                let kind = format!("multipart/form-data; boundary={BOUNDARY}");
                id_of(&self.send(("POST", "/v1/files"), (&kind, &file()))["id"])
            }
            "token" => {
                let token = self.ask(("POST", "/api/tokens"), &json!({"name": "t"}))["data"].clone();
                id_of(if token["id"].is_null() { &token["token"]["id"] } else { &token["id"] })
            }
            "silent_chat" => {
                let chat = json!({"title": "c", "model": "silent"});
                id_of(&self.ask(("POST", "/api/conversations"), &chat)["data"]["id"])
            }
            "chat" => {
                let id =
                    id_of(&self.ask(("POST", "/api/conversations"), &json!({"title": "c"}))["data"]["id"]);
                let path = format!("/api/conversations/{id}/messages");
                self.tenants.ask(&self.token, ("POST", &path), &json!({"text": long}));
                id
            }
            "project" => self.new_project(),
            "item" => {
                id_of(&self.ask(("GET", "/v1/conversations/{items}/items"), &Value::Null)["data"][0]["id"])
            }
            "message" => {
                let path = self.filled("/api/conversations/{chat}/messages");
                self.tenants.ask(&self.token, ("POST", &path), &json!({"text": "x"}));
                let messages = self.ask(("GET", &path), &Value::Null);
                let newest = messages["data"]["items"].as_array().and_then(|items| items.last());
                id_of(&newest.expect("a message")["id"])
            }
            "run" => {
                let export = self.filled("/v1/jobs/{long}/export");
                self.tenants.ask(&self.token, ("GET", &export), &Value::Null).body
            }
            "asset" => {
                let page = self.tenants.server.get("/").body;
                let asset = page.split('"').find(|text| text.starts_with("console/"));
                asset.expect("a file of the console").to_owned()
            }
            other => panic!("there is no possession '{other}'"),
        }
    }

    fn new_delivery(&self) -> String {
        self.ended("x", &json!({"webhook_url": "http://127.0.0.1:9/hook"}));
        let mut list = Value::Null;
        wait_until("a delivery", || {
            list = self.ask(("GET", "/v1/webhooks"), &Value::Null);
            list["data"][0]["id"].is_string()
        });
        id_of(&list["data"][0]["id"])
    }

    fn new_project(&self) -> String {
        let number = self.projects.fetch_add(1, Ordering::SeqCst);
        let project = json!({"name": format!("project {number}")});
        let id = id_of(&self.ask(("POST", "/api/projects"), &project)["data"]["id"]);
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        for number in 0..self.amounts.uploads {
            self.send(("POST", &format!("/api/projects/{id}/upload")), (&kind, &upload(number, 1_000)));
        }
        let large = json!({"content": "word ".repeat(200_000)});
        self.ask(("PUT", &format!("/api/projects/{id}/files/large.txt")), &large);
        id
    }

    /// The text with the ids of possessions.
    pub(super) fn filled(&self, text: &str) -> String {
        let names = POSSESSIONS.iter().filter(|name| text.contains(&format!("{{{name}}}")));
        names.fold(text.to_owned(), |text, name| text.replace(&format!("{{{name}}}"), &self.possession(name)))
    }

    fn possession(&self, name: &str) -> String {
        if let Some(id) = self.known.lock().expect("no panic").get(name) {
            return id.clone();
        }
        let id = self.new_possession(name);
        self.known.lock().expect("no panic").insert(name.to_owned(), id.clone());
        id
    }

    /// The same with a new possession in place of `{+name}`.
    pub(super) fn prepared(&self, target: &str) -> String {
        let Some((before, rest)) = target.split_once("{+") else { return self.filled(target) };
        let (name, after) = rest.split_once('}').expect("a name in braces");
        let id = self.new_possession(name);
        self.filled(&format!("{before}{id}{after}"))
    }

    /// A request with this content.
    pub(super) fn request(&self, (method, target): (&str, &str), content: Content, number: usize) -> Vec<u8> {
        let form = "multipart/form-data; boundary=b";
        let (kind, body) = match content {
            Content::Nothing | Content::WebSocket => ("text/plain", String::new()),
            Content::Json(text) => {
                ("application/json", self.filled(text).replace("{words}", &"word ".repeat(2_000)))
            }
            Content::Lines => ("application/jsonl", lines(1_000)),
            Content::Upload => (form, upload(UPLOADED + number, 100)),
            Content::File => (form, file()),
            Content::Run => ("application/jsonl", self.filled("{run}")),
        };
        let (target, body) =
            (target.replace("{n}", &number.to_string()), body.replace("{n}", &number.to_string()));
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nx-forwarded-for: 198.51.100.1\r\n\
             accept: application/json, text/event-stream\r\ncontent-type: {kind}\r\n",
            self.token
        );
        if let Content::WebSocket = content {
            head.push_str(
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                 sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            );
        } else if !body.is_empty() {
            write!(head, "content-length: {}\r\n", body.len()).expect("writes");
        }
        let mut request = (head + "\r\n" + &body).into_bytes();
        if let Content::WebSocket = content {
            let message = br#"{"type":"response.create","model":"silent","input":"x"}"#;
            let length = u8::try_from(message.len()).expect("a short message");
            // A text frame, masked with zeros.
            request.extend([0x81, 0x80 | length, 0, 0, 0, 0]);
            request.extend(message);
        }
        request
    }
}

fn id_of(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// The directories of new projects have lower numbers.
const UPLOADED: usize = 1_000;

fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let line = json!({"custom_id": number.to_string(), "body": {"input": "x", "model": "silent"}});
        writeln!(text, "{line}").expect("writes");
        text
    })
}

fn part(form: &mut String, field: &str, name: &str, content: &str) {
    write!(
        form,
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
    )
    .expect("writes");
}

/// Form data of small files in a directory of their own.
fn upload(number: usize, files: usize) -> String {
    let mut form = String::new();
    for file in 0..files {
        part(&mut form, "files", &format!("top/{number}/{file}.txt"), "some text");
    }
    form + "--" + BOUNDARY + "--\r\n"
}

fn file() -> String {
    let mut form =
        format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n");
    part(&mut form, "file", "f.txt", &"x".repeat(1_000_000));
    form + "--" + BOUNDARY + "--\r\n"
}
