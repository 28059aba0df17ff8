//! Rows whose keys or values have the wrong width, for example after disk damage.

use super::fixture::{Fixture, open};
use crate::support::store::{ANN, ManualClock, id, job, sealed};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{JobQuery, Store};
use nanoclaw::store::check;
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

/// The key of ANN's row in the table of unfinished work.
fn count_key() -> Vec<u8> {
    [&[0; 12][..], &ANN.0.to_be_bytes()].concat()
}

/// A stored count of so many jobs.
fn count_of(jobs: u64) -> Vec<u8> {
    sealed("unfinished_work", &count_key(), &[jobs.to_be_bytes(), [0; 8]].concat())
}

#[test]
fn p8_a_damaged_count_of_unfinished_work_is_counted_anew() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN)]);
    fixture.store.close();
    put(&fixture.path(), "unfinished_work", &count_key(), &[1, 2, 3]);
    let store = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
    store.submit(vec![job(2, ANN)]).wait().unwrap();
    assert_eq!(store.unfinished_count(ANN, 9), Ok(2));
    store.close();
    assert_eq!(rows(&fixture.path(), "quarantine"), 1);
    assert_eq!(check(&fixture.path()).unwrap().unwrap().places, [""; 0]);
}

#[test]
fn a_check_names_a_count_that_differs_from_what_it_counts() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN)]);
    fixture.store.close();
    put(&fixture.path(), "unfinished_work", &count_key(), &count_of(7));
    let checked = check(&fixture.path()).unwrap().unwrap();
    assert!(checked.damaged == 1 && checked.places[0].contains("unfinished_work of user 1"), "{checked}");
}

#[test]
fn a_file_of_layout_3_gets_its_counts_of_unfinished_work() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    fixture.store.close();
    let path = fixture.path();
    let database = Database::open(&path).unwrap();
    let writing = database.begin_write().unwrap();
    writing
        .open_table(TableDefinition::<Bytes, Bytes>::new("unfinished_work"))
        .unwrap()
        .retain(|_, _| false)
        .unwrap();
    writing.commit().unwrap();
    drop(database);
    put(&path, "meta", b"schema", &sealed("meta", b"schema", b"\x013"));
    let store = open(&path, &Limits::default(), ManualClock::new()).unwrap();
    assert_eq!(store.unfinished_count(ANN, 9), Ok(2), "before the first change");
    store.submit(vec![job(3, ANN)]).wait().unwrap();
    assert_eq!(store.unfinished_count(ANN, 9), Ok(3));
    store.close();
    assert_eq!(rows(&path, "unfinished_work"), 1);
    assert_eq!(check(&path).unwrap().unwrap().places, [""; 0]);
}
