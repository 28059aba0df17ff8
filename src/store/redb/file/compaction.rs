//! Returns free space to the file system. Runs only at startup, because no transaction may be open meanwhile.
//! If compaction fails, the store is used uncompacted.

use crate::ports::{Clock, StoreError};
use crate::store::redb::codec::tables;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::file::medium::Medium;
use redb::{Database, DatabaseError};

/// Minimum of freed bytes that justifies a compaction.
const LEAST_BYTES: u64 = 64 * 1024 * 1024;

/// Compacts the file if more than half of it was freed since the last time.
pub(crate) fn compact_if_worth(
    mut database: Database,
    medium: &dyn Medium,
    cache_bytes: usize,
    clock: &dyn Clock,
) -> Result<Database, DatabaseError> {
    let before = medium.bytes();
    if !freed(&database).is_ok_and(|freed_bytes| is_worth_compacting(freed_bytes, before)) {
        return Ok(database);
    }
    tracing::info!(bytes = before, "compacting the store");
    let start_ms = clock.monotonic_ms();
    let compacted = compact(&mut database);
    let took_ms = clock.monotonic_ms().saturating_sub(start_ms);
    match compacted {
        Ok(()) => {
            tracing::info!(before, after = medium.bytes(), took_ms, "store compacted");
            Ok(database)
        }
        Err(error) => {
            tracing::warn!(%error, took_ms, "store not compacted");
            drop(database); // after an I/O error redb takes no writes until it is opened again
            medium.drop_unsynced()?;
            medium.open(cache_bytes)
        }
    }
}

fn is_worth_compacting(freed_bytes: u64, file_bytes: u64) -> bool {
    freed_bytes > LEAST_BYTES && freed_bytes > file_bytes / 2
}

fn freed(database: &Database) -> Result<u64, StoreError> {
    use redb::ReadableDatabase;
    Ok(tables::counters(&database.begin_read()?.into())?.freed_bytes)
}

fn compact(database: &mut Database) -> Result<(), StoreError> {
    database.compact().map_err(|error| StoreError::Io(error.to_string()))?;
    let writing = database.begin_write()?;
    {
        let mut tables = Tables::of(&writing);
        let counters = tables::StoreCounters { freed_bytes: 0, ..tables.load_counters()? };
        tables.store_counters(&counters)?;
    }
    Ok(writing.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redb::codec::tables::{LOG, StoreCounters};
    use crate::store::redb::file::medium::FileMedium;
    use std::time::Duration;

    struct Still;

    impl Clock for Still {
        fn now_ms(&self) -> u64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _stop: &crate::ports::CancelToken, _timeout: Duration) {}
    }

    #[test]
    fn only_a_mostly_free_file_is_compacted() {
        assert!(!is_worth_compacting(LEAST_BYTES, LEAST_BYTES));
        assert!(is_worth_compacting(LEAST_BYTES + 2, 2 * LEAST_BYTES));
        assert!(!is_worth_compacting(LEAST_BYTES + 2, 2 * LEAST_BYTES + 4));
    }

    #[test]
    fn compaction_shrinks_a_mostly_free_file_and_resets_its_counter() {
        let dir = tempfile::tempdir().unwrap();
        let medium = FileMedium::new(&dir.path().join("store.redb"), false);
        medium.create_if_missing().unwrap();
        let database = medium.open(1 << 20).unwrap();
        let writing = database.begin_write().unwrap();
        {
            let mut tables = Tables::open(&writing).unwrap();
            tables.found().unwrap();
            for n in 0..96_u8 {
                tables.log.insert(&[n; 28], vec![7; 1 << 20].as_slice()).unwrap();
            }
        }
        writing.commit().unwrap();
        let writing = database.begin_write().unwrap();
        LOG.write(&writing).unwrap().retain(|_, _| false).unwrap();
        let counters =
            StoreCounters { freed_bytes: 2 * medium.bytes(), accept: 7, ..StoreCounters::default() };
        Tables::open(&writing).unwrap().store_counters(&counters).unwrap();
        writing.commit().unwrap();
        let before = medium.bytes();
        let database = compact_if_worth(database, &medium, 1 << 20, &Still).unwrap();
        assert!(medium.bytes() < before / 2, "{} of {before}", medium.bytes());
        let counters =
            tables::counters(&redb::ReadableDatabase::begin_read(&database).unwrap().into()).unwrap();
        assert_eq!((counters.freed_bytes, counters.accept), (0, 7));
    }
}
