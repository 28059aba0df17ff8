//! The stored bytes of users: counted with each commit, and the quota of them.

use super::fixture::Fixture;
use crate::support::database;
use crate::support::store::{ANN, BOB, chat, delta, done, id, job, name, turn};
use nanoclaw::domain::account::{Quota, QuotaKind};
use nanoclaw::domain::conversation::ConversationChange;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode};
use nanoclaw::domain::id::{BatchId, JobId, ScheduleId, UserId};
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::schedule::{Schedule, ScheduledRequest};
use nanoclaw::domain::timing::Timing;
use nanoclaw::ports::{
    AccountChange, Accounts, BatchError, Clock, NewBatch, NewJob, NewLine, NodeStore, Schedules, Store,
    Urgency,
};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::{RedbStore, RetentionAge};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::sync::Arc;

const HOUR_MS: u64 = 3_600_000;

/// A job with an input of so many bytes.
fn heavy(number: u128, user: UserId, bytes: usize) -> NewJob {
    let mut new = job(number, user);
    new.spec.input = vec![Message::user("x".repeat(bytes))];
    new
}

fn set_quota(store: &Arc<dyn NodeStore>, stored_bytes: u64) {
    let quota = Some(Quota { stored_bytes: Some(stored_bytes), ..Quota::default() });
    store.change_account(ANN, AccountChange { quota, ..AccountChange::default() }).wait().unwrap();
}

fn failed() -> JobOutcome {
    let event =
        Event::Error { content: "broke".to_owned(), code: FailureCode::Internal, retry_after_ms: None };
    JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None }
}

fn lines(count: u32, bytes: usize) -> Vec<NewLine> {
    (0..count).map(|n| NewLine { custom_id: n.to_string(), spec: heavy(1, ANN, bytes).spec }).collect()
}

fn batch(number: u128, lines: u32) -> NewBatch {
    let (created_at_ms, webhook_url) = (1_000_000, None);
    NewBatch {
        id: BatchId::from_bits(number),
        user: ANN,
        created_at_ms,
        lines,
        concurrency: 2,
        webhook_url,
        expires_at_ms: None,
        source: None,
    }
}

fn schedule(number: u128, now_ms: u64) -> (Schedule, ScheduledRequest) {
    let timing = Timing::Every { seconds: 60, anchor_ms: now_ms };
    let schedule = Schedule::new(ScheduleId::from_bits(number), ANN, None, timing, now_ms);
    let given: Map<_, _> = json!({"input": "x"}).as_object().unwrap().clone();
    (schedule, ScheduledRequest { spec: heavy(1, ANN, 500).spec, given })
}

#[test]
fn p7_each_user_has_the_bytes_of_its_own_jobs_until_they_are_deleted() {
    let fixture = Fixture::new();
    let bytes = |user| fixture.store.stored_bytes(user).unwrap();
    fixture.submit([heavy(1, ANN, 10_000)]);
    let queued = bytes(ANN);
    assert!((10_000..12_000).contains(&queued), "{queued}");
    assert_eq!(bytes(BOB), 0);
    let lease = fixture.claim();
    let mark = EngineMark::ToolWhole { handle: "h".to_owned(), content: "y".repeat(5_000) };
    let records = vec![delta(0, 0, &"z".repeat(3_000)), mark.into()];
    fixture.store.append(lease.fence(), records, Urgency::Now).wait().unwrap();
    fixture.store.finish(lease.fence(), vec![], done(id(1), &"a".repeat(2_000))).wait().unwrap();
    let grown = bytes(ANN) - queued;
    assert!((10_000..12_000).contains(&grown), "log and output count: {grown}");
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    assert_eq!(bytes(ANN), 0);
}

