//! The desk: a directory next to a user's projects where files are written before they come to their place, and where
//! trees go before they are removed. Commands of jobs are shut into their project, so what lies here nobody else can
//! touch. Owns the names on it; refuses anything that is to stay.

use super::beneath::{FILE_MODE, kind, look, make_and_open, unlock};
use super::remove::remove_tree;
use crate::domain::id::ProjectId;
use crate::domain::project::OWN_NAME;
use rustix::fs::{Dir, FileType, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How names of projects begin that are being removed; whoever ordered the removal does so until it is done.
const GONE: &str = "gone-";
/// What an earlier process left goes when nobody has changed it for so long, seconds.
const LEFTOVER_S: u64 = 3_600;
/// The longest run of names that are taken.
const MOST_COLLISIONS: u32 = 1_000;

/// Names that no other process gives.
#[derive(Debug)]
pub(super) struct Names {
    stamp: String,
    next: AtomicU64,
}

impl Names {
    /// Of a process that started at this time.
    pub(super) fn new(now_ms: u64) -> Self {
        Self { stamp: format!("{now_ms:x}-{:x}-", std::process::id()), next: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        format!("{}{}", self.stamp, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// A user's desk.
pub(super) struct Desk {
    directory: OwnedFd,
    names: Arc<Names>,
}

impl Desk {
    /// Opens the desk in a user's directory, and makes it where it is missing.
    pub(super) fn open(user: &OwnedFd, names: &Arc<Names>) -> rustix::io::Result<Arc<Self>> {
        let directory = make_and_open(user, OWN_NAME)?;
        Ok(Arc::new(Self { directory, names: Arc::clone(names) }))
    }

    /// Removes what earlier processes left. What cannot go stays for the next time.
    pub(super) fn sweep(&self, now_ms: u64) {
        let Ok(entries) = Dir::read_from(&self.directory) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_left_over = !name.starts_with('.') && !name.starts_with(&self.names.stamp);
            if !is_left_over || name.starts_with(GONE) {
                continue;
            }
            let Ok(stat) = look(&self.directory, name) else { continue };
            let changed_s = u64::try_from(stat.st_mtime).unwrap_or(0);
            if changed_s.saturating_add(LEFTOVER_S) < now_ms / 1_000 {
                remove_tree(&self.directory, name).ok();
            }
        }
    }

    /// Begins a file.
    pub(super) fn draft(self: &Arc<Self>) -> rustix::io::Result<Draft> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MOST_COLLISIONS {
            let name = self.names.next();
            match rustix::fs::openat(&self.directory, name.as_str(), flags, FILE_MODE) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    return Ok(Draft { desk: Arc::clone(self), name, file: File::from(file), is_here: true });
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// Takes away what a name stands for, at once, and removes it. `Ok` as soon as it is away.
    pub(super) fn take(&self, from: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        for _ in 0..MOST_COLLISIONS {
            let away = self.names.next();
            if self.move_here(from, name, &away)? {
                self.remove(&away);
                return Ok(());
            }
        }
        Err(Errno::EXIST)
    }

    /// Takes away a whole project and removes it; `Ok` when nothing is left of it, neither there nor from a removal that
    /// a crash cut off.
    pub(super) fn take_project(&self, from: &OwnedFd, name: &str, id: ProjectId) -> rustix::io::Result<()> {
        let away = format!("{GONE}{id}");
        remove_tree(&self.directory, &away)?;
        match self.move_here(from, name, &away) {
            Ok(true) => remove_tree(&self.directory, &away),
            Ok(false) => Err(Errno::EXIST), // somebody else removes it as well
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says whether the name here was free.
    fn move_here(&self, from: &OwnedFd, name: &str, away: &str) -> rustix::io::Result<bool> {
        let rename = || rustix::fs::renameat_with(from, name, &self.directory, away, RenameFlags::NOREPLACE);
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

    fn remove(&self, away: &str) {
        if let Err(error) = remove_tree(&self.directory, away) {
            tracing::warn!(%error, away, "what was deleted is away, but not wholly removed");
        }
    }
}

fn is_directory(at: &OwnedFd, name: &str) -> bool {
    look(at, name).is_ok_and(|stat| kind(&stat) == FileType::Directory)
}

/// A file on the desk. Removed when dropped, unless it was placed.
pub(super) struct Draft {
    desk: Arc<Desk>,
    name: String,
    pub(super) file: File,
    is_here: bool,
}

impl Draft {
    /// Brings it to its place, in one step; what stands there, a directory aside, goes if `may_replace`.
    pub(super) fn place(
        mut self,
        directory: impl AsFd,
        name: &str,
        may_replace: bool,
    ) -> rustix::io::Result<()> {
        let flags = if may_replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&self.desk.directory, self.name.as_str(), directory, name, flags)?;
        self.is_here = false;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_here {
            // What cannot go now is swept later.
            rustix::fs::unlinkat(&self.desk.directory, self.name.as_str(), rustix::fs::AtFlags::empty()).ok();
        }
    }
}
