//! Unusual program texts: each run has a defined status and leaves nothing behind.

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus};

use crate::support::{self, javascript, python};

const LONGEST: usize = 1024 * 1024;

fn run_all(programs: &[Program]) -> Vec<RunRecord> {
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let records = programs.iter().map(|program| sandbox.run(program, &|| false)).collect();
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
    records
}

fn run(program: Program) -> RunRecord {
    run_all(&[program]).remove(0)
}

/// A program of exactly this length that prints 1.
fn of_length(language: Language, bytes: usize) -> Program {
    let (code, comment) = match language {
        Language::Python => ("print(1)\n", '#'),
        _ => ("console.log(1)\n", '/'),
    };
    let code = code.to_owned() + &comment.to_string().repeat(bytes - code.len());
    assert_eq!(code.len(), bytes);
    Program::new(language, Level::Standard, code)
}

#[test]
fn a_program_of_the_maximum_length_runs_and_a_longer_one_is_refused() {
    let _turn = support::exclusive();
    for language in [Language::Python, Language::JavaScript] {
        for bytes in [LONGEST - 1, LONGEST] {
            let record = run(of_length(language, bytes));
            assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, "1\n"), "{language} {bytes}");
        }
        let record = run(of_length(language, LONGEST + 1));
        assert_eq!(
            (record.status, record.limit.as_deref()),
            (RunStatus::SyntaxError, Some("code_bytes")),
            "{language}"
        );
        let message = record.error.unwrap();
        assert!(message.contains("1048577 bytes") && message.contains("the limit is 1048576"), "{message}");
    }
}

#[test]
fn empty_text_and_nul_bytes_are_refused_at_every_level() {
    let _turn = support::exclusive();
    for level in Level::FOR_CODE {
        for (code, text) in [
            ("", "empty"),
            (" \n\t\r\n", "empty"),
            ("\u{feff}", "empty"),
            ("x = 1\ny = '\0'", "line 2: the program holds a NUL byte"),
            ("\0", "line 1: the program holds a NUL byte"),
        ] {
            for program in [python(level, code), javascript(level, code)] {
                let record = run(program);
                assert_eq!(record.status, RunStatus::SyntaxError, "{code:?}: {record:#?}");
                let message = record.error.unwrap();
                assert!(message.contains(text) && record.stderr.contains(text), "{code:?}: {message}");
            }
        }
    }
}

#[test]
fn byte_order_marks_and_other_line_ends_are_accepted() {
    let _turn = support::exclusive();
    let records = run_all(&[
        python(Level::Standard, "\u{feff}print(1)"),
        python(Level::Standard, "\u{feff}#!/usr/bin/python3\nprint(1)"),
        python(Level::Standard, "if True:\r\n    print(1)\r\n"),
        python(Level::Standard, "x = 1\rprint(x)\r"),
        python(Level::Standard, "\u{c}\nx = 1\n\u{c}\nprint(x)"),
        python(Level::Standard, "# -*- coding: latin-1 -*-\nprint(len('é'))"),
        javascript(Level::Standard, "\u{feff}console.log(1)"),
        javascript(Level::Standard, "\u{feff}#!/usr/bin/env node\r\nconsole.log(1)\r\n"),
        javascript(Level::Standard, "let x = 1\u{2028}console.log(x)"),
    ]);
    for record in records {
        assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, "1\n"), "{record:#?}");
    }
}

#[test]
fn a_traceback_quotes_the_line_that_it_names() {
    let _turn = support::exclusive();
    for code in ["x = '\u{2028}'\n1/0 # here", "x = 1\u{c}\n1/0 # here", "x = '\u{1c}'\r\n1/0 # here"] {
        let message = run(python(Level::Standard, code)).error.unwrap();
        assert!(message.contains("line 2") && message.contains("1/0 # here"), "{code:?}: {message}");
    }
}

#[test]
fn prose_gives_a_syntax_error_with_its_line() {
    let _turn = support::exclusive();
    let prose = "Dear model,\nthis is not a program.\n";
    for program in [python(Level::Strict, prose), javascript(Level::Strict, prose)] {
        let record = run(program);
        assert_eq!(record.status, RunStatus::SyntaxError, "{record:#?}");
        assert!(record.error.unwrap().starts_with("line 1: "), "{}", record.stderr);
    }
    let fenced = run(python(Level::Strict, "```python\nprint(1)\n```"));
    assert_eq!(fenced.status, RunStatus::SyntaxError, "{fenced:#?}");
}

