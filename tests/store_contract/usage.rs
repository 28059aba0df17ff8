//! Usage of users: each end of a job records its usage since the previous end; nothing removes it.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cancelled, cost, done, id, job, name, turn};
use nanoclaw::domain::conversation::ConversationChange;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record};
use nanoclaw::domain::id::{BatchId, ConversationId, UserId};
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::usage::{GroupUsage, Usage};
use nanoclaw::ports::{DayUsage, HourUsage, Lease, NewBatch, NewLine, NodeStore, Urgency};
use nanoclaw::store::options::StoreOptions;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;

fn failed() -> JobOutcome {
    let event =
        Event::Error { content: "no".to_owned(), code: FailureCode::ProviderError, retry_after_ms: None };
    JobOutcome { event, ..cancelled() }
}

fn spend(fixture: &Fixture, lease: &Lease, records: Vec<Record>) {
    fixture.store.append(lease.fence(), records, Urgency::Now).wait().unwrap();
}

fn demo(prompt: u64) -> Record {
    cost(None, Usage::new(prompt, 1))
}

/// As `(day, model, prompt tokens, jobs)`.
fn usage_rows(store: &Arc<dyn NodeStore>, user: UserId) -> Vec<(u32, String, u64, u64)> {
    let line = |day: DayUsage| (day.day, day.model, day.usage.prompt_tokens, day.jobs);
    store.usage(user, 0, u32::MAX).unwrap().into_iter().map(line).collect()
}

fn line(day: u32, model: &str, prompt: u64, jobs: u64) -> (u32, String, u64, u64) {
    (day, model.to_owned(), prompt, jobs)
}

fn conversation(store: &Arc<dyn NodeStore>, user: UserId, name: &str) -> Vec<(String, u64)> {
    let ledger = store.conversation_usage(user, &ConversationId::try_from(name.to_owned()).unwrap()).unwrap();
    ledger.entries().map(|(model, usage)| (model.to_owned(), usage.prompt_tokens)).collect()
}

#[test]
fn all_usage_of_a_job_is_recorded_by_model_at_its_end() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let lease = fixture.claim();
    let failure = EngineMark::ModelFailed {
        message: "broke off".to_owned(),
        code: FailureCode::ProviderError,
        retryable: true,
        elsewhere: false,
        usage: Usage::new(5, 1),
        model: None,
        times: None,
    };
    spend(&fixture, &lease, vec![failure.into(), demo(10), cost(Some("other"), Usage::new(20, 1))]);
    assert_eq!(usage_rows(&fixture.store, ANN), [], "usage is recorded at the end");
    let title = EngineMark::spent("other", Usage::new(2, 1));
    fixture.store.finish(lease.fence(), vec![title.into()], done(id(1), "x")).wait().unwrap();
    assert_eq!(usage_rows(&fixture.store, ANN), [line(0, "demo", 15, 1), line(0, "other", 22, 1)]);
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().usage, Usage::new(37, 4));
    let cost = [("demo".to_owned(), 15), ("other".to_owned(), 22)];
    assert_eq!(conversation(&fixture.store, ANN, "chat"), cost);
    assert_eq!(conversation(&fixture.crash().store, ANN, "chat"), cost);
}

#[test]
fn p7_usage_of_users_and_conversations_is_separate() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, BOB, "chat"), turn(3, ANN, "chat-2"), job(4, BOB)]);
    for (number, lease) in (1..).zip(fixture.store.claim(10).wait().unwrap()) {
        assert_eq!(lease.job.id, id(number), "in turns");
        let prompt = [0, 1, 10, 100, 1_000][usize::try_from(number).unwrap()];
        fixture.store.finish(lease.fence(), vec![demo(prompt)], done(lease.job.id, "x")).wait().unwrap();
    }
    assert_eq!(usage_rows(&fixture.store, ANN), [line(0, "demo", 101, 2)]);
    assert_eq!(usage_rows(&fixture.store, BOB), [line(0, "demo", 1_010, 2)]);
    assert_eq!(usage_rows(&fixture.store, UserId(3)), []);
    assert_eq!(conversation(&fixture.store, ANN, "chat"), [("demo".to_owned(), 1)]);
    assert_eq!(conversation(&fixture.store, BOB, "chat"), [("demo".to_owned(), 10)]);
    assert_eq!(conversation(&fixture.store, BOB, "chat-2"), []);
}

