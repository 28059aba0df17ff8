//! Recovery after a crash, locking of the file, closing, and unreadable rows.

use super::fixture::{Ends, Fixture, open};
use crate::support::store::{ANN, ManualClock, cost, delta, done, id, job, turn};
use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::event::{Event, FailureCode, StatusPhase};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{CancelReason, CancelToken, JobQuery, Store, StoreError, Urgency};
use nanoclaw::store::OpenError;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn p2_a_crash_requeues_a_running_job_and_keeps_its_event_numbers() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.append(lease.fence(), vec![delta(0, 0, "seen")], Urgency::Now).wait().unwrap();
    let seen = fixture.store.events(id(1), 0, 10).unwrap().events;
    let after = fixture.crash();
    let row = after.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((row.status, row.crashes, row.attempt), (JobStatus::Queued, 1, 1));
    assert!(after.store.events(id(1), 0, 10).unwrap().events.starts_with(&seen));
    let again = after.claim();
    assert_eq!((again.job.id, again.job.epoch, again.job.attempt), (id(1), 2, 2));
    let last = after.store.events(id(1), 0, 10).unwrap().events.pop().unwrap();
    let reason = Some("resumed after a crash".to_owned());
    assert_eq!(last.event, Event::Status { status: StatusPhase::Running, attempt: 2, reason });
    assert!(
        after.store.append(lease.fence(), vec![delta(0, 0, "x")], Urgency::Now).wait().is_err(),
        "fenced"
    );
    after.store.append(again.fence(), vec![delta(0, 4, "!")], Urgency::Now).wait().unwrap();
    assert_eq!(
        after.store.step_text(id(1), 3, u64::MAX),
        Ok("seen!".to_owned()),
        "the step continues after the crash"
    );
    after.store.finish(again.fence(), vec![], done(id(1), "x")).wait().unwrap();
    assert_eq!(after.store.job(ANN, id(1)).unwrap().unwrap().crashes, 0);
    assert_eq!(after.claim().job.id, id(2));
}

#[test]
fn p4_a_job_running_during_three_crashes_is_failed_as_poison() {
    let mut fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    for crashes in 1..=3 {
        assert_eq!(fixture.claim().job.id, id(1));
        fixture = fixture.crash();
        assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().crashes, crashes);
    }
    let ends: Vec<_> = Ends::of(&fixture.store).recorded().into_iter().map(|(code, _)| code).collect();
    assert_eq!(ends, [Some(FailureCode::Poison)], "a meter that is set after the recovery gets its ends");
    let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((row.status, row.error.unwrap().code), (JobStatus::Failed, FailureCode::Poison));
    let last = fixture.store.events(id(1), 0, 100).unwrap().events.pop().unwrap();
    assert!(matches!(last.event, Event::Error { code: FailureCode::Poison, .. }));
    assert_eq!(last.seq, row.last_event_id);
    assert_eq!(fixture.claim().job.id, id(2), "its conversation continues");
}

/// Claims a job and records one model call with this usage and some text.
fn record_model_call(fixture: &Fixture, usage: Usage) {
    let fence = fixture.claim().fence();
    fixture.store.append(fence, vec![delta(0, 0, "so far"), cost(None, usage)], Urgency::Now).wait().unwrap();
}

#[test]
fn the_usage_of_a_running_job_is_stored_and_survives_a_crash() {
    let mut fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    for calls in 1..=2 {
        record_model_call(&fixture, Usage::new(10, 5));
        let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
        assert_eq!((row.status, row.usage), (JobStatus::Running, Usage::new(10 * calls, 5 * calls)));
        fixture = fixture.crash();
    }
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().usage, Usage::new(20, 10));
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!(row.usage, Usage::new(20, 10), "usage comes from the marks, not from the outcome");
}

/// Ends a running job without its worker.
type End = fn(Fixture) -> Fixture;

