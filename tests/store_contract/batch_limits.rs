//! Batches among other work: concurrency, quotas, a full queue, and large lines.

use super::batches::{accept, batch, counts, lines, new, shown, work_off};
use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cost, done, id, job};
use nanoclaw::domain::account::{Quota, QuotaKind};
use nanoclaw::domain::batch::BatchStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{AccountChange, BatchError, Lease, QuotaRefusal, SubmitError};

#[test]
fn p8_a_batch_queues_at_most_as_many_jobs_as_its_concurrency() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 10, 3);
    let leases = fixture.store.claim(100).wait().unwrap();
    assert_eq!(leases.len(), 3);
    fixture.store.finish(leases[1].fence(), vec![], done(leases[1].job.id, "x")).wait().unwrap();
    assert_eq!(fixture.claim_all().len(), 1, "one line has ended, so one starts");
}

/// Gives ANN these quotas.
fn set_quota(fixture: &Fixture, quota: Quota) {
    let change = AccountChange { quota: Some(quota), ..AccountChange::default() };
    fixture.store.change_account(ANN, change).wait().unwrap();
}

/// Ends a job that has spent this many tokens.
fn end_with_cost(fixture: &Fixture, lease: &Lease, tokens: u64) {
    let spent = vec![cost(None, Usage::new(tokens, 0))];
    fixture.store.finish(lease.fence(), spent, done(lease.job.id, "x")).wait().unwrap();
}

#[test]
fn p8_a_batch_waits_for_tomorrows_tokens_and_then_runs_every_line() {
    const DAY_MS: u64 = 86_400_000;
    let fixture = Fixture::new();
    set_quota(&fixture, Quota { tokens_per_day: Some(100), ..Quota::default() });
    accept(&fixture, 1, 5, 2);
    let leases = fixture.store.claim(9).wait().unwrap();
    assert_eq!(leases.len(), 2);
    end_with_cost(&fixture, &leases[0], 100);
    assert_eq!(fixture.claim_all(), [], "no line starts once the tokens are spent");
    end_with_cost(&fixture, &leases[1], 10);
    let seen = shown(&fixture, 1);
    assert_eq!((seen.status, seen.counts), (BatchStatus::InProgress, counts(5, 2, 0)));
    assert_eq!(seen.waiting_for, Some(QuotaKind::TokensPerDay));
    assert_eq!(fixture.store.unfinished_count(ANN, 99), Ok(3), "waiting lines are unfinished jobs");
    let fixture = fixture.crash();
    assert_eq!(fixture.store.resume_waiting().wait(), Ok(false));
    assert_eq!(fixture.claim_all(), [], "today there are no more");
    fixture.clock.advance(DAY_MS);
    fixture.store.resume_waiting().wait().unwrap();
    assert_eq!(shown(&fixture, 1).waiting_for, None);
    assert_eq!(work_off(&fixture), 3);
    let ended = shown(&fixture, 1);
    assert_eq!((ended.status, ended.counts), (BatchStatus::Completed, counts(5, 5, 0)));
}

#[test]
fn p8_a_lowered_quota_of_jobs_binds_a_batch_and_a_raised_one_frees_it() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 6, 2);
    let leases = fixture.store.claim(9).wait().unwrap();
    set_quota(&fixture, Quota { unfinished_jobs: Some(1), ..Quota::default() });
    end_with_cost(&fixture, &leases[0], 1);
    assert_eq!(fixture.claim_all(), [], "one job runs, and more may not");
    assert_eq!(shown(&fixture, 1).waiting_for, Some(QuotaKind::UnfinishedJobs));
    end_with_cost(&fixture, &leases[1], 1);
    assert_eq!(fixture.store.claim(9).wait().unwrap().len(), 1, "the next line takes its place");
    set_quota(&fixture, Quota::default());
    fixture.store.resume_waiting().wait().unwrap();
    assert_eq!(fixture.claim_all().len(), 1, "as many as its concurrency allows");
    assert_eq!(shown(&fixture, 1).waiting_for, None);
}

#[test]
fn a_waiting_batch_can_be_cancelled() {
    let fixture = Fixture::new();
    set_quota(&fixture, Quota { tokens_per_day: Some(0), ..Quota::default() });
    accept(&fixture, 1, 3, 3);
    assert_eq!(shown(&fixture, 1).waiting_for, Some(QuotaKind::TokensPerDay));
    let cancelled = fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap().expect("the batch");
    assert_eq!((cancelled.status, cancelled.counts), (BatchStatus::Cancelled, counts(3, 0, 3)));
    assert_eq!(cancelled.waiting_for, None);
    set_quota(&fixture, Quota::default());
    fixture.store.resume_waiting().wait().unwrap();
    assert_eq!((fixture.claim_all().len(), fixture.store.unfinished_count(ANN, 99)), (0, Ok(0)));
}

