//! The hash chains of logs: each way through the store keeps them, `nanoclaw verify` names what was changed,
//! removed or moved, retention keeps them provable, and logs of earlier versions go on without one.
//! `NANOCLAW_TEST_STORE=postgres` runs the tests on `PostgreSQL`.

use crate::store_contract::fixture::{Fixture, StorePlace};
use crate::support::receiver::{Receiver, ReceiverReply};
use crate::support::store::{ANN, BOB, ManualClock, cancelled, delta, done, id, job, sealed};
use crate::support::{Ran, Server, command};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record};
use nanoclaw::domain::job::{JobOutcome, JobStatus};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::log_chain::{
    ChainFault, ChainLink, ChainVerdict, FoldKind, LogSigningKey, RecordPlace,
};
use nanoclaw::domain::secret::Secret;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{Clock, Lease, NodeStore, Urgency};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::{RedbStore, RetentionAge, StoreLocation, verify_checkpoints};
use redb::{ReadableTable, TableDefinition};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const HOUR: u64 = 3_600_000;
const LOG: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("log");
const JOBS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("jobs");
const META: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("meta");
/// Bytes of a value before its JSON: a version, and a link.
const LINKED: usize = 1 + ChainLink::BYTES;

fn key() -> LogSigningKey {
    LogSigningKey::from_seed([9; 32]).unwrap()
}

fn failed() -> JobOutcome {
    let (content, code) = ("x".to_owned(), FailureCode::ProviderError);
    JobOutcome { event: Event::Error { content, code, retry_after_ms: None }, ..cancelled() }
}

fn verdict(store: &dyn NodeStore, n: u128) -> Result<ChainVerdict, ChainFault> {
    store.log_chain(ANN, id(n)).unwrap().expect("the job").verify(store.log_public_key().as_ref())
}

/// The head of an intact log, which job and last event name as well if the job has ended.
fn head(store: &dyn NodeStore, n: u128) -> ChainLink {
    let Ok(ChainVerdict::Intact { head, .. }) = verdict(store, n) else {
        panic!("job {n}: {:?}", verdict(store, n));
    };
    let job = store.job(ANN, id(n)).unwrap().unwrap();
    let named = Some(head).filter(|_| job.status.is_terminal());
    assert_eq!(job.log_head, named, "job {n}");
    let last = store.events(id(n), job.last_event_id - 1, 10).unwrap().events.pop().unwrap();
    assert_eq!(last.log_head, named, "the last event of job {n}");
    head
}

fn append(store: &dyn NodeStore, lease: &Lease, records: Vec<Record>) {
    for record in records {
        store.append(lease.fence(), vec![record], Urgency::Now).wait().unwrap();
    }
}

/// Events and marks: 3 to 5 are deltas, 5 has two marks behind it, 6 is a step of one delta.
fn records() -> Vec<Record> {
    let call = |id_ref: &str| EngineMark::ToolStarted { id_ref: id_ref.to_owned() };
    vec![
        delta(0, 0, "one "),
        delta(0, 4, "two "),
        delta(0, 8, "thr\0ee"),
        call("a").into(),
        call("b").into(),
        delta(1, 0, "again"),
    ]
}

/// Runs a job: its log has events 1 to 7.
fn run(store: &dyn NodeStore, n: u128, ending: JobOutcome) {
    store.submit(vec![job(n, ANN)]).wait().unwrap();
    let lease = store.claim(1).wait().unwrap().pop().expect("a ready job");
    assert_eq!(lease.job.id, id(n));
    append(store, &lease, records());
    store.finish(lease.fence(), vec![], ending).wait().unwrap();
}

#[test]
fn each_end_of_a_job_has_a_head() {
    let fixture = Fixture::new();
    let store = &*fixture.store;
    run(store, 1, done(id(1), "answer"));
    run(store, 2, failed());
    store.submit(vec![job(3, ANN)]).wait().unwrap();
    store.cancel(ANN, id(3)).wait().unwrap();
    store.submit(vec![job(4, ANN)]).wait().unwrap();
    let lease = fixture.claim();
    store.cancel(ANN, id(4)).wait().unwrap();
    append(store, &lease, records());
    store.release(lease.fence()).wait().unwrap();
    let heads: Vec<_> = (1..=4).map(|n| head(store, n)).collect();
    assert_eq!(store.job(ANN, id(4)).unwrap().unwrap().status, JobStatus::Cancelled);
    let distinct: std::collections::HashSet<_> = heads.iter().collect();
    assert_eq!(distinct.len(), 4);
    assert_eq!(store.log_chain(BOB, id(1)).unwrap(), None, "P7");
}

