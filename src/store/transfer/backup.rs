//! Copies a database into a file of the other store: a backup of either store is such a file.

use crate::domain::secret::Secret;
use crate::ports::{Backup, StoreError};
use crate::store::atomic_file::AtomicFile;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::transfer::access::{LayoutUse, connections};
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::transfer::error::TransferError;
use crate::store::transfer::migrate::{fill_file, store_error};
use std::fs::{File, OpenOptions, remove_file};
use std::os::unix::fs::OpenOptionsExt;

/// Copies a database that no server of this machine serves; others may. Returns the size of the copy, bytes.
/// Blocks.
pub fn backup_database(
    url: &Secret,
    draft: &AtomicFile,
    observe: &mut dyn FnMut(&'static str, u64),
) -> Result<u64, TransferError> {
    let failed = |source| TransferError::Io { path: draft.path().to_owned(), source };
    let connections = connections(url)?;
    fill_file(
        &Snapshot::take(&connections, LayoutUse::Copy)?,
        draft.file().try_clone().map_err(failed)?,
        observe,
    )?;
    Ok(draft.file().metadata().map_err(failed)?.len())
}

impl Backup for PostgresStore {
    fn copy(&self) -> Result<File, StoreError> {
        let directory = self.scratch.get().cloned().unwrap_or_else(std::env::temp_dir);
        let path = directory.join("nanoclaw.backup");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        remove_file(&path)?;
        let snapshot = Snapshot::take(&self.shared.connections, LayoutUse::Copy)
            .map_err(|error| store_error(error.into()))?;
        fill_file(&snapshot, file.try_clone()?, &mut |_, _| ()).map_err(store_error)?;
        Ok(file)
    }
}
