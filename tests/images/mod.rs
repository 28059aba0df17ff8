//! Images of requests with the real binary: they reach the provider, are stored once, and go with their jobs.

mod kept_work;
mod results;

use crate::support::upstream::{Act, Answer, Upstream};
use crate::support::{Reply, Server, wait_until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const GIF: &[u8] = b"GIF89a, and the rest of the picture";

fn config(upstream: &Upstream) -> String {
    format!(
        "default_model: eyes\nmodels:\n  - {{id: eyes, vision: true, fallback: [blind], api_url: \"{0}/v1\"}}\n  \
         - {{id: claude, vision: true, provider: anthropic, api_url: \"{0}\", api_key: k}}\n  \
         - {{id: blind, provider: demo}}\n",
        upstream.url
    )
}

fn url() -> String {
    format!("data:image/gif;base64,{}", STANDARD.encode(GIF))
}

fn chat(model: &str) -> Value {
    let image = json!({"type": "image_url", "image_url": {"url": url(), "detail": "low"}});
    json!({"model": model, "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]})
}

fn response(image: &Value) -> Value {
    let text = json!({"type": "input_text", "text": "look"});
    json!({"model": "eyes", "input": [{"role": "user", "content": [text, image]}]})
}

/// The parts that a provider gets for an image in a request of [`response`].
fn seen() -> Value {
    json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url()}}])
}

fn stored(server: &Server) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(server.dir.join("data/files"));
    let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.expect("an entry").path());
    entries.map(|entries| entries.filter_map(|entry| read(entry).ok()).collect()).unwrap_or_default()
}

/// Uploads lines of a batch.
fn upload(server: &Server, lines: &str) -> Reply {
    server.request(("POST", "/v1/batches"), &[("content-type", "application/jsonl")], lines)
}

fn delete(server: &Server, path: &str) {
    let reply = server.ask("DELETE", path, &Value::Null);
    assert!(reply.status < 300, "{path}: {}", reply.body);
}

fn id_of(object: &Value) -> String {
    object["id"].as_str().expect("an id").to_owned()
}

fn job_ids(server: &Server) -> Vec<String> {
    server.get("/v1/jobs").json()["data"].as_array().expect("jobs").iter().map(id_of).collect()
}

/// The images of the last user message that the provider got in each request.
fn images_seen(upstream: &Upstream) -> Vec<usize> {
    let count = |request: &Value| request["messages"].to_string().matches("image/gif;base64,").count();
    upstream.requests().iter().map(count).collect()
}

fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

#[test]
fn an_image_reaches_the_provider_and_two_jobs_share_its_content() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let mut server = Server::start_with(&config(&upstream));
    let replies = [server.post(CHAT, &chat("eyes")), server.post(CHAT, &chat("eyes"))];
    let jobs: Vec<String> =
        replies.iter().map(|reply| reply.header("x-job-id").expect("a job").to_owned()).collect();
    for reply in &replies {
        ok(reply);
    }
    let parts = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": url(), "detail": "low"}},
    ]);
    assert_eq!(upstream.requests()[0]["messages"], json!([{"role": "user", "content": parts}]));
    assert_eq!(stored(&server), [GIF], "stored once");
    let shown = server.get(&format!("/v1/jobs/{}?include=input", jobs[0])).body;
    assert!(shown.contains("image/gif") && !shown.contains(&STANDARD.encode(GIF)), "{shown}");
    let delete = |server: &Server, job: &str| {
        let reply = server.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null);
        assert!(reply.status < 300, "{}", reply.body);
    };
    delete(&server, &jobs[0]);
    server = server.crash_and_restart(&config(&upstream));
    ok(&server.post(CHAT, &json!({"model": "eyes", "messages": [{"role": "user", "content": "x"}]})));
    assert_eq!(stored(&server), [GIF], "the other job has it");
    delete(&server, &jobs[1]);
    let server = server.crash_and_restart(&config(&upstream));
    wait_until("the image is gone", || stored(&server).is_empty());
}

#[test]
fn models_that_see_no_images_refuse_them_and_are_no_fallback() {
    let upstream = Upstream::start(|_, _| Answer::error(401, "no"));
    let server = Server::start_with(&config(&upstream));
    let reply = server.post(CHAT, &chat("blind"));
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, &error["param"]), (400, &json!("model")), "{error}");
    let message = error["message"].as_str().expect("a text");
    assert!(message.contains("blind") && message.contains("eyes"), "{message}");
    assert!(stored(&server).is_empty());
    let failed = server.post(CHAT, &chat("eyes"));
    assert!(failed.status >= 400, "no model that is blind answers: {}", failed.body);
    let text = json!({"model": "eyes", "messages": [{"role": "user", "content": "x"}]});
    ok(&server.post(CHAT, &text));
}

