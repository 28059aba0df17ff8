//! Another thread swaps directories and files for links while the server works. No outside file is read,
//! written or deleted.

use super::{Fixture, SECRET, UNLIMITED};
use crate::ports::{FileError, GlobQuery, SearchQuery, Workspaces};
use rustix::fs::{CWD, RenameFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rounds of each test.
const ROUNDS: usize = 2_000;
/// Rounds after which a test stops waiting to see both sides of a swap.
const MAX_ROUNDS: usize = 200_000;

/// Swaps a name with its link. Plants the link again when the worker has removed one of them.
fn swap(fixture: &Fixture, name: &str, target: &Path) {
    let (here, there) = (fixture.at(name), fixture.at(&format!(".{name}")));
    if rustix::fs::renameat_with(CWD, &here, CWD, &there, RenameFlags::EXCHANGE).is_err() {
        symlink(target, &here).ok();
    }
}

/// Runs `work` while another thread swaps a directory and a file for links to outside files.
fn while_swapping(fixture: &Fixture, work: impl FnOnce()) {
    fs::create_dir(fixture.at("dir")).unwrap();
    fs::write(fixture.at("dir/canary"), "own").unwrap();
    fs::write(fixture.at("leaf"), "own").unwrap();
    symlink(fixture.outside(), fixture.at(".dir")).unwrap();
    symlink(fixture.outside().join("canary"), fixture.at(".leaf")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(fixture, "dir", &fixture.outside());
                swap(fixture, "leaf", &fixture.outside().join("canary"));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        done.unwrap();
    });
    fixture.assert_untouched();
}

fn assert_known<T: std::fmt::Debug>(outcome: &Result<T, FileError>) {
    let fine = matches!(
        outcome,
        Ok(_) | Err(FileError::WrongKind(_) | FileError::NotFound(_) | FileError::Exists(_))
    );
    assert!(fine, "{outcome:?}");
}

#[test]
fn reads_and_listings_stay_inside_during_symlink_swaps() {
    let fixture = Fixture::new();
    while_swapping(&fixture, || {
        let (mut own, mut refused) = (0, 0);
        for round in 0..MAX_ROUNDS {
            for path in ["dir/canary", "leaf"] {
                let read = fixture.files.read(&fixture.project, path);
                assert_known(&read);
                assert_ne!(read.as_deref(), Ok(SECRET));
                own += usize::from(read.as_deref() == Ok("own"));
                refused += usize::from(read.is_err());
            }
            let listed = fixture.files.list(&fixture.project, "dir");
            assert_known(&listed);
            assert!(listed.iter().flat_map(|list| &list.files).all(|file| file.size == 3));
            if round >= ROUNDS && own > 0 && refused > 0 {
                break;
            }
        }
        assert!(own > 0 && refused > 0, "both sides of the swap were seen: {own}, {refused}");
    });
}

#[test]
fn searches_return_nothing_from_outside_during_symlink_swaps() {
    let fixture = Fixture::new();
    // Exists only outside: not even its name may be reported.
    fs::create_dir(fixture.outside().join("canary.d")).unwrap();
    fs::write(fixture.outside().join("canary.d/deep"), SECRET).unwrap();
    let query =
        SearchQuery { query: "n".into(), path: String::new(), max_results: 50, ..SearchQuery::default() };
    while_swapping_two(&fixture, || {
        for _ in 0..ROUNDS {
            let found = fixture.files.search(&fixture.project, &query).unwrap();
            for hit in found.hits {
                assert!(!hit.path.contains(".d/"), "{hit:?}");
                assert!(hit.matches.iter().all(|(_, line)| line == "own"), "{hit:?}");
            }
        }
    });
}

/// The same, with a second file beside the canary.
fn while_swapping_two(fixture: &Fixture, work: impl FnOnce()) {
    while_swapping(fixture, || {
        work();
        assert_eq!(fs::read_to_string(fixture.outside().join("canary.d/deep")).unwrap(), SECRET);
        fs::remove_dir_all(fixture.outside().join("canary.d")).unwrap();
    });
}

