//! Versions of files, and the check of a condition before a change.

use super::beneath::{open_directory, open_file, stat_at};
use super::errors::{file_error, io_error};
use super::paths::WorkspacePath;
use crate::domain::file_version::{FileCondition, FileVersion};
use crate::ports::FileError;
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

/// The version of an open file, which stands at its start again afterwards. Up to `max_bytes` it is computed
/// from the content. Larger files are not read: a program that writes one twice within a tick of the clock
/// of the file system may leave its version unchanged.
pub(super) fn version(file: &File, shown: &str, max_bytes: u64) -> Result<FileVersion, FileError> {
    let fail = |error| io_error(&error, shown);
    let found = file.metadata().map_err(fail)?;
    if found.len() <= max_bytes {
        let (mut file, mut content) = (file, Vec::new());
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut content).map_err(fail)?;
        file.rewind().map_err(fail)?;
        if content.len() as u64 <= max_bytes {
            return Ok(FileVersion::of_content(&content));
        }
    }
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()].map(i128::from);
    let [mtime, mtime_ns, ctime, ctime_ns] = times;
    let (inode, size) = (i128::from(found.ino()), i128::from(found.len()));
    Ok(FileVersion::of_status(&[inode, size, mtime, mtime_ns, ctime, ctime_ns]))
}

/// Fails unless the condition holds for the path.
pub(super) fn check(
    workspace: &OwnedFd,
    path: &WorkspacePath,
    condition: &FileCondition,
    max_bytes: u64,
) -> Result<(), FileError> {
    let target = path.target();
    let changed = |what: &str| Err(FileError::Changed(format!("'{target}' {what}")));
    match condition {
        FileCondition::Missing if is_there(workspace, path)? => changed("exists already"),
        FileCondition::Exists if !is_there(workspace, path)? => changed("does not exist"),
        FileCondition::Always | FileCondition::Missing | FileCondition::Exists => Ok(()),
        FileCondition::Versions(versions) => {
            let file = match open_file(workspace, target) {
                Err(FileError::NotFound(_)) => return changed("does not exist any more"),
                opened => opened?.0,
            };
            let found = version(&file, target, max_bytes)?.to_string();
            if versions.contains(&found) {
                return Ok(());
            }
            changed("has changed since it was read; read it again, then repeat the change")
        }
    }
}

fn is_there(workspace: &OwnedFd, path: &WorkspacePath) -> Result<bool, FileError> {
    let (parent, name) = path.entry("changed")?;
    match open_directory(workspace, parent).and_then(|parent| stat_at(&parent, name)) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(file_error(error, path.target())),
    }
}
