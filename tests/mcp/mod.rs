//! MCP servers through the real binary: programs in the sandbox and HTTP on loopback, working and broken
//! ones.

mod approvals;
mod commands;
mod tool_lists;
mod transports;

use crate::support::Server;
use crate::support::upstream::{Answer, Upstream, tool_results};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long to wait on a slow machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The directory of the fake server.
fn fakes() -> String {
    format!("{}/tests/fake_mcp", env!("CARGO_MANIFEST_DIR"))
}

/// A line of `mcp_servers:` with the fake server in a mode.
fn fake(name: &str, fault: &str, more: &str) -> String {
    let dir = fakes();
    format!("  {name}: {{command: python3, args: [{dir}/server.py, {fault}], readable: [{dir}]{more}}}\n")
}

/// A model that makes the calls listed in the user message and answers with their results.
fn calling_model() -> Upstream {
    Upstream::start(|request, _| {
        let results = tool_results(request);
        if !results.is_empty() {
            let of = |result: &Value| {
                serde_json::from_str::<Value>(result["content"].as_str().expect("text")).expect("JSON")
            };
            return Answer::text(&results.iter().map(of).collect::<Value>().to_string());
        }
        let messages = request["messages"].as_array().expect("messages");
        let calls: Vec<(String, Value)> =
            serde_json::from_str(messages[messages.len() - 1]["content"].as_str().expect("text"))
                .expect("calls");
        Answer::calls(
            &calls.iter().map(|(name, arguments)| (name.as_str(), arguments.clone())).collect::<Vec<_>>(),
        )
    })
}

fn start(upstream: &Upstream, servers: &str) -> Server {
    Server::start_against(upstream, &format!("mcp_servers:\n{servers}"))
}

