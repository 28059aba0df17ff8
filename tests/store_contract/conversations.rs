//! Conversation rows: creation by clients and by jobs, titles, lists, limits and removal.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, chat, done, id, job, name, turn};
use nanoclaw::domain::conversation::{Conversation, ConversationChange};
use nanoclaw::domain::event::Event;
use nanoclaw::domain::id::{BatchId, JobId, ProjectId, UserId};
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{
    Clock, ConversationCursor, ConversationError, ConversationQuery, Idempotent, NewBatch, NewJob, NewLine,
    RegenerateRequest, SubmitError,
};

fn query(user: UserId, limit: usize) -> ConversationQuery {
    ConversationQuery { user, project: None, search: None, before: None, limit }
}

fn names(fixture: &Fixture, query: &ConversationQuery) -> Vec<String> {
    let page = fixture.store.conversations(query).unwrap();
    page.conversations.iter().map(|conversation| conversation.id.to_string()).collect()
}

fn create(fixture: &Fixture, user: UserId, id: &str) {
    fixture.store.create_conversation(chat(user, id, fixture.clock.now_ms()), 100).wait().unwrap();
}

fn get(fixture: &Fixture, user: UserId, id: &str) -> Option<Conversation> {
    fixture.store.conversation(user, &name(id)).unwrap()
}

fn update(fixture: &Fixture, user: UserId, id: &str, change: ConversationChange) -> Option<Conversation> {
    fixture.store.update(user, name(id), change).wait().unwrap()
}

fn titled(title: &str) -> ConversationChange {
    ConversationChange { title: Some(title.to_owned()), ..ConversationChange::default() }
}

/// A successful outcome with a suggested title.
fn with_title(job: JobId, title: &str) -> JobOutcome {
    let mut ending = done(job, "answer");
    if let Event::Done { suggested_title, .. } = &mut ending.event {
        *suggested_title = Some(title.to_owned());
    }
    ending
}

/// Runs one job of the conversation; returns whether its history asked for a title.
fn run(fixture: &Fixture, number: u128, ending: JobOutcome) -> bool {
    fixture.submit([turn(number, ANN, "chat")]);
    let lease = fixture.claim();
    let wants_title = fixture.store.history(&lease.job, 10).unwrap().wants_title;
    fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
    wants_title
}

#[test]
fn p7_conversations_of_users_are_separate() {
    let fixture = Fixture::new();
    create(&fixture, ANN, "same");
    create(&fixture, BOB, "same");
    update(&fixture, ANN, "same", titled("Ann's")).unwrap();
    assert_eq!(get(&fixture, BOB, "same").unwrap().title, "");
    create(&fixture, ANN, "hers");
    assert_eq!(get(&fixture, BOB, "hers"), None);
    assert_eq!(update(&fixture, BOB, "hers", titled("his")), None);
    assert_eq!(names(&fixture, &query(BOB, 10)), ["same"]);
    assert!(!fixture.store.remove_conversation(BOB, name("hers")).wait().unwrap());
    fixture.submit([turn(1, ANN, "same")]);
    let counts = [ANN, BOB].map(|user| get(&fixture, user, "same").unwrap().message_count);
    assert_eq!(counts, [1, 0]);
}

#[test]
fn an_existing_conversation_is_not_created_again_and_the_limit_holds() {
    let fixture = Fixture::with(&Limits { conversations: 2, ..Limits::default() });
    create(&fixture, ANN, "a");
    assert_eq!(
        fixture.store.create_conversation(chat(ANN, "a", 1), 2).wait(),
        Err(ConversationError::NameTaken)
    );
    fixture.submit([turn(1, ANN, "b")]);
    let refused = ConversationError::ConversationsFull { limit: 2 };
    assert_eq!(fixture.store.create_conversation(chat(ANN, "c", 1), 2).wait(), Err(refused));
    let full = SubmitError::ConversationsFull { limit: 2 };
    assert_eq!(fixture.store.submit(vec![job(2, ANN), turn(3, ANN, "c")]).wait(), Err(full.clone()));
    assert_eq!(fixture.store.job(ANN, id(2)).unwrap(), None, "nothing was written");
    let key = nanoclaw::domain::idempotency::IdempotencyKey { key: [1; 32], fingerprint: [1; 32] };
    assert_eq!(fixture.store.submit_once(turn(4, ANN, "c"), key).wait().err(), Some(full.clone()));
    fixture.submit([turn(5, ANN, "b"), turn(6, BOB, "c")]);

    let fixture = fixture.crash_with(&Limits { conversations: 2, ..Limits::default() });
    assert_eq!(fixture.store.submit(vec![turn(7, ANN, "c")]).wait(), Err(full), "the count is stored");
    assert!(fixture.store.remove_conversation(ANN, name("a")).wait().unwrap());
    assert!(matches!(fixture.store.submit_once(turn(8, ANN, "c"), key).wait(), Ok(Idempotent::New(_))));
}

