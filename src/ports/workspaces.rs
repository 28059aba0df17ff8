//! Files of workspaces: those of a project, or of a job without one. Every path stays below its workspace: no
//! link is followed out of it. All calls block.

use super::shared_files::HeldLock;
use super::store_error::StoreError;
use crate::domain::file_version::{FileCondition, FileVersion};
use crate::domain::id::UserId;
use crate::domain::workspace::Workspace;
use std::fs::File;
use std::path::PathBuf;

/// Why a file operation failed. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the project.
    #[error("Path '{0}' is outside project directory")]
    Outside(String),
    /// The path leads out of the directory that a job works in.
    #[error("Path '{path}' is outside {owner} directory '{directory}'")]
    OutsideDirectory {
        /// The path, as the caller wrote it.
        path: String,
        /// Whose directory it is: `project` or `the job's`.
        owner: &'static str,
        /// The directory, absolute.
        directory: String,
    },
    /// The path is invalid: empty, too long, or with control characters.
    #[error("{0}")]
    BadPath(String),
    /// The path does not exist.
    #[error("'{0}' does not exist")]
    NotFound(String),
    /// The path exists already.
    #[error("'{0}' exists already")]
    Exists(String),
    /// The path is a directory where a file is needed, or the reverse, or neither.
    #[error("{0}")]
    WrongKind(String),
    /// The file is larger than the limit for one read or write.
    #[error("{0}")]
    TooLarge(String),
    /// The file is not UTF-8 text.
    #[error("'{0}' is not a UTF-8 text file")]
    NotText(String),
    /// The condition of a change does not hold.
    #[error("{0}")]
    Changed(String),
    /// The quota of the project or its owner is used up.
    #[error("{0}")]
    Quota(String),
    /// This node may not use its files now.
    #[error("{0}")]
    Unavailable(String),
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The system call failed; the text is for the log.
    #[error("the files cannot be reached")]
    Io(String),
}

/// A store failure while serving a file is an I/O failure for the caller.
impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        Self::Io(error.to_string())
    }
}

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Last path segment.
    pub name: String,
    /// Path below the project, with `/`.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
}

/// Content of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// Files, by name.
    pub files: Vec<FileEntry>,
    /// Directories by name: name and path.
    pub directories: Vec<(String, String)>,
    /// Whether the list was cut at its limit.
    pub is_cut: bool,
}

/// Size of a workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Number of files.
    pub files: u64,
    /// Number of directories without the workspace itself.
    pub directories: u64,
    /// Bytes of all files.
    pub size: u64,
}

/// Type of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, with its size in bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A link, device, pipe or socket. It can only be deleted.
    Other,
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// New size of the file, bytes.
    pub size: u64,
    /// Whether the file is new.
    pub created: bool,
}

/// Computes a file's new bytes from the current ones (`None`: no such file). Returning `None` leaves the file
/// unchanged.
pub type FileChange<'a> = &'a mut dyn FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>;

/// A file listing to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobQuery {
    /// Directory below the project; empty for the project itself.
    pub path: String,
    /// Glob below that directory: `*` matches its entries, `**/*.rs` all files below it.
    pub glob: String,
    /// Whether to include dot names.
    pub with_hidden: bool,
    /// Whether to leave out names of secrets ([`crate::domain::secret_names`]).
    pub hides_secrets: bool,
}

/// A text search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "options that do not depend on each other")]
pub struct SearchQuery {
    /// Search text; literal unless `is_pattern`.
    pub query: String,
    /// Directory below the project; empty for the complete project.
    pub path: String,
    /// Maximum number of files with matches.
    pub max_results: usize,
    /// Whether case matters.
    pub case_sensitive: bool,
    /// Whether `query` is a regular expression.
    pub is_pattern: bool,
    /// Only files that match this glob: by name, or by path below `path` when the glob contains `/`.
    pub glob: Option<String>,
    /// Whether to include dot names.
    pub with_hidden: bool,
    /// Whether to leave out names of secrets ([`crate::domain::secret_names`]).
    pub hides_secrets: bool,
}

/// A file with its matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// Path below the project.
    pub path: String,
    /// Line numbers, from 1, and lines; long lines are cut.
    pub matches: Vec<(u64, String)>,
}

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResults {
    /// Files with matches, by path.
    pub hits: Vec<SearchHit>,
    /// Whether a limit stopped the search, so that more matches may exist.
    pub is_cut: bool,
}

/// Maximum content of a workspace after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageAllowance {
    /// Maximum bytes of all files.
    pub bytes: u64,
    /// Maximum number of files and directories.
    pub entries: u64,
    /// The limits that errors name.
    pub scope: StorageScope,
}

/// The limits that a [`StorageAllowance`] comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageScope {
    /// `limits.project_…`.
    Project,
    /// `limits.job_…` and `limits.user_job_…`.
    Job,
}

/// Content of a workspace: links, pipes and sockets are entries, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageUsage {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

/// An upload of files, piece by piece, into an existing project directory.
pub trait Upload: Send {
    /// Starts a file; creates missing directories.
    fn begin(&mut self, path: &str) -> Result<(), FileError>;
    /// Appends to the file.
    fn write(&mut self, piece: &[u8]) -> Result<(), FileError>;
    /// Completes the file. It appears with the next ones, at the latest in [`Self::finish`].
    fn end(&mut self) -> Result<(), FileError>;
    /// Lets all complete files appear. The disk has them when this returns.
    fn finish(&mut self) -> Result<(), FileError>;
    /// Paths of the files that have appeared since the last call, after an error, too.
    fn take_published(&mut self) -> Vec<String>;
}

