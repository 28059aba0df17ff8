//! Retention: folded deltas keep text and sequence numbers, truncated logs keep their terminal event,
//! expired jobs are removed completely, and unfinished jobs are never touched.

use super::fixture::Fixture;
use crate::support::store::{ANN, ManualClock, MessagePages, cancelled, delta, done, id, job, name, turn};
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record};
use nanoclaw::domain::id::{BatchId, JobId};
use nanoclaw::domain::job::{ConversationSummary, History, JobOutcome, JobStatus};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{
    ChatMessage, Clock, JobChangeError, JobQuery, MessageRef, NewBatch, NewLine, NodeStore, Store, Urgency,
};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::{RedbStore, RetentionAge};
use std::sync::Arc;

const HOUR: u64 = 3_600_000;

/// The fixture's file, opened again with these retention ages.
struct RetentionSetup {
    fixture: Fixture,
    store: Arc<dyn NodeStore>,
}

fn open_with(deltas: RetentionAge, events: RetentionAge, jobs: RetentionAge) -> RetentionSetup {
    let fixture = Fixture::file();
    fixture.store.close();
    let options = StoreOptions {
        retention: RetentionOptions { deltas, events, jobs, ..RetentionOptions::default() },
        settle_ms: 60_000,
        ..StoreOptions::default()
    };
    let clock = Arc::clone(&fixture.clock) as Arc<dyn Clock>;
    let store = RedbStore::open(&fixture.path(), &options, &Limits::default(), clock).unwrap();
    RetentionSetup { fixture, store }
}

impl RetentionSetup {
    /// Advances both clocks and runs the due sweeps.
    fn pass(&self, ms: u64) {
        self.fixture.clock.advance(ms);
        self.sweep();
    }

    fn sweep(&self) {
        self.fixture.clock.advance(60_000);
        for _ in 0..5 {
            self.store.probe().wait().unwrap(); // a sweep follows each single write
        }
    }

    /// Runs a job with a step of three deltas, a mark, a discarded step and a step of one delta.
    fn run(&self, n: u128, ending: impl FnOnce(JobId) -> JobOutcome) {
        self.store.submit(vec![turn(n, ANN, &format!("chat-{n}"))]).wait().unwrap();
        let lease = self.store.claim(1).wait().unwrap().pop().unwrap();
        let finished = EngineMark::model_finished(FinishReason::Stop, Usage::new(1, 1), None);
        let records: Vec<Record> = vec![
            delta(0, 0, "one "),
            delta(0, 4, "two "),
            delta(0, 8, "three"),
            finished.into(),
            delta(1, 0, "bad"),
            delta(1, 3, "ly"),
            Event::StepDiscarded { index: 1 }.into(),
            delta(2, 0, "again"),
        ];
        for record in records {
            self.store.append(lease.fence(), vec![record], Urgency::Now).wait().unwrap();
        }
        self.store.finish(lease.fence(), vec![], ending(id(n))).wait().unwrap();
    }

    fn seqs(&self, n: u128) -> Vec<u64> {
        self.store.events(id(n), 0, 100).unwrap().events.iter().map(|event| event.seq).collect()
    }

    fn marks(&self, n: u128) -> usize {
        let log = self.store.log(id(n)).unwrap();
        log.iter().filter(|record| matches!(record, Record::Mark(_))).count()
    }
}

fn answered(job: JobId) -> JobOutcome {
    done(job, "answer")
}

fn failed(_: JobId) -> JobOutcome {
    let event =
        Event::Error { content: "x".to_owned(), code: FailureCode::ProviderError, retry_after_ms: None };
    JobOutcome { event, ..cancelled() }
}

const WHOLE: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// Without 3 and 4, which are folded into 5, and without the discarded 6 and 7.
const FOLDED: [u64; 6] = [1, 2, 5, 8, 9, 10];

