//! Lists and statistics.

use super::{Fixture, UNLIMITED};
use crate::ports::{FileEntry, FileError, TreeStats, Workspaces};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_listing_is_sorted_and_omits_hidden_and_invalid_names() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    for path in ["b.txt", "a.txt", "z/in.txt", "c/in.txt", ".env", ".git/config"] {
        files.write(p, path, "12345", UNLIMITED).unwrap();
    }
    fs::write(fixture.at("back\\slash"), "").unwrap();
    fs::write(fixture.at("new\nline"), "").unwrap();
    fs::write(fixture.at("").join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
    fs::create_dir(fixture.at("").join(OsStr::from_bytes(b"\xff"))).unwrap();
    let list = files.list(p, ".").unwrap();
    let file = |name: &str, path: &str| FileEntry { name: name.into(), path: path.into(), size: 5 };
    assert_eq!(list.files, [file("a.txt", "a.txt"), file("b.txt", "b.txt")]);
    assert_eq!(list.directories, [("c".into(), "c".into()), ("z".into(), "z".into())]);
    assert!(!list.is_cut);
    assert_eq!(files.list(p, "z/").unwrap().files, [file("in.txt", "z/in.txt")]);
    assert!(matches!(files.list(p, "a.txt"), Err(FileError::WrongKind(_))));
    assert_eq!(files.list(p, "gone"), Err(FileError::NotFound("gone".into())));
}

#[test]
fn a_listing_holds_at_most_ten_thousand_files() {
    let fixture = Fixture::new();
    for number in 0..10_001 {
        fs::write(fixture.at(&format!("{number:05}")), "").unwrap();
    }
    let list = fixture.files.list(&fixture.project, "").unwrap();
    assert!(list.is_cut && list.files.len() == 10_000);
    fs::remove_file(fixture.at("00000")).unwrap();
    assert!(!fixture.files.list(&fixture.project, "").unwrap().is_cut);
}

#[test]
fn statistics_count_every_entry_once_and_follow_no_symlink() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    assert_eq!(files.stats(p).unwrap(), TreeStats::default());
    files.write(p, "a/b/c.txt", "12345", UNLIMITED).unwrap();
    files.write(p, ".hidden", "123", UNLIMITED).unwrap();
    std::os::unix::fs::symlink("/", fixture.at("a/root")).unwrap();
    fs::File::create(fixture.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    let stats = files.stats(p).unwrap();
    assert_eq!(stats, TreeStats { files: 3, directories: 2, size: 8 + (1 << 40) });
}

#[test]
fn a_missing_project_is_not_found() {
    let fixture = Fixture::new();
    let gone = super::project(9, "gone");
    assert!(matches!(fixture.files.stats(&gone), Err(FileError::NotFound(_))));
    assert!(matches!(fixture.files.list(&gone, ""), Err(FileError::NotFound(_))));
    assert!(matches!(fixture.files.write(&gone, "a", "", UNLIMITED), Err(FileError::NotFound(_))));
    fixture.files.remove(&gone).unwrap();
}
