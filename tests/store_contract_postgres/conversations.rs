//! Conversations that several nodes change at once, and rows and texts that only this store can have.

use super::fixture::Fixture;
use crate::support::store::{ANN, MessagePages, chat, done, id, name, turn};
use nanoclaw::domain::conversation::ConversationChange;
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{
    ChatMessage, Clock, ConversationError, ConversationItems, Conversations, EntryRef, MessageRef, NewItems,
    NewJob, RegenerateRequest, Store, StoreError, SubmitError,
};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs a job of the conversation `chat` to this end.
fn say(fixture: &Fixture, new: NewJob, ending: JobOutcome) {
    fixture.submit([new]);
    fixture.store.finish(fixture.claim().fence(), vec![], ending).wait().unwrap();
}

fn delete(fixture: &Fixture, message: MessageRef) -> bool {
    fixture.store.delete_message(ANN, name("chat"), message).wait().unwrap()
}

/// Removes the conversation. Returns whether nothing is left of it.
fn is_removed(fixture: &Fixture) -> bool {
    fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap()
        && fixture.store.conversation(ANN, &name("chat")).unwrap().is_none()
        && fixture.sql("SELECT (SELECT count(*) FROM turns) + (SELECT count(*) FROM message_pairs)") == "0"
        && fixture.sql("SELECT count(*) FROM removed_conversations") == "0"
}

#[test]
fn an_unreadable_job_fails_its_list_and_blocks_no_removal() {
    let Some(fixture) = Fixture::new() else { return };
    for number in 1..=3 {
        say(&fixture, turn(number, ANN, "chat"), done(id(number), "answer"));
    }
    fixture.sql(&format!("UPDATE jobs SET row = '{{}}' WHERE id = '{}'", id(2)));
    let page = || fixture.store.message_page(ANN, &name("chat"), None, 9);
    assert!(matches!(page(), Err(StoreError::Corrupt(_))), "a list without it would be wrong: {:?}", page());
    assert!(delete(&fixture, MessageRef::Ask(id(2).ask_id())));
    assert!(delete(&fixture, MessageRef::Answer(id(2).message_id())));
    assert_eq!(page().unwrap().messages.len(), 4);
    assert!(is_removed(&fixture));
}

