//! Files of projects as bytes, and changes that depend on their version.

use crate::support::directories::user_directory;
use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A server with a project: its routes of files, and its directory.
struct Project {
    server: Server,
    id: String,
    directory: PathBuf,
}

impl Project {
    fn start() -> Self {
        let server = Server::start();
        let made = server.post("/api/projects", &json!({"name": "app"})).json();
        let id = made["data"]["id"].as_str().expect("an id").to_owned();
        let directory = user_directory(&server.dir.join("data/workspaces"), 1).join("app");
        Self { server, id, directory }
    }

    fn path(&self, file: &str) -> String {
        format!("/api/projects/{}/files/{file}", self.id)
    }

    fn get(&self, file: &str, headers: &[(&str, &str)]) -> Reply {
        self.server.get_with(&self.path(file), headers)
    }

    fn put(&self, file: &str, content: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({"content": content}).to_string();
        let headers = [&[("content-type", "application/json")][..], headers].concat();
        self.server.request(("PUT", &self.path(file)), &headers, &body)
    }

    fn delete(&self, file: &str, headers: &[(&str, &str)]) -> Reply {
        self.server.request(("DELETE", &self.path(file)), headers, "")
    }

    fn rename(&self, file: &str, new_path: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({"new_path": new_path}).to_string();
        let headers = [&[("content-type", "application/json")][..], headers].concat();
        self.server.request(("PATCH", &self.path(file)), &headers, &body)
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory.join(file)).expect("a file")
    }
}

fn tag(reply: &Reply) -> String {
    reply.header("etag").unwrap_or_else(|| panic!("no ETag: {reply:?}")).to_owned()
}

fn assert_refused(reply: &Reply, why: &str) {
    assert_eq!((reply.status, &reply.json()["code"]), (412, &json!(412)), "{}", reply.body);
    let message = reply.json()["message"].as_str().expect("a message").to_owned();
    assert!(message.contains(why), "{message}");
}