#[test]
fn deep_nesting_is_reported_and_never_crashes() {
    let _turn = support::exclusive();
    let deep =
        |open: &str, core: &str, close: &str, times: usize| open.repeat(times) + core + &close.repeat(times);
    for (code, status, text) in [
        (deep("(", "1", ")", 5_000), RunStatus::SyntaxError, "too many nested parentheses"),
        (deep("[", "1", "]", 100_000), RunStatus::SyntaxError, "too many nested parentheses"),
        (deep("-", "1", "", 100_000), RunStatus::SyntaxError, "nested too deeply for Python's parser"),
        (deep("not ", "1", "", 100_000), RunStatus::SyntaxError, "nested too deeply for Python's parser"),
        (deep("1+", "1", "", 100_000), RunStatus::SyntaxError, "nested too deeply for Python's compiler"),
        (deep("", "x", ".a", 100_000), RunStatus::SyntaxError, "nested too deeply for Python's compiler"),
        ((0..120).map(|depth| " ".repeat(depth) + "if 1:\n").collect(), RunStatus::SyntaxError, "line 101"),
    ] {
        let record = run(python(Level::Strict, &code));
        let message = record.error.as_deref().unwrap_or_default();
        assert!(
            matches!(record.status, RunStatus::SyntaxError | RunStatus::Error) && message.len() < 16 * 1024,
            "{text}: {record:#?}"
        );
        // It depends on the interpreter's version which of its limits is reached first.
        let is_deep =
            ["nested", "too many", "recursion", "indentation"].iter().any(|word| message.contains(word));
        assert!(is_deep, "{text}, {status}: {message:.400}");
    }
    for code in [deep("(", "1", ")", 100_000), deep("[", "1", "]", 200_000), deep("{", "", "}", 300_000)] {
        let record = run(javascript(Level::Strict, &code));
        assert!(
            matches!(record.status, RunStatus::SyntaxError | RunStatus::Error | RunStatus::Ok),
            "{:.20}: {:.300}",
            code,
            format!("{record:?}")
        );
    }
}

#[test]
fn running_out_of_memory_in_the_compiler_is_out_of_memory() {
    let _turn = support::exclusive();
    let record = run(python(Level::Strict, &format!("x = [{}]", "1,".repeat(500_000))));
    assert_eq!(
        (record.status, record.limit.as_deref(), record.exit_code),
        (RunStatus::Oom, Some("address_space_bytes"), None),
        "{record:#?}"
    );
    assert!(record.error.unwrap().contains("while it was compiled"), "{}", record.stderr);
    assert!(record.max_rss_kb > 128 * 1024);
}

#[test]
fn a_program_of_100_000_lines_runs() {
    let _turn = support::exclusive();
    let lines = "x=1\n".repeat(100_000);
    // A few seconds' work, more on a busy machine.
    let mut program = python(Level::Standard, &(lines.clone() + "print(x)"));
    program.timeout_ms = Some(60_000);
    let record = run(program.clone());
    assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, "1\n"), "{record:#?}");
    program.code = lines.clone() + "import os";
    let record = run(program);
    assert!(record.error.unwrap().starts_with("line 100001: module 'os'"), "{}", record.stderr);
    let record = run(javascript(Level::Standard, &(lines + "console.log(x)")));
    assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, "1\n"), "{record:#?}");
}

#[test]
fn a_long_error_message_is_truncated_and_stays_an_error() {
    let _turn = support::exclusive();
    for (program, text) in [
        (python(Level::Strict, &"a".repeat(1_000_000)), "is not defined"),
        (python(Level::Strict, &format!("x = '{}'\n1/0", "é".repeat(400_000))), "ZeroDivisionError"),
        (python(Level::Strict, "raise ValueError('é' * 1_000_000)"), "ValueError"),
        (python(Level::Strict, "def f(): f()\nf()"), "RecursionError"),
        (javascript(Level::Strict, "throw new Error('é'.repeat(1e6))"), "Error: é"),
        (javascript(Level::Strict, &"a".repeat(1_000_000)), "ReferenceError"),
    ] {
        let record = run(program);
        assert_eq!(record.status, RunStatus::Error, "{text}: {:?} {:?}", record.status, record.limit);
        let message = record.error.unwrap();
        assert!(message.contains(text) && message.len() < 17 * 1024, "{message}");
        assert!(record.stderr.contains(text) && record.stderr.len() < 9 * 1024, "{}", record.stderr.len());
    }
}
