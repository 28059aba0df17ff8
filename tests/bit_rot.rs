//! Damaged stores: flipped bits, swapped pages and damaged rows are answered with errors, never with other
//! content, and everything else goes on.
//!
//! `TEST_SEEDS` sets the number of damaged files; `TEST_SEED` the first seed.

use crate::support::disk::SeededRandom;
use crate::support::store::{ANN, ManualClock, MessagePages, delta, done, id, name, turn};
use crate::support::{Server, command, setting, wait_until};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{JobQuery, Store, StoreError, Urgency};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::{DAMAGED_EXIT, RedbStore, check, is_about_to_abort};
use redb::{ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Damaged files of a run without `TEST_SEEDS`.
const FILES: u64 = 40;
const JOBS: u128 = 40;
const PAGE: usize = 4096;

/// What a store answers to each question.
type Answers = Vec<(String, Result<String, String>)>;

/// Names the damaged store to the process that reads it.
const CHILD: &str = "NANOCLAW_TEST_DAMAGED_STORE";

/// What a process found in a damaged store.
#[derive(Debug, Serialize, Deserialize)]
struct DamagedStore {
    /// Damaged places that a check counts; `None`: it was refused.
    damaged: Option<u64>,
    /// `None`: the store was refused.
    answers: Option<Answers>,
}

fn open(path: &Path) -> Option<Arc<RedbStore>> {
    RedbStore::open(path, &StoreOptions::default(), &Limits::default(), ManualClock::new()).ok()
}

fn make_store(path: &Path) {
    let store = open(path).unwrap();
    for number in 1..=JOBS {
        store.submit(vec![turn(number, ANN, &format!("talk{}", number % 3))]).wait().unwrap();
        let lease = store.claim(1).wait().unwrap().pop().unwrap();
        let records = (0..4).map(|n| delta(n, 0, &format!("piece {n} of job {number}"))).collect();
        store.append(lease.fence(), records, Urgency::Now).wait().unwrap();
        let text = format!("answer {number} {}", "x".repeat(usize::try_from(number).unwrap() * 40));
        store.finish(lease.fence(), Vec::new(), done(id(number), &text)).wait().unwrap();
    }
    store.close();
}

fn answers(store: &RedbStore) -> Answers {
    let mut answers = Vec::new();
    let mut add = |question: String, answer: Result<String, StoreError>| {
        answers.push((question, answer.map_err(|error| error.to_string())));
    };
    for number in 1..=JOBS {
        let job = id(number);
        add(format!("job {number}"), store.job(ANN, job).map(|found| format!("{found:?}")));
        add(format!("output {number}"), store.output(job).map(|found| format!("{found:?}")));
        add(format!("input {number}"), store.input(job).map(|found| format!("{found:?}")));
        add(format!("events {number}"), store.events(job, 0, 100).map(|page| format!("{page:?}")));
    }
    let query = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 1_000 };
    add("jobs".to_owned(), store.jobs(&query).map(|page| format!("{page:?}")));
    for talk in 0..3 {
        let page = store.message_page(ANN, &name(&format!("talk{talk}")), None, 1_000);
        add(format!("messages {talk}"), page.map(|page| format!("{page:?}")));
    }
    answers
}

/// The questions that a damaged store answers with other content.
fn wrong_answers(intact: &Answers, damaged: &Answers) -> Vec<String> {
    let pairs = intact.iter().zip(damaged);
    pairs
        .filter(|((_, before), (_, after))| after.is_ok() && before != after)
        .map(|((question, _), _)| question.clone())
        .collect()
}

/// What a process of its own finds in a damaged store. `None`: the store ended it with the exit code of
/// damaged stores. No damage aborts it.
fn examine(path: &Path) -> Option<DamagedStore> {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bit_rot::a_child_examines_a_damaged_store", "--ignored", "--nocapture"])
        .env(CHILD, path)
        .output()
        .unwrap();
    let result = path.with_extension("json");
    let found = std::fs::read(&result).map(|found| serde_json::from_slice(&found).expect("JSON"));
    drop(std::fs::remove_file(&result));
    match child.status.code() {
        Some(0) => Some(found.expect("a result")),
        Some(DAMAGED_EXIT) => None,
        _ => panic!("{}: {}", child.status, text(&child)),
    }
}

