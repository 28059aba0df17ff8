//! Messages of a conversation: order, pages and deletion.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, MessagePages, delta, done, id, name, turn};
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::job::{ConversationSummary, JobOutcome, JobStatus};
use nanoclaw::domain::message::Message;
use nanoclaw::domain::steps;
use nanoclaw::ports::{ChatMessage, ConversationError, Lease, MessageRef, NodeStore};
use std::sync::Arc;

pub(crate) fn ask(number: u128) -> MessageRef {
    MessageRef::Ask(id(number).ask_id())
}

pub(crate) fn answer(number: u128) -> MessageRef {
    MessageRef::Answer(id(number).message_id())
}

/// The messages of a page: `?3` is the question of job 3, `!3` is its answer.
pub(crate) fn shown(
    store: &Arc<dyn NodeStore>,
    user: UserId,
    after: Option<MessageRef>,
    limit: usize,
) -> (Vec<String>, bool) {
    let page = store.message_page(user, &name("chat"), after, limit).unwrap();
    let number = |job: JobId| u128::from_be_bytes(job.to_bytes());
    let show = |message: &ChatMessage| match message {
        ChatMessage::Ask { id, .. } => format!("?{}", number(id.job())),
        ChatMessage::Answer { job, .. } => format!("!{}", number(job.id)),
    };
    (page.messages.iter().map(show).collect(), page.has_more)
}

/// All messages.
fn all(fixture: &Fixture) -> Vec<String> {
    shown(&fixture.store, ANN, None, 100).0
}

/// Runs a job of the conversation to its end.
pub(crate) fn say(fixture: &Fixture, number: u128) {
    fixture.submit([turn(number, ANN, "chat")]);
    let lease = fixture.claim();
    end(fixture, &lease, number);
}

fn end(fixture: &Fixture, lease: &Lease, number: u128) {
    let ending = done(id(number), &format!("answer {number}"));
    fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
}

/// The history that the next job of the conversation would get.
pub(crate) fn next_history(fixture: &Fixture, number: u128) -> Vec<Message> {
    fixture.submit([turn(number, ANN, "chat")]);
    let job = fixture.store.job(ANN, id(number)).unwrap().unwrap();
    let history = fixture.store.history(&job, 100).unwrap();
    let messages = history.summary.clone().map(Message::assistant).into_iter().chain(history.into_messages());
    let messages = messages.collect();
    fixture.store.cancel(ANN, id(number)).wait().unwrap();
    fixture.store.delete(ANN, id(number)).wait().unwrap();
    messages
}

fn delete(fixture: &Fixture, message: MessageRef) -> Result<bool, ConversationError> {
    fixture.store.delete_message(ANN, name("chat"), message).wait()
}

fn count(fixture: &Fixture) -> u64 {
    fixture.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count
}

#[test]
fn messages_are_listed_in_pairs_in_order_of_the_questions() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    fixture.submit([turn(3, ANN, "chat"), turn(2, ANN, "chat")]);
    assert_eq!(all(&fixture), ["?1", "!1", "?3", "?2"], "a queued job has no answer");
    let lease = fixture.claim();
    fixture
        .store
        .append(lease.fence(), vec![delta(0, 0, "so far")], nanoclaw::ports::Urgency::Now)
        .wait()
        .unwrap();
    let page = fixture.store.message_page(ANN, &name("chat"), Some(ask(3)), 1).unwrap();
    let [ChatMessage::Answer { job, steps, answer, .. }] = &page.messages[..] else { panic!("{page:?}") };
    assert_eq!((job.status, answer.len()), (JobStatus::Running, 0));
    assert_eq!(steps::answer(steps), "so far");
    let page = fixture.store.message_page(ANN, &name("chat"), None, 1).unwrap();
    let [ChatMessage::Ask { created_at_ms, messages, .. }] = &page.messages[..] else { panic!("{page:?}") };
    assert_eq!((*created_at_ms, &messages[..]), (1_000_000, &[Message::user("question 1")][..]));
    end(&fixture, &lease, 3);
    assert_eq!(all(&fixture.crash()), ["?1", "!1", "?3", "!3", "?2"]);
    assert_eq!(shown(&fixture.store, BOB, None, 9).0, [""; 0], "P7");
}

