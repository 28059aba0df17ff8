//! `nanoclaw user` and `nanoclaw token`, with and without a running server, and the access that their keys
//! give.

use crate::support::{Ran, Server, command, database};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;

const MULTI: &str = "auth_mode: multi\n";
const PASSWORD: &str = "correct horse battery";

/// Runs the command on this server's directory with a line on stdin.
fn run(dir: &Path, arguments: &[&str], line: &str) -> Ran {
    let (config, data) = (dir.join("config.yml"), dir.join("data"));
    let mut child = command(arguments)
        .args(["--config".as_ref(), config.as_os_str()])
        .env("NANOCLAW_DATA_DIR", &data)
        .envs([("NANOCLAW_LIMITS__DISK_FREE_BYTES", "0"), ("NANOCLAW_LIMITS__DISK_FREE_PERCENT", "0")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // A command that fails before it reads its line has closed the pipe.
    drop(child.stdin.take().expect("its stdin").write_all(format!("{line}\n").as_bytes()));
    child.wait_with_output().expect("ends").into()
}

fn ok(dir: &Path, arguments: &[&str], line: &str) -> String {
    let ran = run(dir, arguments, line);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(dir, arguments, "")).expect("JSON")
}

fn refused(dir: &Path, arguments: &[&str], line: &str, message: &str) {
    let ran = run(dir, arguments, line);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{arguments:?}: {}", ran.err);
    assert!(ran.err.contains(message), "{arguments:?}: {}", ran.err);
}

/// A server directory without a running server.
fn stopped_server_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yml"), database::configured(dir.path(), MULTI)).expect("written");
    dir
}

/// Runs every `nanoclaw user` command, with or without a server.
fn manage_accounts(dir: &Path) {
    let ann = ok(dir, &["user", "add", "Ann", "--email", "ann@example.org", "--password-stdin"], PASSWORD);
    assert!(
        ann.starts_with("2 ") && ann.contains("Ann") && ann.contains("admin"),
        "the first account is an administrator: {ann}"
    );
    // Stdin is not a terminal, so its first line is the password without `--password-stdin`.
    let bob = ok(dir, &["user", "add", "bob"], PASSWORD);
    assert!(bob.starts_with("3 ") && bob.contains("user"), "{bob}");
    refused(dir, &["user", "add", "ANN"], PASSWORD, "the name is taken");
    refused(dir, &["user", "add", "carl"], "short", "at least 8 characters");
    refused(dir, &["user", "add", "carl"], "", "no password was given");
    refused(dir, &["user", "disable", "ann"], "", "last active administrator");
    refused(dir, &["user", "enable", "nobody"], "", "no user 'nobody'");
    let disabled = ok(dir, &["user", "disable", "BOB"], "");
    assert!(disabled.contains("bob") && disabled.contains("disabled"), "{disabled}");
    assert!(ok(dir, &["user", "enable", "bob"], "").contains("active"));
    assert!(ok(dir, &["user", "passwd", "bob"], "another horse battery").contains("bob"));
    let users = json(dir, &["user", "list", "--json"]);
    let names: Vec<&str> =
        users.as_array().expect("a list").iter().filter_map(|u| u["username"].as_str()).collect();
    assert_eq!(names, ["default", "Ann", "bob"]);
    assert_eq!((&users[1]["email"], &users[1]["role"]), (&json!("ann@example.org"), &json!("admin")));
    assert!(!users.to_string().contains("argon2"), "P9");
    assert_eq!(ok(dir, &["user", "list"], "").lines().count(), 3);
}

fn manage_tokens(dir: &Path) {
    let scopes = ["token", "new", "--user", "bob", "--name", "ci", "--scopes", "read", "--expires-in", "30d"];
    let made = run(dir, &scopes, "");
    let key = made.out.trim_end();
    assert!(key.starts_with("nck_") && key.len() == 47 && !made.err.contains(key), "{key}: {}", made.err);
    ok(dir, &["token", "new"], "");
    let all = json(dir, &["token", "list", "--json"]);
    let owners: Vec<&str> =
        all.as_array().expect("a list").iter().filter_map(|t| t["user"].as_str()).collect();
    assert_eq!(owners, ["default", "bob"]);
    let bobs = json(dir, &["token", "list", "--user", "bob", "--json"]);
    assert_eq!(
        (&bobs[0]["name"], &bobs[0]["scopes"], &bobs[0]["hint"]),
        (&json!("ci"), &json!(["read"]), &json!(&key[43..]))
    );
    assert!(bobs[0]["expires_at"].is_string() && bobs[0]["key"].is_null());
    let id = bobs[0]["id"].as_str().expect("an id");
    ok(dir, &["token", "revoke", id], "");
    refused(dir, &["token", "revoke", id], "", "there is no token");
    refused(dir, &["token", "revoke", "../x"], "", "there is no token");
    refused(dir, &["token", "new", "--scopes", "raed"], "", "did you mean 'read'");
    assert_eq!(json(dir, &["token", "list", "--user", "bob", "--json"]), json!([]));
}

