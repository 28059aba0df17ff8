//! The standard input of a command; `/dev/null` for programs without one.

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox};

use crate::support;

/// The maximal length of the input.
const MOST: usize = 1024 * 1024;

fn with_input(stdin: &[u8], code: &str) -> Program {
    Program { stdin: Some(stdin.to_vec()), ..Program::new(Language::Bash, Level::Shell, code) }
}

fn run(sandbox: &Sandbox, program: &Program) -> RunRecord {
    sandbox.run(program, &|| false)
}

#[test]
fn a_command_reads_its_whole_input() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for (stdin, code, stdout) in [
        (&b"{\"a\":1}"[..], "cat", "{\"a\":1}"),
        (b"", "cat; echo end", "end\n"),
        (b"one\ntwo\nthree\n", "read first; echo \"$first\"; cat | tail -1", "one\nthree\n"),
        (b"one\ntwo\n", "(read a; echo $a); read b; echo $b", "one\ntwo\n"),
        (b"nobody reads it", "echo 1", "1\n"),
        (b"\0\xff\xfe", "od -An -tx1 | tr -d ' \\n'", "00fffe"),
        (b"{\"n\": 41}", "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"n\"] + 1)'", "42\n"),
    ] {
        let record = run(&sandbox, &with_input(stdin, code));
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, stdout), "{code}: {record:#?}");
    }
    let record = run(&sandbox, &with_input(&vec![b'x'; MOST], "wc -c"));
    assert_eq!(record.stdout.trim(), MOST.to_string(), "{record:#?}");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_command_without_input_reads_nothing() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let without_input = Program::new(Language::Bash, Level::Shell, "cat; echo end");
    assert_eq!(run(&sandbox, &without_input).stdout, "end\n");
    let given = run(&sandbox, &with_input(b"x", "python3 -c 'import os; print(os.fstat(0).st_size)'"));
    let null = Program::new(
        Language::Bash,
        Level::Shell,
        "python3 -c 'import os; print(os.fstat(0).st_rdev == os.stat(\"/dev/null\").st_rdev)'",
    );
    assert_eq!((given.stdout.as_str(), run(&sandbox, &null).stdout.as_str()), ("1\n", "True\n"));
}

#[test]
fn the_input_can_be_neither_changed_nor_executed() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let record = run(
        &sandbox,
        &with_input(
            b"#!/bin/sh\necho ESCAPED\n",
            "echo x >&0; python3 -c 'import os\nfor act in (lambda: os.write(0, b\"x\"), lambda: os.ftruncate(0, 0),\n    \
                 lambda: os.execve(0, [\"x\"], {})):\n    try: act(); print(\"ESCAPED\")\n    except OSError as error: print(error.errno)'",
        ),
    );
    assert_eq!(record.stdout, "1\n1\n13\n", "EPERM of the seals, EACCES of the mode: {record:#?}");
}

#[test]
fn only_commands_have_an_input_and_it_is_limited() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let long = run(&sandbox, &with_input(&vec![b'x'; MOST + 1], "cat"));
    assert_eq!(long.status, RunStatus::SandboxError);
    assert!(long.error.unwrap().contains("the limit is 1048576"));
    for (language, level) in [(Language::Python, Level::Lenient), (Language::JavaScript, Level::Standard)] {
        let program = Program { stdin: Some(Vec::new()), ..Program::new(language, level, "1") };
        let record = run(&sandbox, &program);
        assert_eq!(record.status, RunStatus::SandboxError);
        assert!(record.error.unwrap().contains("has no standard input"));
    }
}