#[test]
fn p2_folded_deltas_keep_their_text_and_the_last_sequence_number() {
    let setup = open_with(RetentionAge::For(24 * HOUR), RetentionAge::Forever, RetentionAge::Forever);
    setup.run(1, answered);
    setup.pass(23 * HOUR);
    assert_eq!(setup.seqs(1), WHOLE, "not old enough");
    setup.pass(2 * HOUR);
    assert_eq!(setup.seqs(1), FOLDED);
    let page = setup.store.events(id(1), 2, 1).unwrap();
    assert_eq!(page.last_seq, 10);
    let Event::Delta { offset: 0, first_seq: 5, text, .. } = &page.events[0].event else {
        panic!("{page:?}")
    };
    assert_eq!(text, "one two three");
    assert_eq!(setup.store.step_text(id(1), 5, 5).unwrap(), "one two three");
    assert_eq!(setup.store.output(id(1)).unwrap().as_deref(), Some("answer"));
    assert_eq!(setup.marks(1), 0, "an answered job needs no marks");
}

#[test]
fn folding_keeps_the_marks_of_a_failed_job_for_a_retry() {
    let setup = open_with(RetentionAge::For(HOUR), RetentionAge::Forever, RetentionAge::Forever);
    setup.run(1, failed);
    setup.run(2, |_| cancelled());
    setup.pass(2 * HOUR);
    assert_eq!((setup.seqs(1), setup.seqs(2)), (FOLDED.to_vec(), FOLDED.to_vec()));
    assert_eq!((setup.marks(1), setup.marks(2)), (1, 0));
}

#[test]
fn a_truncated_log_keeps_its_terminal_event_and_the_answer() {
    let setup = open_with(RetentionAge::For(HOUR), RetentionAge::For(3 * HOUR), RetentionAge::Forever);
    setup.run(1, answered);
    setup.pass(2 * HOUR);
    assert_eq!(setup.seqs(1), FOLDED);
    setup.pass(2 * HOUR);
    assert_eq!(setup.seqs(1), [10]);
    let page = setup.store.events(id(1), 10, 10).unwrap();
    assert_eq!((page.events.len(), page.last_seq), (0, 10), "the last event id does not change");
    assert_eq!(setup.store.output(id(1)).unwrap().as_deref(), Some("answer"));
    assert_eq!(setup.store.job(ANN, id(1)).unwrap().unwrap().last_event_id, 10);
}

#[test]
fn an_answer_with_a_truncated_log_is_read_from_the_conversation() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::For(HOUR), RetentionAge::Forever);
    setup.run(1, answered);
    let chat = || name("chat-1");
    let answer = MessageRef::Answer(id(1).message_id());
    let answer_and_steps = || {
        let page = setup.store.message_page(ANN, &chat(), None, 10).unwrap();
        let Some(ChatMessage::Answer { answer, steps, .. }) = page.messages.last().cloned() else {
            panic!("{page:?}")
        };
        (answer, steps.len())
    };
    assert_eq!(answer_and_steps().0, [], "the log contains the answer");
    setup.pass(2 * HOUR);
    assert_eq!(answer_and_steps(), (vec![Message::assistant("answer")], 0));
    let ask = MessageRef::Ask(id(1).ask_id());
    assert_eq!(setup.store.delete_message(ANN, chat(), ask).wait(), Ok(true));
    assert_eq!(
        answer_and_steps(),
        (vec![Message::assistant("answer")], 0),
        "the answer stays without its question"
    );
    assert_eq!(setup.store.delete_message(ANN, chat(), answer).wait(), Ok(true));
    assert_eq!(setup.store.conversation(ANN, &chat()).unwrap().unwrap().message_count, 0);
}

#[test]
fn an_expired_job_leaves_no_rows() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::Forever, RetentionAge::For(HOUR));
    setup.run(1, answered);
    setup.pass(2 * HOUR);
    assert_eq!(setup.store.job(ANN, id(1)).unwrap(), None);
    assert_eq!((setup.seqs(1), setup.store.output(id(1)).unwrap()), (vec![], None));
    let all = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 10 };
    assert!(setup.store.jobs(&all).unwrap().jobs.is_empty());
    setup.store.submit(vec![turn(2, ANN, "chat-1")]).wait().unwrap();
    let next = setup.store.claim(1).wait().unwrap().pop().unwrap();
    assert!(setup.store.history(&next.job, 10).unwrap().turns.is_empty(), "its turn is removed as well");
    setup.store.finish(next.fence(), vec![], done(id(2), "x")).wait().unwrap();
    setup.store.close();
    // Only rows of the second job and the counters of the store remain.
    let database = redb::Database::open(setup.fixture.path()).unwrap();
    let reading = redb::ReadableDatabase::begin_read(&database).unwrap();
    for table in redb::ReadableDatabase::begin_read(&database).unwrap().list_tables().unwrap() {
        let name = redb::TableHandle::name(&table).to_owned();
        let rows = redb::ReadableTableMetadata::len(&reading.open_untyped_table(table).unwrap()).unwrap();
        let max_rows = match name.as_str() {
            "meta" | "log" => 3,
            // The conversation is still there: its usage as a whole, and on the day of both jobs.
            "conversation_usage" => 2,
            _ => 1,
        };
        assert!(rows <= max_rows, "{name} has {rows} rows");
    }
}