#[test]
fn a_batch_does_not_starve_jobs_of_another_user() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 1_000, 1_000);
    let mut chat = job(5, BOB);
    chat.spec.priority = job(0, ANN).spec.priority;
    fixture.submit([chat]);
    let first_two: Vec<_> = fixture.store.claim(2).wait().unwrap().iter().map(|lease| lease.job.id).collect();
    assert!(first_two.contains(&id(5)));
}

#[test]
fn a_batch_that_does_not_fit_into_the_queue_is_refused() {
    let fixture = Fixture::with(&Limits { queue_jobs: 5, ..Limits::default() });
    fixture.store.fill((ANN, batch(1)), 0, lines(0, 6)).wait().unwrap();
    let full = fixture.store.accept(new(1, ANN, 6, 2), None).wait();
    assert_eq!(full, Err(BatchError::QueueFull { limit: 5 }));
    fixture.store.abandon(batch(1)).wait().unwrap();
    accept(&fixture, 2, 5, 2);
    assert_eq!(fixture.store.submit(vec![job(1, ANN)]).wait(), Err(SubmitError::QueueFull { limit: 5 }));
    assert_eq!(work_off(&fixture), 5);
    fixture.submit([job(1, ANN)]);
}

#[test]
fn p8_a_batch_beyond_its_owners_quota_of_jobs_is_refused_when_it_is_accepted() {
    let fixture = Fixture::new();
    set_quota(&fixture, Quota { unfinished_jobs: Some(5), ..Quota::default() });
    for number in [1, 2, 3] {
        let count = if number == 1 { 6 } else { 3 };
        fixture.store.fill((ANN, batch(number)), 0, lines(0, count)).wait().unwrap();
    }
    let accepted = |number, count| fixture.store.accept(new(number, ANN, count, 2), None).wait().map(drop);
    let refused =
        |new, unfinished| Err(BatchError::Quota(QuotaRefusal::NewJobs { new, unfinished, limit: 5 }));
    assert_eq!(accepted(1, 6), refused(6, 0));
    assert_eq!((accepted(2, 3), accepted(3, 3)), (Ok(()), refused(3, 3)));
    assert_eq!(work_off(&fixture), 3);
    assert_eq!(accepted(3, 3), Ok(()), "its lines are still there");
}

#[test]
fn p8_large_lines_are_started_a_few_at_a_time_and_all_run() {
    let fixture = Fixture::new();
    let mut heavy = lines(0, 12);
    for line in &mut heavy {
        line.spec.system_prompt = Some("x".repeat(1_000_000));
    }
    fixture.store.fill((ANN, batch(1)), 0, heavy).wait().unwrap();
    fixture.store.accept(new(1, ANN, 12, 12), None).wait().unwrap();
    let first = fixture.store.claim(100).wait().unwrap();
    assert!((4..8).contains(&first.len()), "{}", first.len());
    fixture.store.finish(first[0].fence(), vec![], done(first[0].job.id, "x")).wait().unwrap();
    let second = fixture.store.claim(100).wait().unwrap();
    assert!(!second.is_empty(), "an end makes room for more lines");
    for lease in first.iter().skip(1).chain(&second) {
        fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    }
    work_off(&fixture);
    assert_eq!(shown(&fixture, 1).counts, counts(12, 12, 0));
}

#[test]
fn p8_lines_without_a_job_count_as_unfinished_jobs_of_their_user() {
    let fixture = Fixture::new();
    accept(&fixture, 1, 50, 2);
    fixture.submit([job(100, ANN), job(101, BOB)]);
    let count = |user, limit| fixture.store.unfinished_count(user, limit).unwrap();
    assert_eq!((count(ANN, 100), count(ANN, 7), count(BOB, 100)), (51, 7, 1));
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    assert_eq!(count(ANN, 100) + count(BOB, 100), 51);
    fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap();
    assert!(count(ANN, 100) <= 1, "a cancelled batch has no open lines");
    work_off(&fixture);
    assert_eq!((count(ANN, 100), count(BOB, 100)), (0, 0));
}