#[test]
fn an_image_of_a_response_is_shown_again_and_sent_again() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let first = ok(&server.post(RESPONSES, &response(&json!({"type": "input_image", "image_url": url()}))));
    let id = first["id"].as_str().expect("an id");
    assert_eq!(upstream.requests()[0]["messages"][0]["content"], seen());
    let items = ok(&server.get(&format!("{RESPONSES}/{id}/input_items")));
    let image = json!({"type": "input_image", "image_url": url(), "file_id": null, "detail": "auto"});
    assert_eq!(items["data"][0]["content"][1], image);
    ok(&server.post(RESPONSES, &json!({"model": "eyes", "previous_response_id": id, "input": "more"})));
    assert_eq!(upstream.requests()[1]["messages"][0]["content"], seen());
    for part in [
        json!({"type": "input_image"}),
        json!({"type": "input_image", "image_url": "https://x.test/a.png"}),
        json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}),
        json!({"type": "input_image", "file_id": "file-00000000000000000000000000"}),
        json!({"type": "input_image", "image_url": url(), "detail": "some"}),
        json!({"type": "input_image", "image": {"media_type": "image/gif", "content": "00".repeat(32), "bytes": 1}}),
    ] {
        let reply = server.post(RESPONSES, &response(&part));
        assert_eq!(reply.status, 400, "{part}: {}", reply.body);
    }
}

/// The id of the image, uploaded as a file.
fn uploaded(server: &Server) -> Value {
    let text = String::from_utf8(GIF.to_vec()).expect("UTF-8");
    let form = format!(
        "--c\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nvision\r\n--c\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.gif\"\r\n\r\n{text}\r\n--c--\r\n"
    );
    let kind = ("content-type", "multipart/form-data; boundary=c");
    ok(&server.request(("POST", "/v1/files"), &[kind], &form))["id"].clone()
}

#[test]
fn an_image_is_taken_from_an_uploaded_file_and_outlives_it() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let file = uploaded(&server);
    let first = ok(&server.post(RESPONSES, &response(&json!({"type": "input_image", "file_id": file}))));
    assert_eq!(stored(&server), [GIF], "stored once");
    let path = format!("/v1/files/{}", file.as_str().expect("an id"));
    ok(&server.ask("DELETE", &path, &Value::Null));
    let more = json!({"model": "eyes", "previous_response_id": first["id"], "input": "more"});
    ok(&server.post(RESPONSES, &more));
    assert_eq!(upstream.requests()[1]["messages"][0]["content"], seen());
}

#[test]
fn p1_an_image_survives_a_kill_between_acceptance_and_run() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::stream(vec![Act::Hang]),
        _ => Answer::text("a cat"),
    });
    let server = Server::start_with(&config(&upstream));
    let mut body = response(&json!({"type": "input_image", "image_url": url()}));
    body["background"] = json!(true);
    let id = ok(&server.post(RESPONSES, &body))["id"].as_str().expect("an id").to_owned();
    wait_until("the model is called", || !upstream.requests().is_empty());
    let server = server.crash_and_restart(&config(&upstream));
    wait_until("the response has ended", || {
        server.get(&format!("{RESPONSES}/{id}")).json()["status"] == "completed"
    });
    let requests = upstream.requests();
    assert_eq!(requests.last().expect("a request")["messages"][0]["content"], seen());
}

