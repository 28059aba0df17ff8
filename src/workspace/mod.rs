//! Files of projects and jobs on the host. Every path stays beneath the workspace root, and no link below the
//! root is followed.
//!
//! A hard link to an outside file is treated as a normal file. Its creator could read that file anyway,
//! because commands run as the server's user, and writes replace names, never contents.

mod beneath;
mod errors;
mod find;
mod glob;
mod jobs;
mod list;
mod locks;
mod matches;
mod paths;
mod read_only;
mod recounts;
mod remove;
mod rename;
mod search;
mod staging;
mod text;
mod upload;
mod usage;
mod users;
mod version;
mod walk;

pub use read_only::HostDirectory;

use crate::domain::file_version::{FileCondition, FileVersion};
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use crate::domain::workspace::{UserDirectories, Workspace, WorkspaceId};
use crate::ports::{
    Clock, DirectoryListing, FileChange, FileError, FileKind, GlobQuery, HeldLock, LockMode, SearchQuery,
    SearchResults, SharedFiles, SharedLock, SharedLockKind, StorageAllowance, StorageScope, StorageUsage,
    TreeStats, Upload, Workspaces, WrittenFile,
};
use beneath::{
    kind, make_and_open, make_root, open_directory, provide_directory, stat_at, sync_names, unlock,
};
use errors::{file_error, io_error};
use locks::WorkspaceLocks;
use matches::Deadline;
use nanoclaw_sandbox::TreeCount;
use paths::{WorkspacePath, directory};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use search::SearchLimits;
use staging::{StagingDirectory, StagingNames};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use upload::{FolderUpload, UploadLimits};
use usage::{QuotaReservation, WorkspaceUsages};
use users::UserAreas;

/// Statistics count up to this many times `project_entries`, because commands of jobs may exceed the quota.
const COUNTED_TIMES: u64 = 2;
/// When the sizes of many workspaces are wanted, entries after which accounts are taken instead of counts.
const COUNTED_AT_ONCE: u64 = 2_000;

/// Files below a workspace root.
pub struct HostFiles {
    root: PathBuf,
    job_root: PathBuf,
    areas: UserAreas,
    clock: Arc<dyn Clock>,
    names: Arc<StagingNames>,
    usages: WorkspaceUsages,
    locks: Arc<WorkspaceLocks>,
    shared: Option<Arc<dyn SharedFiles>>,
    file_bytes: u64,
    project_entries: u64,
    uploads: UploadLimits,
    searches: SearchLimits,
}

impl HostFiles {
    /// Files below this directory, which is created on first use.
    pub fn new(root: PathBuf, users: UserDirectories, limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        let counted_entries = limits.project_entries.max(limits.job_entries).saturating_mul(COUNTED_TIMES);
        Self {
            job_root: root.clone(),
            root,
            areas: UserAreas::new(users),
            names: Arc::new(StagingNames::new(clock.now_ms())),
            usages: WorkspaceUsages::new(Arc::clone(&clock), counted_entries),
            clock,
            locks: Arc::default(),
            shared: None,
            file_bytes: limits.file_bytes,
            project_entries: limits.project_entries,
            uploads: UploadLimits { files: limits.upload_files, bytes: limits.upload_bytes },
            searches: SearchLimits { files: limits.search_files, time_ms: limits.search_ms },
        }
    }

    /// Keeps the workspaces of jobs and the memories of users below a directory that no other server uses:
    /// workspaces of unknown jobs are removed.
    #[must_use]
    pub fn with_job_root(self, job_root: PathBuf) -> Self {
        Self { job_root, ..self }
    }

    /// Shares the files with other nodes.
    #[must_use]
    pub fn shared_by_nodes(self, shared: Arc<dyn SharedFiles>) -> Self {
        Self {
            names: Arc::new(StagingNames::of_process(shared.process_tag())),
            locks: Arc::new(WorkspaceLocks::of_nodes(Arc::clone(&shared))),
            shared: Some(shared),
            ..self
        }
    }

    fn root_of(&self, workspace: &Workspace) -> &Path {
        match workspace.id {
            WorkspaceId::Project(_) => &self.root,
            WorkspaceId::Job(_) | WorkspaceId::Memory(_) => &self.job_root,
        }
    }