#[test]
fn p8_a_batch_waits_while_its_owner_stores_too_much() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    store.fill((ANN, BatchId::from_bits(1)), 0, lines(4, 1_000)).wait().unwrap();
    assert!(store.stored_bytes(ANN).unwrap() > 4_000, "lines count before the batch is accepted");
    store.accept(batch(1, 4), None).wait().unwrap();
    let leases = store.claim(9).wait().unwrap();
    assert_eq!(leases.len(), 2);
    set_quota(store, 4_000);
    for lease in leases {
        store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    }
    assert_eq!(fixture.claim_all(), []);
    let waiting_for = || store.batch(ANN, BatchId::from_bits(1)).unwrap().unwrap().waiting_for;
    assert_eq!(waiting_for(), Some(QuotaKind::StoredBytes));
    set_quota(store, 1_000_000);
    store.resume_waiting().wait().unwrap();
    assert_eq!((fixture.claim_all().len(), waiting_for()), (2, None));
}

#[test]
fn p8_a_deleted_batch_gives_the_bytes_of_its_lines_back() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let id = BatchId::from_bits(1);
    store.fill((ANN, id), 0, lines(9, 1_000)).wait().unwrap();
    store.accept(batch(1, 9), None).wait().unwrap();
    assert_eq!(store.delete_batch(ANN, id).wait(), Err(BatchError::NotEnded));
    store.cancel_batch(ANN, id).wait().unwrap();
    let before = store.stored_bytes(ANN).unwrap();
    assert_eq!(store.delete_batch(BOB, id).wait(), Ok(false), "P7");
    assert_eq!(store.delete_batch(ANN, id).wait(), Ok(true));
    assert!(before - store.stored_bytes(ANN).unwrap() > 7_000, "seven lines had no job yet");
}

#[test]
fn p8_a_schedule_does_not_fire_while_its_owner_stores_too_much() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let (new, order) = schedule(1, fixture.clock.now_ms());
    store.put(new, order, 9).wait().unwrap();
    let stored = store.stored_bytes(ANN).unwrap();
    assert!(stored > 500, "a schedule counts: {stored}");
    let fire = |fresh| {
        fixture.clock.advance(60_000);
        store.fire_due(vec![id(fresh)]).wait().unwrap().jobs.len()
    };
    set_quota(store, stored + 400);
    assert_eq!(fire(1), 0, "the input of its job does not fit");
    let (seen, _) = Schedules::schedule(&**store, ANN, ScheduleId::from_bits(1)).unwrap().unwrap();
    assert_eq!(seen.schedule.last_skip.map(|skip| skip.quota), Some(QuotaKind::StoredBytes));
    set_quota(store, stored + 10_000);
    assert_eq!(fire(2), 1);
}

#[test]
fn stored_bytes_are_counted_anew_after_a_time_without_quotas() {
    let fixture = Fixture::file();
    fixture.submit([heavy(1, ANN, 10_000)]);
    let before = fixture.store.stored_bytes(ANN).unwrap();
    fixture.store.close();
    let open = |has_quotas| {
        let options = StoreOptions { has_quotas, ..StoreOptions::default() };
        let clock = Arc::clone(&fixture.clock) as Arc<dyn Clock>;
        RedbStore::open(&fixture.path(), &options, &Limits::default(), clock).unwrap()
    };
    let single = open(false);
    single.submit(vec![heavy(2, ANN, 10_000)]).wait().unwrap();
    assert_eq!(single.stored_bytes(ANN), Ok(0), "nothing is counted");
    single.close();
    let now = open(true).stored_bytes(ANN).unwrap();
    assert!((2 * before).abs_diff(now) < 100, "{before}, then {now}");
}

/// A store that retention empties within hours.
struct Workload {
    fixture: Fixture,
    store: Arc<dyn NodeStore>,
    number: u128,
}

impl Workload {
    fn new() -> Self {
        let fixture = Fixture::new();
        let store = Self::reopen(&fixture);
        Self { fixture, store, number: 0 }
    }

    fn reopen(fixture: &Fixture) -> Arc<dyn NodeStore> {
        fixture.store.close();
        let age = |hours| RetentionAge::For(hours * HOUR_MS);
        let retention =
            RetentionOptions { deltas: age(1), events: age(2), jobs: age(3), ..RetentionOptions::default() };
        let options = StoreOptions { retention, settle_ms: 60_000, ..StoreOptions::default() };
        fixture.place.open(&options, &Limits::default(), Arc::clone(&fixture.clock) as Arc<dyn Clock>)
    }