#[test]
fn a_job_creates_its_conversation_and_each_message_updates_it() {
    let fixture = Fixture::new();
    let mut first = turn(1, ANN, "chat");
    first.spec.system_prompt = Some("be brief".to_owned());
    first.spec.temperature = Some(0.5);
    first.spec.project_id = Some(ProjectId::from_bits(9));
    fixture.submit([first]);
    let made = get(&fixture, ANN, "chat").unwrap();
    assert_eq!((made.title.as_str(), made.message_count, made.created_at_ms), ("", 1, 1_000_000));
    assert_eq!(made.settings.temperature, Some(0.5));
    assert_eq!(made.settings.system_prompt, "", "the system prompt belongs to the job");
    assert_eq!(made.settings.project_id, Some(ProjectId::from_bits(9)));
    fixture.clock.advance(10);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "answer")).wait().unwrap();
    let answered = get(&fixture, ANN, "chat").unwrap();
    assert_eq!((answered.message_count, answered.updated_at_ms), (2, 1_000_010));
    fixture.clock.advance(10);
    fixture.submit([turn(2, ANN, "chat")]);
    let current = get(&fixture, ANN, "chat").unwrap();
    assert_eq!(
        (current.message_count, current.updated_at_ms, current.created_at_ms),
        (3, 1_000_020, 1_000_000)
    );
    assert_eq!(current.settings, made.settings, "settings belong to the conversation, not to the last job");
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    let left = get(&fixture, ANN, "chat").unwrap();
    assert_eq!(
        (left.message_count, left.updated_at_ms),
        (1, 1_000_020),
        "its jobs can be deleted one by one"
    );
    assert_eq!(get(&fixture.crash(), ANN, "chat"), Some(left));
}

#[test]
fn a_suggested_title_is_used_once_and_never_replaces_a_given_title() {
    let fixture = Fixture::new();
    assert!(run(&fixture, 1, done(id(1), "answer")), "the first job suggested no title");
    assert!(run(&fixture, 2, with_title(id(2), "Weather")));
    assert_eq!(get(&fixture, ANN, "chat").unwrap().title, "Weather");
    assert!(!run(&fixture, 3, with_title(id(3), "Another")));
    assert_eq!(get(&fixture, ANN, "chat").unwrap().title, "Weather");
    update(&fixture, ANN, "chat", titled("")).unwrap();
    fixture.submit([turn(4, ANN, "chat")]);
    let lease = fixture.claim();
    update(&fixture, ANN, "chat", titled("Mine")).unwrap();
    fixture.store.finish(lease.fence(), vec![], with_title(id(4), "Late")).wait().unwrap();
    assert_eq!(get(&fixture, ANN, "chat").unwrap().title, "Mine", "the title was given while the job ran");
}

#[test]
fn conversations_are_listed_newest_first_and_pages_stay_consistent() {
    let fixture = Fixture::new();
    for id in ["a", "b", "c", "d", "e"] {
        fixture.clock.advance(1);
        create(&fixture, ANN, id);
    }
    create(&fixture, ANN, "d2");
    assert_eq!(names(&fixture, &query(ANN, 10)), ["d2", "e", "d", "c", "b", "a"]);
    let page = fixture.store.conversations(&query(ANN, 3)).unwrap();
    assert!(page.next.is_some());
    let last = page.conversations.last().unwrap();
    let before = ConversationCursor { updated_at_ms: last.updated_at_ms, id: last.id.clone() };
    // An unseen conversation moves to the front, a seen one is removed, and a new one is added.
    fixture.clock.advance(1);
    update(&fixture, ANN, "b", titled("moved")).unwrap();
    fixture.store.remove_conversation(ANN, last.id.clone()).wait().unwrap();
    create(&fixture, ANN, "f");
    let next = ConversationQuery { before: Some(before), ..query(ANN, 2) };
    assert_eq!(
        names(&fixture, &next),
        ["c", "a"],
        "no conversation twice, and none missing that did not move"
    );
    assert!(fixture.store.conversations(&next).unwrap().next.is_none());
    assert_eq!(names(&fixture.crash(), &query(ANN, 10)), ["b", "f", "d2", "e", "c", "a"]);
}

