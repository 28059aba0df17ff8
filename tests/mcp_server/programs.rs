//! Programs that MCP clients run in the sandbox, without any model.

use super::{McpClient, request, sleeping};
use crate::support::directories::user_directory;
use crate::support::{Server, wait_until};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The directory of the single user's own project for programs.
fn workspace(server: &Server) -> PathBuf {
    user_directory(&server.dir.join("data/workspaces"), 1).join("mcp")
}

#[test]
fn programs_run_in_the_sandbox_and_return_what_they_print() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let done = client.done("run_python", &json!({"code": "print(6 * 7)"}));
    assert_eq!((&done["output"], &done["status"]), (&json!("42\n"), &json!("ok")), "{done}");
    let done = client.done("run_javascript", &json!({"code": "console.log([1, 2].map(n => n * 2).join())"}));
    assert_eq!(done["output"], "2,4\n", "{done}");
    let done = client.done("run_shell", &json!({"command": "echo kept > note.txt; cat note.txt"}));
    assert_eq!((&done["output"], &done["exit_code"]), (&json!("kept\n"), &json!(0)), "{done}");
    // The files of one call are there in the next one, whatever runs it.
    let code = "print(open('note.txt').read())";
    let done = client.done("run_python", &json!({"code": code, "strictness": "lenient"}));
    assert_eq!(done["output"], "kept\n\n", "{done}");
    assert!(workspace(&server).join("note.txt").exists());
}

#[test]
fn a_program_that_fails_is_an_error_for_the_model() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let result = client.call("run_shell", &json!({"command": "echo before; exit 3"}));
    assert_eq!(result["isError"], true, "{result}");
    assert!(
        result["content"][0]["text"].as_str().is_some_and(|text| text.contains("Exit code 3")),
        "{result}"
    );
    assert_eq!(result["structuredContent"]["output"], "before\n", "{result}");
    assert!(client.failed("run_python", &json!({"code": "1/0"})).contains("ZeroDivisionError"));
    assert!(client.failed("run_python", &json!({"cod": "1"})).contains("missing required code"));
    assert!(
        client
            .failed("run_shell", &json!({"command": "id", "project_id": "proj_x"}))
            .contains("no such project")
    );
    let denied = client.failed("run_shell", &json!({"command": "sudo id"}));
    assert!(!denied.is_empty(), "rules for commands hold here, too");
}

#[test]
fn p8_limits_of_tools_hold_for_mcp_clients() {
    let limits = "limits: {tool_arguments_bytes: 2048, tool_result_chars: 1000}\ncode_execution: {levels: {standard: {timeout_ms: 3000}}}\n";
    let server = Server::start_with(limits);
    let client = McpClient::open(&server);
    let large = client.failed("run_python", &json!({"code": format!("# {}", "x".repeat(3_000))}));
    assert!(large.contains("limits.tool_arguments_bytes = 2048"), "{large}");
    let long = client.done("run_python", &json!({"code": "print('y' * 50_000)"}));
    assert!(long.to_string().len() < 2_000, "the result is shortened: {} bytes", long.to_string().len());
    let began = Instant::now();
    let late = client.failed("run_python", &json!({"code": "while True: pass"}));
    assert!(began.elapsed() < Duration::from_secs(30) && !late.is_empty(), "{late}");
}

#[test]
fn calls_are_audited_like_those_of_models() {
    let server = Server::start();
    McpClient::open(&server).done("run_python", &json!({"code": "print('audited')"}));
    let file = server.dir.join("data/audit/audit.jsonl");
    wait_until("the audit line", || std::fs::read_to_string(&file).unwrap_or_default().contains("audited"));
    let line = std::fs::read_to_string(&file).expect("the audit log");
    let entry: Value = serde_json::from_str(line.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&entry["tool"], &entry["success"]), (&json!("execute_python"), &json!(true)), "{entry}");
}

#[test]
fn a_tool_that_needs_approval_is_neither_listed_nor_run() {
    let server = Server::start_with("approval: [bash]\n");
    let client = McpClient::open(&server);
    assert!(!client.tools().contains(&"run_shell".to_owned()));
    let refused = client.failed("run_shell", &json!({"command": "touch ran"}));
    assert!(refused.contains("needs approval"), "{refused}");
    assert!(!workspace(&server).join("ran").exists());
}

#[test]
fn a_tool_that_the_operator_turned_off_is_not_listed() {
    let server = Server::start_with("code_execution: {max_strictness_allowed: standard}\n");
    let client = McpClient::open(&server);
    assert!(!client.tools().contains(&"run_shell".to_owned()));
    let refused = client.failed("run_shell", &json!({"command": "id"}));
    assert!(refused.contains("max_strictness_allowed"), "{refused}");
}

