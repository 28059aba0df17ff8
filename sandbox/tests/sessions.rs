//! Sessions: long-lived programs with the policy of commands and pipes. They leave nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunStatus, SessionEnd, SessionSpec};

use crate::support;
use crate::support::session::{EVENT_TIMEOUT, output_and_end, shell_session, with_sandbox};

/// The argument of the programs that are left behind: no other process sleeps that long.
const MARK: &[u8] = b"86397";

fn remaining_processes() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command.windows(MARK.len()).any(|part| part == MARK) {
            found.push(String::from_utf8_lossy(&command).into_owned());
        }
    }
    found
}

#[test]
fn a_session_answers_until_its_input_ends() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let mut session = sandbox.open_session(&SessionSpec::new("cat", &[])).unwrap();
            let mut stdin = session.take_stdin().unwrap();
            let mut stdout = BufReader::new(session.take_stdout().unwrap());
            for number in 0..100 {
                writeln!(stdin, "{{\"id\":{number}}}").unwrap();
                let mut answer = String::new();
                stdout.read_line(&mut answer).unwrap();
                assert_eq!(answer, format!("{{\"id\":{number}}}\n"));
            }
            assert!(session.try_wait().is_none() && session.take_stdin().is_none());
            // Other programs run meanwhile; the session does not use their slots.
            let record = sandbox.run(&Program::new(Language::Bash, Level::Shell, "echo beside"), &|| false);
            assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "beside\n"));
            drop(stdin);
            assert_eq!(session.wait().exit_code, Some(0));
            assert_eq!(stdout.read_line(&mut String::new()).unwrap(), 0);
        },
    );
}

#[test]
fn the_end_of_a_session_is_reported() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let (stdout, stderr, end) =
                output_and_end(sandbox, &shell_session("echo out; echo err >&2; exit 7"));
            assert_eq!((stdout.as_str(), stderr.as_str()), ("out\n", "err\n"));
            assert_eq!(end, SessionEnd { exit_code: Some(7), ..SessionEnd::default() });
            assert_eq!(output_and_end(sandbox, &shell_session("kill -9 $$")).2.exit_code, Some(137));
            let session = sandbox.open_session(&shell_session("sleep 86397")).unwrap();
            assert_eq!(session.wait_for(Duration::from_millis(20)), None);
            session.kill();
            let end = session.wait();
            assert_eq!(end.reason.as_deref(), Some("ended by the server"), "{end:?}");
            assert_eq!(remaining_processes(), Vec::<String>::new());
        },
    );
}

#[test]
fn a_session_has_the_environment_and_arguments_of_its_spec() {
    with_sandbox(
        |_| {},
        |sandbox, scratch| {
            let mut spec = SessionSpec::new("printenv", &["TOKEN", "HOME"]);
            spec.environment = vec![("TOKEN".to_owned(), "a b".to_owned())];
            let (stdout, _, _) = output_and_end(sandbox, &spec);
            let (token, home) = stdout.split_once('\n').unwrap();
            assert_eq!(token, "a b");
            assert!(Path::new(home.trim()).starts_with(scratch), "{stdout}");
            let (stdout, _, _) =
                output_and_end(sandbox, &SessionSpec::new("printf", &["%s|", "a b", "", "$HOME"]));
            assert_eq!(stdout, "a b||$HOME|");
            let variables = output_and_end(sandbox, &SessionSpec::new("env", &[])).0;
            assert!(!variables.contains("CARGO_MANIFEST"), "no variable of the test: {variables}");
        },
    );
}

#[test]
fn a_program_that_cannot_start_is_reported_at_once() {
    with_sandbox(
        |_| {},
        |sandbox, scratch| {
            let refused = |spec: &SessionSpec| sandbox.open_session(spec).unwrap_err().to_string();
            assert!(refused(&SessionSpec::new("no-such-program", &[])).contains("cannot start"));
            assert!(refused(&SessionSpec::new("", &[])).contains("no program"));
            let mut without_workdir = shell_session("true");
            without_workdir.workdir = Some(scratch.join("none"));
            assert!(refused(&without_workdir).contains("working directory"));
            let mut everything = shell_session("true");
            everything.readable = vec![scratch.to_owned()];
            assert!(refused(&everything).contains("may write to"), "{}", refused(&everything));
        },
    );
}

