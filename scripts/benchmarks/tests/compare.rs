//! Runs the benchmark program as `scripts/bench --compare` does, with a file as the server's binary. The only
//! group is the size of that file, so that each value is known.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test panics, and this one starts a program"
)]

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn bench(directory: &Path, arguments: &[&str]) -> Output {
    let binary = directory.join("binary");
    fs::write(&binary, vec![0; 1 << 20]).expect("a binary");
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchmarks"));
    command.args(arguments).arg("size").current_dir(directory).env("BENCH_BINARY", binary);
    command.output().expect("the program")
}

/// Changes the size in a file of results by a factor.
fn scale_size(file: &Path, factor: f64) {
    let mut run: Value = serde_json::from_slice(&fs::read(file).expect("results")).expect("JSON");
    let figures = run["figures"].as_array_mut().expect("figures");
    let size = figures.iter_mut().find(|figure| figure["key"] == "size.binary").expect("a size");
    size["value"] = json!(size["value"].as_f64().expect("a number") * factor);
    fs::write(file, run.to_string()).expect("write");
}

#[test]
fn compare_exits_with_1_if_and_only_if_a_figure_has_become_worse() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, file) = (bench(directory.path(), &["--json", "old.json"]), directory.path().join("old.json"));
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let same = bench(directory.path(), &["--compare", "old.json"]);
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    scale_size(&file, 0.8);
    let worse = bench(directory.path(), &["--compare", "old.json"]);
    assert_eq!(worse.status.code(), Some(1), "{worse:?}");
    assert!(String::from_utf8_lossy(&worse.stdout).contains("0.8 MiB → 1.0 MiB, 20 % worse"), "{worse:?}");
}

#[test]
fn a_missing_or_foreign_file_to_compare_with_is_refused_before_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("foreign.json"), "{}").expect("write");
    for file in ["missing.json", "foreign.json"] {
        let refused = bench(directory.path(), &["--compare", file]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(!String::from_utf8_lossy(&refused.stderr).contains("size"), "{refused:?}");
    }
}
