//! Retries by clients, further attempts, and repeated requests with an idempotency key.

use super::fixture::{Ends, Fixture};
use crate::support::store::{ANN, BOB, delta, done, id, job, turn};
use nanoclaw::domain::event::{Event, FailureCode, StatusPhase};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::{JobOutcome, JobStatus};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{Idempotent, JobChangeError, LeaseError, SubmitError, Urgency};
use std::sync::{Arc, Barrier};

fn failed() -> JobOutcome {
    let event = Event::Error {
        content: "the provider is gone".to_owned(),
        code: FailureCode::ProviderError,
        retry_after_ms: None,
    };
    let messages = vec![Message::assistant("half")];
    JobOutcome { event, output_text: "half".to_owned(), messages, summary: None }
}

fn key(name: u8, request: u8) -> IdempotencyKey {
    IdempotencyKey { key: [name; 32], fingerprint: [request; 32] }
}

fn phases(fixture: &Fixture, n: u128) -> Vec<String> {
    let events = fixture.store.events(id(n), 0, 1_000).unwrap().events;
    let seqs: Vec<u64> = events.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no gap");
    events
        .into_iter()
        .map(|numbered| match numbered.event {
            Event::Status { status: StatusPhase::Queued, .. } => "queued".to_owned(),
            Event::Status { status: StatusPhase::Running, .. } => "running".to_owned(),
            Event::Status { status: StatusPhase::Retrying, .. } => "retrying".to_owned(),
            event if event.is_terminal() => "end".to_owned(),
            _ => "text".to_owned(),
        })
        .collect()
}

#[test]
fn a_retried_job_continues_its_log_and_ends_again() {
    let fixture = Fixture::file();
    let ends = Ends::of(&fixture.store);
    fixture.submit([job(1, ANN), job(2, ANN)]);
    let lease = fixture.claim();
    fixture.store.append(lease.fence(), vec![delta(0, 0, "half")], Urgency::Now).wait().unwrap();
    assert_eq!(
        fixture.store.retry(ANN, id(1)).wait(),
        Err(JobChangeError::WrongState { status: JobStatus::Running })
    );
    fixture.store.finish(lease.fence(), vec![], failed()).wait().unwrap();
    assert_eq!(fixture.store.retry(BOB, id(1)).wait(), Ok(None), "P7");
    fixture.clock.advance(86_400_000);
    let again = fixture.store.retry(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!((again.status, again.error, again.finished_at_ms), (JobStatus::Queued, None, None));
    assert_eq!(fixture.store.output(id(1)), Ok(None), "a retried job has no output");
    assert_eq!(fixture.claim().job.id, id(2), "a retried job is queued behind the waiting jobs");
    let after = fixture.crash();
    assert_eq!(after.claim_all(), [id(1), id(2)].into_iter().rev().collect::<Vec<_>>());
    let lease = fixture.claim();
    assert_eq!((lease.job.id, lease.job.attempt), (id(1), 2));
    fixture.clock.advance(7);
    fixture.store.finish(lease.fence(), vec![], done(id(1), "whole")).wait().unwrap();
    assert_eq!(
        ends.recorded().last(),
        Some(&(None, Some(7_000))),
        "the run time does not include the time after the failure"
    );
    assert_eq!(phases(&fixture, 1), ["queued", "running", "text", "end", "queued", "running", "end"]);
    assert_eq!(fixture.store.output(id(1)), Ok(Some("whole".to_owned())));
    assert_eq!(
        fixture.store.retry(ANN, id(1)).wait(),
        Err(JobChangeError::WrongState { status: JobStatus::Succeeded })
    );
}

#[test]
fn a_retried_job_waits_for_the_running_job_of_its_conversation() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], failed()).wait().unwrap();
    let second = fixture.claim();
    assert_eq!(second.job.id, id(2));
    fixture.store.retry(ANN, id(1)).wait().unwrap();
    assert_eq!(fixture.claim_all(), [], "one at a time");
    fixture.store.finish(second.fence(), vec![], done(id(2), "two")).wait().unwrap();
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(1));
    let history = fixture.store.history(&lease.job, 100).unwrap().into_messages();
    assert_eq!(history.len(), 2, "the history contains only the second job: {history:?}");
}

#[test]
fn a_retry_is_refused_when_the_queue_is_full() {
    let fixture = Fixture::with(&Limits { queue_jobs: 1, ..Limits::default() });
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], failed()).wait().unwrap();
    fixture.submit([job(2, ANN)]);
    assert_eq!(fixture.store.retry(ANN, id(1)).wait(), Err(JobChangeError::QueueFull { limit: 1 }));
}

#[test]
fn a_postponed_job_waits_across_a_crash() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.postpone(lease.fence(), "busy".to_owned(), 5_000).wait().unwrap();
    assert_eq!(fixture.store.release(lease.fence()).wait(), Err(LeaseError::Fenced { job: id(1) }));
    assert_eq!(fixture.claim_all(), []);
    let fixture = fixture.crash();
    fixture.clock.advance(4_999);
    assert_eq!(fixture.claim_all(), []);
    fixture.clock.advance(1);
    let lease = fixture.claim();
    assert_eq!((lease.job.attempt, lease.job.failed_runs, lease.job.crashes), (2, 1, 0));
    assert_eq!(phases(&fixture, 1), ["queued", "running", "retrying", "running"]);
}