#[test]
fn retention_never_touches_unfinished_jobs() {
    let setup = open_with(RetentionAge::For(0), RetentionAge::For(0), RetentionAge::For(0));
    setup.store.submit(vec![job(1, ANN), job(2, ANN)]).wait().unwrap();
    let lease = setup.store.claim(1).wait().unwrap().pop().unwrap();
    setup.store.append(lease.fence(), vec![delta(0, 0, "a")], Urgency::Now).wait().unwrap();
    setup.pass(100 * HOUR);
    assert_eq!((setup.seqs(1), setup.seqs(2)), (vec![1, 2, 3], vec![1]));
    assert_eq!(setup.store.job(ANN, id(1)).unwrap().unwrap().status, JobStatus::Running);
}

#[test]
fn many_expired_jobs_are_removed_in_several_transactions() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::Forever, RetentionAge::For(HOUR));
    setup.store.submit((1..=450).map(|n| job(n, ANN)).collect()).wait().unwrap();
    let cancelled: Vec<_> = (1..=450).map(|n| setup.store.cancel(ANN, id(n))).collect();
    for ticket in cancelled {
        ticket.wait().unwrap();
    }
    setup.fixture.clock.advance(HOUR);
    setup.sweep();
    let all = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 1_000 };
    assert!(setup.store.jobs(&all).unwrap().jobs.is_empty());
}

#[test]
fn an_unreadable_job_does_not_block_the_removal_of_others() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    for n in [1, 2] {
        fixture.store.cancel(ANN, id(n)).wait().unwrap();
    }
    fixture.store.close();
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("jobs");
    let database = redb::Database::open(fixture.path()).unwrap();
    let writing = database.begin_write().unwrap();
    writing
        .open_table(table)
        .unwrap()
        .insert(id(1).to_bytes().as_slice(), b"\x01garbage".as_slice())
        .unwrap();
    writing.commit().unwrap();
    drop(database);
    let retention = RetentionOptions { jobs: RetentionAge::For(0), ..RetentionOptions::default() };
    let options = StoreOptions { retention, ..StoreOptions::default() };
    let clock = ManualClock::new();
    let store =
        RedbStore::open(&fixture.path(), &options, &Limits::default(), Arc::clone(&clock) as _).unwrap();
    clock.advance(60_000);
    store.probe().wait().unwrap();
    store.probe().wait().unwrap();
    assert_eq!(store.job(ANN, id(2)).unwrap(), None);
    assert!(store.job(ANN, id(1)).is_err(), "its row stays for the operator");
}

#[test]
fn a_restart_does_not_end_the_distrust_of_a_clock_that_jumped() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::Forever, RetentionAge::For(12 * HOUR));
    setup.run(1, answered);
    let is_there = |store: &Arc<dyn NodeStore>| store.job(ANN, id(1)).unwrap().is_some();
    // Shorter than a day, so it could be a pause after the restart.
    setup.fixture.clock.jump(20 * HOUR);
    setup.sweep();
    assert!(is_there(&setup.store), "control: the jump is noticed");
    let restart = |store: &Arc<dyn NodeStore>| {
        store.close();
        let options = StoreOptions {
            retention: RetentionOptions { jobs: RetentionAge::For(12 * HOUR), ..RetentionOptions::default() },
            settle_ms: 60_000,
            ..StoreOptions::default()
        };
        let clock = Arc::clone(&setup.fixture.clock) as Arc<dyn Clock>;
        setup.fixture.place.open(&options, &Limits::default(), clock)
    };
    let sweep = |store: &Arc<dyn NodeStore>, ms| {
        setup.fixture.clock.advance(ms);
        for _ in 0..5 {
            store.probe().wait().unwrap();
        }
    };
    let again = restart(&setup.store);
    sweep(&again, 60_000);
    assert!(is_there(&again), "the restart changed nothing");
    sweep(&again, 20 * HOUR);
    let again = restart(&again);
    sweep(&again, 60_000);
    assert!(is_there(&again), "nor did another one");
    sweep(&again, 4 * HOUR);
    assert!(!is_there(&again), "24 steady hours in all");
}

