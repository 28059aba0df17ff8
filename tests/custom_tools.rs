//! Custom tools of operators, through the real binary: JavaScript files that are added, changed, broken and
//! removed while it runs, commands, and the examples of `config/tools`.

use crate::support::Server;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Makes one call through the demo model; returns the result that the model gets.
fn call(server: &Server, name: &str, arguments: &Value, project: Option<&str>) -> Value {
    let mut job = json!({"input": format!("tool: {name} {arguments}")});
    if let Some(project) = project {
        job["project_id"] = json!(project);
    }
    let id = server.submit(&job);
    let ended = server.wait(&id);
    assert_eq!(ended["status"], "succeeded", "{ended}\n{}", server.log());
    let events = server.events(&id);
    let result = events.iter().find(|event| event.data["type"] == "tool_result");
    let Some(result) = result else { return json!({"success": false, "error": "not offered"}) };
    serde_json::from_str(result.data["content"].as_str().expect("a text")).expect("JSON")
}

fn offered(server: &Server) -> Vec<String> {
    let tools = server.get("/api/tools").json();
    let tools = tools["data"]["tools"].as_array().expect("a list").clone();
    tools.iter().map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// Waits until the server offers the tool, or no longer does.
fn wait_until_offered(server: &Server, name: &str, is_there: bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while offered(server).iter().any(|offered| offered == name) != is_there {
        assert!(Instant::now() < deadline, "{name} {is_there}: {:?}\n{}", offered(server), server.log());
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn tool(name: &str, permissions: &str, handler: &str) -> String {
    format!(
        "export default {{ name: '{name}', description: 'A test.', parameters: {{type: 'object'}}, permissions: {{{permissions}}},\n  handler: {handler} }};"
    )
}

fn start(files: &[(&str, String)], extra: &str) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    let server = Server::start_with(&format!("tools_dir: {}\n{extra}", dir.path().display()));
    (dir, server)
}

fn project(server: &Server) -> String {
    let made = server.post("/api/projects", &json!({"name": "p"})).json();
    made["data"]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn tool_files_are_loaded_reloaded_and_unloaded_without_a_restart() {
    let (dir, server) = start(&[("a.js", tool("own_a", "", "({n}) => ({double: n * 2})"))], "");
    assert_eq!(call(&server, "own_a", &json!({"n": 4}), None)["data"], json!({"double": 8}));
    // A second file is added and the first changes, both without a restart.
    fs::write(dir.path().join("b.js"), tool("own_b", "", "async (args) => { await null; return args; }"))
        .expect("b");
    fs::write(dir.path().join("a.js"), tool("own_c", "", "() => { throw new Error('not today') }"))
        .expect("a");
    wait_until_offered(&server, "own_b", true);
    wait_until_offered(&server, "own_a", false);
    assert_eq!(call(&server, "own_b", &json!({"x": ["é", "😀"]}), None)["data"], json!({"x": ["é", "😀"]}));
    let failed = call(&server, "own_c", &json!({}), None);
    assert_eq!(failed["success"], false);
    assert!(failed["error"].as_str().expect("a text").contains("not today"), "{failed}");
    // A broken file does not run its old code.
    fs::write(dir.path().join("b.js"), "export default { name: 'own_b', ").expect("b");
    wait_until_offered(&server, "own_b", false);
    fs::remove_file(dir.path().join("a.js")).expect("removed");
    wait_until_offered(&server, "own_c", false);
    assert!(server.log().contains("b.js"), "the log says which file and why:\n{}", server.log());
}

#[test]
fn an_invalid_tool_file_is_skipped_and_the_others_load() {
    let endless = "while (true) {}\nexport default { name: 'x', description: 'x', handler() {} }".to_owned();
    let huge =
        format!("export default {{ name: 'huge', description: '{}', handler() {{}} }}", "x".repeat(5_000));
    let (_dir, server) = start(
        &[
            ("good.js", tool("good", "", "() => 1")),
            ("endless.js", endless),
            ("huge.js", huge),
            ("none.js", "const x = 1".to_owned()),
            ("two.js", format!("{}\n{}", tool("one", "", "() => 1"), tool("two", "", "() => 1"))),
            ("no_handler.js", "export default { name: 'n', description: 'x' }".to_owned()),
            ("name.js", tool("Bad Name", "", "() => 1")),
            ("taken.js", tool("calculator", "", "() => 'mine'")),
            ("throws.js", "throw new Error('at load')\nexport default {}".to_owned()),
            ("unknown.js", tool("unknown", "", "() => 1").replace("description", "colour: 1, description")),
        ],
        "",
    );
    wait_until_offered(&server, "good", true);
    assert_eq!(call(&server, "good", &json!({}), None)["data"], 1);
    assert_eq!(call(&server, "calculator", &json!({"expression": "1+1"}), None)["data"]["result"], 2);
    for name in ["huge", "one", "two", "n", "Bad Name", "x", "unknown_tool"] {
        assert!(!offered(&server).iter().any(|offered| offered == name), "{name}");
    }
    for file in ["endless.js", "huge.js", "none.js", "two.js", "no_handler.js", "name.js", "throws.js"] {
        assert!(server.log().contains(file), "the log names {file}\n{}", server.log());
    }
}

#[test]
fn p5_a_tool_can_do_only_what_its_permissions_allow() {
    let spin = "() => { for (;;) {} }";
    let (_dir, server) = start(
        &[
            ("fetch.js", tool("fetches", "fetch: ['api.example.org']", "({url}, host) => host.fetch(url)")),
            ("reads.js", tool("reads", "files: 'read'", "({path}, host) => host.readFile(path)")),
            ("sneaks.js", tool("sneaks", "files: 'read'", "(a, host) => host.writeFile('x', 'y')")),
            ("nothing.js", tool("nothing", "", "(a, host) => host.readFile('x')")),
            ("raw.js", tool("raw", "", "() => __host('writeFile', '{\"path\":\"x\",\"text\":\"y\"}')")),
            ("spins.js", tool("spins", "", spin).replace("description", "timeout_s: 1, description")),
            ("big.js", tool("big", "", "() => 'x'.repeat(3000000)")),
            ("never.js", tool("never", "", "() => new Promise(() => {})")),
        ],
        "",
    );
    let project = project(&server);
    let files = format!("/api/projects/{project}/files");
    assert_eq!(server.ask("PUT", &format!("{files}/note.txt"), &json!({"content": "hello"})).status, 200);
    let error_of = |name: &str, arguments: Value| {
        let result = call(&server, name, &arguments, Some(&project));
        assert_eq!(result["success"], false, "{name}: {result}");
        result["error"].as_str().expect("a text").to_owned()
    };
    let refused = error_of("fetches", json!({"url": "https://evil.example/"}));
    assert!(refused.contains("permissions.fetch"), "{refused}");
    assert!(
        error_of("fetches", json!({"url": "https://api.example.org@evil.example/"})).contains("fetch takes")
    );
    assert_eq!(call(&server, "reads", &json!({"path": "note.txt"}), Some(&project))["data"], "hello");
    for path in ["../note.txt", "/etc/passwd", "note.txt/../../x"] {
        assert!(!error_of("reads", json!({"path": path})).is_empty());
    }
    assert!(error_of("sneaks", json!({})).contains("\"write\""));
    assert!(error_of("nothing", json!({})).contains("permissions.files"));
    assert!(error_of("raw", json!({})).contains("permissions.files"));
    assert!(error_of("spins", json!({})).contains("1000 ms"), "the timeout of the tool");
    assert!(error_of("big", json!({})).contains("bytes of JSON"));
    assert!(error_of("never", json!({})).contains("never settled"));
    let without = call(&server, "reads", &json!({"path": "note.txt"}), None);
    let missing = without["error"].as_str().expect("a text");
    assert!(
        missing.contains("'note.txt' does not exist"),
        "a job without a project has its own files: {missing}"
    );
    assert_eq!(server.get(&format!("{files}/x")).status, 404, "no tool has written a file");
}

#[test]
fn a_configured_command_works_as_a_tool() {
    let config = r#"
tools:
  - name: echo_json
    description: Says what it was given.
    parameters: {type: object, properties: {text: {type: string}}, required: [text], additionalProperties: false}
    command: cat
  - {name: fails, description: Fails., command: "echo why >&2; exit 3"}
  - {name: prints, description: Prints., command: "echo $$WORD; pwd", env: {WORD: hello}}
  - {name: slow, description: Slow., command: "sleep 60", timeout_s: 1}
  - {name: floods, description: Floods., command: "yes | head -c 3000000"}
  - {name: here, description: Writes., parameters: {type: object}, command: "cat > seen.json; echo '{\"ok\":true}'", in_project: true}
"#;
    let server = Server::start_with(config);
    let text = "it's \"quoted\" $HOME `x`";
    assert_eq!(call(&server, "echo_json", &json!({"text": text}), None)["data"], json!({"text": text}));
    let invalid = call(&server, "echo_json", &json!({"txt": 1}), None);
    assert!(invalid["error"].as_str().expect("a text").contains("missing required text"), "{invalid}");
    let failed = call(&server, "fails", &json!({}), None);
    assert_eq!((&failed["success"], &failed["error"]), (&json!(false), &json!("Exit code 3: why")));
    let printed = call(&server, "prints", &json!({}), None)["data"]["output"].clone();
    assert!(printed.as_str().expect("a text").starts_with("hello\n/"), "{printed}");
    assert_eq!(call(&server, "slow", &json!({}), None)["success"], false);
    assert_eq!(call(&server, "floods", &json!({}), None)["data"]["stdout_truncated"], true);
    let project = project(&server);
    assert_eq!(call(&server, "here", &json!({"a": 1}), Some(&project))["data"], json!({"ok": true}));
    let seen = server.get(&format!("/api/projects/{project}/files/seen.json")).json();
    assert_eq!(seen["data"]["content"], "{\"a\":1}");
}

#[test]
fn the_example_tools_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools");
    let server = Server::start_with(&format!("tools_dir: {}\n", root.display()));
    for name in ["slugify", "github_release", "todo"] {
        wait_until_offered(&server, name, true);
    }
    let slug = call(&server, "slugify", &json!({"title": "Größe & Café: Übermut!"}), None);
    assert_eq!(slug["data"], json!({"slug": "groesse-cafe-uebermut"}));
    let release = call(&server, "github_release", &json!({"repository": "no slash"}), None);
    assert!(release["error"].as_str().expect("a text").contains("repository"), "{release}");
    let project = project(&server);
    call(&server, "todo", &json!({"action": "add", "text": "buy  milk"}), Some(&project));
    call(&server, "todo", &json!({"action": "add", "text": "rest"}), Some(&project));
    call(&server, "todo", &json!({"action": "done", "number": 1}), Some(&project));
    let list = call(&server, "todo", &json!({"action": "list"}), Some(&project));
    let expected = json!([{"number": 1, "done": true, "text": "buy milk"}, {"number": 2, "done": false, "text": "rest"}]);
    assert_eq!(list["data"]["entries"], expected, "{list}");
    let file = server.get(&format!("/api/projects/{project}/files/TODO.md")).json();
    assert_eq!(file["data"]["content"], "- [x] buy milk\n- [ ] rest\n");
}
