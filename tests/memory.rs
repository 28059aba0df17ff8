//! Memories, through the real binary: the tool, the text in prompts, `/v1/memory`, and changes at the same
//! time.

use crate::support::turns::{TurnServer, error};
use crate::support::{Reply, Server};
use serde_json::{Value, json};

const ON: &str = "memory: {enabled: true}";

fn memory(arguments: Value) -> (&'static str, Value) {
    ("memory", arguments)
}

fn append(text: &str) -> (&'static str, Value) {
    memory(json!({"command": "append", "text": text}))
}

/// The instructions in the newest request to the model.
fn prompt(server: &TurnServer, job: &Value) -> String {
    server.server.wait(&server.submit(&[], job));
    let requests = server.upstream.requests();
    requests.last().expect("a request")["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

fn project(server: &Server) -> String {
    let made = server.post("/api/projects", &json!({"name": "app"})).json();
    made["data"]["id"].as_str().expect("an id").to_owned()
}

fn put(server: &Server, path: &str, content: &str, headers: &[(&str, &str)]) -> Reply {
    let headers = [&[("content-type", "application/json")][..], headers].concat();
    server.request(("PUT", path), &headers, &json!({"content": content}).to_string())
}

#[test]
fn without_configuration_the_route_refuses_with_the_reason() {
    let server = TurnServer::start("");
    for reply in [server.server.get("/v1/memory"), put(&server.server, "/v1/memory", "x", &[])] {
        assert_eq!(reply.status, 403, "{}", reply.body);
        assert!(reply.body.contains("memory.enabled"), "{}", reply.body);
    }
    assert!(!prompt(&server, &json!({})).contains("memory"));
}

#[test]
fn what_a_job_keeps_is_in_the_prompt_of_later_jobs() {
    let server = TurnServer::start(ON);
    assert!(!prompt(&server, &json!({})).contains("<memory"), "an empty memory takes no room");
    let calls = [append("The user likes tea."), memory(json!({"command": "view"}))];
    let (_, results) = server.run(&[&calls[..1], &calls[1..]]);
    assert_eq!(results[1]["data"]["text"], "The user likes tea.\n");
    let text = prompt(&server, &json!({}));
    assert!(text.contains("<memory scope=\"user\">\nThe user likes tea.\n</memory>"), "{text}");
    assert!(!prompt(&server, &json!({"tools": ["bash"]})).contains("tea"), "only with the tool");
    let server = server.crash_and_restart(ON);
    assert!(prompt(&server, &json!({})).contains("likes tea"), "it outlives the server");
    let own = project(&server.server);
    let in_project = json!({"project_id": own});
    let keep = memory(json!({"command": "append", "scope": "project", "text": "Uses Rust."}));
    let results = server.results(&server.submit(&[std::slice::from_ref(&keep)], &in_project));
    assert_eq!(results[0]["success"], true, "{results:?}");
    let text = prompt(&server, &in_project);
    assert!(
        text.contains("likes tea") && text.contains("<memory scope=\"project\">\nUses Rust.\n"),
        "{text}"
    );
    assert!(!prompt(&server, &json!({})).contains("Uses Rust"));
    let (_, results) = server.run(&[&[keep]]);
    assert!(error(&results[0]).contains("has no project"), "{results:?}");
    let files = server.server.get(&format!("/api/projects/{own}/files")).body;
    assert!(!files.contains("memory"), "it is no file of the user: {files}");
    assert_eq!(server.server.ask("DELETE", &format!("/api/projects/{own}"), &Value::Null).status, 200);
    assert_eq!(server.server.get(&format!("/v1/memory?project_id={own}")).status, 404);
}

#[test]
fn a_call_that_cannot_be_done_changes_nothing_and_says_why() {
    let server = TurnServer::start("memory: {enabled: true, max_bytes: 1024}");
    put(&server.server, "/v1/memory", "one\none\n", &[]);
    for (arguments, part) in [
        (json!({"command": "forget"}), "command"),
        (json!({"command": "append"}), "'text' is missing"),
        (json!({"command": "replace", "old_text": "one", "text": "two"}), "stands in it 2 times"),
        (json!({"command": "insert", "line": 7, "text": "x"}), "line must be from 0 to 2"),
        (json!({"command": "append", "text": "x".repeat(1_020)}), "(memory.max_bytes)"),
    ] {
        let (_, results) = server.run(&[&[memory(arguments.clone())]]);
        assert!(error(&results[0]).contains(part), "{arguments}: {results:?}");
    }
    assert_eq!(server.server.get("/v1/memory").json()["content"], "one\none\n");
}

#[test]
fn people_read_and_write_a_memory_and_lose_no_change() {
    let server = TurnServer::start("memory: {enabled: true, max_bytes: 1024}");
    let empty = server.server.get("/v1/memory");
    let object =
        json!({"object": "memory", "project_id": null, "content": "", "bytes": 0, "max_bytes": 1024});
    assert_eq!((empty.status, empty.json()), (200, object), "{}", empty.body);
    let tag = |reply: &Reply| reply.header("etag").expect("an ETag").to_owned();
    let first = put(&server.server, "/v1/memory", "- tea\n", &[("if-match", &tag(&empty))]);
    assert_eq!((first.status, &first.json()["bytes"]), (200, &json!(6)), "{}", first.body);
    let late = put(&server.server, "/v1/memory", "- coffee\n", &[("if-match", &tag(&empty))]);
    assert_eq!(late.status, 412, "{}", late.body);
    server.run(&[&[append("- milk")]]);
    let stale = put(&server.server, "/v1/memory", "- tea only\n", &[("if-match", &tag(&first))]);
    assert_eq!(stale.status, 412, "a job has written meanwhile: {}", stale.body);
    let now = server.server.get("/v1/memory");
    assert_eq!(now.json()["content"], "- tea\n- milk\n");
    let known = server.server.get_with("/v1/memory", &[("if-none-match", &tag(&now))]);
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    for (content, status) in [("x".repeat(1_025), 400), ("x".repeat(1_024), 200)] {
        let reply = put(&server.server, "/v1/memory", &content, &[]);
        assert_eq!(reply.status, status, "{}", reply.body);
    }
    for body in [json!({}), json!({"content": 1}), json!({"content": "x", "more": 1}), json!([])] {
        assert_eq!(server.server.ask("PUT", "/v1/memory", &body).status, 400, "{body}");
    }
    for query in ["project_id=nope", "project_id=proj_00000000000000000000000000"] {
        assert_eq!(server.server.get(&format!("/v1/memory?{query}")).status, 404, "{query}");
    }
    assert_eq!(server.server.get("/v1/memory?project=x").status, 400);
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let server = TurnServer::start(ON);
    let jobs: Vec<String> = (0..24)
        .map(|number| {
            let calls = [append(&format!("note {number} a")), append(&format!("note {number} b"))];
            server.submit(&[&calls], &json!({}))
        })
        .collect();
    for job in &jobs {
        assert!(server.results(job).iter().all(|result| result["success"] == true));
    }
    let text = server.server.get("/v1/memory").json()["content"].as_str().expect("a text").to_owned();
    assert_eq!(text.lines().count(), 48, "{text}");
    for number in 0..24 {
        let place = |letter| text.find(&format!("note {number} {letter}\n")).expect("a note");
        assert!(place("a") < place("b"), "calls of one answer keep their order: {text}");
    }
}

#[test]
fn p8_memories_and_files_of_projects_share_the_quota_of_an_account() {
    let server = Server::start_with(&format!("auth_mode: multi\n{ON}\n"));
    let register = |name: &str| {
        let body = json!({"username": name, "password": "correct horse"});
        server.register(&body).json()["data"].clone()
    };
    let (root, bob) = (register("root"), register("bob"));
    let send = |user: &Value, line: &str, body: &Value| {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let bearer = format!("Bearer {}", user["token"].as_str().expect("a token"));
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        server.request((method, path), &headers, &body.to_string())
    };
    let quota = json!({"quota": {"project_bytes": 30}});
    assert_eq!(send(&root, &format!("PATCH /api/users/{}", bob["user"]["id"]), &quota).status, 200);
    let made = send(&bob, "POST /api/projects", &json!({"name": "p"})).json();
    let id = made["data"]["id"].as_str().expect("an id");
    let (own, of_project) = ("PUT /v1/memory", format!("PUT /v1/memory?project_id={id}"));
    let file = format!("PUT /api/projects/{id}/files/f");
    let write = |line: &str, bytes: usize| {
        let reply = send(&bob, line, &json!({"content": "x".repeat(bytes)}));
        assert!(
            reply.status != 413
                || reply.body.contains("quota.project_bytes")
                || reply.body.contains("bytes together"),
            "{}",
            reply.body
        );
        reply.status
    };
    assert_eq!(
        (write(own, 31), write(own, 10), write(&of_project, 10), write(&file, 10)),
        (413, 200, 200, 200)
    );
    assert_eq!((write(own, 11), write(&of_project, 11), write(&file, 11)), (413, 413, 413), "it is used up");
    assert_eq!((write(own, 5), write(&of_project, 15)), (200, 200), "a shorter text makes room");
    let bearer = format!("Bearer {}", bob["token"].as_str().expect("a token"));
    let profile = server.get_with("/api/auth/profile?include=used", &[("authorization", &bearer)]).json();
    assert_eq!(profile["data"]["used"]["project_bytes"], 30, "{profile}");
}
