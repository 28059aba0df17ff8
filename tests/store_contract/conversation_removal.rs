//! Removing conversations: what is out of reach at once, what ends first, what the sweeper clears, and that nothing comes
//! back under the same name.

use super::fixture::{Rig, open};
use super::messages::{say, shown, told};
use crate::support::store::{ANN, BOB, HandClock, done, id, job, name, turn};
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::{ConversationSummary, History, JobOutcome, JobStatus};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{Accounts, CancelReason, Conversations, JobQuery, Store};
use std::sync::Arc;

/// Longer than the sweeper waits between two looks.
const A_LOOK_MS: u64 = 61_000;

fn remove(rig: &Rig) -> bool {
    rig.store.remove_conversation(ANN, name("chat")).wait().unwrap()
}

fn status(rig: &Rig, number: u128) -> Option<JobStatus> {
    rig.store.job(ANN, id(number)).unwrap().map(|job| job.status)
}

fn is_gone(rig: &Rig) -> bool {
    rig.store.conversation(ANN, &name("chat")).unwrap().is_none()
        && shown(&rig.store, ANN, None, 9).0.is_empty()
}

/// Lets the sweeper look until the job is gone; a look follows a write that is alone.
pub(crate) fn sweep_until_gone(rig: &Rig, number: u128) {
    for _ in 0..1_000 {
        if status(rig, number).is_none() {
            return;
        }
        rig.clock.advance(A_LOOK_MS);
        rig.store.probe().wait().unwrap();
    }
    panic!("job {number} was never swept");
}

fn summed_up(number: u128, content: &str) -> JobOutcome {
    let summary = ConversationSummary { content: content.to_owned(), through: 1 };
    JobOutcome { summary: Some(summary), ..done(id(number), "late answer") }
}

#[test]
fn a_conversation_goes_with_its_jobs_and_its_summary_and_its_cost() {
    let rig = Rig::new();
    say(&rig, 1);
    rig.submit([turn(2, ANN, "chat"), turn(8, BOB, "chat"), job(9, ANN)]);
    rig.store.finish(rig.claim().fence(), vec![], summed_up(2, "secret")).wait().unwrap();
    assert!(remove(&rig));
    assert!(!remove(&rig));
    assert!(is_gone(&rig) && status(&rig, 1).is_none() && status(&rig, 2).is_none());
    let cost = rig.store.conversation_usage(ANN, &name("chat")).unwrap();
    assert!(cost.is_empty(), "{cost:?}");
    assert!(shown(&rig.store, BOB, None, 9).0 == ["?8"] && status(&rig, 9).is_some(), "others stay");
    let rig = rig.crash();
    assert!(is_gone(&rig));
    assert_eq!(told(&rig, 3), [], "a new one of this name knows nothing");
}

#[test]
fn jobs_that_have_not_ended_are_cancelled_and_a_late_end_brings_nothing_back() {
    let rig = Rig::new();
    say(&rig, 1);
    rig.submit([turn(2, ANN, "chat"), turn(3, ANN, "chat")]);
    let lease = rig.claim();
    assert!(remove(&rig));
    assert!(is_gone(&rig));
    assert_eq!(lease.cancel.reason(), Some(CancelReason::Cancelled));
    assert_eq!((status(&rig, 2), status(&rig, 3)), (Some(JobStatus::Running), Some(JobStatus::Cancelled)));
    let history = rig.store.history(&lease.job, 9).unwrap();
    assert_eq!(history, History::default(), "its history is gone");

    // Another one of the name, behind the job that still runs.
    rig.submit([turn(4, ANN, "chat")]);
    assert_eq!(shown(&rig.store, ANN, None, 9).0, ["?4"]);
    rig.store.finish(lease.fence(), vec![], summed_up(2, "secret")).wait().unwrap();
    assert_eq!(status(&rig, 2), Some(JobStatus::Succeeded), "whoever waits for it sees its end");
    assert_eq!(shown(&rig.store, ANN, None, 9).0, ["?4"]);
    let next = rig.claim();
    assert_eq!((next.job.id, rig.store.history(&next.job, 9).unwrap().into_messages()), (id(4), vec![]));
    assert_eq!(rig.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count, 1);

    sweep_until_gone(&rig, 2);
    sweep_until_gone(&rig, 3);
    rig.store.finish(next.fence(), vec![], done(id(4), "answer 4")).wait().unwrap();
    assert_eq!(shown(&rig.store, ANN, None, 9).0, ["?4", "!4"], "the sweeper took nothing of the new one");
    assert_eq!(told(&rig, 5), [Message::user("question 4"), Message::assistant("answer 4")]);
}

