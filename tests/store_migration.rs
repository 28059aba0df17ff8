//! Moves stores between a file and `PostgreSQL`, row by row. Skipped, with a message, where `PostgreSQL` is
//! not installed.

use crate::store_contract::backup::busy;
use crate::store_contract::fixture::{Fixture, open};
use crate::store_contract::schedules::{every, order, schedule};
use crate::support::database::{self, Schema};
use crate::support::store::{ANN, ManualClock, delta, done, id, job, name, turn};
use crate::support::{Ran, command, wait_until};
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::Priority;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::secret::Secret;
use nanoclaw::ports::{Backup, Clock, NewInvite, Store, Urgency};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::postgres::{DatabaseError, PostgresOptions, PostgresStore};
use nanoclaw::store::{
    MigrationReport, OpenError, StoreLocation, TransferError, check, check_database, migrate,
};
use redb::{ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Text with all bytes that formats treat specially.
const SPECIAL: &str = "nul \u{0} tab\t line\n return\r \\N \\. 'é' \"\u{2028}\" {\"a\": 1.0e3}";

/// Rows that only exist to be moved: of each table at least one.
fn full() -> Fixture {
    let fixture = busy();
    let mut strange = job(50, ANN);
    strange.spec.input = vec![Message::user(SPECIAL.to_owned())];
    strange.spec.priority = Priority::new(0).unwrap();
    strange.spec.conversation_id = Some(name("special"));
    fixture.submit([strange]);
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(50));
    fixture.store.append(lease.fence(), vec![delta(0, 0, SPECIAL)], Urgency::Now).wait().unwrap();
    fixture.store.finish(lease.fence(), vec![], done(id(50), SPECIAL)).wait().unwrap();
    let (created_at_ms, expires_at_ms) = (1_000_000, 9_000_000);
    let invite = NewInvite { digest: [5; 32], created_at_ms, expires_at_ms, created_by: Some(ANN) };
    fixture.store.store_invite(invite).wait().unwrap();
    fixture
}

fn database(schema: &Schema) -> StoreLocation {
    StoreLocation::Database(Secret::from(schema.url()))
}

fn file(path: &Path) -> StoreLocation {
    StoreLocation::File(path.to_owned())
}

fn moved(from: &StoreLocation, to: &StoreLocation) -> Result<MigrationReport, TransferError> {
    migrate(from, to, &mut |_, _| ())
}

