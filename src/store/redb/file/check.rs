//! Checks a whole store: redb's page checksums, each row's own checksum, that each table has as many rows as
//! it says, and the counts of users. Changes nothing: what redb repairs on the way stays in memory.

use crate::domain::hex::hex;
use crate::domain::stored_file::{ContentDigest, StoredFile};
use crate::ports::StoreError;
use crate::store::redb::codec::checksum;
use crate::store::redb::codec::damage::HiddenRow;
use crate::store::redb::codec::keys::stored_files::HeldImageKey;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{self, FILES, JOB_IMAGES, NAMES, StoredLayout};
use crate::store::redb::codec::values;
use crate::store::redb::file::check_counts::check_counts;
use crate::store::redb::file::checked_file::{CheckedFile, SyncFailure};
use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::migration::refuse_newer;
use crate::store::redb::file::open::refused;
use crate::store::redb::file::overlay::Overlay;
use crate::store::redb::file::restore::lock;
use crate::store::redb::store::RedbStore;
use redb::{Database, ReadableDatabase, ReadableTable as _, ReadableTableMetadata as _, TableError};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Memory for pages, bytes.
const CACHE_BYTES: usize = 16 * 1024 * 1024;
/// Larger stores are not read after the start.
const SCRUB_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum places that a report names.
const MAX_PLACES: usize = 1_000;

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreCheck {
    /// Rows that were read.
    pub rows: u64,
    /// Damaged places; `places` names the first of them.
    pub damaged: u64,
    /// Each is a table with the hexadecimal key of a row, or a table with what is wrong with it.
    pub places: Vec<String>,
    /// Contents that files of users have, and their lengths. They are kept outside of the store.
    pub contents: BTreeMap<ContentDigest, u64>,
    /// Tables that lack rows.
    pub(crate) short_tables: Vec<&'static str>,
    /// Rows that a lookup by their key may miss, and their tables.
    pub(crate) hidden: Vec<(&'static str, HiddenRow)>,
}

impl StoreCheck {
    /// Adds a damaged place.
    pub(crate) fn add(&mut self, place: String) {
        self.damaged = self.damaged.saturating_add(1);
        if self.places.len() < MAX_PLACES {
            self.places.push(place);
        }
    }

    fn add_table(&mut self, name: &'static str, reason: &str) {
        self.add(format!("{name} ({reason})"));
        self.short_tables.push(name);
    }

    /// Fails if anything is damaged; the reason names the first places.
    pub(crate) fn into_result(self) -> Result<(), StoreError> {
        if self.damaged == 0 { Ok(()) } else { Err(StoreError::Corrupt(self.to_string())) }
    }
}

/// The first places in one line.
impl fmt::Display for StoreCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<&str> = self.places.iter().take(5).map(String::as_str).collect();
        let more = if self.damaged > places.len() as u64 { ", …" } else { "" };
        write!(f, "{} of {} rows or tables are damaged: {}{more}", self.damaged, self.rows, places.join(", "))
    }
}

impl RedbStore {
    /// Reads every row of a store of at most 64 MiB, and reports damage. A page that hides rows is found by
    /// nothing else while the server runs. Blocks; call it once, after the start.
    pub fn scrub(&self) {
        let shared = &self.shared;
        if shared.medium.bytes() > SCRUB_BYTES {
            return;
        }
        let reading = shared.handle.snapshot();
        let reading = reading.map(|reading| ReadTransaction::new(reading, &shared.damage));
        let found = reading.and_then(|reading| check_rows(&reading, &|| shared.handle.is_open()));
        let Ok(report) = found else { return }; // the store is broken or closed, which the writer reports
        report.short_tables.iter().for_each(|table| shared.damage.add_short_table(table));
        report.hidden.into_iter().for_each(|(table, row)| shared.damage.add_hidden_row(table, row));
        for place in report.places {
            if shared.damage.add(place.clone()) {
                tracing::error!(place, "the store is damaged: stop the server, and run 'nanoclaw check'");
            }
        }
    }
}

