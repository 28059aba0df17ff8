//! Planted links and special files that lead out of the workspace. None of them is followed.

use super::{Fixture, SECRET, UNLIMITED, project};
use crate::ports::{FileError, SearchQuery, Workspaces};
use rustix::fs::{CWD, FileType, Mode};
use std::fs;
use std::os::unix::fs::symlink;

fn search(query: &str, path: &str) -> SearchQuery {
    SearchQuery { query: query.to_owned(), path: path.to_owned(), max_results: 50, ..SearchQuery::default() }
}

#[test]
fn no_file_operation_follows_a_symlink_in_the_path() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "own.txt", "mine", UNLIMITED).unwrap();
    fs::create_dir(fixture.at("real")).unwrap();
    for (name, target) in
        [("abs", fixture.outside()), ("root", "/".into()), ("up", "../../../outside".into())]
    {
        symlink(target, fixture.at(name)).unwrap();
    }
    symlink("real", fixture.at("inside")).unwrap();
    for link in ["abs", "root", "up", "inside"] {
        let path = format!("{link}/canary");
        let refusals = [
            files.read(p, &path).err(),
            files.write(p, &path, "x", UNLIMITED).err(),
            files.write(p, &format!("{link}/new/deep"), "x", UNLIMITED).err(),
            files.delete(p, &path).err(),
            files.rename(p, &path, "stolen").err(),
            files.rename(p, "own.txt", &path).err(),
            files.make_directory(p, &format!("{link}/made"), UNLIMITED).err(),
            files.list(p, link).err(),
            files.search(p, &search("sing", link)).err(),
            files.upload(p, UNLIMITED).unwrap().begin(&path).err(),
        ];
        for (act, refusal) in refusals.into_iter().enumerate() {
            assert!(matches!(refusal, Some(FileError::WrongKind(_))), "{link} {act}: {refusal:?}");
        }
    }
    assert_eq!(files.search(p, &search("sing", "")).unwrap().hits, []);
    assert_eq!(fs::read_dir(fixture.at("real")).unwrap().count(), 0);
    fixture.assert_untouched();
}

#[test]
fn a_final_symlink_is_replaced_moved_or_deleted_but_never_followed() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    let canary = fixture.outside().join("canary");
    let plant = |name: &str| symlink(&canary, fixture.at(name)).unwrap();
    plant("leaf");
    assert!(matches!(files.read(p, "leaf"), Err(FileError::WrongKind(why)) if why.contains("symbolic link")));
    assert!(files.list(p, "").unwrap().files.is_empty());
    assert_eq!(files.write(p, "leaf", "new", UNLIMITED), Ok(3));
    assert_eq!(files.read(p, "leaf").unwrap(), "new", "the link was replaced, its target was not written");
    plant("moved");
    files.rename(p, "moved", "elsewhere").unwrap();
    assert!(fixture.at("elsewhere").is_symlink());
    files.delete(p, "elsewhere").unwrap();
    symlink(fixture.outside(), fixture.at("tree")).unwrap();
    files.delete(p, "tree").unwrap();
    assert!(!fixture.at("tree").is_symlink());
    fixture.assert_untouched();
}

#[test]
fn magic_links_of_the_kernel_are_not_followed() {
    let fixture = Fixture::new();
    for target in ["/proc/self/root", "/proc/self/cwd", "/proc/self/fd/0", "/dev/stdin", "/proc/self/environ"]
    {
        let link = fixture.at("magic");
        symlink(target, &link).unwrap();
        assert!(
            matches!(fixture.files.read(&fixture.project, "magic"), Err(FileError::WrongKind(_))),
            "{target}"
        );
        assert!(matches!(
            fixture.files.read(&fixture.project, "magic/etc/passwd"),
            Err(FileError::WrongKind(_))
        ));
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_project_cannot_reach_one_whose_name_starts_alike() {
    let fixture = Fixture::new();
    let evil = project(2, "p_evil");
    fixture.files.make(&evil).unwrap();
    fixture.files.write(&evil, "a", SECRET, UNLIMITED).unwrap();
    for path in ["../p_evil/a", "_evil/a", "x/../../p_evil/a"] {
        assert!(fixture.files.read(&fixture.project, path).is_err(), "{path}");
    }
    fixture.files.remove(&fixture.project).unwrap();
    assert_eq!(fixture.files.read(&evil, "a").unwrap(), SECRET);
}

#[test]
fn a_symlink_is_not_accepted_as_a_project_directory() {
    let fixture = Fixture::new();
    let planted = project(3, "planted");
    symlink(fixture.outside(), fixture.user().join("planted")).unwrap();
    assert!(fixture.files.list(&planted, "").is_err());
    assert!(fixture.files.make(&planted).is_err());
    assert!(fixture.files.read(&planted, "canary").is_err());
    fixture.files.remove(&planted).unwrap();
    fixture.assert_untouched();
    for directory in ["..", ".", "", "a/b", ".nanoclaw", "/"] {
        assert!(fixture.files.list(&project(4, directory), "").is_err(), "{directory}");
        assert!(fixture.files.remove(&project(4, directory)).is_err(), "{directory}");
    }
}

#[test]
fn writes_never_change_a_hard_linked_file() {
    let fixture = Fixture::new();
    fs::hard_link(fixture.outside().join("canary"), fixture.at("hard")).unwrap();
    fixture.files.write(&fixture.project, "hard", "new", UNLIMITED).unwrap();
    fs::hard_link(fixture.outside().join("canary"), fixture.at("hard2")).unwrap();
    fixture.files.delete(&fixture.project, "hard2").unwrap();
    fixture.assert_untouched();
}

#[test]
fn reading_a_pipe_socket_or_device_is_refused_at_once() {
    let fixture = Fixture::new();
    rustix::fs::mknodat(CWD, fixture.at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.at("socket")).unwrap();
    fs::create_dir(fixture.at("dir")).unwrap();
    // Only root makes devices: /dev/zero.
    let device = rustix::fs::mknodat(
        CWD,
        fixture.at("device"),
        FileType::CharacterDevice,
        Mode::RWXU,
        rustix::fs::makedev(1, 5),
    );
    let names = ["pipe", "socket", "dir", "device"].into_iter().filter(|n| *n != "device" || device.is_ok());
    for name in names {
        let read = fixture.files.read(&fixture.project, name);
        assert!(matches!(read, Err(FileError::WrongKind(_))), "{name}: {read:?}");
        let found = fixture.files.search(&fixture.project, &search("x", name));
        assert!(name == "dir" || matches!(found, Err(FileError::WrongKind(_))), "{name}: {found:?}");
    }
    assert_eq!(fixture.files.search(&fixture.project, &search("x", "")).unwrap().hits, []);
    assert!(fixture.files.list(&fixture.project, "").unwrap().files.is_empty());
    for name in ["pipe", "socket"] {
        fixture.files.delete(&fixture.project, name).unwrap();
    }
}
