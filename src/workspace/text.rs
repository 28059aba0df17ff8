//! Files, read and written whole. Owns the bound on their size; refuses what is not UTF-8 where a text is asked for.

use super::beneath::{FILE_MODE, kind, look, open_file, provide_directory, size};
use super::desk::Desk;
use super::paths::ProjectPath;
use super::refusal::{refused, refused_io};
use super::tally::Share;
use crate::ports::{FileError, WrittenFile};
use rustix::fs::{FileType, Mode, Stat};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Reads a file of at most so many bytes. One that grows meanwhile is not followed.
pub(super) fn read(project: &OwnedFd, path: &ProjectPath, most_bytes: u64) -> Result<String, FileError> {
    let bytes = read_bytes(project, path, most_bytes)?;
    String::from_utf8(bytes).map_err(|_| FileError::NotText(path.target().to_owned()))
}

/// The same of any file.
pub(super) fn read_bytes(
    project: &OwnedFd,
    path: &ProjectPath,
    most_bytes: u64,
) -> Result<Vec<u8>, FileError> {
    let (file, size) = open_file(project, path.target())?;
    let mut bytes = Vec::new();
    if size <= most_bytes {
        let read = file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| refused_io(&error, path.target()))?;
    }
    if size > most_bytes || bytes.len() as u64 > most_bytes {
        return Err(too_large(path, most_bytes));
    }
    Ok(bytes)
}

/// Writes a file, in one step for everybody who looks. What it replaces counts as gone, and hands on its mode.
pub(super) fn write(
    project: &OwnedFd,
    desk: &Arc<Desk>,
    (path, bytes): (&ProjectPath, &[u8]),
    most_bytes: u64,
    share: &mut Share,
) -> Result<WrittenFile, FileError> {
    let fail = |error| refused(error, path.target());
    let (parent, name) = path.entry("written")?;
    let size = bytes.len() as u64;
    if size > most_bytes {
        return Err(too_large(path, most_bytes));
    }
    let parent = provide_directory(project, parent, &mut || share.add_entry())?;
    let before = look(&parent, name).ok();
    announce(share, before.as_ref(), size)?;
    let mut draft = desk.draft().map_err(fail)?;
    draft.file.write_all(bytes).map_err(|error| refused_io(&error, path.target()))?;
    if let Some(mode) = before.as_ref().and_then(file_mode) {
        rustix::fs::fchmod(&draft.file, mode).map_err(fail)?;
    }
    share.settle(|| draft.place(&parent, name, true).map_err(fail))?;
    Ok(WrittenFile { size, created: before.is_none() })
}

fn announce(share: &mut Share, before: Option<&Stat>, size_now: u64) -> Result<(), FileError> {
    if before.is_none() {
        share.add_entry()?;
    }
    let replaced = before.filter(|stat| kind(stat) == FileType::RegularFile).map_or(0, size);
    share.add_bytes(size_now.saturating_sub(replaced))
}

/// The permissions of a file that is there, so that a script stays one; always with the owner's right to read and write.
fn file_mode(stat: &Stat) -> Option<Mode> {
    let permissions = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    (kind(stat) == FileType::RegularFile).then_some(permissions | FILE_MODE)
}

fn too_large(path: &ProjectPath, most_bytes: u64) -> FileError {
    let path = path.target();
    FileError::TooLarge(format!("'{path}' is too large: a text file may have {most_bytes} bytes"))
}
