//! Every reason to stop, in every phase of a job.

use super::fixture::{DeferredAction, Fixture, LIMITS, answers, two_batches};
use super::store::{Op, TIMEOUT_S};
use crate::app::system::SystemClock;
use crate::domain::event::{EngineMark, Event, FailureCode, Record};
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::engine::active_leases::ActiveLeases;
use crate::engine::driver::DriveOutcome;
use crate::engine::worker::{Worker, WorkerTick};
use crate::ports::{CancelReason, CancelToken, Chunk, ModelError, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    BeforeTheModel,
    InMidStream,
    InTheBackoff,
    DuringTools,
    BeforeTheEnd,
}

const PHASES: [Phase; 5] =
    [Phase::BeforeTheModel, Phase::InMidStream, Phase::InTheBackoff, Phase::DuringTools, Phase::BeforeTheEnd];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Cancel(CancelReason),
    Deadline,
    Drain,
}

const REASONS: [Reason; 6] = [
    Reason::Cancel(CancelReason::Cancelled),
    Reason::Cancel(CancelReason::DeadlineExceeded),
    Reason::Cancel(CancelReason::LeaseLost),
    Reason::Cancel(CancelReason::Shutdown),
    Reason::Deadline,
    Reason::Drain,
];

/// A job that is stopped for this reason in this phase. The flag reports whether the phase was reached.
fn fixture_stopped_in(phase: Phase, reason: Reason) -> (Fixture, Arc<AtomicBool>) {
    let action = DeferredAction::default();
    let reached = Arc::new(AtomicBool::new(false));
    let (action_in_model, failed) = (action.clone(), AtomicBool::new(false));
    let fixture = Fixture::new(move |request, cancel, sink| {
        if phase == Phase::InTheBackoff && !failed.swap(true, Ordering::SeqCst) {
            return Err(ModelError::Unavailable { message: "busy".into(), retry_after_ms: Some(20_000) });
        }
        let last = answers(request) == 2;
        if phase == Phase::InMidStream && last {
            if sink(Chunk::Text("well, ")).is_break() {
                return Err(ModelError::Stopped);
            }
            action_in_model.run_once();
            if cancel.is_cancelled() {
                return Err(ModelError::Stopped);
            }
        }
        let answer = two_batches(request, cancel, sink);
        if phase == Phase::BeforeTheEnd && last {
            action_in_model.run_once();
        }
        answer
    });
    let deferred = action.clone();
    match phase {
        Phase::BeforeTheModel => fixture.store.fail_when::<StoreError>(move |op, _| {
            if op == Op::History {
                deferred.run_once();
            }
            None
        }),
        Phase::InTheBackoff => fixture.clock.on_pause(move || deferred.run_once()),
        Phase::DuringTools => fixture.tools.on_call(move || deferred.run_once()),
        Phase::InMidStream | Phase::BeforeTheEnd => {}
    }
    let (store, clock, draining, reached_flag) = (
        Arc::clone(&fixture.store),
        Arc::clone(&fixture.clock),
        fixture.draining.clone(),
        Arc::clone(&reached),
    );
    action.set(move || {
        reached_flag.store(true, Ordering::SeqCst);
        match reason {
            Reason::Cancel(reason) => store.cancel_lease(reason),
            Reason::Deadline => clock.advance(TIMEOUT_S * 1000),
            Reason::Drain => draining.cancel(CancelReason::Shutdown),
        }
    });
    (fixture, reached)
}

