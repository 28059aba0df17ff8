//! `/v1/files` with the real binary: the objects of `OpenAI`, pages, refusals, contents on the disk, expiry
//! and crashes.

use crate::support::{Ran, Reply, Server, command, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=cut");

/// A part of a form: name, file name, data.
type Part<'a> = (&'a str, Option<&'a str>, &'a str);

fn form(parts: &[Part<'_>]) -> String {
    let part = |(name, file, data): &Part<'_>| {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{data}\r\n")
    };
    parts.iter().map(part).collect::<String>() + "--cut--\r\n"
}

fn send(server: &Server, parts: &[Part<'_>]) -> Reply {
    server.request(("POST", "/v1/files"), &[FORM], &form(parts))
}

fn upload(server: &Server, name: &str, content: &str) -> Value {
    let reply = send(server, &[("purpose", None, "user_data"), ("file", Some(name), content)]);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn id(file: &Value) -> &str {
    file["id"].as_str().expect("an id")
}

fn content(server: &Server, file: &Value) -> Reply {
    server.get(&format!("/v1/files/{}/content", id(file)))
}

fn delete(server: &Server, id: &str) -> Reply {
    server.ask("DELETE", &format!("/v1/files/{id}"), &Value::Null)
}

/// The names in the directory of contents.
fn stored(server: &Server) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(server.dir.join("data/files"));
    entries.map(|entries| entries.map(|entry| entry.expect("an entry").path()).collect()).unwrap_or_default()
}

#[test]
fn a_file_has_the_shape_of_openai_and_its_content_comes_back() {
    let server = Server::start();
    let text = "{\"custom_id\":\"a\"}\n\u{fc}".repeat(40_000);
    // The parts may come in any order.
    let parts = [
        ("file", Some("jobs \u{fc}.jsonl"), text.as_str()),
        ("expires_after[seconds]", None, "3600"),
        ("expires_after[anchor]", None, "created_at"),
        ("purpose", None, "batch"),
    ];
    let reply = send(&server, &parts);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let file = reply.json();
    let (name, created_at) = (id(&file), file["created_at"].as_u64().expect("a time"));
    let expected = json!({
        "id": name, "object": "file", "bytes": text.len(), "created_at": created_at,
        "expires_at": created_at + 3_600, "filename": "jobs \u{fc}.jsonl", "purpose": "batch",
        "status": "processed",
    });
    assert_eq!(file, expected);
    assert!(name.starts_with("file-"), "{name}");
    assert_eq!(server.get(&format!("/v1/files/{name}")).json(), expected);
    let back = content(&server, &file);
    assert_eq!((back.status, back.body == text), (200, true));
    let header =
        |name: &str| back.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!(header("content-type"), Some("application/octet-stream"));
    assert_eq!(header("content-disposition"), Some("attachment"));
    assert_eq!(delete(&server, name).json(), json!({"id": name, "object": "file", "deleted": true}));
    for missing in [delete(&server, name), server.get(&format!("/v1/files/{name}")), content(&server, &file)]
    {
        let error = missing.json()["error"].clone();
        assert_eq!((missing.status, &error["type"]), (404, &json!("invalid_request_error")), "{error}");
    }
    let never = upload(&server, "a", "");
    assert_eq!((&never["expires_at"], &never["bytes"]), (&Value::Null, &json!(0)));
    assert_eq!(content(&server, &never).body, "");
}

#[test]
fn files_are_listed_in_pages_of_openai() {
    let server = Server::start();
    let empty = json!({"object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false});
    assert_eq!(server.get("/v1/files").json(), empty);
    let files: Vec<Value> = (0..5).map(|number| upload(&server, &number.to_string(), "x")).collect();
    let page = server.get("/v1/files?limit=2").json();
    let expected = json!({
        "object": "list", "data": [files[4], files[3]], "first_id": files[4]["id"],
        "last_id": files[3]["id"], "has_more": true,
    });
    assert_eq!(page, expected);
    let names = |query: &str| {
        let page = server.get(&format!("/v1/files?{query}")).json();
        let data = page["data"].as_array().expect("data").iter();
        data.map(|file| file["filename"].as_str().expect("a name").to_owned()).collect::<String>()
    };
    assert_eq!(names(&format!("limit=10000&after={}", id(&files[3]))), "210");
    assert_eq!(names(&format!("order=asc&after={}", id(&files[2]))), "34");
    assert_eq!((names("purpose=user_data").as_str(), names("purpose=vision").as_str()), ("43210", ""));
    for bad in ["limit=0", "limit=10001", "order=up", "purpose=fun", "after=x", "before=x"] {
        let reply = server.get(&format!("/v1/files?{bad}"));
        let param = bad.split('=').next().expect("a name");
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{}", reply.body);
    }
}

#[test]
fn p8_a_refused_upload_names_its_field_and_leaves_nothing_behind() {
    let server = Server::start_with("limits: {upload_bytes: 100000, user_files: 2, user_files_bytes: 90000}");
    let (file, purpose) = (("file", Some("a"), "x"), ("purpose", None, "user_data"));
    let (anchor, seconds) = ("expires_after[anchor]", "expires_after[seconds]");
    let long = "x".repeat(256);
    let cases: [(&[Part<'_>], &str); 12] = [
        (&[], "purpose"),
        (&[file], "purpose"),
        (&[purpose], "file"),
        (&[file, ("purpose", None, "assistants")], "purpose"),
        (&[file, ("purpose", None, "batch_output")], "purpose"),
        (&[purpose, ("file", None, "x")], "file"),
        (&[purpose, ("file", Some(&long), "x")], "file"),
        (&[purpose, file, file], "file"),
        (&[purpose, file, ("note", None, "x")], "note"),
        (&[purpose, file, (seconds, None, "3600")], anchor),
        (&[purpose, file, (anchor, None, "created_at")], seconds),
        (&[purpose, file, (anchor, None, "created_at"), (seconds, None, "3599")], seconds),
    ];
    for (parts, param) in cases {
        let reply = send(&server, parts);
        assert_eq!(reply.status, 400, "{parts:?}: {}", reply.body);
        assert_eq!(reply.json()["error"]["param"], param, "{parts:?}: {}", reply.body);
    }
    let large = "x".repeat(100_001);
    let code = |reply: &Reply| (reply.status, reply.json()["error"]["code"].clone());
    let too_large = send(&server, &[purpose, ("file", Some("a"), &large)]);
    assert_eq!(code(&too_large), (413, json!("upload_too_large")), "{}", too_large.body);
    let half = "x".repeat(50_000);
    upload(&server, "a", &half);
    let no_room = send(&server, &[purpose, ("file", Some("b"), &half)]);
    assert_eq!(code(&no_room), (413, json!("quota_exceeded")), "{}", no_room.body);
    let second = upload(&server, "b", "x");
    assert_eq!(code(&send(&server, &[purpose, file])), (429, json!("files_full")));
    let text = server.request(("POST", "/v1/files"), &[("content-type", "application/json")], "{}");
    assert_eq!((text.status, &text.json()["error"]["param"]), (400, &json!("Content-Type")));
    let keyed =
        server.request(("POST", "/v1/files"), &[FORM, ("idempotency-key", "k")], &form(&[purpose, file]));
    assert_eq!((keyed.status, &keyed.json()["error"]["param"]), (400, &json!("Idempotency-Key")));
    assert_eq!(stored(&server).len(), 2, "{:?}", stored(&server));
    assert_eq!(delete(&server, id(&second)).status, 200);
    upload(&server, "c", "x");
}

#[test]
fn a_content_is_stored_once_and_removed_with_its_last_file() {
    let server = Server::start();
    let (first, second) = (upload(&server, "a", "same"), upload(&server, "b", "same"));
    assert_eq!(stored(&server).len(), 1);
    delete(&server, id(&first));
    assert_eq!(content(&server, &second).body, "same");
    delete(&server, id(&second));
    assert_eq!(stored(&server), Vec::<PathBuf>::new());
}

#[test]
fn p1_files_survive_kill_9_and_the_next_start_removes_what_no_file_has() {
    let server = Server::start();
    let file = upload(&server, "a", "kept");
    // An upload that is cut off by the crash, and a content whose row was never stored.
    let host = server.url.strip_prefix("http://").expect("a host");
    let mut half = TcpStream::connect(host).expect("a connection");
    let large = "x".repeat(600_000);
    let body = form(&[("purpose", None, "batch"), ("file", Some("half"), &large)]);
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nHost: {host}\r\nContent-Length: 900000\r\n{}: {}\r\n\r\n",
        FORM.0, FORM.1
    );
    half.write_all(head.as_bytes()).and_then(|()| half.write_all(&body.as_bytes()[..600_000])).expect("sent");
    wait_until("the upload begins", || stored(&server).len() == 2);
    let orphan = server.dir.join("data/files").join("0f".repeat(32));
    std::fs::write(&orphan, "orphan").expect("written");
    let server = server.crash_and_restart("");
    wait_until("the sweep", || stored(&server).len() == 1);
    assert_eq!(content(&server, &file).body, "kept");
    drop(half);
}

#[test]
fn an_upload_whose_client_disconnects_leaves_nothing_behind() {
    let server = Server::start();
    let host = server.url.strip_prefix("http://").expect("a host");
    let mut half = TcpStream::connect(host).expect("a connection");
    let body = form(&[("purpose", None, "batch"), ("file", Some("half"), &"x".repeat(600_000))]);
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nHost: {host}\r\nContent-Length: 900000\r\n{}: {}\r\n\r\n",
        FORM.0, FORM.1
    );
    half.write_all(head.as_bytes()).and_then(|()| half.write_all(&body.as_bytes()[..600_000])).expect("sent");
    wait_until("the upload begins", || stored(&server).len() == 1);
    half.shutdown(std::net::Shutdown::Both).expect("shut down");
    let mut rest = Vec::new();
    drop(half.read_to_end(&mut rest));
    wait_until("the removal", || stored(&server).is_empty());
    assert_eq!(server.get("/v1/files").json()["data"], json!([]));
}

#[test]
fn a_missing_or_cut_content_is_told_apart_from_a_missing_file() {
    let server = Server::start();
    let file = upload(&server, "a", "whole");
    let path = stored(&server).remove(0);
    for damage in [Some("cut"), None] {
        match damage {
            Some(text) => std::fs::write(&path, text).expect("written"),
            None => std::fs::remove_file(&path).expect("removed"),
        }
        let reply = content(&server, &file);
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (410, &json!("content_missing")));
    }
    assert_eq!(server.get(&format!("/v1/files/{}", id(&file))).status, 200);
    // The same content heals it.
    upload(&server, "b", "whole");
    assert_eq!(content(&server, &file).body, "whole");
}

#[test]
fn retention_removes_a_file_and_its_content() {
    let server = Server::start_with("retention: {files: 1s}");
    let file = upload(&server, "a", "soon gone");
    assert_eq!(file["expires_at"].as_u64(), file["created_at"].as_u64().map(|at| at + 1));
    wait_until("retention", || server.get(&format!("/v1/files/{}", id(&file))).status == 404);
    let server = server.crash_and_restart("");
    wait_until("the sweep", || stored(&server).is_empty());
}

#[test]
fn a_check_of_the_closed_store_names_contents_that_are_missing() {
    let mut server = Server::start();
    let (file, _) = (upload(&server, "a", "one"), upload(&server, "b", "two"));
    let path = |content: &str| {
        stored(&server)
            .into_iter()
            .find(|path| std::fs::read_to_string(path).is_ok_and(|text| text == content))
    };
    let missing = path("one").expect("a content");
    server.terminate();
    let check = || {
        let data = server.dir.join("data").display().to_string();
        Ran::from(command(&["check", "--json", "--data-dir", &data]).output().expect("nanoclaw"))
    };
    let whole = check();
    assert_eq!(whole.code, 0, "{}", whole.err);
    std::fs::remove_file(&missing).expect("removed");
    let found = check();
    let report: Value = serde_json::from_str(&found.out).expect("JSON");
    let digest = missing.file_name().and_then(|name| name.to_str()).expect("a name");
    assert_eq!((found.code, &report["damaged"]), (1, &json!(1)), "{}", found.err);
    assert_eq!(report["places"], json!([format!("content {digest} (it is missing)")]));
    assert!(found.err.contains("hint: backups have no contents"), "{} {}", found.err, id(&file));
}
