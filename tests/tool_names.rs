//! Names and patterns of tools in the configuration that no tool has: refused at the start, or, if tools may
//! come later, reported, and `approval` asks for everything meanwhile.

use crate::support::{Ran, Server, command, wait_until};
use serde_json::{Value, json};

/// What `/readyz` says of names that no tool has.
fn note(server: &Server) -> String {
    let ready = server.get("/readyz").json();
    let checks = ready["checks"].as_array().expect("checks").iter();
    checks.filter(|check| check["name"] == "tool_names").map(|check| check["reason"].to_string()).collect()
}

/// Makes a call through the demo model, and says whether it waits for approval.
fn waits(server: &Server, call: &str) -> bool {
    let id = server.submit(&json!({"input": format!("tool: {call}"), "tools": true}));
    let status = || server.get(&format!("/v1/jobs/{id}")).json()["status"].clone();
    wait_until("the job waits or ends", || !["queued", "running"].contains(&status().as_str().expect("one")));
    status() == "waiting"
}

const CALCULATOR: &str = "calculator {\"expression\": \"6*7\"}";

#[test]
fn a_name_that_no_tool_can_have_stops_the_start_and_says_what_was_meant() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    for (config, meant) in [
        ("approval: [bsh]\n", "'bash'"),
        ("approval: [\"fil_*\"]\n", "'file"),
        ("tools: {default: [calculater]}\n", "'calculator'"),
        ("tools: {per_model: {demo: [fles]}}\n", "'files'"),
    ] {
        std::fs::write(&file, config).expect("written");
        for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["config", "check"]] {
            let mut command = command(words);
            let ran: Ran = command.arg("--config").arg(&file).output().expect("runs").into();
            let says = ran.err.contains("did you mean") && ran.err.contains(meant);
            assert!(ran.code == 78 && says, "{config}: {}", ran.err);
        }
    }
}

#[test]
fn every_call_waits_until_a_file_brings_the_tool_that_approval_names() {
    let tools = tempfile::tempdir().expect("a directory");
    let config = format!("tools_dir: {}\napproval: [pay]\n", tools.path().display());
    let server = Server::start_with(&config);
    wait_until("the warning", || note(&server).contains("no tool matches 'pay'"));
    wait_until("the log", || server.log().contains("no tool matches 'pay'"));
    assert_eq!(server.get("/readyz").status, 200, "it only degrades the server");
    assert!(waits(&server, CALCULATOR));
    let data = server.dir.join("data").display().to_string();
    let doctor: Ran = command(&["doctor", "--no-models", "--data-dir", &data]).output().expect("runs").into();
    assert!(doctor.out.contains("no tool matches 'pay'"), "{}", doctor.out);

    let (file, text) = (
        tools.path().join("pay.js"),
        "export default { name: 'pay', description: 'Pays.', parameters: {type: 'object'}, handler: () => 1 };",
    );
    std::fs::write(&file, text).expect("written");
    wait_until("the file is read", || note(&server) == "null" || note(&server).is_empty());
    assert!(!waits(&server, CALCULATOR) && waits(&server, "pay {}"));
    // Another name in the file may be that of the same tool, which nobody protects then.
    std::fs::write(&file, text.replace("'pay'", "'pay_now'")).expect("written");
    wait_until("the warning again", || note(&server).contains("did you mean 'pay_now'"));
    assert!(waits(&server, CALCULATOR) && waits(&server, "pay_now {}"));
}

#[test]
fn a_pattern_of_an_mcp_server_is_checked_once_the_server_has_listed_its_tools() {
    let fakes = format!("{}/tests/fake_mcp", env!("CARGO_MANIFEST_DIR"));
    let servers = format!(
        "mcp_servers:\n  up: {{command: python3, args: [{fakes}/server.py, normal], readable: [{fakes}], disabled_tools: [nothing]}}\n  \
         down: {{command: python3, args: [{fakes}/missing.py]}}\n  \
         off: {{command: nowhere, disabled: true}}\n"
    );
    let sound = "approval: [\"mcp_*\", mcp_down_pay, \"mcp_off_*\"]\n";
    let server = Server::start_with(&format!("{servers}{sound}"));
    wait_until("the list", || server.log().contains("MCP server listed its tools"));
    assert!(!waits(&server, CALCULATOR), "no tool of the other servers can run: {}", note(&server));
    wait_until("the other list", || note(&server).contains("mcp_servers.up.disabled_tools"));
    assert!(!note(&server).contains("approval"), "{}", note(&server));

    let server = Server::start_with(&format!("{servers}approval: [mcp_up_nothing]\n"));
    wait_until("the log", || server.log().contains("no tool matches 'mcp_up_nothing'"));
    assert!(note(&server).contains("until one does, every call waits for approval"), "{}", note(&server));
    assert!(waits(&server, CALCULATOR));
    let listed = server.get("/v1/tools").json();
    let needs_approval = |tool: &Value| tool["needs_approval"] == true;
    assert!(listed["data"].as_array().expect("tools").iter().all(needs_approval), "{listed}");
}
