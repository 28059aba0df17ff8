//! Lists of jobs.

use super::fixture::Rig;
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::ports::{JobQuery, Store};

const ALL: JobQuery = JobQuery { user: ANN, status: None, parent: None, before: None, limit: 4 };

fn page(rig: &Rig, query: JobQuery) -> (Vec<JobId>, Option<u64>) {
    let page = rig.store.jobs(&query).unwrap();
    (page.jobs.iter().map(|job| job.id).collect(), page.next)
}

#[test]
fn jobs_are_listed_newest_first_page_by_page_without_repeats() {
    let rig = Rig::new();
    // Ids fall while acceptance rises: the order is that of acceptance.
    rig.submit((1..=10).map(|n| job(100 - n, ANN)));
    rig.submit([job(200, BOB)]);
    let lease = rig.claim();
    rig.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    rig.claim();
    let (first, next) = page(&rig, ALL);
    assert_eq!(first, [90, 91, 92, 93].map(id));
    // A page's end may be deleted before the next one is asked for.
    rig.store.cancel(ANN, id(93)).wait().unwrap();
    rig.store.delete(ANN, id(93)).wait().unwrap();
    let (second, next) = page(&rig, JobQuery { before: next, ..ALL });
    assert_eq!(second, [94, 95, 96, 97].map(id));
    assert_eq!(page(&rig, JobQuery { before: next, ..ALL }), ([98, 99].map(id).into(), None));
    let all = JobQuery { before: Some(u64::MAX), user: BOB, ..ALL };
    assert_eq!(page(&rig, all), (vec![id(200)], None), "p7: a cursor is a place, and shows only one's own");
}

#[test]
fn a_list_of_one_state_shows_only_that_state() {
    let rig = Rig::new();
    rig.submit((1..=3).map(|n| job(n, ANN)));
    let lease = rig.claim();
    rig.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    rig.claim();
    let of = |status| page(&rig, JobQuery { status: Some(status), ..ALL }).0;
    assert_eq!(of(JobStatus::Succeeded), [id(1)]);
    assert_eq!(of(JobStatus::Running), [id(2)]);
    assert_eq!(of(JobStatus::Queued), [id(3)]);
    assert_eq!(of(JobStatus::Failed), []);
}
