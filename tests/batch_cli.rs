//! `nanoclaw batch` and `nanoclaw retry`: the real binary as server and as client, killed and interrupted.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{Ran, Server, command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Takes six seconds: everything that a test does meanwhile is done by then, even on a slow machine.
const SLOW: &str = "stream: 60 words, 100 ms";

/// Takes longer than any test.
const ENDLESS: &str = "stream: 900 words, 100 ms";

/// A user's home directory.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, text: impl AsRef<[u8]>) {
        std::fs::write(self.path("jobs.jsonl"), text).expect("written");
    }

    /// `nanoclaw batch` in this home, its streams in pipes.
    fn batch(&self, url: &str, arguments: &[&str]) -> Command {
        let mut command = command(&["batch", "--server", url]);
        command.args(arguments).current_dir(self.dir.path());
        command.env("XDG_STATE_HOME", self.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, url: &str, arguments: &[&str]) -> Ran {
        self.batch(url, arguments).output().expect("it runs").into()
    }

    /// The resume files that interrupted calls left.
    fn resume_files(&self) -> Vec<PathBuf> {
        let Ok(folder) = std::fs::read_dir(self.path("state/nanoclaw/batches")) else { return Vec::new() };
        let is_unfinished =
            |path: &PathBuf| !std::fs::read_to_string(path).expect("text").contains("\"is_finished\": true");
        folder.map(|entry| entry.expect("an entry").path()).filter(is_unfinished).collect()
    }

    fn resume_file(&self) -> (PathBuf, Value) {
        let all = self.resume_files();
        assert_eq!(all.len(), 1, "{all:?}");
        let text = std::fs::read_to_string(&all[0]).expect("readable");
        (all[0].clone(), serde_json::from_str(&text).expect("JSON"))
    }
}

fn lines(inputs: &[&str]) -> String {
    let line = |(at, input): (usize, &&str)| {
        format!("{}\n", json!({"custom_id": format!("line-{at}"), "body": {"input": input}}))
    };
    inputs.iter().enumerate().map(line).collect()
}

fn custom_ids(results: &str) -> Vec<String> {
    let id = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON lines");
        line["custom_id"].as_str().expect("a custom_id").to_owned()
    };
    results.lines().map(id).collect()
}

fn jobs(server: &Server) -> usize {
    let page = server.get("/v1/jobs?limit=100").json();
    assert_eq!(page["has_more"], json!(false));
    page["data"].as_array().expect("jobs").len()
}

/// The batch id: the first word of the first line of stderr that contains `what`.
fn batch_id(err: &str, text: &str) -> String {
    let line = err.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("'{text}' in: {err}"));
    line.split([' ', ':']).next().expect("a word").to_owned()
}

/// Starts the command and waits until the batch is accepted; returns the child and the batch id.
fn start_accepted(mut call: Command) -> (Child, String) {
    let mut child = call.spawn().expect("it starts");
    let mut err = BufReader::new(child.stderr.take().expect("its stderr"));
    let mut line = String::new();
    err.read_line(&mut line).expect("a line");
    let id = batch_id(&line, "lines accepted");
    // The child must not block on stderr.
    std::thread::spawn(move || err.read_to_end(&mut Vec::new()));
    (child, id)
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("a signal");
}