#[test]
fn a_log_goes_on_over_leases_approvals_and_retries() {
    let fixture = Fixture::new();
    let store = &*fixture.store;
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    append(store, &lease, records());
    head(store, 1);
    store.release(lease.fence()).wait().unwrap();
    let lease = fixture.claim();
    append(store, &lease, vec![delta(2, 0, "more")]);
    store.postpone(lease.fence(), "again".to_owned(), 10).wait().unwrap();
    head(store, 1);
    fixture.clock.advance(20);
    let lease = fixture.claim();
    store.defer(lease.fence(), "busy".to_owned(), 10).wait().unwrap();
    fixture.clock.advance(20);
    let lease = fixture.claim();
    let call = ToolCall { id_ref: "c".to_owned(), name: "bash".to_owned(), arguments: "{}".to_owned() };
    store.wait_for_approval(lease.fence(), vec![call], 1_000).wait().unwrap();
    head(store, 1);
    let decision = ApprovalDecision { approve: false, id_refs: None, reason: None, is_lasting: false };
    store.decide(ANN, id(1), decision).wait().unwrap();
    let lease = fixture.claim();
    append(store, &lease, vec![delta(3, 0, "end")]);
    store.finish(lease.fence(), vec![], failed()).wait().unwrap();
    let first = head(store, 1);
    let first_end = store.job(ANN, id(1)).unwrap().unwrap().last_event_id;
    store.retry(ANN, id(1)).wait().unwrap();
    assert_eq!(store.job(ANN, id(1)).unwrap().unwrap().log_head, None, "it has not ended any more");
    head(store, 1);
    let lease = fixture.claim();
    store.finish(lease.fence(), vec![], done(id(1), "answer")).wait().unwrap();
    assert_ne!(head(store, 1), first);
    let old_end = store.events(id(1), first_end - 1, 1).unwrap().events.pop().unwrap();
    assert_eq!(old_end.log_head, Some(first), "what clients have seen of the first end stays");
}

#[test]
fn a_log_goes_on_after_crashes() {
    let mut fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    let lease = fixture.claim();
    append(&*fixture.store, &lease, records());
    fixture = fixture.crash();
    head(&*fixture.store, 1);
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(1));
    append(&*fixture.store, &lease, vec![delta(2, 0, "after")]);
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    head(&*fixture.store, 1);
    for _ in 0..3 {
        assert_eq!(fixture.claim().job.id, id(2));
        fixture = fixture.crash();
    }
    assert_eq!(fixture.store.job(ANN, id(2)).unwrap().unwrap().error.unwrap().code, FailureCode::Poison);
    head(&*fixture.store, 2);
}

/// A change behind the back of the store.
#[derive(Debug, Clone, Copy)]
enum Tampering {
    /// Another text in the body.
    Change(u64, u32),
    Remove(u64, u32),
    /// Two bodies change places, with their links or without them.
    Swap((u64, u32), (u64, u32), bool),
    /// The record has no link any more.
    Unlink(u64, u32),
}

fn tamper(place: &StorePlace, n: u128, tampering: Tampering) {
    match place {
        StorePlace::File(_) => tamper_with_file(&place.path(), n, tampering),
        StorePlace::Database(schema) => {
            let of = |seq: u64, sub: u32| format!("job = '{}' AND seq = {seq} AND sub = {sub}", id(n));
            let changed = schema.sql(&match tampering {
                Tampering::Change(seq, sub) => format!(
                    "UPDATE records SET body = replace(body::text, '\"', ' \"')::json WHERE {} RETURNING 1",
                    of(seq, sub)
                ),
                Tampering::Remove(seq, sub) => format!("DELETE FROM records WHERE {} RETURNING 1", of(seq, sub)),
                Tampering::Unlink(seq, sub) => {
                    format!("UPDATE records SET link = NULL WHERE {} RETURNING 1", of(seq, sub))
                }
                Tampering::Swap(one, other, with_links) => {
                    let (one, other) = (of(one.0, one.1), of(other.0, other.1));
                    let link = if with_links { ", link = other.link" } else { "" };
                    format!(
                        "UPDATE records SET body = other.body{link} FROM (SELECT body, link, \
                         row_number() OVER (ORDER BY seq DESC, sub DESC) AS nth FROM records WHERE {one} OR {other}) AS other, \
                         (SELECT seq AS s, sub AS b, row_number() OVER (ORDER BY seq, sub) AS nth FROM records \
                         WHERE {one} OR {other}) AS own WHERE own.nth = other.nth AND job = '{}' AND seq = s AND sub = b \
                         RETURNING 1",
                        id(n)
                    )
                }
            });
            assert!(!changed.is_empty(), "{tampering:?} changed nothing");
        }
    }
}

