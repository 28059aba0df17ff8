//! The storage that a database is opened on: a file, or a backend of a test.

use crate::ports::{DiskSpace, StoreError};
use crate::store::atomic_file::{AtomicFile, with_suffix};
use crate::store::disk_limits::disk_space;
use crate::store::redb::codec::tables;
use crate::store::redb::file::checked_file::{CheckedFile, SyncFailure};
use crate::store::redb::file::overlay::Overlay;
use crate::store::redb::file::page_cache::drop_cached_pages;
use crate::store::{FileProbe, had_store, probe_file};
use redb::{Database, DatabaseError, StorageBackend};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

/// Size of the test write before the database is reopened for writing, bytes.
const PROBE_BYTES: usize = 64 * 1024;

/// Error text for a file without the signature of a store.
const FOREIGN: &str =
    "it is not a store, or its beginning is lost; restore a backup, or move it away and start anew";

/// Error text for a missing store.
const MISSING: &str = "it is missing, although this directory had a store";

const MIB: u64 = 1024 * 1024;

/// Storage that a database can be opened on repeatedly.
pub(crate) trait Medium: Send + Sync {
    /// Whether it accepts writes; checked without touching the database.
    fn takes_writes(&self) -> Result<(), io::Error> {
        Ok(())
    }
    /// Fails if its name no longer leads to the open file.
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// After a failed sync, makes the next open read what the disk holds; fails if the kernel keeps other
    /// pages in its cache.
    fn drop_unsynced(&self) -> Result<(), io::Error> {
        Ok(())
    }
    /// Opens the database.
    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError>;
    /// Opens the database without writing to the storage, also after a crash.
    fn open_for_reading(&self, _cache_bytes: usize) -> Result<Database, DatabaseError> {
        Err(io::Error::from(io::ErrorKind::Unsupported).into())
    }
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
pub(crate) struct FileMedium {
    path: PathBuf,
    /// The file that was opened first. Another one must not take its place while jobs run.
    opened: OnceLock<FileId>,
    failure: SyncFailure,
    allow_new: bool,
    /// Created and synced by this value, and not opened since.
    is_new: AtomicBool,
}

/// Device and inode.
type FileId = (u64, u64);

fn file_id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

impl FileMedium {
    /// The file at `path`. If the directory had a store and it is missing, `allow_new` permits another one.
    pub(crate) fn new(path: &Path, allow_new: bool) -> Self {
        let (path, failure) = (path.to_owned(), SyncFailure::beside(path));
        Self { path, opened: OnceLock::new(), failure, allow_new, is_new: AtomicBool::new(false) }
    }

    /// Creates the file if it is missing, and returns whether it was.
    ///
    /// A power loss while redb writes its first header would leave a file that never opens again. So the file
    /// is created under another name, with all tables, and renamed when it is complete and synced (P1).
    pub(crate) fn create_if_missing(&self) -> Result<bool, DatabaseError> {
        match probe_file(&self.path)? {
            FileProbe::Store => return Ok(false),
            FileProbe::Absent if had_store(&self.path) && !self.allow_new => {
                return Err(io::Error::new(io::ErrorKind::NotFound, MISSING).into());
            }
            FileProbe::Absent => {}
            // redb would turn an empty file into a new database. A file that a crash has emptied must not
            // silently become a new store.
            FileProbe::Foreign => {
                let reason = if self.path.is_dir() { "it is a directory" } else { FOREIGN };
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason).into());
            }
        }
        let draft = AtomicFile::begin(&self.path)?;
        let file = CheckedFile::draft(draft.file().try_clone()?)?;
        let database = redb::Builder::new().create_with_backend(file)?;
        tables::create(&database).map_err(|error| creation_error(&error))?;
        drop(database);
        draft.finish()?;
        self.is_new.store(true, Ordering::SeqCst);
        Ok(true)
    }

    fn open_file(&self) -> Result<CheckedFile, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let id = file_id(&file.metadata()?);
        if *self.opened.get_or_init(|| id) != id {
            return Err(io::Error::other("another file is in its place").into());
        }
        CheckedFile::new(file, self.failure.clone())
    }
}

