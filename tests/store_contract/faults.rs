//! Disk errors and panics: nothing is acknowledged, no state in memory changes, and the store recovers
//! without a restart, or says that it cannot.

use crate::support::store::{ANN, ManualClock, delta, done, id, job};
use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{
    CancelReason, CancelToken, Clock, Lease, LeaseError, Store, StoreError, SubmitError, Ticket, Urgency,
};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::{RedbStore, WriterLossCause};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// An in-memory disk that outlives its database, with a switch for each kind of failure.
#[derive(Debug, Default, Clone)]
struct Flaky(Arc<Disk>);

#[derive(Debug, Default)]
struct Disk {
    memory: InMemoryBackend,
    syncs: AtomicU64,
    syncs_fail: AtomicBool,
    writes_fail: AtomicBool,
    is_full: AtomicBool,
    /// Writes and syncs until one panics, counted down; 0: none does.
    panics_in: AtomicU64,
    /// From that panic on every write and sync panics.
    panics_persist: AtomicBool,
    /// Syncs block while a test holds this lock.
    gate: Mutex<()>,
}

fn refuse(switch: &AtomicBool) -> io::Result<()> {
    if switch.load(Ordering::SeqCst) { Err(io::Error::other("the cable is loose")) } else { Ok(()) }
}

impl Disk {
    fn panic_if_due(&self) {
        let due = self.panics_in.load(Ordering::SeqCst);
        assert!(due != 1 || !self.panics_persist.load(Ordering::SeqCst), "on purpose, again and again");
        self.panics_in.store(due.saturating_sub(1), Ordering::SeqCst);
        assert!(due != 1, "on purpose");
    }

    fn take_write(&self) -> io::Result<()> {
        self.panic_if_due();
        if self.is_full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        refuse(&self.writes_fail)
    }
}

impl StorageBackend for Flaky {
    fn len(&self) -> io::Result<u64> {
        self.0.memory.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.memory.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.take_write()?;
        self.0.memory.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.syncs.fetch_add(1, Ordering::SeqCst);
        drop(self.0.gate.lock().unwrap());
        self.0.panic_if_due();
        refuse(&self.0.syncs_fail)
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.take_write()?;
        self.0.memory.write(offset, data)
    }
}

fn store_on(disk: &Flaky) -> Arc<RedbStore> {
    store_with(disk, StoreOptions::default().channel_writes)
}

fn store_with(disk: &Flaky, channel_writes: usize) -> Arc<RedbStore> {
    let options = StoreOptions { settle_ms: 60_000, channel_writes, ..StoreOptions::default() };
    let disk = disk.clone();
    RedbStore::open_with_backend(move || disk.clone(), &options, &Limits::default(), ManualClock::new())
        .unwrap()
}

fn claim(store: &RedbStore) -> Lease {
    store.claim(1).wait().unwrap().pop().expect("a ready job")
}

fn seqs(store: &RedbStore, n: u128) -> Vec<u64> {
    store.events(id(n), 0, 1_000).unwrap().events.iter().map(|e| e.seq).collect()
}

fn a_failed_commit_heals(switch: fn(&Disk) -> &AtomicBool) {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN), job(2, ANN)]).wait().unwrap();
    let (hit, spared) = (claim(&store), claim(&store));
    let watch = store.watch(id(1));
    let before = *watch.borrow();

    switch(&disk.0).store(true, Ordering::SeqCst);
    let failed = store.append(hit.fence(), vec![delta(0, 0, "lost?")], Urgency::Now).wait();
    assert!(matches!(failed, Err(LeaseError::Store(StoreError::Io(_)))), "{failed:?}");
    assert_eq!(*watch.borrow(), before, "p2: nothing was committed, so no reader is woken");
    assert!(
        matches!(store.submit(vec![job(3, ANN)]).wait(), Err(SubmitError::Store(StoreError::Io(_)))),
        "still broken"
    );
    assert_eq!(
        hit.cancel.reason(),
        Some(CancelReason::LeaseLost),
        "the lease is lost because the write is in doubt"
    );

    switch(&disk.0).store(false, Ordering::SeqCst);
    store.append(spared.fence(), vec![delta(0, 0, "goes on")], Urgency::Now).wait().unwrap();
    assert_eq!(spared.cancel.reason(), None);
    let late = store.append(hit.fence(), vec![delta(0, 0, "again")], Urgency::Now).wait();
    assert_eq!(late, Err(LeaseError::Fenced { job: id(1) }), "a retry must not write twice");
    let resumed = store.claim(10).wait().unwrap();
    let resumed = resumed.iter().find(|lease| lease.job.id == id(1)).expect("queued again");
    assert_eq!(resumed.job.crashes, 0, "a disk error counts no crash");
    store.finish(resumed.fence(), vec![], done(id(1), "x")).wait().unwrap();
    store.finish(spared.fence(), vec![], done(id(2), "y")).wait().unwrap();
    for n in [1, 2] {
        let all = seqs(&store, n);
        assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>(), "no gap");
        assert_eq!(store.job(ANN, id(n)).unwrap().unwrap().status, JobStatus::Succeeded);
    }
    assert!(*watch.borrow() > before);
}

