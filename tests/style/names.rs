//! One name of a type, one meaning: no two types of a crate share a name.

use super::source::{Source, regex, sources};
use std::collections::BTreeMap;

/// Names that two types of one crate may share, each with its reason.
const SHARED: &[(&str, &str)] = &[];

/// The types that a file declares outside of traits and `impl` blocks: name and line.
fn types(source: &Source) -> Vec<(String, usize)> {
    let token = regex(r"[{};]|\b(?:struct|enum|trait|type|union)\s+([A-Z]\w*)");
    let (block, function) = (regex(r"\b(impl|trait)\b"), regex(r"\bfn\b"));
    let (mut found, mut has_associated, mut start) = (Vec::new(), Vec::new(), 0);
    for capture in token.captures_iter(&source.text) {
        let all = capture.get(0).expect("the whole match");
        if let Some(name) = capture.get(1) {
            let line = source.text[..all.start()].matches('\n').count() + 1;
            if has_associated.last() != Some(&true) {
                found.push((name.as_str().to_owned(), line));
            }
            continue;
        }
        let head = &source.text[start..all.start()];
        match all.as_str() {
            "{" => has_associated.push(block.is_match(head) && !function.is_match(head)),
            "}" => drop(has_associated.pop()),
            _ => {}
        }
        start = all.end();
    }
    found
}

#[test]
#[ignore = "until the names of issue 16 have landed"]
fn no_two_types_share_a_name() {
    let mut offenders = Vec::new();
    for folder in ["src", "sandbox/src"] {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for source in sources(folder) {
            for (name, line) in types(&source) {
                places.entry(name).or_default().push(format!("{}:{line}", source.path));
            }
        }
        places.retain(|name, places| places.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name));
        offenders.extend(places.into_iter().map(|(name, places)| format!("{name}: {}", places.join(", "))));
    }
    assert!(offenders.is_empty(), "{} names have two meanings:\n{}", offenders.len(), offenders.join("\n"));
}

#[test]
fn associated_types_are_no_types_of_their_own() {
    let text =
        "impl Tool for A { type Out = B; fn f() { struct C; } }\ntrait D { type E; }\npub type F = A;\n";
    let source = Source { path: "a.rs".to_owned(), text: text.to_owned() };
    let names: Vec<String> = types(&source).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["C", "D", "F"]);
}
