//! Files of jobs for tools. User, project and job come from the job, never from the model. All calls block.

use super::workspaces::{
    DirectoryListing, FileChange, FileError, FileKind, SearchQuery, SearchResults, WrittenFile,
};
use crate::domain::id::{JobId, ProjectId, UserId};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Whose files a tool call works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceOwner {
    /// Owner of the job.
    pub user: UserId,
    /// The job's project.
    pub project: Option<ProjectId>,
    /// The job; `None` for a call without one.
    pub job: Option<JobId>,
}

/// The directory for programs of a job.
#[derive(Clone)]
pub struct RunDirectory {
    /// Absolute path on the host; the directory exists.
    pub path: PathBuf,
    /// What programs may store in it; `None`: anything.
    pub limit: Option<Arc<dyn DirectoryLimit>>,
}

/// Bounds what programs store in a directory.
pub trait DirectoryLimit: Send + Sync {
    /// Why no program may start in it now, for the model; `None` if one may.
    fn refusal(&self) -> Option<String> {
        None
    }
    /// Bytes that it may hold, as far as that is known before the start.
    fn max_bytes(&self) -> u64;
    /// Entries that it may hold; counting may stop at more.
    fn max_entries(&self) -> u64;
    /// Checks the current content. The error is the name of the exceeded limit and a message.
    fn check(&self, bytes: u64, entries: u64) -> Result<(), (&'static str, String)>;
}

/// A directory whose files can be read. No link in it is followed.
pub trait ReadOnlyFiles: Send + Sync {
    /// Names and kinds of what lies directly in it, without dot names, sorted.
    fn entries(&self) -> Result<Vec<(String, FileKind)>, FileError>;
    /// Files below `path`, sorted by path.
    fn files_below(&self, path: &str) -> Result<DirectoryListing, FileError>;
    /// Opens a regular file, with its current size.
    fn open(&self, path: &str) -> Result<(File, u64), FileError>;
}

/// Opens the workspaces of jobs: the project's, or that of a job without a project, which is created on
/// first use. The job of a deleted project has one of its own.
pub trait WorkspaceFiles: Send + Sync {
    /// The files for tools; `None` when the call has neither project nor job.
    fn folder(&self, owner: WorkspaceOwner) -> Result<Option<Box<dyn WorkspaceFolder>>, FileError>;
    /// The directory for programs; `None` when the call has neither project nor job.
    fn directory(&self, owner: WorkspaceOwner) -> Result<Option<RunDirectory>, FileError>;
}

/// Files of one workspace. Every path is checked against the quotas and the rule for hidden names. Absolute
/// paths and `..` are fine as long as they stay in the workspace. For details see [`super::Workspaces`].
pub trait WorkspaceFolder: Send + Sync {
    /// The path below the workspace, without `.` and `..`; empty for the workspace itself.
    fn relative(&self, path: &str) -> Result<String, FileError>;
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