#[test]
#[ignore = "examine() runs it in processes of its own"]
fn a_child_examines_a_damaged_store() {
    let path = std::env::var_os(CHILD).expect("the path of a store");
    let path = Path::new(&path);
    std::panic::set_hook(Box::new(|panic| {
        if is_about_to_abort(panic) {
            std::process::exit(DAMAGED_EXIT);
        }
    }));
    let damaged = check(path).map(|report| report.map_or(0, |report| report.damaged)).ok();
    let ask = |store: Arc<RedbStore>| {
        store.scrub();
        let answers = answers(&store);
        // The commit cleans up what older ones freed.
        drop(store.submit(vec![turn(JOBS + 1, ANN, "talk0")]).wait());
        store.close();
        answers
    };
    let answers = catch_unwind(AssertUnwindSafe(|| open(path).map(ask))).expect("no read panics");
    let found = DamagedStore { damaged, answers };
    std::fs::write(path.with_extension("json"), serde_json::to_vec(&found).unwrap()).unwrap();
}

#[test]
fn a_flipped_bit_that_leads_lookups_to_another_page_is_not_answered_as_absent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    make_store(&path);
    let intact = std::fs::read(&path).unwrap();
    let before = answers(&open(&path).unwrap());
    let mut errors = 0;
    // A branch of redb's trees: the kind 2, a byte, the count of keys, 4 bytes, 24 bytes for each child, the
    // ends of the keys, the keys.
    for page in (0..intact.len()).step_by(PAGE).filter(|at| intact[*at] == 2) {
        let keys = usize::from(u16::from_le_bytes([intact[page + 2], intact[page + 3]]));
        for key in 0..keys.min(PAGE / 32) {
            let end = page + 8 + 24 * (keys + 1) + 4 * key;
            let Some(end) = intact.get(end..end + 4) else { break };
            let at = page + u32::from_le_bytes(end.try_into().unwrap()) as usize - 1;
            if at >= page + PAGE {
                break; // not a branch
            }
            let mut bytes = intact.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            let Some(after) = examine(&path).and_then(|found| found.answers) else { continue };
            errors += u64::from(after.iter().any(|(_, answer)| answer.is_err()));
            assert_eq!(wrong_answers(&before, &after), [""; 0], "byte {at}");
        }
    }
    assert!(errors > 0, "the damage has no effect");
}

#[test]
fn flipped_bits_and_swapped_pages_are_never_answered_with_other_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    make_store(&path);
    let intact = std::fs::read(&path).unwrap();
    let before = answers(&open(&path).unwrap());
    assert!(before.iter().all(|(_, answer)| answer.is_ok()), "{before:?}");

    let (files, first) = (setting("TEST_SEEDS").unwrap_or(FILES), setting("TEST_SEED").unwrap_or(1));
    let (mut ended, mut refused, mut errors, mut stale) = (0, 0, 0, 0);
    for seed in first..first + files {
        let mut random = SeededRandom(seed);
        let mut bytes = intact.clone();
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        let is_swap = seed % 2 == 0;
        if is_swap {
            let pages = (bytes.len() / PAGE) as u64;
            let (to, from) = (at / PAGE * PAGE, usize::try_from(random.below(pages)).unwrap() * PAGE);
            bytes[to..to + PAGE].copy_from_slice(&intact[from..from + PAGE]);
        } else {
            bytes[at] ^= 1 << random.below(8);
        }
        std::fs::write(&path, &bytes).unwrap();
        let Some(found) = examine(&path) else {
            ended += 1;
            continue;
        };
        let Some(after) = found.answers else {
            refused += 1;
            continue;
        };
        errors += u64::from(after.iter().any(|(_, answer)| answer.is_err()));
        let wrong = wrong_answers(&before, &after);
        if wrong.is_empty() {
            continue;
        }
        // An older version of the same page has valid rows; only the checksums of pages tell.
        let is_found = found.damaged.is_none_or(|damaged| damaged > 0);
        assert!(is_swap && is_found, "seed {seed}, byte {at}: {wrong:?}");
        stale += 1;
    }
    println!(
        "{files} files: {ended} ended the process, {refused} refused, {errors} with errors, {stale} with stale pages"
    );
    assert!(stale <= files / 40, "{stale} of {files}");
    assert!(files < FILES || refused + errors > files / 10, "the damage has no effect");
}