#[test]
fn writes_moves_and_uploads_stay_inside_during_symlink_swaps() {
    let fixture = Fixture::new();
    while_swapping(&fixture, || {
        for round in 0..ROUNDS {
            assert_known(&fixture.files.write(&fixture.project, "dir/canary", "written", UNLIMITED));
            assert_known(&fixture.files.write(&fixture.project, "leaf", "own", UNLIMITED));
            assert_known(&fixture.files.make_directory(
                &fixture.project,
                &format!("dir/{}/x", round % 7),
                UNLIMITED,
            ));
            assert_known(&fixture.files.rename(&fixture.project, "dir/canary", "stolen"));
            assert_ne!(fixture.files.read(&fixture.project, "stolen").as_deref(), Ok(SECRET));
            assert_known(&fixture.files.rename(&fixture.project, "stolen", "dir/planted"));
            let mut upload = fixture.files.upload(&fixture.project, UNLIMITED).unwrap();
            let started = upload.begin(&format!("dir/up{}", round % 7));
            assert_known(&started);
            if started.is_ok() {
                upload.write(b"x").unwrap();
                assert_known(&upload.end());
                assert_known(&upload.finish());
            }
        }
    });
}

#[test]
fn deletes_stay_inside_during_symlink_swaps() {
    let fixture = Fixture::new();
    while_swapping(&fixture, || {
        for _ in 0..ROUNDS {
            assert_known(&fixture.files.delete(&fixture.project, "dir/canary"));
            assert_known(&fixture.files.delete(&fixture.project, "leaf"));
            assert_known(&fixture.files.delete(&fixture.project, "dir"));
            fs::create_dir_all(fixture.at("spare/deep")).ok();
            fs::write(fixture.at("spare/canary"), "own").ok();
            fs::rename(fixture.at("spare"), fixture.at(".dir")).ok();
        }
    });
}

#[test]
fn a_project_can_be_removed_during_concurrent_writes() {
    let fixture = Fixture::new();
    while_swapping(&fixture, || {
        for _ in 0..ROUNDS / 10 {
            fixture.files.remove(&fixture.project).unwrap();
            fixture.files.make(&fixture.project).unwrap();
            symlink(fixture.outside(), fixture.at("dir")).ok();
            fs::create_dir(fixture.at(".dir")).ok();
        }
    });
}

#[test]
fn revise_find_and_delete_stay_inside_during_symlink_swaps() {
    let fixture = Fixture::new();
    let query = GlobQuery { glob: "**/*".to_owned(), with_hidden: true, ..GlobQuery::default() };
    while_swapping(&fixture, || {
        for round in 0..ROUNDS {
            for path in ["dir/canary", "leaf"] {
                let changed = fixture.files.revise(
                    &fixture.project,
                    path,
                    &mut |before| {
                        let before = before.unwrap_or_default();
                        assert_ne!(before, SECRET.as_bytes(), "nobody is shown what is outside");
                        Some(b"own".to_vec())
                    },
                    UNLIMITED,
                );
                assert_known(&changed);
                assert_known(&fixture.files.kind(&fixture.project, path));
            }
            if round % 3 == 0 {
                assert_known(&fixture.files.delete_file(&fixture.project, "dir/canary"));
            }
            if round % 16 == 0 {
                let found = fixture.files.find(&fixture.project, &query).unwrap();
                assert!(found.files.iter().all(|file| file.size == 3), "{found:?}");
            }
        }
    });
}

#[test]
fn concurrent_revisions_of_a_file_are_serialized() {
    let fixture = Fixture::new();
    fixture.files.write(&fixture.project, "n", "", UNLIMITED).unwrap();
    let add = |before: Option<Vec<u8>>| Some([before.unwrap(), b"x".to_vec()].concat());
    let add_many = || {
        for _ in 0..50 {
            fixture.files.revise(&fixture.project, "n", &mut { add }, UNLIMITED).unwrap().unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(add_many);
        }
    });
    assert_eq!(fixture.files.read(&fixture.project, "n").unwrap().len(), 200);
    assert_eq!(fixture.files.revise(&fixture.project, "n", &mut |_| None, UNLIMITED), Ok(None));
    assert_eq!(fixture.files.read(&fixture.project, "n").unwrap().len(), 200, "left alone");
}
