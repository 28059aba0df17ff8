//! What one run leaves in processes and descriptors that other runs get: no value of a command's environment,
//! and no state of standard input.

use std::os::unix::fs::FileExt;

use nanoclaw_sandbox::{Language, Level, Program, RunStatus, SessionSpec};

use crate::support::{self, eventually};

/// A part of the searched value. The parts are joined in a child only, so that no constant matches.
const CANARY: [&str; 2] = ["canary-of-an-operator", "-9f31c7a5"];
/// The processes of a sandbox that outlive a run, and those that the next runs get.
const LASTING: [&str; 4] = ["nanoclaw-broker", "nanoclaw-zygote", "nanoclaw-spare", "nanoclaw-ready"];

/// Whether the memory of a process holds the canary; an error if it cannot be read.
fn holds_canary(pid: u32) -> std::io::Result<bool> {
    const PAGE: usize = 4096;
    let canary = CANARY.concat().into_bytes();
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    // Only what a process has written can hold the value.
    for line in maps.lines().filter(|line| line.split_whitespace().nth(1).unwrap().starts_with("rw")) {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        let [start, end] = [start, end].map(|bound| usize::from_str_radix(bound, 16).unwrap());
        let mut bytes = vec![0; end - start];
        let mut read = 0;
        while read < bytes.len() {
            let from = u64::try_from(start + read).unwrap();
            // A page that cannot be read is skipped.
            read +=
                memory.read_at(&mut bytes[read..], from).ok().filter(|length| *length > 0).unwrap_or(PAGE);
        }
        if bytes.windows(canary.len()).any(|window| window == canary) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lasting processes whose memory holds the canary. `None` if this user may not read their memory.
fn holders() -> Option<Vec<String>> {
    let mut found = Vec::new();
    for name in LASTING {
        for pid in support::processes_named(name) {
            match holds_canary(pid) {
                Ok(true) => found.push(format!("{pid} {name}")),
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
                // With an error it has ended meanwhile.
                Ok(false) | Err(_) => {}
            }
        }
    }
    Some(found)
}

#[test]
fn a_commands_environment_and_arguments_lie_in_no_process_of_other_runs() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    // Every kind of lasting process exists before, and is made once more afterwards.
    let make_lasting_processes = || {
        assert_eq!(sandbox.run(&support::javascript(Level::Strict, "1"), &|| false).status, RunStatus::Ok);
        assert_eq!(sandbox.run(&support::python(Level::Strict, "1"), &|| false).status, RunStatus::Ok);
        eventually("spare children", || {
            ["nanoclaw-spare", "nanoclaw-ready"].iter().all(|name| support::processes_named(name).len() == 2)
        });
    };
    make_lasting_processes();
    let Some(before) = holders() else {
        println!("SKIPPED: only root reads the memory of the sandbox's processes");
        return;
    };
    assert_eq!(before, Vec::<String>::new());
    let canary = CANARY.concat();
    let variable = || vec![("API_KEY".to_owned(), canary.clone())];
    let command = "echo ${#API_KEY}; while [ ! -e go ]; do sleep 0.02; done";
    let home = tempfile::tempdir().unwrap();
    let program = Program {
        environment: variable(),
        workdir: Some(home.path().to_owned()),
        ..Program::new(Language::Bash, Level::Shell, command)
    };
    let during = std::thread::scope(|scope| {
        let running = scope.spawn(|| sandbox.run(&program, &|| false));
        eventually("the command runs", || !support::processes_named("nanoclaw-shell").is_empty());
        make_lasting_processes();
        let during = holders().unwrap();
        let supervisors = support::processes_named("nanoclaw-shell");
        assert!(supervisors.into_iter().any(|pid| holds_canary(pid).unwrap()), "the search finds nothing");
        std::fs::write(home.path().join("go"), "").unwrap();
        assert_eq!(running.join().unwrap().stdout, format!("{}\n", canary.len()));
        during
    });
    assert_eq!(during, Vec::<String>::new(), "while a command has the value");
    let mut spec = SessionSpec::new("/bin/sh", &["-c", "exec sleep 86394", &canary]);
    spec.environment = variable();
    let session = sandbox.open_session(&spec).unwrap();
    make_lasting_processes();
    assert_eq!(holders().unwrap(), Vec::<String>::new(), "while a session has the value");
    drop(session);
    make_lasting_processes();
    assert_eq!(holders().unwrap(), Vec::<String>::new(), "after the end");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

/// Changes the state of standard input as far as its level allows.
const CHANGE_INPUT: &str = "
import fcntl, os
fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND)
fcntl.flock(0, fcntl.LOCK_EX)
print('changed')";
/// Prints what another run has left of it, and what it is.
const SHOW_INPUT: &str = "
import fcntl, os
print(fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND | os.O_ACCMODE))
fcntl.flock(os.open('/dev/null', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
print(os.fstat(0).st_rdev == os.stat('/dev/null').st_rdev, os.read(0, 1))";

#[test]
fn the_state_of_standard_input_does_not_outlive_a_run() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let python = |code: &str| support::python(Level::Lenient, code);
    let command = |code: &str| Program::new(Language::Bash, Level::Shell, format!("python3 -c \"{code}\""));
    for (change, show) in [
        (python(CHANGE_INPUT), python(SHOW_INPUT)),
        (command(CHANGE_INPUT), command(SHOW_INPUT)),
        (python(CHANGE_INPUT), command(SHOW_INPUT)),
    ] {
        let changed = sandbox.run(&change, &|| false);
        assert_eq!(changed.stdout, "changed\n", "{changed:#?}");
        let shown = sandbox.run(&show, &|| false);
        assert_eq!(shown.stdout, "0\nTrue b''\n", "{shown:#?}");
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}
