//! The share of `limits.connections` that each user and each address has, and which connections close when
//! all places are taken.

use crate::support::tenants::Tenants;
use crate::support::web_socket::ResponseSocket;
use crate::support::{BINARY, Server, clean_command, command, database, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// No limit of time ends a connection during a test.
const LIMITS: &str =
    "limits: {connections: 40, header_timeout_s: 3600, body_timeout_s: 3600, write_stall_s: 3600}\n";
const CONNECTIONS: usize = 40;
/// A job that outlives the tests.
const ENDLESS: &str = "stream: 9 words, 60000 ms";

/// A request without a body.
fn request(line: &str, headers: &[&str]) -> String {
    let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\n");
    headers.iter().fold(head, |head, header| head + header + "\r\n") + "\r\n"
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

/// The status line and the headers of a response, in lower case.
fn head(connection: &mut impl Read) -> String {
    let (mut reader, mut head) = (BufReader::with_capacity(1, connection), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a response") > 0, "no response, but '{head}'");
    }
    head.to_ascii_lowercase()
}

fn status(connection: &mut impl Read) -> u16 {
    head(connection).split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// Whether the server has closed the connection, or does so within two seconds. What comes before is skipped.
fn is_closed(connection: &mut TcpStream) -> bool {
    connection.set_read_timeout(Some(Duration::from_secs(2))).expect("a time limit");
    let mut bytes = [0; 4_096];
    loop {
        match connection.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A request on a connection of its own is answered.
fn assert_answered(tenants: &Tenants, token: &str) {
    assert_eq!(status(&mut tenants.send(request("GET /v1/jobs", &[&bearer(token)]))), 200);
}

/// Event streams that wait for the next event, and connections whose stream was refused.
fn streams(tenants: &Tenants, line: &str, headers: &[&str]) -> (Vec<TcpStream>, Vec<(TcpStream, String)>) {
    let (mut waiting, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let mut connection = tenants.send(request(line, headers));
        let head = head(&mut connection);
        if head.starts_with("http/1.1 200") {
            waiting.push(connection);
        } else {
            refused.push((connection, head));
        }
    }
    (waiting, refused)
}

#[test]
fn p8_a_refused_connection_closes() {
    let tenants = Tenants::start(LIMITS, &["eve", "bob"]);
    let (eve, bob) = (tenants.token("eve"), tenants.token("bob"));
    let job = tenants.submit(&eve, &json!({"input": ENDLESS}));
    let line = format!("GET /v1/jobs/{job}/events");
    let (mut waiting, refused) = streams(&tenants, &line, &[&bearer(&eve)]);
    assert_eq!((waiting.len(), refused.len()), (20, 20), "a user has half");
    assert_answered(&tenants, &bob);
    for (mut connection, head) in refused {
        assert!(head.starts_with("http/1.1 429") && head.contains("\r\nconnection: close\r\n"), "{head}");
        assert!(is_closed(&mut connection));
    }
    let authorization = ("authorization", format!("Bearer {eve}"));
    let refusal = ResponseSocket::open_with(&tenants.server, &[(authorization.0, &authorization.1)]);
    assert!(matches!(refusal, Err((429, _))), "a WebSocket has a place, too");
    assert!(!is_closed(waiting.first_mut().expect("a stream")), "streams go on");
}

#[test]
fn p8_a_connection_that_is_refused_behind_a_stream_closes() {
    let tenants = Tenants::start(LIMITS, &["eve", "bob"]);
    let waiting = |name: &str, input: &str| {
        let token = tenants.token(name);
        let job = tenants.submit(&token, &json!({"input": input}));
        (format!("GET /v1/jobs/{job}/events"), bearer(&token))
    };
    let (line, eve) = waiting("eve", "stream: 6 words, 1000 ms");
    let mut connection = tenants.send(request(&line, &[&eve]) + &request("GET /v1/jobs", &[&eve]));
    assert_eq!(status(&mut connection), 200);
    let (line, eve) = waiting("eve", ENDLESS);
    let (of_eve, _) = streams(&tenants, &line, &[&eve]);
    let (line, bob) = waiting("bob", ENDLESS);
    let (of_bob, _) = streams(&tenants, &line, &[&bob]);
    assert_eq!((of_eve.len(), of_bob.len()), (19, 16), "more than eve would have now");
    let mut rest = String::new();
    connection.read_to_string(&mut rest).expect("the end of the connection");
    let (stream, refusal) = rest.split_once("0\r\n\r\n").expect("the end of the stream");
    assert!(stream.contains("event: done"), "{stream}");
    assert!(refusal.starts_with("HTTP/1.1 429") && refusal.contains("connection: close"), "{refusal}");
}

#[test]
fn p8_connections_without_a_complete_head_close_at_the_limit() {
    let tenants = Tenants::start(LIMITS, &["bob"]);
    let bob = tenants.token("bob");
    let mut early = tenants.send(request("GET /v1/jobs", &[&bearer(&bob)]));
    assert_eq!(status(&mut early), 200);
    let unfinished: Vec<TcpStream> =
        (0..10 * CONNECTIONS).map(|_| tenants.send("GET /healthz HTTP/1.1\r\nhost: loc")).collect();
    assert_answered(&tenants, &bob);
    early.write_all(request("GET /v1/jobs", &[&bearer(&bob)]).as_bytes()).expect("sends");
    assert!(!is_closed(&mut early), "the only connection of bob, although it is the oldest that waits");
    drop(unfinished);
}

#[test]
fn p8_idle_connections_of_the_largest_holder_close_first() {
    let tenants = Tenants::start(LIMITS, &["eve", "bob"]);
    let (eve, bob) = (tenants.token("eve"), tenants.token("bob"));
    let idle = |token: &str| {
        let mut connection = tenants.send(request("GET /v1/jobs", &[&bearer(token)]));
        assert_eq!(status(&mut connection), 200);
        connection
    };
    let mut of_bob = [idle(&bob), idle(&bob)];
    let mut of_eve: Vec<TcpStream> = (0..3 * CONNECTIONS).map(|_| idle(&eve)).collect();
    assert!(of_bob.iter_mut().all(|connection| !is_closed(connection)));
    assert!(is_closed(of_eve.first_mut().expect("a connection")));
    assert!(!is_closed(of_eve.last_mut().expect("a connection")), "the oldest close first");
}

#[test]
fn p8_clients_that_read_no_answer_and_send_no_body_close_at_the_limit() {
    let tenants = Tenants::start(LIMITS, &["bob"]);
    let bob = tenants.token("bob");
    let document = request("GET /openapi.json", &[]).repeat(200);
    let unread: Vec<TcpStream> = (0..CONNECTIONS).map(|_| tenants.send(&document)).collect();
    assert_answered(&tenants, &bob);
    let login = request("POST /api/auth/login", &["content-type: application/json", "content-length: 999"]);
    let unsent: Vec<TcpStream> = (0..2 * CONNECTIONS).map(|_| tenants.send(&login)).collect();
    assert_answered(&tenants, &bob);
    drop((unread, unsent));
}

#[test]
fn p8_an_address_behind_a_proxy_has_a_share() {
    let tenants = Tenants::start(LIMITS, &["eve", "mal", "bob"]);
    let stream = |name: &str, address: &str| {
        let token = tenants.token(name);
        let job = tenants.submit(&token, &json!({"input": ENDLESS}));
        let forwarded = format!("x-forwarded-for: 198.51.100.7, {address}");
        streams(&tenants, &format!("GET /v1/jobs/{job}/events"), &[&bearer(&token), &forwarded])
    };
    let (of_eve, _) = stream("eve", "2001:db8:1:2::1");
    assert_eq!(of_eve.len(), 20);
    let (of_mal, refused) = stream("mal", "2001:db8:1:2::9");
    assert_eq!(of_mal.len(), 0, "another account in the same network");
    assert!(
        refused
            .iter()
            .all(|(_, head)| head.starts_with("http/1.1 429") && head.contains("connection: close"))
    );
    let (of_bob, _) = stream("bob", "2001:db8:1:3::1");
    assert_eq!(of_bob.len(), 16, "each has at least so many");
}

struct RunningServer(Child);

impl Drop for RunningServer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn p8_a_unix_socket_gives_no_more_than_a_port() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s");
    let config = format!("auth_mode: multi\nlisten: \"unix:{}\"\n{LIMITS}", path.display());
    std::fs::write(directory.path().join("config.yml"), database::configured(directory.path(), &config))
        .expect("written");
    let mut serving = command(&["serve", "--config"]);
    serving.arg(directory.path().join("config.yml")).arg("--data-dir").arg(directory.path().join("data"));
    serving.stdout(Stdio::null()).stderr(Stdio::null());
    let server = RunningServer(serving.spawn().expect("starts"));
    wait_until("the socket", || UnixStream::connect(&path).is_ok());
    let unfinished: Vec<UnixStream> = (0..4 * CONNECTIONS)
        .map(|_| {
            let mut connection = UnixStream::connect(&path).expect("connects");
            drop(connection.write_all(b"GET /healthz HTTP/1.1\r\n"));
            connection
        })
        .collect();
    let mut connection = UnixStream::connect(&path).expect("connects");
    connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    connection.write_all(request("GET /healthz", &[]).as_bytes()).expect("sends");
    assert_eq!(status(&mut connection), 200);
    drop((unfinished, server));
}

#[test]
fn p8_idle_connections_close_before_the_open_files_run_out() {
    let config = "auth_mode: multi\nlimits: {header_timeout_s: 3600}\n";
    let directory = tempfile::tempdir().expect("a directory");
    let mut limited = clean_command(Path::new("sh"));
    limited.args(["-c", "ulimit -n 400 && exec \"$0\" serve \"$@\"", BINARY]);
    let server = Server::start_command(limited, directory.path(), config);
    let tenants = Tenants::over(server, &["bob"]);
    let bob = tenants.token("bob");
    let unfinished: Vec<TcpStream> = (0..600).map(|_| tenants.send("GET /healthz HTTP/1.1\r\n")).collect();
    assert_answered(&tenants, &bob);
    let job = tenants.submit(&bob, &json!({"input": "hello"}));
    let ended = tenants.ask(&bob, ("GET", &format!("/v1/jobs/{job}?wait=30")), &Value::Null).json();
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let log = tenants.server.log();
    assert!(log.contains("limits.connections") && log.contains("LimitNOFILE"), "{log}");
    drop(unfinished);
}