fn wait_until(server: &Server, event: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < WAIT_TIMEOUT, "timed out waiting until {event}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until this configured server has listed its tools.
fn wait_for_tools(server: &Server, name: &str) {
    let has_listed_tools = |line: &str| line.contains("MCP server listed its tools") && line.contains(name);
    wait_until(server, name, || server.log().lines().any(has_listed_tools));
}

/// The results of these calls.
fn call(server: &Server, calls: &[(&str, Value)]) -> Vec<Value> {
    let id = server.submit(&json!({"input": json!(calls).to_string()}));
    let ended = server.wait(&id);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    serde_json::from_str(ended["output_text"].as_str().expect("text")).expect("results")
}

fn call_one(server: &Server, tool: &str, arguments: Value) -> Value {
    call(server, &[(tool, arguments)]).remove(0)
}

/// The fake server over HTTP.
struct HttpFake(Child, String);

impl HttpFake {
    fn start(kind: &str) -> Self {
        let mut child = Command::new("python3")
            .args([format!("{}/server.py", fakes()), "http".to_owned(), kind.to_owned()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut url).expect("an address");
        Self(child, url.trim().to_owned())
    }
}

impl Drop for HttpFake {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn mcp_tools_are_offered_and_their_results_reach_the_model() {
    let upstream = calling_model();
    let servers = fake("fake", "normal", ", env: {NAME: Ann, KEY: sk-777777}") + &fake("noisy", "noisy", "");
    let server = start(&upstream, &servers);
    wait_for_tools(&server, "fake");
    wait_for_tools(&server, "noisy");
    let results = call(
        &server,
        &[
            ("mcp_fake_echo", json!({"text": "héllo"})),
            ("mcp_fake_get_sum", json!({"a": 2, "b": "3"})),
            ("mcp_fake_fail", json!({})),
            ("mcp_fake_refuse", json!({})),
            ("mcp_fake_picture", json!({})),
            ("mcp_fake_whoami", json!({})),
            ("mcp_fake_long", json!({})),
            ("mcp_fake_echo", json!({"txt": "x"})),
            ("mcp_noisy_echo", json!({"text": "through the noise"})),
            ("mcp_fake_ask", json!({})),
            ("mcp_fake_echo", json!({"text": "the key sk-777777"})),
        ],
    );
    assert_eq!(results[0]["data"], "héllo", "{}", results[0]);
    assert_eq!(
        results[1]["data"],
        json!({"sum": 5}),
        "arguments are validated and coerced like those of every tool"
    );
    assert_eq!((&results[2]["success"], &results[2]["error"]), (&json!(false), &json!("no such thing")));
    assert!(results[3]["error"].as_str().expect("an error").contains("'fake' refused the call: not today"));
    let image = &results[4]["data"]["attachments"][0];
    assert_eq!(
        (&image["kind"], &image["type"], &image["bytes"]),
        (&json!("image"), &json!("image/png"), &json!(3000))
    );
    let path = image["file"].as_str().expect("it is kept");
    assert!(path.starts_with("mcp/fake/") && path.rsplit('.').next() == Some("png"), "{path}");
    assert!(results[5]["data"].as_str().expect("text").starts_with("Ann in /"), "{}", results[5]);
    assert!(results[6].to_string().len() < 40_000, "truncated for the model");
    assert!(results[7]["error"].as_str().expect("an error").contains("text"), "{}", results[7]);
    assert_eq!(results[8]["data"], "through the noise");
    let client_answers: Value =
        serde_json::from_str(results[9]["data"].as_str().expect("text")).expect("JSON");
    assert_eq!(
        client_answers["sampling/createMessage"], -32601,
        "sampling is not supported: {client_answers}"
    );
    assert_eq!(
        (&client_answers["elicitation/create"]["action"], &client_answers["roots/list"]["roots"]),
        (&json!("decline"), &json!([]))
    );
    assert_eq!(results[10]["data"], "the key ***", "P9: a secret of the server's environment is redacted");
    assert!(!server.log().contains("sk-777777"), "P9: {}", server.log());
    let offered = upstream.requests()[0]["tools"].to_string();
    assert!(offered.contains("mcp_fake_hang") && !offered.contains("mcp_fake_broken"), "{offered}");
    assert!(server.log().contains("does not compile"), "{}", server.log());
}

#[test]
fn a_broken_mcp_server_does_not_affect_the_others() {
    let upstream = calling_model();
    let servers = fake("mute", "mute", ", start_timeout_s: 2")
        + "  missing: {command: no-such-program-at-all}\n  nowhere: {url: 'http://127.0.0.1:9/mcp'}\n"
        + &fake("good", "normal", ", enabled_tools: [echo, mcp_good_fail]")
        + &fake("none", "normal", ", enabled_tools: []")
        + &fake("slow", "slow", "");
    let server = start(&upstream, &servers);
    wait_for_tools(&server, "good");
    wait_for_tools(&server, "none");
    assert_eq!(call_one(&server, "mcp_good_echo", json!({"text": "here"}))["data"], "here");
    let tools = upstream.requests()[0]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().expect("tools").iter().filter_map(|t| t["function"]["name"].as_str()).collect();
    let listed_tools: Vec<&str> =
        names.into_iter().filter(|n| n.starts_with("mcp_good") || n.starts_with("mcp_none")).collect();
    assert_eq!(listed_tools, ["mcp_good_echo", "mcp_good_fail"]);
    for message in ["did not tell its tools within 2 s", "no-such-program-at-all", "onnection refused"] {
        wait_until(&server, message, || server.log().contains(message));
    }
    wait_for_tools(&server, "slow");
    assert_eq!(call_one(&server, "mcp_slow_echo", json!({"text": "late"}))["data"], "late");
}

#[test]
fn a_crashed_mcp_server_is_restarted_and_calls_meanwhile_fail_with_a_reason() {
    let upstream = calling_model();
    let server =
        start(&upstream, &(fake("fake", "normal", "") + &fake("once", "normal", ", restart: false")));
    wait_for_tools(&server, "fake");
    wait_for_tools(&server, "once");
    let error = |result: Value| result["error"].as_str().unwrap_or_default().to_owned();
    for name in ["fake", "once"] {
        let died = error(call_one(&server, &format!("mcp_{name}_die"), json!({})));
        assert!(died.contains("whether it took effect is unknown"), "{died}");
    }
    let down = || error(call_one(&server, "mcp_once_echo", json!({"text": "?"})));
    wait_until(&server, "it is down", || {
        down().contains("it ended with exit code 3; it is not started again")
    });
    wait_until(&server, "it is back", || {
        call_one(&server, "mcp_fake_echo", json!({"text": "back"}))["data"] == "back"
    });
    // Repeated crashes make the restart delay longer, so that a call falls into it.
    for _ in 0..3 {
        wait_until(&server, "it is back", || {
            call_one(&server, "mcp_fake_echo", json!({"text": "back"}))["data"] == "back"
        });
        call_one(&server, "mcp_fake_die", json!({}));
    }
    wait_until(&server, "a call falls into a restart delay", || {
        error(call_one(&server, "mcp_fake_echo", json!({"text": "?"}))).contains("it is started again in")
    });
}

#[test]
fn a_timed_out_or_cancelled_call_is_cancelled_at_the_mcp_server() {
    let upstream = calling_model();
    let servers = fake("fake", "normal", "") + &fake("quick", "normal", ", timeout_s: 1");
    let server = start(&upstream, &servers);
    wait_for_tools(&server, "fake");
    wait_for_tools(&server, "quick");
    let timed_out = call_one(&server, "mcp_quick_hang", json!({}));
    assert_eq!(timed_out["error"], "the MCP server 'quick' gave no answer within 1 s", "{timed_out}");
    let reasons = |name: &str| {
        let result = call_one(&server, &format!("mcp_{name}_cancelled"), json!({}));
        serde_json::from_str::<Vec<String>>(result["data"].as_str().unwrap_or("[]")).unwrap_or_default()
    };
    wait_until(&server, "the server gets the cancel notification", || {
        reasons("quick").contains(&"it took too long".to_owned())
    });
    // The server may be restarted: on a busy machine it answers no ping while it writes so much.
    let flooded = call_one(&server, "mcp_quick_flood", json!({}));
    assert_eq!(flooded["success"], json!(false), "a message over the limit is dropped");
    let id = server.submit(&json!({"input": json!([["mcp_fake_hang", {}]]).to_string()}));
    wait_until(&server, "it hangs", || {
        server.get(&format!("/v1/jobs/{id}")).body.contains("running")
            && upstream.requests().iter().any(|r| r.to_string().contains("mcp_fake_hang"))
    });
    std::thread::sleep(Duration::from_millis(500));
    server.post(&format!("/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!(server.wait(&id)["status"], "cancelled");
    wait_until(&server, "the server gets the cancel notification", || {
        reasons("fake").contains(&"the user cancelled it".to_owned())
    });
}

#[test]
fn resources_of_an_mcp_server_are_listed_and_read_through_a_tool() {
    let upstream = calling_model();
    let server = start(&upstream, &(fake("fake", "normal", "") + &fake("bare", "bare", "")));
    wait_for_tools(&server, "fake");
    wait_for_tools(&server, "bare");
    let results = call(
        &server,
        &[
            ("mcp_fake_read_resource", json!({})),
            ("mcp_fake_read_resource", json!({"uri": "demo://text"})),
            ("mcp_fake_read_resource", json!({"uri": "demo://image"})),
            ("mcp_fake_read_resource", json!({"uri": "demo://none"})),
            ("mcp_bare_read_resource", json!({})),
        ],
    );
    let listed = results[0]["data"].to_string();
    assert!(listed.contains("demo://text") && listed.contains("demo://image"), "{listed}");
    assert_eq!(results[1]["data"], "the text of the resource");
    assert!(results[2]["data"]["attachments"][0]["file"].is_string(), "{}", results[2]);
    assert!(results[3]["error"].as_str().expect("an error").contains("no such resource"), "{}", results[3]);
    assert!(results[4]["error"].as_str().expect("an error").contains("not found"), "{}", results[4]);
}

#[test]
fn an_mcp_server_that_hangs_is_restarted_and_its_other_tools_work_within_a_second() {
    let upstream = calling_model();
    let servers = fake("fake", "normal", ", timeout_s: 2") + &fake("other", "normal", "");
    let server = start(&upstream, &servers);
    wait_for_tools(&server, "fake");
    wait_for_tools(&server, "other");
    let frozen = call_one(&server, "mcp_fake_freeze", json!({}));
    assert_eq!(frozen["error"], "the MCP server 'fake' gave no answer within 2 s", "{frozen}");
    let echoed = call_one(&server, "mcp_fake_echo", json!({"text": "here"}));
    assert_eq!(echoed["data"], "here", "{echoed}\n{}", server.log());
    let seconds = echoed["execution_time"].as_f64().expect("a time");
    assert!(seconds < 5.0, "the call waits for the restart: {seconds} s");
    let log = server.log();
    assert!(log.contains("MCP server hangs and is started again"), "{log}");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("nanoclaw_mcp_server_restarts_total{server=\"fake\"} 1"), "{metrics}");
    assert!(metrics.contains("nanoclaw_mcp_server_up{server=\"other\"} 1"), "{metrics}");
}

#[test]
fn the_health_of_mcp_servers_is_in_readyz_and_metrics() {
    let upstream = calling_model();
    let servers = fake("good", "normal", ", enabled_tools: [echo, ecko]")
        + "  bad: {command: no-such-program-at-all, restart: false}\n  off: {command: x, disabled: true}\n";
    let server = start(&upstream, &servers);
    wait_for_tools(&server, "good");
    let mcp_check = || {
        let ready: Value = serde_json::from_str(&server.get("/readyz").body).expect("JSON");
        let checks = ready["checks"].as_array().expect("checks").clone();
        (ready["status"].clone(), checks.into_iter().find(|check| check["name"] == "mcp").expect("mcp"))
    };
    wait_until(&server, "the fault is reported", || mcp_check().1["reason"].is_string());
    let (status, check) = mcp_check();
    assert_eq!((&status, &check["ok"]), (&json!("degraded"), &json!(true)), "{check}");
    let reason = check["reason"].as_str().expect("a reason");
    assert!(reason.contains("'bad'") && reason.contains("no-such-program-at-all"), "{reason}");
    assert!(!reason.contains("'good'") && !reason.contains("'off'"), "{reason}");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("nanoclaw_mcp_server_up{server=\"bad\"} 0"), "{metrics}");
    let status: Value = serde_json::from_str(&server.get("/v1/status").body).expect("JSON");
    let [bad, good] = &status["mcp"].as_array().expect("servers")[..] else { panic!("{status}") };
    assert_eq!((&bad["name"], &bad["state"], &bad["tools"]), (&json!("bad"), &json!("down"), &json!(0)));
    assert!(bad["reason"].as_str().is_some_and(|reason| reason.contains("no-such-program-at-all")), "{bad}");
    assert_eq!(good, &json!({"name": "good", "state": "running", "reason": null, "tools": 1}));
    let log = server.log();
    assert!(log.contains("MCP server has no such tool") && log.contains("ecko"), "{log}");
}

/// A program that behaves like npx: it stores a program in its home directory and runs it there.
fn fake_npx(dir: &Path) -> String {
    let npx = dir.join("npx");
    let server = "#!/bin/sh\nexec python3 \"$2\" normal\n";
    let line = "#!/bin/sh\nmkdir -p \"$HOME/cache\" && cp \"$0.server\" \"$HOME/cache/server\" && exec \"$HOME/cache/server\" \"$@\"\n";
    for (path, text) in [(npx.clone(), line), (dir.join("npx.server"), server)] {
        std::fs::write(&path, text).expect("writes");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("sets");
    }
    npx.display().to_string()
}

#[test]
fn a_pasted_desktop_block_runs_with_a_package_runner_and_directories_of_its_arguments() {
    let upstream = calling_model();
    let dir = tempfile::tempdir().expect("a directory");
    let docs = dir.path().join("docs");
    std::fs::create_dir(&docs).expect("makes");
    let block = json!({"mcpServers": {"My Files": {
        "type": "stdio", "command": fake_npx(dir.path()), "autoApprove": [],
        "args": ["-y", format!("{}/server.py", fakes()), docs], "env": {"NAME": "Ann"}, "gallery": true}}});
    let block = serde_json::to_string_pretty(&block).expect("JSON");
    let server = Server::start_against(&upstream, &format!("{block}\n"));
    wait_for_tools(&server, "My Files");
    let written = docs.join("note.txt");
    let results = call(
        &server,
        &[
            ("mcp_My_Files_echo", json!({"text": "through the runner"})),
            ("mcp_My_Files_write", json!({"path": written, "text": "kept"})),
            ("mcp_My_Files_write", json!({"path": dir.path().join("beside.txt"), "text": "no"})),
        ],
    );
    assert_eq!(results[0]["data"], "through the runner", "{}", results[0]);
    assert_eq!(results[1]["data"], "written", "{}", results[1]);
    assert_eq!(std::fs::read_to_string(written).expect("reads"), "kept");
    assert!(results[2].to_string().contains("ermission denied"), "{}", results[2]);
    assert!(!dir.path().join("beside.txt").exists(), "only what the arguments name is open");
    let log = server.log();
    assert!(log.contains("MCP server may use more than its own files"), "{log}");
    assert!(log.contains("the network; its own directory"), "{log}");
    assert!(log.contains("not used here: gallery"), "{log}");
}

#[test]
fn an_mcp_server_leaves_the_sandbox_only_if_the_operator_says_so() {
    let upstream = calling_model();
    let dir = tempfile::tempdir().expect("a directory");
    let beside = dir.path().join("beside.txt");
    let servers = format!(
        "  free: {{command: python3, args: [{}/server.py, normal], sandbox: off}}\n{}",
        fakes(),
        fake("kept", "normal", "")
    );
    let server = start(&upstream, &servers);
    wait_for_tools(&server, "free");
    wait_for_tools(&server, "kept");
    let arguments = json!({"path": beside, "text": "x"});
    let results = call(&server, &[("mcp_kept_write", arguments.clone()), ("mcp_free_write", arguments)]);
    assert!(results[0].to_string().contains("ermission denied"), "{}", results[0]);
    assert_eq!(results[1]["data"], "written", "{}", results[1]);
    assert!(server.log().contains("it runs without the sandbox"), "{}", server.log());
}

#[test]
fn a_changed_tool_list_of_an_mcp_server_is_read_again() {
    let upstream = calling_model();
    let server = start(&upstream, &fake("fake", "normal", ""));
    wait_for_tools(&server, "fake");
    assert!(
        call_one(&server, "mcp_fake_grown", json!({}))["error"]
            .as_str()
            .expect("an error")
            .contains("not found")
    );
    assert_eq!(call_one(&server, "mcp_fake_grow", json!({}))["data"], "grown");
    wait_until(&server, "the new tool is there", || {
        call_one(&server, "mcp_fake_grown", json!({}))["data"] == "called grown"
    });
}

#[test]
fn shutdown_ends_mcp_sessions() {
    let upstream = calling_model();
    let mut server = start(&upstream, &(fake("fake", "normal", "") + &fake("mute", "mute", "")));
    wait_for_tools(&server, "fake");
    let started = Instant::now();
    assert!(server.terminate().success());
    assert!(started.elapsed() < WAIT_TIMEOUT, "{:?}", started.elapsed());
    let log = server.log();
    assert!(log.contains("stopped") && !log.contains("panicked"), "{log}");
}

/// Without accounts every client may approve, and a program with the network could be a client.
#[test]
fn p9_a_networked_mcp_server_reaches_other_services_but_not_its_own_server() {
    let upstream = calling_model();
    let other = Upstream::start(|_, _| Answer::text("here"));
    let servers = fake("free", "normal", ", network: true") + &fake("kept", "normal", "");
    let approval = "approval: [mcp_kept_echo]\n";
    let server = Server::start_against(&upstream, &format!("{approval}mcp_servers:\n{servers}"));
    wait_for_tools(&server, "free");
    wait_for_tools(&server, "kept");
    let calls = json!([("mcp_kept_echo", json!({"text": "nobody approved"}))]);
    let waiting = server.submit(&json!({"input": calls.to_string()}));
    wait_until(&server, "the job waits", || {
        server.get(&format!("/v1/jobs/{waiting}")).json()["status"] == "waiting"
    });
    let approve = format!("{}/v1/jobs/{waiting}/approve", server.url);
    let results = call(
        &server,
        &[
            ("mcp_free_post", json!({"url": approve})),
            ("mcp_free_post", json!({"url": approve.replace("127.0.0.1", "[::ffff:127.0.0.1]")})),
            ("mcp_free_post", json!({"url": other.url})),
        ],
    );
    for refused in &results[..2] {
        assert!(refused.to_string().contains("ermission denied"), "{refused}");
    }
    assert!(!results[2].to_string().contains("ermission denied"), "other services are open: {}", results[2]);
    assert_eq!(server.get(&format!("/v1/jobs/{waiting}")).json()["status"], "waiting");
}