#[test]
fn usage_is_recorded_once_across_crashes_and_postponed_runs() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    spend(&fixture, &fixture.claim(), vec![demo(1)]);
    let fixture = fixture.crash();
    assert_eq!(usage_rows(&fixture.store, ANN), []);
    let lease = fixture.claim();
    spend(&fixture, &lease, vec![demo(10)]);
    fixture.store.postpone(lease.fence(), "busy".to_owned(), 5).wait().unwrap();
    fixture.clock.advance(5);
    let lease = fixture.claim();
    spend(&fixture, &lease, vec![demo(100)]);
    fixture.store.release(lease.fence()).wait().unwrap();
    let fixture = fixture.crash();
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![demo(1_000)], done(id(1), "x")).wait().unwrap();
    assert_eq!(usage_rows(&fixture.crash().store, ANN), [line(0, "demo", 1_111, 1)]);
}

#[test]
fn a_retried_job_records_only_new_usage_on_the_day_of_each_end() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![demo(1)], failed()).wait().unwrap();
    fixture.store.retry(ANN, id(1)).wait().unwrap();
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], failed()).wait().unwrap();
    assert_eq!(usage_rows(&fixture.store, ANN), [line(0, "demo", 1, 1)], "no usage between the two ends");
    fixture.clock.advance(DAY_MS);
    fixture.store.retry(ANN, id(1)).wait().unwrap();
    let fixture = fixture.crash();
    let lease = fixture.claim();
    fixture
        .store
        .finish(lease.fence(), vec![demo(10), cost(Some("b"), Usage::new(5, 5))], failed())
        .wait()
        .unwrap();
    fixture.store.retry(ANN, id(1)).wait().unwrap();
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![demo(100)], done(id(1), "x")).wait().unwrap();
    let lines = [line(0, "demo", 1, 1), line(1, "b", 5, 1), line(1, "demo", 110, 0)];
    assert_eq!(usage_rows(&fixture.store, ANN), lines, "the job counts once, on the day of its first end");
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().usage.prompt_tokens, 116);
    assert_eq!(conversation(&fixture.store, ANN, "chat"), [("b".to_owned(), 5), ("demo".to_owned(), 111)]);
    assert_eq!(fixture.store.usage(ANN, 1, 1).unwrap().len(), 2);
    assert_eq!(fixture.store.usage(ANN, 0, 0).unwrap().len(), 1);
    assert_eq!(fixture.store.usage(ANN, 2, u32::MAX).unwrap(), []);
    assert_eq!(fixture.store.usage(ANN, 1, 0).unwrap(), [], "an inverted range is empty");
}

#[test]
fn usage_of_jobs_ended_by_the_store_is_recorded() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN), job(2, ANN), job(3, BOB)]);
    for lease in fixture.store.claim(2).wait().unwrap() {
        spend(&fixture, &lease, vec![demo(1)]);
        fixture.store.release(lease.fence()).wait().unwrap();
    }
    for number in 1..=3 {
        fixture.store.cancel(ANN, id(number)).wait().unwrap();
    }
    let (ann, bob) = (usage_rows(&fixture.store, ANN), usage_rows(&fixture.store, BOB));
    let claimed = u64::try_from(ann.len() + bob.len()).unwrap();
    assert!(claimed > 0 && ann.iter().all(|line| line.2 == line.3), "{ann:?}");
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN)]);
    spend(&fixture, &fixture.claim(), vec![demo(7)]);
    let poisoned = fixture.crash_with(&Limits { crashes: 1, ..Limits::default() });
    assert!(poisoned.store.job(ANN, id(1)).unwrap().unwrap().status.is_terminal());
    assert_eq!(usage_rows(&poisoned.store, ANN), [line(0, "demo", 7, 1)]);
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    assert_eq!(usage_rows(&fixture.store, ANN), [], "the job still runs");
    assert_eq!(usage_rows(&fixture.crash().store, ANN), [line(0, "demo", 7, 1)], "recovery ends the job");
}

#[test]
fn usage_of_batch_lines_is_recorded_like_that_of_other_jobs() {
    let fixture = Fixture::new();
    let batch = BatchId::from_bits(1);
    let lines = (0..3).map(|n: u32| NewLine { custom_id: n.to_string(), spec: job(1, BOB).spec }).collect();
    fixture.store.fill((ANN, batch), 0, lines).wait().unwrap();
    let new = NewBatch {
        id: batch,
        user: BOB,
        created_at_ms: 0,
        lines: 3,
        concurrency: 1,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    };
    drop(fixture.store.accept(new, None).wait().unwrap());
    for _ in 0..2 {
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), vec![demo(4)], done(lease.job.id, "x")).wait().unwrap();
    }
    fixture.store.cancel_batch(BOB, batch).wait().unwrap();
    assert_eq!(
        usage_rows(&fixture.store, BOB),
        [line(0, "demo", 8, 2)],
        "a line that never started has no usage"
    );
}