fn node(schema: &Schema) -> Result<Arc<PostgresStore>, String> {
    let database = PostgresOptions {
        is_pooled: false,
        audit_entries: 1_000,
        url: Secret::from(schema.url()),
        node_name: "test".to_owned(),
        lease: Duration::from_secs(15),
        connections: 6,
        uses_database_time: false,
    };
    let clock = ManualClock::new() as Arc<dyn Clock>;
    PostgresStore::open(&database, &StoreOptions::default(), &Limits::default(), clock)
        .map_err(|error| error.to_string())
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// All rows of all tables of a file.
fn rows(path: &Path) -> BTreeMap<String, Rows> {
    let database = redb::Database::open(path).unwrap();
    let reading = database.begin_read().unwrap();
    let names: Vec<String> = reading.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
    let read = |name: String| {
        let table = reading.open_table(TableDefinition::<&[u8], &[u8]>::new(&name)).unwrap();
        let entries = table.iter().unwrap().map(Result::unwrap);
        let rows = entries.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect();
        (name, rows)
    };
    names.into_iter().map(read).collect()
}

fn differing(one: &Path, other: &Path) -> BTreeSet<String> {
    let (one, other) = (rows(one), rows(other));
    one.keys().chain(other.keys()).filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

/// The jobs that a store runs after its start; a database queues those of a lost node a moment later.
fn claimed(store: &dyn Store, count: usize) -> BTreeSet<JobId> {
    let mut jobs = BTreeSet::new();
    wait_until("the claims", || {
        jobs.extend(store.claim(100).wait().unwrap().iter().map(|lease| lease.job.id));
        jobs.len() >= count
    });
    jobs
}

#[test]
fn p1_a_file_moves_to_a_database_and_back_with_all_its_rows() {
    let Some(schema) = database::schema() else { return };
    let fixture = full();
    fixture.store.close();
    let before = rows(&fixture.path());
    let there = moved(&file(&fixture.path()), &database(&schema)).unwrap();
    assert!(there.is_equal() && !there.is_continued, "{there:?}");
    let empty: Vec<_> = there.tables.iter().filter(|table| table.source_rows == 0).collect();
    assert!(empty.is_empty(), "the test moves no row of {empty:?}");
    assert!(rows(&fixture.path()) == before, "the source stays as it is");
    let mut not_moved: BTreeSet<String> = schema
        .sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        .lines()
        .map(str::to_owned)
        .collect();
    not_moved.retain(|name| there.tables.iter().all(|moved| moved.table != name));
    // What a cluster makes anew, counts again or has of its own.
    let own = [
        "audit",
        "commit_marks",
        "migrations",
        "nodes",
        "quota_counts",
        "settings",
        "stored_bytes",
        "unaccepted_batches",
        "windows",
    ];
    assert_eq!(not_moved, own.map(str::to_owned).into(), "a new table has to move as well");
    let checked = check_database(&Secret::from(schema.url())).unwrap();
    assert_eq!((checked.damaged, &checked.places), (0, &Vec::new()));
    assert_eq!(checked.contents.len(), 2, "a file and an image");

    let returned = fixture.dir().join("returned.redb");
    let back = moved(&database(&schema), &file(&returned)).unwrap();
    assert!(back.is_equal(), "{back:?}");
    assert_eq!(check(&returned).unwrap().unwrap().damaged, 0);
    // Sums that a start or the next change counts again, times and counters of the file, a batch that nobody
    // accepts, and the owner of one whose lines another user has stored.
    let may_differ = [
        "meta",
        "stored_bytes",
        "unfinished_work",
        "fair",
        "unaccepted_batches",
        "removed_batches",
        "batch_owners",
    ];
    let others: Vec<_> = differing(&fixture.path(), &returned)
        .into_iter()
        .filter(|name| !may_differ.contains(&name.as_str()))
        .collect();
    assert!(others.is_empty(), "{others:?}");

    let restarted = open(&fixture.path(), &Limits::default(), ManualClock::new()).unwrap();
    let wanted = restarted.claim(100).wait().unwrap();
    let wanted: BTreeSet<_> = wanted.iter().map(|lease| lease.job.id).collect();
    assert_eq!(restarted.output(id(50)).unwrap().as_deref(), Some(SPECIAL));
    let stores: [Arc<dyn Store>; 2] =
        [node(&schema).unwrap(), open(&returned, &Limits::default(), ManualClock::new()).unwrap()];
    for store in stores {
        assert_eq!(claimed(&*store, wanted.len()), wanted);
        assert_eq!(store.output(id(50)).unwrap().as_deref(), Some(SPECIAL));
        assert_eq!(store.log(id(50)).unwrap(), restarted.log(id(50)).unwrap());
    }
}

#[test]
fn a_backup_of_a_running_node_is_the_file_that_a_migration_writes() {
    let Some(schema) = database::schema() else { return };
    let fixture = full();
    fixture.store.close();
    assert!(moved(&file(&fixture.path()), &database(&schema)).unwrap().is_equal());
    let node = node(&schema).unwrap();
    node.set_scratch_directory(&fixture.dir());
    claimed(&*node, 1);
    let backup = fixture.dir().join("backup.redb");
    let mut copy = node.copy().unwrap();
    let checked = check_database(&Secret::from(schema.url())).unwrap();
    assert_eq!((checked.damaged, &checked.places), (0, &Vec::new()), "also while nodes run");
    node.close();
    std::io::Seek::rewind(&mut copy).unwrap();
    std::io::copy(&mut copy, &mut std::fs::File::create(&backup).unwrap()).unwrap();
    schema.sql("UPDATE nodes SET lease_until = clock_timestamp() - interval '1 second'");
    let migrated = fixture.dir().join("migrated.redb");
    assert!(moved(&database(&schema), &file(&migrated)).unwrap().is_equal());
    assert_eq!(differing(&backup, &migrated), BTreeSet::new());
    let Some(other) = database::schema() else { return };
    assert!(moved(&file(&backup), &database(&other)).unwrap().is_equal(), "a backup can be the source");
}

/// A closed file with so many jobs.
fn large(jobs: u128) -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("large.redb");
    let store = open(&path, &Limits::default(), ManualClock::new()).unwrap();
    for first in (1..=jobs).step_by(500) {
        store.submit((first..first + 500).map(|number| job(number, ANN)).collect()).wait().unwrap();
    }
    store.close();
    (directory, path)
}

fn stop_of_lock(schema: &Schema) {
    schema.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%held by a test%' AND pid <> pg_backend_pid()");
}

#[test]
fn a_killed_migration_continues_and_no_node_starts_meanwhile() {
    let Some(schema) = database::schema() else { return };
    let (_directory, path) = large(12_000);
    // The tables exist, and the migration has to wait before the log of the jobs.
    node(&schema).unwrap().close();
    std::thread::scope(|scope| {
        let lock = scope.spawn(|| {
            let held =
                "BEGIN; LOCK TABLE records IN EXCLUSIVE MODE; SELECT pg_sleep(120) /* held by a test */";
            std::panic::catch_unwind(|| schema.sql(held))
        });
        wait_until("the lock", || {
            schema.sql("SELECT count(*) FROM pg_locks WHERE relation = 'records'::regclass AND mode = 'ExclusiveLock'")
                == "1"
        });
        let mut child = command(&["migrate", "--from", path.to_str().unwrap(), "--to", &schema.url()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("all jobs in the database", || schema.sql("SELECT count(*) FROM jobs") == "12000");
        child.kill().unwrap();
        child.wait().unwrap();
        stop_of_lock(&schema);
        assert!(lock.join().unwrap().is_err(), "its session was ended");
    });
    let refused = node(&schema).err().expect("the database is incomplete");
    assert!(refused.contains("nanoclaw migrate"), "{refused}");
    assert_eq!(schema.sql("SELECT count(*) FROM nodes"), "0", "it has no lease");
    let (_other_directory, other) = large(500);
    let foreign = moved(&file(&other), &database(&schema));
    assert!(
        matches!(foreign, Err(TransferError::Database(DatabaseError::OtherMigration { .. }))),
        "{foreign:?}"
    );
    let report = moved(&file(&path), &database(&schema)).unwrap();
    assert!(report.is_equal() && report.is_continued, "{report:?}");
    node(&schema).unwrap().close();

    // The other direction: a part that a killed attempt has left.
    let target = path.with_file_name("back.redb");
    let part = path.with_file_name("back.redb.migration");
    let mut child = command(&["migrate", "--from", &schema.url(), "--to", target.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("some rows in the file", || {
        std::fs::metadata(&part).is_ok_and(|part| part.len() > 4_000_000) || target.exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    if !target.exists() {
        assert!(moved(&database(&schema), &file(&target)).unwrap().is_equal());
    }
    assert!(target.exists() && !part.exists());
    let may_differ = ["meta", "stored_bytes", "unfinished_work", "fair"].map(str::to_owned);
    assert!(differing(&path, &target).is_subset(&may_differ.into()));
}

#[test]
fn a_store_that_cannot_be_moved_is_refused_with_the_reason() {
    let Some(schema) = database::schema() else { return };
    let fixture = Fixture::file();
    fixture.submit([turn(1, ANN, "chat")]);
    let (path, target) = (fixture.path(), fixture.dir().join("target.redb"));
    let locked = moved(&file(&path), &database(&schema));
    assert!(matches!(locked, Err(TransferError::File(OpenError::Locked { .. }))), "{locked:?}");
    fixture.store.close();
    let url = |url: &str| StoreLocation::from(url);
    let bad = moved(&file(&path), &url("postgres://[")).unwrap_err();
    assert!(bad.to_string().contains("not a URL of PostgreSQL"), "{bad}");
    let away = moved(&file(&path), &url("postgres://127.0.0.1:1/nothing")).unwrap_err();
    assert!(matches!(away, TransferError::Database(DatabaseError::Unreachable(_))), "{away}");
    assert!(away.to_string().contains("Connection refused"), "{away}");
    let absent = moved(&file(&target), &database(&schema));
    assert!(matches!(absent, Err(TransferError::File(OpenError::Io { .. }))), "{absent:?}");
    let empty = moved(&database(&schema), &file(&target));
    assert!(matches!(empty, Err(TransferError::Database(DatabaseError::NoStore))), "{empty:?}");
    assert!(matches!(moved(&file(&path), &file(&target)), Err(TransferError::SameKind)));

    let node = node(&schema).unwrap();
    let used = moved(&file(&path), &database(&schema));
    assert!(matches!(used, Err(TransferError::Database(DatabaseError::InUse(_)))), "{used:?}");
    assert_eq!(
        schema.sql("SELECT count(*) FROM settings WHERE key = 'transfer'"),
        "0",
        "its nodes may restart"
    );
    node.submit(vec![job(1, ANN)]).wait().unwrap();
    let used = moved(&database(&schema), &file(&target));
    assert!(matches!(used, Err(TransferError::Database(DatabaseError::InUse(_)))), "{used:?}");
    node.close();
    let full = moved(&file(&path), &database(&schema));
    assert!(matches!(full, Err(TransferError::Database(DatabaseError::NotEmpty { .. }))), "{full:?}");
    let there = moved(&database(&schema), &file(&path));
    assert!(matches!(there, Err(TransferError::Exists(_))), "{there:?}");
    schema.sql("INSERT INTO migrations (step, version, oldest_usable) VALUES (999, 'newer', 999)");
    for refused in [moved(&database(&schema), &file(&target)), moved(&file(&path), &database(&schema))] {
        assert!(
            matches!(refused, Err(TransferError::Database(DatabaseError::Layout { found: 999, .. }))),
            "{refused:?}"
        );
    }
    assert!(!target.exists());
}

#[test]
fn a_row_that_differs_is_named_and_the_command_fails() {
    let Some(schema) = database::schema() else { return };
    let fixture = full();
    fixture.store.put(schedule(2, every(60), 1_000_000), order(), 10).wait().unwrap();
    fixture.store.close();
    node(&schema).unwrap().close();
    schema.sql(
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.place = NEW.place + 1; RETURN NEW; END $$; \
         CREATE TRIGGER spoil BEFORE INSERT ON answered_approvals FOR EACH ROW EXECUTE FUNCTION spoil()",
    );
    let (from, to) = (fixture.path(), schema.url());
    let arguments = ["migrate", "--from", from.to_str().unwrap(), "--to", &to];
    let ran = Ran::from(command(&arguments).output().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().filter(|line| !line.ends_with("equal")).collect();
    let line = format!("of 1: {} 0 is in the source only", id(4));
    assert!(
        matches!(lines[..], [only] if only.starts_with("answered_approvals") && only.ends_with(&line)),
        "{lines:?}"
    );
    assert!(node(&schema).is_err(), "no node starts on it");
}

#[test]
fn a_check_of_a_database_names_what_contradicts_other_rows() {
    let Some(schema) = database::schema() else { return };
    let fixture = full();
    fixture.store.close();
    assert!(moved(&file(&fixture.path()), &database(&schema)).unwrap().is_equal());
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("config.yml");
    let text = format!("store: {{url: \"{}\"}}\ndata_dir: {}\n", schema.url(), directory.path().display());
    std::fs::write(&config, text).unwrap();
    let run = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["--config", config.to_str().unwrap()]);
        Ran::from(command(&all).output().unwrap())
    };
    let job = id(2);
    schema.sql(&format!("DELETE FROM records WHERE job = '{job}' AND seq = 2 AND sub = 0"));
    schema.sql(&format!("UPDATE jobs SET user_id = 77 WHERE id = '{}'", id(5)));
    schema.sql("UPDATE users SET row = '{}' WHERE id = 1");
    schema.sql("UPDATE file_totals SET bytes = bytes + 1");
    let checked = run(&["check"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    for place in [
        format!("records {job} (the log has a gap"),
        format!("jobs {} (user_id is 77, its document says 1)", id(5)),
        "users 1: missing field".to_owned(),
        "file_totals 1 (files and images are counted wrongly)".to_owned(),
    ] {
        assert!(checked.out.contains(&place), "{place} in {}", checked.out);
    }
    let backup = directory.path().join("backup.redb");
    let refused = run(&["backup", backup.to_str().unwrap()]);
    assert!(refused.code == 1 && refused.err.contains("users 1: missing field"), "{}", refused.err);
    // A check of the backup reads the totals as well.
    schema.sql("DELETE FROM users; UPDATE file_totals SET bytes = bytes - 1");
    let made = run(&["backup", backup.to_str().unwrap()]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(check(&backup).unwrap().unwrap().damaged, 0);
    let restored = run(&["restore", backup.to_str().unwrap()]);
    assert!(restored.code == 1 && restored.err.contains("nanoclaw migrate --from"), "{}", restored.err);
}
