//! Directories of the operator.

use super::StepClock;
use crate::ports::{FileError, FileKind, ReadOnlyFiles};
use crate::workspace::HostDirectory;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

fn directory() -> (tempfile::TempDir, HostDirectory) {
    let dir = tempfile::tempdir().expect("a directory");
    let files = HostDirectory::new(dir.path().join("skills"), Arc::new(StepClock::default()));
    (dir, files)
}

#[test]
fn entries_are_listed_with_their_kinds_and_links_are_not_followed() {
    let (dir, files) = directory();
    assert!(matches!(files.entries(), Err(FileError::NotFound(_))));
    let root = dir.path().join("skills");
    fs::create_dir_all(root.join("pdf/scripts")).expect("directories");
    fs::write(root.join("pdf/SKILL.md"), "text").expect("a file");
    fs::write(root.join("pdf/scripts/a.sh"), "echo").expect("a file");
    fs::write(dir.path().join("secret"), "x").expect("a file");
    symlink(dir.path(), root.join("link")).expect("a link");
    symlink(dir.path().join("secret"), root.join("pdf/stolen")).expect("a link");
    let entries = files.entries().expect("entries");
    assert_eq!(entries, [("link".to_owned(), FileKind::Other), ("pdf".to_owned(), FileKind::Directory)]);
    let below: Vec<String> =
        files.files_below("pdf").expect("files").files.into_iter().map(|f| f.path).collect();
    assert_eq!(below, ["pdf/SKILL.md", "pdf/scripts/a.sh"]);
    assert_eq!(files.open("pdf/SKILL.md").expect("a file").1, 4);
    for path in ["link/secret", "pdf/stolen", "../secret", "/etc/passwd", "pdf/../../secret"] {
        assert!(files.open(path).is_err(), "{path}");
    }
}

#[test]
fn a_directory_that_everybody_may_write_into_is_refused() {
    let (dir, files) = directory();
    let root = dir.path().join("skills");
    fs::create_dir(&root).expect("a directory");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).expect("permissions");
    let refused = files.entries().expect_err("refused").to_string();
    assert!(refused.contains("chmod o-w"), "{refused}");
}
