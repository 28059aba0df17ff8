//! Users share the workers: the claim order of a store that has accounts.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::fair_share::FairShare;
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::job::Priority;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{Lease, NewJob};
use nanoclaw::store::options::StoreOptions;

const CAY: UserId = UserId(3);

fn sharing(share: Option<FairShare>) -> StoreOptions {
    StoreOptions { share, ..StoreOptions::default() }
}

/// A store that closes while jobs run counts as a crash.
fn limits() -> Limits {
    Limits { crashes: 100, ..Limits::default() }
}

/// A store for this many regular workers.
fn shared(workers: usize) -> Fixture {
    Fixture::with_options(&sharing(Some(FairShare::of(workers))), &limits())
}

fn urgent(number: u128, user: UserId) -> NewJob {
    let mut new = job(number, user);
    new.spec.priority = Priority::new(0).unwrap();
    new
}

fn finish(fixture: &Fixture, lease: &Lease) {
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
}

#[test]
fn one_user_takes_all_regular_workers_and_never_the_reserve() {
    let fixture = shared(2);
    fixture.submit((1..=4).map(|n| urgent(n, ANN)));
    let leases = fixture.store.claim(10).wait().unwrap();
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [1, 2].map(id));
    assert_eq!(fixture.claim_all(), []);
    fixture.submit([job(10, BOB), job(11, BOB)]);
    assert_eq!(fixture.claim_all(), [id(10)], "the reserve is one worker, whatever the priority");
    finish(&fixture, &leases[0]);
    assert_eq!(fixture.claim_all(), [], "bob's job counts as a regular one now");
    finish(&fixture, &leases[1]);
    assert_eq!(fixture.claim_all(), [id(3)], "ann runs none, and her jobs are urgent");
}

#[test]
fn the_user_with_the_fewest_running_jobs_goes_first() {
    let fixture = shared(6);
    fixture.submit((1..=8).map(|n| job(n, ANN)));
    let first = fixture.store.claim(4).wait().unwrap();
    fixture.submit((11..=14).map(|n| job(n, BOB)));
    fixture.submit((21..=24).map(|n| urgent(n, CAY)));
    assert_eq!(fixture.claim_all(), [21, 11].map(id), "each gets one before anybody gets two");
    for lease in &first {
        finish(&fixture, lease);
    }
    // Ann runs none now, bob and cay one each.
    assert_eq!(
        fixture.claim_all(),
        [5, 22, 6, 12].map(id),
        "then all get their second one, urgent ones first"
    );
}

#[test]
fn a_long_queue_of_a_user_at_the_limit_is_passed() {
    let fixture = shared(1);
    fixture.store.submit((1..=3_000).map(|n| job(n, ANN)).collect()).wait().unwrap();
    assert_eq!(fixture.claim_all(), [id(1)]);
    for number in 5_001..5_050 {
        fixture.submit([job(number, BOB)]);
        let lease = fixture.claim();
        assert_eq!(lease.job.id, id(number));
        finish(&fixture, &lease);
    }
    fixture.submit([job(9_000, CAY)]);
    assert_eq!(fixture.claim_all(), [id(9_000)]);
}

#[test]
fn cancelled_and_released_jobs_do_not_disturb_the_shares() {
    let fixture = shared(1);
    fixture.submit([job(1, ANN), job(2, ANN), job(3, ANN)]);
    let lease = fixture.claim();
    fixture.submit([job(10, BOB), job(11, BOB)]);
    fixture.store.cancel(BOB, id(10)).wait().unwrap();
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    assert_eq!(fixture.claim_all(), [id(11)]);
    fixture.store.release(lease.fence()).wait().unwrap();
    let mut again = fixture.store.claim(10).wait().unwrap();
    assert_eq!(again.pop().map(|lease| lease.job.id), Some(id(1)), "a released job keeps its position");
    assert!(again.is_empty());
}

#[test]
fn jobs_queued_before_the_workers_were_shared_and_after_a_crash_are_found() {
    let share = sharing(Some(FairShare::of(1)));
    let mut fixture = Fixture::with_options(&sharing(None), &limits());
    let claimed = |fixture: &Fixture| -> Vec<JobId> {
        fixture.store.claim(10).wait().unwrap().iter().map(|lease| lease.job.id).collect()
    };
    let first = (1..=3).map(|n| job(n, ANN)).chain([job(11, BOB), job(12, BOB)]).collect();
    fixture.store.submit(first).wait().unwrap();
    fixture.reopen(&share, &limits());
    assert_eq!(claimed(&fixture), [1, 11].map(id));
    // Both jobs were running, so they are queued again.
    fixture.reopen(&share, &limits());
    assert_eq!(claimed(&fixture), [1, 11].map(id));
    fixture.reopen(&sharing(None), &limits());
    assert_eq!(claimed(&fixture).len(), 5);
    fixture.store.submit(vec![job(4, ANN)]).wait().unwrap();
    fixture.reopen(&share, &limits());
    assert_eq!(claimed(&fixture), [1, 11].map(id));
}
