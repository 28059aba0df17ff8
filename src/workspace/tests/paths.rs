//! Paths as clients write them.

use super::super::paths::{WorkspacePath, is_name};
use crate::ports::FileError;
use proptest::prelude::*;

#[test]
fn a_path_is_parsed_into_normalized_segments() {
    for (text, path) in
        [("", ""), (".", ""), ("./", ""), ("a", "a"), ("a//b/./c/", "a/b/c"), ("我/é", "我/é")]
    {
        assert_eq!(WorkspacePath::parse(text).unwrap().as_str(), path, "{text}");
    }
    let path = WorkspacePath::parse("a/b/c").unwrap();
    assert_eq!(path.entry("x"), Ok(("a/b", "c")));
    assert_eq!(WorkspacePath::parse("c").unwrap().entry("x"), Ok((".", "c")));
    assert!(matches!(WorkspacePath::parse(".").unwrap().entry("x"), Err(FileError::BadPath(_))));
}

#[test]
fn a_path_with_parent_segments_or_a_root_is_outside() {
    for text in ["..", "../x", "a/../../x", "a/..", "a/../b", "/", "/etc/passwd", "//x", "../p_evil"] {
        assert_eq!(WorkspacePath::parse(text), Err(FileError::Outside(text.to_owned())));
    }
}

#[test]
fn invalid_paths_are_refused() {
    let long = format!("a/{}", "x".repeat(256));
    let longer = "a/".repeat(2_048);
    for text in ["a\0b", "a\nb", "\u{1b}[2J", "a\u{85}", "...", "a/..../b", "a\\b", "..\\x", &long, &longer] {
        assert!(matches!(WorkspacePath::parse(text), Err(FileError::BadPath(_))), "{text:?}");
    }
    assert!(WorkspacePath::parse(&format!("a/{}", "x".repeat(255))).is_ok());
}

#[test]
fn only_descendants_are_below_a_directory() {
    let is_below = |path: &str, above: &str| {
        WorkspacePath::parse(path).unwrap().is_below(&WorkspacePath::parse(above).unwrap())
    };
    assert!(is_below("a/b", "a") && is_below("a/b/c", "a/b"));
    assert!(!is_below("ab", "a") && !is_below("a", "a") && !is_below("a", "a/b"));
}

proptest! {
    #[test]
    fn any_parsed_path_stays_inside_and_parses_to_itself(text in "[a./\\\\é\\x00 ~-]{0,24}|.{0,40}") {
        if let Ok(path) = WorkspacePath::parse(&text) {
            let text = path.as_str().to_owned();
            prop_assert!(text.is_empty() || text.split('/').all(is_name));
            prop_assert!(!text.starts_with('/') && !text.split('/').any(|s| s == ".." || s == "."));
            prop_assert_eq!(WorkspacePath::parse(&text), Ok(path));
        }
    }
}
