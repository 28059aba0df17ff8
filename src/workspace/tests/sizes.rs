//! Sizes of workspaces: small ones are counted, large ones have an account.

use super::{Fixture, UNLIMITED};
use crate::ports::{FileError, StorageAllowance, StorageScope, Workspaces};
use std::fs;
use std::sync::atomic::Ordering;

/// More entries than a small workspace has.
const MANY: u64 = 600;

/// A workspace with many files of one byte in the directory `d`, of which all are known.
fn large() -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.at("d")).unwrap();
    for number in 0..MANY {
        fs::write(fixture.at(&format!("d/{number}")), "x").unwrap();
    }
    assert_eq!(sizes(&fixture), (MANY, 1, MANY));
    fixture
}

/// Files, directories and bytes.
fn sizes(fixture: &Fixture) -> (u64, u64, u64) {
    let stats = fixture.files.stats(&fixture.project).unwrap();
    (stats.files, stats.directories, stats.size)
}

#[test]
fn a_large_workspace_is_not_walked_again_when_somebody_asks_for_its_size() {
    let fixture = large();
    fs::write(fixture.at("beside"), "xyz").unwrap();
    assert_eq!(sizes(&fixture), (MANY, 1, MANY), "the account does not know of it");
    assert_eq!(fixture.files.bytes_of(std::slice::from_ref(&fixture.project)).unwrap(), MANY);
    fixture.files.count_again(&fixture.project).unwrap();
    assert_eq!(sizes(&fixture), (MANY + 1, 1, MANY + 3), "a program has ended");
}

#[test]
fn each_change_is_added_to_the_account_of_a_large_workspace() {
    let fixture = large();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "new/a", "12345", UNLIMITED).unwrap();
    assert_eq!(sizes(&fixture), (MANY + 1, 2, MANY + 5));
    files.write(p, "new/a", "12", UNLIMITED).unwrap();
    assert_eq!(sizes(&fixture), (MANY + 1, 2, MANY + 2), "a file shrinks");
    files.make_directory(p, "e/f", UNLIMITED).unwrap();
    files.rename(p, "new/a", "g/a").unwrap();
    let mut upload = files.upload(p, UNLIMITED).unwrap();
    upload.begin("h/b").unwrap();
    upload.write(b"123").unwrap();
    upload.end().unwrap();
    upload.finish().unwrap();
    assert_eq!(sizes(&fixture), (MANY + 2, 6, MANY + 5));
    files.delete_file(p, "h/b").unwrap();
    files.delete(p, "g").unwrap();
    assert_eq!(sizes(&fixture), (MANY, 5, MANY));
    let accounted = sizes(&fixture);
    files.count_again(p).unwrap();
    assert_eq!(sizes(&fixture), accounted, "the account is right");
    files.delete(p, "d").unwrap();
    assert_eq!(sizes(&fixture), (0, 4, 0));
}

#[test]
fn a_large_workspace_is_corrected_in_the_background_when_its_account_is_old() {
    let fixture = large();
    fs::write(fixture.at("beside"), "xyz").unwrap();
    fixture.clock.monotonic_ms.fetch_add(10_000, Ordering::SeqCst);
    while sizes(&fixture).0 == MANY {
        std::thread::yield_now();
    }
    assert_eq!(sizes(&fixture), (MANY + 1, 1, MANY + 3));
}

#[test]
fn what_others_removed_from_a_full_workspace_is_room_at_once() {
    let fixture = large();
    let (files, p) = (&fixture.files, &fixture.project);
    let allowance = StorageAllowance { bytes: MANY, entries: 10_000, scope: StorageScope::Project };
    assert!(matches!(files.write(p, "a", "1", allowance), Err(FileError::Quota(_))));
    fs::remove_dir_all(fixture.at("d")).unwrap();
    files.write(p, "a", "1", allowance).unwrap();
    assert_eq!(sizes(&fixture), (1, 0, 1));
}

#[test]
fn the_sizes_of_many_workspaces_are_counted_up_to_a_number_of_entries() {
    let fixture = Fixture::new();
    let projects: Vec<_> = (2..8).map(|id| super::project(id, &format!("p{id}"))).collect();
    for project in &projects {
        fixture.files.make(project).unwrap();
        for number in 0..450 {
            fs::write(fixture.files.absolute(project).join(number.to_string()), "x").unwrap();
        }
    }
    let bytes = || fixture.files.bytes_of(&projects).unwrap();
    assert_eq!(bytes(), 6 * 450, "the first time all are counted");
    for project in &projects {
        fs::write(fixture.files.absolute(project).join("more"), "x").unwrap();
    }
    assert_eq!(bytes(), 6 * 450 + 5, "five are counted, and the account of the sixth is taken");
}
