//! Files that arrive piece by piece.

use super::{Fixture, UNLIMITED, project};
use crate::domain::limits::Limits;
use crate::ports::{FileError, Workspaces};
use std::fs;

#[test]
fn an_upload_publishes_complete_files_when_it_finishes() {
    let fixture = Fixture::new();
    let p = project(7, "not there yet");
    assert!(
        matches!(fixture.files.upload(&p, UNLIMITED).err(), Some(FileError::NotFound(_))),
        "nothing is made by the way"
    );
    fixture.files.make(&p).unwrap();
    let mut upload = fixture.files.upload(&p, UNLIMITED).unwrap();
    for (path, pieces) in [("a/b.bin", vec![&b"\0\xff"[..], b"2"]), ("c", vec![]), ("a/d", vec![b"x"])] {
        upload.begin(path).unwrap();
        for piece in pieces {
            upload.write(piece).unwrap();
        }
        upload.end().unwrap();
        assert!(!fixture.files.absolute(&p).join(path).exists(), "its content may not be on the disk yet");
    }
    upload.finish().unwrap();
    assert_eq!(upload.take_published(), ["a/b.bin", "c", "a/d"]);
    drop(upload);
    assert_eq!(fs::read(fixture.files.absolute(&p).join("a/b.bin")).unwrap(), b"\0\xff2");
    let stats = fixture.files.stats(&p).unwrap();
    assert_eq!((stats.files, stats.directories, stats.size), (3, 1, 4));
    assert_eq!(fixture.staged_count(), 0);
}

#[test]
fn an_upload_never_replaces_an_existing_file() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "old", "old", UNLIMITED).unwrap();
    let mut upload = files.upload(p, UNLIMITED).unwrap();
    upload.begin("twice").unwrap();
    upload.end().unwrap();
    for there in ["old", "twice"] {
        assert_eq!(upload.begin(there), Err(FileError::Exists(there.into())));
    }
    upload.begin("race").unwrap();
    fs::write(fixture.at("race"), "first").unwrap();
    upload.end().unwrap();
    assert_eq!(upload.finish(), Err(FileError::Exists("race".into())));
    assert_eq!(upload.take_published(), ["twice"], "the one that may be removed again");
    assert_eq!(files.read(p, "race").unwrap(), "first");
    assert!(matches!(upload.begin("old/in"), Err(FileError::WrongKind(_))));
    for bad in ["../x", "top/../../../x", "/x"] {
        assert_eq!(upload.begin(bad), Err(FileError::Outside(bad.into())));
    }
    for bad in ["", ".", "...", "a\\b"] {
        assert!(matches!(upload.begin(bad), Err(FileError::BadPath(_))), "{bad}");
    }
    assert!(matches!(upload.write(b"x"), Err(FileError::Io(_))));
    assert!(matches!(upload.end(), Err(FileError::Io(_))));
}

#[test]
fn an_unfinished_uploaded_file_leaves_nothing() {
    let fixture = Fixture::new();
    let mut upload = fixture.files.upload(&fixture.project, UNLIMITED).unwrap();
    upload.begin("half").unwrap();
    upload.write(b"half").unwrap();
    assert_eq!(fixture.staged_count(), 1);
    upload.begin("other").unwrap();
    assert_eq!(fixture.staged_count(), 1);
    drop(upload);
    assert_eq!(fixture.staged_count(), 0);
    assert_eq!(fixture.files.stats(&fixture.project).unwrap().files, 0);
}

#[test]
fn upload_sizes_and_file_counts_are_limited() {
    let fixture = Fixture::with(&Limits { upload_bytes: 10, upload_files: 3, ..Limits::default() });
    let mut upload = fixture.files.upload(&fixture.project, UNLIMITED).unwrap();
    upload.begin("a").unwrap();
    upload.write(b"12345").unwrap();
    upload.end().unwrap();
    upload.begin("b").unwrap();
    let refusal = upload.write(b"123456");
    assert!(matches!(refusal, Err(FileError::TooLarge(why)) if why.contains("limits.upload_bytes")));
    assert!(upload.end().is_err(), "half a file does not come to its place");
    upload.begin("c").unwrap();
    upload.end().unwrap();
    let refusal = upload.begin("d");
    assert!(matches!(refusal, Err(FileError::TooLarge(why)) if why.contains("limits.upload_files")));
    upload.finish().unwrap();
    assert!(!fixture.at("b").exists() && fixture.at("c").exists());
}

#[test]
fn files_of_a_large_upload_appear_in_groups() {
    let fixture = Fixture::new();
    let mut upload = fixture.files.upload(&fixture.project, UNLIMITED).unwrap();
    for number in 0..100 {
        upload.begin(&format!("dir/{number}")).unwrap();
        upload.write(b"x").unwrap();
        upload.end().unwrap();
    }
    assert_eq!(upload.take_published().len(), 64, "so that few descriptors are open");
    upload.finish().unwrap();
    assert_eq!(fixture.files.stats(&fixture.project).unwrap().files, 100);
}
