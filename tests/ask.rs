//! `nanoclaw ask` from outside: killed servers, cut connections, interrupts, sockets and streams.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{Server, against, command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Takes as long as a test may take.
const ENDLESS: &str = "stream: 900 words, 100 ms";

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("an exit code");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

fn run(arguments: &[&str], url: &str) -> Ran {
    command(arguments).args(["--server", url]).output().expect("the binary runs").into()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn spawned(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// A server at this address over this directory, answering.
fn serve(listen: &str, dir: &Path) -> Child {
    let mut command = command(&["serve", "--listen", listen, "--config"]);
    command.arg(dir.join("config.yml")).arg("--data-dir").arg(dir.join("data"));
    command.envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("its stdout")).read_line(&mut line).expect("its address");
    assert!(line.contains(':'), "no address: {line}");
    child
}

fn end(mut server: Child) {
    server.kill().expect("kill -9");
    server.wait().expect("reaped");
}

#[test]
fn p2_a_killed_server_costs_an_answer_nothing() {
    let text = (1..=600).map(|n| format!("word-{n}")).collect::<Vec<_>>().join(" ");
    let said = text.clone();
    let upstream = Upstream::start(move |_, count| match count {
        0 => Answer::paced_text(&said, Duration::from_millis(100)),
        _ => Answer::text(&said),
    });
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), against(&upstream, "")).expect("written");
    // A file, not a port: nobody else can take it while no server is there.
    let url = format!("unix:{}", dir.path().join("n.sock").display());
    let first = serve(&url, dir.path());
    let ask = spawned(command(&["ask", "--server", &url, "go"]));
    until("the model is asked", || !upstream.requests().is_empty());
    // A minute of answer, of which some seconds are heard.
    std::thread::sleep(Duration::from_secs(3));
    end(first);
    std::thread::sleep(Duration::from_millis(300));
    let second = serve(&url, dir.path());
    let ran: Ran = ask.wait_with_output().expect("it ends").into();
    end(second);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert_eq!(ran.out.trim_end(), text.trim_end(), "all of it, once\n{}", ran.err);
    assert!(ran.err.contains("connection lost after event"), "the kill came in mid-stream: {}", ran.err);
    assert!(ran.err.contains("resumed after event"), "{}", ran.err);
}

/// What one who stands before a server does to the first request of a kind.
#[derive(Clone)]
enum Trick {
    /// Hangs up on `POST /v1/jobs` once the server has answered it.
    Cut,
    /// Says 502 to whoever asks for events, as a proxy does whose server is being restarted.
    BadGateway,
    /// Hangs up on whoever knocks, as a server does that ends just then.
    HangUp,
    /// Keeps the answer to `POST /v1/jobs` back until this is true.
    Late(Arc<AtomicBool>),
}

impl Trick {
    fn wants(&self, request: &[u8]) -> bool {
        match self {
            Self::Cut | Self::Late(_) => request.starts_with(b"POST /v1/jobs "),
            Self::HangUp => request.starts_with(b"GET /healthz "),
            Self::BadGateway => String::from_utf8_lossy(request).contains("/events?format=delta "),
        }
    }
}

/// Stands before a server; counts the requests of the kind that its trick is about.
fn front(server: &str, trick: &Trick) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = server.trim_start_matches("http://").to_owned();
    let (seen, trick) = (Arc::new(AtomicUsize::new(0)), trick.clone());
    let counted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&server).expect("the server");
            let (trick, counted) = (trick.clone(), Arc::clone(&counted));
            std::thread::spawn(move || pass_on(client, server, &trick, &counted));
        }
    });
    (url, seen)
}

fn pass_on(mut client: TcpStream, mut server: TcpStream, trick: &Trick, seen: &AtomicUsize) {
    let mut back = (server.try_clone().expect("a hand"), client.try_clone().expect("a hand"));
    let played = Arc::new(AtomicBool::new(false));
    let (is_played, kind) = (Arc::clone(&played), trick.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = back.0.read(&mut bytes) {
            match &kind {
                Trick::Cut if is_played.load(Ordering::SeqCst) => break,
                Trick::Late(let_go) if is_played.load(Ordering::SeqCst) => {
                    until("the answer may pass", || let_go.load(Ordering::SeqCst));
                }
                _ => {}
            }
            if back.1.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop(back.1.shutdown(std::net::Shutdown::Both));
    });
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        if trick.wants(&bytes[..count]) && seen.fetch_add(1, Ordering::SeqCst) == 0 {
            played.store(true, Ordering::SeqCst);
            if matches!(trick, Trick::BadGateway) {
                let no = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                drop(client.write_all(no));
            }
            if matches!(trick, Trick::BadGateway | Trick::HangUp) {
                break;
            }
        }
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(server.shutdown(std::net::Shutdown::Both));
}

