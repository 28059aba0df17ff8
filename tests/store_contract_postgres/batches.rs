//! Batches that several nodes run at the same time.

use super::fixture::Fixture;
use crate::support::store::{ANN, cancelled, done, job};
use nanoclaw::domain::account::Quota;
use nanoclaw::domain::batch::{Batch, BatchStatus};
use nanoclaw::domain::id::BatchId;
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::ports::{AccountChange, BatchError, Batches, Idempotent, NewBatch, NewLine, Store, Users};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often each job ended.
type Ends = Mutex<BTreeMap<String, u32>>;

pub(super) fn batch(number: u128) -> BatchId {
    BatchId::from_bits(number)
}

pub(super) fn lines(from: u32, count: u32) -> Vec<NewLine> {
    let line = |n: u32| NewLine { custom_id: format!("line-{n}"), spec: job(u128::from(n), ANN).spec };
    (from..from + count).map(line).collect()
}

pub(super) fn new(number: u128, lines: u32, concurrency: u32) -> NewBatch {
    let (id, created_at_ms) = (batch(number), 1_000_000);
    NewBatch {
        id,
        user: ANN,
        created_at_ms,
        lines,
        concurrency,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    }
}

fn accept(fixture: &Fixture, number: u128, count: u32, concurrency: u32) {
    fixture.store.fill((ANN, batch(number)), 0, lines(0, count)).wait().unwrap();
    fixture.store.accept(new(number, count, concurrency), None).wait().unwrap();
}

fn shown(fixture: &Fixture, number: u128) -> Batch {
    fixture.store.batch(ANN, batch(number)).unwrap().expect("the batch")
}

/// Claims and ends jobs until `stop` is set.
fn work(node: &Fixture, stop: &AtomicBool, ends: &Ends) {
    while !stop.load(Ordering::SeqCst) {
        let Some(lease) = node.store.claim(1).wait().unwrap().pop() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let is_cancelled = lease.cancel.reason().is_some();
        let ending = if is_cancelled { cancelled() } else { done(lease.job.id, "x") };
        node.store.finish(lease.fence(), vec![], ending).wait().unwrap();
        *ends.lock().unwrap().entry(lease.job.id.to_string()).or_default() += 1;
    }
}

/// Works on both nodes, and runs `act` beside, until all these batches have ended.
fn work_until_ended(nodes: [&Fixture; 2], batches: u128, act: impl FnOnce(), mut look: impl FnMut()) -> Ends {
    let (stop, ends, began) = (AtomicBool::new(false), Ends::default(), Instant::now());
    std::thread::scope(|scope| {
        for node in nodes {
            (0..4).for_each(|_| drop(scope.spawn(|| work(node, &stop, &ends))));
        }
        act();
        let is_open = || (1..=batches).any(|number| !shown(nodes[0], number).status.is_terminal());
        while is_open() && began.elapsed() < Duration::from_secs(90) {
            look();
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::SeqCst);
        assert!(!is_open(), "the batches end");
    });
    ends
}

/// Each line has one result, in both orders.
fn assert_results(node: &Fixture, number: u128, count: u32) {
    let all: Vec<u32> = (0..count).collect();
    let ended = node.store.ended(batch(number), 0, 1_000).unwrap();
    let mut numbers: Vec<u32> = ended.results.iter().map(|result| result.line).collect();
    numbers.sort_unstable();
    assert_eq!((numbers, ended.is_last), (all.clone(), true));
    let results = node.store.results(batch(number), 0, 1_000).unwrap().results;
    assert_eq!(results.iter().map(|result| result.line).collect::<Vec<_>>(), all);
}

#[test]
fn p1_two_nodes_run_each_line_of_their_batches_once() {
    let Some(first) = Fixture::new() else { return };
    let second = first.beside();
    (1..=5).for_each(|number| accept(&first, number, 60, 7));
    let ends = work_until_ended([&first, &second], 5, || (), || ()).into_inner().unwrap();
    assert_eq!((ends.len(), ends.values().max()), (300, Some(&1)));
    for number in 1..=5 {
        let ended = shown(&second, number);
        assert_eq!((ended.status, ended.counts.completed), (BatchStatus::Completed, 60));
        assert_results(&second, number, 60);
    }
}

#[test]
fn batches_are_cancelled_on_two_nodes_while_their_lines_end() {
    let Some(first) = Fixture::new() else { return };
    let second = first.beside();
    (1..=8).for_each(|number| accept(&first, number, 60, 7));
    let cancel = || {
        for number in 1..=8 {
            std::thread::sleep(Duration::from_millis(50));
            let node = if number % 2 == 0 { &first } else { &second };
            node.store.cancel_batch(ANN, batch(number)).wait().unwrap().unwrap();
        }
    };
    work_until_ended([&first, &second], 8, cancel, || ());
    for number in 1..=8 {
        let counts = shown(&second, number).counts;
        assert_eq!(counts.completed + counts.failed, 60);
        assert_results(&first, number, 60);
    }
    let open = "SELECT (SELECT count(*) FROM batch_lines WHERE is_active), (SELECT sum(active) FROM batches), \
                (SELECT count(*) FROM jobs WHERE finished_at_ms IS NULL)";
    assert_eq!(first.sql(open), "0|0|0");
}

