//! `nanoclaw mcp serve`: messages over stdin and stdout.

use super::{initialize, request};
use crate::support::{Ran, Server, command, database};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// A running `nanoclaw mcp serve`.
struct StdioServer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl StdioServer {
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut child = command(&["mcp", "serve"])
            .env("NANOCLAW_DATA_DIR", dir.join("data"))
            .args(arguments)
            .envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::options().create(true).append(true).open(dir.join("log")).expect("a log"))
            .spawn()
            .expect("starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its stdout"));
        Self { child, input, output: BufReader::new(output) }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("stdin is open");
        writeln!(input, "{message}").expect("sends");
    }

    /// The next message on stdout.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("reads");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("no message but '{line}': {error}"))
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.next()
    }

    /// Begins a session.
    fn open(dir: &Path, arguments: &[&str]) -> Self {
        let mut server = Self::start(dir, arguments);
        let reply = server.ask(&initialize("2025-11-25"));
        assert_eq!(reply["result"]["serverInfo"]["name"], "nanoclaw", "{reply}");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) -> Value {
        let reply = self.ask(&request(id, "tools/call", &json!({"name": tool, "arguments": arguments})));
        assert_eq!(reply["id"], id, "{reply}");
        reply["result"].clone()
    }

    /// Closes stdin and waits for the end. Stdout must have nothing more.
    fn close(mut self) -> Option<i32> {
        drop(self.input.take());
        let mut rest = String::new();
        while self.output.read_line(&mut rest).is_ok_and(|read| read > 0) {}
        assert_eq!(rest, "", "stdout has messages alone");
        self.child.wait().expect("ends").code()
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_fresh_directory_without_a_model_serves_programs_over_stdio() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = StdioServer::open(dir.path(), &[]);
    let result = server.call(1, "run_python", &json!({"code": "print(6 * 7)"}));
    assert_eq!(result["structuredContent"]["output"], "42\n", "{result}");
    let result = server.call(2, "run_shell", &json!({"command": "echo kept > f; cat f"}));
    assert_eq!(result["structuredContent"]["output"], "kept\n", "{result}");
    assert_eq!(server.close(), Some(0));
    // The files stay for the next one.
    let mut server = StdioServer::open(dir.path(), &[]);
    let result = server.call(1, "run_shell", &json!({"command": "cat f"}));
    assert_eq!(result["structuredContent"]["output"], "kept\n", "{result}");
    assert_eq!(server.close(), Some(0));
    assert!(!dir.path().join("data/mcp.sock").exists() && !dir.path().join("data/control.json").exists());
}

#[test]
fn requests_run_at_the_same_time_and_can_be_cancelled_over_stdio() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = StdioServer::open(dir.path(), &[]);
    let slow = json!({"name": "run_shell", "arguments": {"command": "sleep 600", "timeout": 600}});
    server.send(&request(1, "tools/call", &slow));
    assert_eq!(server.ask(&request(2, "ping", &json!({})))["id"], 2, "a slow call holds nobody up");
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let quick = json!({
        "name": "run_shell", "arguments": {"command": "sleep 2"}, "_meta": {"progressToken": "t"},
    });
    let progress = server.ask(&request(3, "tools/call", &quick));
    assert_eq!(progress["params"]["progressToken"], "t", "{progress}");
    let mut last = progress;
    while last["id"].is_null() {
        last = server.next();
    }
    assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(3), &json!(false)), "{last}");
    assert_eq!(server.close(), Some(0), "the cancelled request gets no reply");
}

#[test]
fn lines_that_are_no_message_get_an_error_and_the_next_one_is_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = StdioServer::open(dir.path(), &[]);
    for (line, code) in [("{", -32_700), ("[]", -32_600), ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32_600)] {
        let input = server.input.as_mut().expect("stdin is open");
        writeln!(input, "{line}").expect("sends");
        assert_eq!(server.next()["error"]["code"], code, "{line}");
    }
    let input = server.input.as_mut().expect("stdin is open");
    input.write_all(b"\xff\n").expect("sends");
    assert_eq!(server.next()["error"]["code"], -32_700, "no UTF-8");
    let input = server.input.as_mut().expect("stdin is open");
    input.write_all(&[b"x".repeat(32 << 20).as_slice(), b"\n"].concat()).expect("sends");
    let long = server.next();
    assert_eq!((&long["id"], &long["error"]["code"]), (&Value::Null, &json!(-32_600)), "{long}");
    let unknown = server.ask(&request(4, "no/such", &json!({})));
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(4), &json!(-32_601)));
    assert_eq!(server.close(), Some(0));
}

#[test]
fn a_second_process_uses_the_server_of_the_first_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = StdioServer::open(dir.path(), &[]);
    let mut second = StdioServer::open(dir.path(), &[]);
    first.call(1, "run_shell", &json!({"command": "echo shared > f"}));
    let result = second.call(1, "run_shell", &json!({"command": "cat f"}));
    assert_eq!(result["structuredContent"]["output"], "shared\n", "{result}");
    assert_eq!((second.close(), first.close()), (Some(0), Some(0)));
}

