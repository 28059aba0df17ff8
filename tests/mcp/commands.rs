//! `nanoclaw mcp` on the command line.

use super::{HttpFake, fake};
use crate::support::command;
use serde_json::{Value, json};

#[test]
fn mcp_add_writes_a_server_and_mcp_list_shows_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    std::fs::write(&file, "# mine\nworkers: 3 # few\n").expect("writes");
    let run = |arguments: &[&str]| {
        let mut command = command(&["--config", &file.display().to_string()]);
        let output = command.args(arguments).output().expect("runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, told) = run(&["mcp", "add", "GitHub", "--env", "TOKEN=sk-777777", "--", "npx", "-y", "x$y"]);
    assert_eq!(code, 0, "{told}");
    let text = std::fs::read_to_string(&file).expect("reads");
    assert!(
        text.starts_with("# mine\nworkers: 3 # few\n\nmcp_servers:\n  GitHub:\n    command: npx\n"),
        "{text}"
    );
    assert!(text.contains("x$$y"), "{text}");
    let (code, told) = run(&["mcp", "add", "remote", "--url", "https://x.test/mcp?key=sk-888888"]);
    assert_eq!(code, 0, "{told}");
    let (code, told) = run(&["mcp", "add", "GitHub", "--url", "https://x.test/mcp"]);
    assert!(
        code == 1 && told.contains("there is a server 'GitHub' already") && told.contains("--force"),
        "{told}"
    );
    let (code, told) = run(&["mcp", "add", "bad", "--url", "ftp://x.test"]);
    assert!(code == 2 && told.contains("must be http"), "{code} {told}");
    let (code, told) = run(&["mcp", "list"]);
    assert!(code == 0 && told.contains("npx -y x$y") && told.contains("https://x.test/mcp"), "{told}");
    assert!(told.contains("may use: the network; its own directory"), "{told}");
    assert!(!told.contains("sk-777777") && !told.contains("sk-888888"), "P9: {told}");
    let (_, told) = run(&["mcp", "list", "--json"]);
    let listed: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&listed[0]["name"], &listed[0]["disabled"]), (&json!("GitHub"), &json!(false)));
}

/// `nanoclaw mcp check` with this configuration: exit code, stdout, stderr.
fn check(config: &str, arguments: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    std::fs::write(&file, config).expect("writes");
    let output =
        command(&["mcp", "check"]).args(arguments).arg("--config").arg(&file).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn mcp_check_lists_tools_and_calls_only_named_or_read_only_ones() {
    let tools = "[echo, get.sum, fail, refuse, picture, pattern, overwrite]";
    let servers = fake("good", "normal", &format!(", enabled_tools: {tools}"))
        + &fake("hangs", "normal", ", enabled_tools: [hang], timeout_s: 1")
        + &fake("mute", "mute", ", start_timeout_s: 1, env: {KEY: sk-888888}")
        + "  missing: {command: no-such-program-at-all}\n";
    let config = format!("mcp_servers:\n{servers}");
    let (code, out, err) = check(&config, &["good"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("fake 1, protocol 20"), "{out}");
    for line in [
        "mcp_good_echo             ok          {\"text\":\"test\"} → test",
        "mcp_good_get_sum          listed      not called: it does not say readOnlyHint",
        "mcp_good_fail             ok (error)  {} → no such thing",
        "mcp_good_overwrite        listed      not called: it does not say readOnlyHint",
        "mcp_good_refuse           listed      not called",
        "mcp_good_pattern          listed      not called: no arguments can be made up",
        "mcp_good_hang             skipped     not in enabled_tools",
        "broken                    skipped     left out: its schema does not compile",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let shown =
            |l: &str| l.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(&words.join(" "));
        assert!(out.lines().any(shown), "{line}\n{out}");
    }
    let (code, out, _) = check(&config, &["good", "--json"]);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &found["ok"], &found["tools"][0]["result"]), (0, &json!(true), &json!("ok")));
    assert_eq!(found["tools"][0]["arguments"], json!({"text": "test"}));
    let (code, out, err) =
        check(&config, &["good", "--call", "get.sum", "--arguments", r#"{"a": 40, "b": 2}"#]);
    assert!(code == 0 && out.contains(r#"{"a":40,"b":2} → {"sum":42}"#), "{code} {out}{err}");
    assert!(err.contains(", 1 called: 1 answered"), "only the named tool is called: {err}");
    let (code, _, err) = check(&config, &["good", "--call", "mcp_good_echo", "--call", "nosuch"]);
    assert!(code == 2 && err.contains("no tool 'nosuch'; it has echo, get.sum"), "{code} {err}");
    let (code, _, err) = check(&config, &["good", "--call", "echo", "--arguments", "[]"]);
    assert!(code == 2 && err.contains("--arguments is not a JSON object"), "{code} {err}");
    let (code, out, _) = check(&config, &["hangs", "--call", "hang"]);
    assert!(code == 1 && out.contains("FAIL        {} → no answer within 1 s"), "{code} {out}");
    let (code, _, err) = check(&config, &["mute"]);
    assert!(code == 1 && err.contains("within 1 s; it said: the fake server is up, key ***"), "{code} {err}");
    let (code, _, err) = check(&config, &["missing"]);
    assert!(code == 1 && err.contains("no-such-program-at-all"), "{code} {err}");
    let (code, _, err) = check(&config, &["other"]);
    assert!(code == 2 && err.contains("there are good, hangs, missing, mute"), "{code} {err}");
    let http = HttpFake::start("sse");
    let (code, _, err) = check("", &[http.1.as_str()]);
    assert!(code == 1 && err.contains("HTTP 401"), "{code} {err}");
}