/// The lease that a waiting worker gets for a new job while the sync of its acceptance blocks.
fn lease_before_the_sync(store: &Arc<RedbStore>, disk: &Flaky, n: u128) -> Option<Lease> {
    let worker = Arc::clone(store);
    let (sender, leases) = mpsc::channel();
    let clock = Arc::new(SystemClock::new());
    let stop = CancelToken::new(clock.clone());
    let of_worker = stop.clone();
    std::thread::spawn(move || drop(sender.send(worker.claim_next(&of_worker, Duration::from_secs(20)))));
    // Time for the worker to wait; if it was too short, the caller tries again.
    clock.sleep(&stop, Duration::from_millis(50));
    let gate = disk.0.gate.lock().unwrap();
    let accepted = store.submit(vec![job(n, ANN)]);
    let lease = leases.recv_timeout(Duration::from_secs(2)).ok().and_then(|lease| lease.unwrap());
    assert!(store.job(ANN, id(n)).unwrap().is_none(), "nobody sees the job before its commit");
    drop(gate);
    drop(accepted.wait());
    lease
}

#[test]
fn p1_a_worker_begins_a_new_job_during_its_commit() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    let lease = (1..10).find_map(|n| lease_before_the_sync(&store, &disk, n)).expect("an early lease");
    let job = store.job(ANN, lease.job.id).unwrap().expect("accepted");
    assert_eq!((job.status, job.attempt), (JobStatus::Running, 1));
    store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait().unwrap();
    store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
}

#[test]
fn p1_a_worker_stops_if_the_commit_of_its_new_job_fails() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(100, ANN)]).wait().unwrap();
    let other = claim(&store);
    let lease_of_failed = |n| {
        disk.0.syncs_fail.store(true, Ordering::SeqCst);
        let lease = lease_before_the_sync(&store, &disk, n);
        disk.0.syncs_fail.store(false, Ordering::SeqCst);
        lease
    };
    let lease = (1..10).find_map(lease_of_failed).expect("an early lease");
    assert_eq!(lease.cancel.reason(), Some(CancelReason::LeaseLost));
    let late = store.append(lease.fence(), vec![delta(0, 0, "late")], Urgency::Now).wait();
    assert_eq!(late, Err(LeaseError::Fenced { job: lease.job.id }), "what it wrote is not of this job");
    store.append(other.fence(), vec![delta(0, 0, "goes on")], Urgency::Now).wait().unwrap();
    // The failed commit may have reached the disk. Then the job runs anew.
    if store.job(ANN, lease.job.id).unwrap().is_some() {
        let again = claim(&store);
        assert_eq!((again.job.id, again.job.crashes), (lease.job.id, 0));
    }
}

#[test]
fn a_failed_fsync_acknowledges_nothing_and_the_store_recovers() {
    a_failed_commit_heals(|disk| &disk.syncs_fail);
}

#[test]
fn a_failed_write_acknowledges_nothing_and_the_store_recovers() {
    a_failed_commit_heals(|disk| &disk.writes_fail);
}

#[test]
fn a_full_disk_refuses_each_write_and_the_store_recovers() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    disk.0.is_full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(store.submit(vec![job(2, ANN)]).wait(), Err(StoreError::Full.into()));
    }
    disk.0.is_full.store(false, Ordering::SeqCst);
    store.submit(vec![job(3, ANN)]).wait().unwrap();
    assert_eq!((claim(&store).job.id, seqs(&store, 3)), (id(1), vec![1]));
}

