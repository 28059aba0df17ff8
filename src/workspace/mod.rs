//! Project files on the host. Every path stays beneath the workspace root, and no link below the root is
//! followed.
//!
//! A hard link to an outside file is treated as a normal file. Its creator could read that file anyway,
//! because commands run as the server's user, and writes replace names, never contents.

mod beneath;
mod count;
mod errors;
mod find;
mod glob;
mod list;
mod locks;
mod matches;
mod paths;
mod remove;
mod search;
mod staging;
mod text;
mod upload;
mod usage;
mod walk;

use crate::domain::limits::Limits;
use crate::domain::project::Project;
use crate::ports::{
    Clock, DirectoryListing, FileChange, FileError, FileKind, GlobQuery, SearchQuery, SearchResults,
    StorageAllowance, TreeStats, Upload, Workspaces, WrittenFile,
};
use beneath::{kind, make_and_open, open_directory, provide_directory, stat_at, unlock};
use errors::{file_error, io_error};
use locks::ProjectLocks;
use matches::Deadline;
use paths::ProjectPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use search::SearchLimits;
use staging::{StagingDirectory, StagingNames};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use upload::{FolderUpload, UploadLimits};
use usage::{ProjectUsages, QuotaReservation};

/// Statistics count up to this many times `project_entries`, because commands of jobs may exceed the quota.
const COUNTED_TIMES: u64 = 2;

/// Project files below a workspace root.
pub struct HostFiles {
    root: PathBuf,
    clock: Arc<dyn Clock>,
    names: Arc<StagingNames>,
    usages: ProjectUsages,
    locks: ProjectLocks,
    file_bytes: u64,
    project_entries: u64,
    counted_entries: u64,
    uploads: UploadLimits,
    searches: SearchLimits,
}

impl HostFiles {
    /// Files below this directory, which is created on first use.
    pub fn new(root: PathBuf, limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        Self {
            root,
            names: Arc::new(StagingNames::new(clock.now_ms())),
            clock,
            usages: ProjectUsages::default(),
            locks: ProjectLocks::default(),
            file_bytes: limits.file_bytes,
            project_entries: limits.project_entries,
            counted_entries: limits.project_entries.saturating_mul(COUNTED_TIMES),
            uploads: UploadLimits { files: limits.upload_files, bytes: limits.upload_bytes },
            searches: SearchLimits { files: limits.search_files, time_ms: limits.search_ms },
        }
    }

    fn open_root(&self) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.root, flags, Mode::empty()).map_err(|error| file_error(error, "."))
    }

    fn open_user(&self, project: &Project) -> Result<OwnedFd, FileError> {
        open_directory(self.open_root()?, user_directory(project).as_str()).map_err(|e| file_error(e, "."))
    }

    fn open(&self, project: &Project) -> Result<OwnedFd, FileError> {
        let (user, name) = (self.open_user(project)?, directory(project)?);
        let opened = match open_directory(&user, name) {
            // A command of a job may remove the permissions of its own directory.
            Err(Errno::ACCESS) => unlock(&user, name).and_then(|()| open_directory(&user, name)),
            other => other,
        };
        opened.map_err(|error| file_error(error, "."))
    }

    fn staging(&self, project: &Project) -> Result<Arc<StagingDirectory>, FileError> {
        let staging = StagingDirectory::open(&self.open_user(project)?, &self.names)
            .map_err(|error| file_error(error, "."))?;
        staging.sweep(self.clock.now_ms());
        Ok(staging)
    }

    /// The directory that an entry is moved into. Missing directories are created and counted.
    fn parent(&self, project: &Project, opened: &OwnedFd, path: &str) -> Result<OwnedFd, FileError> {
        if let Ok(directory) = open_directory(opened, path) {
            return Ok(directory);
        }
        let allowance = StorageAllowance { project_bytes: u64::MAX, project_entries: self.project_entries };
        let mut reservation = self.reserve(project, opened, allowance)?;
        provide_directory(opened, path, &mut || reservation.add_entry())
    }

    fn put(
        &self,
        project: &Project,
        file: (&ProjectPath, &[u8]),
        allowance: StorageAllowance,
    ) -> Result<WrittenFile, FileError> {
        let (opened, staging) = (self.open(project)?, self.staging(project)?);
        let mut reservation = self.reserve(project, &opened, allowance)?;
        text::write(&opened, &staging, file, self.file_bytes, &mut reservation)
    }

    fn reserve(
        &self,
        project: &Project,
        opened: &OwnedFd,
        allowance: StorageAllowance,
    ) -> Result<QuotaReservation, FileError> {
        self.usages.reserve(project.id, opened, allowance)
    }
}

