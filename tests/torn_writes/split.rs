//! Writes a job's end by hand in two transactions, terminal event first and row second. The checks must
//! detect images between the two, and must find nothing in images of the store's own end.

use super::oracle::Oracle;
use super::power_loss::{PowerLoss, open};
use crate::support::disk::{Disk, DiskHook, SeededRandom, Syncs};
use crate::support::store::{ANN, ManualClock, delta, done, id, job, sealed};
use nanoclaw::ports::{Lease, Store, Urgency};
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::{Value, json};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

const JOBS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("jobs");
const LOG: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("log");
const RUNNING: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("running");

/// How the end is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By the store.
    Whole,
    /// By hand.
    Split,
}

/// Takes an image before every write and sync, once enabled.
#[derive(Debug)]
struct Collector(Mutex<Option<(SeededRandom, Vec<Vec<u8>>)>>);

impl DiskHook for Collector {
    fn before_write(&self, disk: &Disk) -> io::Result<()> {
        if let Some((random, images)) = self.0.lock().unwrap().as_mut() {
            images.push(disk.image(random));
        }
        Ok(())
    }
}

/// Ends one job with a power loss at every write; returns the number of images and of detected ones.
pub(crate) fn run(seed: u64, end: End) -> (usize, usize) {
    let (collector, clock) = (Arc::new(Collector(Mutex::new(None))), ManualClock::new());
    let disk = Disk::with(Vec::new(), Syncs::Hold, Some(Arc::clone(&collector) as Arc<dyn DiskHook>));
    let store = open(disk.clone(), &clock, 60_000).unwrap();
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    let lease = store.claim(1).wait().unwrap().pop().unwrap();
    store.append(lease.fence(), vec![delta(1, 0, "text")], Urgency::Now).wait().unwrap();
    let arm = || *collector.0.lock().unwrap() = Some((SeededRandom(seed), Vec::new()));
    if end == End::Whole {
        arm();
        store.finish(lease.fence(), Vec::new(), done(id(1), "text")).wait().unwrap();
        store.close();
    } else {
        let seq = store.events(id(1), 0, 10).unwrap().last_seq + 1;
        store.close();
        arm();
        end_by_hand(&disk, &lease, seq);
    }
    let (_, images) = collector.0.lock().unwrap().take().unwrap();
    let (count, oracle) = (images.len(), Oracle::default());
    let power_loss = PowerLoss::new(seed, Arc::new(Mutex::new(oracle.clone())), 2);
    let is_caught = |image| {
        let checked = catch_unwind(AssertUnwindSafe(|| power_loss.check(image, &oracle, seed)));
        !matches!(checked, Ok(Ok(())))
    };
    (count, images.into_iter().filter_map(|image| is_caught(image).then_some(())).count())
}

fn end_by_hand(disk: &Disk, lease: &Lease, seq: u64) {
    let database = Database::builder().create_with_backend(disk.clone()).unwrap();
    let key = lease.job.id.to_bytes();
    let event = serde_json::to_vec(&done(lease.job.id, "text").event).unwrap();
    let mut log_key = [0; 28];
    log_key[..16].copy_from_slice(&key);
    log_key[16..24].copy_from_slice(&seq.to_be_bytes());
    let first = database.begin_write().unwrap();
    let stored = sealed("log", &log_key, &[&[1], event.as_slice()].concat());
    first.open_table(LOG).unwrap().insert(log_key.as_slice(), stored.as_slice()).unwrap();
    first.commit().unwrap();
    let second = database.begin_write().unwrap();
    {
        let mut jobs = second.open_table(JOBS).unwrap();
        let stored = jobs.get(key.as_slice()).unwrap().unwrap().value().to_vec();
        let mut row: Value = serde_json::from_slice(&stored[1..stored.len() - 4]).unwrap();
        (row["job"]["status"], row["job"]["last_event_id"]) = (json!("succeeded"), json!(seq));
        let bytes = sealed("jobs", &key, &[&[1], serde_json::to_vec(&row).unwrap().as_slice()].concat());
        jobs.insert(key.as_slice(), bytes.as_slice()).unwrap();
        second.open_table(RUNNING).unwrap().remove(key.as_slice()).unwrap();
    }
    second.commit().unwrap();
}
