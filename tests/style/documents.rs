//! Checks that all files named in the documents exist.

use super::source::regex;
use super::{DOCUMENTS, root};
use std::fs;

/// Readers of CONTRIBUTING.md create this file.
const TO_BE_CREATED: &str = "slugify.rs";

#[test]
fn every_path_in_the_documents_exists() {
    let quoted = regex(r"`((?:src|sandbox|tests|scripts|systemd|config|fuzz)/[\w./-]*)`");
    let linked = regex(r"\]\(([\w./-]+)(?:#[^)]*)?\)");
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).expect("a document");
        let found = quoted.captures_iter(&text).chain(linked.captures_iter(&text));
        for path in found.map(|capture| capture[1].to_owned()) {
            if !path.ends_with(TO_BE_CREATED) && !root().join(&path).exists() {
                missing.push(format!("{document} names {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}