#[test]
fn accounts_and_tokens_can_be_managed_while_no_server_runs() {
    let dir = stopped_server_dir();
    manage_accounts(dir.path());
    manage_tokens(dir.path());
    assert!(!dir.path().join("data/control.json").exists(), "without a server there is no control file");
    let server = Server::start_in(dir.path(), MULTI);
    let users = json(dir.path(), &["user", "list", "--json"]);
    assert_eq!(users.as_array().map(Vec::len), Some(3), "the server sees the accounts");
    drop(server);
}

#[test]
fn p9_accounts_and_tokens_can_be_managed_through_a_running_server() {
    let mut server = Server::start_with(MULTI);
    let dir = server.dir.clone();
    let control = dir.join("data/control.json");
    assert_eq!(std::fs::metadata(&control).expect("the control file").permissions().mode() & 0o777, 0o600);
    manage_accounts(&dir);
    manage_tokens(&dir);
    let key = std::fs::read_to_string(&control).expect("the control file");
    let key = serde_json::from_str::<Value>(&key).expect("JSON")["key"].as_str().expect("a key").to_owned();
    assert!(!server.log().contains(&key) && !server.log().contains("nck_"), "no key in the log");
    assert!(server.terminate().success());
    assert!(!control.exists(), "the control file is removed with its server");
    assert_eq!(json(&dir, &["user", "list", "--json"]).as_array().map(Vec::len), Some(3));
}

#[test]
fn a_control_file_of_a_killed_server_is_ignored() {
    let mut server = Server::start_with(MULTI);
    let dir = server.dir.clone();
    server.kill();
    assert!(dir.join("data/control.json").exists());
    assert!(ok(&dir, &["user", "add", "ann"], PASSWORD).contains("ann"), "the store is free");
    let next = Server::start_in(&dir, MULTI);
    assert!(ok(&dir, &["user", "list"], "").contains("ann"), "the next server has its own control file");
    drop(next);
}

/// A foreign server that answers `{}` to everything; returns its address and the first line of each request.
fn start_foreign_server() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines =
                BufReader::new(stream.try_clone().expect("a stream")).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            let _head = lines.take_while(|line| !line.is_empty()).count();
            drop(sender.send(first));
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (address, requests)
}

#[test]
fn p9_a_foreign_server_at_the_control_address_gets_no_password() {
    let server = Server::start_with(MULTI);
    let control = server.dir.join("data/control.json");
    let (address, requests) = start_foreign_server();
    let content = std::fs::read_to_string(&control).expect("the control file");
    let mut content: Value = serde_json::from_str(&content).expect("JSON");
    assert_eq!(content["address"], server.url.as_str());
    content["address"] = address.into();
    std::fs::write(&control, content.to_string()).expect("written");
    let eve = run(&server.dir, &["user", "add", "eve"], PASSWORD);
    assert_eq!(eve.code, 1, "{} {}", eve.out, eve.err);
    assert!(eve.err.contains("is not the server that holds the store"), "{}", eve.err);
    let requests: Vec<String> = requests.try_iter().collect();
    assert_eq!(requests, ["GET /api/users?limit=1 HTTP/1.1"], "no further request");
}

