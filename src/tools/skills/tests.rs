//! Scans of directories, and skills that two directories have.

use super::scan::{MAX_FOLDERS, SkillCache, scan};
use super::skill::SKILL_BYTES;
use super::{RejectedSkill, Skill, SkillError, SkillSet};
use crate::ports::{DirectoryListing, FileError, FileKind, ReadOnlyFiles};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory that counts how often files are opened.
struct CountedDirectory<'a>(&'a Path, AtomicUsize);

impl ReadOnlyFiles for CountedDirectory<'_> {
    fn entries(&self) -> Result<Vec<(String, FileKind)>, FileError> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("UTF-8")
        };
        let mut names: Vec<String> = fs::read_dir(self.0).expect("a directory").map(name).collect();
        names.sort();
        Ok(names.into_iter().map(|name| (name, FileKind::Directory)).collect())
    }
    fn files_below(&self, _: &str) -> Result<DirectoryListing, FileError> {
        Ok(DirectoryListing::default())
    }
    fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let file = File::open(self.0.join(path)).map_err(|_| FileError::NotFound(path.to_owned()))?;
        Ok((file, 0))
    }
}

fn write_skill(dir: &Path, name: &str, description: &str) {
    fs::create_dir_all(dir.join(name)).expect("a folder");
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n\u{ff}body");
    fs::write(dir.join(name).join("SKILL.md"), text).expect("a file");
}

fn skill(name: &str) -> Skill {
    Skill { name: name.to_owned(), description: "x".to_owned(), compatibility: None }
}

#[test]
fn a_changed_skill_is_read_again_and_a_removed_one_is_forgotten() {
    let dir = tempfile::tempdir().expect("a directory");
    let (files, mut cache) = (CountedDirectory(dir.path(), AtomicUsize::new(0)), SkillCache::default());
    write_skill(dir.path(), "a", "x");
    let mut find = || scan(&files, &mut cache).expect("a scan").skills;
    assert_eq!(find(), [skill("a")]);
    assert_eq!(find(), [skill("a")]);
    write_skill(dir.path(), "a", "other text");
    assert_eq!(find()[0].description, "other text");
    fs::remove_dir_all(dir.path().join("a")).expect("removed");
    assert_eq!(find(), []);
}

#[test]
fn the_front_matter_has_to_end_within_the_head_and_the_body_may_be_any_text() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = CountedDirectory(dir.path(), AtomicUsize::new(0));
    write_skill(dir.path(), "a", "x");
    let file = dir.path().join("a/SKILL.md");
    let long = format!("{}{}", fs::read_to_string(&file).expect("a text"), "ä".repeat(20_000));
    fs::write(&file, long).expect("a file");
    let comment = format!("---\nname: b\n# {}\ndescription: x\n---\n", "x".repeat(20_000));
    fs::create_dir(dir.path().join("b")).expect("a folder");
    fs::write(dir.path().join("b/SKILL.md"), comment).expect("a file");
    write_skill(dir.path(), "c", "x");
    let large = File::options().append(true).open(dir.path().join("c/SKILL.md")).expect("a file");
    large.set_len(SKILL_BYTES + 1).expect("a large file");
    let set = scan(&files, &mut SkillCache::default()).expect("a scan");
    let rejected = |folder: &str, error| RejectedSkill { folder: folder.to_owned(), error };
    let large = SkillError::File(format!("is larger than {SKILL_BYTES} bytes"));
    let rejected = vec![rejected("b", SkillError::FrontMatter), rejected("c", large)];
    assert_eq!(set, SkillSet { skills: vec![skill("a")], rejected });
}

#[test]
fn p8_a_scan_looks_at_a_bounded_number_of_folders() {
    let dir = tempfile::tempdir().expect("a directory");
    for number in 0..MAX_FOLDERS + 2 {
        fs::create_dir(dir.path().join(format!("f{number:03}"))).expect("a folder");
    }
    let files = CountedDirectory(dir.path(), AtomicUsize::new(0));
    let set = scan(&files, &mut SkillCache::default()).expect("a scan");
    assert_eq!((files.1.load(Ordering::SeqCst), set.rejected.len()), (MAX_FOLDERS, MAX_FOLDERS + 1));
    assert_eq!(set.rejected.last().map(|last| last.error.clone()), Some(SkillError::TooMany(MAX_FOLDERS)));
}

#[test]
fn a_skill_yields_to_one_of_the_same_name() {
    let set = |names: &[&str]| SkillSet {
        skills: names.iter().map(|name| skill(name)).collect(),
        rejected: Vec::new(),
    };
    let mut project = set(&["a", "b", "d"]);
    let broken = RejectedSkill { folder: "d".to_owned(), error: SkillError::FrontMatter };
    project.yield_to(&SkillSet { rejected: vec![broken], ..set(&["b", "c"]) });
    assert_eq!(project.skills, [skill("a")]);
    let overridden = |name: &str| RejectedSkill { folder: name.to_owned(), error: SkillError::Overridden };
    assert_eq!(project.rejected, ["b", "d"].map(overridden));
}
