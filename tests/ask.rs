//! `nanoclaw ask` as a process: killed servers, cut connections, interrupts, sockets and streams.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{Ran, Server, against, command, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Takes longer than any test.
const ENDLESS: &str = "stream: 900 words, 100 ms";

fn run(arguments: &[&str], url: &str) -> Ran {
    command(arguments).args(["--server", url]).output().expect("the binary runs").into()
}

fn spawned(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Starts a server at this address on this directory and waits until it listens.
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
fn p2_ask_prints_the_whole_answer_once_although_the_server_is_killed() {
    let text = (1..=600).map(|n| format!("word-{n}")).collect::<Vec<_>>().join(" ");
    let answer = text.clone();
    let upstream = Upstream::start(move |_, count| match count {
        0 => Answer::paced_text(&answer, Duration::from_millis(100)),
        _ => Answer::text(&answer),
    });
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), against(&upstream, "")).expect("written");
    // A socket file and not a port: no other process can take it while the server is down.
    let url = format!("unix:{}", dir.path().join("n.sock").display());
    let first = serve(&url, dir.path());
    let ask = spawned(command(&["ask", "--server", &url, "go"]));
    wait_until("the model is called", || !upstream.requests().is_empty());
    // The answer takes a minute; the server is killed after some seconds.
    std::thread::sleep(Duration::from_secs(3));
    end(first);
    std::thread::sleep(Duration::from_millis(300));
    let second = serve(&url, dir.path());
    let ran: Ran = ask.wait_with_output().expect("it ends").into();
    end(second);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert_eq!(ran.out.trim_end(), text.trim_end(), "the whole answer, once\n{}", ran.err);
    assert!(ran.err.contains("connection lost after event"), "the kill interrupted the stream: {}", ran.err);
    assert!(ran.err.contains("resumed after event"), "{}", ran.err);
}

/// How the proxy fails the first request of a kind.
#[derive(Clone)]
enum ProxyFault {
    /// Closes the connection of `POST /v1/jobs` once the server has answered it.
    Cut,
    /// Answers a request for events with 502, like a proxy whose server restarts.
    BadGateway,
    /// Closes the connection of a probe, like a server that is stopping.
    HangUp,
    /// Delays the response to `POST /v1/jobs` until this is true.
    Late(Arc<AtomicBool>),
}

impl ProxyFault {
    fn concerns(&self, request: &[u8]) -> bool {
        match self {
            Self::Cut | Self::Late(_) => request.starts_with(b"POST /v1/jobs "),
            Self::HangUp => request.starts_with(b"GET /healthz "),
            Self::BadGateway => String::from_utf8_lossy(request).contains("/events?format=delta "),
        }
    }
}

/// Starts a proxy before a server; counts the requests of the kind that the fault affects.
fn start_faulty_proxy(server: &str, fault: &ProxyFault) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = server.trim_start_matches("http://").to_owned();
    let (seen, fault) = (Arc::new(AtomicUsize::new(0)), fault.clone());
    let counted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&server).expect("the server");
            let (fault, counted) = (fault.clone(), Arc::clone(&counted));
            std::thread::spawn(move || forward(client, server, &fault, &counted));
        }
    });
    (url, seen)
}

