//! The tool system through the real binary: results for models, the audit log for operators, and `nanoclaw
//! tools`.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Server, command};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// A model that makes these batches of calls, one after the other, and then answers `done`.
fn calling_model(batches: Vec<Vec<(&'static str, Value)>>) -> Upstream {
    Upstream::start(move |request, _| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let turns = messages.iter().filter(|message| message["tool_calls"].is_array()).count();
        match batches.get(turns) {
            Some(batch) => Answer::calls(batch),
            None => Answer::text("done"),
        }
    })
}

/// All results in the last request to the model.
fn last_results(upstream: &Upstream) -> Vec<Value> {
    let last = upstream.requests().last().cloned().expect("a request");
    tool_results(&last).iter().map(parsed_content).collect()
}

fn parsed_content(message: &Value) -> Value {
    let text = message["content"].as_str().expect("a text");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn run(server: &Server, job: &Value) -> String {
    let id = server.submit(job);
    let ended = server.wait(&id);
    assert_eq!((&ended["status"], &ended["output_text"]), (&json!("succeeded"), &json!("done")), "{ended}");
    id
}

fn audit(server: &Server, job: &str) -> Vec<Value> {
    let list = server.get(&format!("/v1/jobs/{job}/audit")).json();
    assert_eq!((&list["object"], &list["has_more"]), (&json!("list"), &json!(false)), "{list}");
    list["data"].as_array().expect("entries").clone()
}

#[test]
fn tool_calls_are_repaired_refused_and_deduplicated() {
    let upstream = calling_model(vec![vec![
        ("calculator", json!({"arguments": {"expression": "6*7"}})),
        ("Calculater", json!({"expression": "1"})),
        ("calculator", json!({"expresion": "1"})),
        ("calculator", json!({"expression": "9**9**9"})),
        ("json_process", json!({"json_string": "{bad", "operation": "validate"})),
        ("calculator", json!({"expression": "6*7"})),
    ]]);
    let server = Server::start_against(&upstream, "");
    let id = run(&server, &json!({"input": "go"}));
    let results = last_results(&upstream);
    assert_eq!((&results[0]["success"], &results[0]["data"]["result"]), (&json!(true), &json!(42)));
    assert_eq!(results[1]["error"], "Tool not found: Calculater. Did you mean 'calculator'?");
    let mismatch = results[2]["error"].as_str().expect("refused");
    assert!(
        mismatch.contains("unexpected parameter expresion")
            && mismatch.contains("missing required expression")
    );
    assert_eq!(results[3]["success"], false, "{}", results[3]);
    assert_eq!((&results[4]["success"], &results[4]["data"]["valid"]), (&json!(true), &json!(false)));
    assert_eq!((&results[5]["data"]["result"], &results[5]["duplicate"]), (&json!(42), &json!(true)));
    let skipped: Vec<Value> = audit(&server, &id).iter().map(|entry| entry["skipped"].clone()).collect();
    let count = |reason: &Value| skipped.iter().filter(|skipped| *skipped == reason).count();
    assert_eq!(skipped.len(), 6, "the audit log has every call");
    assert_eq!((count(&json!("refused")), count(&json!("duplicate")), count(&Value::Null)), (2, 1, 3));
}

#[test]
fn a_repeated_cacheable_call_is_answered_from_the_cache_unless_ttl_is_zero() {
    let calls = || vec![("calculator", json!({"expression": "6 * 7"}))];
    let failing = || vec![("calculator", json!({"expression": "1/0"}))];
    let batches = || vec![calls(), calls(), failing(), failing()];
    for (extra, is_cached) in [("", true), ("tool_cache: {ttl_s: 0}\n", false)] {
        let upstream = calling_model(batches());
        let server = Server::start_against(&upstream, extra);
        let id = run(&server, &json!({"input": "go"}));
        let results = last_results(&upstream);
        let cached: Vec<bool> = results.iter().map(|result| result["cached"] == true).collect();
        assert_eq!(cached, [false, is_cached, false, false], "{results:?}");
        assert_eq!(results[1]["data"]["result"], 42);
        let skipped: Vec<Value> = audit(&server, &id).iter().map(|entry| entry["skipped"].clone()).collect();
        let second = if is_cached { json!("cached") } else { Value::Null };
        assert_eq!(skipped, [Value::Null, second, Value::Null, Value::Null]);
    }
}

#[test]
fn p9_the_audit_log_contains_every_call_and_no_secret() {
    let secret = "hunter2-hunter2";
    let upstream = calling_model(vec![vec![
        ("text_process", json!({"text": format!("Bearer {secret}"), "operation": "upper"})),
        (
            "json_process",
            json!({"json_string": json!({"api_key": secret}).to_string(), "operation": "parse"}),
        ),
        ("execute_python", json!({"code": "print(6*7)", "strictness": "strict"})),
        ("text_process", json!({"text": "x".repeat(5_000), "operation": "count"})),
    ]]);
    let server = Server::start_against(&upstream, "");
    let id = run(&server, &json!({"input": "go"}));
    let entries = audit(&server, &id);
    assert_eq!(entries.len(), 4);
    let entry_of = |name: &str| entries.iter().find(|entry| entry["tool"] == name).expect("an entry").clone();
    let python = entry_of("execute_python");
    assert_eq!((&python["success"], &python["level"]), (&json!(true), &json!("strict")), "{python}");
    assert_eq!((&python["job"], &python["object"]), (&json!(id), &json!("audit_entry")));
    assert!(python["time_ms"].as_u64() > Some(1_600_000_000_000) && python["duration_ms"].is_u64());
    assert!(python["arguments"]["code"] == "print(6*7)" && python["result"].as_str().is_some());
    for text in entries.iter().flat_map(|entry| [entry["arguments"].to_string(), entry["result"].to_string()])
    {
        assert!(text.chars().count() < 1_400, "{text}");
    }
    let path = server.dir.join("data/audit/audit.jsonl");
    let lines = std::fs::read_to_string(&path).expect("the log");
    assert_eq!(lines.lines().count(), 4);
    assert!(!lines.contains(secret) && !lines.contains(&secret.to_uppercase()[8..]), "{lines}");
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(server.get("/v1/jobs/job_00000000000000000000000000/audit").status, 404);
}

#[test]
fn the_tool_list_shows_origin_approval_and_schema_of_each_tool() {
    let server = Server::start_with("approval: [bash, execute_*]\n");
    let list = server.get("/v1/tools").json();
    let tools = list["data"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.is_sorted() && names.contains(&"calculator"), "{names:?}");
    for tool in tools {
        let waits = tool["name"] == "bash" || tool["name"].as_str().expect("a name").starts_with("execute_");
        assert_eq!(tool["needs_approval"], waits, "{tool}");
        assert_eq!((&tool["object"], &tool["origin"]), (&json!("tool"), &json!({"kind": "built_in"})));
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{tool}");
        assert_eq!(tool["parameters"]["type"], "object");
    }
    let calculator = tools.iter().find(|tool| tool["name"] == "calculator").expect("there");
    assert_eq!((&calculator["idempotent"], &calculator["cacheable"]), (&json!(true), &json!(true)));
    let result = server.post("/v1/tools/calculator/call", &json!({"expression": "6*7"}));
    assert_eq!((result.status, &result.json()["data"]["result"]), (200, &json!(42)));
    let unknown = server.post("/v1/tools/nope/call", &json!({})).json();
    assert_eq!(unknown["success"], false, "{unknown}");
    let project = "/v1/tools/calculator/call?project_id=proj_00000000000000000000000000";
    assert_eq!(server.post(project, &json!({"expression": "1"})).status, 404);
    assert_eq!(server.ask("POST", "/v1/tools/calculator/call", &json!([1])).status, 400);
}

#[test]
fn a_bad_approval_pattern_is_reported_with_its_key() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), "approval: [bash, 'file write']\n").expect("written");
    let (code, _, err) = cli(dir.path(), &["config", "check"], "");
    assert!(code == Some(78) && err.contains("approval[1]"), "{err}");
}

