//! What a session can reach: directories, the network, and what Node.js needs of both.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use nanoclaw_sandbox::{Language, Level, Program, SessionSpec};

use crate::support::session::{EVENT_TIMEOUT, output_and_end, shell_session, with_sandbox};

fn node() -> Option<PathBuf> {
    let found = ["/usr/bin/node", "/usr/local/bin/node"].iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        writeln!(std::io::stderr(), "SKIPPED: there is no node on this machine").expect("stderr");
    }
    found
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
