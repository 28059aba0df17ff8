//! What a job waits for, as its owner reads it: in lists, alone, and in the answer to a change.

use super::fixture::Fixture;
use crate::support::store::{ANN, done, id, job, turn};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::job_wait::{JobWait, JobWaitReason};
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::JobQuery;

const NOW_MS: u64 = 1_000_000;

/// What the job waits for, which lists say as well.
fn wait(fixture: &Fixture, number: u128) -> Option<JobWait> {
    let shown = fixture.store.job(ANN, id(number)).unwrap().unwrap();
    for filter in [JobFilter::NONE, JobFilter { model: Some("demo".to_owned()), ..JobFilter::NONE }] {
        let query = JobQuery { user: ANN, status: None, filter, before: None, limit: 100 };
        let listed = fixture.store.jobs(&query).unwrap().jobs.into_iter().find(|job| job.id == id(number));
        assert_eq!(listed.expect("listed"), shown);
    }
    shown.waits_for
}

fn until(reason: JobWaitReason, until_ms: u64) -> JobWait {
    JobWait::until(reason, Some(until_ms))
}

const WORKER: Option<JobWait> =
    Some(JobWait { reason: JobWaitReason::Worker, until_ms: None, after_job: None });

#[test]
fn a_job_waits_for_a_worker_for_the_job_before_it_or_for_its_time() {
    let fixture = Fixture::new();
    let mut later = job(4, ANN);
    later.spec.run_at_ms = Some(NOW_MS + 5_000);
    let new = vec![turn(1, ANN, "chat"), turn(2, ANN, "chat"), turn(3, ANN, "chat"), later];
    let stored = fixture.store.submit(new).wait().unwrap();
    let expected = [
        WORKER,
        Some(JobWait::behind(Some(id(1)))),
        Some(JobWait::behind(Some(id(2)))),
        Some(until(JobWaitReason::Time, NOW_MS + 5_000)),
    ];
    assert_eq!([1, 2, 3, 4].map(|number| wait(&fixture, number)), expected);
    assert!(stored.iter().map(|job| job.waits_for).eq(expected), "the answer says the same");

    let lease = fixture.claim();
    assert_eq!([1, 2].map(|number| wait(&fixture, number)), [None, expected[1]], "it runs");
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    assert_eq!([1, 2].map(|number| wait(&fixture, number)), [None, WORKER]);
    fixture.clock.advance(5_000);
    assert_eq!(wait(&fixture, 4), WORKER, "its time has come");
    let fixture = fixture.crash();
    assert_eq!([2, 3].map(|number| wait(&fixture, number)), [WORKER, Some(JobWait::behind(Some(id(2))))]);
}

#[test]
fn a_job_that_was_given_back_says_why_it_does_not_run() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    fixture.store.defer(fixture.claim().fence(), "busy".to_owned(), 5_000).wait().unwrap();
    // In a database the node that crashed has lost its jobs to the one that goes on.
    let fixture = fixture.crash();
    assert_eq!(wait(&fixture, 1), Some(until(JobWaitReason::Provider, NOW_MS + 5_000)));
    fixture.clock.advance(5_000);
    fixture.store.postpone(fixture.claim().fence(), "broke".to_owned(), 7_000).wait().unwrap();
    assert_eq!(wait(&fixture, 1), Some(until(JobWaitReason::Retry, NOW_MS + 12_000)));
    fixture.clock.advance(7_000);
    fixture.store.defer(fixture.claim().fence(), "busy".to_owned(), 1_000).wait().unwrap();
    assert_eq!(
        wait(&fixture, 1),
        Some(until(JobWaitReason::Provider, NOW_MS + 13_000)),
        "the last reason counts"
    );
    assert_eq!(fixture.store.cancel(ANN, id(1)).wait().unwrap().unwrap().waits_for, None);
}

#[test]
fn a_job_waits_for_the_decision_about_its_calls_until_it_expires() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let call = ToolCall { id_ref: "a".into(), name: "bash".into(), arguments: "{}".into() };
    fixture.store.wait_for_approval(fixture.claim().fence(), vec![call], 60_000).wait().unwrap();
    assert_eq!(wait(&fixture, 1), Some(until(JobWaitReason::Approval, NOW_MS + 60_000)));
    let approve = ApprovalDecision { approve: true, id_refs: None, reason: None, is_lasting: false };
    let decided = fixture.store.decide(ANN, id(1), approve).wait().unwrap().unwrap();
    assert_eq!((decided.job.waits_for, wait(&fixture, 1)), (WORKER, WORKER));
}
