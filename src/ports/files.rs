//! Files of a project as tools see them: by user and project of the job, never by what a model says. Owns the traits;
//! refuses to know how a path is kept inside (whoever stands behind it does). Blocking.

use super::store::StoreError;
use super::workspaces::{
    DirectoryListing, FileChange, FileError, FileKind, SearchQuery, SearchResults, WrittenFile,
};
use crate::domain::id::{ProjectId, UserId};
use std::fs::File;

/// Files of projects, for tools.
pub trait ProjectFiles: Send + Sync {
    /// The files of a project; `None` when this user has no such project.
    fn folder(&self, user: UserId, project: ProjectId) -> Result<Option<Box<dyn ProjectFolder>>, StoreError>;
}

/// One project's files, with the quotas of its owner and what the operator says about hidden names: both hold for every
/// path. The methods are those of [`super::Workspaces`].
pub trait ProjectFolder: Send + Sync {
    /// Opens a regular file to be read from its beginning, with its size at the moment.
    fn open(&self, path: &str) -> Result<(File, u64), FileError>;
    /// What stands at a path; `None` when nothing does.
    fn kind(&self, path: &str) -> Result<Option<FileKind>, FileError>;
    /// Everything below a directory that a glob is true of, by path.
    fn find(&self, path: &str, glob: &str) -> Result<DirectoryListing, FileError>;
    /// Searches text files. Whether hidden names count is not the query's to say.
    fn search(&self, query: SearchQuery) -> Result<SearchResults, FileError>;
    /// Writes a file of any bytes, atomically; directories above it are made.
    fn replace(&self, path: &str, bytes: &[u8]) -> Result<WrittenFile, FileError>;
    /// Changes a file by what it holds, atomically and in turn; `None` when the change left it alone.
    fn revise(&self, path: &str, change: FileChange<'_>) -> Result<Option<WrittenFile>, FileError>;
    /// Removes a file, or whatever else is no directory.
    fn delete(&self, path: &str) -> Result<(), FileError>;
    /// Makes a directory and those above it. Whether any was made.
    fn make_directory(&self, path: &str) -> Result<bool, FileError>;
}
