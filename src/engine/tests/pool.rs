//! The threads: they outlive panics and a failing store, and they stop on request.

use super::fixture::{Fixture, LIMITS, usual};
use super::store::Op;
use crate::app::system::SystemClock;
use crate::domain::event::{Event, FailureCode};
use crate::domain::job::JobStatus;
use crate::engine::pool::WorkerPool;
use crate::ports::{CancelToken, ModelError, ReadinessProbe, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Real time that a condition may take; far more than it needs.
const PATIENCE: Duration = Duration::from_secs(10);

fn wait_until(what: &str, met: impl Fn() -> bool) {
    let (step, bell) = (Duration::from_millis(2), CancelToken::new(Arc::new(SystemClock::new())));
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if met() {
            return;
        }
        bell.wait(step);
    }
    panic!("{what}: not within {PATIENCE:?}");
}

fn start(fixture: &Fixture) -> WorkerPool {
    WorkerPool::start(3, &fixture.ports(), &LIMITS).expect("threads")
}

/// A provider that says nothing until the cancel is pulled.
fn hang(cancel: &CancelToken) -> ModelError {
    cancel.wait(PATIENCE);
    ModelError::Stopped
}

#[test]
fn a_panic_costs_its_job_and_no_worker() {
    let fixture = Fixture::new(|_, _, _| panic!("on purpose"));
    let pool = start(&fixture);
    wait_until("the job fails", || !fixture.store.ends().is_empty());
    assert!(matches!(fixture.store.ends()[..], [Event::Error { code: FailureCode::Internal, .. }]));
    assert_eq!(pool.probe().check(), Ok(()));
    pool.drain(Duration::ZERO);
}

#[test]
fn a_store_that_stumbles_is_asked_again() {
    let fixture = Fixture::new(usual);
    fixture
        .store
        .break_by(|op, nth| (op == Op::Claim && nth <= 20).then(|| StoreError::Io("on purpose".into())));
    let pool = start(&fixture);
    wait_until("the job ends", || !fixture.store.ends().is_empty());
    assert_eq!(fixture.status(), JobStatus::Succeeded);
    pool.drain(Duration::ZERO);
}

#[test]
fn p4_a_drain_gives_back_what_hangs_and_ends_the_threads() {
    let entered = Arc::new(AtomicBool::new(false));
    let has_entered = Arc::clone(&entered);
    let fixture = Fixture::new(move |_, cancel, _| {
        has_entered.store(true, Ordering::SeqCst);
        Err(hang(cancel))
    });
    let pool = start(&fixture);
    let probe = pool.probe();
    wait_until("the model is asked", || entered.load(Ordering::SeqCst));
    pool.drain(Duration::from_millis(100));
    assert!(fixture.store.is_ready(), "the job waits for the next start");
    assert!(fixture.store.ends().is_empty());
    assert_eq!(fixture.model.requests().len(), 1);
    assert!(probe.check().is_err(), "no worker is left");
}

#[test]
fn a_drain_lets_a_job_reach_its_step_boundary() {
    let (entered, go) = (Arc::new(AtomicBool::new(false)), CancelToken::new(Arc::new(SystemClock::new())));
    let (has_entered, gate) = (Arc::clone(&entered), go.clone());
    let fixture = Fixture::new(move |request, cancel, sink| {
        has_entered.store(true, Ordering::SeqCst);
        gate.wait(PATIENCE);
        assert!(cancel.reason().is_none(), "the drain has patience");
        usual(request, cancel, sink)
    });
    let pool = start(&fixture);
    wait_until("the model is asked", || entered.load(Ordering::SeqCst));
    let opener = std::thread::spawn({
        let go = go.clone();
        move || {
            CancelToken::new(Arc::new(SystemClock::new())).wait(Duration::from_millis(30));
            go.cancel(crate::ports::CancelReason::Shutdown);
        }
    });
    // The clock of these tests runs fast, so its patience is long.
    pool.drain(Duration::from_secs(1_000_000_000));
    opener.join().expect("the opener");
    assert!(fixture.store.is_ready() && fixture.store.ends().is_empty(), "released, not ended");
    assert_eq!(fixture.model.requests().len(), 1, "no step begins in a drain");
}