#[test]
fn p2_a_proxy_whose_server_is_away_for_a_moment_ends_nothing() {
    let server = Server::start();
    let job = run(&["ask", "--detach", "hello"], &server.url).out;
    for words in [&["ask", "hello"][..], &["tail", job.trim()]] {
        let (url, asked) = front(&server.url, &Trick::BadGateway);
        let ran = run(words, &url);
        assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
        assert!(ran.out.contains("hello") && ran.err.contains("502"), "{} {}", ran.out, ran.err);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn a_server_that_hangs_up_at_the_first_knock_is_there() {
    let server = Server::start();
    let (url, knocks) = front(&server.url, &Trick::HangUp);
    let ran = run(&["ask", "hello"], &url);
    assert!(ran.code == 0 && ran.out.contains("hello"), "{}\n{}", ran.out, ran.err);
    assert_eq!(knocks.load(Ordering::SeqCst), 1);
}

#[test]
fn a_prompt_of_nothing_is_no_use_of_ask() {
    let ran = run(&["ask", " "], "http://127.0.0.1:1");
    assert!(
        ran.code == 2 && ran.err.contains("the prompt is empty\nhint: "),
        "before anybody is asked: {}",
        ran.err
    );
}

#[test]
fn an_interrupt_while_the_job_is_handed_in_ends_that_job_too() {
    let server = Server::start();
    let let_go = Arc::new(AtomicBool::new(false));
    let (url, posts) = front(&server.url, &Trick::Late(Arc::clone(&let_go)));
    let child = spawned(command(&["ask", "--server", &url, "--cancel-on-interrupt", ENDLESS]));
    until("it is handed in", || posts.load(Ordering::SeqCst) == 1);
    until("it is taken", || server.get("/v1/jobs").json()["data"][0]["id"].is_string());
    interrupt(&child);
    // Long enough that the interrupt is heard before the answer comes; were it not, the test would hold all
    // the same.
    std::thread::sleep(Duration::from_millis(500));
    let_go.store(true, Ordering::SeqCst);
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert!(ran.code == 130 && ran.err.contains("is cancelled"), "{} {}", ran.code, ran.err);
    until("cancelled", || server.get("/v1/jobs").json()["data"][0]["status"] == "cancelled");
}

#[test]
fn p1_a_submission_that_is_cut_off_is_made_again_and_is_one_job() {
    let server = Server::start();
    let (url, posts) = front(&server.url, &Trick::Cut);
    let ran = run(&["ask", "hello"], &url);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("hello") && ran.err.contains("the server is back"), "{} {}", ran.out, ran.err);
    assert_eq!(posts.load(Ordering::SeqCst), 2);
    let jobs = server.get("/v1/jobs").json();
    assert_eq!(jobs["data"].as_array().map(Vec::len), Some(1), "{jobs}");
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("SIGINT");
}

#[test]
fn an_interrupt_leaves_the_job_or_ends_it_as_was_asked() {
    let server = Server::start();
    for (flags, word, status) in [
        (&[][..], "nanoclaw tail job_", "running"),
        (&["--cancel-on-interrupt"], "is cancelled", "cancelled"),
    ] {
        let mut asked = command(&["ask", "--server", &server.url, ENDLESS]);
        asked.args(flags);
        let mut child = spawned(asked);
        let mut err = BufReader::new(child.stderr.take().expect("its stderr"));
        let mut id = String::new();
        err.read_line(&mut id).expect("the id");
        let path = format!("/v1/jobs/{}", id.trim());
        until("it streams", || server.get(&path).json()["last_event_id"].as_u64() > Some(3));
        interrupt(&child);
        let mut rest = String::new();
        err.read_to_string(&mut rest).expect("its last words");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
        assert!(rest.contains(word), "{word}: {rest}");
        until(status, || server.get(&path).json()["status"] == status);
    }
}

#[test]
fn client_commands_speak_over_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), "").expect("written");
    let url = format!("unix:{}", dir.path().join("n.sock").display());
    let server = serve(&url, dir.path());
    let asked = run(&["ask", "hello socket"], &url);
    let listed = run(&["jobs", "--json"], &url);
    let mut made = command(&["token", "new", "--json", "--data-dir"]);
    let made: Ran = made.arg(dir.path().join("data")).output().expect("it runs").into();
    end(server);
    assert!(asked.code == 0 && asked.out.contains("hello socket"), "{}\n{}", asked.out, asked.err);
    let page: Value = serde_json::from_str(&listed.out).expect("JSON");
    assert_eq!(page["data"].as_array().map(Vec::len), Some(1), "{page}");
    let token: Value = serde_json::from_str(&made.out).expect("JSON");
    assert!(token["key"].as_str().is_some_and(|key| key.starts_with("nck_")), "{token} {}", made.err);
    let gone = run(&["jobs"], &url);
    assert!(gone.code == 1 && gone.err.contains(&url) && gone.err.contains("\nhint: "), "{}", gone.err);
}

#[test]
fn stdout_has_the_answer_and_nothing_else() {
    let upstream = Upstream::start(|_, count| match count {
        0 => Answer::calls(&[("calculator", json!({"expression": "6*7"}))]),
        _ => Answer::text("It is \u{1b}[31m42\u{1b}[0m."),
    });
    let server = Server::start_against(&upstream, "");
    let ran = run(&["ask", "what?"], &server.url);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is \u{1b}[31m42\u{1b}[0m.\n"), "{}", ran.err);
    assert!(ran.err.contains("→ calculator  expression: 6*7") && ran.err.contains("✓"), "{}", ran.err);
    let id = ran.err.lines().next().expect("the id");
    assert!(
        ran.err.lines().last().is_some_and(|line| line.starts_with(id) && line.ends_with(" s")),
        "{}",
        ran.err
    );
    let detached = run(&["ask", "--detach", "--json", "again"], &server.url);
    let job: Value = serde_json::from_str(&detached.out).expect("JSON");
    assert_eq!(job["object"], "job", "{job}");
}
