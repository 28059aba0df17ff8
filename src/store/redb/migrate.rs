//! Bringing an older file to this build's layout. Owns what a file is at its opening: empty, known, older or newer; forward
//! only, all steps in one transaction, after a copy of the file. Refuses what a newer build wrote.
//!
//! A step reads the old layout through definitions of its own, frozen with it: the current ones go on changing.

use super::conversation_migrate;
use super::error::OpenError;
use super::keys::{EndedKey, JobBytes, ReadyBytes, Waiting};
use super::loosen;
use super::medium::Medium;
use super::retention::WHOLE;
use super::schema::{self, Counters, ENDED, JOBS, Layout, META_SCHEMA, READY, Tables};
use super::table::{Definition, Entry, ReadableTable};
use super::value;
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::StoreError;
use redb::{Database, ReadableDatabase, WriteTransaction};
use serde::Deserialize;
use std::path::Path;

/// Makes an empty file a store, an older one a current one, and refuses one that a newer build wrote.
pub(super) fn prepare(database: &Database, medium: &dyn Medium, path: &Path) -> Result<(), OpenError> {
    let unusable = |e: StoreError| OpenError::Unusable { path: path.to_owned(), reason: e.to_string() };
    match schema::inspect(database).map_err(unusable)? {
        Layout::Empty => found(database).map_err(unusable),
        Layout::Known(schema::VERSION) => provide(database).map_err(unusable),
        Layout::Known(found) if found > schema::VERSION => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION })
        }
        Layout::Known(found) => {
            let copied = medium.keep_copy(found);
            copied.map_err(|source| OpenError::NoCopy { path: path.to_owned(), source })?;
            migrate(database, found).map_err(unusable)?;
            tracing::info!(from = found, to = schema::VERSION, "the store's layout was migrated");
            provide(database).map_err(unusable)
        }
    }
}

/// Makes tables that are merely new, so that readers may count on every table.
fn provide(database: &Database) -> Result<(), StoreError> {
    if schema::has_all(&database.begin_read()?)? {
        return Ok(());
    }
    let writing = database.begin_write()?;
    drop(Tables::open(&writing)?);
    Ok(writing.commit()?)
}

/// Refuses what this build cannot read, and what is no store at all, without changing anything.
pub(super) fn refuse_newer(database: &Database, path: &Path) -> Result<(), OpenError> {
    let unusable = |reason: String| OpenError::Unusable { path: path.to_owned(), reason };
    match schema::inspect(database).map_err(|e| unusable(e.to_string()))? {
        Layout::Known(found) if found > schema::VERSION => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION })
        }
        Layout::Known(_) => Ok(()),
        Layout::Empty => Err(unusable("it is a database, but no NanoClaw store".to_owned())),
    }
}

fn found(database: &Database) -> Result<(), StoreError> {
    let writing = database.begin_write()?;
    Tables::open(&writing)?.found()?;
    Ok(writing.commit()?)
}

/// From this version to the current one, in one transaction.
fn migrate(database: &Database, from: u64) -> Result<(), StoreError> {
    let writing = steps(database, from)?;
    Ok(writing.commit()?)
}

fn steps(database: &Database, from: u64) -> Result<WriteTransaction, StoreError> {
    let (reading, writing) = (database.begin_read()?, database.begin_write()?);
    if from <= loosen::LAST_TYPED {
        // First, whatever else there is to do: so the other steps know one kind of table.
        loosen::tables(&reading, &writing)?;
    }
    for version in from..schema::VERSION {
        step(&writing, version)?;
    }
    let mut tables = Tables::of(&writing);
    tables.meta.insert(META_SCHEMA, value::encode(&schema::VERSION)?.as_slice())?;
    if from <= loosen::LAST_TYPED {
        // Every table was written anew beside the old one. The compaction that follows gives that back, however small the
        // file is, and after a crash in between the next start's does.
        let counters = Counters { freed_bytes: u64::MAX, ..tables.load_counters()? };
        tables.store_counters(&counters)?;
    }
    drop(tables);
    Ok(writing)
}

fn step(writing: &WriteTransaction, from: u64) -> Result<(), StoreError> {
    match from {
        1 => ready_since_and_ended(writing),
        2 => conversation_migrate::rows_and_exchanges(writing),
        loosen::LAST_TYPED => Ok(()), // it was the first
        other => Err(StoreError::Corrupt(format!("no way leads on from schema version {other}"))),
    }
}

