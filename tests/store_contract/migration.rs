//! Files of earlier versions: opened by this build they lose nothing, and a copy of each stays.

use super::fixture::{Rig, open};
use super::layout_3::{self, META_3, version};
use super::messages::{say, shown, told};
use crate::support::store::{ANN, BOB, HandClock, done, id, job, name, turn};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{Conversations, Store};
use redb::{ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Arc;

const READY_1: TableDefinition<'static, &[u8; 17], &[u8; 16]> = TableDefinition::new("ready");
const READY_2: TableDefinition<'static, &[u8; 17], &[u8; 24]> = TableDefinition::new("ready");
const ENDED: TableDefinition<'static, &[u8; 25], ()> = TableDefinition::new("ended");

/// Makes a file what version 1 would have written.
fn age(path: &Path) {
    layout_3::age(path);
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    let places: Vec<([u8; 17], [u8; 16])> = {
        let ready = writing.open_table(READY_2).unwrap();
        let job = |bytes: &[u8; 24]| *bytes.first_chunk().unwrap();
        ready.iter().unwrap().map(|e| e.unwrap()).map(|(k, v)| (*k.value(), job(v.value()))).collect()
    };
    writing.delete_table(READY_2).unwrap();
    writing.delete_table(ENDED).unwrap();
    {
        let mut ready = writing.open_table(READY_1).unwrap();
        for (key, job) in &places {
            ready.insert(key, job).unwrap();
        }
    }
    writing.open_table(META_3).unwrap().insert("schema", b"\x011".as_slice()).unwrap();
    writing.commit().unwrap();
}

/// Jobs of two users, one ended, one in a conversation; then the file as version 1 has it.
fn aged() -> Rig {
    let rig = Rig::new();
    rig.submit([job(1, ANN), job(2, ANN), job(3, BOB), turn(4, ANN, "chat"), job(5, ANN)]);
    let lease = rig.claim();
    rig.store.finish(lease.fence(), vec![], done(id(1), "answer")).wait().unwrap();
    rig.store.close();
    age(&rig.path());
    rig
}

#[test]
fn p1_a_file_of_version_1_goes_on_in_the_same_order_and_a_copy_of_it_stays() {
    let rig = aged();
    let copy = rig.dir.path().join("store.redb.v1.bak");
    std::fs::write(&copy, "left by an attempt that failed").unwrap();
    let store = open(&rig.path(), &Limits::default(), Arc::clone(&rig.clock)).unwrap();
    let ended = store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!(
        (ended.status, store.output(id(1)).unwrap().as_deref()),
        (JobStatus::Succeeded, Some("answer"))
    );
    let claimed: Vec<_> = store.claim(10).wait().unwrap().iter().map(|lease| lease.job.id).collect();
    store.close();
    assert_eq!(version(&rig.path()), b"\x014");

    assert_eq!(version(&copy), b"\x011", "the copy is the file as it was");
    let fresh = Rig::new();
    fresh.submit([job(1, ANN), job(2, ANN), job(3, BOB), turn(4, ANN, "chat"), job(5, ANN)]);
    fresh.claim();
    assert_eq!(claimed, fresh.claim_all(), "as if it had never been older");
    assert_eq!(claimed.len(), 4);
}

#[test]
fn a_file_that_cannot_be_copied_is_not_migrated() {
    let rig = aged();
    let copy = rig.dir.path().join("store.redb.v1.bak");
    std::fs::create_dir(&copy).unwrap();
    let refused = open(&rig.path(), &Limits::default(), HandClock::new()).err().unwrap().to_string();
    assert!(refused.contains("before its migration"), "{refused}");
    assert_eq!(version(&rig.path()), b"\x011");
}

/// Makes a file what version 2 would have written: conversations were their jobs.
fn without_conversations(path: &Path) {
    layout_3::age(path);
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    for table in ["conversations", "conversations_by_time", "exchanges", "conversation_waste"] {
        let turns: TableDefinition<'_, &[u8; 76], &[u8]> = TableDefinition::new(table);
        assert!(writing.delete_table(turns).unwrap(), "{table}");
    }
    let counts: TableDefinition<'_, &[u8; 5], u64> = TableDefinition::new("conversation_counts");
    assert!(writing.delete_table(counts).unwrap());
    writing.open_table(META_3).unwrap().insert("schema", b"\x012".as_slice()).unwrap();
    writing.commit().unwrap();
}

#[test]
fn conversations_of_version_2_get_rows_with_a_title_and_their_messages() {
    let rig = Rig::new();
    say(&rig, 1);
    rig.clock.advance(5);
    rig.submit([turn(3, ANN, "chat")]);
    rig.store.finish(rig.claim().fence(), vec![], done(id(3), "answer 3")).wait().unwrap();
    let mut long = turn(2, ANN, "chat");
    long.spec.input = vec![Message::user("y".repeat(99))];
    rig.submit([long, turn(4, BOB, "chat"), job(5, ANN)]);
    let told_before = told(&rig, 6);
    rig.store.close();
    without_conversations(&rig.path());

    let store =
        open(&rig.path(), &Limits { conversations: 1, ..Limits::default() }, Arc::clone(&rig.clock)).unwrap();
    let made = store.conversation(ANN, &name("chat")).unwrap().unwrap();
    assert_eq!((made.title.as_str(), made.message_count), ("question 1", 5));
    assert_eq!((made.created_at_ms, made.updated_at_ms), (1_000_000, 1_000_005));
    assert_eq!(shown(&store, ANN, None, 9).0, ["?1", "!1", "?3", "!3", "?2"]);
    assert_eq!(shown(&store, BOB, None, 9).0, ["?4"], "P7");
    assert!(store.submit(vec![turn(7, ANN, "another")]).wait().is_err(), "they count");
    store.submit(vec![turn(8, ANN, "chat")]).wait().unwrap();
    let job = store.job(ANN, id(8)).unwrap().unwrap();
    assert_eq!(store.history(&job, 100).unwrap().into_messages(), told_before);
    assert_eq!(version(&rig.dir.path().join("store.redb.v2.bak")), b"\x012");
}

#[test]
fn a_migrated_file_gives_back_what_the_migration_took() {
    let rig = Rig::new();
    for number in 1..=16 {
        let mut long = job(number, ANN);
        long.spec.input = vec![Message::user("x".repeat(1 << 20))];
        rig.submit([long]);
    }
    rig.store.close();
    layout_3::age(&rig.path());
    redb::Database::open(rig.path()).unwrap().compact().unwrap();
    let bytes = || std::fs::metadata(rig.path()).unwrap().len();
    let before = bytes();
    open(&rig.path(), &Limits::default(), Arc::clone(&rig.clock)).unwrap().close();
    assert_eq!(version(&rig.path()), b"\x014");
    assert!(bytes() * 10 <= before * 13, "{} of {before}", bytes());
}