fn user_directory(project: &Project) -> String {
    format!("user_{}", project.user.0)
}

/// The project's directory name, validated although it comes from the store.
fn directory(project: &Project) -> Result<&str, FileError> {
    let name = project.directory.as_str();
    let is_fine = paths::is_name(name) && !name.starts_with('.');
    is_fine
        .then_some(name)
        .ok_or_else(|| FileError::Io("the project's directory has no proper name".to_owned()))
}

fn into_itself() -> FileError {
    FileError::BadPath("a directory cannot be moved into itself".to_owned())
}

impl Workspaces for HostFiles {
    fn make(&self, project: &Project) -> Result<(), FileError> {
        let fail = |error| file_error(error, ".");
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(beneath::DIRECTORY_MODE.as_raw_mode()).create(&self.root);
        made.map_err(|error| io_error(&error, "."))?;
        let user = make_and_open(self.open_root()?, &user_directory(project)).map_err(fail)?;
        make_and_open(user, directory(project)?).map(drop).map_err(fail)
    }

    fn remove(&self, project: &Project) -> Result<(), FileError> {
        let user = match self.open_user(project) {
            Err(FileError::NotFound(_)) => return Ok(()),
            other => other?,
        };
        let staging = self.staging(project)?;
        staging.take_project(&user, directory(project)?, project.id).map_err(|error| file_error(error, "."))
    }

    fn absolute(&self, project: &Project) -> PathBuf {
        self.root.join(project.path())
    }

    fn stats(&self, project: &Project) -> Result<TreeStats, FileError> {
        let found =
            count::count(&self.open(project)?, self.counted_entries).map_err(|e| file_error(e, "."))?;
        Ok(TreeStats { files: found.files, directories: found.directories, size: found.bytes })
    }

    fn list(&self, project: &Project, path: &str) -> Result<DirectoryListing, FileError> {
        list::list(&self.open(project)?, &ProjectPath::parse(path)?)
    }

    fn read(&self, project: &Project, path: &str) -> Result<String, FileError> {
        text::read(&self.open(project)?, &ProjectPath::parse(path)?, self.file_bytes)
    }

    fn write(
        &self,
        project: &Project,
        path: &str,
        text: &str,
        allowance: StorageAllowance,
    ) -> Result<u64, FileError> {
        self.replace(project, path, text.as_bytes(), allowance).map(|written| written.size)
    }

