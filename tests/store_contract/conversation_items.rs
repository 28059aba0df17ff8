//! Items that clients add to conversations, and items of jobs that they delete: order, history, walls,
//! removal, retention and stored bytes.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, chat, check_stored_bytes, done, id, name, turn};
use nanoclaw::domain::account::Quota;
use nanoclaw::domain::conversation::StoredItems;
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{
    AccountChange, Clock, ConversationEntry, ConversationError, EntryQuery, EntryRef, ItemsEdit, NewItems,
    NodeStore, RegenerateRequest,
};
use nanoclaw::store::RetentionAge;
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use serde_json::json;
use std::sync::Arc;

fn items(user: UserId, text: &str) -> NewItems {
    NewItems {
        user,
        conversation: name("chat"),
        creates: None,
        items: vec![json!({"id": format!("{text}_add"), "type": "message", "role": "user", "content": text})],
        messages: vec![Message::user(text)],
    }
}

/// Adds an item to Ann's conversation `chat`.
pub(crate) fn add(fixture: &Fixture, text: &str) {
    fixture.store.add_items(items(ANN, text)).wait().unwrap();
}

fn opened() -> Fixture {
    opened_in(Fixture::new())
}

fn opened_in(fixture: Fixture) -> Fixture {
    fixture.store.create_conversation(chat(ANN, "chat", fixture.clock.now_ms()), 9).wait().unwrap();
    fixture
}

#[test]
fn p8_items_beyond_their_owners_quota_of_bytes_are_refused_also_at_the_same_moment() {
    let fixture = opened();
    let quota = Some(Quota { stored_bytes: Some(10_000), ..Quota::default() });
    fixture.store.change_account(ANN, AccountChange { quota, ..AccountChange::default() }).wait().unwrap();
    // An item counts with what models read of it.
    let adding: Vec<_> = (0..8).map(|_| fixture.store.add_items(items(ANN, &"x".repeat(1_500)))).collect();
    let results: Vec<_> = adding.into_iter().map(|added| added.wait().map(drop)).collect();
    // Which of them fit is a matter of chance on a database.
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2, "{results:?}");
    let refused = |result: &&Result<(), _>| matches!(result, Err(ConversationError::Quota(_)));
    assert_eq!(results.iter().filter(refused).count(), 6, "{results:?}");
    assert!(fixture.store.stored_bytes(ANN).unwrap() <= 10_000);
}

/// Runs a job of the conversation; returns what its model reads before its own question.
fn run(fixture: &Fixture, number: u128) -> Vec<String> {
    fixture.submit([turn(number, ANN, "chat")]);
    let lease = fixture.claim();
    let history = fixture.store.history(&lease.job, 100).unwrap();
    fixture
        .store
        .finish(lease.fence(), vec![], done(id(number), &format!("answer {number}")))
        .wait()
        .unwrap();
    texts(&history.into_messages())
}

fn texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::System { content } | Message::User { content, .. } | Message::Assistant { content, .. } => {
            content.clone()
        }
        Message::Tool { content, .. } => content.clone(),
    };
    messages.iter().map(text).collect()
}

fn page(
    store: &Arc<dyn NodeStore>,
    user: UserId,
    query: EntryQuery,
) -> (Vec<ConversationEntry>, Option<u64>) {
    let page = store.entries(user, &name("chat"), query).unwrap();
    (page.entries, page.next)
}

/// All entries: `j` and the number of a job, or the text of an added item.
fn all(store: &Arc<dyn NodeStore>, is_newest_first: bool) -> Vec<String> {
    let (mut shown, mut from) = (Vec::new(), None);
    loop {
        let (entries, next) = page(store, ANN, EntryQuery { from, is_newest_first, limit: 2 });
        shown.extend(entries.iter().map(|entry| match entry.job {
            Some(job) => format!("j{}", u128::from_be_bytes(job.id.to_bytes())),
            None => entry.items.added[0]["content"].as_str().unwrap().to_owned(),
        }));
        from = next;
        if from.is_none() {
            return shown;
        }
    }
}

