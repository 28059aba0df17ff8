//! Finds the skills in a directory. Files that have not changed since the last scan are not read again.

use super::skill::{HEAD_BYTES, SKILL_BYTES, SKILL_FILE, Skill, SkillError, is_name};
use crate::ports::{FileError, FileKind, ReadOnlyFiles};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;

/// Folders that are looked at.
pub(super) const MAX_FOLDERS: usize = 200;

/// The skills of a directory, by name, and the folders that are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSet {
    /// The skills.
    pub skills: Vec<Skill>,
    /// The others.
    pub rejected: Vec<RejectedSkill>,
}

/// A folder that is no skill, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSkill {
    /// The name of the folder.
    pub folder: String,
    /// The reason.
    pub error: SkillError,
}

/// Identity and version of a file: inode, size, and times of change.
type SkillStamp = [i64; 6];

/// What the last scan has read.
#[derive(Default)]
pub(super) struct SkillCache(HashMap<String, (SkillStamp, Result<Skill, SkillError>)>);

/// Finds the skills.
pub(super) fn scan(files: &dyn ReadOnlyFiles, cache: &mut SkillCache) -> Result<SkillSet, FileError> {
    let mut entries = files.entries()?;
    entries.retain(|(_, kind)| !matches!(kind, FileKind::File(_)));
    let mut set = SkillSet::default();
    let rejected = |folder: &str, error| RejectedSkill { folder: folder.to_owned(), error };
    let mut known = std::mem::take(&mut cache.0);
    for (folder, kind) in entries.iter().take(MAX_FOLDERS) {
        match skill(files, (folder, *kind), &mut known, cache) {
            Ok(skill) => set.skills.push(skill),
            Err(error) => set.rejected.push(rejected(folder, error)),
        }
    }
    let next = entries.get(MAX_FOLDERS);
    set.rejected.extend(next.map(|(folder, _)| rejected(folder, SkillError::TooMany(MAX_FOLDERS))));
    Ok(set)
}

fn skill(
    files: &dyn ReadOnlyFiles,
    (folder, kind): (&str, FileKind),
    known: &mut HashMap<String, (SkillStamp, Result<Skill, SkillError>)>,
    cache: &mut SkillCache,
) -> Result<Skill, SkillError> {
    if kind == FileKind::Other {
        return Err(SkillError::Link);
    }
    if !is_name(folder) {
        return Err(SkillError::Folder);
    }
    let unreadable = |reason: String| SkillError::File(reason);
    let (file, _) = files.open(&format!("{folder}/{SKILL_FILE}")).map_err(|error| match error {
        FileError::NotFound(_) => unreadable("does not exist".to_owned()),
        error => unreadable(error.to_string()),
    })?;
    let found = file.metadata().map_err(|error| unreadable(error.to_string()))?;
    if found.len() > SKILL_BYTES {
        return Err(unreadable(format!("is larger than {SKILL_BYTES} bytes")));
    }
    let stamp = stamp(&found);
    let read = match known.remove(folder) {
        Some((before, read)) if before == stamp => read,
        _ => head(file)
            .map_err(|error| unreadable(error.to_string()))
            .and_then(|head| Skill::parse(folder, &head)),
    };
    cache.0.insert(folder.to_owned(), (stamp, read.clone()));
    read
}

fn stamp(found: &Metadata) -> SkillStamp {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    let [mtime, mtime_ns, ctime, ctime_ns] = times;
    [number(found.ino()), number(found.len()), mtime, mtime_ns, ctime, ctime_ns]
}

/// The beginning of a file, without the half of a character at its end.
fn head(file: File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    match std::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_some() => {
            Err(Error::new(ErrorKind::InvalidData, "is not UTF-8 text"))
        }
        Err(error) => {
            Ok(String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default()).into_owned())
        }
        Ok(text) => Ok(text.to_owned()),
    }
}
