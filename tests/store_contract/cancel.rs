//! Cancelling jobs, and the race of a cancel with the end of the job.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cancelled, delta, done, id, job};
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::ports::{CancelReason, LeaseError, Urgency};
use std::sync::{Arc, Barrier};

fn last_event(fixture: &Fixture, n: u128) -> Event {
    fixture.store.events(id(n), 0, 1_000).unwrap().events.pop().unwrap().event
}

#[test]
fn p4_cancelling_a_queued_job_writes_one_terminal_event() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let ended = fixture.store.cancel(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!((ended.status, ended.last_event_id), (JobStatus::Cancelled, 2));
    assert_eq!(ended.error.as_ref().unwrap().code, FailureCode::Cancelled);
    assert!(matches!(last_event(&fixture, 1), Event::Error { code: FailureCode::Cancelled, .. }));
    assert_eq!(fixture.store.cancel(ANN, id(1)).wait(), Ok(Some(ended)), "a repeated cancel changes nothing");
    assert_eq!(fixture.claim_all(), []);
    assert_eq!(fixture.store.output(id(1)), Ok(Some(String::new())));
}

#[test]
fn p7_a_job_can_be_read_and_cancelled_only_by_its_owner() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    assert_eq!(fixture.store.cancel(BOB, id(1)).wait(), Ok(None));
    assert_eq!(fixture.store.cancel(ANN, id(2)).wait(), Ok(None));
    assert_eq!(fixture.store.job(BOB, id(1)), Ok(None));
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().status, JobStatus::Queued);
}

#[test]
fn cancelling_a_running_job_cancels_its_lease_and_the_worker_ends_it() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    let answer = fixture.store.cancel(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!((answer.status, answer.cancel_requested), (JobStatus::Running, true));
    assert_eq!(lease.cancel.reason(), Some(CancelReason::Cancelled));
    fixture.store.append(lease.fence(), vec![delta(0, 0, "so far")], Urgency::Now).wait().unwrap();
    fixture.store.finish(lease.fence(), vec![], cancelled()).wait().unwrap();
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().status, JobStatus::Cancelled);
}

#[test]
fn releasing_a_cancelled_job_ends_it() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    fixture.store.release(lease.fence()).wait().unwrap();
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().status, JobStatus::Cancelled);
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn p4_a_cancel_request_survives_a_crash() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let _lease = fixture.claim();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    let after = fixture.crash();
    assert_eq!(after.store.job(ANN, id(1)).unwrap().unwrap().status, JobStatus::Cancelled);
    assert!(last_event(&after, 1).is_terminal());
}

#[test]
fn p4_concurrent_cancel_and_finish_leave_one_terminal_event() {
    let fixture = Fixture::new();
    for n in 1..=100 {
        fixture.submit([job(n, ANN)]);
        let lease = fixture.claim();
        let barrier = Arc::new(Barrier::new(2));
        let (store, gate) = (Arc::clone(&fixture.store), Arc::clone(&barrier));
        let canceller = std::thread::spawn(move || {
            gate.wait();
            store.cancel(ANN, id(n)).wait().unwrap().unwrap()
        });
        barrier.wait();
        let finished = fixture.store.finish(lease.fence(), vec![], done(id(n), "x")).wait();
        let seen = canceller.join().unwrap();
        assert_eq!(finished, Ok(()), "the lease is valid until the job ends");
        let ended = fixture.store.job(ANN, id(n)).unwrap().unwrap();
        assert_eq!(ended.status, JobStatus::Succeeded);
        let events = fixture.store.events(id(n), 0, 100).unwrap().events;
        assert_eq!(events.iter().filter(|e| e.event.is_terminal()).count(), 1);
        assert_eq!(
            seen.status.is_terminal(),
            !seen.cancel_requested,
            "a cancel before the end sets the flag; after the end it changes nothing"
        );
        assert_eq!(
            fixture.store.finish(lease.fence(), vec![], cancelled()).wait(),
            Err(LeaseError::Fenced { job: id(n) })
        );
    }
}
