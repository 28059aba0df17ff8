//! Logs are provable after retention has changed them, and checkpoints prove the heads of ended jobs.

use super::verify::{Tampering, tamper, verify_command};
use super::{HOUR, JOBS, append, failed, head, key, run, verdict};
use crate::store_contract::fixture::{Fixture, StorePlace};
use crate::support::store::{ANN, delta, done, exported, id, imported, sealed};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::log_chain::{
    ChainFault, ChainLink, ChainVerdict, FoldKind, LogSigningKey, RecordPlace,
};
use nanoclaw::domain::run::LogStage;
use nanoclaw::domain::secret::Secret;
use nanoclaw::ports::{ImportError, ImportOutcome, NodeStore};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::{RetentionAge, StoreLocation, verify_checkpoints};
use redb::ReadableTable;
use serde_json::{Value, json};

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
fn an_imported_log_that_was_folded_is_proven_but_for_the_signature_of_its_server() {
    let origin = Fixture::with_options(&retention(HOUR, None), &Limits::default());
    origin.store.set_log_key(key());
    run(&*origin.store, 1, done(id(1), "answer"));
    let head = head(&*origin.store, 1);
    pass(&origin, 2 * HOUR);
    let of_file = exported(&*origin.store, 1);
    let run = imported(of_file.clone());
    assert_eq!(run.fault, None);
    let mut changed = of_file.clone();
    changed.1[2].body = changed.1[2].body.replacen('{', "{ ", 1);
    assert!(imported(changed).fault.is_some(), "the head does not prove these records");
    let mut without_note = of_file;
    without_note.0.state.fold = None;
    assert!(imported(without_note).fault.is_some(), "nothing chains what is left");

    let fixture = Fixture::with_options(&retention(HOUR, Some(10 * HOUR)), &Limits::default());
    let store = &*fixture.store;
    fixture.clock.advance(3 * HOUR);
    let own = LogSigningKey::from_seed([8; 32]).unwrap();
    let (own_key, of_origin) = (own.public_key(), key().public_key());
    store.set_log_key(own);
    store.import_run(ANN, run).wait().unwrap();
    let log = store.log_chain(ANN, id(1)).unwrap().unwrap();
    let fold = FoldKind::Deltas;
    assert_eq!(log.verify(&[own_key]), Ok(ChainVerdict::IntactAsImported { head, fold }));
    assert_eq!(log.verify(&[of_origin]), intact(head, fold), "its server's key has signed the note");
    let again = imported(exported(store, 1));
    assert_eq!((again.fault.clone(), again.log_head()), (None, Some(head)), "it can move on");
    pass(&fixture, 11 * HOUR);
    assert_eq!(places(store, 1).len(), 1);
    let log = store.log_chain(ANN, id(1)).unwrap().unwrap();
    assert_eq!(log.verify(&[own_key]), intact(head, FoldKind::Cut), "this server has cut it");
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

/// Writes another head into the row of a job, as somebody has to who rewrites its log, and perhaps another
/// end.
fn change_head(place: &StorePlace, n: u128, ended_ms: Option<u64>) {
    let other = "0".repeat(64);
    if let StorePlace::Database(schema) = place {
        schema.sql(&format!(
            "UPDATE jobs SET row = jsonb_set(row::jsonb, '{{job,log_head}}', '\"{other}\"')::json WHERE id = '{}'",
            id(n)
        ));
        if let Some(ended_ms) = ended_ms {
            schema.sql(&format!(
                "UPDATE jobs SET row = jsonb_set(row::jsonb, '{{job,finished_at_ms}}', '{ended_ms}')::json WHERE id = '{}'",
                id(n)
            ));
        }
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
        if let Some(ended_ms) = ended_ms {
            row["job"]["finished_at_ms"] = json!(ended_ms);
        }
        let value = [&[1], row.to_string().as_bytes()].concat();
        jobs.insert(key.as_slice(), sealed("jobs", &key, &value).as_slice()).unwrap();
    }
    writing.commit().unwrap();
}

/// The store, closed, with the key.
fn closed(fixture: &Fixture) -> StoreLocation {
    fixture.store.close();
    match &fixture.place {
        StorePlace::File(_) => StoreLocation::File(fixture.path()),
        StorePlace::Database(schema) => {
            schema.sql(&format!("INSERT INTO settings VALUES ('log_key', '{}')", key().to_text()));
            StoreLocation::Database(Secret::from(schema.url()))
        }
    }
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
    let location = closed(&fixture);
    let unsigned = verify_command(&fixture.place, &["--all"]);
    let has_key = matches!(fixture.place, StorePlace::Database(_));
    assert_eq!(unsigned.code, i32::from(!has_key), "{}", unsigned.out);
    assert_eq!(unsigned.out.contains("no signature was checked"), !has_key, "{}", unsigned.out);
    let report = || verify_checkpoints(&location, &[key().public_key()]).unwrap();
    assert_eq!((report().checkpoints, report().proven, report().removed), (2, 3, 1));
    assert_eq!(report().faults, Vec::<String>::new());
    let fault = |n: u128| format!("{}  its head is not the one of checkpoint 1", id(n));
    change_head(&fixture.place, 2, None);
    assert_eq!(report().faults, [fault(2)]);
    change_head(&fixture.place, 3, Some(again.through_ms + 1));
    assert_eq!(report().faults, [fault(2), fault(3)], "it did not run again");
}

#[test]
fn an_import_neither_drops_a_chain_nor_invents_one() {
    let origin = Fixture::new();
    run(&*origin.store, 1, done(id(1), "answer"));
    let of_file = exported(&*origin.store, 1);
    for stage in [LogStage::Folded, LogStage::Cut] {
        let mut relabelled = of_file.clone();
        relabelled.0.state.log = stage;
        assert_eq!(imported(relabelled.clone()).fault, None, "the whole log is there");
        relabelled.1[2].body = relabelled.1[2].body.replacen('{', "{ ", 1);
        assert!(imported(relabelled).fault.is_some(), "{stage:?}");
    }
    let mut retried = of_file.clone();
    retried.0.state.retried_at_ms = Some(1);
    retried.1[2].body = retried.1[2].body.replacen('{', "{ ", 1);
    assert!(imported(retried).fault.is_some());
    let mut headless = of_file.clone();
    headless.0.state.log_head = None;
    assert_eq!(imported(headless.clone()).fault, Some(ChainFault::NoHead));
    headless.1.iter_mut().for_each(|record| record.link = None);
    let fixture = Fixture::new();
    fixture.clock.advance(HOUR);
    fixture.store.import_run(ANN, imported(headless.clone())).wait().unwrap();
    assert_eq!(verdict(&*fixture.store, 1), Ok(ChainVerdict::NotChained), "this server has not seen it run");
    let import = |of_file| fixture.store.import_run(ANN, imported(of_file)).wait();
    assert!(matches!(import(headless.clone()), Ok(ImportOutcome::Unchanged(_))));
    headless.0.output = "another answer".to_owned();
    assert!(matches!(import(headless), Err(ImportError::Taken { .. })));
}

#[test]
fn an_import_is_in_one_checkpoint_whenever_it_ended() {
    let origin = Fixture::new();
    run(&*origin.store, 1, done(id(1), "answer"));
    run(&*origin.store, 2, done(id(2), "answer"));
    let fixture = Fixture::new();
    let store = &*fixture.store;
    store.set_log_key(key());
    fixture.clock.advance(3 * HOUR);
    run(store, 3, done(id(3), "answer"));
    fixture.clock.advance(2 * 60_000);
    // The store may be faster.
    let make = || store.make_checkpoint().wait().unwrap();
    make();
    let jobs = |after: u64| {
        let found = store.checkpoints(after, 10).unwrap();
        found.iter().map(|stored| stored.heads.iter().map(|(job, _)| job).collect()).collect::<Vec<Vec<_>>>()
    };
    assert_eq!(jobs(0), [[id(3)]]);
    origin.clock.advance(3 * HOUR + 3 * 60_000);
    run(&*origin.store, 4, done(id(4), "answer"));
    for n in [1, 2, 4] {
        store.import_run(ANN, imported(exported(&*origin.store, n))).wait().unwrap();
    }
    store.delete(ANN, id(2)).wait().unwrap();
    make();
    assert_eq!(jobs(1), [[id(1)]], "one was deleted, and one ended just now");
    fixture.clock.advance(10 * 60_000);
    make();
    assert_eq!(jobs(2), [[id(4)]]);
    assert_eq!(store.make_checkpoint().wait().unwrap(), None, "each is in one");
}

#[test]
fn a_run_that_comes_under_the_id_of_a_deleted_job_is_no_change_of_it() {
    let origin = Fixture::new();
    run(&*origin.store, 1, failed());
    let fixture = Fixture::new();
    let store = &*fixture.store;
    store.set_log_key(key());
    run(store, 1, done(id(1), "answer"));
    fixture.clock.advance(10 * 60_000);
    store.make_checkpoint().wait().unwrap();
    store.delete(ANN, id(1)).wait().unwrap();
    fixture.clock.advance(10 * 60_000);
    let mut other = exported(&*origin.store, 1);
    other.0.state.retried_at_ms = Some(1);
    store.import_run(ANN, imported(other)).wait().unwrap();
    fixture.clock.advance(10 * 60_000);
    store.make_checkpoint().wait().unwrap();
    let report = verify_checkpoints(&closed(&fixture), &[key().public_key()]).unwrap();
    assert_eq!((report.faults, report.removed, report.proven), (Vec::new(), 1, 1));
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
