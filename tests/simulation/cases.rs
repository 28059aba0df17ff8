//! The tests: random seeds, injected flaws that must be detected, and kills between any two writes.

use super::oracle::Counts;
use super::process_faults::StoreKind;
use super::world::{Flaw, World};
use crate::support::store::{ANN, id, job};
use crate::support::{database, setting};
use nanoclaw::domain::event::{Event, Record};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::message::Message;
use nanoclaw::engine::turn::INTERRUPTED;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of a run without `TEST_SEEDS`.
const SEEDS: u64 = 300;
/// Seeds on `PostgreSQL` of a run without `TEST_DATABASE_SEEDS`.
const DATABASE_SEEDS: u64 = 12;
/// From so many seeds on, a process is killed between any two writes to a database; else at every sixth
/// point.
const DEEP_SEEDS: u64 = 100;
/// A message that calls every tool.
const ALL_TOOLS: &str = "effect pure sandbox guarded network effect";
/// Detections of a flaw after which the search stops.
const ENOUGH: u64 = 2;
/// Worlds that run in parallel.
const THREADS: u64 = 2;
/// Worlds nest deeply: workers run inside tools inside workers.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// Runs one seed; returns its violations, including a panic of the store.
fn run(seed: u64, flaw: Flaw, kind: StoreKind) -> (Vec<String>, Counts) {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let world = World::new(seed, flaw, kind);
        let violations = world.run();
        (violations, world.oracle(|oracle| oracle.counts))
    }));
    lived.unwrap_or_else(|_| (vec!["panicked".to_owned()], Counts::default()))
}

/// Runs a world on a stack that is large enough.
fn on_large_stacks(threads: u64, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, &work).unwrap();
        }
    });
}

/// Runs these seeds; panics at the first one with a violation. Returns what happened in all.
fn run_seeds(kind: StoreKind, first: u64, count: u64) -> Counts {
    let (next, total, failed) =
        (AtomicU64::new(first), Mutex::new(Counts::default()), Mutex::new(Vec::new()));
    on_large_stacks(THREADS, || {
        while failed.lock().unwrap().is_empty() {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= first + count {
                break;
            }
            let (violations, counts) = run(seed, Flaw::None, kind);
            total.lock().unwrap().add(counts);
            if !violations.is_empty() {
                failed.lock().unwrap().push((seed, violations));
            }
        }
    });
    let total = total.into_inner().unwrap();
    println!("{count} seeds: {total:?}");
    if let Some((seed, violations)) = failed.into_inner().unwrap().first() {
        panic!("rerun with TEST_SEED={seed} cargo test --test all p1_p2: {violations:#?}");
    }
    total
}

#[test]
fn p1_p2_p3_p4_random_faults_break_no_promise() {
    let first = setting("TEST_SEED").unwrap_or(1);
    let count = setting("TEST_SEED").map_or(setting("TEST_SEEDS").unwrap_or(SEEDS), |_| 1);
    let total = run_seeds(StoreKind::File, first, count);
    if count >= 500 {
        let seldom = total.crashes.min(total.restarts).min(total.troubles).min(total.cancelled);
        let more = [
            total.postponed,
            total.deferred,
            total.approval_requests,
            total.decided,
            total.retried,
            total.repeated_keys,
            total.batches,
            total.occurrences,
        ];
        assert!(
            more.into_iter().min() > Some(count / 30) && total.reports > count,
            "the seeds cover too little: {total:?}"
        );
        assert!(
            seldom > count / 10 && total.poisoned > 0 && total.runs > count,
            "the seeds cover too little: {total:?}"
        );
    }
}

#[test]
fn p1_p2_p3_p4_random_faults_of_a_database_break_no_promise() {
    if database::server().is_none() {
        return;
    }
    let first = setting("TEST_SEED").unwrap_or(1);
    let count = setting("TEST_DATABASE_SEEDS").unwrap_or(DATABASE_SEEDS);
    let count = setting("TEST_SEED").map_or(count, |_| 1);
    let total = run_seeds(StoreKind::Database, first, count);
    if count >= DEEP_SEEDS {
        let seldom = total.crashes.min(total.restarts).min(total.troubles);
        assert!(seldom > count / 20 && total.runs > count, "the seeds cover too little: {total:?}");
    }
}

/// The number of seeds that detect the flaw.
fn caught(flaw: Flaw, kind: StoreKind, seeds: u64) -> u64 {
    let (next, caught) = (AtomicU64::new(1), AtomicU64::new(0));
    on_large_stacks(THREADS, || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed > seeds {
                break;
            }
            if caught.load(Ordering::SeqCst) > ENOUGH {
                break;
            }
            let is_caught = !run(seed, flaw, kind).0.is_empty();
            caught.fetch_add(u64::from(is_caught), Ordering::SeqCst);
        }
    });
    let caught = caught.into_inner();
    println!("{flaw:?}: detected by {caught} of {} seeds", next.into_inner().min(seeds));
    caught
}