fn log_key(n: u128, (seq, sub): (u64, u32)) -> Vec<u8> {
    [&id(n).to_bytes()[..], &seq.to_be_bytes(), &sub.to_be_bytes()].concat()
}

/// Changes rows of a closed file as somebody would who knows its format: checksums fit.
fn tamper_with_file(path: &Path, n: u128, tampering: Tampering) {
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let mut log = writing.open_table(LOG).unwrap();
        let read = |log: &redb::Table<'_, &[u8], &[u8]>, place| {
            let stored = log.get(log_key(n, place).as_slice()).unwrap().expect("the record").value().to_vec();
            stored[..stored.len() - 4].to_vec()
        };
        let write = |log: &mut redb::Table<'_, &[u8], &[u8]>, place, value: &[u8]| {
            let key = log_key(n, place);
            log.insert(key.as_slice(), sealed("log", &key, value).as_slice()).unwrap();
        };
        match tampering {
            Tampering::Change(seq, sub) => {
                let value = read(&log, (seq, sub));
                let text = String::from_utf8(value[LINKED..].to_vec()).unwrap().replace('"', " \"");
                write(&mut log, (seq, sub), &[&value[..LINKED], text.as_bytes()].concat());
            }
            Tampering::Remove(seq, sub) => {
                assert!(log.remove(log_key(n, (seq, sub)).as_slice()).unwrap().is_some());
            }
            Tampering::Unlink(seq, sub) => {
                let value = read(&log, (seq, sub));
                write(&mut log, (seq, sub), &[&[1], &value[LINKED..]].concat());
            }
            Tampering::Swap(one, other, with_links) => {
                let (first, second) = (read(&log, one), read(&log, other));
                let at = if with_links { 0 } else { LINKED };
                write(&mut log, one, &[&first[..at], &second[at..]].concat());
                write(&mut log, other, &[&second[..at], &first[at..]].concat());
            }
        }
    }
    writing.commit().unwrap();
}

/// Runs `nanoclaw verify` on a closed store, or on a database.
fn verify_command(place: &StorePlace, arguments: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut words = vec!["verify".to_owned()];
    match place {
        StorePlace::File(_) => {
            std::fs::copy(place.path(), dir.path().join("nanoclaw.redb")).unwrap();
            words.extend(["--data-dir".to_owned(), text(dir.path())]);
        }
        StorePlace::Database(schema) => {
            let config = dir.path().join("config.yml");
            let data = dir.path().display();
            std::fs::write(&config, format!("data_dir: {data}\nstore: {{url: \"{}\"}}\n", schema.url()))
                .unwrap();
            words.extend(["--config".to_owned(), text(&config)]);
        }
    }
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    command(&words).output().unwrap().into()
}

