//! Uploads of files in pieces. A file appears complete or not at all, and replaces nothing.

use super::beneath::{provide_directory, stat_at, sync_names};
use super::errors::{file_error, io_error};
use super::locks::WorkspaceLocks;
use super::paths::WorkspacePath;
use super::staging::{StagedFile, StagingDirectory};
use super::usage::QuotaReservation;
use crate::domain::workspace::WorkspaceId;
use crate::ports::{FileError, Upload};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Files that are flushed together: the file system then writes its journal once for all of them.
const GROUP_FILES: usize = 64;

/// Limits of an upload.
#[derive(Debug, Clone, Copy)]
pub(super) struct UploadLimits {
    /// Number of files.
    pub(super) files: u64,
    /// Bytes of all files.
    pub(super) bytes: u64,
}

/// An upload into a workspace.
pub(super) struct FolderUpload {
    pub(super) id: WorkspaceId,
    pub(super) locks: Arc<WorkspaceLocks>,
    pub(super) workspace: OwnedFd,
    pub(super) staging: Arc<StagingDirectory>,
    pub(super) reservation: QuotaReservation,
    pub(super) left: UploadLimits,
    pub(super) bounds: UploadLimits,
    pub(super) file: Option<IncomingFile>,
    /// Complete files that have not appeared yet.
    pub(super) complete: Vec<IncomingFile>,
    /// Paths of files that have appeared.
    pub(super) published: Vec<String>,
}

/// The file in progress. It is deleted when anything fails.
pub(super) struct IncomingFile {
    path: WorkspacePath,
    parent: OwnedFd,
    staged: StagedFile,
}

impl Upload for FolderUpload {
    fn begin(&mut self, path: &str) -> Result<(), FileError> {
        self.file = None;
        let path = WorkspacePath::parse(path)?;
        let (parent, name) = path.entry("written")?;
        let fail = |error| file_error(error, path.target());
        self.left.files = self.left.files.checked_sub(1).ok_or_else(|| too_many(self.bounds))?;
        let parent = provide_directory(&self.workspace, parent, &mut || self.reservation.add_directory())?;
        // Only for an early error: `finish` ensures that no file is replaced.
        let is_ours = |file: &IncomingFile| file.path.as_str() == path.as_str();
        if stat_at(&parent, name).is_ok() || self.complete.iter().any(is_ours) {
            return Err(FileError::Exists(path.as_str().to_owned()));
        }
        self.reservation.add_file()?;
        let staged = self.staging.create().map_err(fail)?;
        self.file = Some(IncomingFile { path, parent, staged });
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), FileError> {
        // A failed write ends the file, so that no partial file is published.
        let mut file = self.file.take().ok_or_else(no_file)?;
        let bytes = piece.len() as u64;
        self.left.bytes = self.left.bytes.checked_sub(bytes).ok_or_else(|| too_large(self.bounds))?;
        self.reservation.add_bytes(bytes)?;
        file.staged.file.write_all(piece).map_err(|error| io_error(&error, file.path.target()))?;
        self.file = Some(file);
        Ok(())
    }

    fn end(&mut self) -> Result<(), FileError> {
        self.complete.push(self.file.take().ok_or_else(no_file)?);
        if self.complete.len() < GROUP_FILES { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<(), FileError> {
        let files = std::mem::take(&mut self.complete);
        for file in &files {
            file.staged.sync().map_err(|error| file_error(error, file.path.target()))?;
        }
        let Self { workspace, reservation, published, .. } = self;
        let (count, mut parents) = (files.len() as u64, BTreeMap::new());
        let publish = |reservation: &mut QuotaReservation| {
            reservation.commit(|| {
                files.into_iter().try_for_each(|file| {
                    let (name, parent) = file.publish(published)?;
                    parents.insert(name, parent);
                    Ok(())
                })
            })
        };
        if self.locks.are_shared() {
            self.locks.with(self.id, || {
                reservation.check_again(workspace, count)?;
                publish(reservation)
            })?;
        } else {
            publish(reservation)?;
        }
        parents
            .iter()
            .try_for_each(|(name, parent)| sync_names(parent).map_err(|error| file_error(error, name)))
    }

    fn take_published(&mut self) -> Vec<String> {
        std::mem::take(&mut self.published)
    }
}

impl IncomingFile {
    /// Lets the file appear, and notes its path. Returns its directory, whose names are not flushed yet.
    fn publish(self, published: &mut Vec<String>) -> Result<(String, OwnedFd), FileError> {
        let Self { path, parent, staged } = self;
        let (directory, name) = path.entry("written")?;
        staged.publish(&parent, name, false).map_err(|error| file_error(error, path.target()))?;
        published.push(path.as_str().to_owned());
        Ok((directory.to_owned(), parent))
    }
}

fn no_file() -> FileError {
    FileError::Io("no file of the upload was begun".to_owned())
}

fn too_many(bounds: UploadLimits) -> FileError {
    FileError::TooLarge(format!("an upload may have {} files (limits.upload_files)", bounds.files))
}

fn too_large(bounds: UploadLimits) -> FileError {
    FileError::TooLarge(format!("an upload may have {} bytes (limits.upload_bytes)", bounds.bytes))
}
