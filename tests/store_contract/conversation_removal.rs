//! Removing conversations: they are invisible at once, unfinished jobs are cancelled, the sweeper removes
//! the rows, and a new conversation of the same name starts empty.

use super::fixture::Fixture;
use super::messages::{next_history, say, shown};
use crate::support::store::{ANN, BOB, MessagePages, done, id, job, name, turn};
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::{ConversationSummary, History, JobOutcome, JobStatus};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{CancelReason, JobQuery, StoreError};
use nanoclaw::store::options::StoreOptions;

/// Longer than the interval of the sweeper.
const A_LOOK_MS: u64 = 61_000;

fn remove(fixture: &Fixture) -> bool {
    fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap()
}

fn status(fixture: &Fixture, number: u128) -> Option<JobStatus> {
    fixture.store.job(ANN, id(number)).unwrap().map(|job| job.status)
}

fn is_gone(fixture: &Fixture) -> bool {
    fixture.store.conversation(ANN, &name("chat")).unwrap().is_none()
        && shown(&fixture.store, ANN, None, 9).0.is_empty()
}

/// Runs the sweeper until the job is removed; a sweep follows each single write.
pub(crate) fn sweep_until_gone(fixture: &Fixture, number: u128) {
    for _ in 0..1_000 {
        if status(fixture, number).is_none() {
            return;
        }
        fixture.clock.advance(A_LOOK_MS);
        fixture.store.run_retention().unwrap();
    }
    panic!("job {number} was never swept");
}

fn summed_up(number: u128, content: &str) -> JobOutcome {
    let summary = ConversationSummary { content: content.to_owned(), through: 1 };
    JobOutcome { summary: Some(summary), ..done(id(number), "late answer") }
}

#[test]
fn removing_a_conversation_removes_its_jobs_summary_and_usage() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    fixture.submit([turn(2, ANN, "chat"), turn(8, BOB, "chat"), job(9, ANN)]);
    fixture.store.finish(fixture.claim().fence(), vec![], summed_up(2, "secret")).wait().unwrap();
    assert!(remove(&fixture));
    assert!(!remove(&fixture));
    assert!(is_gone(&fixture) && status(&fixture, 1).is_none() && status(&fixture, 2).is_none());
    let cost = fixture.store.conversation_usage(ANN, &name("chat")).unwrap();
    assert!(cost.is_empty(), "{cost:?}");
    assert!(
        shown(&fixture.store, BOB, None, 9).0 == ["?8"] && status(&fixture, 9).is_some(),
        "other jobs stay"
    );
    let fixture = fixture.crash();
    assert!(is_gone(&fixture));
    assert_eq!(next_history(&fixture, 3), [], "a new conversation of this name is empty");
}

#[test]
fn removal_cancels_unfinished_jobs_and_a_late_end_restores_nothing() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    fixture.submit([turn(2, ANN, "chat"), turn(3, ANN, "chat")]);
    let lease = fixture.claim();
    assert!(remove(&fixture));
    assert!(is_gone(&fixture));
    assert_eq!(lease.cancel.reason(), Some(CancelReason::Cancelled));
    assert_eq!(
        (status(&fixture, 2), status(&fixture, 3)),
        (Some(JobStatus::Running), Some(JobStatus::Cancelled))
    );
    let history = fixture.store.history(&lease.job, 9).unwrap();
    assert_eq!(history, History::default(), "the history is removed");

    // A new conversation of the same name, while the old job still runs.
    fixture.submit([turn(4, ANN, "chat")]);
    assert_eq!(shown(&fixture.store, ANN, None, 9).0, ["?4"]);
    fixture.store.finish(lease.fence(), vec![], summed_up(2, "secret")).wait().unwrap();
    assert_eq!(
        status(&fixture, 2),
        Some(JobStatus::Succeeded),
        "a client that waits for the job sees its end"
    );
    assert_eq!(shown(&fixture.store, ANN, None, 9).0, ["?4"]);
    let next = fixture.claim();
    assert_eq!((next.job.id, fixture.store.history(&next.job, 9).unwrap().into_messages()), (id(4), vec![]));
    assert_eq!(fixture.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count, 1);

    sweep_until_gone(&fixture, 2);
    sweep_until_gone(&fixture, 3);
    fixture.store.finish(next.fence(), vec![], done(id(4), "answer 4")).wait().unwrap();
    assert_eq!(
        shown(&fixture.store, ANN, None, 9).0,
        ["?4", "!4"],
        "the sweeper removed nothing of the new conversation"
    );
    assert_eq!(next_history(&fixture, 5), [Message::user("question 4"), Message::assistant("answer 4")]);
}

