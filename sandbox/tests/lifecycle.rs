//! Brokers, zygotes and supervisors that are killed or stopped from outside: the run reports it, the next
//! one works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox};
use rustix::process::Signal;

use crate::support::{self, Process, eventually};

fn bash(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

/// The only process with this name in one look: a new child of the broker or a zygote briefly has its name.
fn only_process(name: &str) -> Process {
    let mut found = Vec::new();
    eventually(name, || {
        found = Process::below(std::process::id());
        found.retain(|process| process.name == name);
        found.len() == 1
    });
    found.remove(0)
}

/// A sandbox whose broker has one zygote, of the level `strict`.
fn warm(scratch: &std::path::Path) -> Sandbox {
    let sandbox = support::sandbox(scratch);
    assert_works(&sandbox);
    sandbox
}

fn assert_works(sandbox: &Sandbox) {
    let record = sandbox.run(&support::python(Level::Strict, "print(6 * 7)"), &|| false);
    assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "42\n"), "{record:#?}");
}

fn assert_failed(record: &RunRecord, message: &str) {
    assert_eq!(record.status, RunStatus::SandboxError, "{record:#?}");
    assert!(record.error.as_deref().unwrap_or_default().contains(message), "{record:#?}");
}

#[test]
fn a_killed_broker_is_reported_and_replaced() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = warm(scratch.path());
    for program in [
        support::python(Level::Lenient, "while True: pass"),
        support::javascript(Level::Strict, "for (;;) {}"),
        bash("setsid sleep 86397 & (trap '' TERM; sleep 86397) & sleep 86397"),
    ] {
        let name = if program.language == Language::Bash { "sleep" } else { "nanoclaw-guest" };
        let limit = if program.language == Language::Bash { 3 } else { 1 };
        let below = || Process::below(std::process::id());
        let (record, all) = std::thread::scope(|scope| {
            let running = scope.spawn(|| sandbox.run(&program, &|| false));
            eventually("the program runs", || {
                below().iter().filter(|process| process.name == name).count() >= limit
            });
            let all = below();
            only_process("nanoclaw-broker").signal(Signal::KILL);
            (running.join().unwrap(), all)
        });
        assert_failed(&record, "broker died");
        eventually("all are dead", || all.iter().all(|process| !process.is_alive()));
        assert_works(&sandbox);
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_killed_zygote_is_replaced() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = warm(scratch.path());
    let old = only_process("nanoclaw-zygote");
    old.signal(Signal::KILL);
    eventually("the old zygote is reaped", || support::name_of(old.pid).is_empty());
    assert_works(&sandbox);
    assert_ne!(only_process("nanoclaw-zygote"), old);
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

/// A sandbox whose zygotes end after one second without a run.
fn impatient(scratch: &std::path::Path) -> Sandbox {
    let mut options = support::options(scratch);
    options.python_zygote_idle_s = 1;
    Sandbox::new(options).unwrap()
}

fn has_zygote() -> bool {
    !support::processes_named("nanoclaw-zygote").is_empty()
}

fn has_zygote_or_spare() -> bool {
    has_zygote() || !support::processes_named("nanoclaw-spare").is_empty()
}

#[test]
fn a_zygote_starts_with_its_first_run_ends_without_runs_and_starts_again() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = impatient(scratch.path());
    for program in [support::javascript(Level::Strict, "1"), bash("true")] {
        assert_eq!(sandbox.run(&program, &|| false).status, RunStatus::Ok);
        assert!(!has_zygote(), "{} needs no zygote", program.language);
    }
    for _ in 0..2 {
        assert_works(&sandbox);
        assert!(has_zygote());
        eventually("the idle zygote and its spare children end", || !has_zygote_or_spare());
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_run_that_arrives_while_its_zygote_ends_still_works() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = impatient(scratch.path());
    assert_works(&sandbox);
    for round in 0..6 {
        #[expect(clippy::disallowed_methods, reason = "the zygote must be about to end")]
        std::thread::sleep(Duration::from_millis(985 + 5 * round));
        support::in_parallel(vec![(); 4], 4, |()| assert_works(&sandbox));
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_run_that_takes_longer_than_its_zygote_stays_ends_normally() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let sandbox = impatient(scratch.path());
    let code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint(42)";
    let mut program = support::python(Level::Lenient, code);
    program.workdir = Some(home.path().to_owned());
    std::thread::scope(|scope| {
        let long = scope.spawn(|| sandbox.run(&program, &|| false));
        eventually("the zygote starts", has_zygote);
        eventually("the zygote ends", || !has_zygote());
        assert_eq!(support::processes_named("nanoclaw-guest").len(), 1, "the program still runs");
        std::fs::write(home.path().join("go"), "").unwrap();
        assert_eq!(long.join().unwrap().stdout, "42\n");
    });
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn p5_the_report_tries_python_and_leaves_no_zygote_of_its_own() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    options.python_zygote_idle_s = 0;
    let sandbox = Sandbox::new(options).unwrap();
    let report = sandbox.report();
    assert!(report.able() && report.python.reason.is_none(), "{report:#?}");
    eventually("the zygote of the trial ends", || !has_zygote_or_spare());
    let program = support::python(Level::Standard, "print(1)");
    assert_eq!(sandbox.run(&program, &|| false).stdout, "1\n");
    let zygote = only_process("nanoclaw-zygote");
    assert_eq!(sandbox.report().python.reason, None);
    assert_eq!(only_process("nanoclaw-zygote"), zygote, "0: the zygote of a real run stays");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

/// Stops the zygote and uses up its spare children.
fn stop_zygote(sandbox: &Sandbox) -> Process {
    eventually("spare children", || support::processes_named("nanoclaw-spare").len() == 2);
    let zygote = only_process("nanoclaw-zygote");
    zygote.signal(Signal::STOP);
    assert_works(sandbox);
    assert_works(sandbox);
    zygote
}

/// Runs a program while the zygote is stopped, and calls `meanwhile` while the run waits.
fn run_on_a_stopped_zygote(sandbox: &Sandbox, meanwhile: impl FnOnce(&Process)) -> RunRecord {
    let zygote = stop_zygote(sandbox);
    std::thread::scope(|scope| {
        let code = "print(6 * 7)";
        let waiting = scope.spawn(|| sandbox.run(&support::python(Level::Strict, code), &|| false));
        #[expect(clippy::disallowed_methods, reason = "the request must have reached the zygote")]
        std::thread::sleep(Duration::from_millis(300));
        meanwhile(&zygote);
        waiting.join().unwrap()
    })
}

#[test]
fn a_zygote_that_stops_or_dies_does_not_block_waiting_runs() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = warm(scratch.path());
    let record = run_on_a_stopped_zygote(&sandbox, |_| {});
    assert_failed(&record, "does not answer");
    assert_works(&sandbox);
    let record = run_on_a_stopped_zygote(&sandbox, |zygote| zygote.signal(Signal::KILL));
    assert_failed(&record, "died");
    assert_works(&sandbox);
    let record = run_on_a_stopped_zygote(&sandbox, |zygote| zygote.signal(Signal::CONT));
    assert_eq!(record.stdout, "42\n", "a short stop does no harm: {record:#?}");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_burst_that_fills_the_zygote_socket_is_served() {
    let _turn = support::exclusive();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: files.maximum, maximum: files.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    options.max_parallel = 400;
    let sandbox = Sandbox::new(options).unwrap();
    assert_works(&sandbox);
    let zygote = only_process("nanoclaw-zygote");
    zygote.signal(Signal::STOP);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..400).map(|_| scope.spawn(|| assert_works(&sandbox))).collect();
        #[expect(clippy::disallowed_methods, reason = "all requests must have reached the broker")]
        std::thread::sleep(Duration::from_millis(1_500));
        zygote.signal(Signal::CONT);
        for run in runs {
            run.join().unwrap();
        }
    });
    assert_eq!(only_process("nanoclaw-zygote"), zygote, "the zygote was not replaced");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_run_cancelled_while_waiting_for_a_zygote_leaves_no_process() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = warm(scratch.path());
    let cancelled = AtomicBool::new(false);
    for _ in 0..3 {
        cancelled.store(false, Ordering::Relaxed);
        let zygote = stop_zygote(&sandbox);
        let record = std::thread::scope(|scope| {
            let spin = support::python(Level::Strict, "while True: pass");
            let waiting = scope.spawn(|| sandbox.run(&{ spin }, &|| cancelled.load(Ordering::Relaxed)));
            #[expect(clippy::disallowed_methods, reason = "the request must have reached the zygote")]
            std::thread::sleep(Duration::from_millis(200));
            cancelled.store(true, Ordering::Relaxed);
            waiting.join().unwrap()
        });
        assert_eq!(record.limit.as_deref(), Some("cancelled"), "{record:#?}");
        zygote.signal(Signal::CONT);
    }
    assert_works(&sandbox);
    eventually("no process is left", || support::guests().is_empty());
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_broker_without_free_descriptors_refuses_runs_and_recovers() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = warm(scratch.path());
    let broker = only_process("nanoclaw-broker");
    let open = std::fs::read_dir(format!("/proc/{}/fd", broker.pid)).unwrap().count();
    let mut refused = 0;
    for spare in [0, 1, 3, 6, 7, 9, 12, 20] {
        let limit = Some(u64::try_from(open + spare).unwrap());
        let limit = rustix::process::Rlimit { current: limit, maximum: Some(4_096) };
        let pid = rustix::process::Pid::from_raw(i32::try_from(broker.pid).unwrap());
        rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
        let programs: Vec<Program> = (0..24)
            .map(|number| match number % 3 {
                0 => support::javascript(Level::Strict, "let n = 0; for (;;) if (++n > 3e6) break"),
                1 => support::python(Level::Strict, "print(1)"),
                _ => bash("(setsid sleep 86395 &); sleep 0.1"),
            })
            .collect();
        for record in support::in_parallel(programs, 8, |program| sandbox.run(&program, &|| false)) {
            let is_fine = matches!(record.status, RunStatus::Ok | RunStatus::SandboxError);
            assert!(is_fine, "{spare} spare descriptors: {record:#?}");
            refused += usize::from(record.status == RunStatus::SandboxError);
        }
    }
    let limit = Some(4_096);
    let limit = rustix::process::Rlimit { current: limit, maximum: limit };
    let pid = rustix::process::Pid::from_raw(i32::try_from(broker.pid).unwrap());
    rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    assert_works(&sandbox);
    assert!((24..24 * 8).contains(&refused), "{refused} of them were refused");
    assert_eq!(only_process("nanoclaw-broker"), broker, "the broker was not replaced");
    eventually("no process is left", || support::guests().is_empty());
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn orphans_of_a_killed_supervisor_are_ended() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = warm(scratch.path());
    let tree = "for i in 1 2 3; do (setsid sh -c 'sleep 86396 & sleep 86396' &) ; done; sleep 86396";
    for _ in 0..5 {
        let record = std::thread::scope(|scope| {
            let running = scope.spawn(|| sandbox.run(&bash(tree), &|| false));
            let sleeps = || support::guests().iter().filter(|name| name.ends_with(" sleep")).count();
            eventually("the process tree runs", || sleeps() == 7);
            only_process("nanoclaw-shell").signal(Signal::KILL);
            running.join().unwrap()
        });
        assert_eq!((record.status, record.signal), (RunStatus::Crash, Some(9)), "{record:#?}");
        assert_eq!(support::guests(), Vec::<String>::new(), "the run ends after its processes");
    }
    assert_works(&sandbox);
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}
