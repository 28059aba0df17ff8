//! Uploads of files in pieces. A file appears complete or not at all, and replaces nothing.

use super::beneath::{provide_directory, stat_at};
use super::errors::{file_error, io_error};
use super::paths::WorkspacePath;
use super::staging::{StagedFile, StagingDirectory};
use super::usage::QuotaReservation;
use crate::ports::{FileError, Upload};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

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
    pub(super) workspace: OwnedFd,
    pub(super) staging: Arc<StagingDirectory>,
    pub(super) reservation: QuotaReservation,
    pub(super) left: UploadLimits,
    pub(super) bounds: UploadLimits,
    pub(super) file: Option<IncomingFile>,
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
        self.reservation.release();
        let path = WorkspacePath::parse(path)?;
        let (parent, name) = path.entry("written")?;
        let fail = |error| file_error(error, path.target());
        self.left.files = self.left.files.checked_sub(1).ok_or_else(|| too_many(self.bounds))?;
        let parent = provide_directory(&self.workspace, parent, &mut || self.reservation.add_entry())?;
        self.reservation.commit(|| Ok(()))?; // the directories exist, even if the file fails
        // Only for an early error: `end` ensures that no file is replaced.
        if stat_at(&parent, name).is_ok() {
            return Err(FileError::Exists(path.as_str().to_owned()));
        }
        self.reservation.add_entry()?;
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
        let IncomingFile { path, parent, staged } = self.file.take().ok_or_else(no_file)?;
        let (_, name) = path.entry("written")?;
        self.reservation
            .commit(|| staged.publish(&parent, name, false).map_err(|error| file_error(error, path.target())))
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