/// Checks the file of a store that no server has open; `None` if there is none.
pub fn check(store: &Path) -> Result<Option<StoreCheck>, OpenError> {
    let Some(file) = lock(store)? else { return Ok(None) };
    // redb trusts its pages, so a damaged one may cause a panic.
    let checked = catch_unwind(AssertUnwindSafe(|| check_file(file, store)));
    let reason = "a page that everything else depends on is damaged".to_owned();
    checked.unwrap_or_else(|_panic| Err(OpenError::Unusable { path: store.to_owned(), reason })).map(Some)
}

/// Reads the committed rows of a store of this build's layout that no server has open; `None` if there is
/// none. Changes nothing.
pub(crate) fn read_closed<T>(
    store: &Path,
    read: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
) -> Result<Option<T>, OpenError> {
    let Some(file) = lock(store)? else { return Ok(None) };
    let unusable = |reason: String| OpenError::Unusable { path: store.to_owned(), reason };
    let reading = || {
        let database = open_unchanged(file, store)?;
        let unreadable = |error: StoreError| unusable(error.to_string());
        if tables::inspect(&database).map_err(unreadable)? != StoredLayout::Known(tables::VERSION) {
            return Err(OpenError::Older { path: store.to_owned() });
        }
        let reading = database.begin_read().map_err(|error| unreadable(error.into()))?.into();
        read(&reading).map_err(unreadable)
    };
    // redb trusts its pages, so a damaged one may cause a panic.
    let found = catch_unwind(AssertUnwindSafe(reading));
    found.unwrap_or_else(|_panic| Err(unusable("a page of the file is damaged".to_owned()))).map(Some)
}

/// Opens a file so that nothing of it changes.
fn open_unchanged(file: File, store: &Path) -> Result<Database, OpenError> {
    let file = CheckedFile::new(file, SyncFailure::default()).map_err(|error| refused(store, error))?;
    let overlay = Overlay::over(file);
    let file = overlay.map_err(|source| OpenError::Io { path: store.to_owned(), source })?;
    let builder = &mut redb::Builder::new();
    let opened = builder.set_cache_size(CACHE_BYTES).create_with_backend(file);
    let database = opened.map_err(|error| refused(store, error))?;
    refuse_newer(&database, store)?;
    Ok(database)
}

fn check_file(file: File, store: &Path) -> Result<StoreCheck, OpenError> {
    let unusable = |e: StoreError| OpenError::Unusable { path: store.to_owned(), reason: e.to_string() };
    let mut database = open_unchanged(file, store)?;
    let mut report = StoreCheck::default();
    // Older layouts have no checksums.
    if tables::inspect(&database).map_err(unusable)? == StoredLayout::Known(tables::VERSION) {
        let reading = database.begin_read().map_err(|error| unusable(error.into()))?.into();
        report = check_rows(&reading, &|| true).map_err(unusable)?;
        if report.damaged == 0 {
            check_counts(&reading, &mut |place| report.add(place)).map_err(unusable)?;
        }
        report.contents = catch_unwind(AssertUnwindSafe(|| contents(&reading))).unwrap_or_default();
    }
    check_pages(&mut database, &mut report);
    Ok(report)
}

/// The contents of all readable files and images.
fn contents(reading: &ReadTransaction) -> BTreeMap<ContentDigest, u64> {
    let Ok(rows) = FILES.read(reading) else { return BTreeMap::new() };
    let Ok(rows) = rows.iter() else { return BTreeMap::new() };
    let files = rows.filter_map(|row| values::decode::<StoredFile>(row.ok()?.1.value()).ok());
    let mut contents: BTreeMap<ContentDigest, u64> = files.map(|file| (file.content, file.bytes)).collect();
    let images = JOB_IMAGES.read(reading).ok();
    for row in images.iter().filter_map(|rows| rows.iter().ok()).flatten().flatten() {
        let digest = HeldImageKey::decode(row.0.value()).digest;
        contents.insert(ContentDigest::from_bytes(digest), row.1.value());
    }
    contents
}

