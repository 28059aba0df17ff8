//! Project files for tools. User and project come from the job, never from the model. All calls block.

use super::store_error::StoreError;
use super::workspaces::{
    DirectoryListing, FileChange, FileError, FileKind, SearchQuery, SearchResults, WrittenFile,
};
use crate::domain::id::{ProjectId, UserId};
use std::fs::File;

/// Opens the files of a project.
pub trait ProjectFiles: Send + Sync {
    /// The files of a project; `None` when the user has no such project.
    fn folder(&self, user: UserId, project: ProjectId) -> Result<Option<Box<dyn ProjectFolder>>, StoreError>;
}

/// Files of one project. Every path is checked against the owner's quotas and the rule for hidden names. For
/// details see [`super::Workspaces`].
pub trait ProjectFolder: Send + Sync {
    /// Opens a regular file for reading, with its current size.
    fn open(&self, path: &str) -> Result<(File, u64), FileError>;
    /// Type of the file at a path; `None` when it does not exist.
    fn kind(&self, path: &str) -> Result<Option<FileKind>, FileError>;
    /// Files and directories below `path` that match the glob, sorted by path.
    fn find(&self, path: &str, glob: &str) -> Result<DirectoryListing, FileError>;
    /// Searches text files. The operator, not the query, decides about hidden names.
    fn search(&self, query: SearchQuery) -> Result<SearchResults, FileError>;
    /// Writes a file atomically. Creates missing directories.
    fn replace(&self, path: &str, bytes: &[u8]) -> Result<WrittenFile, FileError>;
    /// Replaces a file's content atomically; concurrent changes wait for each other. `None` when the change
    /// left the file unchanged.
    fn revise(&self, path: &str, change: FileChange<'_>) -> Result<Option<WrittenFile>, FileError>;
    /// Deletes a file or link, but no directory.
    fn delete(&self, path: &str) -> Result<(), FileError>;
    /// Creates a directory with its parents. Returns whether anything was created.
    fn make_directory(&self, path: &str) -> Result<bool, FileError>;
}
