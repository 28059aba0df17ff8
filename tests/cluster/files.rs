//! Nodes that share a directory: files of projects and jobs, uploads and images are the same on all of them.
//! A node that does not see the directory of the others refuses them.

use super::LEASE_S;
use crate::support::database::{self, Schema};
use crate::support::directories::user_directory;
use crate::support::turns::{self, Turn, read, sleep, write};
use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Reply, Server, against, wait_until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const GIF: &str = "GIF89a, and the rest of the picture";

/// Nodes and the directory that they share.
struct SharingNodes {
    nodes: Vec<Server>,
    dir: tempfile::TempDir,
    schema: Schema,
    config: String,
}

impl SharingNodes {
    /// Two nodes; `None` without `PostgreSQL`.
    fn start(config: &str) -> Option<Self> {
        let mut sharing = Self::without_nodes(config)?;
        for _ in 0..2 {
            sharing.add_node();
        }
        Some(sharing)
    }

    fn without_nodes(config: &str) -> Option<Self> {
        let schema = database::schema()?;
        let dir = tempfile::tempdir().expect("a directory");
        Some(Self { nodes: Vec::new(), dir, schema, config: config.to_owned() })
    }

    fn shared_dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    fn add_node(&mut self) {
        let node = self.node(Some(&self.shared_dir()));
        self.nodes.push(node);
    }

    /// Another node with this directory, or without the setting.
    fn node(&self, shared_dir: Option<&Path>) -> Server {
        let setting = shared_dir.map(|dir| format!(", shared_dir: {}", dir.display())).unwrap_or_default();
        Server::start_with(&format!(
            "{}\nstore: {{url: \"{}\", lease_s: {LEASE_S}, node_name: {}{setting}}}\n",
            self.config,
            self.schema.url(),
            self.schema.name()
        ))
    }

    fn pair(&self) -> (&Server, &Server) {
        let [one, two, ..] = &self.nodes[..] else { panic!("two nodes") };
        (one, two)
    }
}

fn ok(reply: &Reply) -> Value {
    assert!(reply.status < 300, "{} {}", reply.status, reply.body);
    reply.json()
}

fn project(server: &Server, name: &str) -> String {
    let made = ok(&server.post("/api/projects", &json!({"name": name})));
    made["data"]["id"].as_str().expect("an id").to_owned()
}

fn path(project: &str, file: &str) -> String {
    format!("/api/projects/{project}/files/{file}")
}

fn put(server: &Server, path: &str, content: &str, headers: &[(&str, &str)]) -> Reply {
    let headers = [&[("content-type", "application/json")][..], headers].concat();
    server.request(("PUT", path), &headers, &json!({"content": content}).to_string())
}

fn content(server: &Server, path: &str) -> String {
    ok(&server.get(path))["data"]["content"].as_str().expect("a text").to_owned()
}

fn upload(server: &Server, purpose: &str, (name, data): (&str, &str)) -> Reply {
    let part = |name: &str, data: &str| {
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{data}\r\n")
    };
    let file = format!("file\"; filename=\"{name}");
    let body = part("purpose", purpose) + &part(&file, data) + "--cut--\r\n";
    server.request(("POST", "/v1/files"), &[("content-type", "multipart/form-data; boundary=cut")], &body)
}

