//! A store that fails: what is passing goes back to the queue, what is lasting ends the job, nothing turns for ever.

use super::rig::{Rig, usual};
use super::store::Op;
use crate::domain::event::{Event, FailureCode};
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::engine::driver::Drive;
use crate::engine::worker::Tick;
use crate::ports::{CancelReason, Clock, StoreError};

fn io() -> StoreError {
    StoreError::Io("on purpose".into())
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("on purpose".into())
}

fn failed_internally(rig: &Rig) -> bool {
    matches!(rig.store.ends()[..], [Event::Error { code: FailureCode::Internal, .. }])
}

/// A rig whose store fails at operations of this kind, as far as `hits` says of their number.
fn failing(op: Op, error: &StoreError, hits: impl Fn(usize) -> bool + Send + Sync + 'static) -> Rig {
    let (rig, error) = (Rig::new(usual), error.clone());
    rig.store.break_by(move |what, nth| (what == op && hits(nth)).then(|| error.clone()));
    rig
}

fn appends_of_a_whole_run() -> usize {
    let rig = Rig::new(usual);
    rig.finish();
    rig.store.count(Op::Append)
}

#[test]
fn p3_p4_any_append_that_fails_for_a_moment_is_made_good_by_another_run() {
    for error in [io(), StoreError::Full, StoreError::Busy] {
        for n in 1..=appends_of_a_whole_run() {
            let rig = failing(Op::Append, &error, move |nth| nth == n);
            assert_eq!(rig.drive(), Drive::Released, "append {n}: {error}");
            rig.finish();
            assert_eq!(rig.status(), JobStatus::Succeeded, "append {n}: {error}");
            for effect in ["b", "d"] {
                let runs = rig.tools.runs().iter().filter(|run| run.id_ref == effect).count();
                assert!(runs <= 1, "append {n}: {effect} ran {runs} times");
            }
        }
    }
}

#[test]
fn p4_any_append_that_never_works_fails_the_job_at_once() {
    for n in 1..=appends_of_a_whole_run() {
        let rig = failing(Op::Append, &corrupt(), move |nth| nth >= n);
        assert_eq!(rig.drive(), Drive::Finished, "append {n}");
        assert!(failed_internally(&rig), "append {n}");
        assert_eq!((rig.store.count(Op::Claim), rig.store.count(Op::Release)), (1, 0));
    }
}

#[test]
fn a_fenced_worker_leaves_the_job_and_a_closed_store_leaves_the_worker() {
    for n in 1..=appends_of_a_whole_run() {
        let fenced =
            failing(Op::Append, &StoreError::Fenced { job: JobId::from_bits(7) }, move |nth| nth == n);
        assert_eq!(fenced.drive(), Drive::Abandoned);
        let closed = failing(Op::Append, &StoreError::Closed, move |nth| nth == n);
        assert_eq!(closed.tick(), Tick::Stumbled(StoreError::Closed));
        for rig in [fenced, closed] {
            assert_eq!((rig.store.count(Op::Release), rig.store.count(Op::Finish)), (0, 0), "append {n}");
            assert_eq!(rig.held.count(), 0);
        }
    }
}

#[test]
fn p4_p8_a_log_or_history_that_cannot_be_read_fails_the_job_without_a_loop() {
    for op in [Op::Log, Op::History] {
        for error in [corrupt(), io()] {
            let rig = failing(op, &error, |_| true);
            let before = rig.store.records().len();
            assert_eq!(rig.drive(), Drive::Finished, "{op:?}: {error}");
            assert!(failed_internally(&rig), "{op:?}: {error}");
            assert_eq!(rig.store.records().len(), before + 2, "{op:?}: `running` and the end, no more");
            assert!(rig.store.count(op) <= 6, "{op:?}: {} reads", rig.store.count(op));
            assert!(rig.model.asked().is_empty());
        }
    }
}

#[test]
fn a_read_that_fails_for_a_moment_costs_no_event() {
    for op in [Op::Log, Op::History] {
        let rig = failing(op, &io(), |nth| nth <= 3);
        assert_eq!(rig.drive(), Drive::Finished);
        assert_eq!(rig.status(), JobStatus::Succeeded);
        assert_eq!((rig.store.count(Op::Claim), rig.store.count(Op::Release)), (1, 0));
    }
}

