//! Compares help pages, errors with hints, and the output of a job, plain and coloured, with
//! `tests/snapshots`. `UPDATE_SNAPSHOTS=1 cargo test --test all snapshots` rewrites them.

use crate::support::{Server, command};
use regex::Regex;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Maximum lines of the help page of a command, and of the first page.
const PAGE_LINES: usize = 32;
const FIRST_PAGE_LINES: usize = 40;

const COLUMNS: usize = 80;

/// Patterns that differ from run to run, and their replacements.
const FILTERS: &[(&str, &str)] = &[
    (r"job_[0-9A-HJKMNP-TV-Z]{26}", "job_ID"),
    (r"(job_ID +[a-z]+) +\d+[smhd] +\d+[smhd] +\d+ ", "$1 AGE TIME N "),
    (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:PORT"),
    (r"\d+ tokens \(\d+ in, \d+ out\)", "N tokens (N in, N out)"),
    (r", \d+\.\d s", ", N s"),
    (r" \(\d+\.\d s\)", ""),
    (r"nanoclaw \d+\.\d+\.\d+", "nanoclaw VERSION"),
];

fn check(name: &str, text: &str) {
    let mut text = text.to_owned();
    for (pattern, replacement) in FILTERS {
        text = Regex::new(pattern).expect("a pattern").replace_all(&text, *replacement).into_owned();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, &text).expect("written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, stored, "{name}: UPDATE_SNAPSHOTS=1 rewrites it, if this is how it should be");
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = command(arguments);
    command.envs(variables.iter().copied()).env("COLUMNS", COLUMNS.to_string());
    command.stdin(Stdio::null()).output().expect("the binary runs")
}

/// The transcript of a command: its arguments, output and exit code.
fn transcript(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(arguments, variables);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8").replace('\u{1b}', "␛");
    let mut log = format!("$ nanoclaw {}\n", arguments.join(" "));
    for (stream, bytes) in [("out", &output.stdout), ("err", &output.stderr)] {
        for line in text(bytes).lines() {
            writeln!(log, "{stream}| {line}").expect("written");
        }
    }
    writeln!(log, "exit {}\n", output.status.code().expect("a code")).expect("written");
    log
}

/// The names of all commands, from their manual pages.
fn commands(dir: &Path) -> Vec<Vec<String>> {
    let output = run(&["man", dir.to_str().expect("UTF-8")], &[]);
    assert!(output.status.success());
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    let pages: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
    assert!(pages.len() > 25 && pages.iter().all(|page| page.is_file()), "{listed}");
    let command_words = |page: &PathBuf| {
        let stem = page.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        stem.splitn(3, '-').skip(1).map(str::to_owned).collect()
    };
    pages.iter().map(command_words).collect()
}

#[test]
fn every_help_page_fits_a_screen() {
    let dir = tempfile::tempdir().expect("a directory");
    for words in commands(dir.path()) {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = run(&arguments, &[]);
        let page = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
        let max_lines = if words.is_empty() { FIRST_PAGE_LINES } else { PAGE_LINES };
        assert!(page.lines().count() <= max_lines, "{words:?} has {} lines:\n{page}", page.lines().count());
        for line in page.lines() {
            // An example is one line, so that it can be copied.
            let is_example = line.trim_start().contains("nanoclaw ");
            assert!(is_example || line.chars().count() <= COLUMNS, "{words:?}: {line}");
        }
        arguments.pop();
        arguments.push("-h");
        assert_eq!(String::from_utf8(run(&arguments, &[]).stdout).expect("UTF-8"), page, "{words:?}");
        let name = if words.is_empty() { "nanoclaw".to_owned() } else { words.join("-") };
        check(&format!("help/{name}"), &page);
    }
}

#[test]
fn errors_have_a_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("bad.yml"), "lisen: 127.0.0.1:1\n").expect("written");
    let bad = dir.path().join("bad.yml").to_str().expect("UTF-8").to_owned();
    let server = Server::start();
    let online = |words: &[&str]| transcript(words, &[("NANOCLAW_SERVER", server.url.as_str())]);
    let offline = |words: &[&str]| transcript(words, &[("NANOCLAW_SERVER", "http://127.0.0.1:9")]);
    let unknown = "job_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let all = [
        offline(&["batchs"]),
        offline(&["ask"]),
        offline(&["ask", "x", "--strict", "lenient"]),
        offline(&["ask", "x", "--strictness", "none"]),
        offline(&["jobs", "--status", "lost"]),
        offline(&["ask", "x"]),
        offline(&["jobs", "--json"]),
        offline(&["tail", "../x"]),
        offline(&["jobs", "--server", "nonsense"]),
        offline(&["exec", "noending"]),
        offline(&["config", "check", "--config", &bad]),
        offline(&["config", "check", "--json", "--config", &bad]),
        online(&["ask", "x", "--model", "nope"]),
        online(&["ask", "x", "--project", "proj_01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
        online(&["tail", unknown]),
        online(&["cancel", unknown, "--json"]),
    ];
    let dir = dir.path().display().to_string();
    check("errors", &all.concat().replace(&dir, "DIR"));
}

#[test]
fn a_job_is_printed_plain_in_pipes_and_coloured_on_request() {
    let server = Server::start();
    let prompt = "tool: calculator {\"expression\": \"17*23\"}\ntool: calculator {\"expression\": \"17*\"}";
    let ask = ["ask", "--thinking", prompt];
    let plain = transcript(&ask, &[("NANOCLAW_SERVER", &server.url)]);
    check("ask-plain", &plain);
    let coloured = transcript(&ask, &[("NANOCLAW_SERVER", &server.url), ("CLICOLOR_FORCE", "1")]);
    check("ask-coloured", &coloured);
    check("jobs", &transcript(&["jobs"], &[("NANOCLAW_SERVER", &server.url)]));
    let quiet =
        transcript(&ask, &[("NANOCLAW_SERVER", &server.url), ("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]);
    assert!(!quiet.contains('␛'), "NO_COLOR wins over CLICOLOR_FORCE: {quiet}");
}

#[test]
fn completion_scripts_parse() {
    let dir = tempfile::tempdir().expect("a directory");
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell], &[]);
        let script = dir.path().join(shell);
        assert!(output.status.success() && output.stdout.len() > 1_000, "{shell}");
        std::fs::write(&script, &output.stdout).expect("written");
        // Only bash is installed on every machine.
        match std::process::Command::new(shell).arg("-n").arg(&script).output() {
            Ok(parsed) => assert!(parsed.status.success(), "{shell}: {parsed:?}"),
            Err(error) => assert!(shell != "bash", "{shell}: {error}"),
        }
    }
}

#[test]
fn man_prints_a_manual_page() {
    let page = String::from_utf8(run(&["man"], &[]).stdout).expect("UTF-8");
    assert!(page.contains(".TH nanoclaw 1") && page.contains("nanoclaw\\-ask(1)"), "{page}");
}
