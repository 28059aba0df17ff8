//! Quotas.

use super::{Fixture, UNLIMITED};
use crate::domain::limits::Limits;
use crate::ports::{FileError, StorageAllowance, StorageScope, Workspaces};
use std::fs;

fn names(refusal: Result<impl Sized, FileError>, limit: &str) -> bool {
    matches!(refusal, Err(FileError::Quota(why)) if why.contains(limit))
}

#[test]
fn quotas_bound_bytes_and_entries_and_replaced_files_do_not_count() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    let allowance = StorageAllowance { bytes: 10, entries: 3, scope: StorageScope::Project };
    files.write(p, "d/a", "12345678", allowance).unwrap();
    assert!(names(files.write(p, "b", "123", allowance), "limits.project_bytes"));
    files.write(p, "b", "12", allowance).unwrap();
    assert!(names(files.write(p, "c", "", allowance), "limits.project_entries"));
    assert!(names(files.make_directory(p, "e", allowance), "limits.project_entries"));
    assert!(names(files.upload(p, allowance).unwrap().begin("c"), "limits.project_entries"));
    files.write(p, "d/a", "87654321", allowance).unwrap();
    assert!(names(files.write(p, "d/a", "123456789", allowance), "limits.project_bytes"));
    assert_eq!(files.read(p, "d/a").unwrap(), "87654321");
    assert_eq!(fixture.staged_count(), 0);
}

#[test]
fn files_over_the_quota_count_and_can_still_shrink() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    let allowance = StorageAllowance { bytes: 10, entries: 3, scope: StorageScope::Project };
    fs::write(fixture.at("big"), "x".repeat(100)).unwrap();
    assert!(names(files.write(p, "a", "1", allowance), "limits.project_bytes"));
    assert!(names(files.write(p, "big", &"x".repeat(101), allowance), "limits.project_bytes"));
    for number in 0..5 {
        fs::write(fixture.at(&format!(".{number}")), "").unwrap();
    }
    assert!(names(files.write(p, "a", "1", allowance), "limits.project_entries"));
    assert!(names(files.write(p, "big", &"x".repeat(101), allowance), "limits.project_entries"));
    files.write(p, "big", &"x".repeat(50), allowance).unwrap();
    files.delete(p, "big").unwrap();
}

#[test]
fn concurrent_writers_share_one_quota() {
    let fixture = Fixture::new();
    let allowance = StorageAllowance { bytes: 100, entries: 100, scope: StorageScope::Project };
    let written: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let fixture = &fixture;
                scope.spawn(move || {
                    let mut upload = fixture.files.upload(&fixture.project, allowance).unwrap();
                    let mut ended = 0;
                    for number in 0..10 {
                        upload.begin(&format!("{writer}-{number}")).unwrap();
                        let fits = upload.write(b"12345").is_ok();
                        ended += usize::from(fits && upload.end().is_ok());
                    }
                    upload.finish().unwrap();
                    ended
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let stats = fixture.files.stats(&fixture.project).unwrap();
    assert_eq!((stats.files, stats.size), (written as u64, 5 * written as u64));
    assert!(stats.size <= 100 && written > 0, "{stats:?}");
    assert_eq!(fixture.staged_count(), 0);
}

#[test]
fn an_abandoned_upload_returns_its_reserved_quota() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    let allowance = StorageAllowance { bytes: 10, entries: 2, scope: StorageScope::Project };
    let mut first = files.upload(p, allowance).unwrap();
    first.begin("a").unwrap();
    first.write(b"12345678").unwrap();
    assert!(names(files.write(p, "b", "123", allowance), "limits.project_bytes"), "what is coming counts");
    drop(first);
    files.write(p, "b", "123", allowance).unwrap();
    files.write(p, "c", "", allowance).unwrap();
    files.rename(p, "c", "d").unwrap();
    assert_eq!(files.stats(p).unwrap().files, 2);
    files.write(p, "e", "", UNLIMITED).unwrap();
}

#[test]
fn p8_directories_created_by_a_move_count_towards_the_quota() {
    let fixture = Fixture::with(&Limits { project_entries: 3, ..Limits::default() });
    fixture.files.write(&fixture.project, "a", "x", UNLIMITED).unwrap();
    let far = fixture.files.rename(&fixture.project, "a", "b/c/d/e");
    assert!(matches!(far, Err(FileError::Quota(_))), "{far:?}");
    fixture.files.rename(&fixture.project, "a", "b/c").unwrap();
}