#[test]
fn p1_a_removed_conversation_stays_removed_after_a_crash() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    fixture.submit([turn(2, ANN, "chat")]);
    fixture.claim();
    assert!(remove(&fixture));
    let fixture = fixture.crash();
    assert!(is_gone(&fixture));
    assert_eq!(status(&fixture, 2), Some(JobStatus::Cancelled));
    assert!(fixture.store.retry(ANN, id(2)).wait().is_err(), "the job has not failed");
    sweep_until_gone(&fixture, 2);
    assert!(is_gone(&fixture.crash()));
}

#[test]
fn a_large_conversation_disappears_at_once_and_its_jobs_are_removed_in_steps() {
    let fixture = Fixture::new();
    let count = 450;
    fixture.store.submit((1..=count).map(|number| turn(number, ANN, "chat")).collect()).wait().unwrap();
    for number in 1..=count {
        fixture.store.cancel(ANN, id(number)).wait().unwrap();
    }
    fixture.clock.advance(1);
    assert!(remove(&fixture));
    assert!(is_gone(&fixture));
    let query = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 1_000 };
    let left: Vec<JobId> = fixture.store.jobs(&query).unwrap().jobs.iter().map(|job| job.id).collect();
    assert_eq!(left.len(), 350, "one transaction does not remove them all");
    say(&fixture, 1_000);
    sweep_until_gone(&fixture, count);
    for number in 1..=count {
        assert_eq!(status(&fixture, number), None);
    }
    let store = fixture.crash().store;
    assert_eq!(shown(&store, ANN, None, 9).0, ["?1000", "!1000"]);
}

#[test]
fn a_job_of_a_removed_conversation_cannot_be_retried() {
    use nanoclaw::domain::event::{Event, FailureCode};
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let lease = fixture.claim();
    assert!(remove(&fixture));
    let event =
        Event::Error { content: "broke".to_owned(), code: FailureCode::Internal, retry_after_ms: None };
    let failed = JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None };
    fixture.store.finish(lease.fence(), vec![], failed).wait().unwrap();
    assert_eq!(fixture.store.retry(ANN, id(1)).wait(), Ok(None));
    assert!(is_gone(&fixture));
}

#[test]
fn an_unreadable_job_fails_its_list_and_blocks_no_removal() {
    use redb::TableDefinition;
    const JOBS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("jobs");
    let mut fixture = Fixture::file();
    for number in 1..=3 {
        say(&fixture, number);
    }
    fixture.store.close();
    let database = redb::Database::open(fixture.path()).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(JOBS).unwrap().insert(id(2).to_bytes().as_slice(), b"\x01{".as_slice()).unwrap();
    writing.commit().unwrap();
    drop(database);
    fixture.reopen(&StoreOptions::default(), &Limits::default());
    let page = fixture.store.message_page(ANN, &name("chat"), None, 9);
    assert!(matches!(page, Err(StoreError::Corrupt(_))), "a list without it would be wrong: {page:?}");
    let ask = super::messages::ask(2);
    assert!(fixture.store.delete_message(ANN, name("chat"), ask).wait().unwrap());
    assert!(remove(&fixture), "it does not block the removal");
    assert!(is_gone(&fixture));
}
