//! Performs CONTRIBUTING.md's "add a tool" on a copy of the repository: one file, one line, and the tool
//! answers.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The parts of the repository that the build needs.
const PARTS: &[&str] =
    &["Cargo.toml", "Cargo.lock", "clippy.toml", "README.md", "src", "sandbox", "config", "scripts", "tests"];

/// The text between the first pair of fences of this kind after a heading.
fn block(document: &str, heading: &str, kind: &str) -> String {
    let after = document.split(heading).nth(1).expect("the heading");
    let inside = after.split(&format!("```{kind}\n")).nth(1).expect("the block");
    inside.split("```").next().expect("its end").to_owned()
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder").flatten() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).expect("a copy");
    }
}

/// Makes hard links to the built dependencies, so that only this crate is built again and no binary under
/// test changes.
fn link_dependencies(from: &Path, to: &Path) {
    if to.exists() {
        return;
    }
    fs::create_dir_all(to).expect("a folder");
    for part in [".fingerprint", "build", "deps"] {
        let copied = Command::new("cp").arg("-al").arg(from.join(part)).arg(to).status().expect("cp");
        assert!(copied.success(), "cp -al {part}");
    }
}

#[test]
#[ignore = "builds the server once more: scripts/test --long runs it"]
fn p6_the_recipe_adds_a_tool_with_one_file_and_one_line() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let recipe = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the recipe");
    let repository = tempfile::tempdir().expect("a directory");
    for part in PARTS {
        copy(&root.join(part), &repository.path().join(part));
    }

    let tool = repository.path().join("src/tools/builtin/slugify.rs");
    assert!(!tool.exists(), "the tool of the recipe is not in the repository yet");
    fs::write(&tool, block(&recipe, "## Add a tool", "rust")).expect("step 1");
    let list = repository.path().join("src/tools/builtin/mod.rs");
    let before = fs::read_to_string(&list).expect("the list");
    let line = block(&recipe, "2. Register it", "text");
    let neighbour = "    text_process,\n";
    assert!(before.contains(neighbour) && line.lines().count() == 1);
    fs::write(&list, before.replace(neighbour, &format!("{line}{neighbour}"))).expect("step 2");

    let target =
        Path::new(crate::support::BINARY).parent().and_then(Path::parent).expect("the target folder");
    let built_in = target.join("recipe");
    link_dependencies(&target.join("debug"), &built_in.join("debug"));
    let built = Command::new(env!("CARGO"))
        // An example makes cargo choose the features that it chose for the tests: no dependency is built
        // again.
        .args(["build", "--workspace", "--locked", "--offline", "--bin", "nanoclaw", "--example", "run"])
        .env("CARGO_TARGET_DIR", &built_in)
        .envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")])
        .current_dir(repository.path())
        .output()
        .expect("cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let data = tempfile::tempdir().expect("a directory");
    let binary = built_in.join("debug/nanoclaw");
    let server = crate::support::Server::start_binary(&binary, data.path(), "");
    let reply = server.post_text("/v1/jobs?wait=20", "tool: slugify {\"title\": \"Hello, World\"}");
    let job: Value = reply.json();
    assert!(job["output_text"].as_str().is_some_and(|t| t.contains("hello-world")), "{job}");
}
