//! Store maintenance with the real binary: backup under load, restore, a nearly full disk, and retention.

use crate::support::{Server, command};
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{CancelToken, Clock, Store};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::{RedbStore, RetentionAge};
use serde_json::json;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("runs")
}

fn backup(file: &Path, data_dir: &Path, extra: &[&str]) -> Output {
    let mut arguments = vec!["backup", text(file), "--data-dir", text(data_dir)];
    arguments.extend(extra);
    run(&arguments)
}

fn restore(file: &Path, data_dir: &Path) -> Output {
    run(&["restore", text(file), "--data-dir", text(data_dir)])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn submit_until(stop: &AtomicBool, server: &Server, accepted: &Mutex<Vec<String>>) {
    while !stop.load(Ordering::SeqCst) {
        let id = server.submit(&json!({"input": "hello"}));
        accepted.lock().expect("lock").push(id);
    }
}

#[test]
fn p1_a_backup_under_load_contains_every_job_acknowledged_before_it() {
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
        let made = backup(&file, &server.dir.join("data"), &[]);
        stop.store(true, Ordering::SeqCst);
        assert!(made.status.success(), "{}", stderr(&made));
        before
    });
    let again = backup(&file, &server.dir.join("data"), &[]);
    assert!(!again.status.success() && stderr(&again).contains("--force"), "{}", stderr(&again));
    assert!(backup(&file, &server.dir.join("data"), &["--force"]).status.success());
    assert!(!dir.path().join("copy.redb.part").exists());

    let refused = restore(&file, &server.dir.join("data"));
    assert!(!refused.status.success() && stderr(&refused).contains("stop it first"), "{}", stderr(&refused));

    let fresh = tempfile::tempdir().expect("a directory");
    let restored = restore(&file, &fresh.path().join("data"));
    assert!(restored.status.success(), "{}", stderr(&restored));
    let second = Server::start_in(fresh.path(), "");
    for id in &before {
        assert_eq!(second.wait(id)["status"], "succeeded", "{id}");
    }
}

#[test]
fn a_backup_without_a_server_reads_the_file_and_restore_refuses_garbage() {
    let mut server = Server::start();
    let id = server.submit(&json!({"input": "hello"}));
    server.wait(&id);
    let data = server.dir.join("data");
    let file = server.dir.join("copy.redb");
    // On a full disk a server has no control file.
    let (control, away) = (data.join("control.json"), data.join("away"));
    std::fs::rename(&control, &away).expect("renamed");
    let locked = backup(&file, &data, &[]);
    assert!(!locked.status.success() && stderr(&locked).contains("--server"), "{}", stderr(&locked));
    std::fs::rename(&away, &control).expect("renamed");
    assert!(!file.exists() && !server.dir.join("copy.redb.part").exists());
    server.terminate();
    let made = backup(&file, &data, &[]);
    assert!(made.status.success(), "{}", stderr(&made));
    let nothing = backup(&server.dir.join("other"), &server.dir.join("no"), &[]);
    assert!(stderr(&nothing).contains("there is no store at"), "{}", stderr(&nothing));

    let garbage = server.dir.join("garbage");
    std::fs::write(&garbage, "not a store").expect("written");
    let refused = restore(&garbage, &data);
    assert!(
        !refused.status.success() && stderr(&refused).contains("no NanoClaw store"),
        "{}",
        stderr(&refused)
    );
    let restored = restore(&file, &data);
    assert!(
        restored.status.success() && stderr(&restored).contains("before-restore-"),
        "{}",
        stderr(&restored)
    );
    let config = server.dir.join("service.yml");
    let keyed = format!(
        "data_dir: {}\nmodels: [{{id: m, api_url: \"https://x.test/v1\", api_key: \"${{NOBODY_HAS_THIS_KEY}}\"}}]\n",
        text(&data)
    );
    std::fs::write(&config, keyed).expect("written");
    let keyless = run(&["restore", text(&file), "--config", text(&config)]);
    assert!(keyless.status.success(), "only the service needs to read the key: {}", stderr(&keyless));
    let again = Server::start_in(&server.dir.clone(), "");
    assert_eq!(again.get(&format!("/v1/jobs/{id}")).json()["status"], "succeeded");
}