fn check(phase: Phase, reason: Reason) {
    let case = format!("{reason:?} {phase:?}");
    let (mut fixture, reached) = fixture_stopped_in(phase, reason);
    let drive = fixture.drive();
    assert!(reached.load(Ordering::SeqCst), "{case}: the phase was never met");
    let calls = fixture.model.requests().len();
    let assert_ended = |expected_code: FailureCode| {
        assert_eq!(drive, DriveOutcome::Finished, "{case}");
        assert!(
            matches!(fixture.store.terminal_events()[..], [Event::Error { code, .. }] if code == expected_code),
            "{case}: {:?}",
            fixture.store.terminal_events()
        );
    };
    match reason {
        Reason::Cancel(CancelReason::Cancelled) => return assert_ended(FailureCode::Cancelled),
        Reason::Cancel(CancelReason::DeadlineExceeded) => return assert_ended(FailureCode::DeadlineExceeded),
        // The job's time that passes before the end is written counts as a timeout.
        Reason::Deadline => return assert_ended(FailureCode::Timeout),
        Reason::Cancel(CancelReason::LeaseLost) => assert_eq!(drive, DriveOutcome::Abandoned, "{case}"),
        Reason::Cancel(CancelReason::Shutdown) | Reason::Drain => {
            assert_eq!(drive, DriveOutcome::Released, "{case}");
        }
    }
    assert!(
        fixture.store.is_ready() && fixture.store.terminal_events().is_empty(),
        "{case}: another worker goes on"
    );
    let expected = match phase {
        Phase::BeforeTheModel => 0,
        Phase::InTheBackoff | Phase::DuringTools => 1,
        Phase::InMidStream | Phase::BeforeTheEnd => 3,
    };
    assert_eq!(calls, expected, "{case}: no model is asked after the word to stop");
    fixture.draining = CancelToken::new(Arc::new(SystemClock::new()));
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded, "{case}: the next run ends the job");
    for effect in ["b", "d"] {
        let runs = fixture.tools.runs().iter().filter(|run| run.id_ref == effect).count();
        assert!(runs <= 1, "{case}: {effect} had its effect {runs} times");
    }
}

#[test]
fn p3_p4_every_stop_reason_ends_the_run_in_every_phase() {
    for phase in PHASES {
        for reason in REASONS {
            check(phase, reason);
        }
    }
}

#[test]
fn a_drain_ends_the_backoff_at_once() {
    let (fixture, _) = fixture_stopped_in(Phase::InTheBackoff, Reason::Drain);
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    let slept_ms = crate::ports::Clock::monotonic_ms(&*fixture.clock);
    assert!(slept_ms <= 100, "{slept_ms} ms");
}

#[test]
fn p3_a_call_that_shutdown_prevented_runs_in_the_next_run() {
    let fixture = Fixture::new(two_batches);
    let action = DeferredAction::default();
    let (store, deferred) = (Arc::clone(&fixture.store), action.clone());
    action.set(move || store.cancel_lease(CancelReason::Shutdown));
    fixture.tools.on_start(move || deferred.run_once());
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    assert!(fixture.tools.runs().is_empty());
    fixture.finish();
    let effects = fixture.tools.runs().iter().filter(|run| run.id_ref == "b").count();
    assert_eq!(effects, 1, "'b' was never begun, so it is neither lost nor in doubt");
}

#[test]
fn p3_an_effect_that_ended_during_shutdown_keeps_its_result() {
    let fixture = Fixture::new(two_batches);
    let store = Arc::clone(&fixture.store);
    let log_source = Arc::clone(&fixture.store);
    fixture.tools.on_call(move || {
        let in_effect =
            matches!(log_source.records().last(), Some(Record::Mark(EngineMark::ToolStarted { .. })));
        if in_effect {
            store.cancel_lease(CancelReason::Shutdown);
        }
    });
    fixture.finish();
    for effect in ["b", "d"] {
        assert_eq!(fixture.tools.runs().iter().filter(|run| run.id_ref == effect).count(), 1, "{effect}");
    }
    assert_eq!(fixture.status(), JobStatus::Succeeded);
}

#[test]
fn the_lease_that_came_with_an_end_is_worked_on_or_released_by_a_drain() {
    let fixture = Fixture::new(two_batches);
    let worker = Worker::new(fixture.ports(), LIMITS, fixture.draining.clone(), ActiveLeases::default());
    let job = JobId::from_bits(7);
    for _ in 0..2 {
        fixture.store.start_anew();
        assert_eq!(worker.tick(Duration::ZERO), WorkerTick::Drove(job, DriveOutcome::Finished));
        assert!(worker.holds_lease());
    }
    assert_eq!(fixture.store.count(Op::Finish), 2);
    fixture.draining.cancel(CancelReason::Shutdown);
    assert_eq!(worker.tick(Duration::ZERO), WorkerTick::Drove(job, DriveOutcome::Released));
    assert!(!worker.holds_lease() && fixture.store.is_ready());
}
