//! Regenerating an answer: which messages are removed and which stay, in which order.

use super::conversation_removal::sweep_until_gone;
use super::fixture::Fixture;
use super::messages::{answer, ask, next_history, say, shown};
use crate::support::store::{ANN, BOB, MessagePages, done, id, job, name, turn};
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::image::{Image, ImageType};
use nanoclaw::domain::job::{ConversationSummary, Job, JobOutcome, JobStatus};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::stored_file::ContentDigest;
use nanoclaw::ports::{ChatMessage, ConversationError, Idempotent, MessageRef, RegenerateRequest};
use std::ops::RangeInclusive;

fn again(fixture: &Fixture, user: UserId, old: u128, new: u128) -> Result<Option<Job>, ConversationError> {
    let mut new = job(new, user);
    new.spec.input = vec![Message::user("not this")];
    new.created_at_ms = 2_000_000;
    let again =
        RegenerateRequest { answer: id(old).message_id(), job: new, replaces_question: false, key: None };
    Ok(fixture.store.regenerate(user, name("chat"), again).wait()?.map(|stored| match stored {
        Idempotent::New(job) | Idempotent::Replayed(job) => job,
    }))
}

fn all(fixture: &Fixture) -> Vec<String> {
    shown(&fixture.store, ANN, None, 100).0
}

fn count(fixture: &Fixture) -> u64 {
    fixture.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count
}

#[test]
fn regenerate_removes_the_answer_and_later_messages_and_keeps_the_question() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        say(&fixture, number);
    }
    let new = again(&fixture, ANN, 2, 4).unwrap().unwrap();
    assert_eq!(
        (new.status, new.conversation_id, count(&fixture)),
        (JobStatus::Queued, Some(name("chat")), 3)
    );
    assert_eq!([2, 3].map(|removed| fixture.store.job(ANN, id(removed)).unwrap()), [None, None]);

    let fixture = fixture.crash();
    assert_eq!(all(&fixture), ["?1", "!1", "?2"]);
    let page = fixture.store.message_page(ANN, &name("chat"), Some(answer(1)), 1).unwrap();
    let [ChatMessage::Ask { created_at_ms, messages, .. }] = &page.messages[..] else { panic!("{page:?}") };
    assert_eq!((*created_at_ms, &messages[..]), (1_000_000, &[Message::user("question 2")][..]));
    let lease = fixture.claim();
    assert_eq!((lease.job.id, &lease.spec.input[..]), (id(4), &[Message::user("question 2")][..]));
    let told_now = fixture.store.history(&lease.job, 9).unwrap().into_messages();
    assert_eq!(told_now, [Message::user("question 1"), Message::assistant("answer 1")]);
    fixture.store.finish(lease.fence(), vec![], done(id(4), "better")).wait().unwrap();
    assert_eq!(all(&fixture), ["?1", "!1", "?2", "!4"]);
    assert_eq!(shown(&fixture.store, ANN, Some(ask(2)), 9).0, ["!4"], "an old cursor still works");
    assert_eq!(shown(&fixture.store, ANN, Some(answer(2)), 9).0, ["!4"], "an old cursor repeats no question");
    assert_eq!(next_history(&fixture, 101)[2..], [Message::user("question 2"), Message::assistant("better")]);

    again(&fixture, ANN, 4, 5).unwrap().unwrap();
    assert_eq!(all(&fixture), ["?1", "!1", "?2"], "the question keeps its id after every regeneration");
}

#[test]
fn regenerate_is_refused_while_a_job_of_the_conversation_is_unfinished() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    fixture.submit([turn(2, ANN, "chat")]);
    let refused = |status| Err(ConversationError::WrongState { status });
    assert_eq!(again(&fixture, ANN, 1, 9), refused(JobStatus::Queued));
    let lease = fixture.claim();
    assert_eq!(again(&fixture, ANN, 1, 9), refused(JobStatus::Running));
    assert_eq!(again(&fixture, ANN, 2, 9), refused(JobStatus::Running));
    fixture.store.finish(lease.fence(), vec![], done(id(2), "answer 2")).wait().unwrap();
    assert_eq!(all(&fixture), ["?1", "!1", "?2", "!2"], "a refused regenerate changes nothing");
    assert!(again(&fixture, ANN, 1, 9).unwrap().is_some());
}

#[test]
fn regenerate_finds_only_answers_of_the_conversation() {
    let fixture = Fixture::with(&Limits { queue_jobs: 1, ..Limits::default() });
    say(&fixture, 1);
    fixture.submit([turn(2, BOB, "chat")]);
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(2), "his")).wait().unwrap();
    fixture.submit([turn(3, ANN, "other")]);
    assert_eq!(again(&fixture, ANN, 1, 9), Err(ConversationError::QueueFull { limit: 1 }));
    assert_eq!(all(&fixture), ["?1", "!1"], "a full queue removes no answer");
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(3), "elsewhere")).wait().unwrap();
    for stranger in [2, 3, 77] {
        assert_eq!(again(&fixture, ANN, stranger, 9), Ok(None), "{stranger}");
    }
    fixture.store.delete_message(ANN, name("chat"), answer(1)).wait().unwrap();
    assert_eq!(again(&fixture, ANN, 1, 9), Ok(None), "a deleted answer is not found");
}