#[test]
fn deleting_a_job_keeps_its_usage() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![demo(3)], done(id(1), "x")).wait().unwrap();
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    assert_eq!(fixture.store.job(ANN, id(1)), Ok(None));
    assert_eq!(usage_rows(&fixture.store, ANN), [line(0, "demo", 3, 1)]);
    assert_eq!(conversation(&fixture.store, ANN, "chat"), [("demo".to_owned(), 3)]);
}

#[test]
fn model_names_may_be_long_and_contain_any_characters() {
    let fixture = Fixture::new();
    let names = ["é\u{0}\"\n".to_owned(), "m".repeat(100_000), "m".repeat(100_001), "m".to_owned()];
    for (number, name) in (1..).zip(&names) {
        fixture.submit([job(number, ANN)]);
        let lease = fixture.claim();
        let spent = cost(Some(name), Usage::new(2, 0));
        fixture.store.finish(lease.fence(), vec![spent], done(id(number), "x")).wait().unwrap();
    }
    let mut expected: Vec<_> = names.iter().map(|name| line(0, name, 2, 1)).collect();
    expected.sort();
    assert_eq!(usage_rows(&fixture.store, ANN), expected);
}

#[test]
fn p4_an_unreadable_usage_row_does_not_block_the_end_of_a_job() {
    let mut fixture = Fixture::file();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![demo(1)], done(id(1), "x")).wait().unwrap();
    fixture.store.close();
    let database = redb::Database::open(fixture.path()).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let usage = redb::TableDefinition::<&[u8], &[u8]>::new("usage");
        let mut usage = writing.open_table(usage).unwrap();
        let key = redb::ReadableTable::iter(&usage).unwrap().next().unwrap().unwrap().0.value().to_vec();
        usage.insert(key.as_slice(), b"\x01garbage".as_slice()).unwrap();
    }
    writing.commit().unwrap();
    drop(database);
    fixture.reopen(&StoreOptions::default(), &Limits::default());
    let store = &fixture.store;
    assert!(store.usage(ANN, 0, u32::MAX).is_err(), "a sum without it would be wrong");
    let lease = store.claim(1).wait().unwrap().pop().unwrap();
    store.finish(lease.fence(), vec![demo(2)], done(id(2), "x")).wait().unwrap();
    assert_eq!(usage_rows(store, ANN), [line(0, "demo", 2, 1)], "the row starts again from zero");
    assert_eq!(conversation(store, ANN, "chat"), [("demo".to_owned(), 3)]);
}

const HOUR_MS: u64 = 3_600_000;

/// As `(hour, model, prompt tokens)`.
fn by_hour(store: &Arc<dyn NodeStore>, user: Option<UserId>, from: u32, to: u32) -> Vec<(u32, String, u64)> {
    let line = |hour: HourUsage| (hour.hour, hour.model, hour.usage.prompt_tokens);
    store.usage_by_hour(user, from, to).unwrap().into_iter().map(line).collect()
}

fn at(hour: u32, model: &str, prompt: u64) -> (u32, String, u64) {
    (hour, model.to_owned(), prompt)
}

