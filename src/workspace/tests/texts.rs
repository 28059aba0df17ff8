//! Reading and writing text files.

use super::{Fixture, UNLIMITED, as_unprivileged_user};
use crate::domain::limits::Limits;
use crate::ports::{FileError, Workspaces};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn a_written_text_is_read_back_and_leaves_nothing_staged() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    assert_eq!(files.write(p, "a/b/我.txt", "é\n", UNLIMITED), Ok(3));
    assert_eq!(files.read(p, "a//b/./我.txt").unwrap(), "é\n");
    assert_eq!(files.write(p, "a/b/我.txt", "", UNLIMITED), Ok(0));
    assert_eq!(files.read(p, "a/b/我.txt").unwrap(), "");
    assert_eq!(fixture.staged_count(), 0);
    assert_eq!(fs::metadata(fixture.at("a")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(fixture.at("a/b/我.txt")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(fixture.home.path().join("ws")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_replaced_file_is_a_new_inode_with_the_old_permissions() {
    let fixture = Fixture::new();
    fixture.files.write(&fixture.project, "run.sh", "old", UNLIMITED).unwrap();
    fs::set_permissions(fixture.at("run.sh"), fs::Permissions::from_mode(0o4755)).unwrap();
    let reader = fs::File::open(fixture.at("run.sh")).unwrap();
    fixture.files.write(&fixture.project, "run.sh", "new text", UNLIMITED).unwrap();
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old", "a reader sees the old one whole");
    assert_eq!(fs::metadata(fixture.at("run.sh")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn wrong_kinds_sizes_and_encodings_give_distinct_errors() {
    let fixture = Fixture::with(&Limits { file_bytes: 10, ..Limits::default() });
    let (files, p) = (&fixture.files, &fixture.project);
    files.make_directory(p, "dir/in", UNLIMITED).unwrap();
    files.make_directory(p, "dir/in", UNLIMITED).unwrap();
    files.make_directory(p, "", UNLIMITED).unwrap();
    assert!(matches!(files.write(p, "dir", "x", UNLIMITED), Err(FileError::WrongKind(_))));
    assert!(matches!(files.write(p, "big", "12345678901", UNLIMITED), Err(FileError::TooLarge(_))));
    assert_eq!(files.write(p, "fits", "1234567890", UNLIMITED), Ok(10));
    assert_eq!(files.read(p, "fits").unwrap().len(), 10);
    fs::write(fixture.at("big"), "12345678901").unwrap();
    fs::File::create(fixture.at("huge")).unwrap().set_len(1 << 42).unwrap();
    fs::write(fixture.at("latin"), b"caf\xe9").unwrap();
    assert!(matches!(files.read(p, "big"), Err(FileError::TooLarge(_))));
    assert!(matches!(files.read(p, "huge"), Err(FileError::TooLarge(_))));
    assert_eq!(files.read(p, "latin"), Err(FileError::NotText("latin".into())));
    assert_eq!(files.read(p, "none"), Err(FileError::NotFound("none".into())));
    for below in ["fits/x", "fits/x/y"] {
        assert!(matches!(files.read(p, below), Err(FileError::WrongKind(_))), "{below}");
        assert!(matches!(files.write(p, below, "", UNLIMITED), Err(FileError::WrongKind(_))), "{below}");
        assert!(matches!(files.make_directory(p, below, UNLIMITED), Err(FileError::WrongKind(_))));
    }
    assert!(matches!(files.make_directory(p, "fits", UNLIMITED), Err(FileError::WrongKind(_))));
    assert_eq!(fixture.staged_count(), 0);
}

#[test]
fn the_project_root_cannot_be_read_written_moved_or_deleted() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    for root in ["", ".", "./", "././"] {
        assert!(matches!(files.read(p, root), Err(FileError::WrongKind(_))));
        let refusals = [
            files.write(p, root, "x", UNLIMITED).err(),
            files.delete(p, root).err(),
            files.rename(p, root, "x").err(),
            files.rename(p, "x", root).err(),
        ];
        for refusal in refusals {
            assert!(matches!(refusal, Some(FileError::BadPath(_))), "{root:?}: {refusal:?}");
        }
    }
    assert!(fixture.at("").is_dir());
}

#[test]
fn the_longest_allowed_path_works() {
    let fixture = Fixture::new();
    let path = format!("{}/{}", vec!["x".repeat(250); 15].join("/"), "y".repeat(250));
    fixture.files.write(&fixture.project, &path, "deep", UNLIMITED).unwrap();
    assert_eq!(fixture.files.read(&fixture.project, &path).unwrap(), "deep");
    fixture.files.delete(&fixture.project, &"x".repeat(250)).unwrap();
}

#[test]
fn missing_permissions_are_refused_without_an_internal_error() {
    as_unprivileged_user(|| {
        let fixture = Fixture::new();
        let (files, p) = (&fixture.files, &fixture.project);
        let close =
            |path: &str| fs::set_permissions(fixture.at(path), fs::Permissions::from_mode(0o0)).unwrap();
        files.write(p, "dir/file", "x", UNLIMITED).unwrap();
        files.write(p, "file", "x", UNLIMITED).unwrap();
        close("dir");
        close("file");
        for refusal in
            [files.read(p, "file").err(), files.read(p, "dir/file").err(), files.list(p, "dir").err()]
        {
            assert!(
                matches!(&refusal, Some(FileError::WrongKind(w)) if w.contains("permissions")),
                "{refusal:?}"
            );
        }
        files.write(p, "file", "open again", UNLIMITED).unwrap();
        assert_eq!(files.read(p, "file").unwrap(), "open again");
        files.delete(p, "dir").unwrap();
        close("");
        assert_eq!(files.list(p, "").unwrap().files.len(), 1, "a project can always be opened");
        close("");
        files.remove(p).unwrap();
        assert!(!fixture.at("").exists());
    });
}
