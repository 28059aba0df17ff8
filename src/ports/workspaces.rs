//! Files of projects. Owns the trait and the values that cross it. Every path is one below its project's directory, and nothing
//! that lies there, planted by whomever, leads out of it. Blocking.

use super::store::StoreError;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use std::fs::File;
use std::path::PathBuf;

/// Why a file could not be had. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path is none that may be asked for, or leads out of the project.
    #[error("Path '{0}' is outside project directory")]
    Outside(String),
    /// The path cannot be one: empty where it must not be, too long, control characters.
    #[error("{0}")]
    BadPath(String),
    /// Nothing is there.
    #[error("'{0}' does not exist")]
    NotFound(String),
    /// Something is there already.
    #[error("'{0}' exists already")]
    Exists(String),
    /// It is a directory, or not one, or neither file nor directory.
    #[error("{0}")]
    WrongKind(String),
    /// It is larger than may be read or written at once.
    #[error("{0}")]
    TooLarge(String),
    /// It is not UTF-8 text.
    #[error("'{0}' is not a UTF-8 text file")]
    NotText(String),
    /// The project, or its owner, has no room left.
    #[error("{0}")]
    Quota(String),
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The host refused; the text is for the log.
    #[error("the files cannot be reached")]
    Io(String),
}

/// What the store cannot tell about a project's files is a fault of the host.
impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        Self::Io(error.to_string())
    }
}

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its last segment.
    pub name: String,
    /// Below the project, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// What lies in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// Files, by name.
    pub files: Vec<FileEntry>,
    /// Directories, by name: name and path.
    pub directories: Vec<(String, String)>,
    /// There was more than a list holds.
    pub is_cut: bool,
}

/// What a project holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Files.
    pub files: u64,
    /// Directories, the project's own aside.
    pub directories: u64,
    /// Bytes of all files.
    pub size: u64,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file of so many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A link, a device, a pipe, a socket: nothing is done with it here but to delete it.
    Other,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// Bytes of the file as it now is.
    pub size: u64,
    /// Nothing was there before.
    pub created: bool,
}

/// Makes the new bytes of a file from those it has, `None` when it is not there; `None` leaves it as it is.
pub type FileChange<'a> = &'a mut dyn FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>;

/// Which files are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobQuery {
    /// The directory, below the project; empty for the project's own.
    pub path: String,
    /// A glob below that directory: `*` for what lies in it, `**/*.rs` for what lies anywhere below it.
    pub glob: String,
    /// Dot names too.
    pub with_hidden: bool,
}

/// What is searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// The text, taken literally unless `is_pattern`.
    pub query: String,
    /// Where, below the project; empty for everywhere.
    pub path: String,
    /// At most so many files.
    pub max_results: usize,
    /// Whether case counts.
    pub case_sensitive: bool,
    /// The text is a regular expression.
    pub is_pattern: bool,
    /// Only files that this glob is true of: their names, or with a `/` in it their paths below `path`.
    pub glob: Option<String>,
    /// Dot names too.
    pub with_hidden: bool,
}

/// A file with matches: numbers of lines, counted from 1, and their text, cut where it is long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// Below the project.
    pub path: String,
    /// Lines.
    pub matches: Vec<(u64, String)>,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResults {
    /// Files with matches, by path.
    pub hits: Vec<SearchHit>,
    /// It was stopped by a bound: there may be more.
    pub is_cut: bool,
}

/// How much a write may add; made by whoever knows the quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageAllowance {
    /// Bytes that the project's files may come to together.
    pub project_bytes: u64,
    /// Files and directories that the project may hold.
    pub project_entries: u64,
}

/// Files that arrive piece by piece, into a project whose directory is there.
pub trait Upload: Send {
    /// Begins a file at this path; directories above it are made.
    fn begin(&mut self, path: &str) -> Result<(), FileError>;
    /// Adds to it.
    fn write(&mut self, piece: &[u8]) -> Result<(), FileError>;
    /// Ends it: it is at its place, whole.
    fn end(&mut self) -> Result<(), FileError>;
}

