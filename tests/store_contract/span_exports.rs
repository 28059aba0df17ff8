//! The queue of ended jobs whose spans wait for the export.

use super::fixture::{Fixture, options};
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::event::FailureCode;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{Clock, SpanExport};
use nanoclaw::store::options::StoreOptions;

fn exporting() -> StoreOptions {
    StoreOptions { exports_spans: true, ..options() }
}

fn fixture() -> Fixture {
    Fixture::with_options(&exporting(), &Limits::default())
}

fn taken(fixture: &Fixture, max: usize) -> Vec<SpanExport> {
    fixture.store.take_span_exports(max, 60).unwrap()
}

fn waiting(fixture: &Fixture) -> u64 {
    fixture.store.waiting_span_exports(100).unwrap()
}

/// Runs the next job to its end.
fn finish(fixture: &Fixture) {
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), Vec::new(), done(lease.job.id, "yes")).wait().unwrap();
}

#[test]
fn p1_each_end_is_queued_in_its_transaction_until_it_is_removed() {
    let mut fixture = fixture();
    fixture.submit([job(1, ANN), job(2, BOB), job(3, ANN)]);
    assert_eq!((taken(&fixture, 9), waiting(&fixture)), (Vec::new(), 0), "nothing has ended");
    finish(&fixture);
    let first_ms = fixture.clock.now_ms();
    fixture.clock.advance(1_000);
    finish(&fixture);
    fixture.store.cancel(ANN, id(3)).wait().unwrap();
    fixture.reopen(&exporting(), &Limits::default());
    let all = taken(&fixture, 9);
    let end = |finished_at_ms, number, user| SpanExport { finished_at_ms, job: id(number), user };
    let expected = [end(first_ms, 1, ANN), end(first_ms + 1_000, 2, BOB), end(first_ms + 1_000, 3, ANN)];
    assert_eq!(all, expected, "by their ends, also those without a worker");
    assert_eq!(taken(&fixture, 2), expected[..2], "the same again until they are removed");
    fixture.store.remove_span_exports(all[..2].to_vec()).wait().unwrap();
    assert_eq!((taken(&fixture, 9), waiting(&fixture)), (expected[2..].to_vec(), 1));
    fixture.store.remove_span_exports(all).wait().unwrap();
    assert_eq!((taken(&fixture, 9), waiting(&fixture)), (Vec::new(), 0));
}

#[test]
fn without_the_setting_nothing_is_queued() {
    let mut fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    finish(&fixture);
    fixture.reopen(&exporting(), &Limits::default());
    assert_eq!(waiting(&fixture), 0, "jobs that ended before are not exported");
    finish(&fixture);
    assert_eq!(taken(&fixture, 9).len(), 1, "jobs that end from then on are");
}

#[test]
fn a_retried_job_has_another_end() {
    let fixture = fixture();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    let failed = crate::support::store::cancelled();
    let event = nanoclaw::domain::event::Event::Error {
        content: "no".to_owned(),
        code: FailureCode::ProviderError,
        retry_after_ms: None,
    };
    let ending = nanoclaw::domain::job::JobOutcome { event, ..failed };
    fixture.store.finish(lease.fence(), Vec::new(), ending).wait().unwrap();
    let first = taken(&fixture, 9);
    fixture.clock.advance(1_000);
    fixture.store.retry(ANN, id(1)).wait().unwrap();
    finish(&fixture);
    let both = taken(&fixture, 9);
    assert_eq!((first.len(), both.len(), both[0]), (1, 2, first[0]));
    fixture.store.remove_span_exports(first).wait().unwrap();
    assert_eq!(taken(&fixture, 9), both[1..], "the second end is not removed with the first");
}

#[test]
fn ends_of_removed_jobs_stay_in_the_queue_for_the_exporter_to_report() {
    let fixture = fixture();
    fixture.submit([job(1, ANN)]);
    finish(&fixture);
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    assert_eq!(taken(&fixture, 9).len(), 1);
    assert!(fixture.store.ended_run(ANN, id(1)).unwrap().is_none());
}
