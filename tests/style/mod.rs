//! Tests the style rules of CONTRIBUTING.md: directions of imports, size limits and names.

mod documents;
mod imports;
mod names;
mod source;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents at the top of the repository.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "README.zh-CN.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "BENCHMARKS.md",
    "SECURITY.md",
];
/// Maximum lines of code in a file, without blank lines, comments and tests.
const MAX_FILE_LINES: usize = 400;

/// What each top-level module of `src/` may import from the crate. Other modules are not allowed.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("ports", &["domain"]),
    ("net", &["ports"]),
    ("store", &["domain", "ports"]),
    ("engine", &["domain", "ports"]),
    ("llm", &["domain", "ports", "net"]),
    ("tools", &["domain", "ports"]),
    ("http", &["domain", "ports"]),
    ("webhooks", &["domain", "ports", "net"]),
    ("telemetry", &["domain", "ports", "net"]),
    ("workspace", &["domain", "ports"]),
    ("web", &["domain", "ports", "net"]),
    ("audit", &["domain", "ports"]),
    (
        "config",
        &[
            "domain",
            "ports",
            "store",
            "llm",
            "tools",
            "http",
            "engine",
            "webhooks",
            "telemetry",
            "web",
            "audit",
            "mcp",
        ],
    ),
    ("mcp", &["domain", "ports", "net"]),
    ("metrics", &["domain", "ports"]),
    (
        "app",
        &[
            "domain",
            "ports",
            "store",
            "engine",
            "llm",
            "tools",
            "http",
            "webhooks",
            "telemetry",
            "workspace",
            "web",
            "audit",
            "mcp",
            "metrics",
            "config",
        ],
    ),
    (
        "cli",
        &[
            "domain",
            "ports",
            "store",
            "engine",
            "llm",
            "tools",
            "http",
            "webhooks",
            "telemetry",
            "workspace",
            "web",
            "audit",
            "mcp",
            "metrics",
            "config",
            "app",
        ],
    ),
];

/// External crates that only these modules may name.
const CRATES: &[(&str, &[&str])] = &[
    ("redb", &["store"]),
    ("ureq", &["net", "llm", "cli", "telemetry", "web"]),
    ("hmac", &["http", "webhooks", "domain"]),
    ("lettre", &["tools"]),
    ("sha2", &["app", "cli", "webhooks", "http", "llm", "mcp", "store", "domain"]),
    // `mcp` sends the requests of its SDK over it, `webhooks` a thousand at once.
    ("hyper", &["http", "mcp", "webhooks"]),
    ("hyper_util", &["http", "mcp", "webhooks"]),
    ("rmcp", &["mcp"]),
    ("tokio_tungstenite", &["http"]),
    ("sse_stream", &["mcp"]),
    ("tokio_rustls", &["mcp", "net", "store", "webhooks"]),
    ("webpki_roots", &["net", "store"]),
    ("listenfd", &["app"]),
    ("sd_notify", &["app"]),
    ("base64", &["webhooks", "http", "llm", "mcp", "tools", "domain"]),
    ("argon2", &["http"]),
    ("matchit", &["http"]),
    ("multer", &["http"]),
    ("prometheus", &["metrics"]),
    ("ignore", &["workspace"]),
    ("globset", &["workspace"]),
    ("encoding_rs", &["tools", "web"]),
    ("grep_searcher", &["workspace"]),
    ("grep_regex", &["workspace"]),
    ("jsonwebtoken", &["http"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("basic_toml", &["config"]),
    ("clap_mangen", &["cli"]),
    ("unicode_width", &["cli"]),
    ("figment", &["config"]),
    ("html5gum", &["tools"]),
    ("encoding_rs", &["tools"]),
    ("url", &["tools", "web", "cli"]),
    ("jsonschema", &["mcp", "tools"]),
    ("nanoclaw_sandbox", &["tools", "workspace", "config", "app", "cli", "main"]),
    // `store`, `ports` and tests of `webhooks` use its one-shot and watch channels without async code.
    ("tokio", &["http", "app", "mcp", "ports", "store", "webhooks"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(below: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folder of the repository").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no source below {below}");
    found.sort();
    found
}

fn production_files() -> Vec<PathBuf> {
    let is_test = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        stem.ends_with("tests") || name(path).split('/').any(|part| part == "tests" || part == "testing")
    };
    rust_files("src").into_iter().chain(rust_files("sandbox/src")).filter(|p| !is_test(p)).collect()
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("in the repository").display().to_string()
}

/// The text before the first test module: tests are at the end of every file.
fn production_code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("readable source");
    text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()
}

fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with("//"))
}

