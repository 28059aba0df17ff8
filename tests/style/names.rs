//! One name of a type, one meaning: no two types of a crate share a name. No identifier has a word that only
//! this project understood.

use super::source::{Source, masked, regex, sources};
use super::{name, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Names that two types of one crate may share, with the reason.
const SHARED: &[(&str, &str)] = &[];

/// Words of earlier names that no reader knew. The field has a term for each: cancellation token, rate
/// limiter, waiter, webhook, zygote, staging directory, duplicate, redactor, caller, reaper …
const PRIVATE_WORDS: &[&str] = &[
    "armour",
    "asker",
    "beget",
    "bookmark",
    "census",
    "courier",
    "desk",
    "dislike",
    "errand",
    "farewell",
    "heed",
    "herald",
    "heritage",
    "homeless",
    "knock",
    "leash",
    "loosen",
    "minted",
    "newborn",
    "nursery",
    "parcel",
    "plea",
    "stumbled",
    "teller",
    "tether",
    "timekeeper",
    "turnstile",
    "twin",
    "unsure",
    "veil",
    "vigil",
    "workplace",
];

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

/// Types of the two stores that are the same thing in each.
const SHARED_BY_STORES: [&str; 11] = [
    "CommitEffects",
    "CommitOutcome",
    "ConversationRange",
    "ConversationSearch",
    "ImageHolder",
    "MessagePageBuilder",
    "MessagePageStart",
    "QueuedWrite",
    "WaitingWrite",
    "WriteOptions",
    "WriterRequest",
];

#[test]
fn no_two_types_share_a_name() {
    let mut offenders = Vec::new();
    for folder in ["src", "sandbox/src"] {
        let mut locations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for source in sources(folder) {
            for (name, line) in types(&source) {
                // What both stores have, such as a group of writes, has one name in both.
                let name = if source.path.starts_with("src/store/postgres/")
                    && SHARED_BY_STORES.contains(&name.as_str())
                {
                    format!("{name} of PostgreSQL")
                } else {
                    name
                };
                locations.entry(name).or_default().push(format!("{}:{line}", source.path));
            }
        }
        locations.retain(|name, locations| {
            locations.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name)
        });
        offenders.extend(
            locations.into_iter().map(|(name, locations)| format!("{name}: {}", locations.join(", "))),
        );
    }
    assert!(offenders.is_empty(), "{} names have two meanings:\n{}", offenders.len(), offenders.join("\n"));
}

#[test]
fn no_identifier_has_a_private_word() {
    let (identifier, segment) = (regex(r"\b[A-Za-z_]\w*"), regex(r"[A-Z]?[a-z0-9]+|[A-Z]+"));
    let mut found = BTreeSet::new();
    for path in ["src", "sandbox", "tests"].iter().flat_map(|folder| rust_files(folder)) {
        let text = masked(&fs::read_to_string(&path).expect("readable source"));
        for word in identifier.find_iter(&text) {
            let segments = segment.find_iter(word.as_str()).map(|part| part.as_str().to_lowercase());
            if segments.into_iter().any(|part| {
                PRIVATE_WORDS.iter().any(|word| part == *word || part.strip_suffix('s') == Some(word))
            }) {
                found.insert(format!("{}: {}", name(&path), word.as_str()));
            }
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "{} names need the field's term:\n{}", found.len(), found.join("\n"));
}

#[test]
fn associated_types_are_ignored() {
    let text =
        "impl Tool for A { type Out = B; fn f() { struct C; } }\ntrait D { type E; }\npub type F = A;\n";
    let source = Source { path: "a.rs".to_owned(), text: text.to_owned() };
    let names: Vec<String> = types(&source).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["C", "D", "F"]);
}