#[test]
fn a_server_over_a_file_that_cannot_be_opened_ends_with_the_exit_code_of_damaged_stores() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nanoclaw.redb");
    make_store(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[PAGE..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let data = dir.path().to_str().unwrap();
    let served = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]);
    assert_eq!(served.status.code(), Some(DAMAGED_EXIT), "{}", text(&served));
    assert!(text(&served).contains("nanoclaw restore"), "{}", text(&served));
}

#[test]
fn the_comparison_of_damaged_answers_finds_another_content() {
    let answer = |text: &str| vec![("output 1".to_owned(), Ok(text.to_owned()))];
    assert_eq!(wrong_answers(&answer("42"), &answer("43")), ["output 1"]);
    assert_eq!(wrong_answers(&answer("42"), &answer("42")), [""; 0]);
    let failed = vec![("output 1".to_owned(), Err(String::new()))];
    assert_eq!(wrong_answers(&answer("42"), &failed), [""; 0]);
}

/// Changes the stored rows of a table in a closed store, behind the back of its checksums.
fn damage(data: &Path, table: &str, mut change: impl FnMut(&[u8], &[u8]) -> Option<(Vec<u8>, Vec<u8>)>) {
    let database = redb::Database::open(data.join("nanoclaw.redb")).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let mut table = writing.open_table(TableDefinition::<&[u8], &[u8]>::new(table)).unwrap();
        let rows: Vec<_> = table
            .iter()
            .unwrap()
            .map(|row| row.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).unwrap())
            .collect();
        for (key, value) in rows {
            if let Some((new_key, new_value)) = change(&key, &value) {
                table.remove(key.as_slice()).unwrap();
                table.insert(new_key.as_slice(), new_value.as_slice()).unwrap();
            }
        }
    }
    writing.commit().unwrap();
}

/// Changes a letter of the rows that contain this text.
fn damage_text(data: &Path, table: &str, text: &str) {
    let mut count = 0;
    damage(data, table, |key, value| {
        let at = value.windows(text.len()).position(|part| part == text.as_bytes())?;
        let mut value = value.to_vec();
        value[at] ^= 1;
        count += 1;
        Some((key.to_vec(), value))
    });
    assert!(count > 0, "no row of '{table}' contains {text}");
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Two ended jobs: their ids, and the closed store's directory.
fn two_jobs(first: &str) -> (Server, String, String) {
    let mut server = Server::start();
    let one = server.submit(&json!({"input": first}));
    server.wait(&one);
    let other = server.submit(&json!({"input": "the other one"}));
    server.wait(&other);
    server.terminate();
    (server, one, other)
}

#[test]
fn a_damaged_row_is_an_error_with_a_code_and_everything_else_goes_on() {
    let (stopped, one, other) = two_jobs("pineapple");
    let data = stopped.dir.join("data");
    damage_text(&data, "outputs", "pineapple");
    damage_text(&data, "jobs", &one);
    let server = Server::start_in(&stopped.dir.clone(), "");
    for path in [format!("/v1/jobs/{one}"), format!("/v1/jobs/{one}/output"), "/v1/jobs".to_owned()] {
        let reply = server.get(&path);
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (500, Some("damaged_data")),
            "{path}"
        );
        assert!(reply.body.contains("nanoclaw check"), "{}", reply.body);
    }
    assert_eq!(server.get(&format!("/v1/jobs/{other}")).json()["status"], "succeeded");
    let new = server.submit(&json!({"input": "hello"}));
    assert_eq!(server.wait(&new)["status"], "succeeded", "the queue goes on");

    let ready = server.get("/readyz");
    assert_eq!((ready.status, &ready.json()["status"]), (200, &json!("degraded")), "{}", ready.body);
    assert!(ready.body.contains("damaged_data"), "{}", ready.body);
    // The scrub after the start finds the second place.
    let is_counted = || server.get("/metrics").body.contains("\nnanoclaw_store_damaged_rows 2\n");
    wait_until("both places are counted", is_counted);
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(" ERROR ") && line.contains("damaged"));
    assert_eq!(lines.filter(|line| line.contains("jobs")).count(), 1, "{log}");
}