#[test]
fn regenerate_refuses_a_deleted_question_and_drops_stale_summaries() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    say(&fixture, 2);
    fixture.submit([turn(3, ANN, "chat")]);
    let summary = Some(ConversationSummary { content: "of two".to_owned(), through: 2 });
    let ending = JobOutcome { summary, ..done(id(3), "answer 3") };
    fixture.store.finish(fixture.claim().fence(), vec![], ending).wait().unwrap();
    again(&fixture, ANN, 3, 4).unwrap().unwrap();
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(4), "answer 4")).wait().unwrap();
    assert_eq!(
        next_history(&fixture, 101)[0],
        Message::assistant("of two"),
        "the summary does not cover the removed answer"
    );

    assert!(fixture.store.delete_message(ANN, name("chat"), ask(3)).wait().unwrap());
    assert_eq!(again(&fixture, ANN, 4, 5), Err(ConversationError::NoQuestion), "the question was deleted");
    assert_eq!(
        (all(&fixture), count(&fixture)),
        (["?1", "!1", "?2", "!2", "!4"].map(str::to_owned).to_vec(), 5)
    );
    assert_eq!(next_history(&fixture, 102).last(), Some(&Message::assistant("answer 4")));
    assert!(!next_history(&fixture, 103).contains(&Message::user("question 3")));

    again(&fixture, ANN, 2, 6).unwrap().unwrap();
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(6), "answer 6")).wait().unwrap();
    assert_eq!(
        next_history(&fixture, 104)[0],
        Message::user("question 1"),
        "the summary of the second turn was dropped"
    );
    let reference = MessageRef::Ask(id(2).ask_id());
    assert!(
        fixture.store.delete_message(ANN, name("chat"), reference).wait().unwrap(),
        "the question is deleted by its old id"
    );
    assert_eq!(all(&fixture), ["?1", "!1", "!6"]);
}

/// Jobs of the conversation that were cancelled without an answer.
fn cancelled(fixture: &Fixture, numbers: RangeInclusive<u128>) {
    fixture.submit(numbers.clone().map(|number| turn(number, ANN, "chat")));
    let tickets: Vec<_> = numbers.rev().map(|number| fixture.store.cancel(ANN, id(number))).collect();
    for ticket in tickets {
        ticket.wait().unwrap().unwrap();
    }
}

#[test]
fn p8_regenerate_hides_a_long_tail_at_once_and_removes_it_in_steps() {
    let fixture = Fixture::new();
    cancelled(&fixture, 1..=150);
    fixture.submit([turn(151, ANN, "chat")]);
    let event =
        Event::Error { content: "broke".to_owned(), code: FailureCode::Internal, retry_after_ms: None };
    let failed = JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None };
    fixture.store.finish(fixture.claim().fence(), vec![], failed).wait().unwrap();
    say(&fixture, 152);
    assert_eq!(count(&fixture), 304);

    again(&fixture, ANN, 2, 160).unwrap().unwrap();
    assert!(fixture.store.job(ANN, id(152)).unwrap().is_some(), "one write does not remove them all");
    assert_eq!((all(&fixture), count(&fixture)), (["?1", "!1", "?2"].map(str::to_owned).to_vec(), 3));
    assert_eq!(fixture.store.has_message(ANN, &name("chat"), answer(152)), Ok(false));
    assert_eq!(fixture.store.retry(ANN, id(151)).wait(), Ok(None), "a hidden job cannot be retried");
    let lease = fixture.claim();
    let told_now = fixture.store.history(&lease.job, 900).unwrap().into_messages();
    assert!(!told_now.contains(&Message::assistant("answer 152")), "{told_now:?}");
    fixture.store.finish(lease.fence(), vec![], done(id(160), "better")).wait().unwrap();

    let fixture = fixture.crash();
    sweep_until_gone(&fixture, 152);
    let left = (103..=152).filter(|number| fixture.store.job(ANN, id(*number)).unwrap().is_some()).count();
    assert_eq!(left, 0);
    assert_eq!((all(&fixture), count(&fixture)), (["?1", "!1", "?2", "!160"].map(str::to_owned).to_vec(), 4));
}

#[test]
fn p8_regenerate_refuses_an_answer_with_too_many_later_messages() {
    let fixture = Fixture::new();
    cancelled(&fixture, 1..=1_002);
    assert_eq!(again(&fixture, ANN, 1, 2_000), Err(ConversationError::TooLate { limit: 1_000 }));
    assert_eq!(count(&fixture), 2_004, "a refused regenerate changes nothing");
    assert!(again(&fixture, ANN, 2, 2_001).unwrap().is_some());
    assert_eq!(count(&fixture), 3);
}

