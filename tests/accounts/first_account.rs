//! The first account is the administrator's and needs the set-up invite. Neither the address of the server,
//! nor the name in the request, nor `registration` changes that.

use super::{PASSWORD, ask, token, with};
use crate::support::{Ran, Server, command, database, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

const NAME: &str = "nano.example.org";
const MADE_UP: &str = "nci_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A server at any kind of address, asked under one name.
struct Listening {
    child: Child,
    address: String,
    host: &'static str,
    dir: tempfile::TempDir,
}

impl Listening {
    fn start(listen: &str, is_named: bool, registration: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (listen, names) = (listen.replace("DIR", &dir.path().display().to_string()), [NAME]);
        let names = if is_named { &names[..] } else { &[] };
        let keys = format!("listen: '{listen}'\nallowed_hosts: {names:?}\nregistration: {registration}\n");
        let config = database::configured(dir.path(), &format!("auth_mode: multi\n{keys}"));
        let log = std::fs::File::create(dir.path().join("log")).expect("a log");
        std::fs::write(dir.path().join("config.yml"), config).expect("written");
        let mut child = command(&["serve", "--config"])
            .arg(dir.path().join("config.yml"))
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut address).expect("a line");
        let address = address.trim().replace("0.0.0.0", "127.0.0.1");
        Self { child, address, host: if is_named { NAME } else { "localhost" }, dir }
    }

    /// The invite of the start.
    fn invite(&self) -> String {
        let mut code = None;
        wait_until("the start prints the set-up invite", || {
            code = codes(&std::fs::read_to_string(self.dir.path().join("log")).expect("a log")).pop();
            code.is_some()
        });
        code.expect("a code")
    }

    /// Status and data of a request, as a proxy on this machine passes it on.
    fn post(&self, path: &str, credential: &str, body: &Value) -> (u16, Value) {
        let (body, host) = (body.to_string(), self.host);
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nx-forwarded-for: 203.0.113.9\r\nauthorization: {credential}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = match self.address.strip_prefix("unix:") {
            Some(path) => exchange(UnixStream::connect(path).expect("a connection"), &request),
            None => exchange(
                TcpStream::connect(self.address.trim_start_matches("http://")).expect("a connection"),
                &request,
            ),
        };
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        (status.expect("a status"), body["data"].clone())
    }

    fn register(&self, name: &str, invite: Option<&str>) -> (u16, Value) {
        let account = json!({"username": name, "password": PASSWORD, "invite": invite});
        self.post("/api/auth/register", "", &account)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        database::forget(self.dir.path());
    }
}

fn exchange(mut socket: impl Read + Write, request: &str) -> String {
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

/// All set-up invites in a text.
pub(crate) fn codes(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("nci_") && word.len() == 47).map(str::to_owned).collect()
}

/// An address of this machine that others reach, if it has one.
fn public_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

/// Who may register at a server without accounts, and then with one.
fn check_registrations(server: &Listening, registration: &str, case: &str) {
    for wrong in [None, Some(MADE_UP)] {
        assert_eq!(server.register("eve", wrong).0, 403, "the first account with {wrong:?}: {case}");
    }
    let setup = server.invite();
    let (status, first) = server.register("ann", Some(&setup));
    assert_eq!((status, &first["user"]["role"]), (200, &json!("admin")), "{case}: {first}");
    let of = |allowed: bool| if allowed { 200 } else { 403 };
    let (is_open, is_closed) = (registration == "open", registration == "closed");
    assert_eq!(server.register("bob", None).0, of(is_open), "without an invite: {case}");
    assert_eq!(server.register("carl", Some(&setup)).0, of(is_open), "with the used invite: {case}");
    let (_, made) = server.post("/api/invites", &format!("Bearer {}", token(&first)), &json!({}));
    let (status, dora) = server.register("dora", made["code"].as_str());
    assert_eq!(status, of(!is_closed), "with an administrator's invite: {case}");
    assert!(is_closed || dora["user"]["role"] == "user", "{case}: {dora}");
}

fn check_address(listen: &str, is_named: bool) {
    for registration in ["null", "open", "invite", "closed"] {
        let server = Listening::start(listen, is_named, registration);
        let case = format!("{listen}, named: {is_named}, registration: {registration}");
        check_registrations(&server, registration, &case);
    }
}

#[test]
fn p9_only_the_setup_invite_makes_the_first_account_at_every_address() {
    let public = public_address().map(|address| format!("{address}:0"));
    let addresses = ["127.0.0.1:0", "unix:DIR/socket", "0.0.0.0:0"].into_iter().chain(public.as_deref());
    std::thread::scope(|scope| {
        for listen in addresses {
            for is_named in [false, true] {
                scope.spawn(move || check_address(listen, is_named));
            }
        }
    });
}

const UNNAMED: &str = "auth_mode: multi\nregistration: null\n";
const NAMED: &str = "auth_mode: multi\nregistration: null\nallowed_hosts: [nano.example.org]\n";

