//! The store's upkeep with the real binary: backup under load and restore, and a disk that is nearly full.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts processes"
)]

mod support;

use serde_json::json;
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Server, command};

/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1";

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("runs")
}

fn backup(file: &Path, server: &str, data_dir: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["backup", text(file), "--server", server, "--data-dir", text(data_dir)];
    arguments.extend(more);
    run(&arguments)
}

fn restore(file: &Path, data_dir: &Path) -> Output {
    run(&["restore", text(file), "--data-dir", text(data_dir)])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn submit_until(stop: &AtomicBool, server: &Server, accepted: &Mutex<Vec<String>>) {
    while !stop.load(Ordering::SeqCst) {
        let id = server.submit(&json!({"input": "hello"}));
        accepted.lock().expect("lock").push(id);
    }
}

#[test]
fn p1_a_backup_under_load_restores_every_job_that_was_acknowledged_before_it() {
    let server = Server::start();
    let (accepted, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("copy.redb");
    let before = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| submit_until(&stop, &server, &accepted));
        }
        while accepted.lock().expect("lock").len() < 50 {
            std::thread::yield_now();
        }
        let before = accepted.lock().expect("lock").clone();
        let made = backup(&file, &server.url, dir.path(), &[]);
        stop.store(true, Ordering::SeqCst);
        assert!(made.status.success(), "{}", said(&made));
        before
    });
    let again = backup(&file, &server.url, dir.path(), &[]);
    assert!(!again.status.success() && said(&again).contains("--force"), "{}", said(&again));
    assert!(backup(&file, &server.url, dir.path(), &["--force"]).status.success());
    assert!(!dir.path().join("copy.redb.part").exists());

    let held = restore(&file, &server.dir.join("data"));
    assert!(!held.status.success() && said(&held).contains("stop it first"), "{}", said(&held));

    let fresh = tempfile::tempdir().expect("a directory");
    let restored = restore(&file, &fresh.path().join("data"));
    assert!(restored.status.success(), "{}", said(&restored));
    let second = Server::start_in(fresh.path(), "");
    for id in &before {
        assert_eq!(second.wait(id)["status"], "succeeded", "{id}");
    }
}

#[test]
fn a_backup_without_a_server_reads_the_file_and_garbage_is_never_restored() {
    let mut server = Server::start();
    let id = server.submit(&json!({"input": "hello"}));
    server.wait(&id);
    let data = server.dir.join("data");
    let file = server.dir.join("copy.redb");
    let locked = backup(&file, NOWHERE, &data, &[]);
    assert!(!locked.status.success() && said(&locked).contains("--server"), "{}", said(&locked));
    assert!(!file.exists() && !server.dir.join("copy.redb.part").exists());
    server.terminate();
    let made = backup(&file, NOWHERE, &data, &[]);
    assert!(made.status.success(), "{}", said(&made));
    let nothing = backup(&server.dir.join("other"), NOWHERE, &server.dir.join("no"), &[]);
    assert!(said(&nothing).contains("no server answers"), "{}", said(&nothing));

    let garbage = server.dir.join("garbage");
    std::fs::write(&garbage, "not a store").expect("written");
    let refused = restore(&garbage, &data);
    assert!(!refused.status.success() && said(&refused).contains("no NanoClaw store"), "{}", said(&refused));
    let restored = restore(&file, &data);
    assert!(restored.status.success() && said(&restored).contains("before-restore-"), "{}", said(&restored));
    let again = Server::start_in(&server.dir.clone(), "");
    assert_eq!(again.get(&format!("/v1/jobs/{id}")).json()["status"], "succeeded");
}

#[test]
fn a_nearly_full_disk_refuses_new_jobs_and_nothing_else() {
    let server = Server::start();
    let early = server.submit(&json!({"input": "hello"}));
    let server = server.crash_and_restart("limits: {disk_free_bytes: 1152921504606846976}");
    let refused = server.post("/v1/jobs", &json!({"input": "hello"}));
    assert_eq!(refused.status, 507, "{}", refused.body);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "disk_full");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("MiB are free") && message.contains("1099511627776 MiB"), "{message}");
    assert!(message.contains("limits.disk_free_bytes"), "{message}");
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.wait(&early)["status"], "succeeded", "what was accepted may finish");
    assert_eq!(server.get("/v1/backup").status, 507, "a backup would fill the disk");
    let server = server.crash_and_restart("");
    let late = server.submit(&json!({"input": "hello"}));
    assert_eq!(server.wait(&late)["status"], "succeeded");
}
