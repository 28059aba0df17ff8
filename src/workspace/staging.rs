//! The staging directory beside a user's workspaces. New files are written here before they are moved into
//! place, and deleted trees are moved here before they are removed. Commands of jobs cannot reach it.

use super::beneath::{
    FILE_MODE, kind, make_and_open, open_directory, rename_new, stat_at, sync_names, unlock,
};
use super::remove::remove_tree;
use crate::domain::project::OWN_NAME;
use crate::domain::workspace::WorkspaceId;
use rustix::fs::{Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name prefix of workspaces being removed; their removal is repeated until it succeeds.
const REMOVED_PREFIX: &str = "gone-";
/// Age after which leftovers of earlier processes are deleted, seconds.
const LEFTOVER_S: u64 = 3_600;
/// Maximum attempts to find a free name.
const MAX_COLLISIONS: u32 = 1_000;

/// Generates names that no other process uses.
#[derive(Debug)]
pub(super) struct StagingNames {
    stamp: String,
    next: AtomicU64,
}

impl StagingNames {
    /// Names for a process that started at this time.
    pub(super) fn new(now_ms: u64) -> Self {
        Self { stamp: format!("{now_ms:x}-{:x}-", std::process::id()), next: AtomicU64::new(0) }
    }

    /// Names for a process that shares the directories with other machines.
    pub(super) fn of_process(tag: &str) -> Self {
        Self { stamp: format!("{tag}-"), next: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        format!("{}{}", self.stamp, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// The workspaces in a user's directory whose removal has begun and not ended.
pub(super) fn half_removed(user: &OwnedFd) -> rustix::io::Result<Vec<String>> {
    let directory = match open_directory(user, OWN_NAME) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        other => other?,
    };
    let entries = Dir::read_from(directory)?.flatten();
    let removed = |name: &str| name.strip_prefix(REMOVED_PREFIX).map(str::to_owned);
    Ok(entries.filter_map(|entry| removed(entry.file_name().to_str().ok()?)).collect())
}

/// A user's staging directory.
pub(super) struct StagingDirectory {
    directory: OwnedFd,
    names: Arc<StagingNames>,
}

impl StagingDirectory {
    /// Opens the staging directory in a user's directory; creates it when it is missing.
    pub(super) fn open(user: &OwnedFd, names: &Arc<StagingNames>) -> rustix::io::Result<Arc<Self>> {
        let directory = make_and_open(user, OWN_NAME)?;
        Ok(Arc::new(Self { directory, names: Arc::clone(names) }))
    }

    /// Deletes leftovers of earlier processes. Entries that cannot be deleted stay for the next time. Without
    /// a time in seconds, that of the file system counts: the clocks of nodes may differ.
    pub(super) fn sweep(self: &Arc<Self>, mut now_s: Option<u64>) {
        let Ok(entries) = Dir::read_from(&self.directory) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_leftover = !name.starts_with('.') && !name.starts_with(&self.names.stamp);
            if !is_leftover || name.starts_with(REMOVED_PREFIX) {
                continue;
            }
            let Ok(stat) = stat_at(&self.directory, name) else { continue };
            let Some(at_s) = now_s.or_else(|| self.file_system_s()) else { return };
            now_s = Some(at_s);
            if changed_s(&stat).saturating_add(LEFTOVER_S) < at_s {
                remove_tree(&self.directory, name).ok();
            }
        }
    }

    /// The time of the file system, unix seconds.
    fn file_system_s(self: &Arc<Self>) -> Option<u64> {
        let staged = self.create().ok()?;
        Some(changed_s(&rustix::fs::fstat(&staged.file).ok()?))
    }

    /// Creates a file for writing.
    pub(super) fn create(self: &Arc<Self>) -> rustix::io::Result<StagedFile> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MAX_COLLISIONS {
            let name = self.names.next();
            match rustix::fs::openat(&self.directory, name.as_str(), flags, FILE_MODE) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    return Ok(StagedFile {
                        staging: Arc::clone(self),
                        name,
                        file: File::from(file),
                        is_staged: true,
                    });
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// Moves an entry here, which hides it from clients at once, then deletes it. `Ok` once the disk has the
    /// move.
    pub(super) fn take(&self, from: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        for _ in 0..MAX_COLLISIONS {
            let target = self.names.next();
            if self.move_into(from, name, &target)? {
                sync_names(from)?;
                self.remove(&target);
                return Ok(());
            }
        }
        Err(Errno::EXIST)
    }

    /// Deletes a workspace. `Ok` when nothing is left of it, including leftovers of a crashed removal. For a
    /// project the disk then has the removal, because its name may be used again. Directories of jobs are
    /// compared with the store at each start.
    pub(super) fn take_workspace(
        &self,
        from: &OwnedFd,
        name: &str,
        id: WorkspaceId,
    ) -> rustix::io::Result<()> {
        let target = format!("{REMOVED_PREFIX}{id}");
        remove_tree(&self.directory, &target)?;
        match self.move_into(from, name, &target) {
            Ok(true) => remove_tree(&self.directory, &target)?,
            Ok(false) => return Err(Errno::EXIST), // another thread removes it as well
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        if matches!(id, WorkspaceId::Project(_)) {
            sync_names(from)?;
            sync_names(&self.directory)?;
        }
        Ok(())
    }

    /// Moves an entry here. Returns `false` when the name is taken.
    fn move_into(&self, from: &OwnedFd, name: &str, target: &str) -> rustix::io::Result<bool> {
        let rename = || rename_new((from, name), (&self.directory, target));
        let moved = match rename() {
            // Without write permission on a directory itself its `..` cannot change.
            Err(Errno::ACCESS) if is_directory(from, name) => unlock(from, name).and_then(|()| rename()),
            other => other,
        };
        match moved {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, target: &str) {
        if let Err(error) = remove_tree(&self.directory, target) {
            tracing::warn!(%error, name = target, "deleted entry is staged but not completely removed");
        }
    }
}

fn changed_s(stat: &Stat) -> u64 {
    u64::try_from(stat.st_mtime).unwrap_or(0)
}

fn is_directory(at: &OwnedFd, name: &str) -> bool {
    stat_at(at, name).is_ok_and(|stat| kind(&stat) == FileType::Directory)
}

/// A staged file. Dropping it deletes the file unless it was published.
pub(super) struct StagedFile {
    staging: Arc<StagingDirectory>,
    name: String,
    pub(super) file: File,
    is_staged: bool,
}

impl StagedFile {
    /// Flushes the content to the disk, so that a power loss after [`Self::publish`] leaves no empty file.
    pub(super) fn sync(&self) -> rustix::io::Result<()> {
        rustix::fs::fdatasync(&self.file)
    }

    /// Moves the file into place atomically, after [`Self::sync`]; [`sync_names`] makes that durable. With
    /// `may_replace` it replaces an existing file, but never a directory.
    pub(super) fn publish(
        mut self,
        directory: impl AsFd,
        name: &str,
        may_replace: bool,
    ) -> rustix::io::Result<()> {
        let (staging, staged) = (&self.staging.directory, self.name.as_str());
        if may_replace {
            rustix::fs::renameat(staging, staged, directory, name)?;
        } else {
            rename_new((staging, staged), (directory, name))?;
        }
        self.is_staged = false;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if self.is_staged {
            // A later sweep deletes the file if this fails.
            rustix::fs::unlinkat(&self.staging.directory, self.name.as_str(), rustix::fs::AtFlags::empty())
                .ok();
        }
    }
}