#[test]
fn a_job_that_waits_for_its_next_attempt_can_be_cancelled() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.postpone(lease.fence(), "busy".to_owned(), 5_000).wait().unwrap();
    let ended = fixture.store.cancel(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!(ended.status, JobStatus::Cancelled);
    fixture.clock.advance(10_000);
    assert_eq!(fixture.claim_all(), []);
    fixture.submit([job(2, ANN)]);
    let lease = fixture.claim();
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    fixture.store.postpone(lease.fence(), "busy".to_owned(), 5_000).wait().unwrap();
    assert_eq!(
        fixture.store.job(ANN, id(2)).unwrap().unwrap().status,
        JobStatus::Cancelled,
        "the earlier cancel wins"
    );
}

#[test]
fn p1_64_posts_with_one_key_make_one_job_even_across_a_crash() {
    let fixture = Fixture::new();
    let gate = Arc::new(Barrier::new(64));
    let posts: Vec<_> = (1..=64)
        .map(|n| {
            let (store, gate) = (Arc::clone(&fixture.store), Arc::clone(&gate));
            std::thread::spawn(move || {
                gate.wait();
                store.submit_once(job(n, ANN), key(1, 1)).wait().unwrap()
            })
        })
        .collect();
    let answers: Vec<_> = posts.into_iter().map(|post| post.join().unwrap()).collect();
    let new: Vec<_> = answers.iter().filter(|answer| matches!(answer, Idempotent::New(_))).collect();
    assert_eq!(new.len(), 1);
    let ids: std::collections::HashSet<_> =
        answers.iter().map(|(Idempotent::New(job) | Idempotent::Replayed(job))| job.id).collect();
    assert_eq!(ids.len(), 1, "all callers get the same job");
    let after = fixture.crash();
    let replayed = after.store.submit_once(job(100, ANN), key(1, 1)).wait().unwrap();
    assert!(matches!(replayed, Idempotent::Replayed(job) if ids.contains(&job.id)));
    assert_eq!(after.claim_all().len(), 1);
}

#[test]
fn an_idempotency_key_belongs_to_one_user_and_request_for_a_day() {
    let fixture = Fixture::new();
    let submit = |n, user, key| fixture.store.submit_once(job(n, user), key).wait();
    assert!(matches!(submit(1, ANN, key(1, 1)), Ok(Idempotent::New(_))));
    assert_eq!(submit(2, ANN, key(1, 2)), Err(SubmitError::KeyReused));
    let is_known = |user, name| fixture.store.is_known(user, &key(name, 9).key).unwrap();
    assert_eq!((is_known(ANN, 1), is_known(BOB, 1), is_known(ANN, 2)), (true, false, false));
    assert!(matches!(submit(3, BOB, key(1, 2)), Ok(Idempotent::New(_))), "P7: keys of users are separate");
    assert!(matches!(submit(4, ANN, key(2, 1)), Ok(Idempotent::New(_))));
    fixture.clock.advance(86_400_000 - 1);
    assert!(matches!(submit(5, ANN, key(1, 1)), Ok(Idempotent::Replayed(_))));
    fixture.clock.advance(1);
    assert!(!is_known(ANN, 1));
    assert!(
        matches!(submit(6, ANN, key(1, 2)), Ok(Idempotent::New(_))),
        "an expired key can be used for another request"
    );
    fixture.clock.advance(1_000);
    assert!(matches!(submit(7, ANN, key(1, 2)), Ok(Idempotent::Replayed(job)) if job.id == id(6)));
}

#[test]
fn a_refused_request_does_not_use_up_its_idempotency_key() {
    let fixture = Fixture::with(&Limits { queue_jobs: 1, ..Limits::default() });
    fixture.submit([job(1, ANN)]);
    let full = fixture.store.submit_once(job(2, ANN), key(1, 1)).wait();
    assert_eq!(full, Err(SubmitError::QueueFull { limit: 1 }));
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    assert!(matches!(fixture.store.submit_once(job(3, ANN), key(1, 1)).wait(), Ok(Idempotent::New(_))));
}

#[test]
fn p7_an_ended_job_can_be_deleted_only_by_its_owner() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    assert_eq!(
        fixture.store.delete(ANN, id(1)).wait(),
        Err(JobChangeError::WrongState { status: JobStatus::Queued })
    );
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "secret")).wait().unwrap();
    assert_eq!(fixture.store.delete(BOB, id(1)).wait(), Ok(false));
    assert_eq!(fixture.store.delete(ANN, id(1)).wait(), Ok(true));
    assert_eq!(fixture.store.delete(ANN, id(1)).wait(), Ok(false));
    assert_eq!(fixture.store.job(ANN, id(1)), Ok(None));
    assert!(fixture.store.events(id(1), 0, 10).unwrap().events.is_empty());
    let second = fixture.claim();
    assert!(
        fixture.store.history(&second.job, 10).unwrap().turns.is_empty(),
        "the history no longer contains the deleted job"
    );
}

#[test]
fn the_idempotency_key_of_a_deleted_job_stays_used() {
    let fixture = Fixture::new();
    fixture.store.submit_once(job(1, ANN), key(1, 1)).wait().unwrap();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    assert_eq!(fixture.store.submit_once(job(2, ANN), key(1, 1)).wait(), Err(SubmitError::KeySpent));
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn a_job_cancelled_between_attempts_keeps_its_partial_answer() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture
        .store
        .append(lease.fence(), vec![delta(0, 0, "so "), delta(0, 3, "far")], Urgency::Now)
        .wait()
        .unwrap();
    fixture.store.postpone(lease.fence(), "busy".to_owned(), 5_000).wait().unwrap();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    assert_eq!(fixture.store.output(id(1)), Ok(Some("so far".to_owned())));
    let second = fixture.claim();
    let history = fixture.store.history(&second.job, 10).unwrap().into_messages();
    assert_eq!(history, [Message::user("question 1"), Message::assistant("so far")]);
}
