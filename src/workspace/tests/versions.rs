//! Changes that depend on the version of a file.

use super::{Fixture, UNLIMITED};
use crate::domain::file_version::{FileCondition, FileVersion};
use crate::domain::limits::Limits;
use crate::ports::{FileError, Workspaces};
use std::fs;
use std::io::Read;

fn is_changed<T>(outcome: &Result<T, FileError>) -> bool {
    matches!(outcome, Err(FileError::Changed(_)))
}

#[test]
fn a_version_is_that_of_the_content_and_leaves_the_file_at_its_start() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "a", "text", UNLIMITED).unwrap();
    let (mut file, _) = files.open_file(p, "a").unwrap();
    assert_eq!(files.version(&file), Ok(FileVersion::of_content(b"text")));
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
}

#[test]
fn a_file_beyond_the_limit_has_a_version_that_changes_with_it() {
    let fixture = Fixture::with(&Limits { file_bytes: 4, ..Limits::default() });
    let (files, p) = (&fixture.files, &fixture.project);
    let version = || files.version(&files.open_file(p, "a").unwrap().0).unwrap();
    fs::write(fixture.at("a"), "12345").unwrap();
    let before = version();
    assert_eq!(version(), before);
    assert_ne!(before, FileVersion::of_content(b"12345"));
    fs::write(fixture.at("a"), "123456").unwrap();
    assert_ne!(version(), before);
    let is = FileCondition::Versions(vec![version().to_string()]);
    assert_eq!(files.write_if(p, ("a", &is), "new", UNLIMITED), Ok(3));
}

#[test]
fn a_refused_change_leaves_the_file_and_its_directory_alone() {
    let fixture = Fixture::new();
    let (files, p) = (&fixture.files, &fixture.project);
    files.write(p, "d/a", "one", UNLIMITED).unwrap();
    let old = FileCondition::Versions(vec![FileVersion::of_content(b"other").to_string()]);
    let now = FileCondition::Versions(vec![FileVersion::of_content(b"one").to_string()]);
    for condition in [&old, &FileCondition::Missing, &FileCondition::Versions(Vec::new())] {
        assert!(is_changed(&files.write_if(p, ("d/a", condition), "two", UNLIMITED)), "{condition:?}");
        assert!(is_changed(&files.delete_if(p, ("d/a", condition))), "{condition:?}");
    }
    for condition in [&old, &FileCondition::Exists] {
        assert!(is_changed(&files.write_if(p, ("new/b", condition), "two", UNLIMITED)), "{condition:?}");
        assert!(is_changed(&files.write_if(p, ("d/a/b", condition), "x", UNLIMITED)) || *condition == old);
    }
    assert!(!fixture.at("new").exists());
    assert_eq!(files.read(p, "d/a").unwrap(), "one");
    assert_eq!(files.write_if(p, ("d/a", &now), "two", UNLIMITED), Ok(3));
    assert_eq!(files.write_if(p, ("new/b", &FileCondition::Missing), "b", UNLIMITED), Ok(1));
    assert_eq!(files.delete_if(p, ("d", &FileCondition::Exists)), Ok(()));
    assert_eq!(files.delete_if(p, ("new/b", &FileCondition::Always)), Ok(()));
    let outside = files.write_if(p, ("../outside/canary", &FileCondition::Exists), "x", UNLIMITED);
    assert!(matches!(outside, Err(FileError::Outside(_))), "{outside:?}");
    fixture.assert_untouched();
}
