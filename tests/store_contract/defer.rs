//! Jobs that were deferred because their provider is at its limit or asked for a pause.

use super::fixture::Fixture;
use crate::support::store::{ANN, cost, id, job, turn};
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record, StatusPhase};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{LeaseError, Urgency};

/// A job that is deferred for five seconds.
fn deferred() -> Fixture {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.append(lease.fence(), vec![cost(None, Usage::new(9, 1))], Urgency::Now).wait().unwrap();
    fixture.store.defer(lease.fence(), "waits for its turn".to_owned(), 5_000).wait().unwrap();
    assert_eq!(
        fixture.store.defer(lease.fence(), String::new(), 1).wait(),
        Err(LeaseError::Fenced { job: id(1) })
    );
    fixture
}

#[test]
fn a_deferred_job_waits_across_a_crash_without_counting_an_attempt() {
    let fixture = deferred();
    assert_eq!(fixture.claim_all(), [], "no later job of its conversation runs either");
    let fixture = fixture.crash();
    fixture.clock.advance(4_999);
    assert_eq!(fixture.claim_all(), []);
    fixture.clock.advance(1);
    let lease = fixture.claim();
    let counted = (lease.job.id, lease.job.attempt, lease.job.failed_runs, lease.job.crashes);
    assert_eq!(counted, (id(1), 1, 0, 0));
    assert_eq!(lease.job.epoch, 2, "but the old lease is fenced");
    assert_eq!(fixture.claim_all(), [], "one job of a conversation runs at a time");
}

#[test]
fn the_log_contains_the_reason_of_a_deferral() {
    let fixture = deferred();
    let log = fixture.store.log(id(1)).unwrap();
    let at = log.iter().position(|record| *record == Record::Mark(EngineMark::Deferred)).unwrap();
    let reason = Some("waits for its turn".to_owned());
    let waits = Event::Status { status: StatusPhase::Queued, attempt: 0, reason };
    assert_eq!(log[at + 1..], [waits.into()]);
    let page = fixture.store.events(id(1), 0, 10).unwrap();
    assert!(page.events.iter().map(|event| event.seq).eq(1..=3), "marks have no sequence number");
    let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((row.status, row.last_event_id), (JobStatus::Queued, 3));
}

#[test]
fn cancelling_a_deferred_job_keeps_its_usage() {
    let fixture = deferred();
    let ended = fixture.store.cancel(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!((ended.status, ended.usage), (JobStatus::Cancelled, Usage::new(9, 1)));
    fixture.clock.advance(10_000);
    assert_eq!(fixture.claim_all(), [id(2)]);
}

#[test]
fn p4_an_earlier_cancel_ends_the_job_instead_of_a_deferral() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    fixture.store.defer(lease.fence(), "waits".to_owned(), 5_000).wait().unwrap();
    let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((row.status, row.error.unwrap().code), (JobStatus::Cancelled, FailureCode::Cancelled));
    fixture.clock.advance(10_000);
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn deferring_resets_the_crash_count() {
    let mut fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    for _ in 0..4 {
        fixture.claim();
        fixture = fixture.crash();
        let lease = fixture.claim();
        fixture.store.defer(lease.fence(), "waits".to_owned(), 0).wait().unwrap();
    }
    let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((row.status, row.crashes, row.failed_runs), (JobStatus::Queued, 0, 0));
}
