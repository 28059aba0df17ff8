//! Files that arrive piece by piece. Owns that a file is at its place whole or not at all, and that nothing that is there
//! is replaced; refuses to know how the pieces came.

use super::beneath::{look, provide_directory};
use super::desk::{Desk, Draft};
use super::paths::ProjectPath;
use super::refusal::{refused, refused_io};
use super::tally::Share;
use crate::ports::{FileError, Upload};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What one upload may bring.
#[derive(Debug, Clone, Copy)]
pub(super) struct UploadBounds {
    /// Files.
    pub(super) files: u64,
    /// Bytes of them together.
    pub(super) bytes: u64,
}

/// An upload into a project.
pub(super) struct FolderUpload {
    pub(super) project: OwnedFd,
    pub(super) desk: Arc<Desk>,
    pub(super) share: Share,
    pub(super) left: UploadBounds,
    pub(super) bounds: UploadBounds,
    pub(super) file: Option<Arriving>,
}

/// The file that is arriving. It goes with its draft when anything fails.
pub(super) struct Arriving {
    path: ProjectPath,
    parent: OwnedFd,
    draft: Draft,
}

impl Upload for FolderUpload {
    fn begin(&mut self, path: &str) -> Result<(), FileError> {
        self.file = None;
        self.share.give_back();
        let path = ProjectPath::parse(path)?;
        let (parent, name) = path.entry("written")?;
        let fail = |error| refused(error, path.target());
        self.left.files = self.left.files.checked_sub(1).ok_or_else(|| too_many(self.bounds))?;
        let parent = provide_directory(&self.project, parent, &mut || self.share.add_entry())?;
        self.share.settle(|| Ok(()))?; // the directories are there, whatever becomes of the file
        // Only to refuse early: it is the end that must not replace anything.
        if look(&parent, name).is_ok() {
            return Err(FileError::Exists(path.as_str().to_owned()));
        }
        self.share.add_entry()?;
        let draft = self.desk.draft().map_err(fail)?;
        self.file = Some(Arriving { path, parent, draft });
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), FileError> {
        // A piece that cannot be written ends the file: half of one must not come to its place.
        let mut file = self.file.take().ok_or_else(no_file)?;
        let bytes = piece.len() as u64;
        self.left.bytes = self.left.bytes.checked_sub(bytes).ok_or_else(|| too_large(self.bounds))?;
        self.share.add_bytes(bytes)?;
        file.draft.file.write_all(piece).map_err(|error| refused_io(&error, file.path.target()))?;
        self.file = Some(file);
        Ok(())
    }

    fn end(&mut self) -> Result<(), FileError> {
        let Arriving { path, parent, draft } = self.file.take().ok_or_else(no_file)?;
        let (_, name) = path.entry("written")?;
        self.share.settle(|| draft.place(&parent, name, false).map_err(|error| refused(error, path.target())))
    }
}

fn no_file() -> FileError {
    FileError::Io("no file of the upload was begun".to_owned())
}

fn too_many(bounds: UploadBounds) -> FileError {
    FileError::TooLarge(format!("an upload may have {} files (limits.upload_files)", bounds.files))
}

fn too_large(bounds: UploadBounds) -> FileError {
    FileError::TooLarge(format!("an upload may have {} bytes (limits.upload_bytes)", bounds.bytes))
}
