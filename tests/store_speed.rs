//! Benchmarks of the store, not run by default: `cargo test --release --test all store_speed --
//! --ignored --nocapture`.

use crate::support::store::{ANN, BOB, delta, done, id, job, turn};
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{CancelToken, Clock, Store, Urgency};
use nanoclaw::store::RedbStore;
use nanoclaw::store::options::StoreOptions;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug)]
struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "a measurement is about real time")]
    fn start() -> Self {
        Self(Instant::now())
    }
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

impl Clock for Watch {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

fn open(path: &Path) -> Arc<RedbStore> {
    RedbStore::open(path, &StoreOptions::default(), &Limits::default(), Arc::new(Watch::start())).unwrap()
}

fn by_callers(callers: u64, each: u64, call: impl Fn(u128) + Sync) -> f64 {
    let (watch, next) = (Watch::start(), AtomicU64::new(1));
    std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| (0..each).for_each(|_| call(u128::from(next.fetch_add(1, Ordering::Relaxed)))));
        }
    });
    f64::from(u32::try_from(callers * each).unwrap()) / watch.seconds()
}

#[test]
#[ignore = "a measurement"]
fn measure_submits_and_complete_jobs_per_second() {
    let dir = TempDir::new_in(".").unwrap();
    for (callers, each) in [(1, 300), (8, 500), (64, 500), (512, 100)] {
        let store = open(&dir.path().join(format!("{callers}.redb")));
        let rate = by_callers(callers, each, |n| drop(store.submit(vec![job(n, ANN)]).wait().unwrap()));
        println!("{callers} callers: {rate:.0} durable submits/s");
    }
    let store = open(&dir.path().join("lives.redb"));
    let rate = by_callers(64, 100, |n| {
        store
            .submit(vec![if n % 2 == 0 { job(n, ANN) } else { turn(n, BOB, &format!("c{n}")) }])
            .wait()
            .unwrap();
        for lease in store.claim(1).wait().unwrap() {
            store.append(lease.fence(), vec![delta(0, 0, "call")], Urgency::Now).wait().unwrap();
            store.append(lease.fence(), vec![delta(1, 0, "result")], Urgency::Now).wait().unwrap();
            store.finish(lease.fence(), vec![], done(lease.job.id, "answer")).wait().unwrap();
        }
    });
    println!("64 callers: {rate:.0} whole jobs/s (submit, claim, two appends, finish)");
}

#[test]
#[ignore = "a measurement"]
fn measure_opening_a_large_store_after_a_kill() {
    let dir = TempDir::new_in(".").unwrap();
    let path = dir.path().join("large.redb");
    let store = open(&path);
    let mut number = 0;
    while std::fs::metadata(&path).unwrap().len() < 1_000_000_000 {
        let jobs = (0..64).map(|_| {
            number += 1;
            let mut new = job(number, ANN);
            new.spec.system_prompt = Some("x".repeat(20_000));
            new
        });
        store.submit(jobs.collect()).wait().unwrap();
    }
    let lease = store.claim(1).wait().unwrap().pop().unwrap();
    store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait().unwrap();
    let (killed, midway) = (dir.path().join("killed.redb"), dir.path().join("midway.redb"));
    std::fs::copy(&path, &killed).unwrap();
    let tickets: Vec<_> = (0..300).map(|n| store.submit(vec![job(1 << 80 | n, BOB)])).collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    std::fs::copy(&path, &midway).unwrap();
    store.close();
    for (shutdown, file) in
        [("closed", &path), ("killed when quiet", &killed), ("killed under load", &midway)]
    {
        std::fs::File::open(file).unwrap().sync_all().unwrap();
        let watch = Watch::start();
        let store = open(file);
        println!("{shutdown}: {number} jobs, open in {:.1} ms", watch.seconds() * 1e3);
        assert!(store.job(ANN, id(1)).unwrap().is_some());
    }
}