#[test]
fn verify_names_the_record_that_was_changed_removed_or_moved() {
    let cases = [
        (Tampering::Change(1, 0), "event 1 was changed"),
        (Tampering::Change(5, 2), "mark 2 after event 5 was changed"),
        (Tampering::Change(4, 0), "event 4 was changed, or the last mark after event 3 is missing"),
        (Tampering::Change(7, 0), "event 7 was changed, or the last mark after event 6 is missing"),
        (Tampering::Unlink(4, 0), "event 4 was changed"),
        (Tampering::Remove(1, 0), "event 1 is missing"),
        (Tampering::Remove(4, 0), "event 4 is missing"),
        (Tampering::Remove(5, 1), "mark 1 after event 5 is missing"),
        (Tampering::Remove(5, 2), "or the last mark after mark 1 after event 5 is missing"),
        (Tampering::Remove(7, 0), "the log up to event 6 does not have the head that the job names"),
        (Tampering::Swap((3, 0), (4, 0), false), "event 3 was moved: it stands as event 4"),
        (Tampering::Swap((3, 0), (6, 0), true), "event 3 was moved: it stands as event 6"),
        (Tampering::Swap((5, 1), (5, 2), true), "mark 1 after event 5 was moved"),
    ];
    let fixture = Fixture::new();
    for n in 0..=cases.len() as u128 {
        run(&*fixture.store, n + 1, done(id(n + 1), "answer"));
    }
    fixture.store.close();
    let intact = verify_command(&fixture.place, &["--all"]);
    assert_eq!((intact.code, intact.out.as_str()), (0, ""), "{}", intact.err);
    assert!(intact.err.contains("14 logs are intact, 0 are not, 0 are not chained"), "{}", intact.err);
    for (n, (tampering, _)) in (1..).zip(cases) {
        tamper(&fixture.place, n, tampering);
    }
    let found = verify_command(&fixture.place, &["--all"]);
    assert_eq!(found.code, 1, "{}", found.err);
    let lines: Vec<&str> = found.out.lines().collect();
    assert_eq!(lines.len(), cases.len(), "{}", found.out);
    for ((n, (tampering, says)), line) in (1..).zip(cases).zip(lines) {
        assert!(line.starts_with(&id(n).to_string()) && line.contains(says), "{tampering:?}: {line}");
        let one = verify_command(&fixture.place, &[&id(n).to_string()]);
        assert_eq!((one.code, one.out.trim()), (1, line), "{tampering:?}");
    }
    let whole = id(cases.len() as u128 + 1).to_string();
    let one = verify_command(&fixture.place, &[&whole, "--json"]);
    let answer: Value = serde_json::from_str(&one.out).unwrap();
    assert_eq!((one.code, answer["status"].as_str()), (0, Some("intact")), "{answer}");
    let head = answer["log_head"].as_str().unwrap();
    assert_eq!(verify_command(&fixture.place, &[&whole, "--head", head]).code, 0);
    let other = verify_command(&fixture.place, &[&whole, "--head", &"0".repeat(64)]);
    assert!(other.code == 1 && other.out.contains("another head"), "{}", other.out);
}

