//! The file tools as a model calls them, through the real binary: paging, edits, limits, and isolation of
//! projects.

use crate::support::Server;
use crate::support::directories::user_directory;
use crate::support::upstream::{Answer, Upstream, tool_results};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

/// A server whose model makes all calls of the job's input in one answer and then repeats their results.
struct Fixture {
    server: Server,
    _upstream: Upstream,
}

/// The calls of one answer.
type Calls<'a> = &'a [(&'a str, Value)];

impl Fixture {
    fn start(extra: &str) -> Self {
        let upstream = Upstream::start(|request, _| {
            let results = tool_results(request);
            if !results.is_empty() {
                let contents = results.iter().map(|result| result["content"].as_str().unwrap_or_default());
                return Answer::text(&format!("[{}]", contents.collect::<Vec<_>>().join(",")));
            }
            let messages = request["messages"].as_array().expect("messages");
            let question =
                messages.iter().rev().find(|message| message["role"] == "user").expect("a question");
            let calls: Vec<(String, Value)> =
                serde_json::from_str(question["content"].as_str().expect("a text")).expect("calls");
            let calls: Vec<(&str, Value)> =
                calls.iter().map(|(name, a)| (name.as_str(), a.clone())).collect();
            Answer::calls(&calls)
        });
        Self { server: Server::start_against(&upstream, extra), _upstream: upstream }
    }

    /// Creates a project; returns its id and its directory.
    fn project(&self, name: &str) -> (String, PathBuf) {
        let made = self.server.post("/api/projects", &json!({"name": name})).json();
        let id = made["data"]["id"].as_str().expect("an id").to_owned();
        (id, user_directory(&self.server.dir.join("data/workspaces"), 1).join(name))
    }

    /// The results of these calls, made in one answer of a job of this project.
    fn calls(&self, project: &str, calls: Calls<'_>) -> Vec<Value> {
        let input = serde_json::to_string(calls).expect("JSON");
        let job = self.server.submit(&json!({"input": input, "project_id": project}));
        results(&self.server.wait(&job))
    }

    /// The data of one call that succeeds.
    fn ok(&self, project: &str, tool: &str, arguments: Value) -> Value {
        let result = self.calls(project, &[(tool, arguments)]).remove(0);
        assert_eq!(result["success"], true, "{tool}: {result}");
        result["data"].clone()
    }

    /// The error of one call that fails.
    fn error(&self, project: &str, tool: &str, arguments: Value) -> String {
        let result = self.calls(project, &[(tool, arguments)]).remove(0);
        assert_eq!(result["success"], false, "{tool}: {result}");
        result["error"].as_str().expect("a text").to_owned()
    }
}

fn results(ended: &Value) -> Vec<Value> {
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let text = ended["output_text"].as_str().expect("a text");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_model_can_use_all_file_tools_in_a_project() {
    let fixture = Fixture::start("");
    let (p, dir) = fixture.project("app");
    let made = fixture.ok(&p, "file_write", json!({"path": "src/a.txt", "content": "one\ntwo\n"}));
    assert_eq!(made, json!({"path": "src/a.txt", "size": 8, "mode": "write", "created": true}));
    fs::set_permissions(dir.join("src/a.txt"), fs::Permissions::from_mode(0o750)).expect("a mode");
    let more =
        fixture.ok(&p, "file_write", json!({"path": "src/a.txt", "content": "three\n", "mode": "append"}));
    assert_eq!(
        (&more["size"], &more["created"], &more["mode"]),
        (&json!(14), &json!(false), &json!("append"))
    );
    assert_eq!(fs::metadata(dir.join("src/a.txt")).expect("it").mode() & 0o777, 0o750, "the mode stays");
    let new = fixture.ok(&p, "file_write", json!({"path": "log", "content": "x", "mode": "append"}));
    assert_eq!(new["created"], true);
    let read = fixture.ok(&p, "file_read", json!({"path": "./src//a.txt", "offset": 2, "limit": 1}));
    assert_eq!(
        (&read["content"], &read["path"], &read["size"]),
        (&json!("two\n"), &json!("src/a.txt"), &json!(14))
    );
    assert_eq!(
        (&read["total_lines"], &read["next_offset"], &read["has_more"]),
        (&json!(3), &json!(3), &json!(true))
    );
    let edited =
        fixture.ok(&p, "file_edit", json!({"path": "src/a.txt", "old_text": "two", "new_text": "2"}));
    assert_eq!((&edited["replacements"], &edited["lines"]), (&json!(1), &json!([2])));
    assert_eq!(edited["snippet"], "1| one\n2| 2\n3| three");
    assert_eq!(fs::read_to_string(dir.join("src/a.txt")).expect("it"), "one\n2\nthree\n");
    let seen = fixture.calls(
        &p,
        &[
            ("file_exists", json!({"path": "src/a.txt"})),
            ("file_exists", json!({"path": "src"})),
            ("file_exists", json!({"path": "log/none"})),
            ("file_mkdir", json!({"path": "src/deep/er"})),
            ("file_search", json!({"pattern": "^T?h?ree$|^t.*e$", "glob": "*.txt"})),
        ],
    );
    let data: Vec<&Value> = seen.iter().map(|result| &result["data"]).collect();
    assert_eq!(*data[0], json!({"path": "src/a.txt", "exists": true, "type": "file", "size": 12}));
    assert_eq!((&data[1]["type"], &data[2]["exists"]), (&json!("directory"), &json!(false)));
    assert_eq!(data[3]["created"], true);
    assert_eq!(data[4]["matches"], json!([{"path": "src/a.txt", "line": 3, "text": "three"}]));
    assert_eq!(fixture.ok(&p, "file_mkdir", json!({"path": "src/deep"}))["created"], false);
    let listed = fixture.ok(&p, "file_list", json!({}));
    assert_eq!(listed["files"], json!([{"name": "log", "path": "log", "size": 1}]));
    assert_eq!(listed["directories"], json!([{"name": "src", "path": "src"}]));
    let deep = fixture.ok(&p, "file_list", json!({"pattern": "**/*"}));
    assert_eq!(
        (&deep["total_files"], &deep["total_dirs"], &deep["is_cut"]),
        (&json!(2), &json!(3), &json!(false))
    );
    let below = fixture.ok(&p, "file_list", json!({"path": "src", "pattern": "*.txt"}));
    assert_eq!(below["files"], json!([{"name": "a.txt", "path": "src/a.txt", "size": 12}]));
    assert_eq!(fixture.ok(&p, "file_delete", json!({"path": "log"}))["deleted"], true);
    assert!(!dir.join("log").exists());
    assert!(fixture.error(&p, "file_delete", json!({"path": "src"})).contains("removes files only"));
    assert!(
        fixture.error(&p, "file_delete", json!({"path": "."})).contains("own directory cannot be deleted")
    );
    assert!(dir.join("src").is_dir());
}

#[test]
fn an_edit_changes_a_unique_match_or_explains_the_other_matches() {
    let fixture = Fixture::start("");
    let (p, dir) = fixture.project("app");
    let file = dir.join("f");
    let edit = |old: &str, new: &str| json!({"path": "f", "old_text": old, "new_text": new});
    let bytes = b"\xEF\xBB\xBFa  \r\n\xE2\x80\x9Cb\xE2\x80\x9D\r\na\r\n";
    fs::write(&file, bytes).expect("a file");
    assert!(fixture.error(&p, "file_edit", edit("a", "x")).contains("stands 2 times in 'f', at lines 1, 3"));
    assert!(fixture.error(&p, "file_edit", edit("", "x")).contains("use file_write"));
    assert!(fixture.error(&p, "file_edit", edit("a", "a")).contains("are the same"));
    assert!(fixture.error(&p, "file_edit", edit("“c”\nat", "x")).contains("does not stand in 'f'"));
    let quotes = fixture.error(&p, "file_edit", edit("\"b\"", "x"));
    assert!(quotes.contains("at lines 2 to 2") && quotes.contains("only in quotes"), "{quotes}");
    assert_eq!(fs::read(&file).expect("it"), bytes, "nothing was changed");
    fixture.ok(&p, "file_edit", edit("”\na", "”\nc\nd"));
    let expected = "\u{feff}a  \r\n“b”\r\nc\r\nd\r\n";
    assert_eq!(fs::read_to_string(&file).expect("it"), expected);
    let all = json!({"path": "f", "old_text": "\n", "new_text": "!\n", "replace_all": true});
    assert_eq!(fixture.ok(&p, "file_edit", all)["replacements"], 4);
    assert_eq!(fs::read_to_string(&file).expect("it"), expected.replace('\r', "!\r"));
    fs::write(dir.join("latin"), b"caf\xe9").expect("a file");
    let latin = json!({"path": "latin", "old_text": "caf", "new_text": "x"});
    assert!(fixture.error(&p, "file_edit", latin).contains("is not a UTF-8 text file"));
    let more = json!({"path": "latin", "content": "é", "mode": "append"});
    assert!(fixture.error(&p, "file_write", more).contains("nothing is added"));
    assert!(
        fixture
            .error(&p, "file_edit", json!({"path": "no", "old_text": "a", "new_text": "b"}))
            .contains("does not exist")
    );
}

#[test]
fn concurrent_changes_of_one_file_are_all_kept() {
    let fixture = Fixture::start("tool_max_workers: 8\n");
    let (p, dir) = fixture.project("app");
    let lines: String = (0..24).map(|n| format!("<{n}>\n")).collect::<Vec<_>>().concat();
    fs::write(dir.join("f"), lines).expect("a file");
    let change = |n: u32| match n % 4 {
        3 => ("file_write", json!({"path": "f", "content": format!("[{n}]\n"), "mode": "append"})),
        _ => ("file_edit", json!({"path": "f", "old_text": format!("<{n}>"), "new_text": format!("[{n}]")})),
    };
    let jobs: Vec<String> = (0..3)
        .map(|job| {
            let calls: Vec<_> = (job * 8..job * 8 + 8).map(change).collect();
            let input = serde_json::to_string(&calls).expect("JSON");
            fixture.server.submit(&json!({"input": input, "project_id": p}))
        })
        .collect();
    for job in &jobs {
        assert!(results(&fixture.server.wait(job)).iter().all(|result| result["success"] == true));
    }
    let text = fs::read_to_string(dir.join("f")).expect("it");
    for n in 0..24 {
        assert_eq!(text.matches(&format!("[{n}]\n")).count(), 1, "{n} is lost:\n{text}");
    }
}

#[test]
fn p7_file_tools_cannot_leave_the_project() {
    let fixture = Fixture::start("");
    let (p, dir) = fixture.project("app");
    let (_, sibling) = fixture.project("app_evil");
    let canary = fixture.server.dir.join("canary");
    fs::write(&canary, "secret").expect("a canary");
    fs::write(sibling.join("canary"), "secret").expect("a canary");
    fs::write(dir.join("own"), "own").expect("a file");
    symlink(&fixture.server.dir, dir.join("link")).expect("a link");
    symlink(&canary, dir.join("leaf")).expect("a link");
    symlink("/dev/zero", dir.join("zero")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
    let absolute = canary.to_str().expect("a path").to_owned();
    for path in
        ["../app_evil/canary", "a/../../app_evil/canary", "own/../..", &absolute, "/etc/passwd", "/dev/zero"]
    {
        let at = |more: Value| {
            let mut all = json!({"path": path});
            all.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            all
        };
        let seen = fixture.calls(
            &p,
            &[
                ("file_read", at(json!({}))),
                ("file_write", at(json!({"content": "x"}))),
                ("file_write", at(json!({"content": "x", "mode": "append"}))),
                ("file_edit", at(json!({"old_text": "secret", "new_text": "x"}))),
                ("file_delete", at(json!({}))),
                ("file_list", at(json!({}))),
                ("file_exists", at(json!({}))),
                ("file_mkdir", at(json!({}))),
                ("file_search", at(json!({"pattern": "secret"}))),
            ],
        );
        for result in seen {
            let error = result["error"].as_str().unwrap_or_default();
            let expected = format!("Path '{path}' is outside project directory '{}'", dir.display());
            assert!(error.starts_with(&expected), "{result}");
        }
    }
    for pattern in ["../*", "../../*", "/etc/*", "a/../../*"] {
        assert!(
            fixture
                .error(&p, "file_list", json!({"pattern": pattern}))
                .contains("is outside project directory")
        );
        let search = json!({"pattern": "secret", "glob": pattern});
        assert!(fixture.error(&p, "file_search", search).contains("is outside project directory"));
    }
    for path in ["link/canary", "leaf", "zero", "pipe", "link"] {
        let error = fixture.error(&p, "file_read", json!({"path": path}));
        assert!(
            error.contains("symbolic link") || error.contains("neither a file nor a directory"),
            "{error}"
        );
        let edit = json!({"path": path, "old_text": "secret", "new_text": "x"});
        fixture.error(&p, "file_edit", edit);
        fixture.error(&p, "file_write", json!({"path": path, "content": "x", "mode": "append"}));
    }
    fixture.error(&p, "file_write", json!({"path": "link/canary", "content": "x"}));
    fixture.error(&p, "file_delete", json!({"path": "link/canary"}));
    fixture.error(&p, "file_list", json!({"path": "link"}));
    assert_eq!(fixture.ok(&p, "file_exists", json!({"path": "leaf"}))["type"], "other");
    let all = fixture.ok(&p, "file_list", json!({"pattern": "**/*"}));
    assert_eq!((&all["total_files"], &all["total_dirs"]), (&json!(1), &json!(0)), "{all}");
    assert_eq!(fixture.ok(&p, "file_search", json!({"pattern": "secret"}))["matches"], json!([]));
    // A link is replaced and deleted like any name; its target stays.
    fixture.ok(&p, "file_write", json!({"path": "leaf", "content": "mine"}));
    fixture.ok(&p, "file_delete", json!({"path": "link"}));
    assert_eq!(fs::read_to_string(&canary).expect("it"), "secret");
    assert_eq!(fs::read_to_string(sibling.join("canary")).expect("it"), "secret");
    assert!(fixture.server.dir.join("data").is_dir());
}

#[test]
fn file_tools_of_a_call_without_a_job_need_a_project_and_models_cannot_name_one() {
    let fixture = Fixture::start("");
    for (tool, arguments) in
        [("file_read", json!({"path": "x"})), ("file_write", json!({"path": "x", "content": "x"}))]
    {
        let result = fixture.server.post(&format!("/v1/tools/{tool}/call"), &arguments).json();
        let error = result["error"].as_str().expect("a text");
        assert!(error.starts_with("project_id is required for file operations"), "{error}");
    }
    assert!(!fixture.server.dir.join("data/jobs").exists());
    let input = json!([["file_read", {"path": "x", "project_id": "proj_00000000000000000000000000"}]]);
    let job = fixture.server.submit(&json!({"input": input.to_string()}));
    let named = results(&fixture.server.wait(&job))[0]["error"].as_str().expect("a text").to_owned();
    assert!(
        named.contains("unexpected parameter project_id"),
        "the project comes only from the job: {named}"
    );
}

#[test]
fn p7_file_tools_of_two_users_are_isolated() {
    let fixture = Fixture::start("auth_mode: multi\n");
    let token = |name: &str| {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = fixture.server.register(&body).json();
        format!("Bearer {}", reply["data"]["token"].as_str().expect("a token"))
    };
    let (ann, bob) = (token("ann"), token("bob"));
    let send = |token: &str, method: &str, path: &str, body: &Value| {
        let headers = [("authorization", token), ("content-type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        fixture.server.request((method, path), &headers, &text)
    };
    let project = |token: &str| {
        let made = send(token, "POST", "/api/projects", &json!({"name": "same"})).json();
        made["data"]["id"].as_str().expect("an id").to_owned()
    };
    let run = |token: &str, project: &str, calls: Calls<'_>| {
        let input = serde_json::to_string(calls).expect("JSON");
        let job = send(token, "POST", "/v1/jobs", &json!({"input": input, "project_id": project})).json();
        let path = format!("/v1/jobs/{}?wait=60", job["id"].as_str().expect("an id"));
        results(&send(token, "GET", &path, &Value::Null).json())
    };
    let (of_ann, of_bob) = (project(&ann), project(&bob));
    let write = |text: &str| ("file_write", json!({"path": "f", "content": text}));
    assert_eq!(run(&ann, &of_ann, &[write("ann")])[0]["success"], true);
    assert_eq!(run(&bob, &of_bob, &[write("bob")])[0]["success"], true);
    assert_eq!(run(&ann, &of_ann, &[("file_read", json!({"path": "f"}))])[0]["data"]["content"], "ann");
    let foreign = send(&bob, "POST", "/v1/jobs", &json!({"input": "[]", "project_id": of_ann}));
    assert_eq!(foreign.status, 404, "{}", foreign.body);
    // The quota of an account covers all of its projects and applies to what a model writes.
    let second = send(&bob, "POST", "/api/projects", &json!({"name": "second"})).json();
    let second = second["data"]["id"].as_str().expect("an id").to_owned();
    let users = send(&ann, "GET", "/api/users", &Value::Null).json();
    let listed =
        users["data"]["items"].as_array().or(users["data"]["users"].as_array()).or(users["data"].as_array());
    let bobs =
        listed.expect("users").iter().find(|user| user["username"] == "bob").expect("bob")["id"].clone();
    let quota = json!({"quota": {"project_bytes": 10}});
    let patched = send(&ann, "PATCH", &format!("/api/users/{bobs}"), &quota);
    assert_eq!(patched.status, 200, "{}", patched.body);
    assert_eq!(run(&bob, &second, &[write("1234567")])[0]["success"], true);
    let full = run(&bob, &second, &[write("12345678"), ("file_write", json!({"path": "g", "content": "x"}))]);
    for result in full {
        assert!(
            result["error"].as_str().is_some_and(|error| error.contains("Delete what is not needed")),
            "{result}"
        );
    }
}

#[test]
fn p8_file_tools_enforce_every_limit_and_name_it() {
    let fixture = Fixture::start(
        "limits: {file_bytes: 1024, project_bytes: 4000, project_entries: 6, search_files: 2}\n",
    );
    let (p, dir) = fixture.project("app");
    let write = |path: &str, text: String| json!({"path": path, "content": text});
    let big = fixture.error(&p, "file_write", write("big", "x".repeat(1025)));
    assert!(big.contains("limits.file_bytes") && big.contains("smaller files"), "{big}");
    fixture.ok(&p, "file_write", write("a", "x".repeat(1024)));
    let more = json!({"path": "a", "content": "x", "mode": "append"});
    assert!(fixture.error(&p, "file_write", more).contains("limits.file_bytes"));
    let grown = json!({"path": "a", "old_text": "x", "new_text": "yy", "replace_all": true});
    assert!(fixture.error(&p, "file_edit", grown).contains("would become 2048 bytes"));
    assert_eq!(fs::read(dir.join("a")).expect("it").len(), 1024);
    fixture.ok(&p, "file_write", write("b", "x".repeat(1024)));
    fixture.ok(&p, "file_write", write("c", "x".repeat(1024)));
    assert!(fixture.error(&p, "file_write", write("d", "x".repeat(1000))).contains("limits.project_bytes"));
    assert!(fixture.error(&p, "file_mkdir", json!({"path": "1/2/3/4"})).contains("limits.project_entries"));
    assert!(!dir.join("1").exists(), "a refused file_mkdir creates nothing");
    let searched = fixture.ok(&p, "file_search", json!({"pattern": "nowhere"}));
    assert_eq!(searched["is_cut"], true, "{searched}");
    // A log that a command wrote: larger than file_write allows, but readable page by page.
    let log: String = (0..200_000).map(|n| format!("entry {n}\n")).collect::<Vec<_>>().concat();
    fs::write(dir.join("log"), &log).expect("a log");
    let page = fixture.ok(&p, "file_read", json!({"path": "log", "offset": 150_000, "limit": 2}));
    assert_eq!(page["content"], "entry 149999\nentry 150000\n");
    assert_eq!((&page["total_lines"], &page["size"]), (&json!(200_000), &json!(log.len())));
    let full = fixture.ok(&p, "file_read", json!({"path": "log"}));
    assert!(
        full["lines"].as_u64().is_some_and(|lines| lines > 500 && lines < 2_000),
        "a page fits: {}",
        full["lines"]
    );
    assert!(
        !full["content"].as_str().expect("a text").contains("characters cut"),
        "nothing is cut from the page"
    );
    let edit = json!({"path": "log", "old_text": "entry 5\n", "new_text": ""});
    assert!(fixture.error(&p, "file_edit", edit).contains("is too large"));
}

#[test]
fn hidden_files_are_visible_to_tools_only_with_show_hidden() {
    for (config, is_shown) in [("", false), ("files: {show_hidden: true}\n", true)] {
        let fixture = Fixture::start(config);
        let (p, dir) = fixture.project("app");
        fs::write(dir.join(".env"), "KEY=1").expect("a file");
        fs::create_dir(dir.join(".nanoclaw")).expect("a directory");
        fs::write(dir.join(".nanoclaw/x"), "KEY=2").expect("a file");
        let seen = fixture.calls(
            &p,
            &[
                ("file_read", json!({"path": ".env"})),
                ("file_write", json!({"path": "a/.ssh/b", "content": "x"})),
                ("file_exists", json!({"path": ".env"})),
                ("file_read", json!({"path": ".nanoclaw/x"})),
            ],
        );
        for result in &seen[..3] {
            assert_eq!(result["success"], is_shown, "{result}");
            let error = result["error"].as_str().unwrap_or_default();
            assert!(
                is_shown || error.contains("is hidden") && error.contains("files.show_hidden"),
                "{error}"
            );
        }
        assert!(seen[3]["error"].as_str().is_some_and(|error| error.contains("belongs to the server")));
        assert_eq!(dir.join("a/.ssh/b").exists(), is_shown);
        let files = fixture.ok(&p, "file_list", json!({}))["total_files"].clone();
        assert_eq!(files, json!(u8::from(is_shown)));
        let found = fixture.ok(&p, "file_search", json!({"pattern": "KEY"}))["total_matches"].clone();
        assert_eq!(found, json!(u8::from(is_shown)));
    }
}

#[test]
fn lists_and_searches_are_capped_and_invalid_patterns_match_literally() {
    let fixture = Fixture::start("");
    let (p, dir) = fixture.project("app");
    fs::create_dir_all(dir.join("src/deep")).expect("directories");
    for n in 0..250 {
        fs::write(dir.join(format!("src/{n:03}.rs")), "fn f(x) {}\n").expect("a file");
    }
    fs::write(dir.join("src/deep/g.md"), "call f(x\nFn F(X)\n").expect("a file");
    let all = fixture.ok(&p, "file_list", json!({"pattern": "**/*.rs"}));
    assert_eq!((&all["total_files"], &all["is_cut"]), (&json!(250), &json!(true)));
    assert_eq!(all["files"].as_array().map(Vec::len), Some(200));
    assert!(all["note"].as_str().is_some_and(|note| note.contains("narrow it")), "{}", all["note"]);
    let some = fixture.ok(&p, "file_list", json!({"pattern": "src/{00?.rs,deep/*}"}));
    assert_eq!((&some["total_files"], &some["is_cut"]), (&json!(11), &json!(false)), "{some}");
    let literal = fixture.ok(&p, "file_search", json!({"pattern": "f(x", "glob": "src/deep/**"}));
    assert_eq!(literal["matches"], json!([{"path": "src/deep/g.md", "line": 1, "text": "call f(x"}]));
    assert!(literal["note"].as_str().is_some_and(|note| note.contains("as it stands")), "{literal}");
    let many = fixture.ok(&p, "file_search", json!({"pattern": "fn f\\(", "path": "src"}));
    assert_eq!((many["matches"].as_array().map(Vec::len), &many["is_cut"]), (Some(100), &json!(true)));
    let case_insensitive =
        fixture.ok(&p, "file_search", json!({"pattern": "(?i)FN f", "path": "src/deep/g.md"}));
    assert_eq!(case_insensitive["matches"], json!([{"path": "src/deep/g.md", "line": 2, "text": "Fn F(X)"}]));
    assert!(
        fixture.error(&p, "file_search", json!({"pattern": "x", "path": "none"})).contains("does not exist")
    );
    assert!(fixture.error(&p, "file_list", json!({"path": "src/000.rs"})).contains("is no directory"));
    assert!(fixture.error(&p, "file_list", json!({"pattern": "[z-a]"})).contains("glob"));
    assert!(fixture.error(&p, "file_read", json!({"path": "src"})).contains("is a directory"));
}
