//! Summaries, which replace the oldest turns of a conversation.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, id, turn};
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::job::{ConversationSummary, History, Job, JobOutcome};
use nanoclaw::domain::message::Message;

fn summed_up(number: u128, content: &str, through: u64) -> JobOutcome {
    let summary = ConversationSummary { content: content.to_owned(), through };
    JobOutcome { summary: Some(summary), ..done(id(number), &format!("answer {number}")) }
}

/// Runs a job of the conversation; returns the history that it got.
fn say(fixture: &Fixture, user: UserId, number: u128, ending: JobOutcome) -> History {
    fixture.submit([turn(number, user, "chat")]);
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(number));
    let history = fixture.store.history(&lease.job, 100).unwrap();
    fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
    history
}

fn answered(number: u128) -> JobOutcome {
    done(id(number), &format!("answer {number}"))
}

fn numbers(history: &History) -> Vec<u64> {
    history.turns.iter().map(|turn| turn.number).collect()
}

fn job(fixture: &Fixture, user: UserId, number: u128) -> Job {
    fixture.store.job(user, id(number)).unwrap().unwrap()
}

#[test]
fn a_summary_replaces_the_turns_up_to_its_number() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        say(&fixture, ANN, number, answered(number));
    }
    let history = say(&fixture, ANN, 4, summed_up(4, "one and two", 2));
    assert_eq!((history.summary.as_deref(), numbers(&history)), (None, vec![1, 2, 3]));
    let fixture = fixture.crash();
    let history = say(&fixture, ANN, 5, answered(5));
    assert_eq!((history.summary.as_deref(), numbers(&history)), (Some("one and two"), vec![3, 4]));
    assert_eq!(history.turns[0].messages, [Message::user("question 3"), Message::assistant("answer 3")]);
    let earlier = fixture.store.history(&job(&fixture, ANN, 2), 100).unwrap();
    assert_eq!(
        (earlier.summary, earlier.turns.len()),
        (None, 1),
        "an earlier job does not get a later summary"
    );
    let none = fixture.store.history(&job(&fixture, ANN, 5), 1).unwrap();
    assert_eq!(none.summary.as_deref(), Some("one and two"), "a small limit removes only turns");
    let nothing = History { wants_title: true, ..History::default() };
    assert!(none.turns.is_empty() && say(&fixture, BOB, 6, answered(6)) == nothing, "P7");
}

#[test]
fn a_summary_is_never_replaced_by_one_of_fewer_turns() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        say(&fixture, ANN, number, answered(number));
    }
    say(&fixture, ANN, 4, summed_up(4, "through 3", 3));
    say(&fixture, ANN, 5, summed_up(5, "through 2", 2));
    let history = say(&fixture, ANN, 6, summed_up(6, "another through 3", 3));
    assert_eq!((history.summary.as_deref(), numbers(&history)), (Some("through 3"), vec![4, 5]));
    let history = say(&fixture, ANN, 7, answered(7));
    assert_eq!((history.summary.as_deref(), numbers(&history)), (Some("another through 3"), vec![4, 5, 6]));
}

#[test]
fn deleting_the_last_turn_deletes_the_summary() {
    let fixture = Fixture::new();
    say(&fixture, ANN, 1, answered(1));
    say(&fixture, ANN, 2, summed_up(2, "secret", 1));
    fixture.submit([turn(3, ANN, "chat")]);
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    assert_eq!(fixture.store.history(&job(&fixture, ANN, 3), 9).unwrap().summary.as_deref(), Some("secret"));
    fixture.store.delete(ANN, id(2)).wait().unwrap();
    assert_eq!(
        fixture.store.history(&job(&fixture, ANN, 3), 9).unwrap(),
        History { wants_title: true, ..History::default() }
    );
}