#[test]
fn conversations_of_a_project_are_listed_counted_and_removed_together() {
    let fixture = Fixture::new();
    let (mine, other) = (ProjectId::from_bits(7), ProjectId::from_bits(8));
    for (number, project) in [(1, Some(mine)), (2, Some(other)), (3, None), (4, Some(mine))] {
        let mut one = chat(ANN, &format!("c{number}"), number);
        one.settings.project_id = project;
        fixture.store.create_conversation(one, 100).wait().unwrap();
    }
    let mut his = chat(BOB, "his", 1);
    his.settings.project_id = Some(mine);
    fixture.store.create_conversation(his, 100).wait().unwrap();
    let of_project = ConversationQuery { project: Some(mine), ..query(ANN, 1) };
    assert_eq!(names(&fixture, &of_project), ["c4"]);
    assert!(fixture.store.conversations(&of_project).unwrap().next.is_some());
    assert_eq!(fixture.store.counts_by_project(ANN).unwrap(), [(mine, 2), (other, 1)].into());
    assert_eq!(fixture.store.remove_conversations_of(ANN, mine).wait(), Ok(2));
    assert_eq!(names(&fixture, &query(ANN, 10)), ["c3", "c2"]);
    assert_eq!(fixture.store.counts_by_project(ANN).unwrap(), [(other, 1)].into());
    assert_eq!(fixture.store.counts_by_project(BOB).unwrap(), [(mine, 1)].into(), "P7");
    assert_eq!(fixture.store.remove_conversations_of(ANN, mine).wait(), Ok(0));
}

#[test]
fn a_batch_line_over_the_conversation_limit_fails_alone() {
    let fixture = Fixture::with(&Limits { conversations: 1, ..Limits::default() });
    let line = |number: u32, chat: &str| NewLine {
        custom_id: number.to_string(),
        spec: turn(u128::from(number), ANN, chat).spec,
    };
    let batch = BatchId::from_bits(1);
    fixture.store.fill((ANN, batch), 0, vec![line(0, "a"), line(1, "b"), line(2, "a")]).wait().unwrap();
    let (created_at_ms, webhook_url) = (1_000_000, None);
    let new = NewBatch {
        id: batch,
        user: ANN,
        created_at_ms,
        lines: 3,
        concurrency: 9,
        webhook_url,
        expires_at_ms: None,
        source: None,
    };
    drop(fixture.store.accept(new, None).wait().unwrap());
    assert_eq!(names(&fixture, &query(ANN, 9)), ["a"]);
    for _ in 0..2 {
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "line")).wait().unwrap();
    }
    let counts = fixture.store.batch(ANN, batch).unwrap().unwrap().counts;
    assert_eq!((counts.completed, counts.failed, counts.open()), (2, 1, 0));
    assert_eq!(get(&fixture, ANN, "a").unwrap().message_count, 4);
}

#[test]
fn a_job_for_an_existing_conversation_does_not_recreate_a_removed_one() {
    let fixture = Fixture::new();
    create(&fixture, ANN, "chat");
    create(&fixture, BOB, "chat");
    let homed = |number| NewJob { in_existing: true, ..turn(number, ANN, "chat") };
    fixture.submit([homed(1)]);
    let key = nanoclaw::domain::idempotency::IdempotencyKey { key: [1; 32], fingerprint: [1; 32] };
    assert!(matches!(fixture.store.submit_once(homed(2), key).wait(), Ok(Idempotent::New(_))));
    assert!(fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap());
    assert_eq!(fixture.store.submit(vec![job(3, ANN), homed(4)]).wait(), Err(SubmitError::NoConversation));
    let other = nanoclaw::domain::idempotency::IdempotencyKey { key: [2; 32], ..key };
    assert_eq!(fixture.store.submit_once(homed(5), other).wait().err(), Some(SubmitError::NoConversation));
    let again =
        RegenerateRequest { answer: id(1).message_id(), job: homed(6), replaces_question: false, key: None };
    let again = fixture.store.regenerate(ANN, name("chat"), again).wait();
    assert_eq!(again, Err(ConversationError::NoConversation));
    assert_eq!([3, 4, 5, 6].map(|number| fixture.store.job(ANN, id(number)).unwrap()), [const { None }; 4]);
    assert_eq!(get(&fixture, ANN, "chat"), None, "nothing was written");
    fixture.submit([turn(7, ANN, "chat")]);
    assert_eq!(
        get(&fixture, ANN, "chat").unwrap().message_count,
        1,
        "a job without this condition creates the conversation"
    );
}

#[test]
fn p8_a_page_of_conversations_is_limited_in_bytes_and_never_empty() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        let mut one = chat(ANN, &format!("c{number}"), number);
        one.settings.system_prompt = "x".repeat(600 << 10);
        fixture.store.create_conversation(one, 100).wait().unwrap();
    }
    let page = fixture.store.conversations(&query(ANN, 100)).unwrap();
    assert_eq!((page.conversations.len(), page.next.is_some()), (2, true));
    let last = page.conversations.last().unwrap();
    let cursor = ConversationCursor { updated_at_ms: last.updated_at_ms, id: last.id.clone() };
    let rest = ConversationQuery { before: Some(cursor), ..query(ANN, 100) };
    assert_eq!(names(&fixture, &rest), ["c1"]);
}
