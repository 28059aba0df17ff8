//! Programs that cannot die, because a disk does not answer: each is given up alone. Its place counts as used
//! until it is gone, and nobody else notices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nanoclaw_sandbox::{
    Language, Level, Program, RunRecord, RunStatus, Sandbox, SandboxOptions, SessionSpec,
};

use crate::support::stuck::{Freezer, TestDisk, is_killed};
use crate::support::{self, Process, SOON, eventually};

fn bash(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

#[expect(clippy::disallowed_methods, reason = "the test tells soon from never")]
fn now() -> Instant {
    Instant::now()
}

/// JavaScript answers, and does so soon.
fn assert_answers(sandbox: &Sandbox) {
    let start = now();
    let record = sandbox.run(&support::javascript(Level::Strict, "6 * 7"), &|| false);
    assert_eq!(record.result.as_deref(), Some("42"), "{record:#?}");
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
}

/// A program that is not stuck, and runs until `go` exists in its directory.
fn patient(home: &std::path::Path) -> Program {
    let mut program = bash("while [ ! -e go ]; do sleep 0.05; done; echo fine");
    program.workdir = Some(home.to_owned());
    program
}

/// Whether a run has to wait for a place.
fn is_full(sandbox: &Sandbox) -> bool {
    let start = now();
    let cancel = || start.elapsed() > Duration::from_millis(500);
    let record = sandbox.run(&support::javascript(Level::Strict, "1"), &cancel);
    record.limit.as_deref() == Some("cancelled")
}

fn assert_timed_out(record: &RunRecord, stdout: &str) {
    assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Timeout, stdout), "{record:#?}");
}

/// The programs that get stuck.
fn stuck_programs() -> [Program; 3] {
    let programs = [
        bash("echo kept; setsid --wait sleep 86393; true"),
        support::python(Level::Lenient, "print('kept')\nwhile True: pass"),
        support::javascript(Level::Strict, "console.log('kept'); for (;;) {}"),
    ];
    programs.map(|program| Program { timeout_ms: Some(20_000), ..program })
}

/// Whether a process has computed for half a second: its program runs, as no set-up takes so long.
fn has_computed(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>() >= 50
}

/// Their processes, once all run.
fn stuck_processes() -> Vec<u32> {
    let mut found = Vec::new();
    eventually("the programs run", || {
        let is_long = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("86393"))
        };
        found = support::processes_named("sleep");
        found.retain(is_long);
        // A command has the name of a guest until it is executed.
        let commands = found.len();
        let guests = support::processes_named("nanoclaw-guest");
        found.extend(guests.into_iter().filter(|pid| has_computed(*pid)));
        commands == 1 && found.len() == 3
    });
    found
}