    fn rename(&self, project: &Project, from: &str, to: &str) -> Result<(), FileError> {
        let (from, to) = (ProjectPath::parse(from)?, ProjectPath::parse(to)?);
        let ((from_parent, from_name), (to_parent, to_name)) = (from.entry("moved")?, to.entry("replaced")?);
        if to.is_below(&from) {
            return Err(into_itself());
        }
        let opened = self.open(project)?;
        let fail = |error| file_error(error, from.target());
        let from_parent = open_directory(&opened, from_parent).map_err(fail)?;
        stat_at(&from_parent, from_name).map_err(fail)?; // check before creating directories
        let to_parent = self.parent(project, &opened, to_parent)?;
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&from_parent, from_name, &to_parent, to_name, flags).map_err(|error| {
            match error {
                Errno::EXIST => file_error(error, to.target()),
                Errno::INVAL => into_itself(),
                _ => fail(error),
            }
        })
    }

    fn delete(&self, project: &Project, path: &str) -> Result<(), FileError> {
        let path = ProjectPath::parse(path)?;
        let (parent, name) = path.entry("deleted")?;
        let fail = |error| file_error(error, path.target());
        let parent = open_directory(self.open(project)?, parent).map_err(fail)?;
        self.staging(project)?.take(&parent, name).map_err(fail)
    }

    fn make_directory(
        &self,
        project: &Project,
        path: &str,
        allowance: StorageAllowance,
    ) -> Result<bool, FileError> {
        let path = ProjectPath::parse(path)?;
        let opened = self.open(project)?;
        let mut reservation = self.reserve(project, &opened, allowance)?;
        let mut is_made = false;
        let mut count = || {
            is_made = true;
            reservation.add_entry()
        };
        provide_directory(&opened, path.target(), &mut count)?;
        Ok(is_made)
    }

    fn open_file(&self, project: &Project, path: &str) -> Result<(File, u64), FileError> {
        beneath::open_file(self.open(project)?, ProjectPath::parse(path)?.target())
    }

    fn kind(&self, project: &Project, path: &str) -> Result<Option<FileKind>, FileError> {
        let path = ProjectPath::parse(path)?;
        let opened = self.open(project)?;
        let Ok((parent, name)) = path.entry("looked at") else { return Ok(Some(FileKind::Directory)) };
        match open_directory(opened, parent).and_then(|parent| stat_at(&parent, name)) {
            Ok(stat) => Ok(Some(match kind(&stat) {
                FileType::RegularFile => FileKind::File(beneath::size(&stat)),
                FileType::Directory => FileKind::Directory,
                _ => FileKind::Other,
            })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(file_error(error, path.target())),
        }
    }

    fn find(&self, project: &Project, query: &GlobQuery) -> Result<DirectoryListing, FileError> {
        let at_ms = self.clock.monotonic_ms().saturating_add(self.searches.time_ms);
        find::find(&self.open(project)?, query, Deadline { clock: self.clock.as_ref(), at_ms })
    }

    fn replace(
        &self,
        project: &Project,
        path: &str,
        bytes: &[u8],
        allowance: StorageAllowance,
    ) -> Result<WrittenFile, FileError> {
        let path = ProjectPath::parse(path)?;
        path.entry("written")?;
        self.locks.with(project.id, || self.put(project, (&path, bytes), allowance))
    }

    fn revise(
        &self,
        project: &Project,
        path: &str,
        change: FileChange<'_>,
        allowance: StorageAllowance,
    ) -> Result<Option<WrittenFile>, FileError> {
        let path = ProjectPath::parse(path)?;
        path.entry("changed")?;
        self.locks.with(project.id, || {
            let before = match text::read_bytes(&self.open(project)?, &path, self.file_bytes) {
                Ok(bytes) => Some(bytes),
                Err(FileError::NotFound(_)) => None,
                Err(error) => return Err(error),
            };
            change(before).map(|bytes| self.put(project, (&path, &bytes), allowance)).transpose()
        })
    }

    fn delete_file(&self, project: &Project, path: &str) -> Result<(), FileError> {
        let path = ProjectPath::parse(path)?;
        let (parent, name) = path.entry("deleted")?;
        let fail = |error| file_error(error, path.target());
        let parent = open_directory(self.open(project)?, parent).map_err(fail)?;
        let unlink = || rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(fail);
        self.locks.with(project.id, unlink)
    }

    fn search(&self, project: &Project, query: &SearchQuery) -> Result<SearchResults, FileError> {
        search::search(&self.open(project)?, query, self.searches, self.clock.as_ref())
    }

    fn upload(&self, project: &Project, allowance: StorageAllowance) -> Result<Box<dyn Upload>, FileError> {
        let (opened, staging) = (self.open(project)?, self.staging(project)?);
        let reservation = self.reserve(project, &opened, allowance)?;
        let bounds = self.uploads;
        Ok(Box::new(FolderUpload { project: opened, staging, reservation, left: bounds, bounds, file: None }))
    }
}

#[cfg(test)]
mod tests;
