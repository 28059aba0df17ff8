//! Backup and restore: complete snapshots while writes continue, and restores that keep the old file.

use super::batches::source;
use super::conversation_items;
use super::fixture::{Fixture, open, options};
use super::projects;
use super::schedules::{every, order, schedule};
use super::stored_files;
use super::users::{newcomer, token};
use crate::support::store::{
    ANN, BOB, ManualClock, cancelled, cost, delta, done, exported, id, imported, job, name, turn,
};
use nanoclaw::domain::account::Quota;
use nanoclaw::domain::delivery_turns::DeliveryTurns;
use nanoclaw::domain::handed_approvals::{ApprovalRequestRef, DecidedCall, HandedApprovals};
use nanoclaw::domain::id::BatchId;
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::image::{Image, ImageType};
use nanoclaw::domain::job::{ConversationSummary, JobOrigin, JobOutcome, Priority};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::log_chain::LogSigningKey;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::stored_file::ContentDigest;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::domain::usage::Usage;
use nanoclaw::domain::webhook::{AfterAttempt, DeliveryAttempt, WebhookUrl};
use nanoclaw::ports::{AccountChange, NewBatch, NewLine, Store, StoreError, SubmitError, Urgency};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::{AtomicFile, OpenError, backup_closed, restore};
use redb::{ReadableDatabase, ReadableTableMetadata, TableHandle};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Jobs in every state, so that no table is empty.
pub(crate) fn busy() -> Fixture {
    let exporting = StoreOptions { exports_spans: true, ..options() };
    let fixture = Fixture::file_with_options(&exporting);
    let mut late = job(1, ANN);
    late.spec.run_at_ms = Some(9_000_000);
    let image = Image {
        media_type: ImageType::Png,
        content: ContentDigest::from_bytes([7; 32]),
        bytes: 3,
        name: None,
        detail: None,
        text_offset_bytes: None,
        data: None,
    };
    late.spec.input =
        vec![Message::User { content: "look".into(), attachments: vec![], images: vec![image] }];
    fixture.submit([late, turn(2, ANN, "chat"), turn(3, ANN, "chat"), job(4, BOB), job(5, ANN), job(6, ANN)]);
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(2));
    let summary = Some(ConversationSummary { content: "summed up".to_owned(), through: 0 });
    let ending = JobOutcome { summary, ..done(id(2), "answer") };
    fixture.store.finish(lease.fence(), vec![cost(None, Usage::new(1, 1))], ending).wait().unwrap();
    let lease = fixture.claim();
    fixture.store.append(lease.fence(), vec![delta(0, 0, "half")], Urgency::Now).wait().unwrap();
    let other = fixture.claim();
    fixture.store.finish(other.fence(), vec![], cancelled()).wait().unwrap();
    fill_the_other_tables(&fixture);
    // A checkpoint leaves what has just ended to the next one.
    fixture.clock.jump(61_000);
    fixture.store.set_log_key(LogSigningKey::from_seed([6; 32]).unwrap());
    fixture.store.make_checkpoint().wait().unwrap().expect("a checkpoint");
    let origin = Fixture::file();
    origin.submit([job(40, ANN)]);
    origin.store.finish(origin.claim().fence(), vec![], done(id(40), "answer")).wait().unwrap();
    fixture.store.import_run(ANN, imported(exported(&*origin.store, 40))).wait().unwrap();
    fixture
}

fn line(n: u32) -> NewLine {
    let mut spec = job(u128::from(n), BOB).spec;
    spec.priority = Priority::new(0).unwrap();
    NewLine { custom_id: n.to_string(), spec }
}

/// Adds an accepted, an unaccepted and a removed batch, and an idempotency key.
fn fill_batches(fixture: &Fixture) {
    for number in [1, 2, 3] {
        fixture.store.fill((ANN, BatchId::from_bits(number)), 0, vec![line(0), line(1)]).wait().unwrap();
    }
    fixture.store.abandon(BatchId::from_bits(3)).wait().unwrap();
    let batch = NewBatch {
        id: BatchId::from_bits(1),
        user: BOB,
        created_at_ms: 1_000_000,
        lines: 2,
        concurrency: 1,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    };
    fixture.store.accept(batch, Some(IdempotencyKey { key: [1; 32], fingerprint: [1; 32] })).wait().unwrap();
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "line")).wait().unwrap();
    fixture.claim();
}