fn setup_link(dir: &Path) -> Ran {
    let (config, data) = (dir.join("config.yml"), dir.join("data"));
    let mut run = command(&["user", "setup-link"]);
    // With --data-dir it would be the file in there, also where the configuration names a database.
    run.args(["--config".as_ref(), config.as_os_str()]).env("NANOCLAW_DATA_DIR", data);
    run.envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")]);
    run.output().expect("it runs").into()
}

fn come(server: &Server, name: &str, code: &str) -> (u16, String) {
    let account = json!({"username": name, "password": PASSWORD, "invite": code});
    let reply = ask(server, "POST /api/auth/register", &[], &account);
    (reply.status, reply.body)
}

/// The invites that a server has printed at its starts.
fn printed(server: &Server, starts: usize) -> Vec<String> {
    wait_until("the start prints the set-up link", || codes(&server.log()).len() == starts);
    codes(&server.log())
}

#[test]
fn p9_a_new_setup_link_replaces_the_one_that_starts_print() {
    let server = Server::start_with(NAMED);
    let has_accounts = |server: &Server| server.get("/api/auth/mode").json()["data"]["has_accounts"].clone();
    assert_eq!((has_accounts(&server), printed(&server, 1).len()), (json!(false), 1));
    assert!(server.log().contains("https://nano.example.org/#/setup?invite=nci_"), "{}", server.log());
    let server = server.crash_and_restart(NAMED);
    let shown = printed(&server, 2);
    assert_eq!(shown[0], shown[1], "a restart prints the link in force");
    let made = setup_link(&server.dir);
    assert_eq!(made.code, 0, "{}", made.err);
    let code = made.out.trim().strip_prefix("https://nano.example.org/#/setup?invite=").expect("a link");
    let (status, body) = come(&server, "eve", &shown[0]);
    assert!(status == 403 && body.contains("nanoclaw user setup-link"), "{status} {body}");
    let server = server.crash_and_restart(NAMED);
    assert_eq!(printed(&server, 3)[2], code, "the next start prints the new one");
    let (status, body) = come(&server, "ann", code);
    assert!(status == 200 && body.contains(r#""role":"admin""#), "{status} {body}");
    assert_eq!((come(&server, "eve", code).0, has_accounts(&server)), (403, json!(true)));
    let late = setup_link(&server.dir);
    assert!(late.code == 1 && late.err.contains("there is an account already"), "{} {}", late.code, late.err);
    let server = server.crash_and_restart(NAMED);
    assert_eq!((codes(&server.log()).len(), has_accounts(&server)), (3, json!(true)));
}

#[test]
fn the_first_start_prints_the_setup_link_that_was_made_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), database::configured(dir.path(), UNNAMED))
        .expect("written");
    let made = setup_link(dir.path());
    assert!(made.out.starts_with("http://127.0.0.1:8787/#/setup?invite=nci_"), "{} {}", made.out, made.err);
    let server = Server::start_in(dir.path(), UNNAMED);
    assert_eq!(printed(&server, 1), codes(&made.out));
    let link = format!("{}/#/setup?invite=", server.url);
    assert!(server.log().contains(&link), "{link}: {}", server.log());
    database::forget(dir.path());
}

#[test]
fn p9_neither_invites_nor_keys_of_the_account_default_make_the_first_account_public() {
    let server = Server::start_with("auth_mode: multi\nregistration: open\n");
    let data = server.dir.join("data");
    let config = server.dir.join("config.yml");
    let mut new = command(&["token", "new", "--scopes", "admin,read,write"]);
    new.args(["--config".as_ref(), config.as_os_str()]).env("NANOCLAW_DATA_DIR", data);
    let key: Ran = new.output().expect("it runs").into();
    let made = with(&server, key.out.trim(), "POST /api/invites", &json!({})).json()["data"].clone();
    let (status, body) = come(&server, "eve", made["code"].as_str().unwrap_or_else(|| panic!("{made}")));
    assert!(status == 403 && body.contains("set-up invite"), "{status} {body}");
}

#[test]
fn a_server_without_accounts_has_no_setup_link() {
    let mut server = Server::start();
    assert!(!server.log().contains("nci_"), "{}", server.log());
    for is_running in [true, false] {
        let refused = setup_link(&server.dir);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{}", refused.err);
        assert!(refused.err.contains("auth_mode: single"), "running: {is_running}: {}", refused.err);
        if is_running {
            server.terminate();
        }
    }
}

#[test]
fn with_json_logs_the_setup_link_is_a_field_of_a_line() {
    let server = Server::start_with(&format!("{UNNAMED}log: {{format: json}}\n"));
    // The code, and the link with it.
    let shown = printed(&server, 2);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("there is no account yet")).expect("a line");
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["link"], format!("{}/#/setup?invite={}", server.url, shown[0]), "{line}");
    assert!(line["code"] == shown[0] && line["expires_at"].is_string(), "{line}");
}
