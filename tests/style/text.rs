//! Checks the shape of text and folders: short lines in Markdown and comments, and one module style.

use super::{DOCUMENTS, name, root, rust_files};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum characters in a line of Markdown or of a comment.
const MAX_CHARACTERS: usize = 110;
/// Maximum lines of ARCHITECTURE.md.
const MAX_ARCHITECTURE_LINES: usize = 250;

fn has_source(folder: &Path) -> bool {
    let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.any(|entry| entry.path().extension().is_some_and(|e| e == "rs"))
}

fn read(path: &PathBuf) -> String {
    fs::read_to_string(path).expect("readable text")
}

/// The lines of a document that are too long. Table rows and fenced commands cannot be broken; a line
/// without a space is an address.
fn long_lines(document: &str, text: &str) -> Vec<String> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        let is_row = line.trim_start().starts_with('|') && document != "ARCHITECTURE.md";
        let is_address = !line.trim_start_matches(['-', ' ', '[']).contains(' ');
        let length = line.chars().count();
        if length > MAX_CHARACTERS && !is_code && !is_row && !is_address {
            found.push(format!("{document}:{}: {length} characters", number + 1));
        }
    }
    found
}

#[test]
fn markdown_has_short_lines() {
    let texts = DOCUMENTS
        .iter()
        .chain(&["sandbox/README.md"])
        .map(|document| (document, read(&root().join(document))));
    let found: Vec<String> = texts.flat_map(|(document, text)| long_lines(document, &text)).collect();
    assert!(found.is_empty(), "{} lines are too long:\n{}", found.len(), found.join("\n"));
}

#[test]
fn architecture_md_stays_short() {
    let lines = read(&root().join("ARCHITECTURE.md")).lines().count();
    assert!(
        lines <= MAX_ARCHITECTURE_LINES,
        "ARCHITECTURE.md has {lines} lines, {MAX_ARCHITECTURE_LINES} are allowed"
    );
}

/// Files with `#` comments: scripts, units, configuration.
fn hash_files() -> Vec<PathBuf> {
    let files = ["Cargo.toml", "deny.toml", "clippy.toml", "Dockerfile"];
    let mut found: Vec<PathBuf> = files.map(|file| root().join(file)).into();
    let mut folders: Vec<PathBuf> =
        ["scripts", "systemd", "config", ".ci"].map(|folder| root().join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folder of the repository").flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("__pycache__") {
                folders.push(path);
            } else if path.is_file() && !path.extension().is_some_and(|e| e == "rs" || e == "js") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn comments_have_short_lines() {
    let rust = ["src", "sandbox", "tests", "scripts", "fuzz/fuzz_targets"]
        .iter()
        .flat_map(|below| rust_files(below));
    let rust = rust.map(|path| (path, "//"));
    let mut found = Vec::new();
    for (path, mark) in rust.chain(hash_files().into_iter().map(|path| (path, "#"))) {
        for (number, line) in read(&path).lines().enumerate() {
            let length = line.chars().count();
            let is_address = line.contains("://") && line.split_whitespace().count() <= 3;
            if line.trim_start().starts_with(mark) && length > MAX_CHARACTERS && !is_address {
                found.push(format!("{}:{}: {length} characters", name(&path), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{} comments are too long:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_module_with_files_is_a_folder_with_mod_rs() {
    let all = ["src", "sandbox/src", "tests"].iter().flat_map(|below| rust_files(below));
    let found: Vec<String> =
        all.filter(|path| has_source(&path.with_extension(""))).map(|path| name(&path)).collect();
    assert!(found.is_empty(), "move each to its folder as mod.rs:\n{}", found.join("\n"));
}
