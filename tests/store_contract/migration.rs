//! A file of version 1: opened by this build it loses nothing, and a copy of it stays.

use crate::kit::{ANN, BOB, HandClock, done, id, job, turn};
use crate::rig::{Rig, open};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::Store;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Arc;

const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const READY_1: TableDefinition<'static, &[u8; 17], &[u8; 16]> = TableDefinition::new("ready");
const READY_2: TableDefinition<'static, &[u8; 17], &[u8; 24]> = TableDefinition::new("ready");
const ENDED: TableDefinition<'static, &[u8; 25], ()> = TableDefinition::new("ended");

/// Makes a file what version 1 would have written.
fn age(path: &Path) {
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    let places: Vec<([u8; 17], [u8; 16])> = {
        let ready = writing.open_table(READY_2).unwrap();
        let job = |bytes: &[u8; 24]| *bytes.first_chunk().unwrap();
        ready.iter().unwrap().map(|e| e.unwrap()).map(|(k, v)| (*k.value(), job(v.value()))).collect()
    };
    writing.delete_table(READY_2).unwrap();
    writing.delete_table(ENDED).unwrap();
    {
        let mut ready = writing.open_table(READY_1).unwrap();
        for (key, job) in &places {
            ready.insert(key, job).unwrap();
        }
    }
    writing.open_table(META).unwrap().insert("schema", b"\x011".as_slice()).unwrap();
    writing.commit().unwrap();
}

/// Jobs of two users, one ended, one in a conversation; then the file as version 1 has it.
fn aged() -> Rig {
    let rig = Rig::new();
    rig.submit([job(1, ANN), job(2, ANN), job(3, BOB), turn(4, ANN, "chat"), job(5, ANN)]);
    let lease = rig.claim();
    rig.store.finish(lease.fence(), vec![], done(id(1), "answer")).wait().unwrap();
    rig.store.close();
    age(&rig.path());
    rig
}

fn version(path: &Path) -> Vec<u8> {
    let database = redb::Database::open(path).unwrap();
    let reading = database.begin_read().unwrap();
    reading.open_table(META).unwrap().get("schema").unwrap().unwrap().value().to_vec()
}

#[test]
fn p1_a_file_of_version_1_goes_on_in_the_same_order_and_a_copy_of_it_stays() {
    let rig = aged();
    let copy = rig.dir.path().join("store.redb.v1.bak");
    std::fs::write(&copy, "left by an attempt that failed").unwrap();
    let store = open(&rig.path(), &Limits::default(), Arc::clone(&rig.clock)).unwrap();
    let ended = store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!(
        (ended.status, store.output(id(1)).unwrap().as_deref()),
        (JobStatus::Succeeded, Some("answer"))
    );
    let claimed: Vec<_> = store.claim(10).wait().unwrap().iter().map(|lease| lease.job.id).collect();
    store.close();
    assert_eq!(version(&rig.path()), b"\x012");

    assert_eq!(version(&copy), b"\x011", "the copy is the file as it was");
    let fresh = Rig::new();
    fresh.submit([job(1, ANN), job(2, ANN), job(3, BOB), turn(4, ANN, "chat"), job(5, ANN)]);
    fresh.claim();
    assert_eq!(claimed, fresh.claim_all(), "as if it had never been older");
    assert_eq!(claimed.len(), 4);
}

#[test]
fn a_file_that_cannot_be_copied_is_not_migrated() {
    let rig = aged();
    let copy = rig.dir.path().join("store.redb.v1.bak");
    std::fs::create_dir(&copy).unwrap();
    let refused = open(&rig.path(), &Limits::default(), HandClock::new()).err().unwrap().to_string();
    assert!(refused.contains("before its migration"), "{refused}");
    assert_eq!(version(&rig.path()), b"\x011");
}