/// Changes a byte of the first key of a table.
fn damage_first_key(data: &Path, table: &str, byte: usize, bits: u8) {
    let mut is_done = false;
    damage(data, table, |key, value| {
        let mut key = key.to_vec();
        key[byte] ^= bits;
        (!std::mem::replace(&mut is_done, true)).then(|| (key, value.to_vec()))
    });
    assert!(is_done, "'{table}' is empty");
}

#[test]
fn a_row_under_a_damaged_key_is_not_answered_as_absent() {
    let (stopped, one, other) = two_jobs("cherry");
    let data = stopped.dir.join("data");
    damage_first_key(&data, "jobs", 15, 2);
    damage_first_key(&data, "outputs", 15, 3);
    let server = Server::start_in(&stopped.dir.clone(), "");
    let is_counted = || server.get("/metrics").body.contains("\nnanoclaw_store_damaged_rows 2\n");
    wait_until("both places are counted", is_counted);
    for path in [format!("/v1/jobs/{one}"), format!("/v1/jobs/{one}/output")] {
        let reply = server.get(&path);
        let code = reply.json()["error"]["code"].as_str().map(str::to_owned);
        assert_eq!((reply.status, code.as_deref()), (500, Some("damaged_data")), "{path}");
    }
    for path in ["", "/output", "/events?follow=false"] {
        assert_eq!(server.get(&format!("/v1/jobs/{other}{path}")).status, 200, "{path}");
    }
    let unknown = server.get("/v1/jobs/job_00000000000000000000000000");
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    let new = server.submit(&json!({"input": "hello"}));
    assert_eq!(server.wait(&new)["status"], "succeeded", "the queue goes on");
    assert_eq!(server.get(&format!("/v1/jobs/{new}/events?follow=false")).status, 200);
}

#[test]
fn a_list_whose_only_row_has_a_damaged_key_is_not_answered_as_empty() {
    let mut server = Server::start();
    assert_eq!(server.post("/api/projects", &json!({"name": "p"})).status, 200);
    server.terminate();
    let data = server.dir.join("data");
    damage_first_key(&data, "projects_owned", 0, 0x80); // the owner
    let server = Server::start_in(&server.dir.clone(), "");
    wait_until("the row is counted", || {
        server.get("/metrics").body.contains("\nnanoclaw_store_damaged_rows 1\n")
    });
    assert_eq!(server.get("/api/projects").status, 500);
}

#[test]
fn a_queued_job_with_a_damaged_request_does_not_stop_the_queue() {
    let mut server = Server::start();
    let job = server.submit(&json!({"input": "mango", "run_at": 4_102_444_800_u64}));
    server.terminate();
    let data = server.dir.join("data");
    damage_text(&data, "specs", "mango");
    // Its entry in the queue, too.
    damage(&data, "delayed", |key, value| {
        let mut value = value.to_vec();
        *value.last_mut()? ^= 1;
        Some((key.to_vec(), value))
    });
    let server = Server::start_in(&server.dir.clone(), "");
    assert_eq!(server.get(&format!("/v1/jobs/{job}")).status, 200);
    let new = server.submit(&json!({"input": "hello"}));
    assert_eq!(server.wait(&new)["status"], "succeeded");
    assert_eq!(server.get("/readyz").json()["status"], "degraded");
    let server = server.crash_and_restart("");
    assert_eq!(server.get("/readyz").json()["status"], "degraded", "the row lies in the table quarantine");
}