fn top_level_module(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root().join("src")).ok()?;
    let first = inside.iter().next()?.to_str()?;
    Some(first.trim_end_matches(".rs").to_owned())
}

#[test]
fn modules_import_only_allowed_modules() {
    for path in production_files() {
        let Some(module) = top_level_module(&path).filter(|r| r != "lib" && r != "main") else { continue };
        let (_, allowed) = MAY_IMPORT
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("{}: ARCHITECTURE.md has no module '{module}'", name(&path)));
        for line in code_lines(&production_code(&path)) {
            for import in line.split("crate::").skip(1) {
                let target: String =
                    import.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                assert!(!target.is_empty(), "{}: write one import per line: {}", name(&path), line.trim());
                let known = MAY_IMPORT.iter().any(|(name, _)| *name == target);
                let fine = target == module || allowed.contains(&target.as_str()) || !known;
                assert!(fine, "{}: {module} must not import {target}: {}", name(&path), line.trim());
            }
        }
    }
}

#[test]
fn external_crates_are_used_only_in_their_modules() {
    for path in production_files() {
        let Some(module) = top_level_module(&path) else { continue };
        let text = production_code(&path);
        for (krate, modules) in CRATES {
            let path_of = format!("{krate}::");
            let named = code_lines(&text).any(|l| {
                l.match_indices(&path_of).any(|(at, _)| {
                    let before = l[..at].chars().next_back().unwrap_or(' ');
                    !before.is_alphanumeric() && before != '_' && before != ':'
                })
            });
            assert!(!named || modules.contains(&module.as_str()), "{} must not name {krate}", name(&path));
        }
    }
}

#[test]
fn only_http_mcp_and_webhooks_use_async() {
    for path in rust_files("src") {
        let module = top_level_module(&path).unwrap_or_default();
        // `ports` turns its ticket into a future for HTTP; the SDK of `mcp` and the driver of PostgreSQL
        // are async, and webhooks wait for a thousand receivers at once.
        let is_async = ["http", "mcp", "ports", "webhooks"].contains(&module.as_str());
        if is_async || name(&path).starts_with("src/store/postgres/") {
            continue;
        }
        for line in code_lines(&production_code(&path)) {
            let hit = line.contains("async fn") || line.contains("async move") || line.contains(".await");
            assert!(!hit, "{}: {}", name(&path), line.trim());
        }
    }
}

#[test]
fn blocking_work_of_http_has_the_share_of_a_client() {
    for path in rust_files("src/http") {
        let may = |word: &str| match word {
            "spawn_blocking" => name(&path) == "src/http/shared_threads.rs",
            _ => name(&path) == "src/http/blocking.rs",
        };
        let code = production_code(&path);
        for word in ["spawn_blocking", "thread::Builder", "thread::spawn"] {
            assert!(may(word) || !code.contains(word), "{} has {word}", name(&path));
        }
    }
}

#[test]
fn only_sys_uses_unsafe() {
    for path in rust_files("src").into_iter().chain(rust_files("sandbox/src")) {
        if name(&path) == "sandbox/src/sys.rs" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable source");
        let hit = code_lines(&text).find(|l| {
            l.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe") && !l.contains('"')
        });
        assert!(hit.is_none(), "{}: {}", name(&path), hit.unwrap_or_default());
    }
}

#[test]
fn files_stay_within_the_line_limit() {
    for path in production_files() {
        let count = code_lines(&production_code(&path)).count();
        assert!(count <= MAX_FILE_LINES, "{} has {count} lines of code; split it", name(&path));
    }
}

#[test]
fn every_file_starts_with_a_module_comment() {
    for path in rust_files("src").into_iter().chain(rust_files("sandbox/src")).chain(rust_files("tests")) {
        let text = fs::read_to_string(&path).expect("readable source");
        assert!(text.starts_with("//!"), "{} must begin with a //! comment", name(&path));
    }
}

#[test]
fn the_product_never_enables_sandbox_ablation() {
    let read = |file: &str| fs::read_to_string(root().join(file)).expect("readable manifest");
    assert!(!read("Cargo.toml").contains("ablation"), "the product must not ask for the sandbox's ablation");
    let manifest = read("sandbox/Cargo.toml");
    let (always, tests_only) = manifest.split_once("[dev-dependencies]").expect("dev-dependencies");
    assert!(
        !always.contains("default =") && !always.contains("\"ablation\",") && tests_only.contains("ablation")
    );
    for path in production_files() {
        let inside = name(&path);
        let is_ablation = inside.starts_with("sandbox/src/ablation/") || inside.ends_with("-only.rs");
        let text = production_code(&path);
        assert!(is_ablation || !text.contains("live_without"), "{inside} must not take a layer away");
        let code: Vec<&str> = code_lines(&text).collect();
        for pair in code.windows(2).filter(|_| !is_ablation) {
            // Code that uses the ablation is directly below its feature attribute.
            let knows = pair[1].contains("ablation::") && !pair[1].trim_start().starts_with("return");
            assert!(!knows || pair[0].contains("feature = \"ablation\""), "{inside}: {}", pair[1].trim());
        }
    }
}