#[test]
fn p1_a_panic_in_the_writer_loses_nothing_and_the_store_goes_on() {
    for panics_in in 1..40 {
        let disk = Flaky::default();
        let store = store_on(&disk);
        store.submit(vec![job(1, ANN), job(2, ANN)]).wait().unwrap();
        let lease = claim(&store);
        disk.0.panics_in.store(panics_in, Ordering::SeqCst);
        let tickets: Vec<_> = (3..10).map(|n| store.submit(vec![job(n, ANN)])).collect();
        let outcomes: Vec<(u128, bool)> =
            (3..10).zip(tickets).map(|(n, ticket)| (n, ticket.wait().is_ok())).collect();
        let mut accepted: Vec<u128> = outcomes.iter().filter(|(_, is_ok)| *is_ok).map(|(n, _)| *n).collect();
        let appended = store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait();
        disk.0.panics_in.store(0, Ordering::SeqCst);
        store.submit(vec![job(10, ANN)]).wait().expect("the store goes on");
        accepted.extend([1, 2, 10]);
        for n in accepted {
            assert!(store.job(ANN, id(n)).unwrap().is_some(), "job {n}, panic in {panics_in}");
            assert!(!seqs(&store, n).is_empty());
        }
        let is_known = appended.is_ok() || lease.cancel.reason() == Some(CancelReason::LeaseLost);
        assert!(
            is_known || store.release(lease.fence()).wait().is_ok(),
            "{appended:?}, panic in {panics_in}"
        );
        store.close();
    }
}

#[test]
fn a_store_that_panics_again_and_again_gives_up_and_says_so() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    let lease = claim(&store);
    let (sender, lost) = std::sync::mpsc::channel();
    store.on_writer_loss(move |cause| sender.send(cause).unwrap());
    disk.0.panics_persist.store(true, Ordering::SeqCst);
    disk.0.panics_in.store(1, Ordering::SeqCst);
    let failed: Vec<_> = (2..12).map(|n| store.submit(vec![job(n, ANN)])).collect();
    assert!(failed.into_iter().all(|ticket| ticket.wait().is_err()), "each caller gets an error");
    let cause = lost.recv_timeout(Duration::from_secs(60)).expect("the owner of the store is told");
    assert_eq!(cause, WriterLossCause::Failure, "it took commits, so a new process may help");
    assert_eq!(lease.cancel.reason(), Some(CancelReason::LeaseLost));
    assert_eq!(store.submit(vec![job(20, ANN)]).wait(), Err(StoreError::Closed.into()));
    assert_eq!(store.job(ANN, id(1)), Err(StoreError::Closed));
    disk.0.panics_in.store(0, Ordering::SeqCst);
    store.close();
    let store = store_on(&disk);
    assert!(store.job(ANN, id(1)).unwrap().is_some(), "the next process has what was acknowledged");
}

#[test]
fn a_failed_claim_leases_no_job() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    disk.0.syncs_fail.store(true, Ordering::SeqCst);
    assert!(store.claim(1).wait().is_err());
    disk.0.syncs_fail.store(false, Ordering::SeqCst);
    store.probe().wait().unwrap();
    assert_eq!(claim(&store).job.id, id(1));
}

#[test]
fn reads_work_while_writes_fail() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    disk.0.syncs_fail.store(true, Ordering::SeqCst);
    assert!(store.probe().wait().is_err());
    assert_eq!(seqs(&store, 1), [1]);
    assert!(store.job(ANN, id(1)).unwrap().is_some());
}

#[test]
fn a_store_retries_a_broken_disk_until_it_works() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN), job(2, ANN)]).wait().unwrap();
    let lease = claim(&store);
    disk.0.writes_fail.store(true, Ordering::SeqCst);
    assert!(matches!(store.probe().wait(), Err(StoreError::Io(_))));
    for _ in 0..5 {
        let tried = store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait();
        assert!(matches!(tried, Err(LeaseError::Store(StoreError::Io(_)))));
    }
    disk.0.writes_fail.store(false, Ordering::SeqCst);
    store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait().unwrap();
    assert_eq!(lease.cancel.reason(), None, "a write that was never attempted is not in doubt");
    assert_eq!(seqs(&store, 1), [1, 2, 3]);
    assert_eq!(claim(&store).job.id, id(2));
}

#[test]
fn a_failed_store_recovers_without_another_write() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    let lease = claim(&store);
    disk.0.syncs_fail.store(true, Ordering::SeqCst);
    assert!(store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait().is_err());
    disk.0.syncs_fail.store(false, Ordering::SeqCst);
    let stop = CancelToken::new(Arc::new(SystemClock::new()));
    let again = store.claim_next(&stop, Duration::from_secs(5)).unwrap().expect("a job");
    assert_eq!(again.job.id, id(1), "the job that lost its lease is ready again");
}