#[test]
fn a_nearly_full_disk_refuses_only_new_jobs_and_backups() {
    let server = Server::start();
    let first_job = server.submit(&json!({"input": "hello"}));
    let server = server.crash_and_restart("limits: {disk_free_bytes: 1152921504606846976}");
    let refused = server.post("/v1/jobs", &json!({"input": "hello"}));
    assert_eq!(refused.status, 507, "{}", refused.body);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "disk_full");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("MiB are free") && message.contains("1099511627776 MiB"), "{message}");
    assert!(message.contains("limits.disk_free_bytes"), "{message}");
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.wait(&first_job)["status"], "succeeded", "an accepted job may finish");
    assert_eq!(server.get("/v1/backup").status, 507, "a backup would fill the disk");
    let server = server.crash_and_restart("");
    let second_job = server.submit(&json!({"input": "hello"}));
    assert_eq!(server.wait(&second_job)["status"], "succeeded");
}

/// A clock whose monotonic part the test sets.
struct ManualClock {
    wall_ms: u64,
    passed_ms: AtomicU64,
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.wall_ms + self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst)
    }
    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

/// Runs the retention that a server with these options would run a minute later, without waiting.
fn sweep(file: &Path, retention: RetentionOptions) {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let wall_ms = u64::try_from(wall).expect("small") + 1_000;
    let clock = Arc::new(ManualClock { wall_ms, passed_ms: AtomicU64::new(0) });
    let options = StoreOptions { retention, ..StoreOptions::default() };
    let store = RedbStore::open(file, &options, &Limits::default(), Arc::clone(&clock) as Arc<dyn Clock>)
        .expect("opens");
    clock.passed_ms.store(60_000, Ordering::SeqCst);
    for _ in 0..2 {
        store.probe().wait().expect("writes");
    }
    store.close();
}

#[test]
fn p2_a_resumed_stream_reports_events_removed_by_retention_as_a_gap() {
    let mut server = Server::start();
    let id = server.submit(&json!({"input": "stream: 20 words, 20 ms"}));
    let answer = server.wait(&id)["output_text"].clone();
    let all_events = server.events(&id);
    crate::support::assert_whole(&all_events);
    let last = all_events.last().expect("events").seq;
    server.terminate();
    let dir = server.dir.clone();
    let file = dir.join("data/nanoclaw.redb");
    let events = format!("/v1/jobs/{id}/events");

    let (now, never) = (RetentionAge::For(0), RetentionAge::Forever);
    sweep(&file, RetentionOptions { deltas: now, events: never, jobs: never, ..RetentionOptions::default() });
    let mut folded = Server::start_in(&dir, "");
    let events_after = folded.events(&id);
    let gap = events_after.iter().find(|event| event.name == "gap").expect("a gap");
    assert_eq!(gap.seq, gap.data["to"], "a stream resumed at a gap continues behind it");
    assert_eq!(
        crate::support::text_of(&events_after),
        answer.as_str().expect("an answer"),
        "no text is lost"
    );
    let cumulative: Vec<_> = folded.stream(&events, 0).collect();
    assert!(cumulative.iter().all(|event| event.name != "gap"), "{cumulative:?}");
    assert_eq!(folded.stream(&events, gap.seq).next().map(|event| event.seq), Some(gap.seq + 1));
    folded.terminate();

    sweep(&file, RetentionOptions { deltas: never, events: now, jobs: never, ..RetentionOptions::default() });
    let mut without_events = Server::start_in(&dir, "");
    let frames: Vec<_> = without_events.stream(&events, 2).collect();
    assert_eq!(frames[0].name, "gap");
    assert_eq!(frames[0].data, json!({"from": 3, "to": last - 1}));
    assert_eq!((frames[1].name.as_str(), frames[1].seq, frames.len()), ("done", last, 2));
    assert_eq!(without_events.get(&format!("{events}?after={last}")).status, 204);
    assert_eq!(without_events.get(&format!("{events}?after={}", last + 1)).status, 400);
    assert_eq!(without_events.get(&format!("/v1/jobs/{id}")).json()["output_text"], answer);
    without_events.terminate();

    sweep(&file, RetentionOptions { deltas: never, events: never, jobs: now, ..RetentionOptions::default() });
    let without_jobs = Server::start_in(&dir, "");
    for path in [format!("/v1/jobs/{id}"), events] {
        assert_eq!(without_jobs.get(&path).status, 404, "{path}");
    }
}