    fn step(&mut self, op: u8, at: usize) {
        self.number += 1;
        let (number, store) = (self.number, &self.store);
        let any = 1 + at as u128 % number;
        let user = if at.is_multiple_of(2) { ANN } else { BOB };
        match op {
            0 => drop(store.submit(vec![heavy(number, user, at % 3_000)]).wait()),
            1 | 2 => drop(store.submit(vec![turn(number, user, "chat")]).wait()),
            3..=5 => self.run_job(op == 5),
            6 => drop(store.retry(user, id(any)).wait()),
            7 => drop(store.delete(user, id(any)).wait()),
            8 => drop(store.cancel(user, id(any)).wait()),
            9 => self.batch(at),
            10 => drop(store.cancel_batch(ANN, BatchId::from_bits(any)).wait()),
            17 => drop(store.delete_batch(ANN, BatchId::from_bits(any)).wait()),
            11 => {
                let (new, order) = schedule(number, self.fixture.clock.now_ms());
                store.put(new, order, 99).wait().unwrap();
            }
            12 => drop(store.remove(ANN, ScheduleId::from_bits(any)).wait()),
            13 => self.fire(),
            14 => self.sweep(),
            15 => drop(store.remove_conversation(user, name("chat")).wait()),
            16 => self.converse(user, at),
            _ => {
                self.fixture = self.fixture.crash();
                self.store = Self::reopen(&self.fixture);
            }
        }
    }

    fn run_job(&self, fails: bool) {
        let Some(lease) = self.store.claim(1).wait().unwrap().pop() else { return };
        let mark = EngineMark::ToolWhole { handle: "h".to_owned(), content: "whole".to_owned() };
        for record in [delta(0, 0, "one "), delta(0, 4, "two"), mark.into()] {
            self.store.append(lease.fence(), vec![record], Urgency::Now).wait().unwrap();
        }
        let ending = if fails { failed() } else { done(lease.job.id, "an answer") };
        self.store.finish(lease.fence(), vec![], ending).wait().unwrap();
    }

    fn batch(&self, at: usize) {
        let (batch, count) = (batch(self.number, 3), at % 2_000);
        self.store.fill((ANN, batch.id), 0, lines(3, count)).wait().unwrap();
        match at % 3 {
            0 => self.store.abandon(batch.id).wait().unwrap(),
            1 => drop(self.store.accept(batch, None).wait().unwrap()),
            // A start abandons it.
            _ => {}
        }
    }

    fn fire(&self) {
        self.fixture.clock.advance(60_000);
        let fresh: Vec<JobId> = (0..4).map(|n| id((self.number << 8) + n)).collect();
        self.store.fire_due(fresh).wait().unwrap();
    }

    fn sweep(&self) {
        self.fixture.clock.advance(HOUR_MS - 60_000);
        for _ in 0..4 {
            self.fixture.clock.advance(60_000);
            self.store.probe().wait().unwrap();
        }
    }

    fn converse(&self, user: UserId, at: usize) {
        let conversation = chat(user, "chat", 1_000_000);
        // It may exist.
        drop(self.store.create_conversation(conversation, 9).wait());
        let change =
            ConversationChange { system_prompt: Some("p".repeat(at % 900)), ..ConversationChange::default() };
        drop(self.store.update(user, name("chat"), change).wait());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if database::is_wanted() { 8 } else { 64 },
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn p8_what_quotas_count_always_equals_a_new_count(
        steps in proptest::collection::vec((0..19u8, any::<usize>()), 1..60),
    ) {
        let mut workload = Workload::new();
        for (op, at) in steps {
            workload.step(op, at);
        }
        workload.store.close();
        prop_assert_eq!(workload.fixture.place.check_counts().err(), None);
    }
}