fn edit(entry: &ConversationEntry, items: StoredItems, turn: Vec<Message>) -> ItemsEdit {
    let items = StoredItems { edits: entry.items.edits + 1, ..items };
    ItemsEdit { user: ANN, conversation: name("chat"), number: entry.number, items, turn }
}

fn entry(fixture: &Fixture, wanted: EntryRef<'_>) -> Option<ConversationEntry> {
    fixture.store.entry(ANN, &name("chat"), wanted).unwrap()
}

#[test]
fn p1_added_items_stand_between_jobs_and_survive_a_crash() {
    let fixture = opened();
    add(&fixture, "first");
    assert_eq!(run(&fixture, 1), ["first"]);
    add(&fixture, "second");
    add(&fixture, "third");
    assert_eq!(run(&fixture, 2), ["first", "question 1", "answer 1", "second", "third"]);
    let order = ["first", "j1", "second", "third", "j2"];
    let store = fixture.crash().store;
    assert_eq!(all(&store, false), order);
    assert_eq!(all(&store, true), order.iter().rev().copied().collect::<Vec<_>>());
    let conversation = store.conversation(ANN, &name("chat")).unwrap().unwrap();
    assert_eq!(conversation.message_count, 4, "messages are those of jobs");
}

#[test]
fn p7_items_of_users_are_separate_and_a_conversation_must_exist() {
    let fixture = opened();
    add(&fixture, "hers");
    let store = &fixture.store;
    let refused = store.add_items(items(BOB, "his")).wait();
    assert_eq!(refused, Err(ConversationError::NoConversation));
    store.create_conversation(chat(BOB, "chat", 1), 9).wait().unwrap();
    let query = EntryQuery { from: None, is_newest_first: true, limit: 9 };
    assert_eq!(page(store, BOB, query).0, []);
    assert_eq!(store.entry(BOB, &name("chat"), EntryRef::Added("hers_add")).unwrap(), None);
    run(&fixture, 1);
    assert_eq!(store.entry(BOB, &name("chat"), EntryRef::Job(id(1))).unwrap(), None);
    let found = entry(&fixture, EntryRef::Added("hers_add")).unwrap();
    let foreign = ItemsEdit { user: BOB, ..edit(&found, StoredItems::default(), vec![]) };
    assert_eq!(store.edit_items(foreign).wait(), Ok(false));
    assert_eq!(all(store, false), ["hers", "j1"]);
    let full = NewItems { creates: Some((Box::new(chat(ANN, "more", 1)), 1)), ..items(ANN, "x") };
    let full = NewItems { conversation: name("more"), ..full };
    assert_eq!(store.add_items(full).wait(), Err(ConversationError::ConversationsFull { limit: 1 }));
}

#[test]
fn a_deleted_item_is_read_by_no_later_job_and_an_edit_of_an_old_state_is_refused() {
    let fixture = opened();
    add(&fixture, "first");
    run(&fixture, 1);
    let found = entry(&fixture, EntryRef::Job(id(1))).unwrap();
    let hidden = StoredItems { hidden: vec!["x".into()], question: Some(0), ..StoredItems::default() };
    let change = edit(&found, hidden, vec![Message::assistant("answer 1")]);
    assert_eq!(fixture.store.edit_items(change.clone()).wait(), Ok(true));
    assert_eq!(fixture.store.edit_items(change).wait(), Ok(false), "it was changed since");
    let added = entry(&fixture, EntryRef::Added("first_add")).unwrap();
    let gone = edit(&added, StoredItems::default(), vec![]);
    assert_eq!(fixture.store.edit_items(gone).wait(), Ok(true));
    assert_eq!(entry(&fixture, EntryRef::Added("first_add")), None);
    add(&fixture, "second");
    assert_eq!(run(&fixture, 2), ["second"], "an answer alone cannot be the first message");
    assert_eq!(all(&fixture.store, false), ["j1", "second", "j2"]);
    let stored = entry(&fixture.crash(), EntryRef::Job(id(1))).unwrap();
    assert_eq!(stored.items.hidden, ["x"]);
}