/// Runs the command on this directory; returns its exit code, stdout and stderr.
fn cli(dir: &Path, arguments: &[&str], stdin: &str) -> (Option<i32>, String, String) {
    let (config, data) = (dir.join("config.yml"), dir.join("data"));
    let mut child = command(arguments)
        .args(["--config".as_ref(), config.as_os_str()])
        .env("NANOCLAW_DATA_DIR", &data)
        .envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // A command that does not read stdin has closed the pipe.
    drop(child.stdin.take().expect("its stdin").write_all(stdin.as_bytes()));
    let output = child.wait_with_output().expect("ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs every form of `nanoclaw tools` on this directory, with or without a server.
fn run_tools_commands(dir: &Path) {
    let (code, out, err) = cli(dir, &["tools"], "");
    assert!(code == Some(0) && out.lines().any(|line| line.starts_with("calculator ")), "{out} {err}");
    let (_, out, _) = cli(dir, &["tools", "--json"], "");
    let tools: Value = serde_json::from_str(&out).expect("JSON");
    assert!(tools.as_array().expect("a list").iter().any(|tool| tool["name"] == "bash"), "{out}");
    let call = |name: &str, arguments: &str, stdin: &str| {
        let (code, out, err) = cli(dir, &["tools", "call", name, arguments], stdin);
        (code, serde_json::from_str::<Value>(&out).unwrap_or_default(), err)
    };
    let (code, result, err) = call("calculator", r#"{"expression": "6*7"}"#, "");
    assert_eq!((code, &result["data"]["result"]), (Some(0), &json!(42)), "{err}");
    let (code, result, err) = call("text_process", "-", r#"{"text": "ab", "operation": "reverse"}"#);
    assert_eq!((code, &result["data"]["result"]), (Some(0), &json!("ba")), "{err}");
    for (name, arguments) in
        [("calculator", r#"{"expression": "1/0"}"#), ("nope", "{}"), ("calculator", "{}")]
    {
        let (code, result, _) = call(name, arguments, "");
        assert_eq!((code, &result["success"]), (Some(1), &json!(false)), "{name}: {result}");
        assert!(result["error"].is_string());
    }
    for arguments in ["[1]", "{bad", ""] {
        let (code, result, err) = call("calculator", arguments, "");
        assert_eq!((code, result), (Some(2), Value::Null), "{err}");
        assert!(err.contains("hint: write a JSON object"), "{err}");
    }
    let (code, _, err) = cli(dir, &["tools", "call", "calculator", "{}", "--project", "nope"], "");
    assert_eq!(code, Some(2), "{err}");
    let unknown_project =
        ["tools", "call", "calculator", "{}", "--project", "proj_00000000000000000000000000"];
    let (code, out, err) = cli(dir, &unknown_project, "");
    assert!(code == Some(1) && out.is_empty() && err.contains("project"), "{out} {err}");
    let log = std::fs::read_to_string(dir.join("data/audit/audit.jsonl")).expect("the audit log");
    assert!(log.lines().count() >= 5 && log.contains("\"6*7\""), "{log}");
}

#[test]
fn tools_call_works_with_and_without_a_running_server() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), "").expect("written");
    run_tools_commands(dir.path());
    let server = Server::start_in(dir.path(), "");
    run_tools_commands(&server.dir);
}
