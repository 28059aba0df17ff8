//! The search in conversations: what is read, in which order, and how much of it.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, chat, done, id, name, turn};
use nanoclaw::domain::conversation::ConversationChange;
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::search_words::SearchWords;
use nanoclaw::ports::{ConversationPage, ConversationQuery, MessageRef};

fn search(fixture: &Fixture, user: UserId, words: &str) -> Vec<String> {
    let page = fixture.store.conversations(&query(user, words)).unwrap();
    assert_eq!(page.next, None);
    names(&page)
}

fn query(user: UserId, words: &str) -> ConversationQuery {
    let search = Some(SearchWords::parse(words).unwrap());
    ConversationQuery { user, project: None, search, before: None, limit: 100 }
}

fn names(page: &ConversationPage) -> Vec<String> {
    page.conversations.iter().map(|found| found.id.to_string()).collect()
}

/// A question with its answer.
fn say(fixture: &Fixture, number: u128, (conversation, question, answer): (&str, &str, &str)) {
    fixture.clock.advance(1_000);
    let mut new = turn(number, ANN, conversation);
    new.spec.input = vec![Message::user(question)];
    fixture.submit([new]);
    fixture.store.finish(fixture.claim().fence(), vec![], done(id(number), answer)).wait().unwrap();
}

#[test]
fn p7_words_are_found_in_titles_questions_and_answers_of_the_user_newest_first() {
    let fixture = Fixture::new();
    say(&fixture, 1, ("tea", "Which tea?", "Green, from Uji"));
    say(&fixture, 2, ("coffee", "And coffee?", "Dark"));
    say(&fixture, 3, ("both", "Tea or coffee", "Neither"));
    assert_eq!(search(&fixture, ANN, "TEA"), ["both", "tea"]);
    assert_eq!(search(&fixture, ANN, "coffee tea"), ["both"], "all words");
    assert_eq!(search(&fixture, ANN, "uji which"), ["tea"], "in question and answer together");
    assert_eq!(search(&fixture, ANN, "water"), Vec::<String>::new());
    assert_eq!(search(&fixture, BOB, "tea"), Vec::<String>::new());
    let title = ConversationChange { title: Some("Étude".to_owned()), ..ConversationChange::default() };
    fixture.store.update(ANN, name("coffee"), title).wait().unwrap().unwrap();
    assert_eq!(search(&fixture, ANN, "étude dark"), ["coffee"], "in the title and a message");
    assert_eq!(search(&fixture.crash(), ANN, "tea"), ["both", "tea"]);
}

#[test]
fn deleted_messages_are_not_found_and_questions_in_the_queue_are() {
    let fixture = Fixture::new();
    say(&fixture, 1, ("chat", "secret question", "hidden answer"));
    let mut waiting = turn(2, ANN, "chat");
    waiting.spec.input = vec![Message::user("still unanswered")];
    fixture.submit([waiting]);
    assert_eq!(search(&fixture, ANN, "unanswered secret"), ["chat"]);
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    for message in [MessageRef::Ask(id(1).ask_id()), MessageRef::Answer(id(1).message_id())] {
        fixture.store.delete_message(ANN, name("chat"), message).wait().unwrap();
    }
    assert_eq!(search(&fixture, ANN, "secret"), Vec::<String>::new());
    assert_eq!(search(&fixture, ANN, "hidden"), Vec::<String>::new());
}

#[test]
fn p8_a_page_of_a_search_ends_after_a_bounded_number_of_bytes_and_the_next_one_continues() {
    let fixture = Fixture::new();
    fixture.store.create_conversation(chat(ANN, "found", 1), 100).wait().unwrap();
    let title = ConversationChange { title: Some("needle".to_owned()), ..ConversationChange::default() };
    fixture.store.update(ANN, name("found"), title).wait().unwrap().unwrap();
    let hay = "hay ".repeat(1_500_000);
    for number in 1..=4 {
        say(&fixture, number, (&format!("long-{number}"), "?", &hay));
    }
    let mut wanted = query(ANN, "needle");
    let first = fixture.store.conversations(&wanted).unwrap();
    assert_eq!((names(&first), first.next.is_some()), (Vec::new(), true), "a page may be empty");
    wanted.before = first.next;
    let second = fixture.store.conversations(&wanted).unwrap();
    assert_eq!((names(&second), second.next), (vec!["found".to_owned()], None));
    let mut one = query(ANN, "hay");
    one.limit = 1;
    let page = fixture.store.conversations(&one).unwrap();
    assert_eq!((names(&page), page.next.is_some()), (vec!["long-4".to_owned()], true));
}