/// The files of projects.
pub trait Workspaces: Send + Sync {
    /// Makes the project's directory.
    fn make(&self, project: &Project) -> Result<(), FileError>;
    /// Removes the project's directory with all that is in it; one that is gone is removed.
    fn remove(&self, project: &Project) -> Result<(), FileError>;
    /// Where it lies on the host.
    fn absolute(&self, project: &Project) -> PathBuf;
    /// What it holds.
    fn stats(&self, project: &Project) -> Result<TreeStats, FileError>;
    /// What lies in a directory; what begins with a dot is left out. `""` and `.` are the project's own.
    fn list(&self, project: &Project, path: &str) -> Result<DirectoryListing, FileError>;
    /// A text file's text.
    fn read(&self, project: &Project, path: &str) -> Result<String, FileError>;
    /// Writes a text file, atomically; directories above it are made. Its size.
    fn write(
        &self,
        project: &Project,
        path: &str,
        text: &str,
        most: StorageAllowance,
    ) -> Result<u64, FileError>;
    /// Moves a file or a directory to where nothing is; directories above it are made.
    fn rename(&self, project: &Project, from: &str, to: &str) -> Result<(), FileError>;
    /// Removes a file, or a directory with all that is in it; never the project's own.
    fn delete(&self, project: &Project, path: &str) -> Result<(), FileError>;
    /// Makes a directory and those above it; one that is there is fine. Whether any was made.
    fn make_directory(
        &self,
        project: &Project,
        path: &str,
        most: StorageAllowance,
    ) -> Result<bool, FileError>;
    /// Searches text files.
    fn search(&self, project: &Project, query: &SearchQuery) -> Result<SearchResults, FileError>;
    /// Opens a regular file to be read from its beginning, with its size at the moment. It never waits for a pipe's other end.
    fn open_file(&self, project: &Project, path: &str) -> Result<(File, u64), FileError>;
    /// What stands at a path; `None` when nothing does.
    fn kind(&self, project: &Project, path: &str) -> Result<Option<FileKind>, FileError>;
    /// Everything below a directory that a glob is true of, by path.
    fn find(&self, project: &Project, query: &GlobQuery) -> Result<DirectoryListing, FileError>;
    /// Writes a file of any bytes, atomically; directories above it are made.
    fn replace(
        &self,
        project: &Project,
        path: &str,
        bytes: &[u8],
        most: StorageAllowance,
    ) -> Result<WrittenFile, FileError>;
    /// Changes a file by what it holds, atomically; `None` when the change left it alone. No other change made here comes
    /// in between.
    fn revise(
        &self,
        project: &Project,
        path: &str,
        change: FileChange<'_>,
        most: StorageAllowance,
    ) -> Result<Option<WrittenFile>, FileError>;
    /// Removes a file, or whatever else is no directory.
    fn delete_file(&self, project: &Project, path: &str) -> Result<(), FileError>;
    /// Takes files piece by piece.
    fn upload(&self, project: &Project, most: StorageAllowance) -> Result<Box<dyn Upload>, FileError>;
    /// Bytes of the files of all these projects together; one that is being removed meanwhile counts nothing.
    fn bytes_of(&self, projects: &[Project]) -> Result<u64, FileError> {
        projects.iter().try_fold(0_u64, |bytes, project| match self.stats(project) {
            Ok(stats) => Ok(bytes.saturating_add(stats.size)),
            Err(FileError::NotFound(_)) => Ok(bytes),
            Err(error) => Err(error),
        })
    }
}

/// Where a job works: its project's directory, with its owner checked again when it runs.
pub trait ProjectDirectories: Send + Sync {
    /// The directory on the host; `None` when the user has no such project (any more).
    fn project_directory(&self, user: UserId, project: ProjectId) -> Result<Option<PathBuf>, StoreError>;
}