#[test]
fn a_store_that_is_down_altogether_costs_no_job() {
    for error in [io(), StoreError::Full] {
        let (rig, hit) = (Rig::new(usual), error.clone());
        rig.store.break_by(move |op, nth| match (op, nth) {
            (Op::Log | Op::Probe, 1) | (Op::Release, ..=9) => Some(hit.clone()),
            _ => None,
        });
        assert_eq!(rig.drive(), Drive::Released, "{error}");
        rig.finish();
        assert_eq!(rig.status(), JobStatus::Succeeded, "{error}");
    }
}

#[test]
fn a_stop_ends_the_patience_with_a_read() {
    let rig = failing(Op::Log, &io(), |_| true);
    let store = std::sync::Arc::clone(&rig.store);
    rig.clock.on_pause(move || store.raise(CancelReason::Shutdown));
    assert_eq!(rig.drive(), Drive::Released);
    assert_eq!(rig.store.count(Op::Log), 2);
}

#[test]
fn p4_an_end_that_fails_for_a_moment_is_written_by_another_run() {
    let rig = failing(Op::Finish, &io(), |nth| nth == 1);
    assert_eq!(rig.drive(), Drive::Released);
    rig.finish();
    assert_eq!(rig.status(), JobStatus::Succeeded);
    assert_eq!(rig.model.asked().len(), 4, "the answer stands in the log with its end or not at all");
}

#[test]
fn p4_an_end_that_cannot_be_written_is_told_shorter_and_then_given_up() {
    for (refused, reached) in [(1, 2), (2, 3)] {
        let rig = failing(Op::Finish, &corrupt(), move |nth| nth <= refused);
        assert_eq!(rig.drive(), Drive::Finished);
        assert!(failed_internally(&rig));
        assert_eq!(rig.store.count(Op::Finish), reached);
    }
    let rig = failing(Op::Finish, &corrupt(), |_| true);
    assert_eq!(rig.tick(), Tick::Stumbled(corrupt()));
    assert_eq!((rig.store.count(Op::Finish), rig.store.count(Op::Release)), (3, 0), "no loop");
    assert_eq!(rig.tick(), Tick::Idle);
}

#[test]
fn p4_a_failed_job_waits_for_a_store_that_is_down() {
    let rig = Rig::new(|_, _, _| panic!("on purpose"));
    rig.store.break_by(|op, nth| (op == Op::Finish && nth <= 5).then(io));
    assert_eq!(rig.drive(), Drive::Finished);
    assert_eq!(rig.store.count(Op::Release), 0, "another run would panic, too");
    assert!(rig.clock.monotonic_ms() >= 2500, "with patience");
}

#[test]
fn p4_a_lease_is_given_back_until_it_works() {
    let rig = Rig::new(usual);
    rig.store.break_by(|op, nth| match (op, nth) {
        (Op::Append, 1) | (Op::Release, ..=4) => Some(io()),
        _ => None,
    });
    assert_eq!(rig.drive(), Drive::Released);
    assert_eq!(rig.store.count(Op::Release), 5);
    assert!(rig.clock.monotonic_ms() >= 2500, "with pauses");
    rig.finish();
}

#[test]
fn giving_back_ends_with_the_lease_the_store_or_the_server() {
    for (error, tick) in [
        (StoreError::Fenced { job: JobId::from_bits(7) }, Tick::Drove(JobId::from_bits(7), Drive::Abandoned)),
        (StoreError::Closed, Tick::Stumbled(StoreError::Closed)),
        (corrupt(), Tick::Stumbled(corrupt())),
    ] {
        let rig = Rig::new(usual);
        let hit = error.clone();
        rig.store.break_by(move |op, _| match op {
            Op::Append => Some(io()),
            Op::Release => Some(hit.clone()),
            _ => None,
        });
        assert_eq!(rig.tick(), tick);
        assert_eq!(rig.store.count(Op::Release), 1, "{error}");
    }
    let rig = Rig::new(usual);
    rig.store.break_by(|op, _| matches!(op, Op::Append | Op::Release).then(io));
    let draining = rig.draining.clone();
    rig.clock.on_pause(move || draining.cancel(CancelReason::Shutdown));
    assert_eq!(rig.tick(), Tick::Stumbled(io()));
    assert_eq!(rig.store.count(Op::Release), 1);
}

#[test]
fn a_claim_that_fails_touches_no_job() {
    for error in [io(), corrupt(), StoreError::Busy, StoreError::Closed] {
        let rig = failing(Op::Claim, &error, |_| true);
        assert_eq!(rig.tick(), Tick::Stumbled(error));
        assert_eq!(rig.held.count(), 0);
    }
}