/// A request for an answer to another question.
fn other_question(old: u128, new: u128, text: &str) -> RegenerateRequest {
    let mut job = job(new, ANN);
    job.spec.input = vec![Message::user(text)];
    RegenerateRequest { answer: id(old).message_id(), job, replaces_question: true, key: None }
}

#[test]
fn another_question_replaces_the_old_one_and_all_that_follows() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        say(&fixture, number);
    }
    let asked = other_question(2, 4, "better question");
    let stored = fixture.store.regenerate(ANN, name("chat"), asked).wait().unwrap();
    assert!(matches!(stored, Some(Idempotent::New(job)) if job.id == id(4)));
    assert_eq!([2, 3].map(|removed| fixture.store.job(ANN, id(removed)).unwrap()), [None, None]);
    let fixture = fixture.crash();
    assert_eq!((all(&fixture), count(&fixture)), (["?1", "!1", "?4"].map(str::to_owned).to_vec(), 3));
    let lease = fixture.claim();
    assert_eq!(lease.spec.input, [Message::user("better question")]);
    let told = fixture.store.history(&lease.job, 9).unwrap().into_messages();
    assert_eq!(told, [Message::user("question 1"), Message::assistant("answer 1")]);
    fixture.store.finish(lease.fence(), vec![], done(id(4), "better")).wait().unwrap();
    assert_eq!(
        next_history(&fixture, 101)[2..],
        [Message::user("better question"), Message::assistant("better")]
    );
    // A deleted question can be replaced, although it cannot be answered again.
    assert!(fixture.store.delete_message(ANN, name("chat"), ask(4)).wait().unwrap());
    assert_eq!(again(&fixture, ANN, 4, 5), Err(ConversationError::NoQuestion));
    fixture.store.regenerate(ANN, name("chat"), other_question(4, 5, "new")).wait().unwrap().unwrap();
    assert_eq!(all(&fixture), ["?1", "!1", "?5"]);
}

#[test]
fn the_images_of_a_replaced_question_are_freed() {
    let fixture = Fixture::new();
    let digest = |number: u8| ContentDigest::from_bytes([number; 32]);
    let look = |number: u8| {
        let (media_type, content) = (ImageType::Png, digest(number));
        let image = Image {
            media_type,
            content,
            bytes: 100,
            name: None,
            detail: None,
            text_offset_bytes: None,
            data: None,
        };
        vec![Message::User { content: "look".into(), attachments: vec![], images: vec![image] }]
    };
    let mut first = turn(1, ANN, "chat");
    first.spec.input = look(1);
    fixture.submit([first]);
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(1), "a cat")).wait().unwrap();
    let unused = || fixture.store.unused_contents(vec![digest(1), digest(2)]).wait().unwrap();
    assert_eq!(unused(), [digest(2)]);
    let mut asked = other_question(1, 2, "");
    asked.job.spec.input = look(2);
    fixture.store.regenerate(ANN, name("chat"), asked).wait().unwrap().unwrap();
    assert_eq!(unused(), [digest(1)]);
}

#[test]
fn a_regenerate_that_is_repeated_with_its_key_takes_effect_once() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    let keyed = |fingerprint: u8, new| {
        let key = Some(IdempotencyKey { key: [7; 32], fingerprint: [fingerprint; 32] });
        RegenerateRequest { key, ..other_question(1, new, "other") }
    };
    let store = |request| fixture.store.regenerate(ANN, name("chat"), request).wait();
    assert!(matches!(store(keyed(1, 2)), Ok(Some(Idempotent::New(job))) if job.id == id(2)));
    assert!(matches!(store(keyed(1, 3)), Ok(Some(Idempotent::Replayed(job))) if job.id == id(2)));
    assert_eq!(store(keyed(2, 4)), Err(ConversationError::KeyReused));
    assert_eq!([3, 4].map(|number| fixture.store.job(ANN, id(number)).unwrap()), [None, None]);
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(2), "x")).wait().unwrap();
    fixture.store.delete(ANN, id(2)).wait().unwrap();
    assert_eq!(store(keyed(1, 5)), Err(ConversationError::KeySpent));
}

#[test]
fn a_refused_regenerate_leaves_its_key_unused() {
    let fixture = Fixture::new();
    say(&fixture, 1);
    let key = Some(IdempotencyKey { key: [7; 32], fingerprint: [1; 32] });
    let of = |answer, new| RegenerateRequest { key, ..other_question(answer, new, "other") };
    let store = |request| fixture.store.regenerate(ANN, name("chat"), request).wait();
    assert_eq!(store(of(9, 2)), Ok(None), "there is no such answer");
    assert!(matches!(store(of(1, 3)), Ok(Some(Idempotent::New(_)))));
}
