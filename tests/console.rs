//! The console in the binary: its page, its files and the headers that lock them in. What it does in a
//! browser is tested by `scripts/try-console`.

use crate::support::Server;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../build/modules.rs"]
mod modules;

const FOLDER: &str = "src/console";
const MAX_FILE_LINES: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Our own files of this kind, not those of libraries.
fn own_files(extension: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(FOLDER), &mut found);
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.retain(|path| !path.components().any(|part| part.as_os_str() == "vendor"));
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// The address of a file in the page.
fn address(page: &str, name: &str) -> String {
    let end = page.find(&format!("/{name}\"")).unwrap_or_else(|| panic!("no {name} in {page}"));
    let start = page[..end].rfind('"').expect("an attribute") + 1;
    format!("/{}/{name}", &page[start..end])
}

#[test]
fn the_page_and_its_files_are_served_and_locked_in() {
    let server = Server::start();
    let page = server.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let policy = page.header("content-security-policy").expect("a policy").to_owned();
    for part in ["default-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let script = address(&page.body, "main.js");
    let reply = server.get(&script);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    assert!(reply.header("cache-control").is_some_and(|value| value.contains("immutable")));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert!(reply.body.contains("\nstart();\n"), "unpacked for a client without gzip");
    let first = page.body.matches("rel=\"modulepreload\"").count();
    let imports = reply.body.lines().filter(|line| line.starts_with("import ")).count();
    assert!(imports > 0 && first == imports + 1, "the page names all that main.js imports: {}", page.body);
    let version = script.split('/').nth(2).expect("a version");
    for missing in [script.replace(version, "0000000000000000"), script.replace("main.js", "none.js")] {
        assert_eq!(server.get(&missing).status, 404, "{missing}");
    }
    assert_eq!(server.get(&script.replace("main.js", "..%2f..%2fCargo.toml")).status, 404);
}

#[test]
fn an_unchanged_page_is_not_sent_again() {
    let server = Server::start();
    let page = server.get("/");
    let tag = page.header("etag").expect("a tag");
    let again = server.get_with("/", &[("if-none-match", tag)]);
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    // Browsers take these over into their copy.
    for name in ["content-security-policy", "cache-control", "etag"] {
        assert_eq!(again.header(name), page.header(name), "{name}");
    }
}

#[test]
fn p9_a_link_on_another_site_opens_the_page_but_reads_no_data() {
    let server = Server::start();
    let foreign = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(server.get_with("/", &foreign).status, 200);
    assert_eq!(server.get_with("/v1/jobs", &foreign).status, 403);
    assert_eq!(server.get_with("/", &[("host", "evil.example")]).status, 403);
}

#[test]
fn console_false_answers_404() {
    let server = Server::start_with("console: false\n");
    for path in ["/", "/console/x/main.js"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

/// What the build makes of a module `a.js` that the first one imports.
fn joined(imported: &str) -> Result<String, String> {
    let main = "// The start.\nimport { one as two } from \"./a.js\";\n\nexport const three = two;\n";
    let sources = [("a.js".to_owned(), imported.to_owned()), ("main.js".to_owned(), main.to_owned())];
    let joined = modules::join(&sources, &["main.js"])?;
    let mut needed = Vec::new();
    joined.needed_files("main.js", &mut needed);
    assert_eq!(needed, ["main.js"]);
    Ok(joined.files["main.js"].clone())
}

#[test]
fn the_build_joins_modules_in_the_order_of_their_imports() {
    let script = joined("/** A\n * number. */\nexport const one = 1; // it\n  one;\n").expect("one file");
    let expected = "const m0 = (() => {\nconst one = 1; // it\none;\nreturn { one };\n})();\n\
        const m1 = (() => {\nconst { one: two } = m0;\nconst three = two;\nreturn { three };\n})();\n\
        export { m0, m1 };\nexport const { three } = m1;\n";
    assert_eq!(script, expected);
}

#[test]
fn the_build_refuses_modules_that_it_cannot_read() {
    let unreadable = [
        "export let one = 1;\n",
        "export * from \"./b.js\";\n",
        "import \"./b.js\";\n",
        "import {\n  b,\n} from \"./b.js\";\n",
        "export const one = import.meta.url;\n",
        "import { b } from \"./not-there.js\";\nexport const one = b;\n",
        "import { three } from \"./main.js\";\nexport const one = three;\n",
    ];
    for source in unreadable {
        let error = joined(source).expect_err(source);
        assert!(error.starts_with("src/console/"), "{error}");
    }
}

#[test]
fn vendored_files_are_as_they_were_taken() {
    let script = root().join("scripts/vendor-console");
    let output = Command::new("python3").arg(script).arg("--check").output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_consoles_files_stay_within_the_line_limit() {
    for path in own_files("js") {
        let lines = text(&path).lines().count();
        assert!(lines <= MAX_FILE_LINES || path.ends_with("locales/zh.js"), "{}: {lines}", path.display());
        assert!(text(&path).starts_with("// "), "{} says first what it is", path.display());
    }
}

#[test]
fn the_consoles_code_makes_no_markup_and_no_code_from_text() {
    for path in own_files("js") {
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!text(&path).contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn every_text_of_the_console_is_translated() {
    let pattern = regex::Regex::new(r#"\bt\(\s*"((?:[^"\\]|\\.)*)""#).expect("a pattern");
    let entry = regex::Regex::new(r#"(?m)^\s*"((?:[^"\\]|\\.)*)":"#).expect("a pattern");
    let zh = text(&root().join(FOLDER).join("locales/zh.js"));
    let known: BTreeSet<&str> = entry.captures_iter(&zh).map(|found| found.extract::<1>().1[0]).collect();
    let mut used = BTreeSet::new();
    for path in own_files("js") {
        let source = text(&path);
        used.extend(pattern.captures_iter(&source).map(|found| found.extract::<1>().1[0].to_owned()));
    }
    let missing: Vec<_> = used.iter().filter(|text| !known.contains(text.as_str())).collect();
    let unused: Vec<_> = known.iter().filter(|text| !used.contains(**text)).collect();
    assert!(missing.is_empty(), "locales/zh.js lacks {missing:#?}");
    assert!(unused.is_empty(), "nothing shows {unused:#?}");
}
