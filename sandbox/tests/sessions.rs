//! Sessions: long-lived programs with the policy of commands and pipes. They leave nothing behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nanoclaw_sandbox::{
    Language, Level, Program, RunStatus, Sandbox, SandboxOptions, SandboxSession, SessionEnd, SessionSpec,
};

use crate::support;

/// How long an expected event may take on a busy machine.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The argument of the programs that are left behind: no other process sleeps that long.
const MARK: &[u8] = b"86397";

fn with_sandbox(change: impl FnOnce(&mut SandboxOptions), work: impl FnOnce(&Sandbox, &Path)) {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    change(&mut options);
    let sandbox = Sandbox::new(options).unwrap();
    work(&sandbox, scratch.path());
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

fn shell_session(command: &str) -> SessionSpec {
    SessionSpec::new("/bin/sh", &["-c", command])
}

fn read_all(session: &mut SandboxSession) -> (String, String) {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    session.take_stdout().unwrap().read_to_string(&mut stdout).unwrap();
    session.take_stderr().unwrap().read_to_string(&mut stderr).unwrap();
    (stdout, stderr)
}

/// The output of a session until its end, and its end.
fn output_and_end(sandbox: &Sandbox, spec: &SessionSpec) -> (String, String, SessionEnd) {
    let mut session = sandbox.open_session(spec).unwrap();
    drop(session.take_stdin());
    let (stdout, stderr) = read_all(&mut session);
    (stdout, stderr, session.wait_for(EVENT_TIMEOUT).expect("the session ends"))
}

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

fn node() -> Option<PathBuf> {
    let found = ["/usr/bin/node", "/usr/local/bin/node"].iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        writeln!(std::io::stderr(), "SKIPPED: there is no node on this machine").expect("stderr");
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

#[test]
fn a_directory_of_the_caller_is_readable_or_writable_as_specified() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let given = tempfile::tempdir().unwrap();
            std::fs::write(given.path().join("data"), "theirs\n").unwrap();
            let run = |writable: bool, command: &str| {
                let mut spec = shell_session(command);
                spec.workdir = Some(given.path().to_owned());
                spec.writable = writable;
                output_and_end(sandbox, &spec).0
            };
            let command = "cat data; (echo x >made) 2>/dev/null && echo wrote; echo y >$HOME/y && echo home; \
                           [ \"$HOME\" = \"$PWD\" ] && echo same";
            assert_eq!(run(false, command), "theirs\nhome\n");
            assert!(!given.path().join("made").exists());
            assert_eq!(run(true, command), "theirs\nwrote\nhome\nsame\n");
            assert!(given.path().join("made").exists());
            let program = given.path().join("program");
            std::fs::write(&program, "#!/bin/sh\necho started\n").unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            assert_eq!(run(false, "./program"), "started\n");
            assert_eq!(
                run(true, "./program 2>/dev/null; sh program"),
                "started\n",
                "a writable program can be read but not executed"
            );
        },
    );
}

#[test]
fn further_paths_are_writable_and_only_program_directories_run_programs() {
    with_sandbox(
        |_| {},
        |sandbox, scratch| {
            let home = tempfile::tempdir_in(scratch.parent().unwrap()).unwrap();
            let at = |name: &str| home.path().join(name);
            for dir in ["cache", "docs", "beside"] {
                std::fs::create_dir(at(dir)).unwrap();
            }
            std::fs::write(at("file"), "old").unwrap();
            std::fs::write(at("secret"), "hidden").unwrap();
            let spec = SessionSpec {
                writable_paths: vec![at("docs"), at("file")],
                program_dirs: vec![at("cache")],
                ..SessionSpec::new(
                    "/bin/sh",
                    &[
                        "-c",
                        "cd $1; for dir in cache docs; do cp /bin/echo $dir/tool && $dir/tool ran in $dir; done
                         echo new > file && mv docs/tool cache/moved && cache/moved moved
                         echo x > beside/x; cat secret; rm file; ln cache/tool beside/tool; chmod 4755 cache/tool
                         echo x > $1/x; mv docs beside/docs",
                        "sh",
                        &home.path().display().to_string(),
                    ],
                )
            };
            let (stdout, stderr, _) = output_and_end(sandbox, &spec);
            assert_eq!(stdout, "ran in cache\nmoved\n", "{stderr}");
            assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "new\n");
            assert!(!at("beside/x").exists() && !at("x").exists() && !at("beside/tool").exists(), "{stderr}");
            assert!(at("docs").is_dir() && !stdout.contains("hidden"), "{stdout}{stderr}");
            let mode = std::fs::metadata(at("cache/tool")).unwrap().permissions();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o6000, 0, "no set-id bits");
            for bad in [PathBuf::from("/"), scratch.to_owned(), at("none"), PathBuf::from("relative")] {
                let spec = SessionSpec { program_dirs: vec![bad.clone()], ..SessionSpec::new("true", &[]) };
                assert!(sandbox.open_session(&spec).is_err(), "{}", bad.display());
            }
        },
    );
}

