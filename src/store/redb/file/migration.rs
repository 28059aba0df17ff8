//! Migrates an older file to the layout of this build: forward only, all steps in one transaction, after a
//! copy of the file. A file of a newer or an unknown layout is refused and left unchanged.
//!
//! A step reads the old layout through table definitions of its own: the current definitions keep changing.

use crate::ports::StoreError;
use crate::store::redb::codec::checksum;
use crate::store::redb::codec::lazy_table::{RawBytes, raw};
use crate::store::redb::codec::tables;
use crate::store::redb::codec::tables::{META_SCHEMA, StoredLayout, Tables};
use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::medium::Medium;
use redb::{Database, ReadableDatabase, ReadableTable as _, Table, TableHandle, WriteTransaction};
use std::ops::Bound;
use std::path::Path;

/// One step: the layout that it reads, and the change to the next layout.
type MigrationStep = (u64, fn(&WriteTransaction) -> Result<(), StoreError>);

/// The layout that a build writes, and the steps that lead to it.
#[derive(Clone, Copy)]
struct Migrations {
    current: u64,
    steps: &'static [MigrationStep],
}

const MIGRATIONS: Migrations =
    Migrations { current: tables::VERSION, steps: &[(1, add_checksums), (2, allow_links), (3, count_work)] };

/// Bytes of rows that a migration step holds at once.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Creates the tables of an empty file, migrates an older file, and refuses an unknown layout.
pub(crate) fn prepare(database: &Database, medium: &dyn Medium, path: &Path) -> Result<(), OpenError> {
    MIGRATIONS.prepare(database, medium, path)
}

/// Refuses a file that is no store or that this build cannot read. Changes nothing.
pub(crate) fn refuse_newer(database: &Database, path: &Path) -> Result<(), OpenError> {
    match inspect(database, path)? {
        StoredLayout::Known(found) => MIGRATIONS.refuse_unknown(found, path),
        StoredLayout::Empty => Err(unusable(path, "it is a database, but no NanoClaw store")),
    }
}

/// Whether the file has the layout and all tables of this build.
pub(crate) fn is_current(database: &Database, path: &Path) -> Result<bool, OpenError> {
    let has_all = || tables::has_all(&database.begin_read().map_err(StoreError::from)?.into());
    match inspect(database, path)? {
        StoredLayout::Known(found) if found == MIGRATIONS.current => {
            has_all().map_err(|error| unusable(path, &error.to_string()))
        }
        StoredLayout::Known(_) | StoredLayout::Empty => Ok(false),
    }
}

impl Migrations {
    fn prepare(self, database: &Database, medium: &dyn Medium, path: &Path) -> Result<(), OpenError> {
        match inspect(database, path)? {
            StoredLayout::Empty => tables::create(database),
            StoredLayout::Known(found) if found == self.current => add_missing_tables(database),
            StoredLayout::Known(found) => {
                self.refuse_unknown(found, path)?;
                let copied = medium.back_up(found);
                copied.map_err(|source| OpenError::NoCopy { path: path.to_owned(), source })?;
                self.migrate(database, found)
                    .inspect(|()| tracing::info!(from = found, to = self.current, "store migrated"))
                    .and_then(|()| add_missing_tables(database))
            }
        }
        .map_err(|error| unusable(path, &error.to_string()))
    }

    fn refuse_unknown(self, found: u64, path: &Path) -> Result<(), OpenError> {
        let known = self.current;
        if found > known {
            return Err(OpenError::Newer { path: path.to_owned(), found, known });
        }
        let has_step = |from: u64| self.steps.iter().any(|(step, _)| *step == from);
        if (found..known).all(has_step) {
            return Ok(());
        }
        Err(unusable(
            path,
            &format!("its layout {found} is unknown to this build, which writes layout {known}"),
        ))
    }

    fn migrate(self, database: &Database, from: u64) -> Result<(), StoreError> {
        Ok(self.apply(database, from)?.commit()?)
    }

    /// All steps from this layout on, not committed yet.
    fn apply(self, database: &Database, from: u64) -> Result<WriteTransaction, StoreError> {
        let writing = database.begin_write()?;
        for (_, change) in self.steps.iter().filter(|(step, _)| *step >= from) {
            change(&writing)?;
        }
        let mut tables = Tables::of(&writing);
        tables.meta.put_row(META_SCHEMA, &self.current)?;
        drop(tables);
        Ok(writing)
    }
}

