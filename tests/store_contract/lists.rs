//! Lists of jobs.

use crate::kit::{ANN, BOB, done, id, job};
use crate::rig::Rig;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::ports::{JobQuery, Store};

const ALL: JobQuery = JobQuery { user: ANN, status: None, before: None, limit: 4 };

fn page(rig: &Rig, query: JobQuery) -> (Vec<JobId>, bool) {
    let page = rig.store.jobs(&query).unwrap();
    (page.jobs.iter().map(|job| job.id).collect(), page.has_more)
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
    assert_eq!(page(&rig, ALL), ([90, 91, 92, 93].map(id).into(), true));
    assert_eq!(page(&rig, JobQuery { before: Some(id(93)), ..ALL }), ([94, 95, 96, 97].map(id).into(), true));
    assert_eq!(page(&rig, JobQuery { before: Some(id(97)), ..ALL }), ([98, 99].map(id).into(), false));
    assert_eq!(
        page(&rig, JobQuery { before: Some(id(200)), ..ALL }),
        (vec![], false),
        "p7: a foreign cursor"
    );
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