#[test]
fn no_file_has_a_generic_name() {
    for path in rust_files("src").into_iter().chain(rust_files("sandbox/src")) {
        for part in path.iter().filter_map(|p| p.to_str()) {
            let stem = part.trim_end_matches(".rs");
            let is_generic =
                ["util", "utils", "helper", "helpers", "common", "manager", "misc"].contains(&stem);
            assert!(!is_generic, "{}: name the file after its content", name(&path));
        }
    }
}

#[test]
fn no_lint_is_disabled_for_a_whole_crate_or_file() {
    for path in production_files() {
        let text = production_code(&path);
        let is_root = ["src/lib.rs", "src/main.rs", "sandbox/src/lib.rs"].contains(&name(&path).as_str());
        let hit = code_lines(&text).find(|l| {
            let switch = l.trim_start().starts_with("#![allow") || l.trim_start().starts_with("#![expect");
            switch && (is_root || l.contains("clippy::"))
        });
        assert!(hit.is_none(), "{}: {}", name(&path), hit.unwrap_or_default());
    }
}

#[test]
fn engine_http_and_ports_name_no_tool() {
    let list = fs::read_to_string(root().join("src/tools/builtin/mod.rs")).expect("the list of tools");
    let lines = list.split("tools! {\n").nth(1).and_then(|l| l.split('}').next()).expect("the list");
    let tools: BTreeSet<&str> = lines.lines().map(|l| l.trim().trim_end_matches(',')).collect();
    assert!(
        tools.contains("calculator") && tools.len() >= 6,
        "the list of tools was parsed wrongly: {tools:?}"
    );
    for path in production_files() {
        let inside = top_level_module(&path).unwrap_or_default();
        if inside != "engine" && inside != "http" && inside != "ports" {
            continue;
        }
        let text = production_code(&path);
        for tool in &tools {
            // Names that are ordinary words count only in quotes; HTTP has fields of these names.
            let is_word = ["cron", "memory", "message", "spawn", "web_search"].contains(tool);
            let pattern = if is_word { format!("\"{tool}\"") } else { (*tool).to_owned() };
            assert!(
                (is_word && inside == "http") || !code_lines(&text).any(|l| l.contains(&pattern)),
                "{} names the tool {tool} (P6)",
                name(&path)
            );
        }
    }
}

#[test]
fn every_promise_is_cited_by_a_test() {
    let tests: String = ["src", "sandbox", "tests"]
        .iter()
        .flat_map(|below| rust_files(below))
        .map(|p| fs::read_to_string(p).expect("readable source"))
        .collect();
    for number in 1..=10 {
        let cited = tests.contains(&format!("fn p{number}_")) || tests.contains(&format!("_p{number}_"));
        assert!(cited, "no test cites P{number}: name one p{number}_…");
    }
}

#[test]
fn every_dependency_has_a_documented_reason() {
    for manifest in ["Cargo.toml", "sandbox/Cargo.toml"] {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        let (mut is_list, mut has_reason, mut dependencies) = (false, false, 0);
        for line in text.lines() {
            if line.starts_with('[') {
                is_list = line.ends_with("dependencies]");
            }
            match line.split_once('=') {
                _ if line.is_empty() || line.starts_with('[') => has_reason = false,
                _ if line.starts_with('#') => has_reason = true,
                Some((name, _)) if is_list => {
                    assert!(has_reason, "{manifest}: the paragraph of {name} does not say what it is for");
                    dependencies += 1;
                }
                _ => {}
            }
        }
        assert!(dependencies > 5, "{manifest} has few dependencies: was it parsed wrongly?");
    }
}

#[test]
fn no_registry_host_is_named() {
    let hosts = [
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("registry.npmjs", ".org"),
        concat!("deb.debian", ".org"),
    ];
    for file in [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "Cargo.toml",
        "deny.toml",
        "scripts/test",
        "scripts/bench",
        "scripts/deny",
        "scripts/get.sh",
        "scripts/release",
        "scripts/lint-dockerfile",
        "Dockerfile",
        "SECURITY.md",
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        assert!(!hosts.iter().any(|h| text.contains(h)), "{file} names a registry host");
    }
}