/// Layout 2: each value ends with a checksum.
fn add_checksums(writing: &WriteTransaction) -> Result<(), StoreError> {
    let names: Vec<_> = writing.list_tables()?.map(|table| table.name().to_owned()).collect();
    for name in names {
        let mut table = writing.open_table(raw(&name))?;
        let mut last = None;
        while let Some(key) = seal_rows(&mut table, &name, last.as_deref())? {
            last = Some(key);
        }
    }
    Ok(())
}

/// Layout 3: records of logs may have links. Earlier ones stay as they are, and an earlier build refuses the
/// file, because it cannot read the new ones.
#[expect(clippy::unnecessary_wraps, reason = "each step may fail")]
fn allow_links(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Layout 4: the unfinished work of users is counted. A user without a count is counted by the next change,
/// and an earlier build refuses the file, because it would not keep the counts.
#[expect(clippy::unnecessary_wraps, reason = "each step may fail")]
fn count_work(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Adds the checksums of the next rows. Returns the key of the last one.
fn seal_rows(
    table: &mut Table<'_, RawBytes, RawBytes>,
    name: &str,
    after: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for entry in table.range::<&[u8]>((after, Bound::Unbounded))? {
        let (key, value) = entry?;
        bytes += key.value().len() + value.value().len();
        rows.push((key.value().to_vec(), checksum::seal(name, key.value(), value.value())));
        if bytes >= CHUNK_BYTES {
            break;
        }
    }
    for (key, stored) in &rows {
        table.insert(key.as_slice(), stored.as_slice())?;
    }
    Ok(rows.pop().map(|(key, _)| key))
}

fn inspect(database: &Database, path: &Path) -> Result<StoredLayout, OpenError> {
    tables::inspect(database).map_err(|error| unusable(path, &error.to_string()))
}

fn unusable(path: &Path, reason: &str) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), reason: reason.to_owned() }
}

