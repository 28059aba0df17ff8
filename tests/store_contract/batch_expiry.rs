//! Batches that expire: the end of their window, the lines that it cuts off, and what does not expire.

use super::batches::{batch, counts, fail, lines, new, shown, source, work_off};
use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cancelled, done, id, job};
use nanoclaw::domain::account::Quota;
use nanoclaw::domain::batch::BatchStatus;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{AccountChange, BatchFiles, Clock, LineOutcome, NewBatch};

const WINDOW_MS: u64 = 24 * 3_600_000;

/// Accepts a batch of `count` lines that expires a day from now.
fn accept(fixture: &Fixture, number: u128, count: u32, concurrency: u32) {
    fixture.store.fill((ANN, batch(number)), 0, lines(0, count)).wait().unwrap();
    let expires_at_ms = Some(fixture.clock.now_ms() + WINDOW_MS);
    let new = NewBatch { expires_at_ms, source: Some(source()), ..new(number, ANN, count, concurrency) };
    fixture.store.accept(new, None).wait().unwrap();
}

/// Expires batches until no more are due; returns how many there were.
fn expire(fixture: &Fixture) -> u32 {
    let mut expired = 0;
    while fixture.store.expire_due().wait().unwrap() {
        expired += 1;
    }
    expired
}

#[test]
fn a_batch_expires_at_the_end_of_its_window_and_keeps_what_was_answered() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 6, 3);
    let first = fixture.claim();
    fixture.store.finish(first.fence(), vec![], done(first.job.id, "x")).wait().unwrap();
    let running = fixture.claim();
    fixture.clock.advance(WINDOW_MS - 1);
    assert_eq!(expire(&fixture), 0, "not yet");
    fixture.clock.advance(1);
    assert_eq!(expire(&fixture), 1);
    assert_eq!(expire(&fixture), 0, "once");
    let open = shown(&fixture, 1);
    assert_eq!((open.status, open.counts), (BatchStatus::Expiring, counts(6, 1, 4)));
    assert_eq!((open.cancelling_at_ms, open.finished_at_ms), (None, None));
    assert!(running.cancel.reason().is_some(), "the lease of the running line is cancelled");
    assert_eq!(fixture.claim_all(), [], "no further line starts");
    let cancel = fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap().unwrap();
    assert_eq!(cancel.status, BatchStatus::Expiring, "it is too late to cancel it");
    fixture.store.finish(running.fence(), vec![], cancelled()).wait().unwrap();
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Expired, counts(6, 1, 5)));
    assert!(ended.lacks_files());
    for page in [fixture.store.results(batch(1), 0, 9), fixture.store.ended(batch(1), 0, 9)] {
        let page = page.unwrap();
        assert!(page.is_last);
        let never = page.results.iter().filter(|r| r.outcome == LineOutcome::Expired).count();
        let stopped = page.results.iter().filter(|r| match &r.outcome {
            LineOutcome::Ended(job) => job.status == JobStatus::Cancelled,
            _ => false,
        });
        assert_eq!((page.results.len(), stopped.count(), never), (6, 3, 2));
    }
    let files =
        BatchFiles { finished_at_ms: ended.finished_at_ms.expect("an end"), output: None, errors: None };
    assert!(fixture.store.attach_files(ANN, batch(1), files).wait().unwrap().is_some());
    let limits = Limits { queue_jobs: 1, ..Limits::default() };
    let after = fixture.crash_with(&limits);
    assert_eq!(shown(&after, 1).status, BatchStatus::Expired);
    assert!(after.store.submit(vec![job(1, ANN)]).wait().is_ok(), "its lines no longer count for the queue");
    assert_eq!(after.store.delete_batch(ANN, batch(1)).wait(), Ok(true));
}