#[test]
fn concurrent_writes_share_one_commit() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.probe().wait().unwrap();
    let gate = disk.0.gate.lock().unwrap();
    let before = disk.0.syncs.load(Ordering::SeqCst);
    let first = store.submit(vec![job(1, ANN)]);
    while disk.0.syncs.load(Ordering::SeqCst) == before {
        std::thread::yield_now();
    }
    let rest: Vec<_> = (2..=200).map(|n| store.submit(vec![job(n, ANN)])).collect();
    drop(gate);
    first.wait().unwrap();
    for ticket in rest {
        ticket.wait().unwrap();
    }
    let syncs = disk.0.syncs.load(Ordering::SeqCst) - before;
    assert_eq!(syncs, 2, "one commit for the first write and one for all the others");
}

#[test]
fn p8_a_full_write_channel_answers_busy_and_accepted_writes_are_stored() {
    let disk = Flaky::default();
    let store = store_with(&disk, 4);
    let gate = disk.0.gate.lock().unwrap();
    let tickets: Vec<_> = (1..=20).map(|n| store.submit(vec![job(n, ANN)])).collect();
    drop(gate);
    let results: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
    let busy = results.iter().filter(|result| **result == Err(StoreError::Busy.into())).count();
    let stored = results.iter().flatten().flatten().count();
    assert!(busy >= 1 && stored >= 4, "{busy} busy, {stored} stored");
    assert_eq!(busy + stored, 20);
    assert_eq!(store.claim(100).wait().unwrap().len(), stored);
}

#[test]
fn p8_large_writes_fill_the_write_channel_by_size() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    let gate = disk.0.gate.lock().unwrap();
    let large = |n| {
        let mut new = job(n, ANN);
        let text = "x".repeat(4_000_000);
        if n % 2 == 0 {
            new.spec.system_prompt = Some(text);
        } else {
            new.spec.input = vec![Message::user(text)];
        }
        store.submit(vec![new])
    };
    let tickets: Vec<_> = (1..=40).map(large).collect();
    drop(gate);
    let results = tickets.into_iter().map(Ticket::wait);
    let busy = results.filter(|result| *result == Err(StoreError::Busy.into())).count();
    assert!((10..=30).contains(&busy), "{busy} of 40 writes of 4 MB were refused");
    store.submit(vec![job(100, ANN)]).wait().unwrap();
}

#[test]
fn readers_are_woken_when_a_write_in_doubt_is_resolved() {
    let disk = Flaky::default();
    let store = store_on(&disk);
    store.submit(vec![job(1, ANN), job(2, ANN)]).wait().unwrap();
    let (ends, goes_on) = (claim(&store), claim(&store));
    let watch = store.watch(id(1));
    let before = *watch.borrow();
    disk.0.syncs_fail.store(true, Ordering::SeqCst);
    let lingering = store.append(goes_on.fence(), vec![delta(0, 0, "x")], Urgency::Soon);
    assert!(store.finish(ends.fence(), vec![], done(id(1), "x")).wait().is_err());
    assert!(lingering.wait().is_err(), "both were in one group");
    disk.0.syncs_fail.store(false, Ordering::SeqCst);
    store.probe().wait().unwrap();
    assert!(*watch.borrow() > before, "readers are woken after recovery whether or not the write succeeded");
}

#[test]
fn reads_fail_at_once_while_the_store_recovers() {
    let (disk, opening) = (Flaky::default(), Arc::new(Mutex::new(())));
    let (backend, gate) = (disk.clone(), Arc::clone(&opening));
    let options = StoreOptions { settle_ms: 60_000, ..StoreOptions::default() };
    let make = move || {
        drop(gate.lock().unwrap());
        backend.clone()
    };
    let store = RedbStore::open_with_backend(make, &options, &Limits::default(), ManualClock::new()).unwrap();
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    let slow_repair = opening.lock().unwrap();
    disk.0.syncs_fail.store(true, Ordering::SeqCst);
    assert!(store.probe().wait().is_err());
    disk.0.syncs_fail.store(false, Ordering::SeqCst);
    let repaired = store.probe();
    let refused = loop {
        let (sender, receiver) = std::sync::mpsc::channel();
        let reading = Arc::clone(&store);
        std::thread::spawn(move || drop(sender.send(reading.job(ANN, id(1)))));
        match receiver.recv_timeout(Duration::from_secs(5)).expect("a read does not wait for the repair") {
            Ok(_) => std::thread::park_timeout(Duration::from_millis(1)),
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("recovering"), "{refused}");
    drop(slow_repair);
    repaired.wait().unwrap();
    assert!(store.job(ANN, id(1)).unwrap().is_some());
}