#[test]
fn progress_is_reported_to_a_client_that_wants_it() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let arguments = json!({"command": "sleep 3; echo done"});
    let params = json!({"name": "run_shell", "arguments": arguments, "_meta": {"progressToken": "p1"}});
    let reply = client.send(&request(9, "tools/call", &params));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"), "{}", reply.body);
    let messages: Vec<Value> = reply
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|text| serde_json::from_str(text).expect("JSON"))
        .collect();
    let (last, progress) = messages.split_last().expect("messages");
    assert_eq!((&last["id"], &last["result"]["structuredContent"]["output"]), (&json!(9), &json!("done\n")));
    assert!(!progress.is_empty(), "{messages:?}");
    let numbers: Vec<u64> =
        progress.iter().map(|sent| sent["params"]["progress"].as_u64().expect("a number")).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    for sent in progress {
        assert_eq!(
            (&sent["method"], &sent["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p1"))
        );
    }
}

/// Starts a command that sleeps for ten minutes, waits until it runs, lets `stop` end it, and waits until it
/// is gone.
fn stopped(server: &Server, file: &str, stop: impl FnOnce()) {
    wait_until("the command runs", || workspace(server).join(file).exists());
    stop();
    wait_until("the command is gone", || !is_sleeping(server.pid()));
}

/// Whether a descendant of the process sleeps for ten minutes.
fn is_sleeping(ancestor: u32) -> bool {
    let mut pending = vec![ancestor];
    while let Some(pid) = pending.pop() {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.contains("sleep") && line.contains("600") && !line.contains("touch") {
            return true;
        }
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            pending.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    false
}

#[test]
fn a_cancelled_call_gets_no_reply_and_its_program_is_killed() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let call = request(77, "tools/call", &json!({"name": "run_shell", "arguments": sleeping("a")}));
    let reply = std::thread::scope(|scope| {
        let headers = client.headers();
        let (server, text) = (&server, call.to_string());
        let calling = scope.spawn(move || server.request(("POST", "/mcp"), &headers, &text));
        stopped(server, "a", || {
            let params = json!({"requestId": 77, "reason": "no longer needed"});
            let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            assert_eq!(server.request(("POST", "/mcp"), &client.headers(), &note.to_string()).status, 202);
        });
        calling.join().expect("a reply")
    });
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    assert_eq!(client.done("run_shell", &json!({"command": "echo on"}))["output"], "on\n");
}

#[test]
fn a_program_ends_with_its_client() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let body =
        request(5, "tools/call", &json!({"name": "run_shell", "arguments": sleeping("b")})).to_string();
    let mut socket = TcpStream::connect(server.url.trim_start_matches("http://")).expect("connects");
    let session = client.session.as_deref().expect("a session");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).expect("sends");
    stopped(&server, "b", || {
        // An end of the input right behind the request is that of a client which only has no more to send.
        std::thread::sleep(Duration::from_millis(300));
        drop(socket);
    });
}

#[test]
fn the_end_of_a_session_cancels_its_calls() {
    let server = Server::start();
    let client = McpClient::open(&server);
    let call = request(5, "tools/call", &json!({"name": "run_shell", "arguments": sleeping("c")}));
    std::thread::scope(|scope| {
        let headers = client.headers();
        let (server, text) = (&server, call.to_string());
        scope.spawn(move || server.request(("POST", "/mcp"), &headers, &text));
        stopped(server, "c", || {
            assert_eq!(server.request(("DELETE", "/mcp"), &client.headers(), "").status, 204);
        });
    });
}

#[test]
fn calls_of_one_client_run_at_the_same_time() {
    let server = Server::start_with("code_execution: {max_parallel: 4}\n");
    let client = McpClient::open(&server);
    let outputs: Vec<Value> = std::thread::scope(|scope| {
        let call = |number: u64| {
            let params =
                json!({"name": "run_shell", "arguments": {"command": format!("sleep 1; echo {number}")}});
            let (headers, text) =
                (client.headers(), request(100 + number, "tools/call", &params).to_string());
            let server = &server;
            scope.spawn(move || server.request(("POST", "/mcp"), &headers, &text).json())
        };
        let calls: Vec<_> = (0..4).map(call).collect();
        calls.into_iter().map(|call| call.join().expect("a reply")).collect()
    });
    for (number, reply) in outputs.iter().enumerate() {
        assert_eq!(reply["id"], 100 + number, "{reply}");
        assert_eq!(reply["result"]["structuredContent"]["output"], format!("{number}\n"), "{reply}");
    }
    let repeated = request(100, "ping", &json!({}));
    assert_eq!(client.send(&repeated).status, 200, "an id may be used again after its reply");
}
