//! The threads survive panics and store failures, and stop when the pool drains.

use super::fixture::{Fixture, LIMITS, two_batches};
use super::store::Op;
use crate::app::system::SystemClock;
use crate::domain::event::{Event, FailureCode};
use crate::domain::job::JobStatus;
use crate::engine::pool::WorkerPool;
use crate::ports::{CancelToken, ModelError, ReadinessProbe, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Real time that a condition may take; far more than needed.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

fn wait_until(description: &str, condition: impl Fn() -> bool) {
    let (step, timer) = (Duration::from_millis(2), CancelToken::new(Arc::new(SystemClock::new())));
    for _ in 0..WAIT_TIMEOUT.as_millis() / step.as_millis() {
        if condition() {
            return;
        }
        timer.wait(step);
    }
    panic!("{description}: not within {WAIT_TIMEOUT:?}");
}

fn start(fixture: &Fixture) -> WorkerPool {
    WorkerPool::start(3, &fixture.ports(), &LIMITS).expect("threads")
}

/// A provider that sends nothing until the call is cancelled.
fn wait_for_cancel(cancel: &CancelToken) -> ModelError {
    cancel.wait(WAIT_TIMEOUT);
    ModelError::Stopped
}

#[test]
fn a_panic_fails_its_job_and_the_worker_survives() {
    let fixture = Fixture::new(|_, _, _| panic!("on purpose"));
    let pool = start(&fixture);
    wait_until("the job fails", || !fixture.store.terminal_events().is_empty());
    assert!(matches!(
        fixture.store.terminal_events()[..],
        [Event::Error { code: FailureCode::Internal, .. }]
    ));
    assert_eq!(pool.probe().check(), Ok(()));
    pool.drain(Duration::ZERO);
}

#[test]
fn a_failed_claim_is_repeated() {
    let fixture = Fixture::new(two_batches);
    fixture
        .store
        .fail_when(|op, nth| (op == Op::Claim && nth <= 20).then(|| StoreError::Io("on purpose".into())));
    let pool = start(&fixture);
    wait_until("the job ends", || !fixture.store.terminal_events().is_empty());
    assert_eq!(fixture.status(), JobStatus::Succeeded);
    pool.drain(Duration::ZERO);
}

#[test]
fn p4_a_drain_releases_hanging_jobs_and_ends_the_threads() {
    let entered = Arc::new(AtomicBool::new(false));
    let has_entered = Arc::clone(&entered);
    let fixture = Fixture::new(move |_, cancel, _| {
        has_entered.store(true, Ordering::SeqCst);
        Err(wait_for_cancel(cancel))
    });
    let pool = start(&fixture);
    let probe = pool.probe();
    wait_until("the model is asked", || entered.load(Ordering::SeqCst));
    pool.drain(Duration::from_millis(100));
    assert!(fixture.store.is_ready(), "the job waits for the next start");
    assert!(fixture.store.terminal_events().is_empty());
    assert_eq!(fixture.model.requests().len(), 1);
    assert!(probe.check().is_err(), "no worker is left");
}

#[test]
fn a_drain_lets_a_job_reach_its_step_boundary() {
    let (entered, gate_open) =
        (Arc::new(AtomicBool::new(false)), CancelToken::new(Arc::new(SystemClock::new())));
    let (has_entered, model_gate) = (Arc::clone(&entered), gate_open.clone());
    let fixture = Fixture::new(move |request, cancel, sink| {
        has_entered.store(true, Ordering::SeqCst);
        model_gate.wait(WAIT_TIMEOUT);
        assert!(cancel.reason().is_none(), "the drain has patience");
        two_batches(request, cancel, sink)
    });
    let pool = start(&fixture);
    wait_until("the model is asked", || entered.load(Ordering::SeqCst));
    let opener = std::thread::spawn({
        let gate_open = gate_open.clone();
        move || {
            CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(30));
            gate_open.cancel(crate::ports::CancelReason::Shutdown);
        }
    });
    // The clock of these tests runs fast, so the timeout is long.
    pool.drain(Duration::from_secs(1_000_000_000));
    opener.join().expect("the opener");
    assert!(fixture.store.is_ready() && fixture.store.terminal_events().is_empty(), "released, not ended");
    assert_eq!(fixture.model.requests().len(), 1, "no step begins in a drain");
}
