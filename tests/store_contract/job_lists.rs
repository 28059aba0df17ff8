//! Lists of jobs.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::ports::{JobQuery, Store};

const ALL: JobQuery = JobQuery { user: ANN, status: None, parent: None, before: None, limit: 4 };

fn page(fixture: &Fixture, query: JobQuery) -> (Vec<JobId>, Option<u64>) {
    let page = fixture.store.jobs(&query).unwrap();
    (page.jobs.iter().map(|job| job.id).collect(), page.next)
}

#[test]
fn jobs_are_listed_newest_first_in_pages_without_repeats() {
    let fixture = Fixture::new();
    // Ids fall with acceptance, so the test shows that the order is that of acceptance.
    fixture.submit((1..=10).map(|n| job(100 - n, ANN)));
    fixture.submit([job(200, BOB)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    fixture.claim();
    let (first, next) = page(&fixture, ALL);
    assert_eq!(first, [90, 91, 92, 93].map(id));
    // The last job of a page may be deleted before the next page is read.
    fixture.store.cancel(ANN, id(93)).wait().unwrap();
    fixture.store.delete(ANN, id(93)).wait().unwrap();
    let (second, next) = page(&fixture, JobQuery { before: next, ..ALL });
    assert_eq!(second, [94, 95, 96, 97].map(id));
    assert_eq!(page(&fixture, JobQuery { before: next, ..ALL }), ([98, 99].map(id).into(), None));
    let all = JobQuery { before: Some(u64::MAX), user: BOB, ..ALL };
    assert_eq!(
        page(&fixture, all),
        (vec![id(200)], None),
        "p7: a cursor is only a position and shows no jobs of other users"
    );
}

#[test]
fn a_list_filtered_by_state_shows_only_that_state() {
    let fixture = Fixture::new();
    fixture.submit((1..=3).map(|n| job(n, ANN)));
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    fixture.claim();
    let of = |status| page(&fixture, JobQuery { status: Some(status), ..ALL }).0;
    assert_eq!(of(JobStatus::Succeeded), [id(1)]);
    assert_eq!(of(JobStatus::Running), [id(2)]);
    assert_eq!(of(JobStatus::Queued), [id(3)]);
    assert_eq!(of(JobStatus::Failed), []);
}