fn check_pages(database: &mut Database, report: &mut StoreCheck) {
    match catch_unwind(AssertUnwindSafe(|| database.check_integrity())) {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => report.add("(the checksums of pages do not match)".to_owned()),
        Ok(Err(error)) => report.add(format!("(pages: {error})")),
        Err(_panic) => report.add("(pages contradict each other)".to_owned()),
    }
}

/// Reads every row of every table while `is_open` returns true.
pub(crate) fn check_rows(
    reading: &ReadTransaction,
    is_open: &dyn Fn() -> bool,
) -> Result<StoreCheck, StoreError> {
    let mut report = StoreCheck::default();
    for name in NAMES {
        let checked = catch_unwind(AssertUnwindSafe(|| check_table(reading, name, is_open, &mut report)));
        match checked {
            Ok(Ok(())) => {}
            Ok(Err(StoreError::Corrupt(reason))) => report.add_table(name, &reason),
            Ok(Err(error)) => return Err(error),
            Err(_panic) => report.add_table(name, "a page is damaged"),
        }
    }
    Ok(report)
}

fn check_table(
    reading: &ReadTransaction,
    name: &'static str,
    is_open: &dyn Fn() -> bool,
    report: &mut StoreCheck,
) -> Result<(), StoreError> {
    let table = match reading.raw_table(name) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        other => other?,
    };
    let (mut rows, mut last): (u64, Option<Vec<u8>>) = (0, None);
    let mut hidden = HiddenRows { table: name, first: report.hidden.len(), last_intact: Bound::Unbounded };
    for entry in table.iter()? {
        if rows.is_multiple_of(1_024) && !is_open() {
            return Err(StoreError::Io("the store broke while it was read".to_owned()));
        }
        let (key, stored) = entry?;
        let key = key.value();
        rows = rows.saturating_add(1);
        report.rows = report.rows.saturating_add(1);
        if last.as_deref().is_some_and(|last| last >= key) {
            return Err(StoreError::Corrupt("rows are out of order".to_owned()));
        }
        last = Some(key.to_vec());
        let is_intact = tables::is_intact(name, key, stored.value());
        // A damaged page may lead a lookup past the row.
        let is_found = table.get(key)?.is_some_and(|found| found.value() == stored.value());
        if is_intact && is_found {
            hidden.end_at(key, report);
            continue;
        }
        report.add(format!("{name} {}", hex(key)));
        hidden.add(key, Some(stored.value()).filter(|_| !is_intact), is_found, report);
    }
    match table.len()? {
        len if len == rows => Ok(()),
        len => Err(StoreError::Corrupt(format!("{rows} of {len} rows were found"))),
    }
}

/// Collects the rows of a table that lookups may miss. Those that have no intact row behind them yet end at
/// the next one.
struct HiddenRows {
    table: &'static str,
    /// The first row in the report that has no end.
    first: usize,
    last_intact: Bound<Vec<u8>>,
}

impl HiddenRows {
    /// Adds a row; `damaged` is its stored value, if that is damaged.
    fn add(&mut self, key: &[u8], damaged: Option<&[u8]>, is_found: bool, report: &mut StoreCheck) {
        let own = match damaged {
            Some(stored) => checksum::key_before_flip(self.table, key, stored),
            None => Some(key.to_vec()),
        };
        if is_found && own.as_deref() == Some(key) {
            return; // only its value is damaged
        }
        if report.hidden.len() >= MAX_PLACES {
            report.short_tables.push(self.table);
            return;
        }
        let between = (self.last_intact.clone(), Bound::Unbounded);
        report.hidden.push((self.table, HiddenRow { between, key: own }));
    }

    fn end_at(&mut self, key: &[u8], report: &mut StoreCheck) {
        for (_, row) in report.hidden.iter_mut().skip(self.first) {
            row.between.1 = Bound::Excluded(key.to_vec());
        }
        self.first = report.hidden.len();
        self.last_intact = Bound::Excluded(key.to_vec());
    }
}
