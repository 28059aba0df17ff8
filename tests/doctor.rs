//! `nanoclaw doctor --json`: what a script reads of a machine, with a server, without one and after one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts processes and waits for them"
)]

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::{Server, command};

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