#[test]
fn verify_refuses_what_it_cannot_verify() {
    let fixture = Fixture::file();
    fixture.store.close();
    let unknown = verify_command(&fixture.place, &[&id(5).to_string()]);
    assert!(unknown.code == 1 && unknown.err.contains("there is no job job_"), "{}", unknown.err);
    for words in
        [&[][..], &["job_1"], &["--all", "--head", &"0".repeat(64)], &[&id(5).to_string(), "--head", "0"]]
    {
        assert_eq!(verify_command(&fixture.place, words).code, 2, "{words:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    let missing: Ran =
        command(&["verify", "--all", "--data-dir", empty.path().to_str().unwrap()]).output().unwrap().into();
    assert!(missing.code == 1 && missing.err.contains("there is no store"), "{}", missing.err);
}

fn retention(deltas: u64, events: Option<u64>) -> StoreOptions {
    let events = events.map_or(RetentionAge::Forever, RetentionAge::For);
    let retention =
        RetentionOptions { deltas: RetentionAge::For(deltas), events, ..RetentionOptions::default() };
    StoreOptions { retention, settle_ms: 60_000, ..StoreOptions::default() }
}

/// Lets time pass, and retention do what is due.
fn pass(fixture: &Fixture, ms: u64) {
    fixture.clock.advance(ms);
    for _ in 0..5 {
        fixture.clock.advance(60_000);
        fixture.store.run_retention().unwrap();
    }
}

fn places(store: &dyn NodeStore, n: u128) -> Vec<(u64, u32)> {
    let log = store.log_chain(ANN, id(n)).unwrap().unwrap();
    log.records.iter().map(|record| (record.place.seq, record.place.sub)).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "as a verification returns it")]
fn intact(head: ChainLink, fold: FoldKind) -> Result<ChainVerdict, ChainFault> {
    Ok(ChainVerdict::Intact { head, fold: Some(fold) })
}

#[test]
fn a_log_is_provable_after_retention_has_joined_and_cut_it() {
    let fixture = Fixture::with_options(&retention(HOUR, Some(10 * HOUR)), &Limits::default());
    let store = &*fixture.store;
    store.set_log_key(key());
    run(store, 1, done(id(1), "answer"));
    run(store, 2, failed());
    let heads = [head(store, 1), head(store, 2)];
    pass(&fixture, 2 * HOUR);
    assert_eq!(places(store, 1), [(1, 0), (2, 0), (5, 0), (6, 0), (7, 0)]);
    assert_eq!(places(store, 2), [(1, 0), (2, 0), (5, 0), (5, 1), (5, 2), (6, 0), (7, 0)]);
    assert_eq!(verdict(store, 1), intact(heads[0], FoldKind::Deltas));
    assert_eq!(verdict(store, 2), intact(heads[1], FoldKind::Deltas));
    // The folded log goes on with a retry, and is folded again.
    store.retry(ANN, id(2)).wait().unwrap();
    let lease = fixture.claim();
    append(store, &lease, vec![delta(5, 0, "an"), delta(5, 2, "swer")]);
    store.finish(lease.fence(), vec![], done(id(2), "answer")).wait().unwrap();
    let second = head(store, 2);
    assert_eq!(verdict(store, 2), intact(second, FoldKind::Deltas));
    pass(&fixture, 2 * HOUR);
    assert_eq!(places(store, 2), [(1, 0), (2, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (11, 0), (12, 0)]);
    assert_eq!(verdict(store, 2), intact(second, FoldKind::Deltas));
    pass(&fixture, 11 * HOUR);
    for (n, head) in [(1, heads[0]), (2, second)] {
        assert_eq!(places(store, n).len(), 1);
        assert_eq!(verdict(store, n), intact(head, FoldKind::Cut));
    }
}

#[test]
fn what_was_changed_after_a_fold_is_found_and_a_changed_log_is_not_folded() {
    let options = retention(HOUR, None);
    let mut fixture = Fixture::with_options(&options, &Limits::default());
    fixture.store.set_log_key(key());
    run(&*fixture.store, 1, done(id(1), "answer"));
    run(&*fixture.store, 2, done(id(2), "answer"));
    fixture.store.close();
    tamper(&fixture.place, 2, Tampering::Change(5, 1));
    fixture.reopen(&options, &Limits::default());
    fixture.store.set_log_key(key());
    pass(&fixture, 2 * HOUR);
    let mark = RecordPlace { seq: 5, sub: 1 };
    assert_eq!(verdict(&*fixture.store, 2), Err(ChainFault::Changed(mark)));
    assert_eq!(places(&*fixture.store, 2).len(), 9, "a fold would hide it");
    fixture.store.close();
    tamper(&fixture.place, 1, Tampering::Change(5, 0));
    fixture.reopen(&options, &Limits::default());
    fixture.store.set_log_key(key());
    let (place, before) = (RecordPlace::event(5), RecordPlace::event(2));
    assert_eq!(verdict(&*fixture.store, 1), Err(ChainFault::ChangedOrMissing { place, before }));
}

/// Makes a closed store what an earlier version has left: no links, and rows that do not know of chains.
fn downgrade(place: &StorePlace) {
    if let StorePlace::Database(schema) = place {
        schema.sql("UPDATE records SET link = NULL; UPDATE jobs SET row = (row::jsonb - 'is_chained' #- '{job,log_head}')::json");
        return;
    }
    let database = redb::Database::open(place.path()).unwrap();
    let writing = database.begin_write().unwrap();
    for (definition, name) in [(LOG, "log"), (JOBS, "jobs")] {
        let mut table = writing.open_table(definition).unwrap();
        let rows = table.iter().unwrap().map(Result::unwrap);
        let rows: Vec<_> = rows.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect();
        for (key, value) in rows {
            let value = if value[0] == 2 {
                [&[1], &value[LINKED..value.len() - 4]].concat()
            } else {
                let mut row: Value = serde_json::from_slice(&value[1..value.len() - 4]).unwrap();
                row.as_object_mut().unwrap().remove("is_chained");
                row["job"].as_object_mut().unwrap().remove("log_head");
                [&[1], row.to_string().as_bytes()].concat()
            };
            table.insert(key.as_slice(), sealed(name, &key, &value).as_slice()).unwrap();
        }
    }
    let meta = sealed("meta", b"schema", b"\x012");
    writing.open_table(META).unwrap().insert(b"schema".as_slice(), meta.as_slice()).unwrap();
    writing.commit().unwrap();
}

#[test]
fn logs_of_an_earlier_version_go_on_without_a_chain() {
    let mut fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    let lease = fixture.claim();
    append(&*fixture.store, &lease, records());
    fixture.store.release(lease.fence()).wait().unwrap();
    fixture.store.close();
    downgrade(&fixture.place);
    fixture.reopen(&StoreOptions::default(), &Limits::default());
    let store = &*fixture.store;
    for _ in [1, 2] {
        let lease = fixture.claim();
        append(store, &lease, vec![delta(3, 0, "more")]);
        store.finish(lease.fence(), vec![], done(lease.job.id, "answer")).wait().unwrap();
    }
    run(store, 3, done(id(3), "answer"));
    for n in [1, 2] {
        assert_eq!(verdict(store, n), Ok(ChainVerdict::NotChained));
        assert_eq!(store.job(ANN, id(n)).unwrap().unwrap().log_head, None);
    }
    head(store, 3);
    store.close();
    let all = verify_command(&fixture.place, &["--all"]);
    assert!(
        all.code == 0 && all.err.contains("1 logs are intact, 0 are not, 2 are not chained"),
        "{}",
        all.err
    );
    let one = verify_command(&fixture.place, &[&id(1).to_string()]);
    assert!(one.code == 0 && one.out.contains("not chained"), "{}", one.out);
}

#[test]
fn a_store_of_an_earlier_layout_is_copied_before_it_is_migrated() {
    let fixture = Fixture::file();
    run(&*fixture.store, 1, done(id(1), "answer"));
    fixture.store.close();
    downgrade(&fixture.place);
    let clock = ManualClock::new() as Arc<dyn Clock>;
    let store =
        RedbStore::open(&fixture.path(), &StoreOptions::default(), &Limits::default(), clock).unwrap();
    assert_eq!(verdict(&*store, 1), Ok(ChainVerdict::NotChained));
    assert!(fixture.path().with_file_name("store.redb.v2.bak").exists());
}

#[test]
fn clients_get_the_head_with_the_last_event_the_job_and_the_webhook() {
    let receiver = Receiver::start(|_| ReceiverReply::Status(204));
    let server = Server::start_with("webhooks: {allow_private_addresses: [\"127.0.0.0/8\"]}");
    let server_job = server
        .submit(&json!({"input": "hello", "webhook_url": format!("http://127.0.0.1:{}/", receiver.port)}));
    let job = server.wait(&server_job);
    let head = job["log_head"].as_str().expect("a head");
    assert!(head.parse::<ChainLink>().is_ok(), "{head}");
    let last = server.events(&server_job).pop().expect("events");
    assert_eq!((last.name.as_str(), last.data["log_head"].as_str()), ("done", Some(head)));
    let sent = &receiver.arrivals(1)[0];
    let body: Value = serde_json::from_str(&sent.body).expect("JSON");
    assert_eq!(body["log_head"].as_str(), Some(head));
    let verified = server.get(&format!("/v1/jobs/{server_job}/verify")).json();
    assert_eq!((verified["status"].as_str(), verified["log_head"].as_str()), (Some("intact"), Some(head)));
    let data = server.dir.join("data");
    let at_server: Ran = command(&["verify", &server_job, "--head", head, "--server", &server.url])
        .output()
        .expect("runs")
        .into();
    assert!(at_server.code == 0 && at_server.out.contains("intact"), "{} {}", at_server.out, at_server.err);
    let of_directory: Ran = command(&["verify", &server_job, "--data-dir", data.to_str().expect("UTF-8")])
        .output()
        .expect("runs")
        .into();
    if !crate::support::database::is_wanted() {
        assert!(of_directory.code == 0 && of_directory.out.contains(head), "{}", of_directory.err);
    }
    let made: Ran =
        command(&["verify", "--checkpoint", "--server", &server.url]).output().expect("runs").into();
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(server.get("/v1/log/checkpoints").status, 200);
    let key = server.get("/v1/log/key").json();
    assert_eq!(
        (key["algorithm"].as_str(), key["public_key"].as_str().map(str::len)),
        (Some("ed25519"), Some(64))
    );
}

#[test]
fn a_job_that_ends_with_its_client_is_chained_when_it_is_stored() {
    let server = Server::start();
    let messages = json!([{"role": "user", "content": "hello"}]);
    let answer = server.post("/v1/chat/completions", &json!({"model": "demo", "messages": messages}));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let job = server.get("/v1/jobs?limit=1").json()["data"][0].clone();
    assert!(job["log_head"].is_string(), "{job}");
    let id = job["id"].as_str().expect("an id");
    let verified = server.get(&format!("/v1/jobs/{id}/verify")).json();
    assert_eq!((&verified["status"], &verified["log_head"]), (&json!("intact"), &job["log_head"]));
}

/// Writes another head into the row of a job, as somebody has to who rewrites its log.
fn change_head(place: &StorePlace, n: u128) {
    let other = "0".repeat(64);
    if let StorePlace::Database(schema) = place {
        schema.sql(&format!(
            "UPDATE jobs SET row = jsonb_set(row::jsonb, '{{job,log_head}}', '\"{other}\"')::json WHERE id = '{}'",
            id(n)
        ));
        return;
    }
    let database = redb::Database::open(place.path()).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let mut jobs = writing.open_table(JOBS).unwrap();
        let key = id(n).to_bytes();
        let value = jobs.get(key.as_slice()).unwrap().unwrap().value().to_vec();
        let mut row: Value = serde_json::from_slice(&value[1..value.len() - 4]).unwrap();
        row["job"]["log_head"] = json!(other);
        let value = [&[1], row.to_string().as_bytes()].concat();
        jobs.insert(key.as_slice(), sealed("jobs", &key, &value).as_slice()).unwrap();
    }
    writing.commit().unwrap();
}

#[test]
fn a_checkpoint_proves_the_heads_of_all_jobs_that_ended_before_it() {
    let fixture = Fixture::new();
    fixture.store.set_log_key(key());
    for n in 1..=3 {
        run(&*fixture.store, n, done(id(n), "answer"));
    }
    // Nodes leave what has just ended to the next checkpoint.
    fixture.clock.advance(2 * 60_000);
    // The store may be faster.
    let make = || fixture.store.make_checkpoint().wait().unwrap();
    make();
    let all = || fixture.store.checkpoints(0, 10).unwrap().into_iter().map(|stored| stored.checkpoint);
    let first = all().next().expect("a checkpoint");
    assert_eq!((first.number, first.jobs), (1, 3));
    assert_eq!(fixture.store.make_checkpoint().wait().unwrap(), None, "nothing has ended since");
    run(&*fixture.store, 4, done(id(4), "answer"));
    run(&*fixture.store, 5, failed());
    fixture.clock.advance(2 * 60_000);
    make();
    let [again, second] = all().collect::<Vec<_>>().try_into().expect("two checkpoints");
    assert_eq!((second.number, second.jobs, second.after_ms), (2, 2, first.through_ms));
    assert_eq!(again, first);
    // A job that runs again ends with another head; one that is deleted is counted.
    fixture.store.retry(ANN, id(5)).wait().unwrap();
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(5), "answer")).wait().unwrap();
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    fixture.store.close();
    let location = match &fixture.place {
        StorePlace::File(_) => StoreLocation::File(fixture.path()),
        StorePlace::Database(schema) => {
            schema.sql(&format!("INSERT INTO settings VALUES ('log_key', '{}')", key().to_text()));
            StoreLocation::Database(Secret::from(schema.url()))
        }
    };
    let report = || verify_checkpoints(&location, Some(key().public_key())).unwrap();
    assert_eq!((report().checkpoints, report().proven, report().removed), (2, 3, 1));
    assert_eq!(report().faults, Vec::<String>::new());
    change_head(&fixture.place, 2);
    assert_eq!(report().faults, [format!("{}  its head is not the one of checkpoint 1", id(2))]);
}

#[test]
fn a_checkpoint_is_made_each_day() {
    let fixture = Fixture::with_options(&StoreOptions::default(), &Limits::default());
    fixture.store.set_log_key(key());
    for day in 1..=2 {
        run(&*fixture.store, day, done(id(day), "answer"));
        pass(&fixture, 25 * HOUR);
        let numbers: Vec<u64> =
            fixture.store.checkpoints(0, 10).unwrap().iter().map(|stored| stored.checkpoint.number).collect();
        assert_eq!(numbers.last().copied(), Some(u64::try_from(day).unwrap()));
    }
}
