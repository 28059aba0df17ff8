//! The private directory of a run: created before it, removed after it, whatever a hostile guest left inside.
//!
//! The server holds a lock on each directory in use. Another server on the same parent directory (in another
//! container, where process ids mean nothing) removes only directories without that lock.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::remove::{TreeRemoval, remove_tree};
use super::remover::ScratchRemover;
use crate::error::SandboxError;
use crate::sys;

/// The start of the name of a private directory. The process id follows, and a random number: programs can
/// test whether a path exists, and those of other runs must not be able to guess this one.
const PREFIX: &str = "nanoclaw-run-";
/// The start of the name after its run, in directories of earlier versions.
const TRASH_PREFIX: &str = "nanoclaw-trash-";
const PRIVATE: Mode = Mode::RWXU;

/// The private directory of one run. Removed when dropped, at the latest.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    path: PathBuf,
    removed: bool,
    /// Keeps other servers from removing it. `None` once it is removed.
    held: Option<OwnedFd>,
}

impl ScratchDir {
    /// Creates one below `parent`, accessible for this user only.
    pub(crate) fn make(parent: &Path) -> Result<Self, SandboxError> {
        let fail =
            |source: Errno| SandboxError::MakeScratch { path: parent.to_owned(), source: source.into() };
        let parent = parent
            .canonicalize()
            .map_err(|source| SandboxError::MakeScratch { path: parent.to_owned(), source })?;
        loop {
            let path = parent.join(unguessable_name().map_err(fail)?);
            match rustix::fs::mkdir(&path, PRIVATE).and_then(|()| hold(&path)) {
                Ok(held) => return Ok(Self { path, removed: false, held: Some(held) }),
                // Another server has removed the directory before it was held.
                Err(Errno::EXIST | Errno::NOENT) if parent.exists() => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it to the remover. The duration depends neither on the contents nor on the disk.
    pub(crate) fn discard(self, remover: &ScratchRemover) {
        remover.take(self.keep());
    }

    /// Leaves it where it is. Whoever calls this removes it; if nobody does, a later start does.
    pub(crate) fn keep(mut self) -> TreeRemoval {
        self.removed = true;
        let path = std::mem::take(&mut self.path);
        TreeRemoval::holding(path, self.held.take())
    }

    /// Removes it with its contents, at once.
    pub(crate) fn remove(mut self) -> Result<(), SandboxError> {
        self.removed = true;
        remove_tree(&self.path)
            .map_err(|source| SandboxError::RemoveScratch { path: self.path.clone(), source: source.into() })
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if !self.removed {
            // A run that failed reports its own error. An empty directory needs no descriptor.
            remove_tree(&self.path).or_else(|_| rustix::fs::rmdir(&self.path)).ok();
        }
    }
}

/// A new name for a directory of this process.
fn unguessable_name() -> Result<String, Errno> {
    let mut random = [0; 8];
    // So few bytes come whole.
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{PREFIX}{}-{:016x}", std::process::id(), u64::from_ne_bytes(random)))
}

/// Opens a directory of a run without following a link.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// Holds a directory that was just created. An error if it is not there any more.
fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    let directory = open(path)?;
    // A file system without locks cannot be shared between servers: there nothing counts as unused.
    sys::hold(directory.as_fd()).ok();
    rustix::fs::stat(path)?;
    Ok(directory)
}

/// Gives the directories that dead servers left below `parent` to the remover.
pub(crate) fn sweep(parent: &Path, remover: &ScratchRemover) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let is_trash = name.starts_with(TRASH_PREFIX);
        if (is_trash || name.starts_with(PREFIX)) && is_unused(&entry.path()) {
            // It may belong to another user, or another server may remove it: an error does no harm.
            remover.take_leftover(entry.path());
        }
    }
}

/// Whether no server uses a directory. One that cannot be opened may be in use.
fn is_unused(path: &Path) -> bool {
    open(path).is_ok_and(|directory| sys::is_held(directory.as_fd()).is_ok_and(|is_held| !is_held))
}

/// Checks a working directory of the caller.
pub(crate) fn check_workdir(path: &Path) -> Result<PathBuf, SandboxError> {
    let bad = |reason: String| SandboxError::BadWorkdir { path: path.to_owned(), reason };
    let real = path.canonicalize().map_err(|error: io::Error| bad(error.to_string()))?;
    if !real.is_dir() {
        return Err(bad("it is not a directory".to_owned()));
    }
    if real.parent().is_none() {
        return Err(bad("it is the root directory".to_owned()));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_scratch_directory_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let path = ScratchDir::make(home.path()).unwrap().path().to_owned();
        assert!(!path.exists());
    }

    #[test]
    fn p7_the_names_of_other_private_directories_do_not_follow_from_one() {
        let home = tempfile::tempdir().unwrap();
        let made: Vec<ScratchDir> = (0..64).map(|_| ScratchDir::make(home.path()).unwrap()).collect();
        let number = |dir: &ScratchDir| {
            let name = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
            u64::from_str_radix(name.rsplit('-').next().unwrap(), 16).unwrap()
        };
        let mut numbers: Vec<u64> = made.iter().map(number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] > 1_000_000), "{numbers:?}");
    }

    #[test]
    fn scratch_directories_of_dead_servers_are_removed_and_live_ones_kept() {
        let home = tempfile::tempdir().unwrap();
        let live = ScratchDir::make(home.path()).unwrap();
        for prefix in [PREFIX, TRASH_PREFIX] {
            let dead = home.path().join(format!("{prefix}{}-0", i32::MAX));
            std::fs::create_dir_all(dead.join("x")).unwrap();
        }
        let remover = ScratchRemover::default();
        sweep(home.path(), &remover);
        drop(remover);
        assert!(live.path().exists());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }

    /// A server in another container has process ids of its own: the number in a name says nothing.
    #[test]
    fn a_directory_in_use_is_kept_whatever_process_its_name_tells() {
        let home = tempfile::tempdir().unwrap();
        let remover = ScratchRemover::default();
        let live = ScratchDir::make(home.path()).unwrap();
        let elsewhere = home.path().join(format!("{PREFIX}{}-0", i32::MAX));
        std::fs::rename(live.path(), &elsewhere).unwrap();
        let same_id = home.path().join(format!("{PREFIX}{}-0", std::process::id()));
        std::fs::create_dir(&same_id).unwrap();
        sweep(home.path(), &remover);
        drop(remover);
        assert!(elsewhere.exists(), "the directory of a living server was removed");
        assert!(!same_id.exists(), "the directory of a dead server with our process id stays forever");
    }

    #[test]
    fn a_discarded_directory_is_removed_in_the_background() {
        let home = tempfile::tempdir().unwrap();
        let scratch = ScratchDir::make(home.path()).unwrap();
        let path = scratch.path().to_owned();
        std::fs::create_dir_all(path.join("x/y")).unwrap();
        let remover = ScratchRemover::default();
        scratch.discard(&remover);
        drop(remover);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn root_and_non_directories_are_refused_as_workdir() {
        assert!(check_workdir(Path::new("/")).is_err());
        assert!(check_workdir(Path::new("/dev/null")).is_err());
    }
}
