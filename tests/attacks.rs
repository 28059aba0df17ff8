//! Attacks on the walls between models, users and the machine, that need the whole server. The other ones are
//! in the tests of their subjects.

use crate::support::{Server, command, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs `serve` with this configuration, which must be refused. Returns the message.
fn refusal(dir: &Path, config: &str) -> String {
    let file = dir.join("config.yml");
    std::fs::write(&file, config).expect("writes");
    let mut serve = command(&["serve", "--config", &file.display().to_string()]);
    let log = std::fs::File::create(dir.join("log")).expect("a log");
    let mut serve = serve.env("NANOCLAW_LISTEN", "127.0.0.1:0").stderr(log).spawn().expect("runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match serve.try_wait().expect("a child") {
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            None => drop(serve.kill()),
            Some(status) => break status,
        }
    };
    let message = std::fs::read_to_string(dir.join("log")).expect("reads");
    assert_eq!(status.code(), Some(78), "{message}");
    message
}

#[test]
fn p7_a_server_whose_data_commands_could_read_does_not_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let programs = dir.path().join("programs");
    let data = programs.join("data");
    let (shown, data) = (programs.display(), data.display());
    // It does not exist yet: the server would make both.
    let config = format!("data_dir: {data}\ncode_execution: {{program_dirs: [{shown}]}}\n");
    let message = refusal(dir.path(), &config);
    assert!(message.contains(&format!("'{data}'")) && message.contains(&format!("'{shown}'")), "{message}");
    assert!(!programs.exists(), "nothing was made");
}

#[test]
fn p7_a_command_cannot_read_the_session_key_below_opt() {
    let Ok(dir) = tempfile::tempdir_in("/opt") else {
        eprintln!("SKIPPED: /opt cannot be written to");
        return;
    };
    let server = Server::start_in(dir.path(), "");
    let key = dir.path().join("data/session_key");
    assert!(key.is_file());
    let attempt = json!({"command": format!("echo begin; base64 -w0 {}; echo; ls {}", key.display(), dir.path().display())});
    let id = server.submit(&json!({"input": format!("tool: bash {attempt}")}));
    server.wait(&id);
    let events = server.get(&format!("/v1/jobs/{id}/events?follow=false")).body;
    assert!(events.contains("begin") && events.contains("ermission denied"), "{events}");
    assert!(!events.contains("config.yml"), "{events}");
}

#[test]
fn p9_a_networked_shell_of_a_server_without_accounts_does_not_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let config = format!("data_dir: {}\ncode_execution: {{shell_network: true}}\n", data.display());
    let message = refusal(dir.path(), &config);
    assert!(message.contains("approve its own tool calls"), "{message}");
    assert!(!data.exists(), "nothing was made");
}

/// A service at every address; it says so in the file `ready` and ends with its parent.
const SERVICE: &str = r#"
import http.server, os, sys, threading, time
class Inner(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Type", "text/html"); self.end_headers()
        self.wfile.write(b"<p>INTERNAL-ONLY</p>")
    def do_POST(self):
        open(sys.argv[1] + "/webhook", "w").close()
        self.send_response(204); self.end_headers()
    def log_message(self, *_): pass
web, parent = http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Inner), os.getppid()
threading.Thread(target=web.serve_forever, daemon=True).start()
open(sys.argv[1] + "/ready", "w").close()
while os.getppid() == parent: time.sleep(0.05)
"#;

/// A server and a service on a machine of their own with the public address 5.6.7.8.
struct OwnMachine {
    server: Child,
    dir: tempfile::TempDir,
}

impl OwnMachine {
    fn start(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listen = format!("listen: unix:{}\n", dir.path().join("socket").display());
        std::fs::write(dir.path().join("config.yml"), listen + config).expect("writes");
        std::fs::write(dir.path().join("service.py"), SERVICE).expect("writes");
        let script = "ip link set lo up && ip addr add 5.6.7.8/32 dev lo && cd \"$1\" || exit 1\n\
                      python3 service.py . &\n\
                      exec \"$0\" serve --config config.yml --data-dir data 2>log";
        let serve = command(&[]);
        let mut unshare = Command::new("unshare");
        unshare.env_remove("NANOCLAW_TEST_STORE");
        unshare.args(["-rn", "sh", "-c", script]).arg(serve.get_program()).arg(dir.path());
        let server = unshare.stdout(Stdio::null()).spawn().expect("unshare");
        let machine = Self { server, dir };
        let path = machine.dir.path();
        wait_until("both serve", || {
            path.join("ready").exists() && UnixStream::connect(path.join("socket")).is_ok()
        });
        machine
    }

    /// The response to a request, with its head.
    fn ask(&self, line: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.dir.path().join("socket")).expect("connects");
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).expect("sends");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    }

    /// Fetches the service's page and reports to it; returns whether each of them reached it.
    fn attack(&self) -> (bool, bool) {
        let url = "http://5.6.7.8:8080/";
        let job = json!({"input": format!("tool: fetch_page {}", json!({"url": url})), "webhook_url": url});
        let response = self.ask("POST /v1/jobs?wait=60", &job.to_string());
        let (_, text) = response.split_once("\r\n\r\n").expect("a body");
        let job: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {response}"));
        let events =
            self.ask(&format!("GET /v1/jobs/{}/events?follow=false", job["id"].as_str().expect("an id")), "");
        let is_settled = |list: String| ["delivered", "dead"].iter().any(|state| list.contains(state));
        wait_until("the webhook is settled", || is_settled(self.ask("GET /v1/webhooks", "")));
        (events.contains("INTERNAL-ONLY"), self.dir.path().join("webhook").exists())
    }
}

impl Drop for OwnMachine {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default());
        }
    }
}

/// Traffic to an own address stays on the machine, behind the firewall that hides the service.
#[test]
fn p9_the_machines_own_public_address_is_refused_like_loopback() {
    let probe = Command::new("unshare").args(["-rn", "ip", "link", "set", "lo", "up"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("SKIPPED: no network namespace");
        return;
    }
    assert_eq!(OwnMachine::start("").attack(), (false, false));
    let allow = "{allow_private_addresses: [5.6.7.8]}";
    let open = OwnMachine::start(&format!("web: {allow}\nwebhooks: {allow}\n"));
    assert_eq!(open.attack(), (true, true), "the service is there");
}
