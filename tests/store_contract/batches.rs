//! Batches: atomic acceptance, exact counts, cancel, retry, results and files.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, job};
use nanoclaw::domain::batch::{Batch, BatchCounts, BatchEndpoint, BatchFault, BatchSource, BatchStatus};
use nanoclaw::domain::id::{BatchId, FileId, UserId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::stored_file::{ContentDigest, FilePurpose, StoredFile};
use nanoclaw::ports::{BatchError, BatchFiles, Idempotent, LineOutcome, NewBatch, NewLine, SubmitError};
use std::collections::BTreeMap;

pub(super) fn batch(number: u128) -> BatchId {
    BatchId::from_bits(number)
}

pub(super) fn lines(from: u32, count: u32) -> Vec<NewLine> {
    let line = |n: u32| NewLine { custom_id: format!("line-{n}"), spec: job(u128::from(n), ANN).spec };
    (from..from + count).map(line).collect()
}

pub(super) fn new(number: u128, user: UserId, lines: u32, concurrency: u32) -> NewBatch {
    let created_at_ms = 1_000_000;
    NewBatch {
        id: batch(number),
        user,
        created_at_ms,
        lines,
        concurrency,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    }
}

/// The source of a batch of a file.
pub(crate) fn source() -> BatchSource {
    BatchSource {
        input_file: FileId::from_bits(9),
        endpoint: BatchEndpoint::Jobs,
        metadata: BTreeMap::new(),
        output_expires_after_s: None,
        faults: Vec::new(),
        files_at_ms: None,
        output_file: None,
        error_file: None,
    }
}

/// Accepts a batch of `count` lines.
pub(super) fn accept(fixture: &Fixture, number: u128, count: u32, concurrency: u32) -> Batch {
    fixture.store.fill((ANN, batch(number)), 0, lines(0, count)).wait().unwrap();
    match fixture.store.accept(new(number, ANN, count, concurrency), None).wait().unwrap() {
        Idempotent::New(batch) | Idempotent::Replayed(batch) => batch,
    }
}

pub(super) fn shown(fixture: &Fixture, number: u128) -> Batch {
    fixture.store.batch(ANN, batch(number)).unwrap().expect("the batch")
}

pub(super) fn counts(total: u32, completed: u32, failed: u32) -> BatchCounts {
    BatchCounts { total, completed, failed }
}

/// Runs all ready jobs until none is left.
pub(super) fn work_off(fixture: &Fixture) -> u32 {
    let mut runs = 0;
    while let Some(lease) = fixture.store.claim(1).wait().unwrap().pop() {
        fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
        runs += 1;
    }
    runs
}

#[test]
fn no_line_runs_before_its_batch_is_accepted_and_a_crash_drops_the_lines() {
    let fixture = Fixture::new();
    fixture.store.fill((ANN, batch(1)), 0, lines(0, 10)).wait().unwrap();
    assert_eq!(fixture.claim_all(), []);
    assert_eq!(fixture.store.batch(ANN, batch(1)), Ok(None));
    let after = fixture.crash();
    let late = after.store.accept(new(1, ANN, 10, 10), None).wait();
    assert_eq!(late, Err(BatchError::Abandoned), "the crash dropped the lines");
    assert_eq!(after.claim_all(), []);
    fixture.store.abandon(batch(1)).wait().unwrap();
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn p1_an_accepted_batch_runs_every_line_once_across_crashes() {
    let mut fixture = Fixture::new();
    let accepted = accept(&fixture, 1, 25, 4);
    assert_eq!((accepted.status, accepted.counts), (BatchStatus::InProgress, counts(25, 0, 0)));
    let mut runs = 0;
    while let Some(lease) = fixture.store.claim(1).wait().unwrap().pop() {
        fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
        runs += 1;
        if runs % 7 == 0 {
            fixture = fixture.crash();
        }
    }
    assert_eq!(runs, 25);
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Completed, counts(25, 25, 0)));
    assert!(ended.finished_at_ms.is_some());
    let page = fixture.store.results(batch(1), 0, 100).unwrap();
    assert_eq!(page.results.iter().map(|r| r.line).collect::<Vec<_>>(), (0..25).collect::<Vec<_>>());
    assert!(page.is_last && page.results.iter().all(|r| r.custom_id == format!("line-{}", r.line)));
}