#[test]
fn p4_a_job_ended_by_the_store_keeps_usage_question_and_partial_answer() {
    let ends: [(&str, End); 3] = [
        ("the job was cancelled", |fixture| {
            let fixture = fixture.crash();
            fixture.store.cancel(ANN, id(1)).wait().unwrap();
            fixture
        }),
        ("the job was cancelled", |fixture| {
            fixture.store.cancel(ANN, id(1)).wait().unwrap();
            fixture.crash()
        }),
        ("the job was running each time the server crashed", |fixture| {
            fixture.crash_with(&Limits { crashes: 1, ..Limits::default() })
        }),
    ];
    for (message, end) in ends {
        let fixture = Fixture::new();
        fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
        record_model_call(&fixture, Usage::new(10, 5));
        let fixture = end(fixture);
        let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
        assert!(row.status.is_terminal());
        assert_eq!((row.usage, row.error.unwrap().message.as_str()), (Usage::new(10, 5), message));
        let next = fixture.claim().job;
        let retained = [Message::user("question 1"), Message::assistant("so far")];
        assert_eq!(fixture.store.history(&next, 100).unwrap().into_messages(), retained, "{message}");
    }
}

#[test]
fn a_job_that_never_ran_adds_nothing_to_the_history() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    let next = fixture.claim().job;
    assert_eq!(fixture.store.history(&next, 100).unwrap().into_messages(), []);
}

#[test]
fn a_release_resets_the_crash_count() {
    let mut fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    for _ in 0..5 {
        fixture.claim();
        fixture = fixture.crash();
        let lease = fixture.claim();
        fixture.store.release(lease.fence()).wait().unwrap();
    }
    let row = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((row.status, row.crashes, row.attempt), (JobStatus::Queued, 0, 5));
}

#[test]
fn a_file_of_a_newer_layout_is_refused() {
    let fixture = Fixture::file();
    fixture.store.close();
    let meta = redb::TableDefinition::<&[u8], &[u8]>::new("meta");
    let database = redb::Database::open(fixture.path()).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(meta).unwrap().insert(b"schema".as_slice(), b"\x0199".as_slice()).unwrap();
    writing.commit().unwrap();
    drop(database);
    let opened = open(&fixture.path(), &Limits::default(), ManualClock::new());
    let Err(OpenError::Newer { found: 99, known: 4, .. }) = opened else { panic!("{:?}", opened.err()) };
}

#[test]
fn an_open_store_is_locked_and_garbage_is_refused_unchanged() {
    let fixture = Fixture::file();
    let second = open(&fixture.path(), &Limits::default(), ManualClock::new());
    assert!(matches!(second, Err(OpenError::Locked { .. })), "{:?}", second.err());
    let garbage = fixture.dir().join("garbage");
    // A file system may leave an empty file after a power loss: the store must not silently start afresh.
    for content in [b"not a database".repeat(100), Vec::new()] {
        std::fs::write(&garbage, &content).unwrap();
        let opened = open(&garbage, &Limits::default(), ManualClock::new());
        let shown = opened.err().unwrap().to_string();
        assert!(shown.starts_with("cannot open store '") && shown.contains("garbage"), "{shown}");
        assert!(shown.contains("restore a backup"), "{shown}");
        assert_eq!(std::fs::read(&garbage).unwrap(), content, "the file is not changed");
    }
    assert!(open(&fixture.dir().join("no/such/dir"), &Limits::default(), ManualClock::new()).is_err());
}

/// A program that a killed server was starting may hold the lock for a moment.
#[test]
fn opening_waits_for_a_lock_that_is_released_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let first = open(&path, &Limits::default(), ManualClock::new()).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| open(&path, &Limits::default(), ManualClock::new()).is_ok());
        std::thread::park_timeout(Duration::from_millis(200));
        first.close();
        drop(first);
        assert!(second.join().unwrap(), "the second open waits for the lock");
    });
}

#[test]
fn p9_the_store_file_has_mode_0600() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::file();
    assert!(
        !fixture.path().with_extension("new").exists(),
        "the file is created under another name and renamed"
    );
    assert_eq!(std::fs::metadata(fixture.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn close_writes_pending_writes_and_then_answers_closed() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    let lingering = fixture.store.append(lease.fence(), vec![delta(0, 0, "a")], Urgency::Soon);
    fixture.store.close();
    fixture.store.close();
    assert_eq!(lingering.wait(), Ok(()));
    assert_eq!(lease.cancel.reason(), Some(CancelReason::Shutdown));
    assert_eq!(fixture.store.submit(vec![job(2, ANN)]).wait(), Err(StoreError::Closed.into()));
    assert_eq!(fixture.store.job(ANN, id(1)), Err(StoreError::Closed));
    let again = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
    assert_eq!(again.events(id(1), 0, 10).unwrap().last_seq, 4);
}

#[test]
fn waiting_workers_claim_what_is_ready_after_a_commit_and_after_an_open() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN)]);
    let after = fixture.crash();
    for store in [&fixture.store, &after.store] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let store = std::sync::Arc::clone(store);
        std::thread::spawn(move || {
            let stop = CancelToken::new(Arc::new(SystemClock::new()));
            sender.send(store.claim_next(&stop, Duration::from_secs(30))).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_secs(1)).unwrap().unwrap().is_some());
    }
}