#[test]
fn every_injected_flaw_is_detected() {
    let early = [Flaw::LyingDisk, Flaw::EarlyAck, Flaw::AllIdempotent, Flaw::SplitEnd, Flaw::ForgetsKeys];
    let late = [Flaw::Hasty, Flaw::LosesMail, Flaw::FiresTwice, Flaw::LosesLine, Flaw::Unasked];
    for flaw in early.into_iter().chain(late) {
        assert!(
            caught(flaw, StoreKind::File, 300) > 0,
            "{flaw:?} is not detected: the simulation checks too little"
        );
    }
}

#[test]
fn a_database_that_confirms_what_it_rolls_back_is_detected() {
    if database::server().is_some() {
        let caught = caught(Flaw::LyingDatabase, StoreKind::Database, 100);
        assert!(caught > 0, "the simulation checks too little");
    }
}

/// Runs one job with these calls and kills its process at one point; returns the results in order.
fn cut(
    names: &str,
    (flaw, kind): (Flaw, StoreKind),
    end_at: u64,
) -> (Vec<String>, Vec<(String, String)>, bool) {
    let world = World::cut(kind, flaw, end_at);
    let mut new = job(1, ANN);
    new.spec.input = vec![Message::user(format!("call {names}"))];
    world.offer(vec![new.clone()]);
    world.mend();
    // A submission without a 202 is repeated by its client.
    if world.process().store.job(ANN, id(1)).unwrap().is_none() {
        world.offer(vec![new]);
    }
    world.settle();
    let process = world.process();
    let row = process.store.job(ANN, id(1)).unwrap().unwrap();
    let mut violations = Vec::new();
    if row.status != JobStatus::Succeeded {
        violations.push(format!("{row:?}"));
    }
    let mut results = Vec::new();
    for record in process.store.log(id(1)).unwrap() {
        if let Record::Event(Event::ToolResult { id_ref, content, .. }) = record {
            let runs = world.oracle(|oracle| oracle.runs_of(id(1), &id_ref));
            if runs == 0 && content != INTERRUPTED {
                violations.push(format!("{id_ref} has a result but never ran"));
            }
            results.push((id_ref, content));
        }
    }
    let has_died = world.oracle(|oracle| oracle.counts.crashes) > 0;
    drop(process);
    violations.extend(world.leave());
    (violations, results, has_died)
}

/// Kills a job with these calls at each point between two writes, or at every `step`th, one after the other.
fn kill_everywhere(names: &str, kind: StoreKind, step: u64) {
    let (mut points, mut interrupted) = (0, 0);
    loop {
        let (violations, results, has_died) = cut(names, (Flaw::None, kind), points);
        assert!(violations.is_empty(), "{names}, killed at {points}: {violations:#?}");
        assert_eq!(results.len(), names.split(' ').count(), "{names}, killed at {points}: {results:?}");
        for (id_ref, content) in &results {
            let number: usize = id_ref.trim_start_matches("call_").parse().unwrap();
            let name = names.split(' ').nth(number).unwrap();
            let is_interrupted = content == INTERRUPTED;
            assert!(
                !is_interrupted || ["effect", "sandbox", "guarded"].contains(&name),
                "{name} could be repeated"
            );
            assert!(is_interrupted || *content == format!("ran {id_ref}"), "{content}");
            interrupted += u64::from(is_interrupted);
        }
        if !has_died {
            break;
        }
        points += step;
    }
    println!("{names}: killed at {points} points, {interrupted} calls interrupted");
    assert!(points > 14, "only {points} kill points");
    let has_effects = ["effect", "sandbox", "guarded"].iter().any(|name| names.contains(name));
    assert_eq!(interrupted > 0, has_effects, "{names}: kills interrupt effects and only effects");
}

#[test]
fn p3_a_kill_between_any_two_writes_repeats_no_tool_effect() {
    for names in ["pure", "effect", "sandbox", "network", "guarded", ALL_TOOLS] {
        kill_everywhere(names, StoreKind::File, 1);
    }
}

#[test]
fn p3_a_kill_between_any_two_writes_to_a_database_repeats_no_tool_effect() {
    if database::server().is_some() {
        let seeds = setting("TEST_DATABASE_SEEDS").unwrap_or(DATABASE_SEEDS);
        kill_everywhere(ALL_TOOLS, StoreKind::Database, if seeds < DEEP_SEEDS { 6 } else { 1 });
    }
}

#[test]
fn p3_a_tool_that_wrongly_claims_idempotence_is_detected() {
    let caught = (0..60)
        .filter(|point| !cut("effect", (Flaw::AllIdempotent, StoreKind::File), *point).0.is_empty())
        .count();
    assert!(caught > 0, "no kill detected the repeated effect");
}