fn forward(mut client: TcpStream, mut server: TcpStream, fault: &ProxyFault, seen: &AtomicUsize) {
    let mut back = (server.try_clone().expect("a clone"), client.try_clone().expect("a clone"));
    let is_faulty = Arc::new(AtomicBool::new(false));
    let (has_failed, kind) = (Arc::clone(&is_faulty), fault.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = back.0.read(&mut bytes) {
            match &kind {
                ProxyFault::Cut if has_failed.load(Ordering::SeqCst) => break,
                ProxyFault::Late(may_forward) if has_failed.load(Ordering::SeqCst) => {
                    wait_until("the proxy may forward the response", || may_forward.load(Ordering::SeqCst));
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
        if fault.concerns(&bytes[..count]) && seen.fetch_add(1, Ordering::SeqCst) == 0 {
            is_faulty.store(true, Ordering::SeqCst);
            if matches!(fault, ProxyFault::BadGateway) {
                let bad_gateway =
                    b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                drop(client.write_all(bad_gateway));
            }
            if matches!(fault, ProxyFault::BadGateway | ProxyFault::HangUp) {
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
fn p2_ask_and_tail_retry_after_a_502_from_a_proxy() {
    let server = Server::start();
    let job = run(&["ask", "--detach", "hello"], &server.url).out;
    for arguments in [&["ask", "hello"][..], &["tail", job.trim()]] {
        let (url, requests) = start_faulty_proxy(&server.url, &ProxyFault::BadGateway);
        let ran = run(arguments, &url);
        assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
        assert!(ran.out.contains("hello") && ran.err.contains("502"), "{} {}", ran.out, ran.err);
        assert_eq!(requests.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn a_server_that_closes_the_probe_connection_counts_as_reachable() {
    let server = Server::start();
    let (url, probes) = start_faulty_proxy(&server.url, &ProxyFault::HangUp);
    let ran = run(&["ask", "hello"], &url);
    assert!(ran.code == 0 && ran.out.contains("hello"), "{}\n{}", ran.out, ran.err);
    assert_eq!(probes.load(Ordering::SeqCst), 1);
}

#[test]
fn ask_refuses_an_empty_prompt_before_it_connects() {
    let ran = run(&["ask", " "], "http://127.0.0.1:1");
    assert!(
        ran.code == 2 && ran.err.contains("the prompt is empty\nhint: "),
        "refused before any request: {}",
        ran.err
    );
}

#[test]
fn an_interrupt_during_submission_cancels_the_submitted_job() {
    let server = Server::start();
    let may_forward = Arc::new(AtomicBool::new(false));
    let (url, posts) = start_faulty_proxy(&server.url, &ProxyFault::Late(Arc::clone(&may_forward)));
    let child = spawned(command(&["ask", "--server", &url, "--cancel-on-interrupt", ENDLESS]));
    wait_until("the job is submitted", || posts.load(Ordering::SeqCst) == 1);
    wait_until("the job is accepted", || server.get("/v1/jobs").json()["data"][0]["id"].is_string());
    interrupt(&child);
    // Long enough that the client handles the interrupt before the response arrives; the test passes in
    // either order.
    std::thread::sleep(Duration::from_millis(500));
    may_forward.store(true, Ordering::SeqCst);
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert!(ran.code == 130 && ran.err.contains("is cancelled"), "{} {}", ran.code, ran.err);
    wait_until("cancelled", || server.get("/v1/jobs").json()["data"][0]["status"] == "cancelled");
}

#[test]
fn p1_a_submission_that_lost_its_response_is_repeated_and_makes_one_job() {
    let server = Server::start();
    let (url, posts) = start_faulty_proxy(&server.url, &ProxyFault::Cut);
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
fn an_interrupt_leaves_the_job_running_unless_cancel_is_requested() {
    let server = Server::start();
    for (flags, expected, status) in [
        (&[][..], "nanoclaw tail job_", "running"),
        (&["--cancel-on-interrupt"], "is cancelled", "cancelled"),
    ] {
        let mut ask = command(&["ask", "--server", &server.url, ENDLESS]);
        ask.args(flags);
        let mut child = spawned(ask);
        let mut err = BufReader::new(child.stderr.take().expect("its stderr"));
        let mut id = String::new();
        err.read_line(&mut id).expect("the id");
        let path = format!("/v1/jobs/{}", id.trim());
        wait_until("the answer streams", || server.get(&path).json()["last_event_id"].as_u64() > Some(3));
        interrupt(&child);
        let mut rest = String::new();
        err.read_to_string(&mut rest).expect("the rest of stderr");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
        assert!(rest.contains(expected), "{expected}: {rest}");
        wait_until(status, || server.get(&path).json()["status"] == status);
    }
}

#[test]
fn client_commands_work_over_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), "").expect("written");
    let url = format!("unix:{}", dir.path().join("n.sock").display());
    let server = serve(&url, dir.path());
    let answered = run(&["ask", "hello socket"], &url);
    let listed = run(&["jobs", "--json"], &url);
    let mut made = command(&["token", "new", "--json", "--data-dir"]);
    let made: Ran = made.arg(dir.path().join("data")).output().expect("it runs").into();
    end(server);
    assert!(
        answered.code == 0 && answered.out.contains("hello socket"),
        "{}\n{}",
        answered.out,
        answered.err
    );
    let page: Value = serde_json::from_str(&listed.out).expect("JSON");
    assert_eq!(page["data"].as_array().map(Vec::len), Some(1), "{page}");
    let token: Value = serde_json::from_str(&made.out).expect("JSON");
    assert!(token["key"].as_str().is_some_and(|key| key.starts_with("nck_")), "{token} {}", made.err);
    let unreachable = run(&["jobs"], &url);
    assert!(
        unreachable.code == 1 && unreachable.err.contains(&url) && unreachable.err.contains("\nhint: "),
        "{}",
        unreachable.err
    );
}

#[test]
fn stdout_contains_only_the_answer() {
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
