//! A failing store: temporary faults return the job to the queue, permanent ones end it. No fault causes an
//! endless loop.

use super::fixture::{Fixture, two_batches};
use super::store::Op;
use crate::domain::event::{Event, FailureCode};
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::engine::driver::DriveOutcome;
use crate::engine::worker::WorkerTick;
use crate::ports::{CancelReason, Clock, LeaseError, StoreError};

fn io() -> StoreError {
    StoreError::Io("on purpose".into())
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("on purpose".into())
}

fn failed_internally(fixture: &Fixture) -> bool {
    matches!(fixture.store.terminal_events()[..], [Event::Error { code: FailureCode::Internal, .. }])
}

/// A fixture whose store fails in operations of this kind for which `fails_at` accepts the number.
fn failing(
    op: Op,
    error: impl Into<LeaseError>,
    fails_at: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> Fixture {
    let (fixture, error) = (Fixture::new(two_batches), error.into());
    fixture.store.fail_when(move |operation, nth| (operation == op && fails_at(nth)).then(|| error.clone()));
    fixture
}

fn appends_of_full_run() -> usize {
    let fixture = Fixture::new(two_batches);
    fixture.finish();
    fixture.store.count(Op::Append)
}

#[test]
fn p3_p4_another_run_recovers_from_any_temporary_append_failure() {
    for error in [io(), StoreError::Full, StoreError::Busy] {
        for n in 1..=appends_of_full_run() {
            let fixture = failing(Op::Append, error.clone(), move |nth| nth == n);
            assert_eq!(fixture.drive(), DriveOutcome::Released, "append {n}: {error}");
            fixture.finish();
            assert_eq!(fixture.status(), JobStatus::Succeeded, "append {n}: {error}");
            for effect in ["b", "d"] {
                let runs = fixture.tools.runs().iter().filter(|run| run.id_ref == effect).count();
                assert!(runs <= 1, "append {n}: {effect} ran {runs} times");
            }
        }
    }
}

#[test]
fn p4_a_permanent_append_error_fails_the_job_at_once() {
    for n in 1..=appends_of_full_run() {
        let fixture = failing(Op::Append, corrupt(), move |nth| nth >= n);
        assert_eq!(fixture.drive(), DriveOutcome::Finished, "append {n}");
        assert!(failed_internally(&fixture), "append {n}");
        assert_eq!((fixture.store.count(Op::Claim), fixture.store.count(Op::Release)), (1, 0));
    }
}

#[test]
fn a_fenced_worker_abandons_its_job_and_a_closed_store_ends_the_tick() {
    for n in 1..=appends_of_full_run() {
        let fenced =
            failing(Op::Append, LeaseError::Fenced { job: JobId::from_bits(7) }, move |nth| nth == n);
        assert_eq!(fenced.drive(), DriveOutcome::Abandoned);
        let closed = failing(Op::Append, StoreError::Closed, move |nth| nth == n);
        assert_eq!(closed.tick(), WorkerTick::StoreFailed(StoreError::Closed));
        for fixture in [fenced, closed] {
            assert_eq!(
                (fixture.store.count(Op::Release), fixture.store.count(Op::Finish)),
                (0, 0),
                "append {n}"
            );
            assert_eq!(fixture.leases.count(), 0);
        }
    }
}

#[test]
fn p4_p8_an_unreadable_log_or_history_fails_the_job_without_a_loop() {
    for op in [Op::Log, Op::History] {
        for error in [corrupt(), io()] {
            let fixture = failing(op, error.clone(), |_| true);
            let before = fixture.store.records().len();
            assert_eq!(fixture.drive(), DriveOutcome::Finished, "{op:?}: {error}");
            assert!(failed_internally(&fixture), "{op:?}: {error}");
            assert_eq!(fixture.store.records().len(), before + 2, "{op:?}: `running` and the end, no more");
            assert!(fixture.store.count(op) <= 6, "{op:?}: {} reads", fixture.store.count(op));
            assert!(fixture.model.requests().is_empty());
        }
    }
}

#[test]
fn a_transient_read_error_is_retried_in_the_same_run() {
    for op in [Op::Log, Op::History] {
        let fixture = failing(op, io(), |nth| nth <= 3);
        assert_eq!(fixture.drive(), DriveOutcome::Finished);
        assert_eq!(fixture.status(), JobStatus::Succeeded);
        assert_eq!((fixture.store.count(Op::Claim), fixture.store.count(Op::Release)), (1, 0));
    }
}

#[test]
fn a_store_outage_releases_the_job_and_it_succeeds_later() {
    for error in [io(), StoreError::Full] {
        let (fixture, hit) = (Fixture::new(two_batches), error.clone());
        fixture.store.fail_when(move |op, nth| match (op, nth) {
            (Op::Log | Op::Probe, 1) | (Op::Release, ..=9) => Some(hit.clone()),
            _ => None,
        });
        assert_eq!(fixture.drive(), DriveOutcome::Released, "{error}");
        fixture.finish();
        assert_eq!(fixture.status(), JobStatus::Succeeded, "{error}");
    }
}

#[test]
fn a_stop_ends_the_retries_of_a_read() {
    let fixture = failing(Op::Log, io(), |_| true);
    let store = std::sync::Arc::clone(&fixture.store);
    fixture.clock.on_pause(move || store.cancel_lease(CancelReason::Shutdown));
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    assert_eq!(fixture.store.count(Op::Log), 2);
}

#[test]
fn p4_after_a_transient_finish_error_another_run_writes_the_end() {
    let fixture = failing(Op::Finish, io(), |nth| nth == 1);
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded);
    assert_eq!(fixture.model.requests().len(), 4, "the answer stands in the log with its end or not at all");
}