#[test]
fn sessions_obey_max_strictness_allowed_and_max_sessions() {
    with_sandbox(
        |options| options.max_strictness_allowed = Some(Level::Standard),
        |sandbox, _| {
            let error = sandbox.open_session(&shell_session("true")).unwrap_err().to_string();
            assert!(error.contains("max_strictness_allowed"), "{error}");
        },
    );
    with_sandbox(
        |options| options.max_sessions = 2,
        |sandbox, _| {
            let first = sandbox.open_session(&shell_session("sleep 86397")).unwrap();
            let second = sandbox.open_session(&shell_session("exit 0")).unwrap();
            second.wait();
            let error = sandbox.open_session(&shell_session("true")).unwrap_err().to_string();
            assert!(error.contains("2 sessions are open"), "{error}");
            drop(second);
            sandbox.open_session(&shell_session("true")).unwrap();
            drop(first);
        },
    );
}

#[test]
fn a_dropped_session_ends_all_its_processes() {
    with_sandbox(
        |_| {},
        |sandbox, scratch| {
            let command = "setsid sleep 86397 & (setsid sh -c 'trap \"\" TERM INT HUP; sleep 86397 & sleep 86397' &) ; \
                           nohup sleep 86397 >/dev/null 2>&1 & echo x >here; echo ready; trap '' TERM; sleep 86397; sleep 86397";
            let mut session = sandbox.open_session(&shell_session(command)).unwrap();
            let mut line = String::new();
            BufReader::new(session.take_stdout().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            support::eventually("the processes run", || remaining_processes().len() >= 4);
            assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 1, "the private directory");
            drop(session);
            assert_eq!(remaining_processes(), Vec::<String>::new());
            support::assert_nothing_left(scratch);
        },
    );
}

#[test]
fn an_ended_session_leaves_no_process() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let session =
                sandbox.open_session(&shell_session("setsid sleep 86397 & sleep 0.05; exit 3")).unwrap();
            assert_eq!(session.wait_for(EVENT_TIMEOUT).unwrap().exit_code, Some(3));
            assert_eq!(remaining_processes(), Vec::<String>::new());
        },
    );
}

#[test]
fn sessions_leak_no_descriptor() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            drop(sandbox.open_session(&shell_session("true")).unwrap());
            let before = support::open_descriptors();
            for _ in 0..20 {
                drop(sandbox.open_session(&SessionSpec::new("cat", &[])).unwrap());
                assert!(sandbox.open_session(&SessionSpec::new("no-such-program", &[])).is_err());
            }
            support::eventually("all descriptors are closed", || support::open_descriptors() <= before);
        },
    );
}

#[test]
fn a_session_ends_with_its_sandbox() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let session = sandbox.open_session(&shell_session("sleep 86397")).unwrap();
    drop(sandbox);
    assert!(session.wait_for(EVENT_TIMEOUT).is_some());
    assert_eq!(remaining_processes(), Vec::<String>::new());
    drop(session);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn too_many_processes_end_a_session() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let mut spec = shell_session("for i in $(seq 60); do sleep 86397 & done; wait");
            spec.limits.processes = 20;
            let session = sandbox.open_session(&spec).unwrap();
            let end = session.wait_for(EVENT_TIMEOUT).expect("the session is ended");
            // If runs have cgroups, the kernel refuses the processes, and the shell gives up.
            let reason = end.reason.clone().unwrap_or_default();
            assert!(reason.contains("processes") || end.exit_code != Some(0), "{end:?}");
            assert_eq!(remaining_processes(), Vec::<String>::new());
        },
    );
}