#[test]
fn p7_no_request_names_a_stored_image_by_its_digest() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    ok(&server.post(CHAT, &chat("eyes")));
    let mut files = std::fs::read_dir(server.dir.join("data/files")).expect("a directory");
    let digest =
        files.next().expect("a file").expect("an entry").file_name().into_string().expect("its digest");
    assert_eq!(digest.len(), 64, "{digest}");
    let named = json!({"media_type": "image/gif", "content": digest, "bytes": GIF.len()});
    for kind in ["input_image", "input_text"] {
        let part = json!({"type": kind, "text": "x", "image": named});
        server.post(RESPONSES, &response(&part));
        let item = response(&part)["input"].clone();
        server.post("/v1/conversations", &json!({"items": item}));
    }
    let part = json!({"type": "input_image", "image": named});
    let action = json!({"command": ["ls"]});
    for (kind, call) in [
        ("function_call", json!({"name": "view", "arguments": "{}"})),
        ("custom_tool_call", json!({"name": "view", "input": "x"})),
        ("local_shell_call", json!({"action": action})),
    ] {
        let item = |kind: &str, mut fields: Value| {
            (fields["type"], fields["call_id"]) = (kind.into(), "call_a".into());
            fields
        };
        let result = item(&format!("{kind}_output"), json!({"output": [part]}));
        let mut body = response(&part);
        body["input"] = json!([{"role": "user", "content": "x"}, item(kind, call), result]);
        let reply = server.post(RESPONSES, &body);
        let param = "input[2].output[0]";
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{}", reply.body);
    }
    let asked = upstream.requests().split_off(1);
    assert!(asked.iter().all(|request| !request.to_string().contains("base64")), "{asked:?}");
    let file = json!({"name": "a.gif", "extension": "gif", "image": named});
    let job = json!({"input": [{"role": "user", "content": "x", "attachments": [file]}]});
    let line = json!({"custom_id": "a", "body": job}).to_string();
    let response_line = json!({"custom_id": "a", "url": RESPONSES, "body": response(&part)}).to_string();
    for line in [&line, &response_line] {
        assert_eq!(upload(&server, line).status, 400, "{line}");
    }
    assert_eq!(server.post("/v1/schedules", &json!({"every_s": 3_600, "job": job})).status, 400);
    let id = ok(&server.post("/v1/conversations", &json!({})))["id"].clone();
    let path = format!("/v1/conversations/{}/items", id.as_str().expect("an id"));
    assert_eq!(server.post(&path, &json!({"items": response(&part)["input"]})).status, 400);
}

#[test]
fn an_image_of_a_conversation_is_shown_and_read_again() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let id = ok(&server.post("/v1/conversations", &json!({})))["id"].clone();
    let mut first = response(&json!({"type": "input_image", "image_url": url()}));
    first["conversation"] = id.clone();
    ok(&server.post(RESPONSES, &first));
    ok(&server.post(RESPONSES, &json!({"model": "eyes", "conversation": id, "input": "more"})));
    assert_eq!(upstream.requests()[1]["messages"][0]["content"], seen());
    let items =
        ok(&server.get(&format!("/v1/conversations/{}/items?order=asc", id.as_str().expect("an id"))));
    assert_eq!(items["data"][0]["content"][1]["image_url"], json!(url()), "{items}");
}

#[test]
fn an_image_of_an_anthropic_message_reaches_the_provider() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let ask = |source: Value| {
        let content = json!([{"type": "text", "text": "look"}, {"type": "image", "source": source}]);
        let messages = json!([{"role": "user", "content": content}]);
        server.post("/v1/messages", &json!({"model": "eyes", "max_tokens": 9, "messages": messages}))
    };
    let data = STANDARD.encode(GIF);
    let file = uploaded(&server);
    for source in [
        json!({"type": "base64", "media_type": "image/gif", "data": data}),
        json!({"type": "file", "file_id": file}),
    ] {
        ok(&ask(source));
        assert_eq!(upstream.requests().last().expect("requests")["messages"][0]["content"], seen());
    }
    for source in [
        json!({"type": "url", "url": "https://x.test/a.gif"}),
        json!({"type": "file", "file_id": "f"}),
        json!({"type": "base64", "media_type": "image/png", "data": data}),
    ] {
        assert_eq!(ask(source.clone()).status, 400, "{source}");
    }
}

#[test]
fn an_attached_image_of_a_job_or_a_chat_reaches_the_provider() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let file =
        |extension: &str, content: &str| json!({"name": "a.gif", "extension": extension, "content": content});
    let job = |file: Value| json!({"input": [{"role": "user", "content": "look", "attachments": [file]}]});
    let data = STANDARD.encode(GIF);
    for file in [file("gif", &data), file(".GIF", &url()), file("", &url())] {
        let id = server.submit(&job(file));
        assert_eq!(server.wait(&id)["status"], "succeeded");
    }
    let conversation = server.post("/api/conversations", &json!({"title": "t", "model": "eyes"})).json();
    let path = format!("/api/conversations/{}/messages", conversation["data"]["id"].as_str().expect("an id"));
    let reply = server.post(&path, &json!({"text": "look", "attachments": [file("gif", &data)]}));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let asked = upstream.requests();
    for request in &asked[..4] {
        let messages = request["messages"].as_array().expect("messages");
        assert!(messages.iter().any(|message| message["content"] == seen()), "{request}");
    }
    let shown = server.get(&path).body;
    assert!(shown.contains("a.gif") && !shown.contains(&data), "{shown}");
    let bad = server.post("/v1/jobs", &job(file("png", "some text")));
    assert_eq!((bad.status, &bad.json()["error"]["param"]), (400, &json!("input[0].attachments[0].content")));
    let blind = json!({"model": "blind", "input": job(file("gif", &data))["input"]});
    assert_eq!(server.post("/v1/jobs", &blind).json()["error"]["param"], "model");
}