/// Adds batches, a schedule, webhooks, accounts, a token and projects.
fn fill_the_other_tables(fixture: &Fixture) {
    let url = || Some(WebhookUrl::try_from("https://example.com/hook".to_owned()).unwrap());
    fill_batches(fixture);
    for number in [7, 8] {
        let mut reported = job(number, ANN);
        reported.spec.webhook_url = url();
        reported.spec.run_at_ms = Some(9_000_000);
        fixture.submit([reported]);
        fixture.store.cancel(ANN, id(number)).wait().unwrap();
    }
    let mut answering = job(11, ANN);
    answering.spec.run_at_ms = Some(9_000_000);
    answering.spec.is_stored_completion = true;
    let call = ToolCall { id_ref: "c".into(), name: "t".into(), arguments: "{}".into() };
    let request = Some(ApprovalRequestRef { job: id(4), place: 0 });
    let decided = vec![DecidedCall { request, call, approve: true, reason: None }];
    answering.spec.handed_approvals = Some(HandedApprovals { tools: vec![], decided });
    let mut dependent = job(12, ANN);
    dependent.spec.conditions.after = vec![id(1)];
    dependent.spec.conditions.expires_at_ms = Some(9_000_000);
    fixture.submit([answering, dependent]);
    let mut background_job = turn(10, ANN, "chat");
    background_job.spec.origin = JobOrigin::Agent { parent: id(2) };
    background_job.spec.run_at_ms = Some(9_000_000);
    fixture.submit([background_job, turn(9, ANN, "gone")]);
    fixture.store.remove_conversation(ANN, name("gone")).wait().unwrap();
    let delivery =
        fixture.store.due(2_000_000, 1, &DeliveryTurns::default()).unwrap().pop().expect("a delivery");
    fixture
        .store
        .settle(delivery.id, DeliveryAttempt { status: Some(410), error: None, next: AfterAttempt::Dead })
        .wait()
        .unwrap();
    fixture.store.put(schedule(1, every(60), 1_000_000), order(), 10).wait().unwrap();
    let user = fixture.store.register(newcomer("ann")).wait().unwrap().id;
    let nothing = Quota { tokens_per_day: Some(0), ..Quota::default() };
    let change = AccountChange { quota: Some(nothing), ..AccountChange::default() };
    fixture.store.change_account(user, change).wait().unwrap();
    let (id, webhook_url) = (BatchId::from_bits(4), None);
    fixture.store.fill((ANN, id), 0, vec![line(0)]).wait().unwrap();
    let waiting = NewBatch {
        id,
        user,
        created_at_ms: 1_000_000,
        lines: 1,
        concurrency: 1,
        webhook_url,
        expires_at_ms: Some(9_000_000),
        source: Some(source()),
    };
    fixture.store.accept(waiting, None).wait().unwrap();
    fixture.store.store_token(token(1, ANN), 10).wait().unwrap();
    for number in [1, 2] {
        projects::found(fixture, number, ANN, &format!("project {number}")).unwrap();
    }
    fixture.store.remove_project(ANN, projects::pid(2)).wait().unwrap();
    stored_files::add_expiring(&fixture.store, 1, ANN);
    conversation_items::add(fixture, "added");
}

/// The tables of a file and how many rows each has.
fn tables(path: &Path) -> BTreeMap<String, u64> {
    let database = redb::Database::open(path).unwrap();
    let reading = database.begin_read().unwrap();
    let rows = |table: redb::UntypedTableHandle| {
        (table.name().to_owned(), reading.open_untyped_table(table).unwrap().len().unwrap())
    };
    reading.list_tables().unwrap().map(rows).collect()
}

#[test]
fn a_backup_has_all_rows_of_all_tables_and_mode_0600() {
    let fixture = busy();
    let copy = fixture.dir().join("copy.redb");
    std::fs::write(&copy, "an older backup").unwrap();
    fixture.file_store().backup_to(&copy).unwrap();
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fixture.dir().join("copy.redb.part").exists());
    let original = fixture.dir().join("original.redb");
    std::fs::copy(fixture.path(), &original).unwrap();
    let copied = tables(&copy);
    // Nothing is written in between, so a missing or truncated table is detected here.
    assert_eq!(copied, tables(&original));
    // Only a damaged store has rows in quarantine, and only one with accounts ready jobs by user.
    let may_be_empty = ["quarantine", "ready_by_user"];
    let has_rows = |(name, rows): (&String, &u64)| *rows > 0 || may_be_empty.contains(&name.as_str());
    assert!(copied.len() >= 25 && copied.iter().all(has_rows), "{copied:?}");

    let store = open(&copy, &Limits::default(), ManualClock::new()).unwrap();
    assert_eq!(store.output(id(2)).unwrap().as_deref(), Some("answer"));
    let claimed: Vec<_> = store.claim(10).wait().unwrap().iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed.len(), 4, "the ready jobs and the two running ones");
}

