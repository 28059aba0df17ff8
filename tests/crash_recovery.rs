//! `kill -9` at awkward moments: accepted jobs end, sent events remain, finished tool calls are not repeated.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Event, Server, against, assert_whole, command, text_of};
use serde_json::json;
use std::time::Duration;

#[test]
fn p1_p2_p3_a_server_killed_in_mid_stream_finishes_after_restart() {
    let upstream = Upstream::start(|request, _| {
        if tool_results(request).is_empty() {
            Answer::calls(&[("calculator", json!({"expression": "17*23"}))])
        } else {
            Answer::paced_text(&"piece by piece ".repeat(12), Duration::from_millis(40))
        }
    });
    let config = against(&upstream, "");
    for round in 0..5_usize {
        let server = Server::start_with(&config);
        let id = server.submit(&json!({"input": "go"}));
        let path = format!("/v1/jobs/{id}/events?format=delta");
        let mut seen: Vec<Event> = server.stream(&path, 0).take(5 + 3 * round).collect();
        let calls_before = upstream.requests().len();
        let server = server.crash_and_restart(&config);
        seen.extend(server.stream(&path, seen.last().expect("events").seq));
        assert_whole(&seen);
        assert_eq!(seen, server.events(&id), "seen events do not change");
        assert_eq!(text_of(&seen), "piece by piece ".repeat(12));
        let results: Vec<_> = seen.iter().filter(|e| e.data["type"] == "tool_result").collect();
        assert_eq!(results.len(), 1, "the tool ran once: {results:?}");
        let again = upstream.requests();
        assert!(
            again[calls_before..].iter().all(|r| tool_results(r).len() == 1),
            "the recorded result is sent to the model"
        );
        assert!(seen.iter().any(|e| e.name == "step_discarded"), "the interrupted step is discarded");
        assert_eq!(server.wait(&id)["attempt"], 2);
    }
}

#[test]
fn p1_jobs_accepted_just_before_a_crash_all_succeed() {
    let server = Server::start();
    let ids: Vec<String> = (0..40).map(|n| server.submit(&json!({"input": format!("job {n}")}))).collect();
    let server = server.crash_and_restart("");
    for id in ids {
        let job = server.wait(&id);
        assert_eq!(job["status"], "succeeded", "{job}");
        assert_whole(&server.events(&id));
    }
}

#[test]
fn p4_a_job_that_runs_during_three_crashes_fails_as_poison() {
    let upstream = Upstream::start(|_, _| Answer::paced_text(&"x ".repeat(500), Duration::from_millis(20)));
    let config = against(&upstream, "");
    let mut server = Server::start_with(&config);
    let id = server.submit(&json!({"input": "go"}));
    for crash in 1..=3 {
        let running = server
            .stream(&format!("/v1/jobs/{id}/events"), 0)
            .filter(|e| e.data["status"] == "running")
            .take(crash)
            .count();
        assert_eq!(running, crash);
        server = server.crash_and_restart(&config);
    }
    let job = server.wait(&id);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("poison")), "{job}");
    assert_whole(&server.events(&id));
}

#[test]
fn p1_a_failed_start_on_a_used_port_costs_a_queued_job_no_attempt() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start_in(dir.path(), "workers: 1");
    let taken = server.url.trim_start_matches("http://").to_owned();
    let second_dir = tempfile::tempdir().expect("a directory");
    let mut first = Server::start_in(second_dir.path(), "");
    let soon =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs() + 2;
    let id = first.submit(&json!({"input": "x", "run_at": soon}));
    first.kill();
    std::thread::sleep(Duration::from_secs(3));
    for _ in 0..4 {
        let failed = crate::support::command(&["serve", "--listen", &taken, "--data-dir"])
            .arg(second_dir.path().join("data"))
            .output()
            .expect("it runs");
        assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
    }
    let server = Server::start_in(second_dir.path(), "");
    let job = server.wait(&id);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(1)), "{job}");
}

#[test]
fn a_damaged_store_gives_an_error_with_a_hint_instead_of_a_panic() {
    let keep = tempfile::tempdir().expect("a directory");
    let mut server = Server::start_in(keep.path(), "");
    for _ in 0..5 {
        let id = server.submit(&json!({"input": "tool: calculator {\"expression\": \"1+1\"}"}));
        server.wait(&id);
    }
    assert!(server.terminate().success());
    let file = server.dir.join("data/nanoclaw.redb");
    let mut store = std::fs::read(&file).expect("the store");
    store[2 * 4096..16 * 4096].fill(0);
    std::fs::write(&file, store).expect("damaged");
    let config = keep.path().join("config.yml");
    let mut serve = crate::support::command(&["serve", "--listen", "127.0.0.1:0", "--config"]);
    let serve = serve.arg(config).arg("--data-dir").arg(file.parent().expect("its directory"));
    let refused = serve.output().expect("nanoclaw");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(65), "{stderr}");
    assert!(stderr.contains("hint: "), "{stderr}");
}

#[test]
fn p4_a_failed_start_counts_no_crash_for_a_queued_job() {
    let upstream = Upstream::start(|request, _| {
        if request.to_string().contains("the first") {
            Answer::paced_text(&"x ".repeat(2_000), Duration::from_millis(20))
        } else {
            Answer::text("done")
        }
    });
    let config =
        against(&upstream, "workers: 1\nlimits: {crashes: 1, disk_free_bytes: 0, disk_free_percent: 0}");
    let mut server = Server::start_with(&config);
    let first = server.submit(&json!({"input": "the first"}));
    let queued = server.submit(&json!({"input": "behind it"}));
    assert!(
        server.stream(&format!("/v1/jobs/{first}/events"), 0).next().is_some(),
        "the first job occupies the worker"
    );
    server.kill();
    // Writing this file is the last step of a start that can fail.
    let control = server.dir.join("data/control.json");
    std::fs::remove_file(&control).expect("removed");
    std::fs::create_dir(&control).expect("made");
    for _ in 0..8 {
        let mut start = command(&["serve", "--listen", "127.0.0.1:0", "--config"]);
        start.arg(server.dir.join("config.yml")).arg("--data-dir").arg(server.dir.join("data"));
        let failed = start.output().expect("the binary runs");
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    }
    std::fs::remove_dir(&control).expect("removed");
    let server = server.crash_and_restart(&config);
    let job = server.wait(&queued);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(1)), "{job}");
}