/// Adds tables that are new in this build, so that readers may count on every table.
pub(crate) fn add_missing_tables(database: &Database) -> Result<(), StoreError> {
    if tables::has_all(&database.begin_read()?.into())? {
        return Ok(());
    }
    let writing = database.begin_write()?;
    drop(Tables::open(&writing)?);
    Ok(writing.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redb::codec::table::ReadableTable;
    use crate::store::redb::codec::tables::FAIR;
    use crate::store::redb::codec::values;
    use crate::store::redb::file::medium::FileMedium;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// Layout 2 doubles the number, layout 3 adds one to it.
    const STEPS: Migrations = Migrations { current: 3, steps: &[(1, doubled), (2, incremented)] };
    const KEY: [u8; 5] = [7; 5];

    fn doubled(writing: &WriteTransaction) -> Result<(), StoreError> {
        change(writing, |number| number * 2)
    }

    fn incremented(writing: &WriteTransaction) -> Result<(), StoreError> {
        change(writing, |number| number + 1)
    }

    fn change(writing: &WriteTransaction, change: fn(u64) -> u64) -> Result<(), StoreError> {
        let mut table = FAIR.write(writing)?;
        let number = table.get(&KEY)?.unwrap().value();
        table.insert(&KEY, change(number))?;
        Ok(())
    }

    /// A file of this layout that holds the number 20.
    fn file(layout: u64) -> (TempDir, PathBuf, FileMedium) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("store.redb");
        let medium = FileMedium::new(&path, false);
        medium.create_if_missing().unwrap();
        let database = medium.open(1 << 20).unwrap();
        tables::create(&database).unwrap();
        let writing = database.begin_write().unwrap();
        FAIR.write(&writing).unwrap().insert(&KEY, 20).unwrap();
        Tables::of(&writing).meta.insert(META_SCHEMA, values::encode(&layout).unwrap().as_slice()).unwrap();
        writing.commit().unwrap();
        (dir, path, medium)
    }

    /// What the file says: its layout and its number.
    fn content(path: &Path) -> (StoredLayout, u64) {
        let database = FileMedium::new(path, false).open(1 << 20).unwrap();
        content_of(&database)
    }

    fn content_of(database: &Database) -> (StoredLayout, u64) {
        let number =
            FAIR.read(&database.begin_read().unwrap().into()).unwrap().get(&KEY).unwrap().unwrap().value();
        (tables::inspect(database).unwrap(), number)
    }

    #[test]
    fn p1_an_older_file_is_backed_up_and_migrated_step_by_step() {
        let (_dir, path, medium) = file(1);
        let copy = path.with_file_name("store.redb.v1.bak");
        std::fs::write(&copy, "left by an attempt that failed").unwrap();
        let database = medium.open(1 << 20).unwrap();
        STEPS.prepare(&database, &medium, &path).unwrap();
        drop(database);
        assert_eq!(content(&path), (StoredLayout::Known(3), 41));
        assert_eq!(content(&copy), (StoredLayout::Known(1), 20), "the copy is the file as it was");
    }

    #[test]
    fn a_file_runs_only_its_missing_migration_steps() {
        let (_dir, path, medium) = file(2);
        STEPS.prepare(&medium.open(1 << 20).unwrap(), &medium, &path).unwrap();
        assert_eq!(content(&path), (StoredLayout::Known(3), 21));
    }

    #[test]
    fn a_file_that_cannot_be_backed_up_is_not_migrated() {
        let (_dir, path, medium) = file(1);
        std::fs::create_dir(path.with_file_name("store.redb.v1.bak")).unwrap();
        let refused = STEPS.prepare(&medium.open(1 << 20).unwrap(), &medium, &path).unwrap_err().to_string();
        assert!(refused.contains("before its migration"), "{refused}");
        assert_eq!(content(&path), (StoredLayout::Known(1), 20));
    }

    #[test]
    fn an_interrupted_migration_leaves_the_file_unchanged() {
        let (_dir, path, medium) = file(1);
        let database = medium.open(1 << 20).unwrap();
        drop(STEPS.apply(&database, 1).unwrap());
        assert_eq!(content_of(&database), (StoredLayout::Known(1), 20));
        drop(database);
        assert_eq!(content(&path), (StoredLayout::Known(1), 20));
    }

    #[test]
    fn newer_and_unknown_layouts_are_refused_and_left_unchanged() {
        for (layout, message) in [(4, "version 4, this build knows up to 3"), (0, "layout 0 is unknown")] {
            let (_dir, path, medium) = file(layout);
            let refused = STEPS.prepare(&medium.open(1 << 20).unwrap(), &medium, &path);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(message), "{refused}");
            assert_eq!(content(&path), (StoredLayout::Known(layout), 20));
        }
    }

    /// Layout 1 was written by builds before the first release.
    #[test]
    fn p1_a_file_of_layout_1_gets_checksums_and_keeps_its_rows() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("store.redb");
        let medium = FileMedium::new(&path, true);
        medium.create_if_missing().unwrap();
        let database = medium.open(1 << 20).unwrap();
        tables::create(&database).unwrap();
        let writing = database.begin_write().unwrap();
        for name in tables::NAMES {
            let mut table = writing.open_table(raw(name)).unwrap();
            table.retain(|_, _| false).unwrap();
        }
        let insert = |name: &str, key: &[u8], value: &[u8]| {
            writing.open_table(raw(name)).unwrap().insert(key, value).unwrap();
        };
        insert("meta", META_SCHEMA.as_bytes(), b"\x011");
        insert("fair", &KEY, &20_u64.to_le_bytes());
        insert("running", &[1; 16], b"");
        let large = vec![b'x'; CHUNK_BYTES / 2];
        (0..5_u8).for_each(|n| insert("outputs", &[n; 16], &large));
        writing.commit().unwrap();
        assert_eq!(tables::inspect(&database).unwrap(), StoredLayout::Known(1));

        prepare(&database, &medium, &path).unwrap();
        assert_eq!(content_of(&database), (StoredLayout::Known(tables::VERSION), 20));
        let reading = database.begin_read().unwrap().into();
        assert_eq!(tables::RUNNING.read(&reading).unwrap().iter().unwrap().map(Result::unwrap).count(), 1);
        let outputs = tables::OUTPUTS.read(&reading).unwrap();
        for n in 0..5_u8 {
            assert_eq!(outputs.get(&[n; 16]).unwrap().unwrap().value(), large);
        }
    }

    #[test]
    fn every_layout_before_the_current_one_has_a_migration_step() {
        assert_eq!(MIGRATIONS.steps.len() as u64, MIGRATIONS.current - 1);
    }
}