#[test]
fn an_interrupted_first_start_is_repeated() {
    let fixture = Fixture::file();
    let path = fixture.dir().join("other.redb");
    std::fs::write(path.with_extension("new"), b"half a header").unwrap();
    let store = open(&path, &Limits::default(), ManualClock::new()).unwrap();
    store.submit(vec![job(1, ANN)]).wait().unwrap();
    store.close();
    assert!(open(&path, &Limits::default(), ManualClock::new()).unwrap().job(ANN, id(1)).unwrap().is_some());
}

/// Overwrites a job's row of `table` with garbage in a closed store.
fn spoil(path: &std::path::Path, table: &str, n: u128) {
    let table = redb::TableDefinition::<&[u8], &[u8]>::new(table);
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    writing
        .open_table(table)
        .unwrap()
        .insert(id(n).to_bytes().as_slice(), b"\x01garbage".as_slice())
        .unwrap();
    writing.commit().unwrap();
}

#[test]
fn an_unreadable_row_blocks_neither_claims_nor_its_conversation() {
    for table in ["jobs", "specs"] {
        let fixture = Fixture::file();
        fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat"), job(3, ANN)]);
        fixture.store.close();
        spoil(&fixture.path(), table, 1);
        let store = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
        let mut claimed = Vec::new();
        for _ in 0..3 {
            claimed.extend(store.claim(10).wait().unwrap().iter().map(|lease| lease.job.id));
        }
        claimed.sort_unstable();
        assert_eq!(claimed, [id(2), id(3)], "{table}");
        store.close();
        let database = redb::Database::open(fixture.path()).unwrap();
        let jobs = redb::TableDefinition::<&[u8], &[u8]>::new("jobs");
        let reading = redb::ReadableDatabase::begin_read(&database).unwrap();
        assert!(
            reading.open_table(jobs).unwrap().get(id(1).to_bytes().as_slice()).unwrap().is_some(),
            "the row stays"
        );
    }
}

#[test]
fn an_unreadable_row_does_not_block_the_end_of_its_predecessor() {
    let fixture = Fixture::file();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat"), turn(3, ANN, "chat")]);
    fixture.store.close();
    spoil(&fixture.path(), "jobs", 2);
    let store = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
    let lease = store.claim(1).wait().unwrap().pop().unwrap();
    store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    assert_eq!(store.claim(9).wait().unwrap().pop().unwrap().job.id, id(3));
}

#[test]
fn an_unreadable_running_row_does_not_prevent_opening_the_store() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    fixture.claim_all();
    fixture.store.close();
    spoil(&fixture.path(), "jobs", 1);
    let store = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
    let ready = store.claim(10).wait().unwrap();
    assert_eq!(ready.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id(2)]);
    assert!(matches!(store.job(ANN, id(1)), Err(StoreError::Corrupt(_))), "the row stays");
    let query = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 10 };
    assert!(store.jobs(&query).is_err(), "a list without it would be wrong");
}

#[test]
fn an_unreadable_delayed_row_blocks_no_claim() {
    let fixture = Fixture::file();
    let mut late = job(1, ANN);
    late.spec.run_at_ms = Some(1_000_500);
    fixture.submit([late, job(2, ANN)]);
    fixture.store.close();
    spoil(&fixture.path(), "jobs", 1);
    let clock = ManualClock::new();
    let store = open(&fixture.path(), &Limits::default(), std::sync::Arc::clone(&clock)).unwrap();
    clock.advance(1_000);
    assert_eq!(store.claim(10).wait().unwrap().pop().unwrap().job.id, id(2));
}
