//! A file that gets its name only when it is complete: written beside its target, synced, renamed, directory
//! synced. An unfinished file is deleted when it is dropped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// A file that does not have its final name yet.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    part: PathBuf,
    target: PathBuf,
    is_done: bool,
}

impl AtomicFile {
    /// Creates `TARGET.part`, readable by its owner only. Truncates a leftover of an earlier attempt. A link
    /// stays, and what it names is replaced. Fails if that is no regular file: a pipe or a device stays, too.
    pub fn begin(target: &Path) -> io::Result<Self> {
        let is_link = fs::symlink_metadata(target).is_ok_and(|found| found.is_symlink());
        let target = if is_link { fs::canonicalize(target)? } else { target.to_owned() };
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let part = with_suffix(&target, ".part");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        Ok(Self { file, part, target, is_done: false })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path of the unfinished file.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// The same with a name that was not known before.
    pub(super) fn finish_as(mut self, target: &Path) -> io::Result<()> {
        target.clone_into(&mut self.target);
        self.finish()
    }

    /// Gives the complete file its name, safe against a power loss.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        let target = self.target.clone();
        self.finish_unsynced()?;
        sync_directory_of(&target)
    }

    /// Gives the complete file its name. A power loss may leave it empty, or no file.
    pub fn finish_unsynced(mut self) -> io::Result<()> {
        fs::rename(&self.part, &self.target)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.is_done {
            drop(fs::remove_file(&self.part));
        }
    }
}

/// Makes a name durable: a file that was created, linked or renamed.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// When root writes a service's store, the file must belong to the service, which owns the directory.
pub(super) fn give_to_owner(file: &File, store: &Path) -> io::Result<()> {
    let parent = store.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (written, directory) = (file.metadata()?, fs::metadata(parent.unwrap_or(Path::new(".")))?);
    if (written.uid(), written.gid()) == (directory.uid(), directory.gid()) {
        return Ok(());
    }
    fchown(file, Some(directory.uid()), Some(directory.gid()))
}

/// The path with a suffix appended to its last name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn links_and_devices_stay() {
        let dir = tempfile::tempdir().unwrap();
        let [target, link] = ["target", "link"].map(|name| dir.path().join(name));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let draft = AtomicFile::begin(&link).unwrap();
        draft.file().write_all(b"new").unwrap();
        draft.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [link.as_path(), dir.path(), Path::new("/dev/null")] {
            assert!(AtomicFile::begin(path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn an_atomic_file_appears_when_finished_and_is_removed_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("b.redb");
        fs::write(&target, "old").unwrap();
        let draft = AtomicFile::begin(&target).unwrap();
        draft.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        drop(draft);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let draft = AtomicFile::begin(&target).unwrap();
        draft.file().write_all(b"new").unwrap();
        draft.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        let draft = AtomicFile::begin(&target).unwrap();
        draft.file().write_all(b"newer").unwrap();
        draft.finish_unsynced().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"newer");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