#[test]
fn processes_of_two_machines_share_a_database_and_those_of_one_directory_a_node() {
    let Some(schema) = database::schema() else { return };
    let dirs = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    let [one, two, shared] = &dirs;
    let config = shared.path().join("config.yml");
    let (url, name, files) = (schema.url(), schema.name(), shared.path().join("files"));
    std::fs::create_dir(&files).expect("a directory");
    let store = format!(
        "store: {{url: \"{url}\", lease_s: 3, node_name: {name}, shared_dir: {}}}\n",
        files.display()
    );
    std::fs::write(&config, store).expect("written");
    let arguments = ["--config", config.to_str().expect("UTF-8")];
    let mut first = StdioServer::open(one.path(), &arguments);
    let mut second = StdioServer::open(two.path(), &arguments);
    assert_eq!(schema.sql("SELECT count(*) FROM nodes"), "2");
    let written = first.call(1, "run_shell", &json!({"command": "echo shared > f"}));
    assert_eq!(written["isError"], false, "{written}");
    let result = second.call(1, "run_shell", &json!({"command": "cat f"}));
    assert_eq!(result["structuredContent"]["output"], "shared\n", "{result}");
    let job = first.call(2, "submit_job", &json!({"input": "hello"}))["structuredContent"]["id"].clone();
    let ended = second.call(2, "wait_job", &json!({"job_id": job, "timeout_s": 30}));
    assert_eq!(ended["structuredContent"]["status"], "succeeded", "{ended}");
    // A third process with the directory of the first one uses its node.
    let third = StdioServer::open(one.path(), &arguments);
    assert_eq!(schema.sql("SELECT count(*) FROM nodes"), "2");
    assert_eq!(third.close(), Some(0));
    assert_eq!(first.close(), Some(0));
    let result = second.call(3, "run_shell", &json!({"command": "cat f"}));
    assert_eq!(result["structuredContent"]["output"], "shared\n", "the other goes on: {result}");
    assert_eq!(second.close(), Some(0));
}

#[test]
fn a_running_server_is_used_and_survives_its_clients() {
    let server = Server::start();
    let mut bridge = StdioServer::open(&server.dir, &[]);
    let id = bridge.call(1, "submit_job", &json!({"input": "hello"}))["structuredContent"]["id"].clone();
    assert_eq!(bridge.close(), Some(0));
    let ended = server.wait(id.as_str().expect("an id"));
    assert_eq!(ended["status"], "succeeded", "the job is the server's: {ended}");
    let mut named = StdioServer::open(&server.dir, &["--server", &server.url]);
    assert_eq!(named.ask(&request(1, "ping", &json!({})))["result"], json!({}));
    assert_eq!(named.close(), Some(0));
}

#[test]
fn a_server_that_is_not_there_or_switched_off_is_an_error_on_stderr() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |arguments: &[&str], config: &str| -> Ran {
        std::fs::write(dir.path().join("config.yml"), config).expect("written");
        let mut command = command(&["mcp", "serve"]);
        command.env("NANOCLAW_DATA_DIR", dir.path().join("data")).args(arguments).current_dir(dir.path());
        command.stdin(Stdio::null()).output().expect("runs").into()
    };
    let gone = run(&["--server", "http://127.0.0.1:9"], "");
    assert!(
        gone.code == 1 && gone.out.is_empty() && gone.err.contains("cannot reach the server"),
        "{}",
        gone.err
    );
    let off = run(&[], "mcp_server: {enabled: false}\n");
    assert!(off.code == 78 && off.out.is_empty() && off.err.contains("turned off"), "{}", off.err);
}

#[test]
fn a_client_whose_server_leaves_with_another_client_starts_it_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let owner = StdioServer::open(dir.path(), &[]);
    let mut other = StdioServer::open(dir.path(), &[]);
    let run = json!({"command": "echo kept >> f; cat f"});
    let result = other.call(1, "run_shell", &run);
    assert_eq!(result["structuredContent"]["output"], "kept\n", "{result}");
    let sleeping = json!({"name": "run_shell", "arguments": {"command": "sleep 30"}});
    other.send(&request(2, "tools/call", &sleeping));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(owner.close(), Some(0));
    let ended = other.next();
    assert!(ended["result"]["content"][0]["text"].to_string().contains("the server stops"), "{ended}");
    let result = other.call(3, "run_shell", &run);
    assert_eq!(result["structuredContent"]["output"], "kept\nkept\n", "{result}");
    assert_eq!(other.close(), Some(0));
}

#[test]
fn a_cancellation_right_behind_its_request_ends_the_program() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = StdioServer::open(dir.path(), &[]);
    for id in 1..=10 {
        let sleeping =
            json!({"name": "run_shell", "arguments": {"command": "sleep 20; echo late", "timeout": 25}});
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        let input = server.input.as_mut().expect("stdin is open");
        write!(input, "{}\n{cancelled}\n", request(id, "tools/call", &sleeping)).expect("sends");
    }
    // More programs than this would have to wait for the others.
    let began = Instant::now();
    let result = server.call(11, "run_shell", &json!({"command": "echo now"}));
    assert_eq!(result["structuredContent"]["output"], "now\n", "{result}");
    assert_eq!(server.close(), Some(0), "nothing more is on stdout");
    assert!(began.elapsed() < Duration::from_secs(9), "the programs were ended: {:?}", began.elapsed());
}