/// CPU time of a process, clock ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_stream_over_a_damaged_log_ends_with_an_error_and_does_not_spin() {
    let (stopped, one, other) = two_jobs("stream: 20000 words, 0 ms");
    let data = stopped.dir.join("data");
    let last_of = |table_key: &[u8], newest: &mut Vec<u8>| {
        if table_key > newest.as_slice() {
            *newest = table_key.to_vec();
        }
    };
    // Both jobs lie side by side: the first half of the keys belongs to the first job.
    let mut keys: Vec<Vec<u8>> = Vec::new();
    damage(&data, "log", |key, _| {
        keys.push(key.to_vec());
        None
    });
    let (first_job, other_job) = (keys[0][..16].to_vec(), keys[keys.len() - 1][..16].to_vec());
    let (mut last_first, mut last_other) = (Vec::new(), Vec::new());
    for key in &keys {
        if key.starts_with(&first_job) {
            last_of(key, &mut last_first);
        }
        if key.starts_with(&other_job) {
            last_of(key, &mut last_other);
        }
    }
    damage(&data, "log", |key, value| {
        if key == last_first {
            let mut value = value.to_vec();
            value[0] ^= 1;
            return Some((key.to_vec(), value));
        }
        if key == last_other {
            // Its number is now far behind the others: the reader of an unchecked log waits for ever.
            let mut key = key.to_vec();
            key[16 + 5] ^= 1;
            return Some((key, value.to_vec()));
        }
        None
    });
    let server = Server::start_in(&stopped.dir.clone(), "");
    let begun_ticks = cpu_ticks(server.pid());
    for format in ["", "?format=delta", "?follow=false"] {
        for accept in ["text/event-stream", "application/x-ndjson"] {
            let begun = Instant::now();
            let reply = server.get_with(&format!("/v1/jobs/{one}/events{format}"), &[("accept", accept)]);
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{format} {accept} takes {:?}",
                begun.elapsed()
            );
            let end = &reply.body[reply.body.len().saturating_sub(500)..];
            assert!(
                reply.body.contains("running") && end.contains("damaged_data"),
                "{format} {accept}: {end}"
            );
            let reply = server.get_with(&format!("/v1/jobs/{other}/events{format}"), &[("accept", accept)]);
            assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (500, Some("damaged_data")));
        }
    }
    wait_until("the server is idle", || {
        let before = cpu_ticks(server.pid());
        std::thread::sleep(Duration::from_millis(500));
        cpu_ticks(server.pid()) - before < 10
    });
    assert!(cpu_ticks(server.pid()) - begun_ticks < 1_000, "it spins");
}

#[test]
fn check_doctor_and_backup_name_damaged_rows_and_leave_no_file() {
    let (stopped, _, _) = two_jobs("papaya");
    let data = stopped.dir.join("data");
    let dir = data.to_str().unwrap();
    let copy = stopped.dir.join("copy.redb");
    let back_up = || run(&["backup", copy.to_str().unwrap(), "--data-dir", dir]);
    let json_of = |ran: &Output| serde_json::from_slice::<Value>(&ran.stdout).expect("JSON");
    let intact = run(&["check", "--json", "--data-dir", dir]);
    assert!(intact.status.success(), "{}", text(&intact));
    assert!(json_of(&intact)["rows"].as_u64() > Some(20) && json_of(&intact)["damaged"] == 0);
    let file = std::fs::read(data.join("nanoclaw.redb")).unwrap();
    assert!(run(&["check", "--data-dir", dir]).status.success());
    assert!(file == std::fs::read(data.join("nanoclaw.redb")).unwrap(), "a check changes nothing");

    damage_text(&data, "outputs", "papaya");
    let damaged = run(&["check", "--json", "--data-dir", dir]);
    let report = json_of(&damaged);
    assert_eq!((damaged.status.code(), &report["damaged"]), (Some(1), &json!(1)), "{report}");
    let place = report["places"][0].as_str().unwrap().to_owned();
    assert!(place.starts_with("outputs ") && place.len() == "outputs ".len() + 32, "{place}");
    let doctor = run(&["doctor", "--no-models", "--data-dir", dir]);
    assert!(text(&doctor).contains(&place), "{}", text(&doctor));

    let refused = back_up();
    assert!(!refused.status.success() && text(&refused).contains(&place), "{}", text(&refused));
    let _server = Server::start_in(&stopped.dir.clone(), "");
    let refused = back_up();
    assert!(!refused.status.success() && text(&refused).contains(&place), "{}", text(&refused));
    assert!(!copy.exists() && !stopped.dir.join("copy.redb.part").exists());
    let locked = run(&["check", "--data-dir", dir]);
    assert!(!locked.status.success() && text(&locked).contains("stop it first"), "{}", text(&locked));
}
