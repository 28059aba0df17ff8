//! Replaces the store by a backup. The backup is copied and checked before anything is changed, and the old
//! store stays under another name. The store must not be open.

use crate::store::atomic_file::{AtomicFile, give_to_owner, sync_directory_of, with_suffix};
use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::medium::FileMedium;
use crate::store::redb::file::migration::refuse_newer;
use crate::store::redb::file::open::{LOCK_PAUSE, LOCK_TRIES, open_with_retry};
use crate::store::{FileProbe, probe_file};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::{fs, io, panic};

const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Replaces the store by `from`. Returns the new path of the old store, if there was one; `now_s` is part of
/// that name.
pub fn restore(store: &Path, from: &Path, now_s: u64) -> Result<Option<PathBuf>, OpenError> {
    let lock = lock(store)?;
    if read(from, probe_file(from))? != FileProbe::Store {
        let reason = "it is no NanoClaw store, nor a backup of one".to_owned();
        return Err(OpenError::Unusable { path: from.to_owned(), reason });
    }
    let draft = read(store, AtomicFile::begin(store))?;
    read(from, File::open(from).and_then(|mut from| io::copy(&mut from, &mut draft.file())))?;
    check_copy(draft.path(), from)?;
    read(store, give_to_owner(draft.file(), store))?;
    let old_store = read(store, keep_old_store(store, now_s))?;
    read(store, draft.finish())?;
    drop(lock); // until now no server could have opened what was about to be replaced
    Ok(old_store)
}

/// Locks the existing store, with the lock that redb uses. The store need not be readable.
pub(crate) fn lock(store: &Path) -> Result<Option<File>, OpenError> {
    let file = match File::options().read(true).write(true).open(store) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => read(store, other)?,
    };
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return read(store, Err(error)),
            Ok(()) => return Ok(Some(file)),
        }
    }
    Err(OpenError::locked(store.to_owned()))
}

/// Opens the copy and checks all of it; messages name the original file. redb trusts its pages, so a damaged
/// one may cause a panic, which counts as damage.
fn check_copy(copy: &Path, from: &Path) -> Result<(), OpenError> {
    panic::catch_unwind(|| check_integrity_of(copy, from)).unwrap_or_else(|_| {
        Err(OpenError::Unusable { path: from.to_owned(), reason: "it is damaged".to_owned() })
    })
}

fn check_integrity_of(copy: &Path, from: &Path) -> Result<(), OpenError> {
    let unusable = |reason: String| OpenError::Unusable { path: from.to_owned(), reason };
    let mut database =
        open_with_retry(&FileMedium::new(copy, false), CACHE_BYTES).map_err(|e| unusable(e.to_string()))?;
    match database.check_integrity() {
        Ok(true) => refuse_newer(&database, from),
        Ok(false) => Err(unusable("it is damaged".to_owned())),
        Err(error) => Err(unusable(format!("it is damaged: {error}"))),
    }
}

/// Gives the old store a second name, so that a store exists at every moment. Where hard links are
/// impossible, renames it.
fn keep_old_store(store: &Path, now_s: u64) -> io::Result<Option<PathBuf>> {
    if !store.exists() {
        return Ok(None);
    }
    // A second restore within a second uses the next second's name; 60 names are enough.
    let name = |at_s: u64| with_suffix(store, &format!(".before-restore-{at_s}"));
    let old_store = (now_s..=now_s.saturating_add(60))
        .map(name)
        .find(|name| !name.exists())
        .unwrap_or_else(|| name(now_s));
    match fs::hard_link(store, &old_store) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => fs::rename(store, &old_store)?,
        Ok(()) => {}
    }
    sync_directory_of(&old_store)?;
    Ok(Some(old_store))
}

fn read<T>(path: &Path, outcome: io::Result<T>) -> Result<T, OpenError> {
    outcome.map_err(|source| OpenError::Io { path: path.to_owned(), source })
}