/// The current number of rows of a table.
fn rows(setup: &RetentionSetup, table: &str) -> u64 {
    let copy = setup.fixture.dir().join("copy.redb");
    std::fs::copy(setup.fixture.path(), &copy).unwrap();
    let database = redb::Database::open(&copy).unwrap();
    let reading = redb::ReadableDatabase::begin_read(&database).unwrap();
    let table = redb::TableDefinition::<&[u8], &[u8]>::new(table);
    redb::ReadableTableMetadata::len(&reading.open_table(table).unwrap()).unwrap()
}

#[test]
fn p8_lines_of_refused_and_expired_batches_are_removed_in_steps() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::Forever, RetentionAge::For(HOUR));
    let lines = |count: u32| -> Vec<NewLine> {
        (0..count).map(|n| NewLine { custom_id: n.to_string(), spec: job(1, ANN).spec }).collect()
    };
    let (refused, ended) = (BatchId::from_bits(1), BatchId::from_bits(2));
    setup.store.fill((ANN, refused), 0, lines(2_500)).wait().unwrap();
    setup.store.abandon(refused).wait().unwrap();
    setup.store.fill((ANN, ended), 0, lines(3)).wait().unwrap();
    let (created_at_ms, webhook_url) = (1_000_000, None);
    let batch = NewBatch {
        id: ended,
        user: ANN,
        created_at_ms,
        lines: 3,
        concurrency: 1,
        webhook_url,
        expires_at_ms: None,
        source: None,
    };
    setup.store.accept(batch, None).wait().unwrap();
    setup.store.cancel_batch(ANN, ended).wait().unwrap();
    assert_eq!(rows(&setup, "batch_lines"), 2_503);
    setup.sweep();
    assert_eq!(rows(&setup, "batch_lines"), 3, "a refused batch leaves no rows");
    assert!(setup.store.batch(ANN, ended).unwrap().is_some());
    setup.pass(2 * HOUR);
    assert_eq!(setup.store.batch(ANN, ended).unwrap(), None);
    assert_eq!(rows(&setup, "batch_lines"), 0);
}

#[test]
fn p3_a_job_with_a_truncated_log_cannot_be_retried() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::For(HOUR), RetentionAge::Forever);
    setup.run(1, failed);
    setup.pass(2 * HOUR);
    assert_eq!(setup.store.retry(ANN, id(1)).wait(), Err(JobChangeError::LogCut));
}

#[test]
fn an_expired_turn_removes_its_summary_but_not_its_usage() {
    let setup = open_with(RetentionAge::Forever, RetentionAge::Forever, RetentionAge::For(3 * HOUR));
    let summary = ConversationSummary { content: "secret".to_owned(), through: 0 };
    setup.run(1, |id| JobOutcome { summary: Some(summary), ..answered(id) });
    setup.store.submit(vec![turn(2, ANN, "chat-1")]).wait().unwrap();
    let waiting = setup.store.job(ANN, id(2)).unwrap().unwrap();
    assert_eq!(setup.store.history(&waiting, 9).unwrap().summary.as_deref(), Some("secret"));
    let spent = || setup.store.usage(ANN, 0, u32::MAX).unwrap();
    let before = spent();
    assert_eq!(before.len(), 1);
    setup.pass(4 * HOUR);
    assert_eq!(setup.store.job(ANN, id(1)), Ok(None));
    assert_eq!(
        setup.store.history(&waiting, 9).unwrap(),
        History { wants_title: true, ..History::default() }
    );
    assert_eq!(spent(), before, "usage is kept longer than jobs");
}
