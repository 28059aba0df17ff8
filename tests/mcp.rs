//! MCP servers through the real binary: programs in the sandbox and HTTP on loopback, working and broken
//! ones.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Server, command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
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
    assert_eq!(
        results[4]["data"],
        json!({"attachments": [{"kind": "image", "type": "image/png", "bytes": 3000}]})
    );
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
    let flooded = call_one(&server, "mcp_quick_flood", json!({}));
    assert_eq!(flooded["success"], json!(false), "a message over the limit is dropped");
    let reasons = |name: &str| {
        let result = call_one(&server, &format!("mcp_{name}_cancelled"), json!({}));
        serde_json::from_str::<Vec<String>>(result["data"].as_str().unwrap_or("[]")).unwrap_or_default()
    };
    wait_until(&server, "the server gets the cancel notification", || {
        reasons("quick").contains(&"it took too long".to_owned())
    });
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
fn mcp_servers_work_over_http_with_json_and_sse_responses() {
    let upstream = calling_model();
    let (json_fake, sse_fake) = (HttpFake::start("json"), HttpFake::start("sse"));
    let auth = "headers: {Authorization: Bearer sk-fake-123}, timeout_s: 2";
    let moved = json_fake.1.replace("/mcp", "/moved");
    let servers = format!(
        "  json: {{url: '{}', {auth}}}\n  sse: {{url: '{}', {auth}}}\n  nobody: {{url: '{}'}}\n  moved: {{url: '{moved}'}}\n",
        json_fake.1, sse_fake.1, json_fake.1
    );
    let server = start(&upstream, &servers);
    for name in ["json", "sse"] {
        wait_for_tools(&server, name);
        let results = call(
            &server,
            &[
                (&format!("mcp_{name}_echo"), json!({"text": "over HTTP"})),
                (&format!("mcp_{name}_get_sum"), json!({"a": 1})),
                (&format!("mcp_{name}_fail"), json!({})),
            ],
        );
        assert_eq!((&results[0]["data"], &results[1]["data"]), (&json!("over HTTP"), &json!({"sum": 1})));
        assert_eq!(results[2]["error"], "no such thing");
        let ended = call_one(&server, &format!("mcp_{name}_die"), json!({}));
        assert!(ended["error"].as_str().expect("an error").contains("HTTP 500"), "{ended}");
        wait_until(&server, "a session that the server lost is opened again", || {
            call_one(&server, &format!("mcp_{name}_echo"), json!({"text": "again"}))["data"] == "again"
        });
    }
    let timed_out = call_one(&server, "mcp_sse_hang", json!({}));
    assert_eq!(timed_out["error"], "the MCP server 'sse' gave no answer within 2 s", "{timed_out}");
    for message in ["HTTP 401; put what it wants", "HTTP 307; redirects are not followed"] {
        wait_until(&server, message, || server.log().contains(message));
    }
    assert!(!server.log().contains("sk-fake-123"), "P9");
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
fn mcp_check_connects_to_a_server_and_calls_each_tool() {
    let tools = "[echo, get.sum, fail, refuse, picture, pattern]";
    let servers = fake("good", "normal", &format!(", enabled_tools: {tools}"))
        + &fake("hangs", "normal", ", enabled_tools: [hang], timeout_s: 1")
        + &fake("mute", "mute", ", start_timeout_s: 1, env: {KEY: sk-888888}")
        + "  missing: {command: no-such-program-at-all}\n";
    let config = format!("mcp_servers:\n{servers}");
    let (code, out, err) = check(&config, &["good"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("fake 1, protocol 20"), "{out}");
    for line in [
        "mcp_good_echo             ok          test",
        "mcp_good_get_sum          ok          {\"sum\":1}",
        "mcp_good_fail             ok (error)  no such thing",
        "mcp_good_refuse           ok (error)  not today",
        "mcp_good_pattern          skipped     no arguments can be made up",
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
    let (code, out, _) = check(&config, &["hangs"]);
    assert!(code == 1 && out.contains("FAIL        no answer within 1 s"), "{code} {out}");
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