#[test]
fn batches_expire_once_on_two_nodes_while_their_lines_end() {
    let Some(first) = Fixture::new() else { return };
    let second = first.beside();
    for number in 1..=8 {
        first.store.fill((ANN, batch(number)), 0, lines(0, 60)).wait().unwrap();
        let new = NewBatch { expires_at_ms: Some(1_000_000), ..new(number, 60, 7) };
        first.store.accept(new, None).wait().unwrap();
    }
    let expired = |node: &Fixture| {
        let mut expired = 0;
        for _ in 0..40 {
            expired += u32::from(node.store.expire_due().wait().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
        expired
    };
    let expire = || {
        let both = std::thread::scope(|scope| {
            let one = scope.spawn(|| expired(&first));
            expired(&second) + one.join().unwrap()
        });
        assert!(both <= 8, "{both}");
    };
    work_until_ended([&first, &second], 8, expire, || ());
    for number in 1..=8 {
        let Batch { status, counts, .. } = shown(&second, number);
        assert!(matches!(status, BatchStatus::Expired | BatchStatus::Completed), "{status:?}");
        assert_eq!(counts.completed + counts.failed, 60);
        assert_results(&first, number, 60);
    }
    let open = "SELECT (SELECT count(*) FROM batch_lines WHERE is_active), (SELECT sum(active) FROM batches), \
                (SELECT count(*) FROM jobs WHERE finished_at_ms IS NULL), \
                (SELECT count(expires_at_ms) FROM batches)";
    assert_eq!(first.sql(open), "0|0|0|0");
}

#[test]
fn p8_a_quota_of_jobs_holds_for_batches_on_two_nodes() {
    let Some(first) = Fixture::new() else { return };
    let second = first.beside();
    let set_quota = |quota| {
        let change = AccountChange { quota: Some(quota), ..AccountChange::default() };
        first.store.change_account(ANN, change).wait().unwrap();
    };
    // Accepted batches wait for tokens, and then for the quota of jobs, which is lowered meanwhile.
    set_quota(Quota { tokens_per_day: Some(0), ..Quota::default() });
    (1..=3).for_each(|number| accept(&first, number, 20, 5));
    set_quota(Quota { unfinished_jobs: Some(3), ..Quota::default() });
    let mut most = 0_u64;
    let look = || {
        let unfinished = first.sql("SELECT count(*) FROM jobs WHERE finished_at_ms IS NULL");
        most = most.max(unfinished.parse().unwrap());
        let both = [&first, &second].map(|node| node.store.resume_waiting());
        for resumed in both {
            resumed.wait().unwrap();
        }
    };
    work_until_ended([&first, &second], 3, || (), look);
    assert!((1..=3).contains(&most), "{most}");
    assert!((1..=3).all(|number| shown(&first, number).counts.completed == 20));
}

#[test]
fn one_key_makes_one_batch_on_two_nodes() {
    let Some(first) = Fixture::new() else { return };
    let second = first.beside();
    for round in 0..8_u8 {
        let key = IdempotencyKey { key: [round; 32], fingerprint: [2; 32] };
        let submit = |node: &Fixture, number| {
            node.store.fill((ANN, batch(number)), 0, lines(0, 3)).wait().unwrap();
            match node.store.accept(new(number, 3, 2), Some(key)).wait().unwrap() {
                Idempotent::New(accepted) => (true, accepted.id),
                Idempotent::Replayed(accepted) => (false, accepted.id),
            }
        };
        let number = u128::from(round) * 2 + 1;
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(|| submit(&first, number));
            (submit(&second, number + 1), one.join().unwrap())
        });
        assert_eq!(one.1, other.1);
        assert_ne!(one.0, other.0, "one is new, the other a replay");
    }
    assert_eq!(first.sql("SELECT count(*), (SELECT count(*) FROM removed_batches) FROM batches"), "8|8");
}

#[test]
fn lines_of_a_lost_node_are_abandoned_and_no_rest_of_them_is_accepted() {
    let Some(lost) = Fixture::new() else { return };
    lost.store.fill((ANN, batch(1)), 0, lines(0, 5)).wait().unwrap();
    let node = lost.crash();
    let counts = "SELECT (SELECT count(*) FROM unaccepted_batches), (SELECT count(*) FROM removed_batches)";
    assert_eq!(node.sql(counts), "0|1");
    node.store.fill((ANN, batch(1)), 5, lines(5, 5)).wait().unwrap();
    let accepted = node.store.accept(new(1, 10, 10), None).wait();
    assert_eq!(accepted, Err(BatchError::Abandoned), "the first lines are gone");
}