fn submit(server: &Server, turns: &[Turn<'_>], more: &Value) -> String {
    let mut body = json!({"input": serde_json::to_string(turns).expect("JSON")});
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    server.submit(&body)
}

fn assert_refused(reply: &Reply, reason: &str) {
    assert_eq!(reply.status, 503, "{}", reply.body);
    assert!(reply.body.contains(reason), "{}", reply.body);
}

#[test]
fn files_of_a_project_are_the_same_on_all_nodes() {
    let model = turns::start_model();
    let Some(sharing) = SharingNodes::start(&against(&model, "")) else { return };
    let (one, two) = sharing.pair();
    let id = project(one, "app");
    ok(&put(one, &path(&id, "notes/a.txt"), "from one", &[]));
    assert_eq!(content(two, &path(&id, "notes/a.txt")), "from one");
    ok(&put(two, &path(&id, "notes/a.txt"), "from two", &[]));
    assert_eq!(content(one, &path(&id, "notes/a.txt")), "from two");
    // Whichever node runs it.
    for node in [one, two] {
        let turns: &[Turn<'_>] = &[&[read("notes/a.txt")], &[write("made.txt", "by a job")]];
        let job = submit(node, turns, &json!({"project_id": id}));
        let ended = two.wait(&job);
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert!(ended["output_text"].as_str().is_some_and(|text| text.contains("from two")), "{ended}");
        for node in [one, two] {
            assert_eq!(content(node, &path(&id, "made.txt")), "by a job");
        }
        ok(&node.ask("DELETE", &path(&id, "made.txt"), &Value::Null));
    }
    ok(&two.ask("DELETE", &format!("/api/projects/{id}"), &Value::Null));
    assert_eq!(one.get(&path(&id, "notes/a.txt")).status, 404);
    let directory = user_directory(&sharing.shared_dir().join("workspaces"), 1).join("app");
    wait_until("the directory is gone", || !directory.exists());
}

#[test]
fn a_job_that_another_node_takes_over_keeps_the_files_of_its_directory() {
    let model = turns::start_model();
    let Some(mut sharing) = SharingNodes::without_nodes(&against(&model, "")) else { return };
    sharing.add_node();
    let turns: &[Turn<'_>] = &[&[write("note.txt", "kept")], &[sleep(8)], &[read("note.txt")]];
    let job = submit(&sharing.nodes[0], turns, &json!({}));
    let directory = || user_directory(&sharing.shared_dir().join("jobs"), 1).join(&job);
    wait_until("the file is written", || directory().join("note.txt").exists());
    let directory = directory();
    let events = format!("/v1/jobs/{job}/events?follow=false");
    wait_until("it sleeps", || sharing.nodes[0].get(&events).body.contains("execute_python"));
    sharing.add_node();
    sharing.nodes[0].kill();
    let survivor = &sharing.nodes[1];
    let ended = survivor.wait(&job);
    assert_eq!((&ended["status"], &ended["attempt"]), (&json!("succeeded"), &json!(2)), "{ended}");
    assert!(ended["output_text"].as_str().is_some_and(|text| text.contains("kept")), "{ended}");
    ok(&survivor.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null));
    assert!(!directory.exists());
}

#[test]
fn an_upload_at_one_node_is_used_at_the_other() {
    let model = Upstream::start(|_, _| Answer::text("a cat"));
    let config = format!(
        "default_model: eyes\nmodels:\n  - {{id: eyes, vision: true, api_url: \"{}/v1\"}}\n  - {{id: demo, provider: demo}}\n",
        model.url
    );
    let Some(sharing) = SharingNodes::start(&config) else { return };
    let (one, two) = sharing.pair();
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}});
    let file = ok(&upload(one, "batch", ("jobs.jsonl", &line.to_string())))["id"].clone();
    let order =
        json!({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"});
    let batch = ok(&two.post("/v1/batches", &order))["id"].as_str().expect("an id").to_owned();
    let batch = format!("/v1/batches/{batch}");
    wait_until("the results are a file", || one.get(&batch).json()["output_file_id"].is_string());
    let results = one.get(&batch).json()["output_file_id"].as_str().expect("a file").to_owned();
    for node in [one, two] {
        let text = node.get(&format!("/v1/files/{results}/content")).body;
        assert!(text.contains("\"custom_id\":\"a\""), "{text}");
    }

    let image = ok(&upload(one, "vision", ("cat.gif", GIF)))["id"].clone();
    let parts = json!([{"type": "input_text", "text": "look"}, {"type": "input_image", "file_id": image}]);
    let request = json!({"model": "eyes", "input": [{"role": "user", "content": parts}]});
    let response = ok(&two.post("/v1/responses", &request))["id"].as_str().expect("an id").to_owned();
    let seen = model.requests()[0]["messages"].to_string();
    assert!(seen.contains(&STANDARD.encode(GIF)), "{seen}");
    ok(&two.ask("DELETE", &format!("/v1/files/{}", image.as_str().expect("an id")), &Value::Null));
    let items = one.get(&format!("/v1/responses/{response}/input_items")).body;
    assert!(items.contains(&STANDARD.encode(GIF)), "the response keeps its image: {items}");
}

#[test]
fn the_results_of_a_batch_whose_node_died_become_a_file_all_the_same() {
    let model = super::paced("slowly ", 40, 50);
    let Some(mut sharing) = SharingNodes::without_nodes(&against(&model, "")) else { return };
    sharing.add_node();
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}});
    let file = ok(&upload(&sharing.nodes[0], "batch", ("jobs.jsonl", &line.to_string())))["id"].clone();
    sharing.add_node();
    let order =
        json!({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"});
    let batch = ok(&sharing.nodes[0].post("/v1/batches", &order))["id"].as_str().expect("an id").to_owned();
    sharing.nodes[0].kill();
    let shown = || sharing.nodes[1].get(&format!("/v1/batches/{batch}")).json();
    wait_until("the results are a file", || shown()["output_file_id"].is_string());
}

#[test]
fn of_two_conditional_writes_at_two_nodes_one_wins() {
    let Some(sharing) = SharingNodes::start("") else { return };
    let (one, two) = sharing.pair();
    let file = path(&project(one, "app"), "count");
    ok(&put(one, &file, "0", &[("if-none-match", "*")]));
    assert_eq!(put(two, &file, "0", &[("if-none-match", "*")]).status, 412);
    for round in 0..30 {
        let tag = ok_tag(&two.get(&file));
        let write = |node: &Server, text: String| put(node, &file, &text, &[("if-match", &tag)]).status;
        let mut statuses = std::thread::scope(|scope| {
            let writes =
                [one, two].map(|node| scope.spawn(move || write(node, format!("{round} {}", node.url))));
            writes.map(|write| write.join().expect("a reply"))
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "round {round}");
    }
}

fn ok_tag(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.header("etag").expect("a tag").to_owned()
}

#[test]
fn changes_of_one_file_by_jobs_on_two_nodes_wait_for_each_other() {
    let model = turns::start_model();
    let Some(sharing) = SharingNodes::start(&against(&model, "workers: 4")) else { return };
    let (one, two) = sharing.pair();
    let id = project(one, "app");
    ok(&put(one, &path(&id, "list.txt"), "", &[]));
    let append = |n: usize| {
        ("file_write", json!({"path": "list.txt", "content": format!("line {n}\n"), "mode": "append"}))
    };
    let jobs: Vec<String> = (0..12)
        .map(|n| {
            let calls: Vec<_> = (0..5).map(|call| vec![append(n * 5 + call)]).collect();
            let turns: Vec<Turn<'_>> = calls.iter().map(Vec::as_slice).collect();
            submit([one, two][n % 2], &turns, &json!({"project_id": id}))
        })
        .collect();
    for job in &jobs {
        assert_eq!(one.wait(job)["status"], "succeeded");
    }
    let text = content(two, &path(&id, "list.txt"));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 60, "no line is lost: {text}");
}

#[test]
fn a_node_that_does_not_see_the_directory_refuses_files_until_it_does() {
    let model = turns::start_model();
    let Some(mut sharing) = SharingNodes::without_nodes(&against(&model, "")) else { return };
    sharing.add_node();
    let id = project(&sharing.nodes[0], "app");
    ok(&put(&sharing.nodes[0], &path(&id, "a"), "text", &[]));
    let mount = tempfile::tempdir().expect("a directory");
    let (empty, link) = (mount.path().join("empty"), mount.path().join("link"));
    std::fs::create_dir(&empty).expect("a directory");
    symlink(&empty, &link).expect("a link");
    let node = sharing.node(Some(&link));
    let reason = "nanoclaw.beacon";
    assert_refused(&node.post("/api/projects", &json!({"name": "other"})), reason);
    assert_refused(&node.get(&path(&id, "a")), reason);
    assert_refused(&node.post("/v1/jobs", &json!({"input": "x", "project_id": id})), reason);
    let refused = upload(&node, "batch", ("jobs.jsonl", "{}"));
    assert_refused(&refused, reason);
    assert_eq!(refused.json()["error"]["code"], "files_unavailable");
    let ready = node.get("/readyz");
    assert_eq!((ready.status, &ready.json()["status"]), (200, &json!("degraded")), "{}", ready.body);
    let check = |part: &Value| part["part"] == "files" && part["reason"].to_string().contains(reason);
    assert!(
        ready.json()["degraded"].as_array().is_some_and(|parts| parts.iter().any(check)),
        "{}",
        ready.body
    );
    assert!(node.log().contains(reason), "{}", node.log());
    assert_eq!(std::fs::read_dir(&empty).expect("a directory").count(), 0, "nothing is left there");
    assert_eq!(takes_jobs(&node), "0");
    // The other node runs the jobs.
    for _ in 0..8 {
        assert_eq!(node.wait(&node.submit(&json!({"input": "hello"})))["status"], "succeeded");
    }
    let claims = "nanoclaw_job_queue_wait_seconds_count ";
    let text = node.get("/metrics").body;
    let claimed = text.lines().find_map(|line| line.strip_prefix(claims)).unwrap_or("0");
    assert_eq!(claimed, "0", "{}", node.log());
    // The mount comes late.
    std::fs::remove_file(&link).expect("removed");
    symlink(sharing.dir.path(), &link).expect("a link");
    wait_until("it sees the directory", || node.get(&path(&id, "a")).status == 200);
    assert_eq!(content(&node, &path(&id, "a")), "text");
    wait_until("it is whole", || !node.get("/readyz").body.contains(reason));
    wait_until("it takes jobs", || takes_jobs(&node) == "1");
}

fn takes_jobs(node: &Server) -> String {
    let text = node.get("/metrics").body;
    let value = text.lines().find_map(|line| line.strip_prefix("nanoclaw_node_takes_jobs "));
    value.expect("the metric").to_owned()
}

#[test]
fn a_node_that_loses_the_directory_takes_no_jobs_until_it_is_back() {
    let model = turns::start_model();
    let Some(sharing) = SharingNodes::without_nodes(&against(&model, "")) else { return };
    let mount = tempfile::tempdir().expect("a directory");
    let (empty, link) = (mount.path().join("empty"), mount.path().join("link"));
    std::fs::create_dir(&empty).expect("a directory");
    symlink(sharing.dir.path(), &link).expect("a link");
    let node = sharing.node(Some(&link));
    assert_eq!(node.wait(&node.submit(&json!({"input": "hello"})))["status"], "succeeded");
    let mounted = |target: &Path| {
        std::fs::remove_file(&link).expect("removed");
        symlink(target, &link).expect("a link");
    };
    mounted(&empty);
    wait_until("it has lost the directory", || takes_jobs(&node) == "0");
    let ready = node.get("/readyz");
    assert_eq!((ready.status, &ready.json()["status"]), (200, &json!("degraded")), "{}", ready.body);
    assert!(ready.body.contains("takes no jobs"), "{}", ready.body);
    let id = node.submit(&json!({"input": "hello"}));
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(ok(&node.get(&format!("/v1/jobs/{id}")))["status"], "queued", "{}", node.log());
    assert!(node.log().contains("this node takes no jobs"), "{}", node.log());
    mounted(sharing.dir.path());
    assert_eq!(node.wait(&id)["status"], "succeeded");
    assert!(node.log().contains("this node takes jobs again"), "{}", node.log());
}

#[test]
fn a_nearly_full_disk_of_the_directory_refuses_new_work() {
    let model = turns::start_model();
    let Some(sharing) =
        SharingNodes::without_nodes(&against(&model, "limits: {disk_free_bytes: 1152921504606846976}"))
    else {
        return;
    };
    let node = sharing.node(Some(&sharing.shared_dir()));
    for refused in [
        node.post("/v1/jobs", &json!({"input": "hello"})),
        node.post("/api/projects", &json!({"name": "app"})),
        upload(&node, "batch", ("jobs.jsonl", "{}")),
    ] {
        assert_eq!(refused.status, 507, "{}", refused.body);
        assert!(refused.body.contains("nearly full"), "{}", refused.body);
    }
    let ready = node.get("/readyz");
    let is_disk = |part: &Value| part["part"] == "disk" && part["reason"].to_string().contains("nearly full");
    assert!(
        ready.json()["degraded"].as_array().is_some_and(|parts| parts.iter().any(is_disk)),
        "{}",
        ready.body
    );
    assert!(node.get("/metrics").body.contains("\nnanoclaw_store_disk_free_bytes "));
}

#[test]
fn a_node_without_the_setting_refuses_files_and_names_it() {
    let model = turns::start_model();
    let Some(sharing) = SharingNodes::without_nodes(&against(&model, "")) else { return };
    let node = sharing.node(None);
    assert_refused(&node.post("/api/projects", &json!({"name": "app"})), "store.shared_dir");
    assert_refused(&upload(&node, "batch", ("jobs.jsonl", "{}")), "store.shared_dir");
    assert!(node.get("/readyz").body.contains("store.shared_dir"));
    let job = submit(&node, &[&[write("a", "text")]], &json!({}));
    let ended = node.wait(&job);
    assert!(ended["output_text"].as_str().is_some_and(|text| text.contains("store.shared_dir")), "{ended}");
    assert!(!node.dir.join("data/jobs").exists() && !node.dir.join("data/files").exists());
}

#[test]
fn the_directory_of_a_job_goes_whichever_node_deletes_the_job() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[write("note.txt", "hello")]),
        _ => Answer::text("done"),
    });
    let Some(sharing) = SharingNodes::start(&against(&upstream, "workers: 1")) else { return };
    for n in 0..4 {
        let id = sharing.nodes[n % 2].submit(&json!({"input": "go"}));
        assert_eq!(sharing.nodes[0].wait(&id)["status"], "succeeded");
        let directory = user_directory(&sharing.shared_dir().join("jobs"), 1).join(&id);
        assert!(directory.exists(), "the job has written a file");
        let deleted = sharing.nodes[n / 2].ask("DELETE", &format!("/v1/jobs/{id}"), &Value::Null);
        assert!(deleted.status < 300, "{}", deleted.body);
        wait_until("the directory is gone", || !directory.exists());
    }
}

#[test]
fn changes_of_a_memory_by_jobs_on_two_nodes_are_all_kept() {
    let model = turns::start_model();
    let config = against(&model, "workers: 4\nmemory: {enabled: true}");
    let Some(sharing) = SharingNodes::start(&config) else { return };
    let (one, two) = sharing.pair();
    let id = project(one, "app");
    let append = |scope: &str, n: usize| {
        ("memory", json!({"command": "append", "scope": scope, "text": format!("line {n}")}))
    };
    let jobs: Vec<String> = (0..12)
        .map(|n| {
            let calls = [append("user", n), append("project", n)];
            submit([one, two][n % 2], &[&calls], &json!({"project_id": id}))
        })
        .collect();
    for job in &jobs {
        assert_eq!(one.wait(job)["status"], "succeeded");
    }
    for path in ["/v1/memory".to_owned(), format!("/v1/memory?project_id={id}")] {
        let text = two.get(&path).json()["content"].as_str().expect("a text").to_owned();
        assert_eq!(text.lines().count(), 12, "no line is lost: {text}");
    }
}