#[test]
fn p9_any_file_is_downloaded_as_it_is_and_never_shown_as_a_page() {
    let project = Project::start();
    let bytes: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    std::fs::create_dir(project.directory.join("d")).expect("a directory");
    std::fs::write(project.directory.join("d/all bytes é.bin"), &bytes).expect("a file");
    let url = format!("{}{}?raw=true", project.server.url, project.path("d/all%20bytes%20%C3%A9.bin"));
    let mut answer = ureq::get(&url).call().expect("an answer");
    let body = answer.body_mut().read_to_vec().expect("a body");
    assert_eq!((answer.status().as_u16(), body == bytes), (200, true));
    let header = |name: &str| answer.headers()[name].to_str().expect("a text").to_owned();
    assert_eq!(header("content-length"), "700000");
    assert_eq!(header("content-type"), "application/octet-stream");
    let name = "attachment; filename=\"all bytes _.bin\"; filename*=UTF-8''all%20bytes%20%C3%A9.bin";
    assert_eq!(header("content-disposition"), name);
    for page in ["evil.html", "evil.svg", "evil.js"] {
        project.put(page, "<svg onload=alert(1)><script>alert(1)</script>", &[]);
        let reply = project.get(&format!("{page}?raw=true"), &[]);
        assert_eq!(reply.header("content-type"), Some("application/octet-stream"), "{page}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert!(reply.header("content-disposition").is_some_and(|value| value.starts_with("attachment")));
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
    }
    assert_eq!(project.get("evil.js?raw=false", &[]).json()["data"]["name"], "evil.js");
    let head = project.server.request(("HEAD", &project.path("evil.js?raw=true")), &[], "");
    assert_eq!((head.status, head.header("content-length")), (200, Some("46")));
    std::os::unix::fs::symlink("/etc/passwd", project.directory.join("link")).expect("a link");
    for (path, status) in [
        ("none?raw=true", 404),
        ("d?raw=true", 400),
        ("link?raw=true", 400),
        ("..%2F..%2Fconfig.yml?raw=true", 403),
        ("evil.js?raw=yes", 400),
        ("evil.js?raw=true&raw=true", 400),
        ("evil.js?row=true", 400),
    ] {
        let reply = project.get(path, &[]);
        assert_eq!(reply.status, status, "{path}: {}", reply.body);
    }
    let empty = project.put("empty", "", &[]);
    assert_eq!(empty.status, 200, "{}", empty.body);
    assert_eq!(project.get("empty?raw=true", &[]).body, "");
}

#[test]
fn the_etag_of_a_file_changes_with_its_content_only() {
    let project = Project::start();
    let written = tag(&project.put("a.txt", "one", &[]));
    let (text, raw) = (project.get("a.txt", &[]), project.get("a.txt?raw=true", &[]));
    assert_eq!((tag(&text), tag(&raw)), (written.clone(), written.clone()), "one version in both forms");
    for path in ["a.txt", "a.txt?raw=true"] {
        for known in [written.clone(), format!("W/{written}"), format!("\"x\", {written}"), "*".to_owned()] {
            let reply = project.get(path, &[("if-none-match", &known)]);
            assert_eq!(
                (reply.status, reply.body.as_str(), tag(&reply)),
                (304, "", written.clone()),
                "{known}"
            );
        }
        assert_eq!(project.get(path, &[("if-none-match", "\"x\"")]).status, 200);
        assert_eq!(project.get(path, &[("if-none-match", "x")]).status, 400);
    }
    assert_ne!(tag(&project.put("a.txt", "two", &[])), written);
    std::fs::write(project.directory.join("a.txt"), "one").expect("a file");
    assert_eq!(tag(&project.get("a.txt", &[])), written, "the same content again");
    // A file that no text may be as large as has a version, too.
    let large = project.directory.join("large");
    std::fs::write(&large, vec![b'x'; 6_000_000]).expect("a file");
    let before = project.server.request(("HEAD", &project.path("large?raw=true")), &[], "");
    std::fs::write(&large, vec![b'y'; 6_000_001]).expect("a file");
    let after = project.server.request(("HEAD", &project.path("large?raw=true")), &[], "");
    assert_eq!((before.status, after.status), (200, 200));
    assert_ne!(tag(&before), tag(&after));
    assert_refused(&project.delete("large", &[("if-match", &tag(&before))]), "has changed");
    assert_eq!(project.delete("large", &[("if-match", &tag(&after))]).status, 200);
}

#[test]
fn a_change_with_if_match_is_refused_when_the_file_has_changed() {
    let project = Project::start();
    let first = tag(&project.put("a.txt", "one", &[]));
    let second = project.put("a.txt", "two", &[("if-match", &first)]);
    assert_eq!(second.status, 200, "{}", second.body);
    assert_refused(&project.put("a.txt", "three", &[("if-match", &first)]), "'a.txt' has changed");
    assert_refused(&project.delete("a.txt", &[("if-match", &first)]), "'a.txt' has changed");
    let weak = format!("W/{}", tag(&second));
    assert_refused(&project.put("a.txt", "three", &[("if-match", &weak)]), "has changed");
    assert_eq!(project.text("a.txt"), "two");
    let either = format!("\"x\", {}", tag(&second));
    assert_eq!(project.put("a.txt", "three", &[("if-match", &either)]).status, 200);
    assert_eq!(project.put("a.txt", "four", &[("if-match", "*")]).status, 200);
    assert_eq!(project.put("a.txt", "five", &[]).status, 200, "without a condition as before");
    assert_refused(&project.put("none.txt", "x", &[("if-match", "*")]), "does not exist");
    assert_refused(&project.put("none.txt", "x", &[("if-match", &first)]), "does not exist any more");
    assert_refused(&project.delete("none.txt", &[("if-match", &first)]), "does not exist any more");
    assert!(!project.directory.join("none.txt").exists());
    assert_refused(&project.rename("a.txt", "b.txt", &[("if-match", &first)]), "'a.txt' has changed");
    assert_refused(&project.rename("none.txt", "b.txt", &[("if-match", "*")]), "does not exist");
    assert_eq!(
        project.rename("a.txt", "b.txt", &[("if-match", &tag(&project.get("a.txt", &[])))]).status,
        200
    );
    assert_eq!((project.text("b.txt").as_str(), project.get("a.txt", &[]).status), ("five", 404));
    assert_eq!(project.delete("b.txt", &[("if-match", "*")]).status, 200);
}

#[test]
fn a_change_with_if_none_match_makes_new_files_only() {
    let project = Project::start();
    let new = [("if-none-match", "*")];
    assert_eq!(project.put("d/a.txt", "one", &new).status, 200);
    assert_refused(&project.put("d/a.txt", "two", &new), "'d/a.txt' exists already");
    assert_refused(&project.put("d", "two", &new), "'d' exists already");
    assert_refused(&project.delete("d/a.txt", &new), "exists already");
    assert_eq!(project.text("d/a.txt"), "one");
    for headers in [
        vec![("if-none-match", "\"x\"")],
        vec![("if-none-match", "*"), ("if-match", "*")],
        vec![("if-match", "x")],
        vec![("if-match", "\"x")],
        vec![("if-match", "")],
        vec![("if-match", "\"x\",")],
    ] {
        let refused = project.put("d/a.txt", "two", &headers);
        assert_eq!(refused.status, 400, "{headers:?}: {}", refused.body);
        assert!(refused.body.contains("Match'"), "{}", refused.body);
        assert_eq!(project.delete("d/a.txt", &headers).status, 400, "{headers:?}");
    }
    assert_eq!(project.text("d/a.txt"), "one");
}

#[test]
fn a_change_by_the_agent_is_not_overwritten() {
    let project = Project::start();
    let seen = tag(&project.put("notes.md", "by the user", &[]));
    let call = r#"tool: file_write {"path": "notes.md", "content": "by the agent"}"#;
    let job = project.server.submit(&json!({"input": call, "project_id": project.id}));
    let ended = project.server.wait(&job);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(project.text("notes.md"), "by the agent");
    assert_refused(&project.put("notes.md", "by the user again", &[("if-match", &seen)]), "has changed");
    assert_eq!(project.text("notes.md"), "by the agent");
    let now = tag(&project.get("notes.md", &[]));
    assert_eq!(project.put("notes.md", "merged", &[("if-match", &now)]).status, 200);
}

#[test]
fn of_many_writers_with_one_version_only_one_succeeds() {
    let project = Project::start();
    let seen = tag(&project.put("a.txt", "start", &[]));
    for (header, value) in [("if-match", seen.as_str()), ("if-none-match", "*")] {
        let file = if header == "if-match" { "a.txt" } else { "new.txt" };
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let project = &project;
            let writers: Vec<_> = (0..8)
                .map(|n| {
                    scope.spawn(move || project.put(file, &format!("writer {n}"), &[(header, value)]).status)
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().expect("a status")).collect()
        });
        let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!((count(200), count(412)), (1, 7), "{header}: {statuses:?}");
    }
}

