//! Somebody swaps directories and files for links while the server works: nothing outside is ever read, written or
//! deleted.

use super::{ROOM, Rig, SECRET};
use crate::ports::{FileError, GlobQuery, SearchQuery, Workspaces};
use rustix::fs::{CWD, RenameFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Turns of each act.
const TURNS: usize = 2_000;
/// Turns after which nobody waits any longer for both sides of a swap to be seen.
const MOST_TURNS: usize = 200_000;

/// Swaps a name for the link behind it. The worker may have taken one of them away: then it is planted again.
fn swap(rig: &Rig, name: &str, target: &Path) {
    let (here, there) = (rig.at(name), rig.at(&format!(".{name}")));
    if rustix::fs::renameat_with(CWD, &here, CWD, &there, RenameFlags::EXCHANGE).is_err() {
        symlink(target, &here).ok();
    }
}

/// Works while another thread swaps a directory and a file for links to what is outside.
fn while_swapping(rig: &Rig, work: impl FnOnce()) {
    fs::create_dir(rig.at("dir")).unwrap();
    fs::write(rig.at("dir/canary"), "own").unwrap();
    fs::write(rig.at("leaf"), "own").unwrap();
    symlink(rig.outside(), rig.at(".dir")).unwrap();
    symlink(rig.outside().join("canary"), rig.at(".leaf")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(rig, "dir", &rig.outside());
                swap(rig, "leaf", &rig.outside().join("canary"));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        done.unwrap();
    });
    rig.assert_untouched();
}

fn assert_known<T: std::fmt::Debug>(outcome: &Result<T, FileError>) {
    let fine = matches!(
        outcome,
        Ok(_) | Err(FileError::WrongKind(_) | FileError::NotFound(_) | FileError::Exists(_))
    );
    assert!(fine, "{outcome:?}");
}

#[test]
fn reading_and_listing_see_what_is_inside_or_nothing() {
    let rig = Rig::new();
    while_swapping(&rig, || {
        let (mut own, mut refused) = (0, 0);
        for turn in 0..MOST_TURNS {
            for path in ["dir/canary", "leaf"] {
                let read = rig.files.read(&rig.project, path);
                assert_known(&read);
                assert_ne!(read.as_deref(), Ok(SECRET));
                own += usize::from(read.as_deref() == Ok("own"));
                refused += usize::from(read.is_err());
            }
            let listed = rig.files.list(&rig.project, "dir");
            assert_known(&listed);
            assert!(listed.iter().flat_map(|list| &list.files).all(|file| file.size == 3));
            if turn >= TURNS && own > 0 && refused > 0 {
                break;
            }
        }
        assert!(own > 0 && refused > 0, "both sides of the swap were seen: {own}, {refused}");
    });
}

#[test]
fn searching_tells_nothing_from_outside() {
    let rig = Rig::new();
    // Only outside: its name must not be told either.
    fs::create_dir(rig.outside().join("canary.d")).unwrap();
    fs::write(rig.outside().join("canary.d/deep"), SECRET).unwrap();
    let query =
        SearchQuery { query: "n".into(), path: String::new(), max_results: 50, ..SearchQuery::default() };
    while_swapping_two(&rig, || {
        for _ in 0..TURNS {
            let found = rig.files.search(&rig.project, &query).unwrap();
            for hit in found.hits {
                assert!(!hit.path.contains(".d/"), "{hit:?}");
                assert!(hit.matches.iter().all(|(_, line)| line == "own"), "{hit:?}");
            }
        }
    });
}

/// As above, where the canary is not alone.
fn while_swapping_two(rig: &Rig, work: impl FnOnce()) {
    while_swapping(rig, || {
        work();
        assert_eq!(fs::read_to_string(rig.outside().join("canary.d/deep")).unwrap(), SECRET);
        fs::remove_dir_all(rig.outside().join("canary.d")).unwrap();
    });
}

