//! Moving and deleting.

use super::super::beneath::rename_checked;
use super::{Fixture, NOW_MS, UNLIMITED, as_unprivileged_user, project};
use crate::ports::{FileError, Workspaces};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Makes a chain of directories without ever naming a long path.
fn dig(root: &Path, depth: u32) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut here = rustix::fs::openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&here, c"d", Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, c"d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn files_and_directories_move_only_to_free_paths() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "a/x", "1", UNLIMITED).unwrap();
    files.write(p, "b", "2", UNLIMITED).unwrap();
    files.rename(p, "a/x", "new/deep/y").unwrap();
    assert_eq!(files.read(p, "new/deep/y").unwrap(), "1");
    assert_eq!(files.read(p, "a/x"), Err(FileError::NotFound("a/x".into())));
    files.rename(p, "new", "newer").unwrap();
    assert_eq!(files.read(p, "newer/deep/y").unwrap(), "1");
    for taken in ["b", "newer", "a"] {
        assert_eq!(files.rename(p, "newer/deep/y", taken), Err(FileError::Exists(taken.into())));
    }
    assert_eq!(files.rename(p, "b", "b"), Err(FileError::Exists("b".into())));
    for into in ["newer/deep/in", "newer/in", "newer/none/in"] {
        assert!(matches!(files.rename(p, "newer", into), Err(FileError::BadPath(_))), "{into}");
    }
    assert!(!fixture.at("newer/none").exists());
    assert_eq!(files.rename(p, "none", "made/for/nothing"), Err(FileError::NotFound("none".into())));
    assert!(!fixture.at("made").exists());
    assert!(matches!(files.rename(p, "b", "b/c"), Err(FileError::BadPath(_))));
    assert!(matches!(files.rename(p, "a", "../a"), Err(FileError::Outside(_))));
}

#[test]
fn a_deep_or_large_tree_is_deleted_completely() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    dig(&fixture.at(""), 10_000);
    assert_eq!(files.stats(p).unwrap().directories, 10_000);
    assert_eq!(files.search(p, &super::searching::query("x")).unwrap().hits, []);
    fs::create_dir_all(fixture.at("d/.moved-1/x/y")).unwrap();
    fs::create_dir_all(fixture.at("d/e/.moved-3/z")).unwrap();
    std::os::unix::fs::symlink(fixture.outside(), fixture.at("d/e/link")).unwrap();
    for number in 0..3_000 {
        fs::write(fixture.at(&format!("d/e/{number}")), "").unwrap();
    }
    files.delete(p, "d").unwrap();
    assert!(!fixture.at("d").exists());
    assert_eq!(fixture.staged_count(), 0);
    assert_eq!(files.delete(p, "d"), Err(FileError::NotFound("d".into())));
    assert_eq!(files.delete(p, "x/d"), Err(FileError::NotFound("x/d".into())));
    fixture.assert_untouched();
}

#[test]
fn a_tree_too_deep_to_count_is_over_quota_and_can_be_deleted() {
    let fixture = Fixture::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut here = rustix::fs::openat(CWD, fixture.at(""), flags, Mode::empty()).unwrap();
    let name = "n".repeat(250);
    for _ in 0..800 {
        rustix::fs::mkdirat(&here, name.as_str(), Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, name.as_str(), flags, Mode::empty()).unwrap();
    }
    assert!(matches!(fixture.files.write(&fixture.project, "a", "x", UNLIMITED), Err(FileError::Quota(_))));
    assert!(fixture.files.stats(&fixture.project).unwrap().directories > 100);
    fixture.files.delete(&fixture.project, &name).unwrap();
    fixture.files.write(&fixture.project, "a", "x", UNLIMITED).unwrap();
}

#[test]
fn directories_with_any_permissions_can_be_deleted() {
    as_unprivileged_user(|| {
        let fixture = Fixture::new();
        for mode in (0..0o1000).step_by(0o40) {
            fs::create_dir_all(fixture.at("t/a/b/c")).unwrap();
            fs::write(fixture.at("t/a/b/c/file"), "x").unwrap();
            for inner in ["t/a/b/c", "t/a/b", "t/a", "t"] {
                fs::set_permissions(fixture.at(inner), fs::Permissions::from_mode(mode)).unwrap();
            }
            fixture
                .files
                .delete(&fixture.project, "t")
                .unwrap_or_else(|error| panic!("mode {mode:o}: {error}"));
            assert_eq!(fixture.staged_count(), 0, "mode {mode:o}");
        }
    });
}

#[test]
fn removing_a_project_is_idempotent_and_finishes_after_a_crash() {
    let fixture = Fixture::new();
    fixture.files.write(&fixture.project, "a/b", "x", UNLIMITED).unwrap();
    let neighbour = project(2, "q");
    fixture.files.make(&neighbour).unwrap();
    fixture.files.remove(&fixture.project).unwrap();
    fixture.files.remove(&fixture.project).unwrap();
    assert!(!fixture.at("").exists());
    assert_eq!(fixture.staged_count(), 0);
    // A crash between moving to staging and removing.
    fs::create_dir_all(fixture.user().join(format!(".nanoclaw/gone-{}/x", fixture.project.id))).unwrap();
    fixture.files.list(&neighbour, "").unwrap();
    fixture.files.write(&neighbour, "a", "", UNLIMITED).unwrap();
    assert_eq!(fixture.staged_count(), 1, "the caller repeats the removal");
    fixture.files.remove(&fixture.project).unwrap();
    assert_eq!(fixture.staged_count(), 0);
    fixture.files.make(&fixture.project).unwrap();
    assert!(fixture.files.list(&fixture.project, "").unwrap().directories.is_empty());
}

#[test]
fn old_staging_files_of_a_crash_are_removed() {
    let fixture = Fixture::new();
    let staging = fixture.user().join(".nanoclaw");
    fixture.files.write(&fixture.project, "a", "x", UNLIMITED).unwrap();
    let now = UNIX_EPOCH + Duration::from_millis(NOW_MS);
    let leave = |name: &str, age_s: u64| {
        let file = fs::File::create(staging.join(name)).unwrap();
        file.set_modified(now.checked_sub(Duration::from_secs(age_s)).unwrap()).unwrap();
    };
    leave("18c-7-1", 4_000);
    leave("18c-7-2", 3_000);
    fixture.files.write(&fixture.project, "a", "x", UNLIMITED).unwrap();
    assert!(!staging.join("18c-7-1").exists());
    assert!(staging.join("18c-7-2").exists(), "another server may be writing it");
}

#[test]
fn a_move_replaces_nothing_on_a_file_system_that_has_no_such_rename() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.at("dir/sub")).unwrap();
    fs::write(fixture.at("file"), "1").unwrap();
    fs::write(fixture.at("other"), "2").unwrap();
    let rename = |from: &str, to: &str| {
        rename_checked((CWD, fixture.at(from).as_path()), (CWD, fixture.at(to).as_path()))
    };
    for (from, to) in [("file", "other"), ("file", "dir"), ("dir", "other")] {
        assert_eq!(rename(from, to), Err(Errno::EXIST), "{from} {to}");
    }
    assert_eq!(rename("dir", "dir/sub/deeper"), Err(Errno::INVAL));
    assert_eq!(rename("none", "new"), Err(Errno::NOENT));
    rename("file", "dir/moved").unwrap();
    rename("dir", "moved").unwrap();
    assert_eq!(fs::read_to_string(fixture.at("moved/moved")).unwrap(), "1");
    assert!(!fixture.at("file").exists() && fixture.at("moved/sub").is_dir());
}