#[test]
fn pages_stay_consistent_while_messages_are_added_and_deleted() {
    let fixture = Fixture::new();
    for number in 1..=4 {
        say(&fixture, number);
    }
    let page = |after, limit| shown(&fixture.store, ANN, after, limit);
    let strings = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    assert_eq!(page(None, 3), (strings(&["?1", "!1", "?2"]), true));
    assert_eq!(page(Some(ask(2)), 2), (strings(&["!2", "?3"]), true));
    assert!(delete(&fixture, ask(3)).unwrap());
    assert_eq!(page(Some(ask(3)), 2), (strings(&["!3", "?4"]), true), "the answer of the pair remains");
    assert!(delete(&fixture, answer(3)).unwrap());
    assert_eq!(page(Some(ask(3)), 9), (strings(&["?4", "!4"]), false), "the whole pair is deleted");
    assert_eq!(page(Some(answer(3)), 1), (strings(&["?4"]), true));
    say(&fixture, 5);
    assert_eq!(page(Some(answer(4)), 2), (strings(&["?5", "!5"]), false));
    assert_eq!(page(Some(answer(5)), 2), (strings(&[]), false));
}

#[test]
fn a_page_of_messages_is_limited_in_bytes_and_never_empty() {
    let fixture = Fixture::new();
    let large = |number| {
        let mut new = turn(number, ANN, "chat");
        new.spec.input = vec![Message::user("x".repeat(600 << 10))];
        new
    };
    for number in 1..=3 {
        fixture.submit([large(number)]);
    }
    let (first, has_more) = shown(&fixture.store, ANN, None, 100);
    assert_eq!((&first[..], has_more), (&["?1".to_owned(), "?2".to_owned()][..], true));
    assert_eq!(shown(&fixture.store, ANN, Some(ask(2)), 100), (vec!["?3".to_owned()], false));
}

#[test]
fn a_deleted_message_is_neither_listed_nor_sent_to_models() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        say(&fixture, number);
    }
    assert_eq!((delete(&fixture, ask(2)), count(&fixture)), (Ok(true), 5));
    assert_eq!(delete(&fixture, ask(2)), Ok(false), "already deleted");
    assert_eq!(all(&fixture), ["?1", "!1", "!2", "?3", "!3"]);
    let [q1, a1, a2, q3, a3] = [
        Message::user("question 1"),
        Message::assistant("answer 1"),
        Message::assistant("answer 2"),
        Message::user("question 3"),
        Message::assistant("answer 3"),
    ];
    assert_eq!(next_history(&fixture, 101), [q1.clone(), a1.clone(), a2, q3.clone(), a3.clone()]);
    assert_eq!(delete(&fixture, answer(3)), Ok(true));
    assert_eq!(delete(&fixture, answer(2)), Ok(true));
    assert_eq!(fixture.store.job(ANN, id(2)).unwrap(), None, "deleting both messages deletes the job");
    assert_eq!((next_history(&fixture, 102), count(&fixture)), (vec![q1, a1.clone(), q3.clone()], 3));
    assert_eq!(delete(&fixture, ask(1)), Ok(true));
    assert_eq!(next_history(&fixture, 103), [q3], "a history never starts with an answer");
    assert_eq!(all(&fixture.crash()), ["!1", "?3"]);
    assert_eq!(delete(&fixture, answer(99)), Ok(false));
    assert_eq!(fixture.store.delete_message(BOB, name("chat"), answer(1)).wait(), Ok(false), "P7");
}

#[test]
fn a_message_cannot_be_deleted_before_its_job_has_ended() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let refused = |status| Err(ConversationError::WrongState { status });
    assert_eq!(delete(&fixture, ask(1)), refused(JobStatus::Queued));
    let lease = fixture.claim();
    assert_eq!(delete(&fixture, answer(1)), refused(JobStatus::Running));
    end(&fixture, &lease, 1);
    assert_eq!(delete(&fixture, ask(1)), Ok(true));
}

fn summed_up(number: u128, content: &str, through: u64) -> JobOutcome {
    let summary = ConversationSummary { content: content.to_owned(), through };
    JobOutcome { summary: Some(summary), ..done(id(number), &format!("answer {number}")) }
}

