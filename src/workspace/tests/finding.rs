//! Lists by glob.

use super::{Fixture, UNLIMITED};
use crate::domain::limits::Limits;
use crate::ports::{FileError, FileKind, GlobQuery, SearchQuery, Workspaces};
use std::fs;
use std::sync::atomic::Ordering;

fn query(path: &str, glob: &str) -> GlobQuery {
    GlobQuery { path: path.to_owned(), glob: glob.to_owned(), with_hidden: false, hides_secrets: false }
}

fn found(fixture: &Fixture, query: &GlobQuery) -> Vec<String> {
    let listing = fixture.files.find(&fixture.project, query).unwrap();
    assert!(!listing.is_cut);
    let directories = listing.directories.into_iter().map(|(_, path)| format!("{path}/"));
    listing.files.into_iter().map(|file| file.path).chain(directories).collect()
}

#[test]
fn a_glob_is_matched_against_paths_below_its_directory() {
    let fixture = Fixture::new();
    for path in ["a.rs", "b.txt", "src/c.rs", "src/deep/d.rs", ".env", "src/.git/e.rs", ".nanoclaw/f.rs"] {
        fixture.files.write(&fixture.project, path, "x", UNLIMITED).unwrap();
    }
    std::os::unix::fs::symlink(fixture.outside(), fixture.at("src/link")).unwrap();
    for (path, glob, expected) in [
        ("", "*", &["a.rs", "b.txt", "src/"][..]),
        (".", "./*.rs", &["a.rs"]),
        ("", "**/*.rs", &["a.rs", "src/c.rs", "src/deep/d.rs"]),
        ("", "src/*", &["src/c.rs", "src/deep/"]),
        ("src", "*/*", &["src/deep/d.rs"]),
        ("src/", "{c.rs,deep/d.rs}", &["src/c.rs", "src/deep/d.rs"]),
        ("", "?.txt", &["b.txt"]),
        ("", "none", &[]),
    ] {
        assert_eq!(found(&fixture, &query(path, glob)), expected, "{path} {glob}");
    }
    let all = GlobQuery { with_hidden: true, ..query("", "**") };
    let all = found(&fixture, &all);
    assert!(all.contains(&".env".to_owned()) && all.contains(&"src/.git/e.rs".to_owned()), "{all:?}");
    assert!(!all.iter().any(|path| path.contains("nanoclaw") || path.contains("canary")), "{all:?}");
    for glob in ["../*", "a/../b", "/etc/*", "..", ""] {
        assert!(matches!(
            fixture.files.find(&fixture.project, &query("", glob)),
            Err(FileError::Outside(_) | FileError::BadPath(_))
        ));
    }
    for (path, glob) in [("", "[z-a]"), ("", &*"x".repeat(1_001)), ("none", "*"), ("a.rs", "*")] {
        assert!(fixture.files.find(&fixture.project, &query(path, glob)).is_err(), "{path} {glob}");
    }
}

#[test]
fn p8_a_glob_search_is_truncated_at_its_time_limit() {
    let fixture = Fixture::with(&Limits { search_ms: 1_000, ..Limits::default() });
    for n in 0..20 {
        fixture.files.write(&fixture.project, &format!("{n}"), "x", UNLIMITED).unwrap();
    }
    fixture.clock.step_ms.store(100, Ordering::SeqCst);
    let listing = fixture.files.find(&fixture.project, &query("", "*")).unwrap();
    assert!(listing.is_cut && listing.files.len() < 12, "{listing:?}");
}

#[test]
fn a_regex_and_a_glob_narrow_a_search() {
    let fixture = Fixture::new();
    fixture.files.write(&fixture.project, "src/a.rs", "let x1 = 5;\nlet y = 6;\n", UNLIMITED).unwrap();
    fixture.files.write(&fixture.project, "src/b.md", "let x1 = 5;\n", UNLIMITED).unwrap();
    fixture.files.write(&fixture.project, ".hidden/c.rs", "let x1 = 5;\n", UNLIMITED).unwrap();
    let pattern = SearchQuery {
        query: r"^let x\d =".to_owned(),
        max_results: 50,
        is_pattern: true,
        glob: Some("*.rs".to_owned()),
        ..SearchQuery::default()
    };
    let paths = |query: &SearchQuery| -> Vec<String> {
        let found = fixture.files.search(&fixture.project, query).unwrap();
        found.hits.into_iter().map(|hit| hit.path).collect()
    };
    assert_eq!(paths(&pattern), ["src/a.rs"]);
    assert_eq!(paths(&SearchQuery { with_hidden: true, ..pattern.clone() }), [".hidden/c.rs", "src/a.rs"]);
    assert_eq!(
        paths(&SearchQuery { glob: Some("src/*".into()), ..pattern.clone() }),
        ["src/a.rs", "src/b.md"]
    );
    assert_eq!(paths(&SearchQuery { glob: None, is_pattern: false, ..pattern.clone() }), [""; 0]);
    for bad in ["(", r"a{1000}{1000}{1000}"] {
        let refusal =
            fixture.files.search(&fixture.project, &SearchQuery { query: bad.into(), ..pattern.clone() });
        assert!(matches!(&refusal, Err(FileError::BadPath(why)) if why.contains("pattern")), "{refusal:?}");
    }
}

#[test]
fn the_kind_of_a_path_is_reported_without_following_symlinks() {
    let fixture = Fixture::new();
    fixture.files.write(&fixture.project, "d/f", "123", UNLIMITED).unwrap();
    std::os::unix::fs::symlink(fixture.outside(), fixture.at("link")).unwrap();
    let kind = |path: &str| fixture.files.kind(&fixture.project, path);
    assert_eq!(kind("d/f"), Ok(Some(FileKind::File(3))));
    assert_eq!(kind("d"), Ok(Some(FileKind::Directory)));
    assert_eq!(kind("."), Ok(Some(FileKind::Directory)));
    assert_eq!(kind("link"), Ok(Some(FileKind::Other)));
    assert_eq!((kind("none"), kind("d/f/x"), kind("none/x")), (Ok(None), Ok(None), Ok(None)));
    assert_eq!(kind("link/canary"), Ok(None), "nothing can be had behind a link");
    assert!(fixture.files.open_file(&fixture.project, "link/canary").is_err());
    assert!(fixture.files.delete_file(&fixture.project, "d").is_err() && fixture.at("d/f").exists());
    fixture.files.delete_file(&fixture.project, "link").unwrap();
    assert!(fs::symlink_metadata(fixture.at("link")).is_err());
    fixture.assert_untouched();
}
