//! `nanoclaw migrate`: a file becomes a database, or a database a file. The source stays as it is.

use crate::domain::secret::Secret;
use crate::ports::StoreError;
use crate::store::atomic_file::{give_to_owner, sync_directory_of, with_suffix};
use crate::store::postgres::transfer::access::{DatabaseError, LayoutUse, connections};
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::postgres::transfer::target::TargetDatabase;
use crate::store::redb::transfer::TABLES;
use crate::store::redb::transfer::file::{SourceFile, TargetFile};
use crate::store::rows::transfer::TransferTable;
use crate::store::rows::transfer::progress::TransferProgress;
use crate::store::transfer::compare::{TableComparison, compare};
use crate::store::transfer::copy::{Observer, copy};
use crate::store::transfer::error::TransferError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a store is.
#[derive(Debug, Clone)]
pub enum StoreLocation {
    /// A file.
    File(PathBuf),
    /// The URL of a database.
    Database(Secret),
}

impl From<&str> for StoreLocation {
    fn from(text: &str) -> Self {
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        // Pairs of a key and a value name a database as well.
        let has_keys = ["host=", "dbname=", "user="].iter().any(|key| text.contains(key));
        if is_url || has_keys {
            Self::Database(Secret::from(text.to_owned()))
        } else {
            Self::File(text.into())
        }
    }
}

/// The outcome of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// All tables.
    pub tables: Vec<TableComparison>,
    /// Whether it continued an earlier attempt.
    pub is_continued: bool,
    /// Damaged rows that were set aside in the file that was the source. They stay there.
    pub set_aside: u64,
}

impl MigrationReport {
    /// Whether both stores have the same rows.
    pub fn is_equal(&self) -> bool {
        self.tables.iter().all(|table| table.first_difference.is_none())
    }
}

/// Copies all rows, and compares both stores. `observe` gets the current table and its rows so far. Blocks.
pub fn migrate(
    from: &StoreLocation,
    to: &StoreLocation,
    observe: &mut dyn FnMut(&'static str, u64),
) -> Result<MigrationReport, TransferError> {
    match (from, to) {
        (StoreLocation::File(from), StoreLocation::Database(to)) => to_database(from, to, observe),
        (StoreLocation::Database(from), StoreLocation::File(to)) => to_file(from, to, observe),
        _ => Err(TransferError::SameKind),
    }
}

fn to_database(
    from: &Path,
    url: &Secret,
    observe: &mut Observer<'_>,
) -> Result<MigrationReport, TransferError> {
    let source = SourceFile::open(from)?;
    let rows = source.reading()?;
    let connections = connections(url)?;
    let tables: Vec<TransferTable> = TABLES.iter().map(|table| table.table).collect();
    let mut target = TargetDatabase::open(&connections, source.identity()?, &tables)?;
    let progress = target.progress().clone();
    copy(&rows, &progress, &mut |table, rows, progress| target.put(&table.table, rows, progress), observe)?;
    target.complete()?;
    let report = MigrationReport {
        tables: compare(&rows, &Snapshot::take(&connections, LayoutUse::Copy)?, observe)?,
        is_continued: !progress.table.is_empty(),
        set_aside: source.set_aside()?,
    };
    if report.is_equal() {
        target.release()?;
    }
    Ok(report)
}

fn to_file(url: &Secret, to: &Path, observe: &mut Observer<'_>) -> Result<MigrationReport, TransferError> {
    if to.exists() {
        return Err(TransferError::Exists(to.to_owned()));
    }
    let connections = connections(url)?;
    let snapshot = Snapshot::take(&connections, LayoutUse::Copy)?;
    snapshot.refuse_nodes()?;
    let part = with_suffix(to, ".migration");
    let (target, progress) = open_part(&part, snapshot.identity()?)?;
    copy(&snapshot, &progress, &mut |table, rows, progress| target.put(table, rows, progress), observe)?;
    target.complete()?;
    snapshot.refuse_newer_nodes()?;
    let report = MigrationReport {
        tables: compare(&snapshot, &target.reading()?, observe)?,
        is_continued: !progress.table.is_empty(),
        set_aside: 0,
    };
    if report.is_equal() {
        target.forget_progress()?;
        target.close()?;
        named(&part, to).map_err(|source| TransferError::Io { path: to.to_owned(), source })?;
    }
    Ok(report)
}

/// Opens the unfinished file of an earlier attempt, or a new one.
fn open_part(part: &Path, source: String) -> Result<(TargetFile, TransferProgress), TransferError> {
    let io = |source: io::Error| TransferError::Io { path: part.to_owned(), source };
    let target = TargetFile::open(rw(part, false).map_err(io)?, part)?;
    match target.progress()? {
        Some(progress) if progress.source == source => Ok((target, progress)),
        Some(progress) => {
            Err(TransferError::OtherPart { path: part.to_owned(), source_name: progress.source })
        }
        // It is new, or an attempt was killed before it wrote a row, or before it named the complete file.
        None => {
            target.close()?;
            let target = TargetFile::open(rw(part, true).map_err(io)?, part)?;
            Ok((target, TransferProgress::begin(source)))
        }
    }
}

fn rw(path: &Path, is_emptied: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(is_emptied).mode(0o600).open(path)
}

/// Gives the complete file its name.
fn named(part: &Path, to: &Path) -> io::Result<()> {
    give_to_owner(&File::open(part)?, to)?;
    // Unlike a rename, a link does not replace what another process has put there meanwhile.
    fs::hard_link(part, to).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::rename(part, to),
    })?;
    sync_directory_of(to)?;
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies all rows of a snapshot into an empty file.
pub(crate) fn fill_file(
    snapshot: &Snapshot<'_>,
    file: File,
    observe: &mut Observer<'_>,
) -> Result<(), TransferError> {
    let target = TargetFile::open(file, Path::new("(copy)"))?;
    let progress = TransferProgress::begin(String::new());
    copy(snapshot, &progress, &mut |table, rows, progress| target.put(table, rows, progress), observe)?;
    target.complete()?;
    target.forget_progress()?;
    Ok(target.close()?)
}

/// The error of a store for one of a transfer.
pub(crate) fn store_error(error: TransferError) -> StoreError {
    match error {
        TransferError::Store(error) | TransferError::Database(DatabaseError::Store(error)) => error,
        TransferError::Database(DatabaseError::Unreachable(_)) => StoreError::Unreachable,
        error => StoreError::Io(error.to_string()),
    }
}