#[test]
fn p7_the_bytes_of_another_users_file_look_missing() {
    let server = Server::start_with("auth_mode: multi\n");
    let register = |name: &str| {
        let body = json!({"username": name, "password": "correct horse"});
        let data = server.register(&body).json()["data"].clone();
        format!("Bearer {}", data["token"].as_str().expect("a token"))
    };
    let (ann, bob) = (register("ann"), register("bob"));
    let ask = |token: &str, (method, path): (&str, &str), headers: &[(&str, &str)], body: &Value| {
        let own = [("authorization", token), ("content-type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        server.request((method, path), &[&own[..], headers].concat(), &text)
    };
    let made = ask(&ann, ("POST", "/api/projects"), &[], &json!({"name": "app"})).json();
    let file = |id: &str| format!("/api/projects/{id}/files/a.txt");
    let theirs = file(made["data"]["id"].as_str().expect("an id"));
    let written = ask(&ann, ("PUT", &theirs), &[], &json!({"content": "secret"}));
    let tag = tag(&written);
    let unknown = file("proj_00000000000000000000000000");
    for (method, query, header, body) in [
        ("GET", "?raw=true", ("accept", "*/*"), Value::Null),
        ("GET", "?raw=true", ("if-none-match", tag.as_str()), Value::Null),
        ("PUT", "", ("if-match", tag.as_str()), json!({"content": "mine"})),
        ("PUT", "", ("if-none-match", "*"), json!({"content": "mine"})),
        ("DELETE", "", ("if-match", tag.as_str()), Value::Null),
    ] {
        let ask = |path: &str| {
            let reply = ask(&bob, (method, &format!("{path}{query}")), &[header], &body);
            (reply.status, reply.body.clone(), reply.header("etag").map(str::to_owned))
        };
        let (foreign, missing) = (ask(&theirs), ask(&unknown));
        assert_eq!(foreign, missing, "{method} {query} {header:?}");
        assert_eq!(foreign.0, 404);
    }
    assert_eq!(ask(&ann, ("GET", &theirs), &[], &Value::Null).json()["data"]["content"], "secret");
}
