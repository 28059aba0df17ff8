//! The storage that a database is opened on: a file, or a backend of a test.

use crate::store::atomic_file::{sync_directory_of, with_suffix};
use crate::store::{FileProbe, probe_file};
use redb::{Database, DatabaseError, StorageBackend};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::{fs, io};

/// Size of the test write before the database is reopened for writing, bytes.
const PROBE_BYTES: usize = 64 * 1024;

/// Error text for a file without the signature of a store.
const FOREIGN: &str =
    "it is not a store, or its beginning is lost; restore a backup, or move it away and start anew";

const MIB: u64 = 1024 * 1024;

/// Space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    /// Space that this process may use.
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

/// Storage that a database can be opened on repeatedly.
pub(crate) trait Medium: Send + Sync {
    /// Creates it, if it is missing.
    fn create_if_missing(&self) -> Result<(), DatabaseError> {
        Ok(())
    }
    /// Whether it accepts writes; checked without touching the database.
    fn takes_writes(&self) -> Result<(), io::Error> {
        Ok(())
    }
    /// Opens the database.
    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError>;
    /// Copies the file before a migration changes the layout of this version.
    fn back_up(&self, _version: u64) -> Result<(), io::Error> {
        Ok(())
    }
    /// An empty, unlinked file on the same disk.
    fn scratch(&self) -> Result<File, io::Error> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Space of its disk; `None` when unknown.
    fn space(&self) -> Option<DiskSpace> {
        None
    }
    /// Its size, bytes; 0 when unknown.
    fn bytes(&self) -> u64;
}

/// A file.
pub(crate) struct FileMedium(pub(crate) PathBuf);

impl Medium for FileMedium {
    /// A power loss while redb writes its first header would leave a file that never opens again. So the file
    /// is created under another name and renamed when it is complete and synced (P1).
    fn create_if_missing(&self) -> Result<(), DatabaseError> {
        match probe_file(&self.0)? {
            FileProbe::Store => return Ok(()),
            FileProbe::Absent => {}
            // redb would turn an empty file into a new database. A file that a crash has emptied must not
            // silently become a new store.
            FileProbe::Foreign => return Err(io::Error::new(io::ErrorKind::InvalidData, FOREIGN).into()),
        }
        let draft = self.0.with_extension("new");
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        drop(redb::Builder::new().create_file(file)?);
        fs::rename(&draft, &self.0)?;
        Ok(sync_directory_of(&self.0)?)
    }

    /// Tests it with a scratch file in the same directory.
    fn takes_writes(&self) -> Result<(), io::Error> {
        let path = self.0.with_extension("probe");
        let written = fs::write(&path, vec![0; PROBE_BYTES]).and_then(|()| File::open(&path)?.sync_all());
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).open(&self.0)?;
        redb::Builder::new().set_cache_size(cache_bytes).create_file(file)
    }

    /// Replaces the copy of an earlier attempt, because the store has not changed since.
    fn back_up(&self, version: u64) -> Result<(), io::Error> {
        let copy = with_suffix(&self.0, &format!(".v{version}.bak"));
        let draft = with_suffix(&copy, ".new");
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => check_migration_space(self.bytes(), self.space())?,
        }
        let copied = fs::copy(&self.0, &draft)
            .and_then(|_bytes| File::open(&draft)?.sync_all())
            .and_then(|()| fs::rename(&draft, &copy));
        if copied.is_err() {
            // It probably fails for the same reason as the copy; the next attempt removes it.
            drop(fs::remove_file(&draft));
        }
        copied?;
        sync_directory_of(&copy)
    }

    fn scratch(&self) -> Result<File, io::Error> {
        let path = self.0.with_extension("backup");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    fn space(&self) -> Option<DiskSpace> {
        let disk = rustix::fs::statvfs(&self.0).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(DiskSpace { free_bytes: bytes(disk.f_bavail), total_bytes: bytes(disk.f_blocks) })
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |m| m.len())
    }
}

/// Refuses a migration that the disk has no space for: the copy, and a second version of every table.
fn check_migration_space(file_bytes: u64, space: Option<DiskSpace>) -> Result<(), io::Error> {
    let needed = file_bytes.saturating_mul(2).saturating_add(file_bytes / 5);
    match space {
        Some(DiskSpace { free_bytes, .. }) if free_bytes < needed => {
            let message = format!(
                "a copy of its {} MiB and the migration need {} MiB of free disk, {} MiB are free",
                file_bytes.div_ceil(MIB),
                needed.div_ceil(MIB),
                free_bytes / MIB
            );
            Err(io::Error::new(io::ErrorKind::StorageFull, message))
        }
        _ => Ok(()),
    }
}

/// The backend that a function creates, for tests with disk faults.
pub(crate) struct BackendMedium<F>(pub(crate) F);

impl<B: StorageBackend, F: Fn() -> B + Send + Sync> Medium for BackendMedium<F> {
    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
        redb::Builder::new().set_cache_size(cache_bytes).create_with_backend((self.0)())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_without_enough_disk_space_is_refused() {
        let space = |free_bytes| Some(DiskSpace { free_bytes, total_bytes: 1_000 * MIB });
        assert!(check_migration_space(100 * MIB, space(220 * MIB)).is_ok());
        assert!(check_migration_space(100 * MIB, None).is_ok(), "nobody knows");
        let refused = check_migration_space(100 * MIB, space(219 * MIB)).unwrap_err();
        let message = refused.to_string();
        assert!(
            message.contains("100 MiB") && message.contains("220 MiB") && message.contains("219 MiB"),
            "{message}"
        );
    }

    #[test]
    fn a_failed_backup_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let medium = FileMedium(dir.path().join("store.redb"));
        fs::write(&medium.0, "a store").unwrap();
        let copy = with_suffix(&medium.0, ".v3.bak");
        fs::create_dir(&copy).unwrap();
        assert!(medium.back_up(3).is_err());
        assert!(!with_suffix(&copy, ".new").exists());
        fs::remove_dir(&copy).unwrap();
        fs::write(with_suffix(&copy, ".new"), "cut off by a power loss").unwrap();
        medium.back_up(3).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "a store");
        assert!(!with_suffix(&copy, ".new").exists());
    }
}