    fn open_root(&self, workspace: &Workspace) -> Result<OwnedFd, FileError> {
        self.check_access()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(self.root_of(workspace), flags, Mode::empty()).map_err(|e| file_error(e, "."))
    }

    /// The directory above the workspace, which no other user's workspaces are in.
    fn open_user(&self, workspace: &Workspace) -> Result<OwnedFd, FileError> {
        let root = self.open_root(workspace)?;
        self.areas.open_user(root, workspace).map_err(|e| file_error(e, "."))
    }

    fn open(&self, workspace: &Workspace) -> Result<OwnedFd, FileError> {
        let (user, name) = (self.open_user(workspace)?, directory(workspace)?);
        let opened = match open_directory(&user, name) {
            // A command of a job may remove the permissions of its own directory.
            Err(Errno::ACCESS) => unlock(&user, name).and_then(|()| open_directory(&user, name)),
            other => other,
        };
        opened.map_err(|error| file_error(error, "."))
    }

    fn staging(&self, workspace: &Workspace) -> Result<Arc<StagingDirectory>, FileError> {
        let staging = StagingDirectory::open(&self.open_user(workspace)?, &self.names)
            .map_err(|error| file_error(error, "."))?;
        staging.sweep(self.shared.is_none().then(|| self.clock.now_ms() / 1_000));
        Ok(staging)
    }

    /// The directory that an entry is moved into. Missing directories are created and counted.
    fn parent(&self, workspace: &Workspace, opened: &OwnedFd, path: &str) -> Result<OwnedFd, FileError> {
        if let Ok(directory) = open_directory(opened, path) {
            return Ok(directory);
        }
        let allowance =
            StorageAllowance { bytes: u64::MAX, entries: self.project_entries, scope: StorageScope::Project };
        let mut reservation = self.reserve(workspace, opened, allowance)?;
        provide_directory(opened, path, &mut || reservation.add_directory())
    }

    fn put(
        &self,
        workspace: &Workspace,
        file: (&WorkspacePath, &[u8]),
        allowance: StorageAllowance,
    ) -> Result<WrittenFile, FileError> {
        let (opened, staging) = (self.open(workspace)?, self.staging(workspace)?);
        let mut reservation = self.reserve(workspace, &opened, allowance)?;
        text::write(&opened, &staging, file, self.file_bytes, &mut reservation)
    }

    fn held(&self, workspace: &Workspace) -> Result<TreeCount, FileError> {
        self.usages.held(workspace, &self.open(workspace)?)
    }

    fn reserve(
        &self,
        workspace: &Workspace,
        opened: &OwnedFd,
        allowance: StorageAllowance,
    ) -> Result<QuotaReservation, FileError> {
        self.usages.reserve(workspace, opened, allowance)
    }

    /// Makes a change if the condition holds for the path.
    fn if_holds(
        &self,
        workspace: &Workspace,
        (path, condition): (&str, &FileCondition),
        change: impl FnOnce() -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        if *condition == FileCondition::Always {
            // The removal of a large tree stops no other change.
            return change();
        }
        let path = WorkspacePath::parse(path)?;
        self.locks.with(workspace.id, || {
            version::check(&self.open(workspace)?, &path, condition, self.file_bytes)?;
            change()
        })
    }
}

impl Workspaces for HostFiles {
    fn make(&self, workspace: &Workspace) -> Result<(), FileError> {
        let fail = |error| file_error(error, ".");
        self.check_access()?;
        make_root(self.root_of(workspace)).map_err(|error| io_error(&error, "."))?;
        let root = self.open_root(workspace)?;
        let user = self.areas.provide_user(root, workspace).map_err(fail)?;
        make_and_open(user, directory(workspace)?).map(drop).map_err(fail)
    }

    fn are_shared(&self) -> bool {
        self.shared.is_some()
    }

