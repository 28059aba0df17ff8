//! The README's curl lines, pasted as they stand into a shell, against a real server.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts processes"
)]

mod support;

use std::process::Command;
use support::Server;

#[test]
fn every_curl_line_of_the_readme_works_as_pasted() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: curl is not installed, so the README's lines were not run");
        return;
    }
    let readme = include_str!("../README.md");
    let blocks: Vec<&str> =
        readme.split("```sh\n").skip(1).filter_map(|b| b.split("\n```\n").next()).collect();
    let lines: Vec<&str> = blocks.into_iter().filter(|b| b.contains("curl ")).collect();
    assert!(lines.len() >= 5, "the README has lost its examples");
    let server = Server::start();
    let script =
        format!("set -euo pipefail\n{}\n", lines.join("\n").replace("http://127.0.0.1:8787", &server.url));
    assert!(script.contains(&server.url));
    // What the examples write lies in the server's directory, not in the repository.
    let ran = Command::new("bash").arg("-c").arg(&script).current_dir(&server.dir).output().expect("bash");
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{out}\n{}", String::from_utf8_lossy(&ran.stderr));
    for wanted in
        ["HTTP/1.1 202", "391", "5050", "\"type\":\"thinking\"", "id: 8\n", "\"offset\":", "\"has_more\":"]
    {
        assert!(out.contains(wanted), "'{wanted}' is missing in:\n{out}");
    }
}
