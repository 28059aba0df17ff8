//! `nanoclaw doctor --json`: what a script reads of a machine, with a server, without one and after one.

use crate::support::{Server, command};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn doctor(data_dir: &Path) -> Value {
    let dir = data_dir.to_str().expect("UTF-8");
    let ran = command(&["doctor", "--json", "--data-dir", dir]).output().expect("it runs");
    let told: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(ran.status.success(), told["ok"] == true, "{told}");
    told
}

fn check<'a>(told: &'a Value, name: &str) -> &'a Value {
    let checks = told["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {told}"))
}

#[test]
fn everything_that_a_script_asks_for_has_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let told = doctor(dir.path());
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    let names = [
        "version",
        "config",
        "models",
        "data_directory",
        "disk",
        "store",
        "server",
        "open_files",
        "memory",
        "kernel",
        "landlock",
        "seccomp",
        "python",
        "javascript",
        "namespaces",
        "cgroup",
        "sandbox_strict",
        "sandbox_standard",
        "sandbox_lenient",
        "sandbox_shell",
    ];
    let found: Vec<&str> = told["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter_map(|check| check["name"].as_str())
        .collect();
    assert_eq!(found, names);
    for check in told["checks"].as_array().expect("checks") {
        assert!(
            check["ok"].is_boolean() && check["found"].is_string() && check["facts"].is_object(),
            "{check}"
        );
        assert!(check["ok"] == true || check["advice"].is_string(), "what is broken has a cure: {check}");
    }
    assert_eq!(
        told["ok"],
        told["checks"].as_array().expect("checks").iter().all(|check| check["ok"] == true)
    );
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    assert_eq!(check(&told, "kernel")["facts"], json!({"release": release.trim(), "required": "5.15"}));
    assert!(check(&told, "disk")["facts"]["free_bytes"].is_u64());
    assert!(check(&told, "memory")["facts"]["bytes"].as_u64() > Some(0));
    assert_eq!(check(&told, "store")["facts"]["bytes"], Value::Null, "no store yet");
    assert_eq!(check(&told, "server")["facts"]["reachable"], false);
    let text = command(&["doctor"]).output().expect("it runs").stdout;
    assert!(String::from_utf8(text).expect("text").lines().count() <= 40, "it fits a screen");
}

#[test]
fn a_server_is_found_and_asked_and_its_store_is_left_alone() {
    let mut server = Server::start();
    let dir = server.dir.join("data");
    let told = doctor(&dir);
    let facts = &check(&told, "server")["facts"];
    assert_eq!((&facts["address"], &facts["reachable"]), (&json!(server.url), &json!(true)), "{facts}");
    assert!(facts["readiness"]["checks"].is_array(), "{facts}");
    let held = &check(&told, "store")["facts"];
    assert!(held["bytes"].as_u64() > Some(0) && held["layout"].is_null(), "{held}");
    assert_eq!(server.get("/readyz").status, 200);

    assert!(server.terminate().success());
    let told = doctor(&dir);
    assert_eq!(check(&told, "server")["facts"]["reachable"], false);
    let closed = &check(&told, "store")["facts"];
    assert!(closed["layout"].is_u64(), "{closed}");
    assert_eq!(closed["layout"], closed["layout_of_this_version"]);
}

#[test]
fn a_server_that_was_killed_is_no_fault() {
    let mut server = Server::start();
    server.kill();
    let told = doctor(&server.dir.join("data"));
    let killed = check(&told, "server");
    assert_eq!((&killed["ok"], &killed["facts"]["reachable"]), (&json!(true), &json!(false)), "{killed}");
}

/// A directory in which a server has left this address.
fn left(address: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let control = json!({"address": address, "key": "k"});
    std::fs::write(dir.path().join("control.json"), control.to_string()).expect("written");
    dir
}

/// Answers each request with this, on a connection of its own.
fn answer_all<S: Read + Write>(connections: impl Iterator<Item = std::io::Result<S>>, answer: &str) {
    for mut stream in connections.flatten() {
        let mut request = [0; 4096];
        drop(stream.read(&mut request));
        drop(stream.write_all(answer.as_bytes()));
    }
}

#[test]
fn what_a_server_that_is_not_ready_says_is_passed_on_over_tcp_and_over_a_socket_file() {
    let verdict = json!({"status": "unavailable", "checks": [
        {"name": "workers", "ok": true},
        {"name": "store", "ok": false, "reason": "the disk is full; make room"},
    ]});
    let body = verdict.to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("n.sock");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("binds");
    let unix = UnixListener::bind(&path).expect("binds");
    let addresses =
        [format!("http://{}", tcp.local_addr().expect("an address")), format!("unix:{}", path.display())];
    let again = answer.clone();
    std::thread::spawn(move || answer_all(tcp.incoming(), &answer));
    std::thread::spawn(move || answer_all(unix.incoming(), &again));
    for address in addresses {
        let told = doctor(left(&address).path());
        let server = check(&told, "server");
        let found = server["found"].as_str().expect("words");
        assert!(server["ok"] == false && found.contains("store: the disk is full; make room"), "{server}");
        assert!(!found.contains("workers"), "only what is wrong: {found}");
        assert_eq!(server["facts"]["readiness"], verdict, "{server}");
        assert_eq!(server["facts"]["reachable"], true);
    }
}

#[test]
fn a_server_that_hangs_is_a_fault_and_hangs_no_doctor() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let told = doctor(left(&address).path());
    let server = check(&told, "server");
    let found = server["found"].as_str().expect("words");
    assert!(server["ok"] == false && found.contains("does not answer"), "{server}");
}

#[test]
fn a_key_that_only_the_service_has_is_told_and_no_fault() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    let text = "models: [{id: m, api_url: \"https://x.test/v1\", api_key: \"${NOBODY_HAS_THIS_KEY}\"}]\n";
    std::fs::write(&file, text).expect("written");
    let mut command = command(&["doctor", "--json", "--config"]);
    let ran = command.arg(&file).arg("--data-dir").arg(dir.path()).output().expect("it runs");
    let told: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let config = check(&told, "config");
    assert!(config["ok"] == true && config["advice"].to_string().contains("NOBODY_HAS_THIS_KEY"), "{config}");
    let models = check(&told, "models");
    assert_eq!((&models["ok"], &models["facts"]["ids"]), (&json!(true), &json!(["m"])), "{models}");
    assert!(check(&told, "store")["facts"]["path"].is_string(), "and all the rest is looked at");
}