#[test]
fn p1_a_crash_after_the_removal_brings_nothing_back() {
    let rig = Rig::new();
    say(&rig, 1);
    rig.submit([turn(2, ANN, "chat")]);
    rig.claim();
    assert!(remove(&rig));
    let rig = rig.crash();
    assert!(is_gone(&rig));
    assert_eq!(status(&rig, 2), Some(JobStatus::Cancelled));
    assert!(rig.store.retry(ANN, id(2)).wait().is_err(), "it has not failed");
    sweep_until_gone(&rig, 2);
    assert!(is_gone(&rig.crash()));
}

#[test]
fn a_large_conversation_is_out_of_reach_at_once_and_its_jobs_go_piece_by_piece() {
    let rig = Rig::new();
    let most = 450;
    rig.store.submit((1..=most).map(|number| turn(number, ANN, "chat")).collect()).wait().unwrap();
    for number in 1..=most {
        rig.store.cancel(ANN, id(number)).wait().unwrap();
    }
    rig.clock.advance(1);
    assert!(remove(&rig));
    assert!(is_gone(&rig));
    let query = JobQuery { user: ANN, status: None, parent: None, before: None, limit: 1_000 };
    let left: Vec<JobId> = rig.store.jobs(&query).unwrap().jobs.iter().map(|job| job.id).collect();
    assert_eq!(left.len(), 350, "one transaction does not take them all");
    say(&rig, 1_000);
    sweep_until_gone(&rig, most);
    for number in 1..=most {
        assert_eq!(status(&rig, number), None);
    }
    let store = rig.crash().store;
    assert_eq!(shown(&store, ANN, None, 9).0, ["?1000", "!1000"]);
}

#[test]
fn a_job_of_a_removed_conversation_is_not_tried_again() {
    use nanoclaw::domain::event::{Event, FailureCode};
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat")]);
    let lease = rig.claim();
    assert!(remove(&rig));
    let event = Event::Error { content: "broke".to_owned(), code: FailureCode::Internal };
    let failed = JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None };
    rig.store.finish(lease.fence(), vec![], failed).wait().unwrap();
    assert_eq!(rig.store.retry(ANN, id(1)).wait(), Ok(None));
    assert!(is_gone(&rig));
}

#[test]
fn a_job_that_is_set_aside_hides_no_other_message() {
    use redb::TableDefinition;
    const JOBS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("jobs");
    let rig = Rig::new();
    for number in 1..=3 {
        say(&rig, number);
    }
    rig.store.close();
    let database = redb::Database::open(rig.path()).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(JOBS).unwrap().insert(id(2).to_bytes().as_slice(), b"\x01{".as_slice()).unwrap();
    writing.commit().unwrap();
    drop(database);
    let store = open(&rig.path(), &Limits::default(), HandClock::new()).unwrap();
    let rig = Rig { store, clock: Arc::clone(&rig.clock), dir: rig.dir };
    assert_eq!(shown(&rig.store, ANN, None, 9).0, ["?1", "!1", "?2", "?3", "!3"]);
    let again = shown(&rig.store, ANN, Some(super::messages::ask(2)), 9).0;
    assert_eq!(again, ["?3", "!3"], "and its id leads on");
    let ask = super::messages::ask(2);
    assert!(rig.store.delete_message(ANN, name("chat"), ask).wait().unwrap());
    assert!(remove(&rig), "nor does it keep the conversation from going");
    assert!(is_gone(&rig));
}