#[test]
fn a_session_cannot_access_other_paths() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let outside = tempfile::tempdir().unwrap();
            let canary = outside.path().join("canary");
            std::fs::write(&canary, "SECRET\n").unwrap();
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = tcp.local_addr().unwrap().port();
            let canary = canary.display();
            let command = format!(
                "cat {canary} && echo ESCAPED 1; echo x >>{canary} && echo ESCAPED 2; cat /proc/$PPID/status && echo ESCAPED 3; \
                 kill -0 $PPID && echo ESCAPED 4; (exec 5<>/dev/tcp/127.0.0.1/{port}) && echo ESCAPED 5; \
                 cat /etc/shadow && echo ESCAPED 6; unshare -U true && echo ESCAPED 7; echo x >/tmp/sbx_session && echo ESCAPED 8; \
                 ls /home /root && echo ESCAPED 9; python3 -c 'import socket; socket.socket(); print(\"ESCAPED 10\")'; \
                 ulimit -n 99999 && echo ESCAPED 11; (: >&5) && echo ESCAPED 12; (: >&3) && echo ESCAPED 13; echo end"
            );
            let mut spec = SessionSpec::new("/bin/bash", &["-c", &command]);
            spec.limits.open_files = 64;
            let (stdout, stderr, end) = output_and_end(sandbox, &spec);
            assert_eq!((stdout.as_str(), end.exit_code), ("end\n", Some(0)), "{stderr}");
        },
    );
}

#[test]
fn a_session_has_the_network_only_if_its_spec_says_so() {
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = tcp.local_addr().unwrap().port();
            let command = format!("exec 5<>/dev/tcp/127.0.0.1/{port} && echo connected");
            let mut spec = SessionSpec::new("/bin/bash", &["-c", &command]);
            assert_eq!(output_and_end(sandbox, &spec).0, "");
            spec.network = true;
            let (stdout, stderr, _) = output_and_end(sandbox, &spec);
            assert_eq!(stdout, "connected\n", "{stderr}");
            // The commands of the same sandbox still have no network.
            let record =
                sandbox.run(&Program::new(Language::Bash, Level::Shell, command.as_str()), &|| false);
            assert_eq!(record.stdout, "", "{record:#?}");
            spec.network = false;
            assert_eq!(output_and_end(sandbox, &spec).0, "");
        },
    );
}

#[test]
fn a_closed_port_is_closed_at_every_address_and_for_every_way_to_connect() {
    if !nanoclaw_sandbox::can_close_ports() {
        eprintln!("skipped: the kernel cannot close TCP ports");
        return;
    }
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let [closed, open] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            closed.set_nonblocking(true).unwrap();
            let [port, other] = [&closed, &open].map(|tcp| tcp.local_addr().unwrap().port());
            let code = format!(
                "import socket as s\n\
                 def attempt(family, address, send):\n\
                 \x20   with s.socket(family, s.SOCK_STREAM) as tcp:\n\
                 \x20       try: send(tcp, address); print('connected', address)\n\
                 \x20       except OSError as error: print(error.errno, end=' ')\n\
                 connect = lambda tcp, address: tcp.connect(address)\n\
                 attempt(s.AF_INET, ('127.0.0.1', {port}), connect)\n\
                 attempt(s.AF_INET, ('127.0.0.2', {port}), connect)\n\
                 attempt(s.AF_INET6, ('::ffff:127.0.0.1', {port}), connect)\n\
                 attempt(s.AF_INET, ('127.0.0.1', {port}), lambda tcp, a: tcp.sendto(b'x', s.MSG_FASTOPEN, a))\n\
                 attempt(s.AF_INET, ('127.0.0.1', {port}), lambda tcp, a: tcp.sendmsg([b'x'], [], s.MSG_FASTOPEN, a))\n\
                 attempt(s.AF_INET, ('127.0.0.1', {other}), connect)\n"
            );
            let mut spec = SessionSpec::new("python3", &["-c", &code]);
            (spec.network, spec.closed_ports) = (true, vec![port]);
            let (stdout, stderr, _) = output_and_end(sandbox, &spec);
            assert_eq!(stdout, format!("13 13 13 1 1 connected ('127.0.0.1', {other})\n"), "{stderr}");
            assert_eq!(closed.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        },
    );
}

const LOOP: &str = "const lines = require('readline').createInterface({input: process.stdin});\n\
        lines.on('line', (line) => { const {id} = JSON.parse(line); \
        console.log(JSON.stringify({jsonrpc: '2.0', id, result: require('answer')(id)})); });\n";