#[test]
fn results_come_in_input_order_and_ended_lines_in_order_of_their_end() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 4, 4);
    let leases = fixture.store.claim(4).wait().unwrap();
    let end = |n: usize| {
        fixture.store.finish(leases[n].fence(), vec![], done(leases[n].job.id, "x")).wait().unwrap();
    };
    let mut news = fixture.store.watch_batch(batch(1));
    news.borrow_and_update();
    end(2);
    assert!(news.has_changed().unwrap(), "the watch changes");
    end(0);
    let numbers = |page: nanoclaw::ports::ResultPage| page.results.iter().map(|r| r.line).collect::<Vec<_>>();
    assert_eq!(numbers(fixture.store.results(batch(1), 0, 100).unwrap()), [0, 2]);
    let page = fixture.store.ended(batch(1), 0, 100).unwrap();
    assert_eq!((page.next, page.is_last), (2, false));
    assert_eq!(numbers(page), [2, 0]);
    end(3);
    end(1);
    let page = fixture.store.ended(batch(1), 2, 100).unwrap();
    assert!(page.is_last);
    assert_eq!(numbers(page), [3, 1]);
}

#[test]
fn a_cancelled_batch_starts_no_line_and_has_a_result_for_every_line() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 10, 3);
    let running = fixture.claim();
    assert_eq!(fixture.store.cancel_batch(BOB, batch(1)).wait(), Ok(None), "P7");
    let answer = fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap().unwrap();
    assert_eq!((answer.status, answer.counts), (BatchStatus::Cancelling, counts(10, 0, 9)));
    assert!(running.cancel.reason().is_some(), "the lease of the running line is cancelled");
    assert_eq!(
        fixture.store.ended(batch(1), 0, 100).unwrap().results.len(),
        2,
        "two queued lines ended at once"
    );
    assert_eq!(fixture.claim_all(), []);
    fixture.store.finish(running.fence(), vec![], crate::support::store::cancelled()).wait().unwrap();
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Cancelled, counts(10, 0, 10)));
    let page = fixture.store.ended(batch(1), 0, 100).unwrap();
    assert!(page.is_last && page.results.len() == 10);
    let page = fixture.store.results(batch(1), 0, 100).unwrap();
    let never = page.results.iter().filter(|r| r.outcome == LineOutcome::NotStarted).count();
    assert_eq!((page.results.len(), never), (10, 7));
    assert_eq!(
        fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap().unwrap(),
        ended,
        "a repeated cancel changes nothing"
    );
    let limits = Limits { queue_jobs: 1, ..Limits::default() };
    assert!(
        fixture.crash_with(&limits).store.submit(vec![job(1, ANN)]).wait().is_ok(),
        "its lines no longer count for the queue"
    );
}

#[test]
fn a_batch_key_makes_one_batch_and_cannot_be_reused_for_a_job() {
    let fixture = Fixture::new();
    let key = IdempotencyKey { key: [1; 32], fingerprint: [2; 32] };
    for number in [1, 2] {
        fixture.store.fill((ANN, batch(number)), 0, lines(0, 3)).wait().unwrap();
        let answer = fixture.store.accept(new(number, ANN, 3, 2), Some(key)).wait().unwrap();
        assert_eq!(matches!(answer, Idempotent::New(_)), number == 1);
        let (Idempotent::New(answer) | Idempotent::Replayed(answer)) = answer;
        assert_eq!(answer.id, batch(1));
    }
    assert_eq!(fixture.store.submit_once(job(9, ANN), key).wait(), Err(SubmitError::KeyReused));
    assert_eq!(work_off(&fixture), 3);
    assert_eq!(fixture.store.batches(ANN, None, 10).unwrap().batches.len(), 1);
}

#[test]
fn a_retried_line_is_counted_again_by_its_new_end() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 2, 2);
    let lease = fixture.claim();
    let mut ending = crate::support::store::cancelled();
    ending.event = nanoclaw::domain::event::Event::Error {
        content: "gone".to_owned(),
        code: nanoclaw::domain::event::FailureCode::ProviderError,
        retry_after_ms: None,
    };
    fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
    assert_eq!(shown(&fixture, 1).counts, counts(2, 0, 1));
    fixture.store.retry(ANN, lease.job.id).wait().unwrap().unwrap();
    assert_eq!(shown(&fixture, 1).counts, counts(2, 0, 0));
    assert_eq!(work_off(&fixture), 2);
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Completed, counts(2, 2, 0)));
    let page = fixture.store.ended(batch(1), 0, 10).unwrap();
    assert_eq!(page.results.len(), 2, "each line once");
    let statuses = page.results.iter().map(|r| match &r.outcome {
        LineOutcome::Ended(job) => job.status,
        _ => JobStatus::Failed,
    });
    assert!(statuses.into_iter().all(|status| status == JobStatus::Succeeded));
}

