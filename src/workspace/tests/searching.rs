//! Search.

use super::{Fixture, UNLIMITED};
use crate::domain::limits::Limits;
use crate::ports::{FileError, SearchHit, SearchQuery, Workspaces};
use std::fs;
use std::sync::atomic::Ordering;

pub(super) fn query(text: &str) -> SearchQuery {
    SearchQuery { query: text.to_owned(), path: String::new(), max_results: 50, ..SearchQuery::default() }
}

fn hit(path: &str, matches: &[(u64, &str)]) -> SearchHit {
    let matches = matches.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
    SearchHit { path: path.to_owned(), matches }
}

#[test]
fn text_is_found_literally_by_path_and_line() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "src/b.rs", "one\r\nfn a.b()\r\n\nFN A.B() é", UNLIMITED).unwrap();
    files.write(p, "a.txt", "fn a.b(), fn a.b()\n", UNLIMITED).unwrap();
    files.write(p, "c.txt", "fn aXb()\n", UNLIMITED).unwrap();
    for hidden in [".env", ".git/x", "src/.cache/y"] {
        files.write(p, hidden, "fn a.b()", UNLIMITED).unwrap();
    }
    files.write(p, ".gitignore", "*", UNLIMITED).unwrap();
    fs::write(fixture.at("binary"), b"fn a.b()\n\0fn a.b()").unwrap();
    fs::write(fixture.at("late"), [b"fn a.b()\n".repeat(100_000), vec![0]].concat()).unwrap();
    let found = files.search(p, &query("fn a.b()")).unwrap();
    let b = hit("src/b.rs", &[(2, "fn a.b()"), (4, "FN A.B() é")]);
    assert_eq!(found.hits.len(), 3, "{found:?}");
    assert_eq!(found.hits[0], hit("a.txt", &[(1, "fn a.b(), fn a.b()")]));
    assert_eq!((found.hits[1].path.as_str(), &found.hits[2]), ("late", &b));
    fs::remove_file(fixture.at("late")).unwrap();
    let exact = SearchQuery { case_sensitive: true, path: "src/".into(), ..query("fn a.b()") };
    let found = files.search(p, &exact).unwrap();
    assert_eq!(found.hits, [hit("src/b.rs", &[(2, "fn a.b()")])]);
    assert!(!found.is_cut);
    for path in ["src/b.rs", ".git/x", ".git"] {
        let one = SearchQuery { path: path.into(), ..query("É") };
        assert_eq!(files.search(p, &one).unwrap().hits.len(), usize::from(path == "src/b.rs"), "{path}");
    }
    let hidden = SearchQuery { path: ".git".into(), ..query("a.b") };
    assert_eq!(files.search(p, &hidden).unwrap().hits, [hit(".git/x", &[(1, "fn a.b()")])]);
}

#[test]
fn invalid_search_queries_and_paths_are_refused() {
    let fixture = Fixture::new();
    for text in ["", "a\nb", "a\0", &"x".repeat(1_001)] {
        assert!(matches!(fixture.files.search(&fixture.project, &query(text)), Err(FileError::BadPath(_))));
    }
    assert!(fixture.files.search(&fixture.project, &query(&"é".repeat(1_000))).is_ok());
    for (path, is_outside) in [("../x", true), ("none", false), ("none/x", false)] {
        let refusal =
            fixture.files.search(&fixture.project, &SearchQuery { path: path.into(), ..query("x") });
        assert_eq!(matches!(refusal, Err(FileError::Outside(_))), is_outside);
        assert_eq!(matches!(refusal, Err(FileError::NotFound(_))), !is_outside);
    }
}

#[test]
fn search_results_lines_and_files_are_limited_and_marked_as_cut() {
    let fixture = Fixture::with(&Limits { search_files: 20, ..Limits::default() });
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "long", &format!("needle{}", "x".repeat(100_000)), UNLIMITED).unwrap();
    let found = files.search(p, &query("needle")).unwrap();
    assert_eq!(found.hits[0].matches[0].1.chars().count(), 500);
    assert!(!found.is_cut);
    files.write(p, "many", &"needle in hay\n".repeat(10_000), UNLIMITED).unwrap();
    let found = files.search(p, &SearchQuery { path: "many".into(), ..query("needle") }).unwrap();
    let shown_bytes: usize = found.hits[0].matches.iter().map(|(_, line)| line.len()).sum();
    assert!(found.is_cut && shown_bytes <= 10_000 && shown_bytes > 1_000, "{shown_bytes}");
    for number in 0..30 {
        files.write(p, &format!("{number}"), "needle", UNLIMITED).unwrap();
    }
    let found = files.search(p, &SearchQuery { max_results: 5, ..query("needle") }).unwrap();
    assert!(found.is_cut && found.hits.len() == 5);
    let found = files.search(p, &query("needle")).unwrap();
    assert!(found.is_cut && found.hits.len() == 20);
}

#[test]
fn files_with_oversized_lines_are_skipped_by_the_search() {
    let fixture = Fixture::new();
    fs::File::create(fixture.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    fs::write(fixture.at("endless"), "x".repeat(9 << 20)).unwrap();
    fixture.files.write(&fixture.project, "fine", "xx", UNLIMITED).unwrap();
    let found = fixture.files.search(&fixture.project, &query("xx")).unwrap();
    assert_eq!(found.hits, [hit("fine", &[(1, "xx")])]);
    assert!(found.is_cut, "a file was given up");
}

#[test]
fn a_search_is_truncated_at_its_time_limit() {
    let fixture = Fixture::with(&Limits { search_ms: 1_000, ..Limits::default() });
    for number in 0..100 {
        fixture.files.write(&fixture.project, &format!("{number}"), "needle", UNLIMITED).unwrap();
    }
    fixture.clock.step_ms.store(100, Ordering::SeqCst);
    let found = fixture.files.search(&fixture.project, &query("needle")).unwrap();
    assert!(found.is_cut && found.hits.len() < 10, "{}", found.hits.len());
}