/// 1 → 2: the ready queue tells since when a job waits, and ended jobs have an index.
fn ready_since_and_ended(writing: &WriteTransaction) -> Result<(), StoreError> {
    let places = {
        let (old, jobs) = (READY_1.write(writing)?, JOBS.write(writing)?);
        let read = |entry: Result<Entry1<'_>, redb::StorageError>| -> Result<_, StoreError> {
            let (place, job) = entry?;
            let row = jobs.get(job.value())?.and_then(|bytes| value::decode::<Row1>(bytes.value()).ok());
            // A job whose row cannot be read is the next claim's to set aside.
            let since_ms = row.map_or(0, |row| row.job.created_at_ms);
            Ok((*place.value(), Waiting { job: JobId::from_bytes(*job.value()), since_ms }))
        };
        old.iter()?.map(read).collect::<Result<Vec<_>, _>>()?
    };
    let mut ready = READY.write(writing)?;
    for (place, waiting) in places {
        ready.insert(&place, &waiting.encode())?;
    }
    let (jobs, mut ended) = (JOBS.write(writing)?, ENDED.write(writing)?);
    for entry in jobs.iter()? {
        let (job, bytes) = entry?;
        let Ok(Row1 { job: Job1 { status, finished_at_ms: Some(finished_at_ms), .. } }) =
            value::decode(bytes.value())
        else {
            continue;
        };
        if status.is_terminal() {
            let key = EndedKey { stage: WHOLE, finished_at_ms, job: JobId::from_bytes(*job.value()) };
            ended.insert(&key.encode(), ())?;
        }
    }
    Ok(())
}

/// Version 1: places held the job alone.
const READY_1: Definition<&'static ReadyBytes, &'static JobBytes> = Definition::new("ready");

type Entry1<'t> = Entry<'t, &'static ReadyBytes, &'static JobBytes>;

/// What the step reads of a row of version 1.
#[derive(Deserialize)]
struct Row1 {
    job: Job1,
}

#[derive(Deserialize)]
struct Job1 {
    status: JobStatus,
    created_at_ms: u64,
    finished_at_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::TableDefinition;
    use redb::backends::InMemoryBackend;

    const OLD_META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
    const OLD_READY: TableDefinition<'static, &ReadyBytes, &JobBytes> = TableDefinition::new("ready");
    const OLD_JOBS: TableDefinition<'static, &JobBytes, &[u8]> = TableDefinition::new("jobs");

    /// A file as version 1 left it: one queued job.
    fn version_1() -> Database {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        writing.open_table(OLD_META).unwrap().insert(META_SCHEMA, b"\x011".as_slice()).unwrap();
        writing.open_table(OLD_READY).unwrap().insert(&[5; 17], &[7; 16]).unwrap();
        let row = br#"?{"job":{"status":"queued","created_at_ms":42,"finished_at_ms":null},"accept":1}"#;
        let mut row = row.to_vec();
        row[0] = 1;
        writing.open_table(OLD_JOBS).unwrap().insert(&[7; 16], row.as_slice()).unwrap();
        writing.commit().unwrap();
        database
    }

    #[test]
    fn a_place_in_the_queue_learns_when_its_job_was_accepted() {
        let database = version_1();
        assert_eq!(schema::inspect(&database), Ok(Layout::Known(1)));
        let writing = steps(&database, 1).unwrap();
        let queue = READY.write(&writing).unwrap();
        let place = Waiting::decode(queue.get(&[5; 17]).unwrap().unwrap().value());
        assert_eq!(place, Waiting { job: JobId::from_bytes([7; 16]), since_ms: 42 });
    }

    #[test]
    fn a_migration_that_is_cut_off_leaves_the_file_as_it_was() {
        let database = version_1();
        drop(steps(&database, 1).unwrap());
        assert_eq!(schema::inspect(&database), Ok(Layout::Known(1)));
        let reading = database.begin_read().unwrap();
        assert_eq!(*reading.open_table(OLD_READY).unwrap().get(&[5; 17]).unwrap().unwrap().value(), [7; 16]);
    }

    #[test]
    fn a_version_that_never_was_is_refused() {
        assert!(migrate(&version_1(), 0).is_err());
    }

    #[test]
    fn a_table_of_a_type_that_no_build_wrote_is_refused() {
        let database = version_1();
        let writing = database.begin_write().unwrap();
        let foreign: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("foreign");
        writing.open_table(foreign).unwrap().insert(1, b"".as_slice()).unwrap();
        writing.commit().unwrap();
        let refused = migrate(&database, 1).unwrap_err().to_string();
        assert!(refused.contains("u128"), "{refused}");
    }
}