#[test]
fn node_runs_with_its_compiler_and_installed_packages() {
    let Some(node) = node() else { return };
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let (stdout, stderr, end) =
                output_and_end(sandbox, &SessionSpec::new(&node, &["-e", "console.log(1)"]));
            assert_eq!((stdout.as_str(), end.exit_code), ("1\n", Some(0)), "{stderr}");
            let packages = tempfile::tempdir().unwrap();
            let package = packages.path().join("node_modules/answer");
            std::fs::create_dir_all(&package).unwrap();
            std::fs::write(package.join("index.js"), "module.exports = (id) => id * 2;").unwrap();
            std::fs::write(packages.path().join("server.js"), LOOP).unwrap();
            let given = tempfile::tempdir().unwrap();
            let server = packages.path().join("server.js").display().to_string();
            let mut spec = SessionSpec::new("node", &[&server]);
            spec.readable = vec![packages.path().to_owned()];
            spec.workdir = Some(given.path().to_owned());
            spec.writable = true;
            let mut session = sandbox.open_session(&spec).unwrap();
            let mut stdin = session.take_stdin().unwrap();
            let mut stdout = BufReader::new(session.take_stdout().unwrap());
            for id in 0..50 {
                writeln!(stdin, "{{\"id\":{id}}}").unwrap();
                let mut answer = String::new();
                stdout.read_line(&mut answer).unwrap();
                let mut stderr = String::new();
                if answer.is_empty() {
                    session.take_stderr().unwrap().read_to_string(&mut stderr).unwrap();
                }
                assert_eq!(
                    answer,
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}}\n", id * 2),
                    "{stderr}"
                );
            }
            drop(stdin);
            assert_eq!(session.wait_for(EVENT_TIMEOUT).unwrap().exit_code, Some(0));
        },
    );
}

#[test]
fn node_is_confined_like_other_programs() {
    let Some(node) = node() else { return };
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let outside = tempfile::tempdir().unwrap();
            let canary = outside.path().join("canary");
            std::fs::write(&canary, "SECRET").unwrap();
            let script = format!(
                "const fs = require('fs');\n\
                 for (const path of ['{}', '/etc/shadow', '/proc/1/environ']) {{ try {{ fs.readFileSync(path); console.log('ESCAPED', path) }} catch {{ }} }}\n\
                 const socket = require('net').connect(80, '127.0.0.1');\n\
                 socket.on('connect', () => console.log('ESCAPED')).on('error', (error) => console.log(error.code));",
                canary.display()
            );
            let (stdout, stderr, _) = output_and_end(sandbox, &SessionSpec::new(&node, &["-e", &script]));
            assert_eq!(stdout, "EPERM\n", "{stderr}");
        },
    );
}

#[test]
fn node_runs_hot_loops_and_has_webassembly() {
    let Some(node) = node() else { return };
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let script = "let n = 0; for (let i = 0; i < 3e7; i++) n = (n + i) % 1000003; \
                          console.log(n, process.execArgv.length, typeof WebAssembly)";
            let (stdout, stderr, _) = output_and_end(sandbox, &SessionSpec::new(&node, &["-e", script]));
            assert!(stdout.ends_with("object\n"), "WebAssembly needs the compiler: {stdout}{stderr}");
        },
    );
}

#[test]
fn npx_starts_an_installed_package() {
    let Some(_) = node() else { return };
    if !Path::new("/usr/bin/npx").exists() {
        writeln!(std::io::stderr(), "SKIPPED: there is no npx on this machine").expect("stderr");
        return;
    }
    with_sandbox(
        |_| {},
        |sandbox, _| {
            let given = tempfile::tempdir().unwrap();
            let package = given.path().join("node_modules/tool");
            std::fs::create_dir_all(&package).unwrap();
            std::fs::create_dir_all(given.path().join("node_modules/.bin")).unwrap();
            let manifest = "{\"name\":\"tool\",\"version\":\"1.0.0\",\"bin\":{\"tool\":\"tool.js\"}}";
            std::fs::write(package.join("package.json"), manifest).unwrap();
            std::fs::write(
                package.join("tool.js"),
                "#!/usr/bin/env node\nconsole.log('from the package');\n",
            )
            .unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(package.join("tool.js"), mode).unwrap();
            std::os::unix::fs::symlink("../tool/tool.js", given.path().join("node_modules/.bin/tool"))
                .unwrap();
            std::fs::write(given.path().join("package.json"), "{\"dependencies\":{\"tool\":\"1.0.0\"}}")
                .unwrap();
            let mut spec = SessionSpec::new("npx", &["--offline", "--no-install", "tool"]);
            spec.workdir = Some(given.path().to_owned());
            let (stdout, stderr, end) = output_and_end(sandbox, &spec);
            assert_eq!((stdout.as_str(), end.exit_code), ("from the package\n", Some(0)), "{stderr}");
        },
    );
}
