//! Rows whose keys or values have the wrong width, for example after disk damage.

use super::fixture::{Fixture, open};
use crate::support::store::{ANN, ManualClock, id, job};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{JobQuery, Store};
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use std::path::Path;

type Bytes = &'static [u8];

/// Writes a row into a table of a closed store.
fn put(path: &Path, table: &str, key: &[u8], value: &[u8]) {
    let database = Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(TableDefinition::<Bytes, Bytes>::new(table)).unwrap().insert(key, value).unwrap();
    writing.commit().unwrap();
}

fn rows(path: &Path, table: &str) -> u64 {
    let reading = Database::open(path).unwrap().begin_read().unwrap();
    reading.open_table(TableDefinition::<Bytes, Bytes>::new(table)).unwrap().len().unwrap()
}

#[test]
fn a_row_of_wrong_width_is_quarantined_and_the_others_work() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    fixture.store.close();
    let path = fixture.path();
    // Each bad row sorts before the valid rows of its table.
    put(&path, "ready", &[0; 20], &[0; 24]);
    put(&path, "ready", &[0; 17], &[0; 7]);
    put(&path, "delayed", &[0; 3], &[0; 16]);
    put(&path, "running", &[0; 2], &[]);
    let sound = (rows(&path, "ready"), rows(&path, "delayed"), rows(&path, "running"));
    assert_eq!(sound, (4, 1, 1));

    let store = open(&path, &Limits::default(), ManualClock::new()).unwrap();
    let query = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 10 };
    let listed: Vec<_> = store.jobs(&query).unwrap().jobs.iter().map(|job| job.id).collect();
    assert_eq!(listed, [id(2), id(1)]);
    let claimed: Vec<_> = store.claim(10).wait().unwrap().iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed, [id(1), id(2)]);
    store.close();
    assert_eq!((rows(&path, "ready"), rows(&path, "delayed"), rows(&path, "running")), (0, 0, 2));
    assert_eq!(rows(&path, "quarantine"), 4, "nothing is lost");
}

#[test]
fn a_value_of_wrong_width_is_quarantined_and_not_read_as_zero() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN)]);
    fixture.store.close();
    let user = [&[5][..], &ANN.0.to_be_bytes()].concat();
    put(&fixture.path(), "fair", &user, &[1, 2, 3]);
    let store = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
    store.submit(vec![job(2, ANN)]).wait().unwrap();
    store.close();
    assert_eq!(rows(&fixture.path(), "quarantine"), 1);
}