#[test]
fn the_name_of_an_earlier_call_is_found() {
    let fixture = opened();
    let call = nanoclaw::domain::tool::ToolCall {
        id_ref: "c1".into(),
        name: "weather".into(),
        arguments: "{}".into(),
    };
    let calls = Message::Assistant {
        content: String::new(),
        thinking: String::new(),
        tool_calls: vec![call],
        echo: None,
    };
    fixture.store.add_items(NewItems { messages: vec![calls], ..items(ANN, "x") }).wait().unwrap();
    let called = |user, call| fixture.store.called_tool(user, &name("chat"), call).unwrap();
    assert_eq!(called(ANN, "c1").as_deref(), Some("weather"));
    assert_eq!((called(ANN, "c2"), called(BOB, "c1")), (None, None));
}

#[test]
fn removing_a_conversation_and_regenerating_remove_items() {
    let fixture = opened();
    add(&fixture, "first");
    run(&fixture, 1);
    add(&fixture, "second");
    let again = RegenerateRequest {
        answer: id(1).message_id(),
        job: turn(2, ANN, "chat"),
        replaces_question: false,
        key: None,
    };
    fixture.store.regenerate(ANN, name("chat"), again).wait().unwrap();
    assert_eq!(all(&fixture.store, false), ["first"], "the new job has not ended");
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(2), "again")).wait().unwrap();
    assert_eq!(all(&fixture.store, false), ["first", "j2"]);
    for number in 0..250 {
        add(&fixture, &number.to_string());
    }
    assert!(fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap());
    assert_eq!(all(&fixture.store, false), [] as [&str; 0]);
    fixture.store.create_conversation(chat(ANN, "chat", 1), 9).wait().unwrap();
    add(&fixture, "new");
    assert_eq!(all(&fixture.store, false), ["new"]);
    for _ in 0..4 {
        fixture.clock.advance(61_000);
        fixture.store.run_retention().unwrap();
    }
    assert_eq!(all(&fixture.store, false), ["new"]);
    assert!(fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap());
    fixture.store.run_retention().unwrap();
    assert_eq!(fixture.store.stored_bytes(ANN), Ok(0), "nothing is left");
}

#[test]
fn p8_items_count_as_stored_bytes() {
    let fixture = opened_in(Fixture::file());
    let before = fixture.store.stored_bytes(ANN).unwrap();
    add(&fixture, &"x".repeat(10_000));
    let stored = fixture.store.stored_bytes(ANN).unwrap() - before;
    assert!((20_000..32_000).contains(&stored), "the item, and what models read: {stored}");
    fixture.store.close();
    check_stored_bytes(std::fs::read(fixture.path()).unwrap()).unwrap();
}

#[test]
fn items_are_removed_with_jobs_of_their_age() {
    let mut fixture = opened();
    add(&fixture, "old");
    run(&fixture, 1);
    let retention = RetentionOptions { jobs: RetentionAge::For(3_600_000), ..RetentionOptions::default() };
    let options = StoreOptions { retention, ..StoreOptions::default() };
    fixture.reopen(&options, &Limits::default());
    fixture.clock.advance(3 * 24 * 3_600_000);
    for _ in 0..8 {
        fixture.clock.advance(61_000);
        fixture.store.run_retention().unwrap();
        if all(&fixture.store, false).is_empty() {
            break;
        }
    }
    assert_eq!(all(&fixture.store, false), [] as [&str; 0]);
    assert!(fixture.store.conversation(ANN, &name("chat")).unwrap().is_some());
}

#[test]
fn p8_a_page_of_entries_ends_after_a_mebibyte_of_items() {
    let fixture = opened();
    for letter in ["a", "b", "c", "d"] {
        add(&fixture, &letter.repeat(300_000));
    }
    run(&fixture, 1);
    for is_newest_first in [false, true] {
        let (mut from, mut pages) = (None, Vec::new());
        loop {
            let query = EntryQuery { from, is_newest_first, limit: 9 };
            let page = fixture.store.entries(ANN, &name("chat"), query).unwrap();
            pages.push(page.entries.len());
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        // An item is stored with its id, which is as long as its text here.
        let is_short = pages.iter().all(|entries| (1..=3).contains(entries));
        assert!(is_short && pages.iter().sum::<usize>() == 5, "newest first: {is_newest_first}, {pages:?}");
    }
}