#[test]
fn stdout_contains_only_results_in_input_order() {
    let (server, home) = (Server::start(), Home::new());
    let inputs: Vec<String> = (0..40).map(|n| format!("question number {n}")).collect();
    home.file(lines(&inputs.iter().map(String::as_str).collect::<Vec<_>>()));
    let ran = home.run(&server.url, &["jobs.jsonl", "--concurrency", "8"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let expected: Vec<String> = (0..40).map(|n| format!("line-{n}")).collect();
    assert_eq!(custom_ids(&ran.out), expected);
    for (line, input) in ran.out.lines().zip(&inputs) {
        let line: Value = serde_json::from_str(line).expect("JSON lines");
        let answer = line["response"]["body"]["output_text"].as_str().expect("an answer");
        assert!(answer.contains(input.as_str()), "{input}: {line}");
    }
    let id = batch_id(&ran.err, "40 lines accepted");
    assert_eq!(batch_id(&ran.err, "40 lines succeeded, 0 failed"), id);
    assert_eq!(server.get(&format!("/v1/batches/{id}")).json()["concurrency"], json!(8));
    assert_eq!(ran.err.lines().count(), 2, "one line at the start and one at the end: {}", ran.err);
    assert!(!ran.err.contains(['\r', '\u{1b}']), "no progress bar without a terminal: {:?}", ran.err);
    assert!(home.resume_files().is_empty(), "the results have arrived: nothing to resume");
    // The same command does not run the file, and pay for it, once more.
    let again = home.run(&server.url, &["jobs.jsonl"]);
    assert_eq!((again.code, again.out.as_str()), (1, ""), "{}", again.err);
    assert!(again.err.contains(&id) && again.err.contains("--new"), "{}", again.err);
    assert_eq!(jobs(&server), 40);
    let again = home.run(&server.url, &["jobs.jsonl", "--new"]);
    assert_ne!(batch_id(&again.err, "lines accepted"), id);
}

#[test]
fn an_output_file_is_replaced_atomically_and_json_prints_the_batch() {
    let (server, home) = (Server::start(), Home::new());
    home.file(lines(&[SLOW, "quick"]));
    std::fs::write(home.path("out.jsonl"), "old").expect("written");
    let refused = home.run(&server.url, &["jobs.jsonl", "-o", "out.jsonl"]);
    assert!(refused.code == 1 && refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(jobs(&server), 0, "refused before anything is sent");
    let call = home.batch(&server.url, &["jobs.jsonl", "-o", "out.jsonl", "--force", "--json"]);
    let (child, id) = start_accepted(call);
    assert_eq!(
        std::fs::read_to_string(home.path("out.jsonl")).expect("there"),
        "old",
        "the file is not replaced before the batch ends"
    );
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.code, 0);
    let batch: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!(
        (&batch["id"], &batch["status"], &batch["request_counts"]["completed"]),
        (&json!(id), &json!("completed"), &json!(2))
    );
    let results = std::fs::read_to_string(home.path("out.jsonl")).expect("results");
    assert_eq!(custom_ids(&results), ["line-0", "line-1"]);
    assert!(!home.path("out.jsonl.part").exists());
    // A device is written, not replaced by a file.
    let ran = home.run(&server.url, &["jobs.jsonl", "-o", "/dev/null", "--new"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(!Path::new("/dev/null.part").exists());
}

#[test]
fn failed_lines_are_counted_and_give_exit_code_1() {
    let (server, home) = (Server::start(), Home::new());
    let endless = json!({"custom_id": "late", "body": {"input": ENDLESS, "timeout_s": 1}});
    home.file(format!("{}{endless}\n", lines(&["a", "b"])));
    let ran = home.run(&server.url, &["jobs.jsonl"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("nanoclaw: 1 of 3 lines failed\nhint: "), "{}", ran.err);
    assert_eq!(custom_ids(&ran.out), ["line-0", "line-1", "late"]);
    assert!(ran.out.lines().last().expect("lines").contains("timeout"), "{}", ran.out);
    assert!(home.resume_files().is_empty());
}

#[test]
fn a_bad_line_is_reported_with_file_and_number_however_long_the_file() {
    let (server, home) = (Server::start(), Home::new());
    let bad = format!("{}{{\"custom_id\": \"x\", \"body\": {{\"inputt\": \"a\"}}}}\n", lines(&["a", "b"]));
    // The server refuses and closes the connection while the client still sends.
    let long = format!("{{\"custom_id\": \"y\", \"body\": {{\"input\": \"{}\"}}}}\n", "z".repeat(100_000));
    for rest in ["", &long.repeat(200)] {
        home.file(format!("{bad}{rest}"));
        let ran = home.run(&server.url, &["jobs.jsonl"]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
        assert!(ran.err.starts_with("nanoclaw: jobs.jsonl: line 3: "), "{}", ran.err);
        assert!(ran.err.contains("inputt"), "{}", ran.err);
        assert!(home.resume_files().is_empty(), "a refused batch leaves no resume file");
    }
    home.file("");
    let ran = home.run(&server.url, &["jobs.jsonl"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("nanoclaw: jobs.jsonl: the batch is empty"), "{}", ran.err);
    assert!(home.resume_files().is_empty());
    assert_eq!(jobs(&server), 0);
}

#[test]
fn invalid_arguments_are_refused_before_anything_is_sent() {
    let (server, home) = (Server::start(), Home::new());
    home.file(lines(&["a"]));
    for (arguments, code, message) in [
        (vec!["absent.jsonl"], 1, "nanoclaw: cannot read 'absent.jsonl'"),
        (vec!["."], 1, "not a file"),
        (vec!["jobs.jsonl", "-o", "."], 2, "it is a directory"),
        (vec!["jobs.jsonl", "-o", "nowhere/out"], 2, "no such directory"),
        (vec!["jobs.jsonl", "-o", "./jobs.jsonl"], 2, "it is the input"),
        (vec!["jobs.jsonl", "--json"], 2, "--output"),
        (vec!["jobs.jsonl", "--detach", "-o", "out"], 2, "--output"),
        (vec!["jobs.jsonl", "--concurrency", "0"], 2, "--concurrency"),
        (vec![], 2, "FILE.jsonl"),
    ] {
        let ran = home.run(&server.url, &arguments);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{arguments:?}: {}", ran.err);
    }
    let ran = home.run("http://127.0.0.1:9", &["jobs.jsonl"]);
    assert!(ran.code == 1 && ran.err.contains("cannot reach the server"), "{}", ran.err);
    assert!(ran.err.contains("\nhint: "), "{}", ran.err);
    assert!(home.resume_files().is_empty());
    assert_eq!(jobs(&server), 0);
}

#[test]
fn p1_a_client_killed_while_waiting_resumes_the_same_batch() {
    let (server, home) = (Server::start(), Home::new());
    home.file(lines(&[SLOW, "a", "b", "c"]));
    let call = home.batch(&server.url, &["jobs.jsonl", "-o", "out"]);
    let (mut child, id) = start_accepted(call);
    child.kill().expect("kill -9");
    child.wait().expect("reaped");
    assert!(!home.path("out").exists());
    let ran = home.run(&server.url, &["jobs.jsonl", "-o", "out"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(batch_id(&ran.err, "goes on"), id);
    let results = std::fs::read_to_string(home.path("out")).expect("results");
    assert_eq!(custom_ids(&results), ["line-0", "line-1", "line-2", "line-3"]);
    assert_eq!(jobs(&server), 4, "each line ran once");
    assert!(home.resume_files().is_empty());
}

#[test]
fn p1_a_client_killed_before_it_read_the_batch_id_gets_the_same_batch() {
    let (server, home) = (Server::start(), Home::new());
    home.file(lines(&["a", "b"]));
    let first = home.run(&server.url, &["jobs.jsonl", "--detach"]);
    assert_eq!(first.code, 0, "{}", first.err);
    let id = first.out.trim();
    // The state after the server's response and before the client read it.
    let (path, mut resume) = home.resume_file();
    assert_eq!(resume["batch"], json!(id));
    resume["batch"] = Value::Null;
    std::fs::write(&path, resume.to_string()).expect("written");
    let ran = home.run(&server.url, &["jobs.jsonl"]);
    assert_eq!((ran.code, batch_id(&ran.err, "lines accepted").as_str()), (0, id), "{}", ran.err);
    assert_eq!(jobs(&server), 2, "each line ran once");
}

#[test]
fn detach_prints_the_id_and_new_starts_another_batch() {
    let (server, home) = (Server::start(), Home::new());
    home.file(lines(&["a"]));
    let detach = |options: &[&str]| {
        let ran = home.run(&server.url, &[&["jobs.jsonl", "--detach"], options].concat());
        assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{}", ran.err);
        ran.out.trim().to_owned()
    };
    let first = detach(&[]);
    assert!(first.starts_with("batch_"), "{first}");
    assert_eq!(detach(&[]), first);
    let second = detach(&["--new"]);
    assert_ne!(second, first);
    let shown: Value = serde_json::from_str(&detach(&["--json"])).expect("the batch");
    assert_eq!(shown["id"], json!(second));
    // A batch that the server no longer has is uploaded again.
    let (path, mut resume) = home.resume_file();
    resume["batch"] = json!("batch_01ARZ3NDEKTSV4RRFFQ69G5FAV");
    std::fs::write(&path, resume.to_string()).expect("written");
    let ran = home.run(&server.url, &["jobs.jsonl"]);
    assert_eq!((ran.code, custom_ids(&ran.out).len()), (0, 1), "{}", ran.err);
    assert!(ran.err.contains("no longer on the server"), "{}", ran.err);
    assert_ne!(batch_id(&ran.err, "lines accepted"), second);
    assert_eq!(jobs(&server), 3);
}

#[test]
fn a_batch_can_be_read_from_stdin() {
    let (server, home) = (Server::start(), Home::new());
    let feed = |arguments: &[&str]| -> Ran {
        let mut call = home.batch(&server.url, arguments);
        let mut child = call.stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("its stdin");
        stdin.write_all(lines(&["a", "b"]).as_bytes()).expect("written");
        drop(stdin);
        child.wait_with_output().expect("it ends").into()
    };
    let first = feed(&["-", "--detach"]);
    let ran = feed(&["-"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(batch_id(&ran.err, "goes on"), first.out.trim());
    assert_eq!(custom_ids(&ran.out), ["line-0", "line-1"]);
    assert!(home.resume_files().is_empty(), "the copy of stdin is removed too");
}

#[test]
fn ctrl_c_leaves_the_batch_running_or_cancels_it() {
    let (server, home) = (Server::start(), Home::new());
    home.file(lines(&[ENDLESS]));
    let (mut child, id) = start_accepted(home.batch(&server.url, &["jobs.jsonl"]));
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let status = || server.get(&format!("/v1/batches/{id}")).json()["status"].clone();
    assert_eq!(status(), json!("in_progress"));
    let mut child =
        home.batch(&server.url, &["jobs.jsonl", "--cancel-on-interrupt"]).spawn().expect("it starts");
    let mut err = BufReader::new(child.stderr.take().expect("its stderr"));
    let mut line = String::new();
    err.read_line(&mut line).expect("a line");
    assert_eq!(batch_id(&line, "goes on"), id);
    signal(&child, rustix::process::Signal::INT);
    let mut rest = String::new();
    err.read_to_string(&mut rest).expect("the rest of stderr");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    assert_eq!(batch_id(&rest, "is cancelled"), id);
    assert!(matches!(status().as_str(), Some("cancelling" | "cancelled")), "{}", status());
    assert!(home.resume_files().is_empty(), "a cancelled batch is not resumed");
}

/// A server that keeps its port across restarts.
struct FixedPortServer {
    dir: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

impl FixedPortServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("config.yml"), "").expect("written");
        let mut server = Self { dir, port: listener.expect("a port").port(), child: None };
        server.serve();
        server
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn serve(&mut self) {
        let child = command(&["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--config"])
            .arg(self.dir.path().join("config.yml"))
            .arg("--data-dir")
            .arg(self.dir.path().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("the server starts"));
        let began = Instant::now();
        while ureq::get(format!("{}/healthz", self.url())).call().is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill -9");
            child.wait().expect("reaped");
        }
    }
}

impl Drop for FixedPortServer {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn p1_a_waiting_client_reconnects_after_the_server_restarts() {
    let (mut server, home) = (FixedPortServer::start(), Home::new());
    home.file(lines(&[SLOW, "a", "b"]));
    let mut call = home.batch(&server.url(), &["jobs.jsonl", "-o", "out"]);
    let mut child = call.spawn().expect("it starts");
    let mut err = BufReader::new(child.stderr.take().expect("its stderr"));
    let mut next = || {
        let mut line = String::new();
        err.read_line(&mut line).expect("a line");
        line
    };
    let id = batch_id(&next(), "lines accepted");
    server.kill();
    let away = next();
    assert!(away.contains("the server is away") && away.contains("waiting"), "{away}");
    server.serve();
    assert!(next().contains("the server is back"));
    assert_eq!(batch_id(&next(), "3 lines succeeded, 0 failed"), id);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let results = std::fs::read_to_string(home.path("out")).expect("results");
    assert_eq!(custom_ids(&results), ["line-0", "line-1", "line-2"]);
}

/// A proxy that cuts each connection after a number of bytes up and down; connections beyond the list are
/// not cut.
fn start_cutting_proxy(server: &Server, limits: Vec<(u64, u64)>) -> String {
    let target = server.url.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let copy_limited = |from: &TcpStream, to: &TcpStream, limit: u64| {
        let (from, mut to) = (from.try_clone().expect("a clone"), to.try_clone().expect("a clone"));
        std::thread::spawn(move || {
            let mut limited = (&from).take(limit);
            let copied = std::io::copy(&mut limited, &mut to);
            let one_more = (&from).read(&mut [0]); // cut on the first byte beyond the limit
            drop((copied, one_more, from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
        });
    };
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, server) =
                (client.expect("a client"), TcpStream::connect(&target).expect("the server"));
            let (upload_bytes, download_bytes) = limits.get(number).copied().unwrap_or((u64::MAX, u64::MAX));
            copy_limited(&client, &server, upload_bytes);
            copy_limited(&server, &client, download_bytes);
        }
    });
    url
}

#[test]
fn p1_connections_cut_during_upload_response_and_results_lose_nothing() {
    let (server, home) = (Server::start(), Home::new());
    let inputs: Vec<String> = (0..60).map(|n| format!("{n} {}", "x".repeat(10_000))).collect();
    home.file(lines(&inputs.iter().map(String::as_str).collect::<Vec<_>>()));
    let unlimited = u64::MAX;
    // Cuts in the upload, before the response, and in the results.
    let url = start_cutting_proxy(&server, vec![(200_000, unlimited), (unlimited, 0), (unlimited, 100_000)]);
    let ran = home.run(&url, &["jobs.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(custom_ids(&ran.out), (0..60).map(|n| format!("line-{n}")).collect::<Vec<_>>());
    assert_eq!(jobs(&server), 60, "each line ran once");
    assert_eq!(
        ran.err.matches("the server is away").count(),
        2,
        "reported once for each outage: {}",
        ran.err
    );
    assert!(ran.err.contains("results broke off"), "{}", ran.err);
    assert!(ran.out.len() > 100_000, "long enough to be cut");
}

#[test]
fn retry_runs_a_failed_job_again_and_tail_skips_the_old_failure() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::error(401, "no"),
        _ => Answer::text("well at last"),
    });
    let server = Server::start_against(&upstream, "");
    let run = |arguments: &[&str]| -> Ran {
        let mut command = command(arguments);
        command.args(["--server", &server.url]).output().expect("it runs").into()
    };
    let answered = run(&["ask", "go"]);
    assert_eq!(answered.code, 1, "{}", answered.err);
    let id = answered.err.lines().next().expect("the id").to_owned();
    let ran = run(&["retry", &id]);
    assert_eq!((ran.code, ran.out.trim()), (0, "well at last"), "{}", ran.err);
    assert!(!ran.err.contains("provider_error"), "the earlier failure is not reported again: {}", ran.err);
    let tail = run(&["tail", &id]);
    assert_eq!((tail.code, tail.out.trim()), (0, "well at last"), "{}", tail.err);
    let again = run(&["retry", &id]);
    assert!(again.code == 1 && again.err.contains("only a failed job"), "{}", again.err);
    assert_eq!(run(&["retry", "../jobs"]).code, 2);
}