/// Runs a job with this usage.
fn run(fixture: &Fixture, number: u128, user: UserId, spent: Record) {
    fixture.submit([job(number, user)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![spent], done(id(number), "x")).wait().unwrap();
}

#[test]
fn p7_hourly_usage_can_be_read_for_one_user_or_for_all() {
    let fixture = Fixture::new();
    run(&fixture, 1, ANN, demo(1));
    run(&fixture, 2, ANN, demo(2));
    run(&fixture, 3, BOB, demo(10));
    fixture.clock.advance(25 * HOUR_MS);
    run(&fixture, 4, ANN, demo(100));
    run(&fixture, 5, UserId(u32::MAX), cost(Some("other"), Usage::new(1_000, 0)));
    let fixture = fixture.crash();
    let all = |user| by_hour(&fixture.store, user, 0, u32::MAX);
    assert_eq!(all(Some(ANN)), [at(0, "demo", 3), at(25, "demo", 100)]);
    assert_eq!(all(Some(BOB)), [at(0, "demo", 10)]);
    assert_eq!(all(Some(UserId(3))), []);
    assert_eq!(all(None), [at(0, "demo", 13), at(25, "demo", 100), at(25, "other", 1_000)]);
    assert_eq!(by_hour(&fixture.store, None, 1, 24), []);
    assert_eq!(by_hour(&fixture.store, None, 25, 25).len(), 2);
    assert_eq!(by_hour(&fixture.store, None, 25, 24), [], "an inverted range is empty");
    assert_eq!(
        usage_rows(&fixture.store, ANN),
        [line(0, "demo", 3, 2), line(1, "demo", 100, 1)],
        "daily usage is unchanged"
    );
}

/// As `(user, prompt tokens, jobs)`.
fn by_user(
    store: &Arc<dyn NodeStore>,
    user: Option<UserId>,
    days: (u32, u32),
    limit: usize,
) -> (Vec<(u32, u64, u64)>, bool) {
    let (groups, is_cut) = store.usage_by_user(user, days, limit).unwrap();
    let line = |GroupUsage { group, usage, jobs }: GroupUsage<UserId>| (group.0, usage.prompt_tokens, jobs);
    (groups.into_iter().map(line).collect(), is_cut)
}

#[test]
fn p7_usage_is_summed_by_user_for_one_or_for_all() {
    let fixture = Fixture::new();
    run(&fixture, 1, ANN, demo(1));
    run(&fixture, 2, BOB, demo(10));
    fixture.clock.advance(DAY_MS);
    run(&fixture, 3, ANN, cost(Some("other"), Usage::new(100, 0)));
    run(&fixture, 4, UserId(u32::MAX), demo(2));
    let fixture = fixture.crash();
    let all = |days, limit| by_user(&fixture.store, None, days, limit);
    let (ann, bob, last) = ((ANN.0, 101, 2), (BOB.0, 10, 1), (u32::MAX, 2, 1));
    assert_eq!(all((0, u32::MAX), 9), (vec![ann, bob, last], false), "the largest first");
    assert_eq!(all((0, u32::MAX), 2), (vec![ann, bob], true));
    assert_eq!(all((0, 0), 9), (vec![bob, (ANN.0, 1, 1)], false));
    assert_eq!(all((2, 9), 9), (vec![], false));
    assert_eq!(by_user(&fixture.store, Some(ANN), (0, 9), 9), (vec![ann], false));
    assert_eq!(by_user(&fixture.store, Some(UserId(3)), (0, 9), 9), (vec![], false));
}

/// As `(conversation, title, prompt tokens, jobs)`.
fn by_conversation(
    store: &Arc<dyn NodeStore>,
    user: UserId,
    days: (u32, u32),
) -> Vec<(String, String, u64, u64)> {
    let (groups, is_cut) = store.usage_by_conversation(user, days, 9).unwrap();
    assert!(!is_cut);
    let text = |each: &str| each.to_owned();
    groups
        .into_iter()
        .map(|each| (text(each.group.id.as_str()), each.group.title, each.usage.prompt_tokens, each.jobs))
        .collect()
}

#[test]
fn p7_usage_is_summed_by_conversation_and_day_until_the_conversation_is_removed() {
    let fixture = Fixture::new();
    let say = |number: u128, user: UserId, conversation: &str, prompt: u64| {
        fixture.submit([turn(number, user, conversation)]);
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), vec![demo(prompt)], done(id(number), "x")).wait().unwrap();
    };
    say(1, ANN, "chat", 1);
    say(2, ANN, "chat-2", 50);
    say(3, BOB, "chat", 10);
    fixture.clock.advance(DAY_MS);
    say(4, ANN, "chat", 100);
    say(5, ANN, "chat", 1_000);
    let title = ConversationChange { title: Some("Sums".to_owned()), ..ConversationChange::default() };
    fixture.store.update(ANN, name("chat"), title).wait().unwrap();
    let line = |conversation: &str, title: &str, prompt: u64, jobs: u64| {
        (conversation.to_owned(), title.to_owned(), prompt, jobs)
    };
    let all = |user, days| by_conversation(&fixture.store, user, days);
    assert_eq!(all(ANN, (0, u32::MAX)), [line("chat", "Sums", 1_101, 3), line("chat-2", "", 50, 1)]);
    assert_eq!(all(ANN, (0, 0)), [line("chat-2", "", 50, 1), line("chat", "Sums", 1, 1)]);
    assert_eq!(all(ANN, (1, 1)), [line("chat", "Sums", 1_100, 2)]);
    assert_eq!(all(BOB, (0, u32::MAX)), [line("chat", "", 10, 1)]);
    assert_eq!(conversation(&fixture.store, ANN, "chat"), [("demo".to_owned(), 1_101)], "the whole");
    fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap();
    assert_eq!(all(ANN, (0, u32::MAX)), [line("chat-2", "", 50, 1)]);
    assert_eq!(all(BOB, (0, u32::MAX)), [line("chat", "", 10, 1)], "of the same name, but not hers");
    say(6, ANN, "chat", 7);
    let fixture = fixture.crash();
    let again = by_conversation(&fixture.store, ANN, (0, u32::MAX));
    assert_eq!(again, [line("chat-2", "", 50, 1), line("chat", "", 7, 1)], "a new one starts at zero");
    let (most, is_cut) = fixture.store.usage_by_conversation(ANN, (0, u32::MAX), 1).unwrap();
    assert_eq!((most.len(), is_cut), (1, true));
}