#[test]
fn p4_an_unreadable_conversation_keeps_no_job_from_ending() {
    let Some(fixture) = Fixture::new() else { return };
    say(&fixture, turn(1, ANN, "chat"), done(id(1), "answer"));
    fixture.submit([turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.sql("UPDATE conversations SET row = '{}'");
    assert_eq!(fixture.store.history(&lease.job, 9).unwrap().into_messages().len(), 2);
    fixture.store.finish(lease.fence(), vec![], done(id(2), "answer")).wait().unwrap();
    say(&fixture, turn(3, ANN, "chat"), done(id(3), "answer"));
    assert!(matches!(fixture.store.conversation(ANN, &name("chat")), Err(StoreError::Corrupt(_))));
    assert!(is_removed(&fixture));
}

#[test]
fn texts_may_contain_the_character_zero() {
    let Some(fixture) = Fixture::new() else { return };
    let mut new = turn(1, ANN, "chat");
    new.spec.input = vec![Message::user("a\0question")];
    let mut ending = done(id(1), "an\0answer");
    if let Event::Done { suggested_title, .. } = &mut ending.event {
        *suggested_title = Some("a\0title".to_owned());
    }
    say(&fixture, new, ending);
    let store = &fixture.store;
    assert_eq!(store.conversation(ANN, &name("chat")).unwrap().unwrap().title, "a\0title");
    fixture.submit([turn(2, ANN, "chat")]);
    let told = store.history(&fixture.claim().job, 9).unwrap().into_messages();
    assert_eq!(told, [Message::user("a\0question"), Message::assistant("an\0answer")]);
    let items = NewItems {
        user: ANN,
        conversation: name("chat"),
        creates: None,
        items: vec![json!({"id": "an\0item"})],
        messages: vec![Message::user("an\0item")],
    };
    store.add_items(items).wait().unwrap();
    let has_item = |item| store.entry(ANN, &name("chat"), EntryRef::Added(item)).unwrap().is_some();
    assert!(has_item("an\0item") && !has_item("an"));
    assert_eq!(store.called_tool(ANN, &name("chat"), "a\0call").unwrap(), None);
    assert!(delete(&fixture, MessageRef::Ask(id(1).ask_id())));
}

/// Runs `act` on two nodes, several times on each, at the same time.
fn at_once<T: Send>(fixture: &Fixture, act: impl Fn(&Fixture, u64) -> T + Sync) -> Vec<T> {
    let other = fixture.beside();
    std::thread::scope(|scope| {
        let (act, other) = (&act, &other);
        let run = |number: u64| {
            let node = if number.is_multiple_of(2) { fixture } else { other };
            scope.spawn(move || act(node, number))
        };
        let runs: Vec<_> = (0..8).map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

#[test]
fn p7_jobs_of_two_nodes_create_one_conversation_and_run_one_after_the_other() {
    let Some(fixture) = Fixture::new() else { return };
    at_once(&fixture, |node, number| {
        for nth in 0..10 {
            let new = turn(u128::from(number * 100 + nth), ANN, "chat");
            node.store.submit(vec![new]).wait().unwrap();
        }
    });
    assert_eq!(fixture.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count, 80);
    assert_eq!(fixture.sql("SELECT count(*) FROM jobs WHERE place = 'ready'"), "1");
    assert_eq!(fixture.store.message_page(ANN, &name("chat"), None, 1_000).unwrap().messages.len(), 80);
}

#[test]
fn p8_two_nodes_create_no_more_conversations_than_the_limit() {
    let Some(fixture) = Fixture::new() else { return };
    let made = at_once(&fixture, |node, number| {
        let now_ms = node.clock.now_ms();
        (0..4)
            .filter(|nth| {
                let new = chat(ANN, &format!("c{number}-{nth}"), now_ms);
                match node.store.create_conversation(new, 10).wait() {
                    Ok(_) => true,
                    Err(ConversationError::ConversationsFull { limit: 10 }) => false,
                    Err(error) => panic!("{error}"),
                }
            })
            .count()
    });
    assert_eq!(made.iter().sum::<usize>(), 10);
    let created = at_once(&fixture, |node, _| {
        node.store.create_conversation(chat(ANN, "same", node.clock.now_ms()), 11).wait().is_ok()
    });
    assert_eq!(created.iter().filter(|is_made| **is_made).count(), 1);
}

/// Random numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What clients do with three conversations.
struct Client<'f> {
    node: &'f Fixture,
    numbers: Numbers,
    fresh: &'f AtomicU64,
}

impl Client<'_> {
    fn fresh(&self, conversation: &str) -> NewJob {
        turn(u128::from(self.fresh.fetch_add(1, Ordering::SeqCst)), ANN, conversation)
    }

    /// One of the messages that the conversation shows.
    fn message(&mut self, conversation: &str) -> Option<MessageRef> {
        let messages = self.node.store.message_page(ANN, &name(conversation), None, 100).unwrap().messages;
        let at = usize::try_from(self.numbers.below(messages.len().max(1) as u64)).unwrap();
        messages.get(at).map(|message| match message {
            ChatMessage::Ask { id, .. } => MessageRef::Ask(*id),
            ChatMessage::Answer { job, .. } => MessageRef::Answer(job.id.message_id()),
        })
    }

    fn act(&mut self) -> Result<(), String> {
        let conversation = ["a", "b", "c"][usize::try_from(self.numbers.below(3)).unwrap()];
        let (store, id) = (&self.node.store.clone(), name(conversation));
        let text = |error: &dyn std::error::Error| Err(error.to_string());
        match self.numbers.below(20) {
            0..=6 => {
                let in_existing = self.numbers.below(2) == 0;
                let new = NewJob { in_existing, ..self.fresh(conversation) };
                if let Err(SubmitError::Store(error)) = store.submit(vec![new]).wait() {
                    return text(&error);
                }
            }
            7 | 8 => {
                let Some(message) = self.message(conversation) else { return Ok(()) };
                if let Err(ConversationError::Store(error)) = store.delete_message(ANN, id, message).wait() {
                    return text(&error);
                }
            }
            9 | 10 => {
                let Some(MessageRef::Answer(answer)) = self.message(conversation) else { return Ok(()) };
                let (job, key) = (self.fresh(conversation), None);
                let again = RegenerateRequest { answer, job, replaces_question: false, key };
                if let Err(ConversationError::Store(error)) = store.regenerate(ANN, id, again).wait() {
                    return text(&error);
                }
            }
            11 => store.remove_conversation(ANN, id).wait().map(|_| ()).map_err(|error| error.to_string())?,
            12 | 13 => {
                let items = NewItems {
                    user: ANN,
                    conversation: id,
                    creates: None,
                    items: vec![json!({"id": "x", "type": "message"})],
                    messages: vec![Message::user("item")],
                };
                if let Err(ConversationError::Store(error)) = store.add_items(items).wait() {
                    return text(&error);
                }
            }
            14 => {
                let title = Some("title".to_owned());
                let change = ConversationChange { title, ..ConversationChange::default() };
                store.update(ANN, id, change).wait().map_err(|error| error.to_string())?;
            }
            15 | 16 => {
                for job in store.unfinished(ANN, &id).unwrap().into_iter().take(1) {
                    store.cancel(ANN, job).wait().map_err(|error| error.to_string())?;
                }
            }
            nth => {
                let Some(MessageRef::Answer(answer)) = self.message(conversation) else { return Ok(()) };
                let failed = if nth == 17 {
                    store.delete(ANN, answer.job()).wait().err().map(|error| error.to_string())
                } else {
                    store.retry(ANN, answer.job()).wait().err().map(|error| error.to_string())
                };
                if let Some(error) = failed.filter(|error| error.contains("store")) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Ends jobs until the time has passed and none is left.
fn work(node: &Fixture, mut numbers: Numbers, until: Instant) {
    loop {
        let Some(lease) = node.store.claim(1).wait().unwrap().pop() else {
            if Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        node.store.history(&lease.job, 100).unwrap();
        let event =
            Event::Error { content: "broke".to_owned(), code: FailureCode::Internal, retry_after_ms: None };
        let failed = JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None };
        let ending = if numbers.below(3) == 0 { failed } else { done(lease.job.id, "answer") };
        node.store.finish(lease.fence(), vec![], ending).wait().unwrap();
    }
}

/// Statements that count what must not be.
const WRONG: &[(&str, &str)] = &[
    (
        "counts of messages",
        "SELECT count(*) FROM conversations c WHERE message_count <> (SELECT coalesce(sum(shows_question::int + \
         shows_answer::int), 0) FROM message_pairs p WHERE p.user_id = c.user_id AND p.conversation = c.id \
         AND p.accept >= c.floor)",
    ),
    (
        "pairs without a job",
        "SELECT count(*) FROM message_pairs p WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = p.job \
         AND j.accept = p.accept AND j.user_id = p.user_id AND j.conversation = p.conversation)",
    ),
    (
        "jobs without a pair",
        "SELECT count(*) FROM jobs j WHERE NOT EXISTS (SELECT FROM message_pairs p WHERE p.job = j.id)",
    ),
    (
        "turns of nothing",
        "SELECT count(*) FROM turns t WHERE NOT EXISTS (SELECT FROM message_pairs p WHERE p.user_id = t.user_id \
         AND p.conversation = t.conversation AND p.accept = t.accept) AND NOT EXISTS (SELECT FROM conversation_items i \
         WHERE i.user_id = t.user_id AND i.conversation = t.conversation AND i.accept = t.accept)",
    ),
    ("unfinished jobs", "SELECT count(*) FROM jobs WHERE finished_at_ms IS NULL"),
    (
        "items without a turn",
        "SELECT count(*) FROM conversation_items i WHERE NOT EXISTS (SELECT FROM turns t WHERE t.user_id = i.user_id \
         AND t.conversation = i.conversation AND t.accept = i.accept)",
    ),
    (
        "stored bytes",
        "SELECT (SELECT sum(bytes) FROM stored_bytes) - (SELECT sum(octet_length(row::text)) FROM conversations) \
         - (SELECT sum(octet_length(messages::text)) FROM turns) - (SELECT coalesce(sum(octet_length(items::text)), 0) \
         FROM conversation_items) - (SELECT sum(1024 + octet_length(spec::text) + coalesce(octet_length(output::text), 0)) \
         FROM jobs) - (SELECT sum(octet_length(body::text)) FROM records)",
    ),
    (
        "remains of removed conversations that nobody sweeps",
        "SELECT count(*) FROM message_pairs p LEFT JOIN conversations c ON c.user_id = p.user_id AND c.id = p.conversation \
         WHERE (c.id IS NULL OR p.accept < c.floor) AND NOT EXISTS (SELECT FROM removed_conversations r \
         WHERE r.user_id = p.user_id AND r.conversation = p.conversation \
         AND p.accept BETWEEN r.first_accept AND r.last_accept)",
    ),
];

#[test]
fn p7_conversations_that_two_nodes_change_at_once_stay_consistent() {
    let Some(fixture) = Fixture::new() else { return };
    let (other, fresh) = (fixture.beside(), AtomicU64::new(1));
    let until = Instant::now() + Duration::from_secs(6);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let node = if seed % 2 == 0 { &fixture } else { &other };
            let mut client = Client { node, numbers: Numbers(seed), fresh: &fresh };
            scope.spawn(move || {
                while Instant::now() < until {
                    client.act().unwrap();
                }
            });
            if seed < 4 {
                scope.spawn(move || work(node, Numbers(seed + 100), until));
            }
        }
    });
    work(&fixture, Numbers(1), until);
    for (what, sql) in WRONG {
        assert_eq!(fixture.sql(sql), "0", "{what}");
    }
}
