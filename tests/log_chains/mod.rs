//! The hash chains of logs: each way through the store keeps them, `nanoclaw verify` names what was changed,
//! removed or moved, retention keeps them provable, and logs of earlier versions go on without one.
//! `NANOCLAW_TEST_STORE=postgres` runs the tests on `PostgreSQL`.

mod retention;
mod verify;

use crate::store_contract::fixture::{Fixture, StorePlace};
use crate::support::receiver::{Receiver, ReceiverReply};
use crate::support::store::{ANN, BOB, ManualClock, cancelled, delta, done, id, job, sealed};
use crate::support::upstream::{Answer, Upstream};
use crate::support::{Ran, Server, against, command, wait_until};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record};
use nanoclaw::domain::job::{JobOutcome, JobStatus};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::log_chain::{ChainFault, ChainLink, ChainVerdict, LogSigningKey};
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{Clock, Lease, NodeStore, Urgency};
use nanoclaw::store::RedbStore;
use nanoclaw::store::options::StoreOptions;
use redb::{ReadableTable, TableDefinition};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use verify::verify_command;

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
    store.log_chain(ANN, id(n)).unwrap().expect("the job").verify(store.log_public_key().as_slice())
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
fn a_server_without_chains_says_so_of_its_jobs() {
    let server = Server::start_with("store: {chain_logs: false}");
    let stored = server.submit(&json!({"input": "hello"}));
    assert!(server.wait(&stored)["log_head"].is_null());
    let messages = json!([{"role": "user", "content": "hello"}]);
    server.post("/v1/chat/completions", &json!({"model": "demo", "messages": messages}));
    for job in server.get("/v1/jobs").json()["data"].as_array().expect("jobs") {
        let verified = server.get(&format!("/v1/jobs/{}/verify", job["id"].as_str().expect("an id"))).json();
        assert_eq!(verified["status"], "not_chained", "{job}");
    }
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

#[test]
fn a_file_of_a_shortened_log_is_verified_with_the_key_of_its_server() {
    let upstream = Upstream::start(|_, _| Answer::paced_text("one two three", Duration::from_millis(200)));
    let config = against(&upstream, "retention: {deltas: 1s}\n");
    let server = Server::start_with(&config);
    let job = server.submit(&json!({"input": "hello"}));
    server.wait(&job);
    // A server sweeps five seconds after its start, then once a minute.
    let server = server.crash_and_restart(&config);
    let folded = || server.get(&format!("/v1/jobs/{job}/verify")).json()["folded"].clone();
    wait_until("retention", || folded() == "deltas");
    let file = server.dir.join("run.jsonl");
    std::fs::write(&file, server.get(&format!("/v1/jobs/{job}/export")).body).expect("written");
    let path = file.to_str().expect("UTF-8");
    let verify = |more: &[&str]| {
        let ran = Ran::from(command(&[&["verify", path, "--json"], more].concat()).output().expect("runs"));
        (ran.code, serde_json::from_str::<Value>(&ran.out).unwrap_or_default(), ran.err)
    };
    let (code, verdict, error) = verify(&[]);
    assert_eq!((code, &verdict["is_signature_unchecked"]), (0, &json!(true)), "{verdict} {error}");
    let of_server = server.get("/v1/log/key").json()["public_key"].clone();
    let (code, verdict, error) = verify(&["--key", of_server.as_str().expect("a key")]);
    let shown = (code, &verdict["status"], &verdict["folded"], &verdict["is_signature_unchecked"]);
    assert_eq!(shown, (0, &json!("intact"), &json!("deltas"), &json!(false)), "{verdict} {error}");
    let (code, verdict, error) = verify(&["--key", &key().public_key().to_string()]);
    assert_eq!((code, &verdict["status"]), (1, &json!("faulty")), "{verdict} {error}");
    assert_eq!(verify(&["--key", "nonsense"]).0, 2);
}