/// Reads and writes the files of workspaces.
pub trait Workspaces: Send + Sync {
    /// Creates the directory, unless it exists.
    fn make(&self, workspace: &Workspace) -> Result<(), FileError>;
    /// Whether several nodes share the files.
    fn are_shared(&self) -> bool;
    /// Fails while this node may not use its files.
    fn check_access(&self) -> Result<(), FileError>;
    /// Protects a project's directory that is created or removed here: no other node takes it for a leftover
    /// of a crash as long as the returned value lives.
    fn claim(&self, workspace: &Workspace) -> Result<HeldLock, FileError>;
    /// Deletes the directory with its content; succeeds when it does not exist.
    fn remove(&self, workspace: &Workspace) -> Result<(), FileError>;
    /// Absolute path on the host.
    fn absolute(&self, workspace: &Workspace) -> PathBuf;
    /// Size of the workspace. That of a large one is an account, which misses changes of the last seconds
    /// that did not pass this port.
    fn stats(&self, workspace: &Workspace) -> Result<TreeStats, FileError>;
    /// What the workspace holds; a missing one holds nothing.
    fn usage(&self, workspace: &Workspace) -> Result<StorageUsage, FileError>;
    /// The workspaces of jobs that exist on the disk: of this user, or of all. Their jobs may be gone.
    fn job_workspaces(&self, user: Option<UserId>) -> Result<Vec<Workspace>, FileError>;
    /// Entries of a directory without dot names. `""` and `.` mean the workspace itself.
    fn list(&self, workspace: &Workspace, path: &str) -> Result<DirectoryListing, FileError>;
    /// Content of a text file.
    fn read(&self, workspace: &Workspace, path: &str) -> Result<String, FileError>;
    /// Writes a text file atomically and returns its size. Creates missing directories.
    fn write(
        &self,
        workspace: &Workspace,
        path: &str,
        text: &str,
        allowance: StorageAllowance,
    ) -> Result<u64, FileError> {
        self.write_if(workspace, (path, &FileCondition::Always), text, allowance)
    }
    /// The same if the condition holds, else [`FileError::Changed`]. Changes of all nodes to one workspace
    /// wait for each other.
    fn write_if(
        &self,
        workspace: &Workspace,
        target: (&str, &FileCondition),
        text: &str,
        allowance: StorageAllowance,
    ) -> Result<u64, FileError>;
    /// Moves a file or directory to a path that does not exist; creates missing directories.
    fn rename(&self, workspace: &Workspace, from: &str, to: &str) -> Result<(), FileError>;
    /// The same if the condition holds for `from`, else [`FileError::Changed`].
    fn rename_if(
        &self,
        workspace: &Workspace,
        from: (&str, &FileCondition),
        to: &str,
    ) -> Result<(), FileError>;
    /// Deletes a file, or a directory with its content; never the workspace itself.
    fn delete(&self, workspace: &Workspace, path: &str) -> Result<(), FileError>;
    /// The same if the condition holds, else [`FileError::Changed`].
    fn delete_if(&self, workspace: &Workspace, target: (&str, &FileCondition)) -> Result<(), FileError>;
    /// Creates a directory with its parents. Returns whether anything was created.
    fn make_directory(
        &self,
        workspace: &Workspace,
        path: &str,
        allowance: StorageAllowance,
    ) -> Result<bool, FileError>;
    /// Searches text files.
    fn search(&self, workspace: &Workspace, query: &SearchQuery) -> Result<SearchResults, FileError>;
    /// Opens a regular file for reading, with its current size. Never blocks on a pipe.
    fn open_file(&self, workspace: &Workspace, path: &str) -> Result<(File, u64), FileError>;
    /// Version of an open file, which stands at its start again afterwards. That of a text file is
    /// [`FileVersion::of_content`].
    fn version(&self, file: &File) -> Result<FileVersion, FileError>;
    /// Type of the file at a path; `None` when it does not exist.
    fn kind(&self, workspace: &Workspace, path: &str) -> Result<Option<FileKind>, FileError>;
    /// Files and directories below a directory that match the glob, by path.
    fn find(&self, workspace: &Workspace, query: &GlobQuery) -> Result<DirectoryListing, FileError>;
    /// Writes a file atomically; creates missing directories.
    fn replace(
        &self,
        workspace: &Workspace,
        path: &str,
        bytes: &[u8],
        allowance: StorageAllowance,
    ) -> Result<WrittenFile, FileError>;
    /// Replaces a file's content atomically; `None` when the change left the file unchanged. Changes of all
    /// nodes to one file wait for each other.
    fn revise(
        &self,
        workspace: &Workspace,
        path: &str,
        change: FileChange<'_>,
        allowance: StorageAllowance,
    ) -> Result<Option<WrittenFile>, FileError>;
    /// Deletes a file or link, but no directory.
    fn delete_file(&self, workspace: &Workspace, path: &str) -> Result<(), FileError>;
    /// Starts an upload.
    fn upload(
        &self,
        workspace: &Workspace,
        allowance: StorageAllowance,
    ) -> Result<Box<dyn Upload>, FileError>;
    /// Bytes of all files of these workspaces; one that is being deleted counts as empty.
    fn bytes_of(&self, workspaces: &[Workspace]) -> Result<u64, FileError>;
    /// Counts what the workspace holds: a program has changed it.
    fn count_again(&self, workspace: &Workspace) -> Result<(), FileError>;
}
