//! Reads of long answers: their memory grows with the text that they show, not with the events of the log or
//! the items behind the page, and is bounded.

use crate::support::store::{ANN, ManualClock, delta, done, turn};
use crate::support::{Server, wait_until};
use nanoclaw::domain::event::Record;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{Store, Urgency};
use nanoclaw::store::RedbStore;
use nanoclaw::store::options::StoreOptions;
use serde_json::Value;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Events of a long answer.
const EVENTS: u32 = 60_000;
/// Readers of one answer at the same time.
const READERS: usize = 16;
/// The memory that each of them may cost: an answer of 240 KB, a few times.
const READER_KB: u64 = 6 * 1024;
/// The memory that a page of the items of such an answer may cost.
const PAGE_KB: u64 = 56 * 1024;
/// Free memory that the server keeps for the next peak, and what varies.
const KEPT_KB: u64 = 40 * 1024;

/// Stores an ended job of the conversation `c` whose log has these deltas, and whose output is this text.
fn store_answer(dir: &Path, records: impl IntoIterator<Item = Record>, output: &str) -> JobId {
    let clock = ManualClock::new();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    clock.jump(u64::try_from(unix.as_millis()).expect("milliseconds"));
    DirBuilder::new().mode(0o700).create(dir.join("data")).expect("a directory");
    let path = dir.join("data/nanoclaw.redb");
    let store = RedbStore::open(&path, &StoreOptions::default(), &Limits::default(), clock).expect("a store");
    store.submit(vec![turn(1, ANN, "c")]).wait().expect("accepted");
    let lease = store.claim(1).wait().expect("claimed").pop().expect("the job");
    let mut records = records.into_iter().peekable();
    while records.peek().is_some() {
        let some = records.by_ref().take(2_000).collect();
        store.append(lease.fence(), some, Urgency::Now).wait().expect("appended");
    }
    store.finish(lease.fence(), vec![], done(lease.job.id, output)).wait().expect("finished");
    store.close();
    lease.job.id
}

/// Pieces of two steps in turns, which no log joins.
fn pieces(text: &str) -> impl Iterator<Item = Record> {
    (0..EVENTS).map(move |n| delta(n % 2, u64::from(n / 2) * text.len() as u64, text))
}

/// Many short steps: each is an item of a response.
fn steps(count: u32, text: &str) -> impl Iterator<Item = Record> {
    (0..count).map(move |n| delta(n, 0, text))
}

#[test]
fn p8_readers_of_a_long_answer_cost_its_text_and_not_its_events() {
    let dir = TempDir::new().expect("a directory");
    store_answer(dir.path(), pieces("word"), "end");
    let server = Server::start_in(dir.path(), "");
    assert_eq!(server.get("/api/conversations/c/messages?limit=1").status, 200);
    let idle_kb = server.status_kb("VmHWM");
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let reply = server.get("/api/conversations/c/messages");
                let text = reply.json()["data"]["items"][1]["process_steps"][0]["content"].clone();
                assert_eq!(text.as_str().map(str::len), Some(EVENTS as usize * 2), "{}", reply.status);
            });
        }
    });
    let cost_kb = server.status_kb("VmHWM").saturating_sub(idle_kb);
    eprintln!("{READERS} readers cost at most {cost_kb} KiB");
    assert!(cost_kb < READERS as u64 * READER_KB, "{cost_kb} KiB for {READERS} readers");
    wait_until("the memory is returned", || server.status_kb("VmRSS") < idle_kb + KEPT_KB);
}

#[test]
fn p8_a_page_of_items_costs_no_json_of_the_items_behind_it() {
    let dir = TempDir::new().expect("a directory");
    store_answer(dir.path(), steps(EVENTS, "word"), "end");
    let server = Server::start_in(dir.path(), "");
    assert_eq!(server.get("/v1/conversations/c").status, 200);
    let idle_kb = server.status_kb("VmHWM");
    let page = server.get("/v1/conversations/c/items?limit=20").json();
    let cost_kb = server.status_kb("VmHWM").saturating_sub(idle_kb);
    eprintln!("a page of items costs at most {cost_kb} KiB");
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(20), &Value::Bool(true)));
    assert!(cost_kb < PAGE_KB, "{cost_kb} KiB for a page");
}

#[test]
fn p8_a_page_of_items_ends_after_a_mebibyte() {
    let dir = TempDir::new().expect("a directory");
    store_answer(dir.path(), steps(40, &"x".repeat(100_000)), "end");
    let server = Server::start_in(dir.path(), "");
    let (mut after, mut seen) = (String::new(), 0);
    loop {
        let page = server.get(&format!("/v1/conversations/c/items?order=asc&limit=100{after}"));
        assert!(page.body.len() < 1_500_000, "{} bytes", page.body.len());
        let page = page.json();
        seen += page["data"].as_array().map_or(0, Vec::len);
        after = format!("&after={}", page["last_id"].as_str().expect("an item"));
        if page["has_more"] == Value::Bool(false) {
            break;
        }
    }
    assert_eq!(seen, 41, "the question and each step of the answer");
}

#[test]
fn p8_answers_beyond_their_memory_are_refused_with_its_limit() {
    let dir = TempDir::new().expect("a directory");
    let job = store_answer(dir.path(), steps(40, &"x".repeat(100_000)), &"x".repeat(4_000_000));
    let server = Server::start_in(dir.path(), "limits: {answers_bytes: 1048576}");
    let output = format!("/v1/jobs/{job}/output");
    for path in ["/api/conversations/c/messages", "/v1/conversations/c/items", &output] {
        let refused = server.get(path);
        assert!(
            refused.status == 503 && refused.body.contains("limits.answers_bytes = 1048576"),
            "{}",
            refused.body
        );
    }
    assert_eq!(server.get("/api/conversations/c/messages?limit=1").status, 200, "the question is short");
    assert_eq!(server.get(&format!("/v1/jobs/{job}/events?follow=false")).status, 200, "events are streamed");
}