#[test]
fn a_backup_is_one_snapshot_while_writes_continue() {
    let fixture = Fixture::file();
    let text = "x".repeat(1_000_000);
    for n in 1..=20 {
        let mut large = job(n, ANN);
        large.spec.system_prompt = Some(text.clone());
        fixture.submit([large]);
    }
    let copy = fixture.dir().join("copy.redb");
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| fixture.file_store().backup_to(&copy));
        let mut n = 100;
        while !copying.is_finished() {
            fixture.submit([job(n, ANN)]);
            n += 1;
        }
        copying.join().unwrap().unwrap();
    });
    let rows = tables(&copy);
    let jobs = rows["jobs"];
    assert!(jobs >= 20, "{jobs}");
    assert_eq!(
        [rows["specs"], rows["owned"], rows["ready"], rows["log"]],
        [jobs; 4],
        "all tables are from one snapshot"
    );
}

#[test]
fn an_unnamed_copy_leaves_no_file_in_the_directory() {
    let fixture = busy();
    let before = std::fs::read_dir(fixture.dir()).unwrap().count();
    let copy = fixture.store.copy().unwrap();
    assert!(copy.metadata().unwrap().len() > 0);
    assert_eq!(std::fs::read_dir(fixture.dir()).unwrap().count(), before);
}

#[test]
fn a_backup_is_refused_when_the_disk_has_too_little_space() {
    let limits = Limits { disk_free_bytes: 1 << 60, ..Limits::default() };
    let fixture = Fixture::file_with(&limits);
    assert!(matches!(fixture.store.copy(), Err(StoreError::LowDisk { .. })));
    assert!(matches!(
        fixture.store.submit(vec![job(1, ANN)]).wait(),
        Err(SubmitError::Store(StoreError::LowDisk { .. }))
    ));
    fixture.store.probe().wait().unwrap();
}

#[test]
fn a_closed_store_can_be_copied_and_an_open_one_is_locked() {
    let fixture = busy();
    let target = fixture.dir().join("copy.redb");
    let draft = AtomicFile::begin(&target).unwrap();
    assert!(matches!(backup_closed(&fixture.path(), &draft), Err(OpenError::Locked { .. })));
    fixture.store.close();
    backup_closed(&fixture.path(), &draft).unwrap();
    draft.finish().unwrap();
    assert_eq!(tables(&target), tables(&fixture.path()));
}

#[test]
fn p1_a_restore_keeps_the_old_file_and_refuses_bad_backups_untouched() {
    let (fixture, other) = (busy(), Fixture::file());
    let copy = fixture.dir().join("copy.redb");
    fixture.file_store().backup_to(&copy).unwrap();
    other.submit([job(77, ANN)]);

    let error = restore(&other.path(), &copy, 5).err().unwrap().to_string();
    assert!(error.contains(" has it open"), "{error}");
    other.store.close();
    let before = std::fs::read(other.path()).unwrap();

    let bad = other.dir().join("bad");
    std::fs::write(&bad, "garbage that is no store at all").unwrap();
    assert!(restore(&other.path(), &bad, 5).err().unwrap().to_string().contains("no NanoClaw store"));
    let mut torn = std::fs::read(&copy).unwrap();
    let middle = torn.len() / 2;
    torn[4096..middle].fill(0xAA);
    std::fs::write(&bad, &torn).unwrap();
    assert!(restore(&other.path(), &bad, 5).is_err(), "damaged");
    drop(redb::Database::create(other.dir().join("empty")).unwrap());
    assert!(restore(&other.path(), &other.dir().join("empty"), 5).is_err(), "a database that is not a store");
    assert!(restore(&other.path(), &other.dir().join("absent"), 5).is_err());
    assert!(std::fs::read(other.path()).unwrap() == before, "refused restores touch nothing");

    let old_store = restore(&other.path(), &copy, 5).unwrap().unwrap();
    assert_eq!(old_store, other.dir().join("store.redb.before-restore-5"));
    let store = open(&other.path(), &Limits::default(), ManualClock::new()).unwrap();
    assert_eq!(store.job(ANN, id(77)).unwrap(), None);
    assert_eq!(store.output(id(2)).unwrap().as_deref(), Some("answer"));
    let old = open(&old_store, &Limits::default(), ManualClock::new()).unwrap();
    assert!(old.job(ANN, id(77)).unwrap().is_some());
}

#[test]
fn a_restore_replaces_a_store_that_cannot_be_opened() {
    let fixture = busy();
    let copy = fixture.dir().join("copy.redb");
    fixture.file_store().backup_to(&copy).unwrap();
    fixture.store.close();
    let mut spoilt = std::fs::read(fixture.path()).unwrap();
    spoilt[9..].fill(0xAA);
    std::fs::write(fixture.path(), &spoilt).unwrap();
    assert!(restore(&fixture.path(), &copy, 7).unwrap().is_some());
    assert!(open(&fixture.path(), &Limits::default(), ManualClock::new()).is_ok());
}