/// Lets a line fail; returns its job.
pub(super) fn fail(fixture: &Fixture) -> nanoclaw::domain::id::JobId {
    let lease = fixture.claim();
    let mut ending = crate::support::store::cancelled();
    ending.event = nanoclaw::domain::event::Event::Error {
        content: "gone".to_owned(),
        code: nanoclaw::domain::event::FailureCode::ProviderError,
        retry_after_ms: None,
    };
    fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
    lease.job.id
}

#[test]
fn retrying_a_line_reopens_an_ended_batch_until_the_line_ends() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 2, 1);
    let job = fail(&fixture);
    work_off(&fixture);
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Completed, counts(2, 1, 1)));
    let mut watch = fixture.store.watch_batch(batch(1));
    watch.borrow_and_update();
    fixture.store.retry(ANN, job).wait().unwrap().unwrap();
    let open = shown(&fixture, 1);
    assert_eq!((open.status, open.counts), (BatchStatus::InProgress, counts(2, 1, 0)));
    assert_eq!(open.finished_at_ms, None);
    assert!(!fixture.store.ended(batch(1), 0, 10).unwrap().is_last, "the list of ended lines is open again");
    watch.borrow_and_update();
    assert_eq!(work_off(&fixture), 1);
    assert!(watch.has_changed().unwrap(), "the watch changes at the second end");
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Completed, counts(2, 2, 0)));
    assert!(ended.finished_at_ms.is_some());
    assert_eq!(fixture.store.ended(batch(1), 0, 10).unwrap().results.len(), 2, "each line once");
}

#[test]
fn retrying_a_line_of_a_cancelled_batch_starts_no_other_line() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 4, 1);
    let job = fail(&fixture);
    fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap().unwrap();
    assert_eq!(
        (shown(&fixture, 1).status, shown(&fixture, 1).counts),
        (BatchStatus::Cancelled, counts(4, 0, 4))
    );
    fixture.store.retry(ANN, job).wait().unwrap().unwrap();
    assert_eq!(
        (shown(&fixture, 1).status, shown(&fixture, 1).counts),
        (BatchStatus::Cancelling, counts(4, 0, 3))
    );
    assert_eq!(work_off(&fixture), 1, "only the retried line runs");
    assert_eq!(
        (shown(&fixture, 1).status, shown(&fixture, 1).counts),
        (BatchStatus::Cancelled, counts(4, 1, 3))
    );
    assert_eq!(fixture.store.ended(batch(1), 0, 10).unwrap().results.len(), 4, "each line once");
}

#[test]
fn a_deleted_line_appears_as_deleted_in_the_results() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 1, 1);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    fixture.store.delete(ANN, lease.job.id).wait().unwrap();
    assert_eq!(fixture.store.results(batch(1), 0, 10).unwrap().results[0].outcome, LineOutcome::Deleted);
}

#[test]
fn p7_batches_are_listed_newest_first_for_their_owner_only() {
    let fixture = Fixture::new();
    for number in 1..=5 {
        accept(&fixture, number, 1, 1);
    }
    fixture.store.fill((ANN, batch(9)), 0, lines(0, 1)).wait().unwrap();
    fixture.store.accept(new(9, BOB, 1, 1), None).wait().unwrap();
    let page = fixture.store.batches(ANN, None, 3).unwrap();
    assert_eq!(
        (page.batches.iter().map(|b| b.id).collect::<Vec<_>>(), page.has_more),
        ([5, 4, 3].map(batch).to_vec(), true)
    );
    let page = fixture.store.batches(ANN, Some(batch(3)), 3).unwrap();
    assert_eq!(
        (page.batches.iter().map(|b| b.id).collect::<Vec<_>>(), page.has_more),
        ([2, 1].map(batch).to_vec(), false)
    );
    assert_eq!(fixture.store.batch(BOB, batch(1)), Ok(None));
}

