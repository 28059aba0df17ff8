//! Runs the READMEs: curl lines in a shell against a real server, configurations through `config check`.
//! Compares their figures with BENCHMARKS.md.

use crate::support::Server;
use std::io::Write as _;
use std::process::Command;

const ENGLISH: &str = include_str!("../README.md");
const CHINESE: &str = include_str!("../README.zh-CN.md");
const BENCHMARKS: &str = include_str!("../BENCHMARKS.md");

/// The output of the lines if the text around them is true.
const EXPECTED_OUTPUT: [&str; 14] = [
    "HTTP/1.1 202",
    "391",
    "5050",
    "\"type\":\"thinking\"",
    "id: 8\n",
    "\"offset\":",
    "\"has_more\":",
    "\"custom_id\":\"b\"",
    "\"cron\":\"30 7 * * MON-FRI\"",
    "msg_",
    "user_1/uploaded",
    "\"object\":\"chat.completion\"",
    "nanoclaw_jobs_",
    "\"status\":\"ok\"",
];

fn blocks<'a>(readme: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    readme.split(&fence).skip(1).filter_map(|block| block.split("\n```\n").next()).collect()
}

fn paste_curl_lines(readme: &str) {
    if Command::new("curl").arg("--version").output().is_err() {
        writeln!(std::io::stderr(), "SKIPPED: curl is not installed, so the README's lines were not run")
            .expect("stderr");
        return;
    }
    let lines: Vec<&str> = blocks(readme, "sh").into_iter().filter(|block| block.contains("curl ")).collect();
    assert!(lines.len() >= 10, "the README has too few examples");
    // The recipe for webhooks asks for this setting.
    let server = Server::start_with("webhooks: {allow_private_addresses: [127.0.0.1]}");
    let script =
        format!("set -euo pipefail\n{}\n", lines.join("\n").replace("http://127.0.0.1:8787", &server.url));
    assert!(script.contains(&server.url));
    // The examples write files into the server's directory, not into the repository.
    let ran = Command::new("bash").arg("-c").arg(&script).current_dir(&server.dir).output().expect("bash");
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{out}\n{}", String::from_utf8_lossy(&ran.stderr));
    for expected in EXPECTED_OUTPUT {
        assert!(out.contains(expected), "'{expected}' is missing in:\n{out}");
    }
}

#[test]
fn every_curl_line_of_the_readme_works_as_pasted() {
    paste_curl_lines(ENGLISH);
}

#[test]
fn every_curl_line_of_the_chinese_readme_works_as_pasted() {
    paste_curl_lines(CHINESE);
}

#[test]
fn every_configuration_of_the_readmes_is_accepted() {
    let dir = tempfile::tempdir().expect("a directory");
    let both = [blocks(ENGLISH, "yaml"), blocks(CHINESE, "yaml")].concat();
    assert!(both.len() >= 4, "the READMEs have too few configurations");
    for block in both {
        let file = dir.path().join("config.yml");
        std::fs::write(&file, block).expect("write the configuration");
        std::fs::create_dir_all(dir.path().join("tools")).expect("tools_dir of the example");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nanoclaw"));
        command.current_dir(dir.path()).args(["config", "check", "--config"]).arg(&file);
        command.env_remove("NANOCLAW_TEST_STORE");
        for key in [
            "DEEPSEEK_API_KEY",
            "GLM_API_KEY",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "PASSWORD",
            "OTLP_AUTHORIZATION",
        ] {
            command.env(key, "sk-example");
        }
        let checked = command.output().expect("nanoclaw");
        assert!(checked.status.success(), "{block}\n{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn both_readmes_have_the_same_recipes() {
    assert!(!ENGLISH.contains("@@") && !CHINESE.contains("@@"), "a placeholder is left");
    let recipes = |readme: &'static str| -> Vec<String> {
        let lines = blocks(readme, "sh").join("\n");
        lines.lines().map(|line| line.split(" #").next().unwrap_or_default().trim_end().to_owned()).collect()
    };
    assert_eq!(recipes(ENGLISH), recipes(CHINESE));
}

/// The measured values of a README: the figures with a unit in its comparison, in order.
fn measured_values(readme: &str) -> Vec<String> {
    let (_, comparison) = readme
        .split_once("\n## How it compares\n")
        .or_else(|| readme.split_once("\n## 对比\n"))
        .expect("a comparison");
    let comparison = comparison.split("\n## ").next().expect("its text");
    let figure = regex::Regex::new(r"[0-9][0-9.,]*(?: ms| MiB|/s)").expect("a pattern");
    figure.find_iter(comparison).map(|found| found.as_str().to_owned()).collect()
}

#[test]
fn every_figure_of_the_readmes_appears_in_the_benchmarks() {
    let english = measured_values(ENGLISH);
    assert!(english.len() >= 10, "{english:?}");
    assert_eq!(english, measured_values(CHINESE));
    for figure in &english {
        assert!(BENCHMARKS.contains(&format!(" {figure} ")), "BENCHMARKS.md has no {figure}");
    }
}

/// The level of each heading, and the number of its tables, lists and code blocks.
fn structure(readme: &str) -> Vec<(usize, usize, usize)> {
    let mut sections = Vec::new();
    for line in readme.lines() {
        let level = line.chars().take_while(|c| *c == '#').count();
        let is_heading = level > 0 && line[level..].starts_with(' ') && line.len() > level + 2;
        match sections.last_mut() {
            _ if is_heading => sections.push((level, 0, 0)),
            Some((_, fences, _)) if line.starts_with("```") => *fences += 1,
            Some((_, _, rows)) if line.starts_with('|') => *rows += 1,
            _ => {}
        }
    }
    sections
}

#[test]
fn both_readmes_have_the_same_structure() {
    assert_eq!(structure(ENGLISH), structure(CHINESE));
    let (_, start) = ENGLISH.split_once("\n## Quick start\n").expect("a quick start");
    let page = start.split("\n## ").next().expect("its text");
    assert!(page.lines().count() <= 60, "the quick start is one page: {}", page.lines().count());
}

#[test]
fn measured_values_appear_only_in_the_comparison() {
    let figure = regex::Regex::new(r"[0-9][0-9.,]*(?: ms| MiB|/s)\b").expect("a pattern");
    for (readme, comparison) in [(ENGLISH, "\n## How it compares\n"), (CHINESE, "\n## 对比\n")] {
        let (before, _) = readme.split_once(comparison).expect("a comparison");
        // Code blocks hold examples, not measurements.
        let prose = before.split("\n```").step_by(2).collect::<Vec<_>>().concat();
        let found: Vec<&str> = figure.find_iter(&prose).map(|found| found.as_str()).collect();
        assert_eq!(found, [""; 0], "a second place for a figure soon has another value");
    }
}
