//! Reads Rust source without a parser: masks comments, strings and test-only items with blanks of equal
//! length.

use super::{name, production_files};
use regex::Regex;
use std::collections::HashMap;
use std::fs;
use std::sync::{LazyLock, Mutex};

/// A production file: its path in the repository and its masked text.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The masked production files of a crate's folder (`src`, `sandbox/src`).
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let prefix = format!("{folder}/");
    let read = |path: &std::path::PathBuf| fs::read_to_string(path).expect("readable source");
    let files = production_files().into_iter().map(|path| (name(&path), path));
    files
        .filter(|(name, _)| name.starts_with(&prefix))
        .map(|(name, path)| Source { path: name, text: without_tests(&masked(&read(&path))) })
        .collect()
}

/// A compiled pattern. Each is compiled once, because that costs more than reading a file with it.
pub(crate) fn regex(pattern: &'static str) -> Regex {
    static COMPILED: LazyLock<Mutex<HashMap<&str, Regex>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().expect("no test panics while it compiles a pattern");
    compiled.entry(pattern).or_insert_with(|| Regex::new(pattern).expect("a pattern")).clone()
}

/// Replaces everything but line ends with blanks.
fn blank(out: &mut [u8], range: std::ops::Range<usize>) {
    out[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn end_of(text: &str, from: usize, pattern: &str) -> usize {
    text[from..].find(pattern).map_or(text.len(), |at| from + at + pattern.len())
}

/// The end of the string whose quote opens at `from`.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The text with comments, strings and characters as blanks.
pub(crate) fn masked(text: &str) -> String {
    let (raw, character) = (regex(r#"^b?r(#*)""#), regex(r"^b?'(\\[^\n']+|\\'|[^\\'\n])'"));
    let (bytes, mut out) = (text.as_bytes(), text.as_bytes().to_vec());
    let mut at = 0;
    while at < bytes.len() {
        if !text.is_char_boundary(at) {
            at += 1;
            continue;
        }
        let rest = &text[at..];
        let is_start = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        let end = if rest.starts_with("//") {
            text[at..].find('\n').map_or(text.len(), |length| at + length)
        } else if rest.starts_with("/*") {
            end_of(text, at, "*/")
        } else if let Some(open) = raw.captures(rest).filter(|_| is_start) {
            end_of(text, at + open[0].len(), &format!("\"{}", &open[1]))
        } else if rest.starts_with('"') {
            end_of_string(bytes, at)
        } else if let Some(found) = character.find(rest) {
            at + found.end()
        } else {
            at += 1;
            continue;
        };
        blank(&mut out, at..end);
        at = end;
    }
    String::from_utf8(out).expect("UTF-8 stays UTF-8")
}

/// The position behind the brace that closes the one at `open`.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0_i64;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        depth += i64::from(byte == b'{') - i64::from(byte == b'}');
        if byte == b'}' && depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The text without the items of tests, of fuzzing and of the sandbox's ablation.
fn without_tests(text: &str) -> String {
    let attribute = regex(r"#\[cfg\((test|feature = *|any\(test[^\]]*|all\(test[^\]]*)\)\]");
    let import = regex(r"^\s*(#\[[^\]]*\]\s*)*(pub(\([^)]*\))?\s+)?use\b");
    let mut out = text.to_owned();
    while let Some(found) = attribute.find(&out) {
        let rest = &out[found.end()..];
        let is_import = import.is_match(rest);
        let end = match (rest.find(';'), rest.find('{')) {
            (Some(semicolon), brace) if is_import || brace.is_none_or(|brace| semicolon < brace) => {
                found.end() + semicolon + 1
            }
            (_, Some(brace)) => closing(&out, found.end() + brace),
            _ => out.len(),
        };
        let mut bytes = out.clone().into_bytes();
        blank(&mut bytes, found.start()..end);
        out = String::from_utf8(bytes).expect("UTF-8 stays UTF-8");
    }
    out
}

#[test]
fn masking_keeps_code_and_blanks_the_rest() {
    let text = "let a = \"{\"; // }\nlet b = '{'; let c = r#\"\"}\"#; fn f<'a>() {}\n#[cfg(test)]\nmod t { fn g() {} }\nfn h() {}\n";
    let read = without_tests(&masked(text));
    assert_eq!(read.len(), text.len());
    assert!(read.contains("fn f<'a>() {}") && read.contains("fn h() {}") && !read.contains("fn g"));
    assert_eq!((read.matches('{').count(), read.matches('}').count()), (2, 2), "{read}");
}
