//! Workers that wait for a job: what makes it ready also leases it, in the same commit.

use super::fixture::Fixture;
use crate::support::store::{ANN, done, id, job};
use nanoclaw::app::system::SystemClock;
use nanoclaw::ports::{CancelToken, Lease, LeaseError, Measurement, Meter, NodeStore, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// Counts commits.
#[derive(Debug, Default)]
struct Commits(AtomicUsize);

impl Meter for Commits {
    fn record(&self, sample: Measurement<'_>) {
        if matches!(sample, Measurement::Committed { .. }) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type Claim = Result<Option<Lease>, StoreError>;

/// Waits for a job on a thread of its own, which waits when this returns.
fn waiting(store: &Arc<dyn NodeStore>) -> (JoinHandle<()>, mpsc::Receiver<Claim>) {
    let (sender, receiver) = mpsc::channel();
    let store = Arc::clone(store);
    let worker = std::thread::spawn(move || {
        let stop = CancelToken::new(Arc::new(SystemClock::new()));
        drop(sender.send(store.claim_next(&stop, LONG)));
    });
    // Time to join. A test of shared commits fails if that takes longer; it never passes wrongly.
    assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err(), "there is no job yet");
    (worker, receiver)
}

#[test]
fn a_submission_and_the_claim_of_a_waiting_worker_share_a_commit() {
    let fixture = Fixture::new();
    let commits = Arc::new(Commits::default());
    fixture.store.set_meter(Arc::clone(&commits) as Arc<dyn Meter>);
    let (worker, claims) = waiting(&fixture.store);
    let before = commits.0.load(Ordering::SeqCst);
    fixture.submit([job(1, ANN)]);
    let lease = claims.recv_timeout(LONG).unwrap().unwrap().expect("the submitted job");
    assert_eq!((lease.job.id, lease.job.attempt, lease.job.last_event_id), (id(1), 1, 2));
    assert_eq!(lease.spec.input, job(1, ANN).spec.input);
    assert_eq!(commits.0.load(Ordering::SeqCst), before + 1);
    let crashed = fixture.crash();
    let again = crashed.claim();
    assert_eq!((again.job.id, again.job.attempt), (id(1), 2), "the attempt was counted before any work");
    worker.join().unwrap();
}

#[test]
fn the_end_of_a_job_leases_the_next_of_its_conversation_to_a_waiting_worker() {
    let fixture = Fixture::new();
    fixture.submit([1, 2].map(|n| crate::support::store::turn(n, ANN, "talk")));
    let first = fixture.claim();
    let (worker, claims) = waiting(&fixture.store);
    fixture.store.finish(first.fence(), vec![], done(id(1), "one")).wait().unwrap();
    let next = claims.recv_timeout(LONG).unwrap().unwrap().expect("the next job");
    assert_eq!(next.job.id, id(2));
    worker.join().unwrap();
}

#[test]
fn the_end_of_a_job_and_the_claim_of_the_next_share_a_commit() {
    let fixture = Fixture::new();
    let commits = Arc::new(Commits::default());
    fixture.store.set_meter(Arc::clone(&commits) as Arc<dyn Meter>);
    fixture.submit([1, 2].map(|n| crate::support::store::turn(n, ANN, "talk")));
    let first = fixture.claim();
    let before = commits.0.load(Ordering::SeqCst);
    let (ended, next) = fixture.store.finish_and_claim(first.fence(), vec![], done(id(1), "one"));
    ended.unwrap();
    let next = next.expect("the next job of the conversation");
    assert_eq!((next.job.id, next.job.attempt), (id(2), 1));
    assert_eq!(commits.0.load(Ordering::SeqCst), before + 1);
    let (ended, none) = fixture.store.finish_and_claim(next.fence(), vec![], done(id(2), "two"));
    ended.unwrap();
    assert!(none.is_none(), "no job is left");
}

#[test]
fn an_end_that_fails_may_still_bring_a_lease() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    let stale = fixture.claim().fence();
    fixture.store.release(stale).wait().unwrap();
    let (ended, next) = fixture.store.finish_and_claim(stale, vec![], done(id(1), "one"));
    assert_eq!(ended, Err(LeaseError::Fenced { job: id(1) }));
    let next = next.expect("a job is ready");
    fixture.store.finish(next.fence(), vec![], done(next.job.id, "two")).wait().unwrap();
}

#[test]
fn each_of_many_jobs_goes_to_one_of_many_waiting_workers() {
    let fixture = Fixture::new();
    let workers: Vec<_> = (0..8).map(|_| waiting(&fixture.store)).collect();
    fixture.store.submit((1..=8).map(|n| job(n, ANN)).collect()).wait().unwrap();
    let lease = |claims: &mpsc::Receiver<Claim>| claims.recv_timeout(LONG).unwrap().unwrap().expect("a job");
    let mut leased: Vec<_> = workers.iter().map(|(_, claims)| lease(claims).job.id).collect();
    leased.sort_unstable();
    assert_eq!(leased, (1..=8).map(id).collect::<Vec<_>>());
    for (worker, _) in workers {
        worker.join().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a commit takes real time")]
fn wait_us(time: u64) {
    std::thread::sleep(Duration::from_micros(time));
}

#[test]
fn a_worker_that_becomes_idle_during_a_commit_gets_the_job_that_it_makes_ready() {
    let fixture = Fixture::new();
    for n in 1..=200_u64 {
        let submitted = fixture.store.submit(vec![job(n.into(), ANN)]);
        // At another moment of the commit each time.
        wait_us(10 * (n % 100));
        let (sender, claims) = mpsc::channel();
        let store = Arc::clone(&fixture.store);
        let worker = std::thread::spawn(move || {
            let stop = CancelToken::new(Arc::new(SystemClock::new()));
            drop(sender.send(store.claim_next(&stop, LONG)));
        });
        // Less than the time after which a store looks without a hint.
        let claim = claims.recv_timeout(Duration::from_secs(1));
        let lease = claim.unwrap_or_else(|_| panic!("job {n} is left")).unwrap().expect("the job");
        submitted.wait().unwrap();
        // The store sees that there is no other job.
        let (ended, none) = fixture.store.finish_and_claim(lease.fence(), vec![], done(id(n.into()), "one"));
        assert!(ended.is_ok() && none.is_none());
        worker.join().unwrap();
    }
}

#[test]
fn waiting_workers_get_an_error_when_the_store_closes() {
    let fixture = Fixture::new();
    let (worker, claims) = waiting(&fixture.store);
    fixture.store.close();
    assert_eq!(claims.recv_timeout(LONG).unwrap().map(drop), Err(StoreError::Closed));
    worker.join().unwrap();
}
