//! Copies the store: from one read transaction while the server runs, or as a file when no server has it
//! open. The copy is written in small commits, so that the writer thread is not delayed. A damaged store is
//! refused, so that no backup of it replaces an intact one.

use crate::ports::{Backup, StoreError};
use crate::store::atomic_file::AtomicFile;
use crate::store::redb::codec::lazy_table::{RawBytes, raw};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::NAMES;
use crate::store::redb::file::check::{check, check_rows};
use crate::store::redb::file::checked_file::{CheckedFile, SyncFailure};
use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::medium::FileMedium;
use crate::store::redb::file::migration::refuse_newer;
use crate::store::redb::file::open::{open_with_retry, refused};
use crate::store::redb::store::RedbStore;
use redb::{Database, ReadableTable, TableError};
use std::fs::File;
use std::io;
use std::path::Path;

/// Memory for pages of the copy, bytes.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Size of one commit of the copy, bytes.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

impl RedbStore {
    /// Copies all committed data to `path`, which may exist already, while the server runs. Blocks.
    pub fn backup_to(&self, path: &Path) -> Result<(), StoreError> {
        let draft = AtomicFile::begin(path)?;
        self.copy_into(draft.file())?;
        Ok(draft.finish()?)
    }

    fn copy_into(&self, file: &File) -> Result<(), StoreError> {
        let shared = &self.shared;
        if let Some(space) = shared.medium.space() {
            shared.mark.check(space, shared.medium.bytes())?;
        }
        let reading = ReadTransaction::new(shared.handle.snapshot()?, &shared.damage);
        let is_open = || shared.handle.is_open();
        check_rows(&reading, &is_open)?.into_result()?;
        copy(&reading, file, &is_open)
    }
}

impl Backup for RedbStore {
    fn copy(&self) -> Result<File, StoreError> {
        let file = self.shared.medium.scratch()?;
        self.copy_into(&file)?;
        Ok(file)
    }
}

/// Copies the file of a store that no server has open. Returns its size. Checks it and opens it first: a
/// damaged file is no backup, and a server that starts meanwhile has to wait.
pub fn backup_closed(store: &Path, draft: &AtomicFile) -> Result<u64, OpenError> {
    let damage = check(store)?.filter(|report| report.damaged > 0);
    if let Some(report) = damage {
        return Err(OpenError::Unusable { path: store.to_owned(), reason: report.to_string() });
    }
    let database =
        open_with_retry(&FileMedium::new(store, false), CACHE_BYTES).map_err(|e| refused(store, e))?;
    refuse_newer(&database, store)?;
    let copied = File::open(store).and_then(|mut from| io::copy(&mut from, &mut draft.file()));
    drop(database);
    copied.map_err(|source| OpenError::Io { path: store.to_owned(), source })
}

/// Copies every table into an empty file while `is_open` returns true. A broken store has to be reopened, and
/// this transaction would block that.
fn copy(reading: &ReadTransaction, file: &File, is_open: &dyn Fn() -> bool) -> Result<(), StoreError> {
    let failure = SyncFailure::default();
    let checked = CheckedFile::new(file.try_clone()?, failure.clone())?;
    let target = redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(checked)?;
    for name in NAMES {
        copy_table(reading, &target, name, is_open)?;
    }
    drop(target); // closes it
    // Another sync would succeed after one that failed, although pages are lost.
    failure.check()?;
    Ok(file.sync_all()?)
}

fn copy_table(
    reading: &ReadTransaction,
    target: &Database,
    name: &str,
    is_open: &dyn Fn() -> bool,
) -> Result<(), StoreError> {
    let source = match reading.raw_table(name) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        other => other?,
    };
    let mut entries = source.iter()?;
    let mut is_done = false;
    while !is_done {
        if !is_open() {
            return Err(StoreError::Io("the store broke while it was copied".to_owned()));
        }
        let writing = target.begin_write()?;
        is_done = fill(&mut writing.open_table(raw(name))?, &mut entries)?;
        writing.commit()?;
    }
    Ok(())
}

/// Copies the rows of one commit. Returns whether the table is complete.
fn fill(
    target: &mut redb::Table<'_, RawBytes, RawBytes>,
    entries: &mut redb::Range<'_, RawBytes, RawBytes>,
) -> Result<bool, StoreError> {
    let mut bytes = 0_usize;
    for entry in entries {
        let (key, stored) = entry?;
        bytes = bytes.saturating_add(stored.value().len()).saturating_add(64);
        target.insert(key.value(), stored.value())?;
        if bytes >= CHUNK_BYTES {
            return Ok(false);
        }
    }
    Ok(true)
}