#[test]
fn writing_moving_and_uploading_stay_inside() {
    let rig = Rig::new();
    while_swapping(&rig, || {
        for turn in 0..TURNS {
            assert_known(&rig.files.write(&rig.project, "dir/canary", "written", ROOM));
            assert_known(&rig.files.write(&rig.project, "leaf", "own", ROOM));
            assert_known(&rig.files.make_directory(&rig.project, &format!("dir/{}/x", turn % 7), ROOM));
            assert_known(&rig.files.rename(&rig.project, "dir/canary", "stolen"));
            assert_ne!(rig.files.read(&rig.project, "stolen").as_deref(), Ok(SECRET));
            assert_known(&rig.files.rename(&rig.project, "stolen", "dir/planted"));
            let mut upload = rig.files.upload(&rig.project, ROOM).unwrap();
            let begun = upload.begin(&format!("dir/up{}", turn % 7));
            assert_known(&begun);
            if begun.is_ok() {
                upload.write(b"x").unwrap();
                assert_known(&upload.end());
            }
        }
    });
}

#[test]
fn deleting_stays_inside() {
    let rig = Rig::new();
    while_swapping(&rig, || {
        for _ in 0..TURNS {
            assert_known(&rig.files.delete(&rig.project, "dir/canary"));
            assert_known(&rig.files.delete(&rig.project, "leaf"));
            assert_known(&rig.files.delete(&rig.project, "dir"));
            fs::create_dir_all(rig.at("spare/deep")).ok();
            fs::write(rig.at("spare/canary"), "own").ok();
            fs::rename(rig.at("spare"), rig.at(".dir")).ok();
        }
    });
}

#[test]
fn a_project_is_removed_while_it_is_written_to() {
    let rig = Rig::new();
    while_swapping(&rig, || {
        for _ in 0..TURNS / 10 {
            rig.files.remove(&rig.project).unwrap();
            rig.files.make(&rig.project).unwrap();
            symlink(rig.outside(), rig.at("dir")).ok();
            fs::create_dir(rig.at(".dir")).ok();
        }
    });
}

#[test]
fn changing_by_content_finding_and_removing_files_stay_inside() {
    let rig = Rig::new();
    let query = GlobQuery { glob: "**/*".to_owned(), with_hidden: true, ..GlobQuery::default() };
    while_swapping(&rig, || {
        for turn in 0..TURNS {
            for path in ["dir/canary", "leaf"] {
                let changed = rig.files.revise(
                    &rig.project,
                    path,
                    &mut |before| {
                        let before = before.unwrap_or_default();
                        assert_ne!(before, SECRET.as_bytes(), "nobody is shown what is outside");
                        Some(b"own".to_vec())
                    },
                    ROOM,
                );
                assert_known(&changed);
                assert_known(&rig.files.kind(&rig.project, path));
            }
            if turn % 3 == 0 {
                assert_known(&rig.files.delete_file(&rig.project, "dir/canary"));
            }
            if turn % 16 == 0 {
                let found = rig.files.find(&rig.project, &query).unwrap();
                assert!(found.files.iter().all(|file| file.size == 3), "{found:?}");
            }
        }
    });
}

#[test]
fn changes_by_content_come_one_after_the_other() {
    let rig = Rig::new();
    rig.files.write(&rig.project, "n", "", ROOM).unwrap();
    let add = |before: Option<Vec<u8>>| Some([before.unwrap(), b"x".to_vec()].concat());
    let add_many = || {
        for _ in 0..50 {
            rig.files.revise(&rig.project, "n", &mut { add }, ROOM).unwrap().unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(add_many);
        }
    });
    assert_eq!(rig.files.read(&rig.project, "n").unwrap().len(), 200);
    assert_eq!(rig.files.revise(&rig.project, "n", &mut |_| None, ROOM), Ok(None));
    assert_eq!(rig.files.read(&rig.project, "n").unwrap().len(), 200, "left alone");
}