    fn check_access(&self) -> Result<(), FileError> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.check().map_err(FileError::Unavailable))
    }

    fn claim(&self, workspace: &Workspace) -> Result<HeldLock, FileError> {
        self.check_access()?;
        let Some(shared) = &self.shared else { return Ok(Box::new(())) };
        let key = workspace.id.to_string();
        let lock = SharedLock::of(SharedLockKind::ProjectDirectory, &key, LockMode::Shared);
        shared.lock(lock).map_err(FileError::Unavailable)
    }

    fn remove(&self, workspace: &Workspace) -> Result<(), FileError> {
        self.usages.forget(workspace.id);
        let user = match self.open_user(workspace) {
            Err(FileError::NotFound(_)) => return Ok(()),
            other => other?,
        };
        let staging = self.staging(workspace)?;
        self.locks.with(workspace.id, || {
            staging
                .take_workspace(&user, directory(workspace)?, workspace.id)
                .map_err(|error| file_error(error, "."))
        })
    }

    fn absolute(&self, workspace: &Workspace) -> PathBuf {
        self.areas.path(self.root_of(workspace), workspace)
    }

    fn stats(&self, workspace: &Workspace) -> Result<TreeStats, FileError> {
        let found = self.held(workspace)?;
        Ok(TreeStats { files: found.files, directories: found.directories, size: found.bytes })
    }

    fn usage(&self, workspace: &Workspace) -> Result<StorageUsage, FileError> {
        let found = match self.held(workspace) {
            Err(FileError::NotFound(_)) => return Ok(StorageUsage::default()),
            other => other?,
        };
        Ok(StorageUsage { bytes: found.bytes, entries: found.entries() })
    }

    fn bytes_of(&self, workspaces: &[Workspace]) -> Result<u64, FileError> {
        let (mut bytes, mut counted) = (0_u64, 0_u64);
        for workspace in workspaces {
            let known = self.usages.known(workspace.id).filter(|_| counted >= COUNTED_AT_ONCE);
            let held = match known.map_or_else(|| self.held(workspace), Ok) {
                Err(FileError::NotFound(_)) => continue,
                other => other?,
            };
            bytes = bytes.saturating_add(held.bytes);
            counted = counted.saturating_add(held.entries());
        }
        Ok(bytes)
    }

    fn count_again(&self, workspace: &Workspace) -> Result<(), FileError> {
        self.usages.count_again(workspace.id, &self.open(workspace)?)
    }

    fn job_workspaces(&self, user: Option<UserId>) -> Result<Vec<Workspace>, FileError> {
        self.check_access()?;
        jobs::workspaces(&self.job_root, &self.areas, user)
    }

    fn list(&self, workspace: &Workspace, path: &str) -> Result<DirectoryListing, FileError> {
        list::list(&self.open(workspace)?, &WorkspacePath::parse(path)?)
    }

    fn read(&self, workspace: &Workspace, path: &str) -> Result<String, FileError> {
        text::read(&self.open(workspace)?, &WorkspacePath::parse(path)?, self.file_bytes)
    }

    fn write_if(
        &self,
        workspace: &Workspace,
        (path, condition): (&str, &FileCondition),
        text: &str,
        allowance: StorageAllowance,
    ) -> Result<u64, FileError> {
        let path = WorkspacePath::parse(path)?;
        path.entry("written")?;
        self.locks.with(workspace.id, || {
            version::check(&self.open(workspace)?, &path, condition, self.file_bytes)?;
            self.put(workspace, (&path, text.as_bytes()), allowance).map(|written| written.size)
        })
    }

    fn rename(&self, workspace: &Workspace, from: &str, to: &str) -> Result<(), FileError> {
        let opened = self.open(workspace)?;
        rename::rename(&opened, from, to, |parent| self.parent(workspace, &opened, parent))
    }

    fn rename_if(
        &self,
        workspace: &Workspace,
        (from, condition): (&str, &FileCondition),
        to: &str,
    ) -> Result<(), FileError> {
        self.if_holds(workspace, (from, condition), || self.rename(workspace, from, to))
    }

    fn delete(&self, workspace: &Workspace, path: &str) -> Result<(), FileError> {
        let path = WorkspacePath::parse(path)?;
        let (parent, name) = path.entry("deleted")?;
        let fail = |error| file_error(error, path.target());
        let parent = open_directory(self.open(workspace)?, parent).map_err(fail)?;
        let held = usage::entry(&parent, name, self.usages.most_entries());
        self.staging(workspace)?.take(&parent, name).map_err(fail)?;
        self.usages.take(workspace.id, &held);
        Ok(())
    }

    fn delete_if(
        &self,
        workspace: &Workspace,
        (path, condition): (&str, &FileCondition),
    ) -> Result<(), FileError> {
        self.if_holds(workspace, (path, condition), || self.delete(workspace, path))
    }

    fn make_directory(
        &self,
        workspace: &Workspace,
        path: &str,
        allowance: StorageAllowance,
    ) -> Result<bool, FileError> {
        let path = WorkspacePath::parse(path)?;
        let opened = self.open(workspace)?;
        let mut reservation = self.reserve(workspace, &opened, allowance)?;
        let mut is_made = false;
        let mut count = || {
            is_made = true;
            reservation.add_directory()
        };
        provide_directory(&opened, path.target(), &mut count)?;
        Ok(is_made)
    }

    fn open_file(&self, workspace: &Workspace, path: &str) -> Result<(File, u64), FileError> {
        beneath::open_file(self.open(workspace)?, WorkspacePath::parse(path)?.target())
    }

    fn version(&self, file: &File) -> Result<FileVersion, FileError> {
        version::version(file, "the file", self.file_bytes)
    }

    fn kind(&self, workspace: &Workspace, path: &str) -> Result<Option<FileKind>, FileError> {
        let path = WorkspacePath::parse(path)?;
        let opened = self.open(workspace)?;
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

    fn find(&self, workspace: &Workspace, query: &GlobQuery) -> Result<DirectoryListing, FileError> {
        let at_ms = self.clock.monotonic_ms().saturating_add(self.searches.time_ms);
        find::find(&self.open(workspace)?, query, Deadline { clock: self.clock.as_ref(), at_ms })
    }

    fn replace(
        &self,
        workspace: &Workspace,
        path: &str,
        bytes: &[u8],
        allowance: StorageAllowance,
    ) -> Result<WrittenFile, FileError> {
        let path = WorkspacePath::parse(path)?;
        path.entry("written")?;
        self.locks.with(workspace.id, || self.put(workspace, (&path, bytes), allowance))
    }

    fn revise(
        &self,
        workspace: &Workspace,
        path: &str,
        change: FileChange<'_>,
        allowance: StorageAllowance,
    ) -> Result<Option<WrittenFile>, FileError> {
        let path = WorkspacePath::parse(path)?;
        path.entry("changed")?;
        self.locks.with(workspace.id, || {
            let before = match text::read_bytes(&self.open(workspace)?, &path, self.file_bytes) {
                Ok(bytes) => Some(bytes),
                Err(FileError::NotFound(_)) => None,
                Err(error) => return Err(error),
            };
            change(before).map(|bytes| self.put(workspace, (&path, &bytes), allowance)).transpose()
        })
    }

    fn delete_file(&self, workspace: &Workspace, path: &str) -> Result<(), FileError> {
        let path = WorkspacePath::parse(path)?;
        let (parent, name) = path.entry("deleted")?;
        let fail = |error| file_error(error, path.target());
        let parent = open_directory(self.open(workspace)?, parent).map_err(fail)?;
        let unlink = || {
            let held = usage::entry(&parent, name, 0);
            rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(fail)?;
            self.usages.take(workspace.id, &held);
            Ok(())
        };
        self.locks.with(workspace.id, unlink)?;
        sync_names(&parent).map_err(fail)
    }

    fn search(&self, workspace: &Workspace, query: &SearchQuery) -> Result<SearchResults, FileError> {
        search::search(&self.open(workspace)?, query, self.searches, self.clock.as_ref())
    }

    fn upload(
        &self,
        workspace: &Workspace,
        allowance: StorageAllowance,
    ) -> Result<Box<dyn Upload>, FileError> {
        let (opened, staging) = (self.open(workspace)?, self.staging(workspace)?);
        let reservation = self.reserve(workspace, &opened, allowance)?;
        let bounds = self.uploads;
        Ok(Box::new(FolderUpload {
            id: workspace.id,
            locks: Arc::clone(&self.locks),
            workspace: opened,
            staging,
            reservation,
            left: bounds,
            bounds,
            file: None,
            complete: Vec::new(),
            published: Vec::new(),
        }))
    }
}

#[cfg(test)]
mod tests;