#[test]
fn parts_of_a_message_keep_their_order() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let told = |kind: &str, text: &str| json!({"type": kind, "text": text});
    let at_chat = json!({"type": "image_url", "image_url": {"url": url()}});
    let parts = json!([at_chat, told("text", "before"), at_chat, told("text", "after"), at_chat]);
    let ask = |content: &Value| json!({"model": "eyes", "messages": [{"role": "user", "content": content}]});
    ok(&server.post(CHAT, &ask(&parts)));
    let at_responses = json!({"type": "input_image", "image_url": url()});
    let input = json!([
        at_responses,
        told("input_text", "before"),
        at_responses,
        told("input_text", "after"),
        at_responses
    ]);
    let body = json!({"model": "eyes", "input": [{"role": "user", "content": input}]});
    let first = ok(&server.post(RESPONSES, &body));
    let source = json!({"type": "base64", "media_type": "image/gif", "data": STANDARD.encode(GIF)});
    let at_messages = json!({"type": "image", "source": source});
    let blocks =
        json!([at_messages, told("text", "before"), at_messages, told("text", "after"), at_messages]);
    let messages = json!([{"role": "user", "content": blocks}]);
    ok(&server.post("/v1/messages", &json!({"model": "eyes", "max_tokens": 9, "messages": messages})));
    let more = json!({"model": "eyes", "previous_response_id": first["id"], "input": "more"});
    ok(&server.post(RESPONSES, &more));
    for request in upstream.requests() {
        assert_eq!(request["messages"][0]["content"], parts, "{request}");
    }
    // The other wire: what it answers does not matter.
    server.post(CHAT, &json!({"model": "claude", "messages": ask(&parts)["messages"]}));
    let sent = upstream.requests().pop().expect("a request")["messages"][0]["content"].clone();
    let kinds: Vec<&str> = sent
        .as_array()
        .expect("blocks")
        .iter()
        .map(|block| block["type"].as_str().expect("a type"))
        .collect();
    assert_eq!(kinds, ["image", "text", "image", "text", "image"], "{sent}");
    assert_eq!((&sent[1]["text"], &sent[3]["text"]), (&json!("before"), &json!("after")));
}

#[test]
fn the_owner_of_a_message_fetches_its_images() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let conversation = server.post("/api/conversations", &json!({"title": "t", "model": "eyes"})).json();
    let path = format!("/api/conversations/{}/messages", id_of(&conversation["data"]));
    let file = json!({"name": "a \"b\".gif", "extension": "gif", "content": STANDARD.encode(GIF)});
    let text = json!({"name": "a.txt", "content": "some text"});
    assert_eq!(server.post(&path, &json!({"text": "look", "attachments": [file, text]})).status, 200);
    let shown = server.get(&path);
    let files = shown.json()["data"]["items"][0]["attachments"].clone();
    assert_eq!(files[0]["content"], "some text");
    let image = &files[1];
    assert_eq!((&image["name"], &image["media_type"]), (&json!("a \"b\".gif"), &json!("image/gif")));
    assert_eq!(image["bytes"], GIF.len());
    let at = image["url"].as_str().expect("a URL");
    let digest = std::fs::read_dir(server.dir.join("data/files")).expect("a directory");
    let digest = digest.last().expect("a file").expect("an entry").file_name().into_string().expect("text");
    assert!(!shown.body.contains(&digest), "{}", shown.body);
    let reply = server.get(at);
    assert_eq!((reply.status, reply.body.as_bytes()), (200, GIF));
    let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
    assert_eq!(
        (header("content-type"), header("content-length")),
        ("image/gif".into(), GIF.len().to_string())
    );
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("content-disposition"), "inline; filename=\"a _b_.gif\"");
    assert!(header("content-security-policy").contains("sandbox"), "{}", header("content-security-policy"));
    let job = at.strip_suffix("/images/0").expect("the first image").to_owned();
    for missing in ["/images/1", "/images/x", "/images/-1", "/images/18446744073709551616"] {
        assert_eq!(server.get(&format!("{job}{missing}")).status, 404, "{missing}");
    }
    assert_eq!(server.get("/v1/jobs/job_00000000000000000000000000/images/0").status, 404);
}