/// Accepts a batch of a file with `count` lines.
fn accept_of_file(fixture: &Fixture, number: u128, count: u32) {
    fixture.store.fill((ANN, batch(number)), 0, lines(0, count)).wait().unwrap();
    let new = NewBatch { source: Some(source()), ..new(number, ANN, count, 9) };
    fixture.store.accept(new, None).wait().unwrap();
}

fn result_file(number: u128) -> StoredFile {
    StoredFile {
        id: FileId::from_bits(number),
        user: ANN,
        name: "results.jsonl".to_owned(),
        purpose: FilePurpose::BatchOutput,
        bytes: 5,
        content: ContentDigest::from_bytes([1; 32]),
        created_at_ms: 1,
        expires_at_ms: None,
    }
}

#[test]
fn a_batch_of_a_file_gets_the_files_of_its_last_end_once() {
    let fixture = Fixture::with(&Limits { user_files: 0, ..Limits::default() });
    let store = &fixture.store;
    accept_of_file(&fixture, 1, 2);
    assert_eq!(store.batches_without_files(), Ok(vec![(ANN, batch(1))]));
    let job = fail(&fixture);
    work_off(&fixture);
    let first_end = shown(&fixture, 1).finished_at_ms.expect("an end");
    assert!(shown(&fixture, 1).lacks_files());
    let files = |finished_at_ms, number| BatchFiles {
        finished_at_ms,
        output: Some(result_file(number)),
        errors: Some(result_file(number + 1)),
    };
    let attach = |user, files| store.attach_files(user, batch(1), files).wait().unwrap().is_some();
    assert!(!attach(BOB, files(first_end, 10)), "P7");
    assert!(!attach(ANN, files(first_end + 1, 10)), "files of another end");
    assert!(attach(ANN, files(first_end, 10)), "no limit refuses them");
    assert!(!attach(ANN, files(first_end, 20)), "once");
    assert_eq!(store.batches_without_files(), Ok(vec![]));
    assert_eq!(store.file(ANN, FileId::from_bits(11)).unwrap(), Some(result_file(11)));
    fixture.clock.advance(5);
    store.retry(ANN, job).wait().unwrap().unwrap();
    assert!(!shown(&fixture, 1).lacks_files(), "it is open");
    assert_eq!(store.batches_without_files(), Ok(vec![(ANN, batch(1))]));
    work_off(&fixture);
    let second_end = shown(&fixture, 1).finished_at_ms.expect("an end");
    assert!(attach(ANN, BatchFiles { errors: None, ..files(second_end, 30) }));
    let ids = [10, 11, 30].map(|number| store.file(ANN, FileId::from_bits(number)).unwrap().is_some());
    assert_eq!(ids, [false, false, true], "the files of the first end are replaced");
    accept_of_file(&fixture, 2, 1);
    work_off(&fixture);
    store.delete_batch(ANN, batch(2)).wait().unwrap();
    assert_eq!(store.batches_without_files(), Ok(vec![]));
}

#[test]
fn a_refused_file_makes_a_failed_batch_without_lines() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    store.fill((ANN, batch(1)), 0, lines(0, 3)).wait().unwrap();
    let fault = BatchFault { code: "c".to_owned(), line: Some(4), message: "m".to_owned(), param: None };
    let source = BatchSource { faults: vec![fault.clone()], ..source() };
    store.accept(NewBatch { source: Some(source), ..new(1, ANN, 0, 9) }, None).wait().unwrap();
    assert_eq!(work_off(&fixture), 0);
    let failed = shown(&fixture, 1);
    assert_eq!((failed.status, failed.counts), (BatchStatus::Failed, counts(0, 0, 0)));
    assert_eq!(failed.source.map(|source| source.faults), Some(vec![fault]));
    assert_eq!(store.batches_without_files(), Ok(vec![]));
    assert_eq!(
        store.cancel_batch(ANN, batch(1)).wait().unwrap().map(|b| b.status),
        Some(BatchStatus::Failed)
    );
    assert_eq!(
        fixture.crash().store.batch(ANN, batch(1)).unwrap().map(|b| b.status),
        Some(BatchStatus::Failed)
    );
    assert_eq!(store.delete_batch(ANN, batch(1)).wait(), Ok(true));
    assert_eq!(store.batch(ANN, batch(1)), Ok(None));
}
