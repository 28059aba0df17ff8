//! Lists of jobs.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::ports::JobQuery;

const ALL: JobQuery = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 4 };

fn page(fixture: &Fixture, query: &JobQuery) -> (Vec<JobId>, Option<u64>) {
    let page = fixture.store.jobs(query).unwrap();
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
    let (first, next) = page(&fixture, &ALL);
    assert_eq!(first, [90, 91, 92, 93].map(id));
    // The last job of a page may be deleted before the next page is read.
    fixture.store.cancel(ANN, id(93)).wait().unwrap();
    fixture.store.delete(ANN, id(93)).wait().unwrap();
    let (second, next) = page(&fixture, &JobQuery { before: next, ..ALL });
    assert_eq!(second, [94, 95, 96, 97].map(id));
    assert_eq!(page(&fixture, &JobQuery { before: next, ..ALL }), ([98, 99].map(id).into(), None));
    let all = JobQuery { before: Some(u64::MAX), user: BOB, ..ALL };
    assert_eq!(
        page(&fixture, &all),
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
    let of = |status| page(&fixture, &JobQuery { status: Some(status), ..ALL }).0;
    assert_eq!(of(JobStatus::Succeeded), [id(1)]);
    assert_eq!(of(JobStatus::Running), [id(2)]);
    assert_eq!(of(JobStatus::Queued), [id(3)]);
    assert_eq!(of(JobStatus::Failed), []);
}

/// All pages of a filter: the jobs, and the number of pages.
fn all_pages(fixture: &Fixture, filter: &JobFilter) -> (Vec<JobId>, usize) {
    let (mut found, mut pages, mut before) = (Vec::new(), 0, None);
    loop {
        let (ids, next) = page(fixture, &JobQuery { filter: filter.clone(), before, ..ALL });
        found.extend(ids);
        pages += 1;
        if next.is_none() {
            return (found, pages);
        }
        before = next;
    }
}

#[test]
fn p8_a_filtered_page_reads_a_bounded_number_of_rows_and_its_cursor_continues_there() {
    let fixture = Fixture::new();
    let labelled = |n: u128| {
        let mut job = job(n, ANN);
        if n % 1_000 == 5 {
            job.spec.metadata.insert("team".to_owned(), "blue".to_owned());
        }
        job
    };
    fixture.submit((1..=2_500).map(labelled));
    let filter = JobFilter { label: Some("team=blue".to_owned()), ..JobFilter::NONE };
    let (found, pages) = all_pages(&fixture, &filter);
    assert_eq!(found, [2_005, 1_005, 5].map(id));
    assert_eq!(pages, 3, "each page reads a thousand rows");
    let none = JobFilter { model: Some("another".to_owned()), ..JobFilter::NONE };
    assert_eq!(all_pages(&fixture, &none), (vec![], 3));
}

#[test]
fn filters_by_conversation_model_label_and_time_hold_together() {
    let fixture = Fixture::new();
    let build = |n: u128| {
        let mut job = job(n, ANN);
        job.created_at_ms = u64::try_from(n).unwrap() * 1_000;
        job.spec.model = if n.is_multiple_of(2) { "even" } else { "odd" }.to_owned();
        if n > 3 {
            job.spec.conversation_id = Some("chat".to_owned().try_into().unwrap());
        }
        job.spec.metadata.insert("third".to_owned(), (n % 3).to_string());
        job
    };
    fixture.submit((1..=9).map(build));
    let of = |filter: JobFilter| all_pages(&fixture, &filter).0;
    let chat = || Some("chat".to_owned().try_into().unwrap());
    assert_eq!(of(JobFilter { conversation: chat(), ..JobFilter::NONE }), [9, 8, 7, 6, 5, 4].map(id));
    assert_eq!(of(JobFilter { model: Some("odd".to_owned()), ..JobFilter::NONE }), [9, 7, 5, 3, 1].map(id));
    assert_eq!(of(JobFilter { label: Some("third=0".to_owned()), ..JobFilter::NONE }), [9, 6, 3].map(id));
    let time = JobFilter { created_from_ms: Some(2_000), created_before_ms: Some(8_000), ..JobFilter::NONE };
    assert_eq!(of(time.clone()), [7, 6, 5, 4, 3, 2].map(id));
    let all = JobFilter { conversation: chat(), model: Some("odd".to_owned()), ..time };
    assert_eq!(of(all.clone()), [7, 5].map(id));
    let of_bob = JobQuery { user: BOB, filter: all, ..ALL };
    assert_eq!(page(&fixture, &of_bob), (vec![], None), "p7");
}
