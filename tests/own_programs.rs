//! A job writes a program and runs it with `bash`: C, Rust, Python and shell in one directory, at the default
//! strictness and at lenient.

use crate::support::turns::{TurnServer, write};
use serde_json::{Value, json};
use std::io::Write as _;

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command, "timeout": 300}))
}

const C: &str = "#include <stdio.h>\nint main(void) { puts(\"hello from c\"); }\n";
const CONFIGURE: &str = "#!/bin/sh\nsed s/@name@/configured/ Makefile.in >Makefile\n";

/// The programs that a build needs, its two calls, and the end of the second one's output.
const BUILDS: &[(&str, &str, &str, &str)] = &[
    ("gcc", "gcc hello.c -o hello", "./hello", "hello from c\n"),
    ("make", "chmod +x configure && ./configure", "make -s", "configured\n"),
    ("cargo", "cargo new --quiet greeter", "cd greeter && cargo run --quiet --offline", "Hello, world!\n"),
    (
        "python3",
        "python3 -m venv env",
        "env/bin/python -c 'print(6 * 7)' && env/bin/pip --version | cut -c1-3",
        "42\npip\n",
    ),
    (
        "sh",
        "mkdir a b; echo moved >a/f; touch -d @7 a/f; cp -p a/f a/g; mv a/f a/g b",
        "cat b/f; stat -c %Y b/g",
        "moved\n7\n",
    ),
];

#[test]
fn a_job_builds_programs_and_runs_them() {
    for config in ["", "code_execution: {default_strictness: lenient}\n"] {
        let fixture = TurnServer::start(config);
        let files = [
            write("hello.c", C),
            write("configure", CONFIGURE),
            write("Makefile.in", "all:\n\t@echo @name@\n"),
        ];
        let (make, run): (Vec<_>, Vec<_>) = BUILDS
            .iter()
            .map(|(program, make, run, _)| {
                let guarded =
                    |code: &str| bash(&format!("command -v {program} >/dev/null || exit 99; {code}"));
                (guarded(make), guarded(run))
            })
            .unzip();
        let (_, results) = fixture.run(&[&files, &make, &run]);
        let outcomes = &results[files.len()..];
        for (index, (program, make, run, expected)) in BUILDS.iter().enumerate() {
            let (first, second) = (&outcomes[index], &outcomes[BUILDS.len() + index]);
            if first["data"]["exit_code"] == 99 {
                writeln!(std::io::stderr(), "SKIPPED: no {program} for commands").expect("standard error");
                continue;
            }
            assert_eq!(first["success"], true, "{make}: {first}");
            let output = second["data"]["output"].as_str().unwrap_or_default();
            assert!(output.ends_with(expected), "{run}: {second}");
        }
    }
}

#[test]
fn own_programs_are_refused_if_the_configuration_says_so() {
    let fixture = TurnServer::start("code_execution: {shell_run_own_files: false}\n");
    let (_, results) = fixture.run(&[&[bash("cp /bin/echo mine; ./mine no")], &[bash("sh -c 'echo read'")]]);
    assert_eq!(results[0]["data"]["exit_code"], 126, "{}", results[0]);
    assert_eq!(results[1]["data"]["output"], "read\n", "{}", results[1]);
}
