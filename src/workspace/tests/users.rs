//! The directories of users: their names, and those of earlier versions and of another key.

use super::{SECRET, StepClock, UNLIMITED, project, user_directories};
use crate::domain::id::{JobId, UserId};
use crate::domain::limits::Limits;
use crate::domain::workspace::{UserDirectories, Workspace};
use crate::ports::Workspaces;
use crate::workspace::HostFiles;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn files(home: &Path, users: UserDirectories) -> HostFiles {
    HostFiles::new(home.join("ws"), users, &Limits::default(), Arc::new(StepClock::default()))
        .with_job_root(home.join("data"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn p7_paths_of_jobs_projects_and_memories_have_a_part_that_needs_the_key() {
    let home = tempfile::tempdir().unwrap();
    let files = files(home.path(), user_directories());
    let workspaces =
        [project(1, "p"), Workspace::of_job(UserId(1), JobId::from_bits(1)), Workspace::of_memory(UserId(1))];
    for workspace in &workspaces {
        files.make(workspace).unwrap();
    }
    let user = user_directories().name(UserId(1));
    assert!(user.starts_with("user_1-") && user.len() == "user_1-".len() + 16);
    for area in ["ws", "data/jobs", "data/memories"] {
        assert_eq!(names(&home.path().join(area)), [user.as_str()], "{area}");
    }
    assert!(workspaces.iter().all(|workspace| files.absolute(workspace).is_dir()));
}

#[test]
fn directories_of_earlier_versions_are_renamed_with_all_that_they_hold() {
    let home = tempfile::tempdir().unwrap();
    let job = Workspace::of_job(UserId(2), JobId::from_bits(1));
    let old = [
        "ws/user_1/p/a".to_owned(),
        format!("data/jobs/user_2/{}/a", job.directory),
        "data/memories/user_3/own/a".to_owned(),
    ];
    for path in &old {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SECRET).unwrap();
    }
    fs::create_dir_all(home.path().join("ws/user_one/kept")).unwrap();
    let files = files(home.path(), user_directories());
    assert_eq!(files.job_workspaces(None).unwrap(), std::slice::from_ref(&job));
    for workspace in [project(1, "p"), job, Workspace::of_memory(UserId(3))] {
        assert_eq!(files.read(&workspace, "a").unwrap(), SECRET);
    }
    assert!(old.iter().all(|path| !home.path().join(path).exists()));
    assert!(home.path().join("ws/user_one/kept").is_dir(), "another name is left alone");
}

#[test]
fn another_key_renames_directories_and_a_name_that_exists_takes_the_rest() {
    let home = tempfile::tempdir().unwrap();
    let before = files(home.path(), UserDirectories::new(&[8; 32]));
    let (kept, moved) = (project(1, "kept"), project(2, "moved"));
    for workspace in [&kept, &moved] {
        before.make(workspace).unwrap();
        before.write(workspace, "a", "old", UNLIMITED).unwrap();
    }
    let after = files(home.path(), user_directories());
    let at = after.absolute(&kept);
    fs::create_dir_all(&at).unwrap();
    fs::create_dir(at.with_file_name(".nanoclaw")).unwrap();
    fs::write(at.join("a"), "new").unwrap();
    assert_eq!(after.read(&kept, "a").unwrap(), "new", "nothing is replaced");
    assert_eq!(after.read(&moved, "a").unwrap(), "old");
    assert_eq!(before.read(&kept, "a").unwrap(), "old", "nothing is lost");
    assert!(before.read(&moved, "a").is_err());
    fs::remove_dir_all(before.absolute(&kept)).unwrap();
    // The next start.
    assert_eq!(files(home.path(), user_directories()).read(&kept, "a").unwrap(), "new");
    assert_eq!(names(&home.path().join("ws")), [user_directories().name(UserId(1))]);
}
