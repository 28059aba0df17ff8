//! Files as the source and as the target of rows. The source is closed, and stays as it is. The target gets
//! its name from the caller once it is complete.

use crate::domain::hex::hex;
use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{count_key, key_parts};
use crate::store::redb::codec::keys::jobs::JobOwnerKey;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{self, META, QUARANTINE, StoredLayout, Tables};
use crate::store::redb::codec::values;
use crate::store::redb::file::check::check;
use crate::store::redb::file::checked_file::{CheckedFile, SyncFailure};
use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::medium::FileMedium;
use crate::store::redb::file::migration::{add_missing_tables, refuse_newer};
use crate::store::redb::file::open::{open_with_retry, refused};
use crate::store::redb::transfer::TransferredTable;
use crate::store::rows::batch::BatchRow;
use crate::store::rows::transfer::progress::TransferProgress;
use crate::store::rows::transfer::text_row::TextRow;
use redb::{Database, ReadableDatabase};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Memory for pages, bytes.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// The progress of a migration in the table `meta` of its target.
const META_TRANSFER: &str = "transfer";

/// A closed file whose rows another store takes.
pub(crate) struct SourceFile {
    database: Database,
}

impl SourceFile {
    /// Opens an intact file of this build's layout that no server has open.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let unusable = |reason: String| OpenError::Unusable { path: path.to_owned(), reason };
        match check(path)? {
            None => {
                return Err(OpenError::Io {
                    path: path.to_owned(),
                    source: std::io::ErrorKind::NotFound.into(),
                });
            }
            Some(report) if report.damaged > 0 => return Err(unusable(report.to_string())),
            Some(_) => {}
        }
        let database =
            open_with_retry(&FileMedium::new(path, false), CACHE_BYTES).map_err(|e| refused(path, e))?;
        refuse_newer(&database, path)?;
        let layout = tables::inspect(&database).map_err(|error| unusable(error.to_string()))?;
        if layout != StoredLayout::Known(tables::VERSION) {
            return Err(OpenError::Older { path: path.to_owned() });
        }
        add_missing_tables(&database).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { database })
    }

    /// All rows, as they are now.
    pub(crate) fn reading(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.database.begin_read()?.into())
    }

    /// Names the file as it is now: a server that uses it changes this.
    pub(crate) fn identity(&self) -> Result<String, StoreError> {
        let mut digest = Sha256::new();
        for entry in META.read(&self.reading()?)?.iter()? {
            let (key, value) = entry?;
            digest.update(key.value());
            digest.update(value.value());
        }
        let digest: [u8; 32] = digest.finalize().into();
        Ok(format!("file {}", hex(digest.get(..8).unwrap_or_default())))
    }

    /// How many damaged rows were set aside. They stay in the file.
    pub(crate) fn set_aside(&self) -> Result<u64, StoreError> {
        QUARANTINE.read(&self.reading()?)?.len()
    }
}

/// A file that takes the rows of another store.
pub(crate) struct TargetFile {
    database: Database,
    file: File,
    failure: SyncFailure,
}

impl TargetFile {
    /// Makes an empty file a store, or opens one that is not complete.
    pub(crate) fn open(file: File, path: &Path) -> Result<Self, OpenError> {
        let unusable =
            |error: StoreError| OpenError::Unusable { path: path.to_owned(), reason: error.to_string() };
        let failure = SyncFailure::default();
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let checked = CheckedFile::new(file.try_clone().map_err(io)?, failure.clone());
        let database = checked
            .and_then(|file| redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(file))
            .map_err(|error| refused(path, error))?;
        match tables::inspect(&database).map_err(unusable)? {
            StoredLayout::Empty => tables::create(&database).map_err(unusable)?,
            StoredLayout::Known(_) => refuse_newer(&database, path)?,
        }
        Ok(Self { database, file, failure })
    }

    /// How far an interrupted migration came.
    pub(crate) fn progress(&self) -> Result<Option<TransferProgress>, StoreError> {
        let stored = META.read(&self.reading()?)?.get(META_TRANSFER)?;
        stored.map(|bytes| values::decode(bytes.value())).transpose()
    }

    /// Adds rows of a table, in one transaction with the progress.
    pub(crate) fn put(
        &self,
        table: &TransferredTable,
        rows: &[TextRow],
        progress: &TransferProgress,
    ) -> Result<(), StoreError> {
        self.write(|tables| {
            rows.iter().try_for_each(|row| (table.put)(row, tables))?;
            tables.meta.insert(META_TRANSFER, values::encode(progress)?.as_slice())?;
            Ok(())
        })
    }

    /// Adds what is computed from other rows.
    pub(crate) fn complete(&self) -> Result<(), StoreError> {
        self.write(|tables| {
            count_conversations(tables)?;
            let mut counters = tables.load_counters()?;
            counters.unfinished = count_unfinished(tables)?;
            tables.store_counters(&counters)
        })
    }

    /// Forgets the progress: the file is a store from here on.
    pub(crate) fn forget_progress(&self) -> Result<(), StoreError> {
        self.write(|tables| tables.meta.remove(META_TRANSFER).map(drop))
    }

    /// All rows, as they are now.
    pub(crate) fn reading(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.database.begin_read()?.into())
    }

    /// Closes the file, which is on the disk then.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        drop(self.database);
        // Another sync would succeed after one that failed, although pages are lost.
        self.failure.check()?;
        Ok(self.file.sync_all()?)
    }

    fn write(
        &self,
        change: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let writing = self.database.begin_write()?;
        let mut tables = Tables::of(&writing);
        change(&mut tables)?;
        drop(tables);
        Ok(writing.commit()?)
    }
}

fn count_conversations(tables: &mut Tables<'_>) -> Result<(), StoreError> {
    let mut counts: BTreeMap<UserId, u64> = BTreeMap::new();
    for entry in tables.conversations.iter()? {
        if let Some((user, ..)) = key_parts(entry?.0.value()) {
            let count = counts.entry(user).or_default();
            *count = count.saturating_add(1);
        }
    }
    for (user, count) in counts {
        tables.conversation_counts.insert(&count_key(user), count)?;
    }
    Ok(())
}

/// Jobs that have not ended, and lines of batches that are no jobs yet.
fn count_unfinished(tables: &Tables<'_>) -> Result<u64, StoreError> {
    let mut unfinished = 0_u64;
    for entry in tables.owned.iter()? {
        unfinished = unfinished.saturating_add(u64::from(JobOwnerKey::is_unfinished(entry?.0.value())));
    }
    for entry in tables.batches.iter()? {
        let row: BatchRow = values::decode(entry?.1.value())?;
        unfinished = unfinished.saturating_add(u64::from(row.waiting_lines()));
    }
    Ok(unfinished)
}