#[test]
fn a_program_that_cannot_die_is_given_up_alone() {
    let _turn = support::exclusive();
    let Some(freezer) = Freezer::new() else { return };
    let (scratch, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = SandboxOptions { max_parallel: 5, ..support::options(scratch.path()) };
    let sandbox = Sandbox::new(options).unwrap();
    // Tests the levels and warms up, so that all run at the same time later.
    for program in
        [support::python(Level::Lenient, "1"), bash("true"), support::javascript(Level::Strict, "1")]
    {
        assert_eq!(sandbox.run(&program, &|| false).status, RunStatus::Ok);
    }
    // A new child briefly has the broker's name.
    let mut brokers = Vec::new();
    eventually("one broker", || {
        brokers = support::processes_named("nanoclaw-broker");
        brokers.len() == 1
    });
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let innocent = scope.spawn(|| sandbox.run(&patient(home.path()), &|| false));
        eventually("it runs", || !support::processes_named("sleep").is_empty());
        let stuck = stuck_programs().map(|program| scope.spawn(|| sandbox.run(&{ program }, &|| false)));
        let frozen = stuck_processes();
        let still = freezer.freeze(&frozen);
        let all_done = || stuck.iter().all(std::thread::ScopedJoinHandle::is_finished);
        let start = now();
        while !all_done() {
            assert_answers(&sandbox);
            assert!(start.elapsed() < SOON * 3, "the stuck programs are not given up");
        }
        for record in stuck.map(|thread| thread.join().unwrap()) {
            assert_timed_out(&record, "kept\n");
        }
        assert!(frozen.iter().all(|pid| is_killed(*pid)));
        assert!(!innocent.is_finished());
        let last = scope.spawn(|| {
            let endless = support::javascript(Level::Strict, "for (;;) {}");
            sandbox.run(&endless, &|| ends.load(Ordering::Relaxed))
        });
        eventually("all places are taken", || is_full(&sandbox));
        std::fs::write(home.path().join("go"), "").unwrap();
        let record = innocent.join().unwrap();
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "fine\n"), "{record:#?}");
        drop(still);
        ends.store(true, Ordering::Relaxed);
        last.join().unwrap();
    });
    eventually("the stuck programs are gone", || support::guests().is_empty());
    eventually("the broker is the same", || support::processes_named("nanoclaw-broker") == brokers);
    let all = vec![support::javascript(Level::Strict, "1"); 20];
    let records = support::in_parallel(all, 5, |program| sandbox.run(&program, &|| false));
    assert!(records.iter().all(|record| record.status == RunStatus::Ok), "{records:#?}");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn zygotes_and_spare_children_that_cannot_die_block_nobody() {
    let _turn = support::exclusive();
    let Some(freezer) = Freezer::new() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let options = SandboxOptions { python_zygote_idle_s: 1, ..support::options(scratch.path()) };
    let sandbox = Sandbox::new(options).unwrap();
    let works = || {
        let record = sandbox.run(&support::python(Level::Strict, "print(6 * 7)"), &|| false);
        assert_eq!(record.stdout, "42\n", "{record:#?}");
    };
    works();
    eventually("spare children", || support::processes_named("nanoclaw-spare").len() == 2);
    let frozen: Vec<u32> =
        ["nanoclaw-zygote", "nanoclaw-spare"].into_iter().flat_map(support::processes_named).collect();
    let still = freezer.freeze(&frozen);
    eventually("the idle zygote is killed", || frozen.iter().any(|pid| is_killed(*pid)));
    assert_answers(&sandbox);
    eventually("its spare children are killed", || frozen.iter().all(|pid| is_killed(*pid)));
    works();
    drop(still);
    let is_gone = |pid: &u32| support::name_of(*pid).is_empty();
    eventually("they are reaped", || frozen.iter().all(is_gone));
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_broker_that_cannot_die_is_replaced() {
    let _turn = support::exclusive();
    let Some(freezer) = Freezer::new() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert_answers(&sandbox);
    let broker = support::processes_named("nanoclaw-broker");
    let still = freezer.freeze(&broker);
    let record = sandbox.run(&support::javascript(Level::Strict, "1"), &|| false);
    assert_eq!(record.status, RunStatus::SandboxError, "{record:#?}");
    assert_answers(&sandbox);
    drop(sandbox);
    drop(still);
    eventually("the old broker is gone", || Process::of(broker[0]).is_none());
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_session_that_cannot_die_ends_for_its_opener_and_keeps_its_place() {
    let _turn = support::exclusive();
    let Some(freezer) = Freezer::new() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let options = SandboxOptions { max_sessions: 1, ..support::options(scratch.path()) };
    let sandbox = Sandbox::new(options).unwrap();
    let spec = SessionSpec::new("/bin/sh", &["-c", "sleep 86392; true"]);
    let session = sandbox.open_session(&spec).unwrap();
    eventually("the session runs", || !support::processes_named("sleep").is_empty());
    let still = freezer.freeze(&support::processes_named("sleep"));
    let start = now();
    drop(session);
    assert!(start.elapsed() < SOON * 2, "its end took {:?}", start.elapsed());
    assert_answers(&sandbox);
    assert!(sandbox.open_session(&spec).is_err(), "its place is free");
    drop(still);
    eventually("its place is free again", || sandbox.open_session(&spec).is_ok());
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_disk_that_does_not_answer_stops_only_those_who_write_to_it() {
    let _turn = support::exclusive();
    let Some(disk) = TestDisk::mount() else { return };
    let scratch = disk.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let sandbox = support::sandbox(&scratch);
    assert_answers(&sandbox);
    std::thread::scope(|scope| {
        // Its private directory is on the disk, too, but it writes nothing.
        let quiet = scope.spawn(|| sandbox.run(&bash("sleep 8; echo fine"), &|| false));
        let mut writer = bash("echo kept; while :; do echo x >>f; sleep 0.05; done");
        writer.timeout_ms = Some(2_000);
        let writer = scope.spawn(|| sandbox.run(&{ writer }, &|| false));
        eventually("the writer has written", || {
            let entries = std::fs::read_dir(&scratch).unwrap().flatten();
            entries.into_iter().any(|entry| entry.path().join("f").exists())
        });
        let still = disk.freeze();
        let start = now();
        while !quiet.is_finished() || !writer.is_finished() {
            assert_answers(&sandbox);
            assert!(
                start.elapsed() < SOON * 2,
                "quiet {}, writer {}",
                quiet.is_finished(),
                writer.is_finished()
            );
        }
        let record = quiet.join().unwrap();
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "fine\n"), "{record:#?}");
        assert_timed_out(&writer.join().unwrap(), "kept\n");
        drop(still);
    });
    eventually("the writer is gone", || support::guests().is_empty());
    drop(sandbox);
    support::assert_nothing_left(&scratch);
}
