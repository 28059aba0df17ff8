//! Fails closed: a child whose set-up fails in any step reports it and runs nothing, and the broker
//! continues.

use std::process::Stdio;

use nanoclaw_sandbox::{Level, RunLimits};
use serde_json::json;

use crate::support;
use crate::support::broker::{RunOutcome, TestBroker, request};

const PROGRAM: &str = "console.log('ran')";

fn assert_refused(outcome: &RunOutcome, message: &str) {
    let report = format!("{}{}", outcome.frames, outcome.last);
    assert!(report.contains(message), "{message}: {outcome:?}");
    assert!(!outcome.frames.contains("\"go\"") && outcome.exit_code() != Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout, "");
}

#[test]
fn an_unmodified_request_runs() {
    let _turn = support::shared();
    let outcome = TestBroker::start().run(&request().to_string(), PROGRAM);
    assert!(outcome.frames.contains("\"go\""), "{outcome:?}");
    assert_eq!((outcome.exit_code(), outcome.stdout.as_str()), (Some(0), "ran\n"));
}

#[test]
fn a_failed_set_up_step_ends_the_child() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    for (field, value, message) in [
        ("landlock_abi", json!(99), "landlock"),
        ("landlock_abi", json!(0), "landlock"),
        ("files", json!([{"path": "/proc/nonexistent", "access": "read_tree"}]), "landlock"),
        ("directory", json!("/proc/nonexistent"), "own directory"),
        ("subdirectory", json!("../.."), "directory"),
        ("limits", json!({}), "cannot decode"),
        ("task", json!({"kind": "unheard of"}), "cannot decode"),
    ] {
        let mut changed = request();
        changed[field] = value;
        assert_refused(&broker.run(&changed.to_string(), PROGRAM), message);
    }
    assert_refused(&broker.run("not json", PROGRAM), "cannot decode");
    // Without a reply socket, the broker cannot report the error.
    broker.send(b"{}", &[]);
    assert_eq!(broker.run(&request().to_string(), PROGRAM).exit_code(), Some(0), "the broker continues");
}

/// On older kernels landlock does not mediate truncation (ABI 3), TCP (4) or signals (6): the filters refuse
/// them.
#[test]
fn every_level_contains_programs_under_every_older_landlock_abi() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("own")).unwrap();
    let canary = home.path().join("canary");
    std::fs::write(&canary, "kept").unwrap();
    for level in Level::ALL {
        for abi in 1..=6 {
            let mut changed = request();
            changed["level"] = json!(level);
            changed["limits"] = json!(RunLimits::of(level));
            changed["landlock_abi"] = json!(abi);
            changed["files"] = json!([{"path": home.path().join("own"), "access": "own_tree"}]);
            let quiet = json!({"canary": canary, "may_fork": level == Level::Shell});
            changed["task"] = json!({"kind": "probe", "quiet": quiet});
            let outcome = broker.run(&changed.to_string(), "");
            assert_eq!(outcome.exit_code(), Some(0), "{level} under ABI {abi}: {outcome:?}");
            assert_eq!(std::fs::read_to_string(&canary).unwrap(), "kept");
        }
    }
}

#[test]
fn a_python_that_cannot_start_is_reported() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    let mut changed = request();
    let zygote = json!({
        "id": 1, "level": "strict", "interpreter": "/usr/bin/python3", "files": [], "landlock_abi": 1,
        "allowed_modules": [], "refused_builtins": [], "warm_modules": [], "extra_path": [],
    });
    changed["task"] = json!({"kind": "python", "zygote": zygote, "language_check": true});
    assert_refused(&broker.run(&changed.to_string(), "print(1)"), "cannot start");
    assert_eq!(broker.run(&request().to_string(), PROGRAM).exit_code(), Some(0), "the broker continues");
}

#[test]
fn a_broker_without_its_socket_exits() {
    let _turn = support::shared();
    #[expect(clippy::disallowed_methods, reason = "the test acts as a careless caller")]
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"))
        .arg(nanoclaw_sandbox::BROKER_MARKER)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.code().is_some() && output.stdout.is_empty());
}
