//! A directory of the operator whose files are read, never written.

use super::beneath::{self, kind, size, stat_at};
use super::errors::file_error;
use super::find;
use super::matches::Deadline;
use super::paths::{WorkspacePath, is_name};
use crate::ports::{Clock, DirectoryListing, FileError, FileKind, GlobQuery, ReadOnlyFiles};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Names that are looked at.
const MAX_SEEN: usize = 10_000;
/// Time for a list of files.
const LIST_MS: u64 = 2_000;
/// Write permission of everybody.
const OTHERS_WRITE: u32 = 0o002;

/// A directory on the host, which may not exist yet.
pub struct HostDirectory {
    path: PathBuf,
    clock: Arc<dyn Clock>,
}

impl HostDirectory {
    /// The directory at this path.
    pub fn new(path: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { path, clock }
    }

    /// Opens the directory. A user who may write into it could tell all models what to do.
    fn root(&self) -> Result<OwnedFd, FileError> {
        let fail = |error| file_error(error, ".");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.path, flags, Mode::empty()).map_err(fail)?;
        if rustix::fs::fstat(&root).map_err(fail)?.st_mode & OTHERS_WRITE != 0 {
            return Err(FileError::WrongKind(
                "everybody may write into it; take that right away (chmod o-w)".to_owned(),
            ));
        }
        Ok(root)
    }
}

impl ReadOnlyFiles for HostDirectory {
    fn entries(&self) -> Result<Vec<(String, FileKind)>, FileError> {
        let (root, mut found) = (self.root()?, Vec::new());
        for entry in Dir::read_from(&root).map_err(|error| file_error(error, "."))?.take(MAX_SEEN) {
            let entry = entry.map_err(|error| file_error(error, "."))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') || !is_name(name) {
                continue;
            }
            let Ok(stat) = stat_at(&root, name) else { continue }; // removed since
            let kind = match kind(&stat) {
                FileType::Directory => FileKind::Directory,
                FileType::RegularFile => FileKind::File(size(&stat)),
                _ => FileKind::Other,
            };
            found.push((name.to_owned(), kind));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    fn files_below(&self, path: &str) -> Result<DirectoryListing, FileError> {
        let query = GlobQuery {
            path: path.to_owned(),
            glob: "**".to_owned(),
            with_hidden: false,
            hides_secrets: true,
        };
        let at_ms = self.clock.monotonic_ms().saturating_add(LIST_MS);
        find::find(&self.root()?, &query, Deadline { clock: self.clock.as_ref(), at_ms })
    }

    fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        beneath::open_file(self.root()?, WorkspacePath::parse(path)?.target())
    }
}