#[test]
fn a_batch_expires_after_a_crash_and_the_oldest_window_first() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 2, 1);
    fixture.clock.advance(60_000);
    accept(&fixture, 2, 2, 1);
    fixture.clock.advance(WINDOW_MS - 60_000);
    let fixture = fixture.crash();
    assert_eq!(expire(&fixture), 1);
    assert_eq!(
        [1, 2].map(|n| shown(&fixture, n).status),
        [BatchStatus::Expired, BatchStatus::InProgress],
        "a batch without a running line ends at once"
    );
    fixture.clock.advance(60_000);
    assert_eq!(expire(&fixture), 1);
    assert_eq!(shown(&fixture, 2).status, BatchStatus::Expired);
}

#[test]
fn a_batch_without_a_window_or_with_an_end_does_not_expire() {
    let fixture = Fixture::new();
    fixture.store.fill((ANN, batch(1)), 0, lines(0, 2)).wait().unwrap();
    fixture.store.accept(new(1, ANN, 2, 1), None).wait().unwrap();
    fixture.clock.advance(10 * WINDOW_MS);
    assert_eq!(expire(&fixture), 0);
    assert_eq!(work_off(&fixture), 2);
    accept(&fixture, 2, 1, 1);
    assert_eq!(work_off(&fixture), 1);
    accept(&fixture, 3, 1, 1);
    fixture.store.cancel_batch(ANN, batch(3)).wait().unwrap();
    accept(&fixture, 4, 1, 1);
    assert_eq!(work_off(&fixture), 1);
    assert_eq!(fixture.store.delete_batch(ANN, batch(4)).wait(), Ok(true));
    fixture.clock.advance(WINDOW_MS);
    assert_eq!(expire(&fixture), 0);
    assert_eq!(
        [1, 2, 3].map(|n| shown(&fixture, n).status),
        [BatchStatus::Completed, BatchStatus::Completed, BatchStatus::Cancelled]
    );
}

#[test]
fn a_retried_line_of_an_ended_batch_has_no_window() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 1, 1);
    let completed = fail(&fixture);
    accept(&fixture, 2, 2, 1);
    let expired = fail(&fixture);
    fixture.clock.advance(WINDOW_MS);
    assert_eq!(expire(&fixture), 1);
    assert_eq!([1, 2].map(|n| shown(&fixture, n).status), [BatchStatus::Completed, BatchStatus::Expired]);
    for job in [completed, expired] {
        fixture.store.retry(ANN, job).wait().unwrap().unwrap();
    }
    assert_eq!([1, 2].map(|n| shown(&fixture, n).status), [BatchStatus::InProgress, BatchStatus::Expiring]);
    assert_eq!(expire(&fixture), 0, "it was asked for after the window");
    assert_eq!(work_off(&fixture), 2, "and no other line starts");
    assert_eq!(
        [1, 2].map(|n| (shown(&fixture, n).status, shown(&fixture, n).counts)),
        [(BatchStatus::Completed, counts(1, 1, 0)), (BatchStatus::Expired, counts(2, 1, 1))]
    );
}

#[test]
fn a_batch_that_waits_for_a_quota_expires() {
    let fixture = Fixture::new();
    let quota = Some(Quota { tokens_per_day: Some(0), ..Quota::default() });
    fixture.store.change_account(ANN, AccountChange { quota, ..AccountChange::default() }).wait().unwrap();
    fixture.submit([job(1, ANN)]);
    accept(&fixture, 1, 3, 3);
    assert!(shown(&fixture, 1).waiting_for.is_some());
    fixture.clock.advance(WINDOW_MS);
    assert_eq!(expire(&fixture), 1);
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.waiting_for), (BatchStatus::Expired, None));
    assert_eq!(fixture.store.resume_waiting().wait(), Ok(false));
    assert_eq!(fixture.store.batch(BOB, batch(1)), Ok(None), "P7");
    assert_eq!(fixture.claim_all(), [id(1)]);
}

#[test]
fn a_clock_in_doubt_expires_no_batch() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 1, 1);
    fixture.clock.jump(WINDOW_MS);
    assert_eq!(expire(&fixture), 0, "the clock has jumped");
    fixture.clock.advance(WINDOW_MS);
    assert_eq!(expire(&fixture), 1, "after a steady day it is trusted");
}