#[test]
fn deleting_a_message_drops_its_summary_and_refuses_a_later_stale_one() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    say(&fixture, 2);
    fixture.submit([turn(3, ANN, "chat")]);
    fixture.store.finish(fixture.claim().fence(), vec![], summed_up(3, "of one", 1)).wait().unwrap();
    assert_eq!(delete(&fixture, answer(2)), Ok(true));
    assert_eq!(
        next_history(&fixture, 101)[0],
        Message::assistant("of one"),
        "the summary does not cover the second turn"
    );
    fixture.submit([turn(4, ANN, "chat"), turn(5, ANN, "chat")]);
    let lease = fixture.claim();
    assert_eq!(delete(&fixture, answer(1)), Ok(true));
    fixture.store.finish(lease.fence(), vec![], summed_up(4, "knows the first", 2)).wait().unwrap();
    let retained = [1, 2].map(|n| Message::user(format!("question {n}")));
    let history = |number| {
        let job = fixture.store.job(ANN, id(number)).unwrap().unwrap();
        fixture.store.history(&job, 100).unwrap()
    };
    assert_eq!((history(5).summary.clone(), &history(5).into_messages()[..2]), (None, &retained[..]));
    end(&fixture, &fixture.claim(), 5);
    fixture.submit([turn(6, ANN, "chat"), turn(7, ANN, "chat")]);
    fixture.store.finish(fixture.claim().fence(), vec![], summed_up(6, "fresh", 3)).wait().unwrap();
    assert_eq!(
        history(7).summary.as_deref(),
        Some("fresh"),
        "a later summary covers only the remaining messages"
    );
}

#[test]
fn a_retried_job_moves_to_the_end_and_its_stale_summary_is_ignored() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    fixture.submit([turn(2, ANN, "chat")]);
    let event =
        Event::Error { content: "broke".to_owned(), code: FailureCode::Internal, retry_after_ms: None };
    let failed = JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None };
    fixture.store.finish(fixture.claim().fence(), vec![], failed).wait().unwrap();
    say(&fixture, 3);
    assert_eq!(count(&fixture), 6);
    assert_eq!(delete(&fixture, answer(1)), Ok(true));
    fixture.store.retry(ANN, id(2)).wait().unwrap().unwrap();
    assert_eq!(
        (all(&fixture), count(&fixture)),
        (["?1", "?3", "!3", "?2", "!2"].map(str::to_owned).to_vec(), 4)
    );
    fixture.store.finish(fixture.claim().fence(), vec![], summed_up(2, "knows the first", 1)).wait().unwrap();
    assert_eq!((next_history(&fixture, 101)[0].clone(), count(&fixture)), (Message::user("question 1"), 5));
}

#[test]
fn p9_deleting_an_answer_deletes_its_text_everywhere() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let lease = fixture.claim();
    let records = vec![delta(0, 0, "the secret")];
    fixture.store.append(lease.fence(), records, nanoclaw::ports::Urgency::Now).wait().unwrap();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "the secret")).wait().unwrap();
    let shows = |message| fixture.store.has_message(ANN, &name("chat"), message).unwrap();
    assert_eq!((shows(ask(1)), shows(answer(1)), shows(answer(9))), (true, true, false));
    assert_eq!(fixture.store.has_message(BOB, &name("chat"), answer(1)), Ok(false), "P7");
    assert_eq!(fixture.store.has_message(ANN, &name("other"), answer(1)), Ok(false));
    assert_eq!(fixture.store.output(id(1)), Ok(Some("the secret".to_owned())));
    let last = fixture.store.events(id(1), 0, 100).unwrap().events.pop().unwrap();

    assert_eq!(delete(&fixture, answer(1)), Ok(true));
    assert_eq!((shows(ask(1)), shows(answer(1))), (true, false));
    let fixture = fixture.crash();
    assert_eq!(fixture.store.output(id(1)), Ok(Some(String::new())));
    assert_eq!(
        fixture.store.events(id(1), 0, 100).unwrap().events,
        [last],
        "only the terminal event remains"
    );
    assert_eq!(fixture.store.log(id(1)).unwrap().len(), 1);
    assert_eq!(all(&fixture), ["?1"]);
}

#[test]
fn p7_a_job_shows_no_input_after_its_question_was_deleted() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    let input = || fixture.store.job(ANN, id(1)).unwrap().unwrap().input;
    assert_eq!(input().map(|input| input.text).as_deref(), Some("question 1"));
    assert_eq!(fixture.store.delete_message(ANN, name("chat"), ask(1)).wait(), Ok(true));
    assert_eq!(input(), None);
}
