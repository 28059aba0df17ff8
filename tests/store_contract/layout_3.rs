//! Files of version 3, in which redb knew the types of tables: made of current ones by the definitions of that time, which
//! are frozen here.

use super::fixture::{Rig, open};
use crate::support::store::{ANN, BOB, HandClock, done, id, job, turn};
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::Store;
use redb::{
    Database, Key, ReadableDatabase, ReadableTable, TableDefinition, TableHandle, Value, WriteTransaction,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A table from bytes to bytes, as the store has them since version 4.
pub(crate) type Loose<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;
/// The schema's version, as of version 3.
pub(crate) const META_3: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

macro_rules! tables {
    ($($name:ident: $key:ty => $value:ty;)*) => {
        /// Gives every table its type of version 3.
        fn tighten_all(writing: &WriteTransaction) {
            $(tighten::<$key, $value>(writing, stringify!($name));)*
        }
    };
}

tables! {
    meta: &str => &[u8];
    jobs: &[u8; 16] => &[u8];
    specs: &[u8; 16] => &[u8];
    outputs: &[u8; 16] => &[u8];
    log: &[u8; 28] => &[u8];
    owned: &[u8; 13] => &[u8; 16];
    ready: &[u8; 17] => &[u8; 24];
    delayed: &[u8; 16] => &[u8; 16];
    running: &[u8; 16] => ();
    lines: &[u8; 76] => &[u8; 16];
    beside: &[u8; 20] => ();
    turns: &[u8; 76] => &[u8];
    summaries: &[u8; 76] => &[u8];
    conversations: &[u8; 76] => &[u8];
    conversations_by_time: &[u8; 76] => &[u8];
    conversation_counts: &[u8; 5] => u64;
    exchanges: &[u8; 76] => &[u8];
    conversation_waste: &[u8; 76] => &[u8];
    usage: &[u8; 40] => &[u8];
    usage_hours: &[u8; 40] => &[u8];
    conversation_usage: &[u8; 76] => &[u8];
    fair: &[u8; 5] => u64;
    batches: &[u8; 16] => &[u8];
    batches_owned: &[u8; 20] => ();
    batch_lines: &[u8; 20] => &[u8];
    batch_active: &[u8; 20] => &[u8; 16];
    batch_ended: &[u8; 20] => u32;
    filling: &[u8; 16] => ();
    batch_waste: &[u8; 16] => ();
    schedules: &[u8; 16] => &[u8];
    schedule_orders: &[u8; 16] => &[u8];
    schedules_owned: &[u8; 20] => ();
    schedules_due: &[u8; 24] => ();
    once: &[u8; 36] => &[u8];
    once_due: &[u8; 44] => ();
    ended: &[u8; 25] => ();
    deliveries: &[u8; 16] => &[u8];
    deliveries_due: &[u8; 24] => &str;
    deliveries_owned: &[u8; 21] => ();
    deliveries_settled: &[u8; 24] => ();
    users: &[u8; 16] => &[u8];
    user_finds: &[u8; 36] => &[u8];
    tokens: &[u8; 20] => &[u8];
    projects: &[u8; 16] => &[u8];
    projects_owned: &[u8; 28] => &[u8];
    projects_waste: &[u8; 16] => &[u8];
}

fn tighten<K: Key + 'static, V: Value + 'static>(writing: &WriteTransaction, name: &str) {
    let entries: Vec<_> = {
        let loose = writing.open_table(Loose::new(name)).unwrap();
        let entries = loose.iter().unwrap().map(|entry| entry.unwrap());
        entries.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect()
    };
    writing.delete_table(Loose::new(name)).unwrap();
    let mut typed = writing.open_table(TableDefinition::<K, V>::new(name)).unwrap();
    for (key, value) in &entries {
        typed.insert(K::from_bytes(key), V::from_bytes(value)).unwrap();
    }
}

/// Makes a current file what version 3 would have written.
pub(crate) fn age(path: &Path) {
    let database = Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    tighten_all(&writing);
    for table in writing.list_tables().unwrap() {
        let refused = writing.open_table(Loose::new(table.name()));
        assert!(refused.is_err(), "{} has no type of version 3 here", table.name());
    }
    writing.open_table(META_3).unwrap().insert("schema", b"\x013".as_slice()).unwrap();
    writing.commit().unwrap();
}

/// The version that a file tells, whatever the type of its table.
pub(crate) fn version(path: &Path) -> Vec<u8> {
    let database = Database::open(path).unwrap();
    let reading = database.begin_read().unwrap();
    if let Ok(meta) = reading.open_table(META_3) {
        return meta.get("schema").unwrap().unwrap().value().to_vec();
    }
    let meta = reading.open_table(Loose::new("meta")).unwrap();
    meta.get(b"schema".as_slice()).unwrap().unwrap().value().to_vec()
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// All that a current file holds, but for its counters.
fn dump(path: &Path) -> BTreeMap<String, Entries> {
    let database = Database::open(path).unwrap();
    let reading = database.begin_read().unwrap();
    let entries = |name: &str| -> Entries {
        let table = reading.open_table(Loose::new(name)).unwrap();
        let entries = table.iter().unwrap().map(|entry| entry.unwrap());
        entries.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect()
    };
    let names = reading.list_tables().unwrap().map(|table| table.name().to_owned());
    names.filter(|name| name != "meta").map(|name| (name.clone(), entries(&name))).collect()
}

#[test]
fn p1_a_file_of_version_3_keeps_every_byte_and_a_copy_of_it_stays() {
    let rig = Rig::new();
    rig.submit([job(1, ANN), turn(2, BOB, "chat")]);
    rig.store.finish(rig.claim().fence(), vec![], done(id(1), "answer")).wait().unwrap();
    rig.submit((3..200).map(|n| if n % 2 == 0 { job(n, ANN) } else { turn(n, BOB, "chat") }));
    rig.store.close();
    let before = dump(&rig.path());
    assert!(before.values().filter(|entries| !entries.is_empty()).count() > 8, "worth a test");
    age(&rig.path());
    assert_eq!(version(&rig.path()), b"\x013");

    let store = open(&rig.path(), &Limits::default(), Arc::clone(&rig.clock)).unwrap();
    assert_eq!(store.output(id(1)).unwrap().as_deref(), Some("answer"));
    store.close();
    assert_eq!(version(&rig.path()), b"\x014");
    assert_eq!(dump(&rig.path()), before);
    assert_eq!(
        version(&rig.dir.path().join("store.redb.v3.bak")),
        b"\x013",
        "the copy is the file as it was"
    );
    let again = open(&rig.path(), &Limits::default(), HandClock::new()).unwrap();
    assert!(!again.claim(10).wait().unwrap().is_empty(), "and it works");
}
