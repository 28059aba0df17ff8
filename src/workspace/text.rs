//! Reads and writes complete files with a size limit.

use super::beneath::{FILE_MODE, kind, open_file, provide_directory, size, stat_at, sync_names};
use super::errors::{file_error, io_error};
use super::paths::WorkspacePath;
use super::staging::StagingDirectory;
use super::usage::QuotaReservation;
use crate::ports::{FileError, WrittenFile};
use rustix::fs::{FileType, Mode, Stat};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Reads a UTF-8 text file. Growth during the read is ignored.
pub(super) fn read(workspace: &OwnedFd, path: &WorkspacePath, max_bytes: u64) -> Result<String, FileError> {
    let bytes = read_bytes(workspace, path, max_bytes)?;
    String::from_utf8(bytes).map_err(|_| FileError::NotText(path.target().to_owned()))
}

/// Reads any file.
pub(super) fn read_bytes(
    workspace: &OwnedFd,
    path: &WorkspacePath,
    max_bytes: u64,
) -> Result<Vec<u8>, FileError> {
    let (file, size) = open_file(workspace, path.target())?;
    let mut bytes = Vec::new();
    if size <= max_bytes {
        let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| io_error(&error, path.target()))?;
    }
    if size > max_bytes || bytes.len() as u64 > max_bytes {
        return Err(too_large(path, max_bytes));
    }
    Ok(bytes)
}

/// Writes a file atomically; the disk has it when this returns. The size of the replaced file is subtracted,
/// and its mode is preserved.
pub(super) fn write(
    workspace: &OwnedFd,
    staging: &Arc<StagingDirectory>,
    (path, bytes): (&WorkspacePath, &[u8]),
    max_bytes: u64,
    reservation: &mut QuotaReservation,
) -> Result<WrittenFile, FileError> {
    let fail = |error| file_error(error, path.target());
    let (parent, name) = path.entry("written")?;
    let size = bytes.len() as u64;
    if size > max_bytes {
        return Err(too_large(path, max_bytes));
    }
    let parent = provide_directory(workspace, parent, &mut || reservation.add_directory())?;
    let before = stat_at(&parent, name).ok();
    reserve(reservation, before.as_ref(), size)?;
    let mut staged = staging.create().map_err(fail)?;
    staged.file.write_all(bytes).map_err(|error| io_error(&error, path.target()))?;
    if let Some(mode) = before.as_ref().and_then(file_mode) {
        rustix::fs::fchmod(&staged.file, mode).map_err(fail)?;
    }
    staged.sync().map_err(fail)?;
    reservation.commit(|| staged.publish(&parent, name, true).map_err(fail))?;
    sync_names(&parent).map_err(fail)?;
    Ok(WrittenFile { size, created: before.is_none() })
}

fn reserve(
    reservation: &mut QuotaReservation,
    before: Option<&Stat>,
    size_now: u64,
) -> Result<(), FileError> {
    if before.is_none() {
        reservation.add_file()?;
    }
    let replaced = before.filter(|stat| kind(stat) == FileType::RegularFile).map_or(0, size);
    reservation.shrinks_by(replaced.saturating_sub(size_now));
    reservation.add_bytes(size_now.saturating_sub(replaced))
}

/// Mode of an existing file, so that a script stays executable; always readable and writable for the owner.
fn file_mode(stat: &Stat) -> Option<Mode> {
    let permissions = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    (kind(stat) == FileType::RegularFile).then_some(permissions | FILE_MODE)
}

fn too_large(path: &WorkspacePath, max_bytes: u64) -> FileError {
    let path = path.target();
    FileError::TooLarge(format!("'{path}' is too large: a text file may have {max_bytes} bytes"))
}
