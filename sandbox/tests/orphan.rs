//! One second after a server was killed, all its processes have exited. Its successor removes its
//! directories.

use std::path::Path;
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, SessionSpec};

use crate::support::{self, Process, eventually};

/// Set in the process that is killed: the parent of its private directories.
const VICTIM: &str = "NANOCLAW_TEST_VICTIM";

/// Runs as a busy server until it is killed.
fn live_as_victim(scratch: &Path) {
    let sandbox = support::sandbox(scratch);
    assert!(sandbox.report().able());
    let command = "trap '' TERM; setsid sleep 86398 & >here; sleep 86398";
    let mut spec = SessionSpec::new("/bin/sh", &["-c", command]);
    // Sessions with the network have a broker of their own.
    spec.network = true;
    let _session = sandbox.open_session(&spec).unwrap();
    let programs = [
        support::python(Level::Lenient, "open('here', 'w').close()\nwhile True: pass"),
        support::python(Level::Strict, "while True: pass"),
        support::javascript(Level::Lenient, "for (;;) {}"),
        Program::new(
            Language::Bash,
            Level::Shell,
            "trap '' TERM; setsid sleep 86398 & (nohup sleep 86398 &) ; >here; sleep 86398",
        ),
    ];
    support::in_parallel(programs.to_vec(), 4, |mut program| {
        program.timeout_ms = Some(60_000);
        sandbox.run(&program, &|| false)
    });
}

#[test]
fn a_killed_server_leaves_no_process_and_no_directory() {
    let _turn = support::exclusive();
    if let Some(scratch) = std::env::var_os(VICTIM) {
        live_as_victim(Path::new(&scratch));
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphan::a_killed_server_leaves_no_process_and_no_directory"])
        .env(VICTIM, scratch.path())
        .spawn()
        .unwrap();
    let works = |entry: &std::fs::DirEntry| entry.path().join("here").exists();
    eventually("the guests work", || {
        std::fs::read_dir(scratch.path()).unwrap().flatten().filter(works).count() == 3
    });
    let named =
        |name: &str| Process::below(victim.id()).iter().filter(|process| process.name == name).count();
    eventually("all processes run", || {
        named("nanoclaw-guest") == 3 && named("sleep") == 5 && named("nanoclaw-shell") == 2
    });
    let all = Process::below(victim.id());
    let count = |name: &str| all.iter().filter(|process| process.name == name).count();
    // A new spare child still has the name of its zygote.
    assert!(count("nanoclaw-broker") == 2 && count("nanoclaw-zygote") >= 2, "{all:?}");
    victim.kill().unwrap();
    victim.wait().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the promise is a second")]
    std::thread::sleep(Duration::from_secs(1));
    let alive: Vec<&Process> = all.iter().filter(|process| process.is_alive()).collect();
    assert!(alive.is_empty(), "alive a second later: {alive:?}");
    assert!(support::sandbox(scratch.path()).report().able());
    support::assert_nothing_left(scratch.path());
}
