//! Quotas of accounts: the transaction that accepts work checks them, so no more is accepted at the same
//! moment.

use super::fixture::Fixture;
use super::messages::say;
use crate::support::disk::{Disk, Syncs};
use crate::support::store::{ANN, BOB, ManualClock, done, exported, id, imported, job, name};
use nanoclaw::domain::account::Quota;
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{
    AccountChange, ConversationError, ImportError, JobChangeError, QuotaRefusal, RegenerateRequest, Store,
    SubmitError, Ticket, Users,
};
use nanoclaw::store::RedbStore;
use nanoclaw::store::options::StoreOptions;
use std::ops::Range;

/// A store where ANN has these quotas.
fn bounded(quota: Quota) -> Fixture {
    let fixture = Fixture::new();
    let change = AccountChange { quota: Some(quota), ..AccountChange::default() };
    fixture.store.change_account(ANN, change).wait().unwrap();
    fixture
}

fn failed() -> JobOutcome {
    let (content, code) = ("the provider is gone".to_owned(), FailureCode::ProviderError);
    let event = Event::Error { content, code, retry_after_ms: None };
    JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None }
}

/// Submits these jobs one by one at the same moment. Returns how many were accepted and how many refused by a
/// quota.
fn submit_at_once(fixture: &Fixture, input: &str) -> (usize, usize) {
    let submitting = (1..=8).map(|number| {
        let mut new = job(number, ANN);
        new.spec.input = vec![Message::user(input)];
        fixture.store.submit(vec![new])
    });
    let submitting: Vec<_> = submitting.collect();
    let results: Vec<_> = submitting.into_iter().map(|ticket| ticket.wait().map(drop)).collect();
    let count = |is: fn(&Result<(), SubmitError>) -> bool| results.iter().filter(|result| is(result)).count();
    (count(Result::is_ok), count(|result| matches!(result, Err(SubmitError::Quota(_)))))
}

#[test]
fn p8_jobs_beyond_their_owners_quota_of_jobs_are_refused_also_at_the_same_moment() {
    let fixture = bounded(Quota { unfinished_jobs: Some(3), ..Quota::default() });
    assert_eq!(submit_at_once(&fixture, "hello"), (3, 5));
    assert_eq!(fixture.store.unfinished_count(ANN, 99), Ok(3));
    fixture.submit([job(20, BOB)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    assert!(fixture.store.submit(vec![job(21, BOB)]).wait().is_ok(), "others have their own quota");
}

#[test]
fn p8_jobs_that_are_submitted_together_fit_into_the_quota_together() {
    let fixture = bounded(Quota { unfinished_jobs: Some(3), ..Quota::default() });
    let jobs = |numbers: [u128; 2]| numbers.map(|number| job(number, ANN)).to_vec();
    assert!(fixture.store.submit(jobs([1, 2])).wait().is_ok());
    let refusal = QuotaRefusal::NewJobs { new: 2, unfinished: 2, limit: 3 };
    assert_eq!(fixture.store.submit(jobs([3, 4])).wait(), Err(SubmitError::Quota(refusal)));
    assert_eq!(fixture.store.job(ANN, id(3)), Ok(None), "none of them was accepted");
    assert!(fixture.store.submit(vec![job(5, ANN)]).wait().is_ok());
}

#[test]
fn p8_jobs_beyond_their_owners_quota_of_bytes_are_refused_also_at_the_same_moment() {
    let fixture = bounded(Quota { stored_bytes: Some(20_000), ..Quota::default() });
    let (accepted, refused) = submit_at_once(&fixture, &"x".repeat(8_000));
    assert_eq!((accepted, refused), (2, 6));
}

#[test]
fn p8_a_retry_is_an_unfinished_job_of_its_owners_quota() {
    let fixture = bounded(Quota { unfinished_jobs: Some(1), ..Quota::default() });
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], failed()).wait().unwrap();
    fixture.submit([job(2, ANN)]);
    let refused = JobChangeError::Quota(QuotaRefusal::Jobs { limit: 1 });
    assert_eq!(fixture.store.retry(ANN, id(1)).wait(), Err(refused));
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(2), "x")).wait().unwrap();
    assert!(fixture.store.retry(ANN, id(1)).wait().unwrap().is_some());
}

#[test]
fn p8_an_answer_that_is_made_again_is_an_unfinished_job_of_its_owners_quota() {
    let fixture = bounded(Quota { unfinished_jobs: Some(1), ..Quota::default() });
    say(&fixture, 1);
    fixture.submit([job(2, ANN)]);
    let again = |new: u128| {
        let job = job(new, ANN);
        let answer = id(1).message_id();
        let request = RegenerateRequest { answer, job, replaces_question: false, key: None };
        fixture.store.regenerate(ANN, name("chat"), request).wait()
    };
    assert_eq!(again(3), Err(ConversationError::Quota(QuotaRefusal::Jobs { limit: 1 })));
    assert!(fixture.store.job(ANN, id(1)).unwrap().is_some(), "the answer is still there");
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(2), "x")).wait().unwrap();
    assert!(again(4).unwrap().is_some());
}

#[test]
fn p8_imported_runs_count_against_their_owners_quota_of_bytes() {
    let origin = Fixture::new();
    let run_of = |number: u128| {
        origin.submit([job(number, ANN)]);
        let lease = origin.claim();
        let answer = "x".repeat(8_000);
        origin.store.finish(lease.fence(), vec![], done(lease.job.id, &answer)).wait().unwrap();
        imported(exported(&*origin.store, number))
    };
    let fixture = bounded(Quota { stored_bytes: Some(30_000), ..Quota::default() });
    let imports: Vec<_> = (1..=4).map(|number| fixture.store.import_run(ANN, run_of(number))).collect();
    let results: Vec<_> = imports.into_iter().map(Ticket::wait).collect();
    let refused = results.iter().filter(|result| matches!(result, Err(ImportError::Quota(_)))).count();
    assert!(results[0].is_ok() && (1..4).contains(&refused), "{results:?}");
    assert!(fixture.store.import_run(BOB, run_of(5)).wait().is_ok(), "others have their own quota");
}

#[test]
fn p7_a_submission_reads_no_more_for_a_user_with_many_queued_jobs() {
    let (disk, clock) = (Disk::with(Vec::new(), Syncs::Hold, None), ManualClock::new());
    let options = StoreOptions { cache_bytes: 0, settle_ms: 60_000, ..StoreOptions::default() };
    let (backend, limits) = (disk.clone(), Limits::default());
    let store = RedbStore::open_with_backend(move || backend.clone(), &options, &limits, clock).unwrap();
    let quota = Some(Quota { unfinished_jobs: Some(50_000), ..Quota::default() });
    store.change_account(ANN, AccountChange { quota, ..AccountChange::default() }).wait().unwrap();
    let submit = |numbers: Range<u128>| {
        let before = disk.reads();
        store.submit(numbers.map(|number| job(number, ANN)).collect()).wait().unwrap();
        disk.reads() - before
    };
    submit(1..100);
    let few = submit(100..101);
    for thousand in 1..11 {
        submit(thousand * 1_000..(thousand + 1) * 1_000);
    }
    let many = submit(20_000..20_001);
    assert!(many < few + 100, "{few} pages were read with 99 queued jobs, {many} with 10,100");
    store.close();
}
