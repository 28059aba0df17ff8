//! Where the bytes lie, and the database on top of them. Owns opening, reopening after an I/O error and closing;
//! refuses to know the tables.

use crate::ports::StoreError;
use redb::{Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageBackend, WriteTransaction};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// What a disk has to take before the database is reopened for writing.
const PROBE_BYTES: usize = 64 * 1024;

/// Something that a database can be opened on, again and again.
pub(super) trait Medium: Send + Sync {
    /// Makes it, if it is not there yet.
    fn provide(&self) -> Result<(), DatabaseError> {
        Ok(())
    }
    /// Whether it takes writes, as far as can be told without touching the database.
    fn takes_writes(&self) -> Result<(), io::Error> {
        Ok(())
    }
    /// Opens what is there.
    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError>;
    /// Keeps a copy of it as it is, before its layout of that version is changed.
    fn keep_copy(&self, _version: u64) -> Result<(), io::Error> {
        Ok(())
    }
    /// How large it is, bytes; 0 where nobody knows.
    fn bytes(&self) -> u64;
}

/// A file of its own.
pub(super) struct InFile(pub(super) PathBuf);

impl Medium for InFile {
    /// A power loss while redb writes its first header would leave a file that never opens again: so the file is made
    /// under another name and gets its own once it is whole and safe, directory included (P1).
    fn provide(&self) -> Result<(), DatabaseError> {
        if self.0.exists() {
            return Ok(());
        }
        let draft = self.0.with_extension("new");
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        drop(redb::Builder::new().create_file(file)?);
        fs::rename(&draft, &self.0)?;
        Ok(sync_directory_of(&self.0)?)
    }

    /// Tried on a scratch file beside it.
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

    /// One that an earlier attempt left is replaced: the store was still what is copied now.
    fn keep_copy(&self, version: u64) -> Result<(), io::Error> {
        let mut name = self.0.clone().into_os_string();
        name.push(format!(".v{version}.bak"));
        let copy = PathBuf::from(name);
        fs::copy(&self.0, &copy)?;
        File::open(&copy)?.sync_all()?;
        sync_directory_of(&copy)
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |m| m.len())
    }
}

/// Makes a name durable: a file that was created or renamed.
pub(super) fn sync_directory_of(path: &Path) -> Result<(), io::Error> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Whatever the maker makes: for tests that break disks.
pub(super) struct Made<F>(pub(super) F);

impl<B: StorageBackend, F: Fn() -> B + Send + Sync> Medium for Made<F> {
    fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
        redb::Builder::new().set_cache_size(cache_bytes).create_with_backend((self.0)())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// The open database, which the writer may replace under the readers.
pub(super) struct Handle(RwLock<State>);

enum State {
    Open(Database),
    /// Reopening failed; why.
    Broken(StoreError),
    Closed,
}

impl State {
    fn database(&self) -> Result<&Database, StoreError> {
        match self {
            Self::Open(database) => Ok(database),
            Self::Broken(error) => Err(error.clone()),
            Self::Closed => Err(StoreError::Closed),
        }
    }
}

impl Handle {
    pub(super) fn new(database: Database) -> Self {
        Self(RwLock::new(State::Open(database)))
    }

    /// Runs `reader` on the committed state. The lock is held as long as the read: a page, never a wait.
    pub(super) fn read<T>(
        &self,
        reader: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        reader(&state.database()?.begin_read()?)
    }

    /// A write transaction; only the writer thread asks for one.
    pub(super) fn write(&self) -> Result<WriteTransaction, StoreError> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Ok(state.database()?.begin_write()?)
    }

    /// Puts the database away and opens the medium again: redb refuses writes after an I/O error until then.
    /// While the medium takes no writes the old one stays, so that reads go on.
    pub(super) fn reopen(&self, medium: &dyn Medium, cache_bytes: usize) -> Result<(), StoreError> {
        medium.takes_writes()?;
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // The old one has to go first: it holds the file's lock.
        *state = State::Broken(StoreError::Io("the store is being reopened".to_owned()));
        match medium.open(cache_bytes) {
            Ok(database) => {
                *state = State::Open(database);
                Ok(())
            }
            Err(error) => {
                let error = StoreError::from(error);
                *state = State::Broken(error.clone());
                Err(error)
            }
        }
    }

    /// Puts the database away for good.
    pub(super) fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }
}