#[test]
fn p4_an_unwritable_end_is_written_without_its_answer_and_then_given_up() {
    for (refused, reached) in [(1, 2), (2, 3)] {
        let fixture = failing(Op::Finish, corrupt(), move |nth| nth <= refused);
        assert_eq!(fixture.drive(), DriveOutcome::Finished);
        assert!(failed_internally(&fixture));
        assert_eq!(fixture.store.count(Op::Finish), reached);
    }
    let fixture = failing(Op::Finish, corrupt(), |_| true);
    assert_eq!(fixture.tick(), WorkerTick::StoreFailed(corrupt()));
    assert_eq!((fixture.store.count(Op::Finish), fixture.store.count(Op::Release)), (3, 0), "no loop");
    assert_eq!(fixture.tick(), WorkerTick::Idle);
}

#[test]
fn p4_failing_a_job_is_retried_while_the_store_is_down() {
    let fixture = Fixture::new(|_, _, _| panic!("on purpose"));
    fixture.store.fail_when(|op, nth| (op == Op::Finish && nth <= 5).then(io));
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!(fixture.store.count(Op::Release), 0, "another run would panic, too");
    assert!(fixture.clock.monotonic_ms() >= 2500, "with patience");
}

#[test]
fn p4_the_release_of_a_lease_is_retried_until_it_works() {
    let fixture = Fixture::new(two_batches);
    fixture.store.fail_when(|op, nth| match (op, nth) {
        (Op::Append, 1) | (Op::Release, ..=4) => Some(io()),
        _ => None,
    });
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    assert_eq!(fixture.store.count(Op::Release), 5);
    assert!(fixture.clock.monotonic_ms() >= 2500, "with pauses");
    fixture.finish();
}

#[test]
fn release_retries_end_on_a_fence_a_permanent_error_or_a_shutdown() {
    for (error, tick) in [
        (
            LeaseError::Fenced { job: JobId::from_bits(7) },
            WorkerTick::Drove(JobId::from_bits(7), DriveOutcome::Abandoned),
        ),
        (StoreError::Closed.into(), WorkerTick::StoreFailed(StoreError::Closed)),
        (corrupt().into(), WorkerTick::StoreFailed(corrupt())),
    ] {
        let fixture = Fixture::new(two_batches);
        let hit = error.clone();
        fixture.store.fail_when(move |op, _| match op {
            Op::Append => Some(io().into()),
            Op::Release => Some(hit.clone()),
            _ => None,
        });
        assert_eq!(fixture.tick(), tick);
        assert_eq!(fixture.store.count(Op::Release), 1, "{error}");
    }
    let fixture = Fixture::new(two_batches);
    fixture.store.fail_when(|op, _| matches!(op, Op::Append | Op::Release).then(io));
    let draining = fixture.draining.clone();
    fixture.clock.on_pause(move || draining.cancel(CancelReason::Shutdown));
    assert_eq!(fixture.tick(), WorkerTick::StoreFailed(io()));
    assert_eq!(fixture.store.count(Op::Release), 1);
}

#[test]
fn a_failed_claim_leaves_no_active_lease() {
    for error in [io(), corrupt(), StoreError::Busy, StoreError::Closed] {
        let fixture = failing(Op::Claim, error.clone(), |_| true);
        assert_eq!(fixture.tick(), WorkerTick::StoreFailed(error));
        assert_eq!(fixture.leases.count(), 0);
    }
}