#[test]
fn client_commands_send_their_token_and_explain_how_to_create_one() {
    let server = Server::start_with(MULTI);
    let dir = server.dir.clone();
    ok(&dir, &["user", "add", "ann"], PASSWORD);
    let key = ok(&dir, &["token", "new", "--user", "ann"], "").trim_end().to_owned();
    let with = |token: &[&str]| {
        let arguments = [&["jobs", "--server", &server.url], token].concat();
        run(&dir, &arguments, "")
    };
    let without_token = with(&[]);
    assert_eq!(without_token.code, 1, "{}", without_token.err);
    assert!(
        without_token.err.contains("hint: set $NANOCLAW_TOKEN (nanoclaw token new)"),
        "{}",
        without_token.err
    );
    let wrong = with(&["--token", "nck_wrong"]);
    assert!(wrong.code == 1 && wrong.err.contains("$NANOCLAW_TOKEN"), "{}", wrong.err);
    let shown = with(&["--token", &key]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    let answered = run(&dir, &["ask", "hello", "--server", &server.url, "--token", &key], "");
    assert_eq!(answered.code, 0, "{}", answered.err);
    let bearer = format!("Bearer {key}");
    let headers: &[(&str, &str)] = &[("authorization", &bearer)];
    assert_eq!(server.get_with("/v1/jobs", headers).json()["data"].as_array().map(Vec::len), Some(1));
    let id = json(&dir, &["token", "list", "--user", "ann", "--json"])[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    ok(&dir, &["token", "revoke", &id], "");
    assert_eq!(server.get_with("/v1/jobs", headers).status, 401, "a revoked token is invalid at once");
}

#[test]
fn a_password_change_or_a_disabled_account_ends_sessions_and_tokens() {
    let server = Server::start_with(MULTI);
    let dir = server.dir.clone();
    ok(&dir, &["user", "add", "ann"], PASSWORD);
    ok(&dir, &["user", "add", "bob"], PASSWORD);
    let login = |name: &str, password: &str| {
        server.post("/api/auth/login", &json!({"username": name, "password": password}))
    };
    let session = |name: &str, password: &str| {
        let reply = login(name, password);
        assert_eq!(reply.status, 200, "{}", reply.body);
        format!("Bearer {}", reply.json()["data"]["token"].as_str().expect("a token"))
    };
    let status = |bearer: &str| server.get_with("/v1/jobs", &[("authorization", bearer)]).status;
    let old = session("ann", PASSWORD);
    assert_eq!(status(&old), 200);
    ok(&dir, &["user", "passwd", "ann"], "another horse battery");
    assert_eq!((status(&old), login("ann", PASSWORD).status), (401, 401));
    assert_eq!(status(&session("ann", "another horse battery")), 200);
    let bobs = session("bob", PASSWORD);
    let key = format!("Bearer {}", ok(&dir, &["token", "new", "--user", "bob"], "").trim_end());
    assert_eq!((status(&bobs), status(&key)), (200, 200));
    ok(&dir, &["user", "disable", "bob"], "");
    assert_eq!((status(&bobs), status(&key)), (401, 401), "neither session nor token works");
}

#[test]
fn p8_a_quota_limits_only_the_jobs_of_its_account() {
    let server = Server::start_with(MULTI);
    let dir = server.dir.clone();
    ok(&dir, &["user", "add", "ann"], PASSWORD);
    ok(&dir, &["user", "add", "bob"], PASSWORD);
    let key = |name: &str, scopes: &str| {
        let arguments = ["token", "new", "--user", name, "--scopes", scopes];
        format!("Bearer {}", ok(&dir, &arguments, "").trim_end())
    };
    let (ann, bob) = (key("ann", "read,write,admin"), key("bob", "read,write"));
    let send = |method: &str, path: &str, bearer: &str, body: &Value| {
        server.request((method, path), &[("authorization", bearer)], &body.to_string())
    };
    let slow = json!({"input": "stream: 10000 words, 1000 ms"});
    assert_eq!(
        send("PATCH", "/api/users/3", &bob, &json!({"quota": null})).status,
        403,
        "only an administrator sets quotas"
    );
    let quota = json!({"quota": {"unfinished_jobs": 1}});
    assert_eq!(send("PATCH", "/api/users/3", &ann, &quota).status, 200);
    let first = send("POST", "/v1/jobs", &bob, &slow);
    assert_eq!(first.status, 202, "{}", first.body);
    let over_quota = send("POST", "/v1/jobs", &bob, &slow);
    assert_eq!(over_quota.status, 429, "{}", over_quota.body);
    assert!(
        over_quota.header("retry-after").is_some() && over_quota.body.contains("1 unfinished jobs"),
        "{}",
        over_quota.body
    );
    assert_eq!(send("POST", "/v1/jobs", &ann, &json!({"input": "hi"})).status, 202, "ann has no quota");
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    send("POST", &format!("/v1/jobs/{id}/cancel"), &bob, &json!({}));
    let ended = server.get_with(&format!("/v1/jobs/{id}?wait=60"), &[("authorization", &bob)]).json();
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let spent = server.get_with("/v1/usage", &[("authorization", &bob)]).json();
    let spent = spent["data"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|l| l["total_tokens"].as_u64())
        .sum::<u64>();
    let quota = json!({"quota": {"unfinished_jobs": null, "tokens_per_day": spent + 1}});
    assert_eq!(send("PATCH", "/api/users/3", &ann, &quota).status, 200);
    let path = "/v1/jobs?wait=60";
    assert_eq!(send("POST", path, &bob, &json!({"input": "hi"})).json()["status"], "succeeded");
    let spent = send("POST", "/v1/jobs", &bob, &json!({"input": "hi"}));
    assert_eq!(spent.status, 429, "{}", spent.body);
    let wait_s: u64 = spent.header("retry-after").and_then(|s| s.parse().ok()).expect("seconds");
    assert!(
        (1..=86_400).contains(&wait_s) && spent.body.contains("midnight UTC"),
        "{wait_s}: {}",
        spent.body
    );
}