impl Medium for FileMedium {
    /// Tests it with a scratch file in the same directory.
    fn takes_writes(&self) -> Result<(), io::Error> {
        let path = self.path.with_extension("probe");
        let written = fs::write(&path, vec![0; PROBE_BYTES]).and_then(|()| File::open(&path)?.sync_all());
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    fn check_place(&self) -> Result<(), StoreError> {
        match (self.opened.get(), fs::metadata(&self.path)) {
            (Some(opened), Ok(found)) if *opened != file_id(&found) => Err(StoreError::Misplaced),
            (Some(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Misplaced),
            (_, found) => Ok(found.map(drop)?),
        }
    }

    fn drop_unsynced(&self) -> Result<(), io::Error> {
        // Also reports what the kernel failed to write after the last process had ended.
        let sync = || OpenOptions::new().write(true).open(&self.path)?.sync_all();
        let synced = if self.is_new.swap(false, Ordering::SeqCst) { Ok(()) } else { sync() };
        if let Err(error) = synced {
            self.failure.record(&error);
        }
        if !self.failure.is_recorded() {
            return Ok(());
        }
        drop_cached_pages(&self.path)?;
        self.failure.clear()?;
        tracing::warn!("cached pages of the store were dropped; it holds what the disk holds");
        Ok(())
    }

    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
        redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(self.open_file()?)
    }

    fn open_for_reading(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
        let overlay = Overlay::over(self.open_file()?)?;
        redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(overlay)
    }

    /// Replaces the copy of an earlier attempt, because the store has not changed since.
    fn back_up(&self, version: u64) -> Result<(), io::Error> {
        let copy = with_suffix(&self.path, &format!(".v{version}.bak"));
        let draft = AtomicFile::begin(&copy)?;
        check_migration_space(self.bytes(), self.space())?;
        io::copy(&mut File::open(&self.path)?, &mut draft.file())?;
        draft.finish()
    }

    fn scratch(&self) -> Result<File, io::Error> {
        let path = self.path.with_extension("backup");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    fn space(&self) -> Option<DiskSpace> {
        disk_space(&self.path)
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |m| m.len())
    }
}

/// The error of a file whose tables could not be created.
fn creation_error(error: &StoreError) -> io::Error {
    let kind = if *error == StoreError::Full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    io::Error::new(kind, error.to_string())
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
    use crate::store::mark_store;
    use crate::store::redb::codec::tables::StoredLayout;
    use redb::ReadableDatabase;

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
    fn p1_a_new_file_gets_its_name_when_it_has_all_tables() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let medium = FileMedium::new(&path, false);
        medium.create_if_missing().unwrap();
        assert!(!with_suffix(&path, ".part").exists());
        let database = medium.open(1 << 20).unwrap();
        assert_eq!(tables::inspect(&database), Ok(StoredLayout::Known(tables::VERSION)));
        assert_eq!(tables::has_all(&database.begin_read().unwrap().into()), Ok(true));
    }

    #[test]
    fn a_failed_backup_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let medium = FileMedium::new(&path, false);
        fs::write(&path, "a store").unwrap();
        let copy = with_suffix(&path, ".v3.bak");
        fs::create_dir(&copy).unwrap();
        assert!(medium.back_up(3).is_err());
        assert!(!with_suffix(&copy, ".part").exists());
        fs::remove_dir(&copy).unwrap();
        fs::write(with_suffix(&copy, ".part"), "cut off by a power loss").unwrap();
        medium.back_up(3).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "a store");
        assert!(!with_suffix(&copy, ".part").exists());
    }

    #[test]
    fn a_failed_sync_is_remembered_until_the_cached_pages_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let medium = FileMedium::new(&path, false);
        medium.create_if_missing().unwrap();
        medium.failure.record(&io::Error::other("the cable is loose"));
        let next_process = FileMedium::new(&path, false);
        assert!(next_process.failure.is_recorded());
        next_process.drop_unsynced().unwrap();
        assert!(!FileMedium::new(&path, false).failure.is_recorded());
        drop(next_process.open(1 << 20).unwrap());
    }

    #[test]
    fn another_file_in_the_place_of_the_open_one_is_noticed_and_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("store.redb"), dir.path().join("aside"));
        let medium = FileMedium::new(&path, false);
        medium.create_if_missing().unwrap();
        drop(medium.open(1 << 20).unwrap());
        assert_eq!(medium.check_place(), Ok(()));
        fs::rename(&path, &aside).unwrap();
        assert_eq!(medium.check_place(), Err(StoreError::Misplaced));
        fs::copy(&aside, &path).unwrap();
        assert_eq!(medium.check_place(), Err(StoreError::Misplaced));
        assert!(medium.open(1 << 20).is_err());
        fs::rename(&aside, &path).unwrap();
        assert_eq!(medium.check_place(), Ok(()));
        drop(medium.open(1 << 20).unwrap());
    }

    #[test]
    fn a_missing_store_is_created_anew_only_where_there_was_none_or_on_demand() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let start = |allow_new| {
            let medium = FileMedium::new(&path, allow_new);
            medium.create_if_missing().and_then(|_| medium.open(1 << 20)).map(drop)
        };
        start(false).unwrap();
        mark_store(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let refused = start(false).unwrap_err().to_string();
        assert!(refused.contains(MISSING), "{refused}");
        assert!(!path.exists());
        start(true).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        let refused = start(true).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
    }
}
