//! Every reason to stop, in every phase of a job.

use super::fixture::{Bell, Fixture, answers, usual};
use super::store::{Op, TIMEOUT_S};
use crate::app::system::SystemClock;
use crate::domain::event::{EngineMark, Event, FailureCode, Record};
use crate::domain::job::JobStatus;
use crate::engine::driver::DriveOutcome;
use crate::ports::{CancelReason, CancelToken, Chunk, ModelError, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    Raised(CancelReason),
    Deadline,
    Drain,
}

const REASONS: [Reason; 5] = [
    Reason::Raised(CancelReason::Cancelled),
    Reason::Raised(CancelReason::LeaseLost),
    Reason::Raised(CancelReason::Shutdown),
    Reason::Deadline,
    Reason::Drain,
];

/// A job that meets the reason in the phase. The flag tells whether it has.
fn staged(phase: Phase, reason: Reason) -> (Fixture, Arc<AtomicBool>) {
    let bell = Bell::default();
    let met = Arc::new(AtomicBool::new(false));
    let (in_stream, failed) = (bell.clone(), AtomicBool::new(false));
    let fixture = Fixture::new(move |request, cancel, sink| {
        if phase == Phase::InTheBackoff && !failed.swap(true, Ordering::SeqCst) {
            return Err(ModelError::Unavailable { message: "busy".into(), retry_after_ms: Some(20_000) });
        }
        let last = answers(request) == 2;
        if phase == Phase::InMidStream && last {
            if sink(Chunk::Text("well, ")).is_break() {
                return Err(ModelError::Stopped);
            }
            in_stream.ring();
            if cancel.is_cancelled() {
                return Err(ModelError::Stopped);
            }
        }
        let answer = usual(request, cancel, sink);
        if phase == Phase::BeforeTheEnd && last {
            in_stream.ring();
        }
        answer
    });
    let ringing = bell.clone();
    match phase {
        Phase::BeforeTheModel => fixture.store.break_by::<StoreError>(move |op, _| {
            if op == Op::History {
                ringing.ring();
            }
            None
        }),
        Phase::InTheBackoff => fixture.clock.on_pause(move || ringing.ring()),
        Phase::DuringTools => fixture.tools.on_call(move || ringing.ring()),
        Phase::InMidStream | Phase::BeforeTheEnd => {}
    }
    let (store, clock, draining, has_stopped) =
        (Arc::clone(&fixture.store), Arc::clone(&fixture.clock), fixture.draining.clone(), Arc::clone(&met));
    bell.hang(move || {
        has_stopped.store(true, Ordering::SeqCst);
        match reason {
            Reason::Raised(reason) => store.raise(reason),
            Reason::Deadline => clock.advance(TIMEOUT_S * 1000),
            Reason::Drain => draining.cancel(CancelReason::Shutdown),
        }
    });
    (fixture, met)
}

fn check(phase: Phase, reason: Reason) {
    let at = format!("{reason:?} {phase:?}");
    let (mut fixture, met) = staged(phase, reason);
    let drive = fixture.drive();
    assert!(met.load(Ordering::SeqCst), "{at}: the phase was never met");
    let calls = fixture.model.requests().len();
    let ended = |wanted: FailureCode| {
        assert_eq!(drive, DriveOutcome::Finished, "{at}");
        assert!(
            matches!(fixture.store.ends()[..], [Event::Error { code, .. }] if code == wanted),
            "{at}: {:?}",
            fixture.store.ends()
        );
    };
    match reason {
        Reason::Raised(CancelReason::Cancelled) => return ended(FailureCode::Cancelled),
        // What is over the deadline before the end is has_stopped is over the deadline.
        Reason::Deadline => return ended(FailureCode::Timeout),
        Reason::Raised(CancelReason::LeaseLost) => assert_eq!(drive, DriveOutcome::Abandoned, "{at}"),
        Reason::Raised(CancelReason::Shutdown) | Reason::Drain => {
            assert_eq!(drive, DriveOutcome::Released, "{at}");
        }
    }
    assert!(fixture.store.is_ready() && fixture.store.ends().is_empty(), "{at}: another worker goes on");
    let expected = match phase {
        Phase::BeforeTheModel => 0,
        Phase::InTheBackoff | Phase::DuringTools => 1,
        Phase::InMidStream | Phase::BeforeTheEnd => 3,
    };
    assert_eq!(calls, expected, "{at}: no model is asked after the word to stop");
    fixture.draining = CancelToken::new(Arc::new(SystemClock::new()));
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded, "{at}: the next run ends the job");
    for effect in ["b", "d"] {
        let runs = fixture.tools.runs().iter().filter(|run| run.id_ref == effect).count();
        assert!(runs <= 1, "{at}: {effect} had its effect {runs} times");
    }
}

#[test]
fn p3_p4_every_reason_to_stop_is_heeded_in_every_phase() {
    for phase in PHASES {
        for reason in REASONS {
            check(phase, reason);
        }
    }
}

#[test]
fn a_drain_ends_the_backoff_at_once() {
    let (fixture, _) = staged(Phase::InTheBackoff, Reason::Drain);
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    let slept_ms = crate::ports::Clock::monotonic_ms(&*fixture.clock);
    assert!(slept_ms <= 100, "{slept_ms} ms");
}

#[test]
fn p3_a_call_that_shutdown_never_let_begin_is_made_by_the_next_run() {
    let fixture = Fixture::new(usual);
    let bell = Bell::default();
    let (store, ringing) = (Arc::clone(&fixture.store), bell.clone());
    bell.hang(move || store.raise(CancelReason::Shutdown));
    fixture.tools.on_start(move || ringing.ring());
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    assert!(fixture.tools.runs().is_empty());
    fixture.finish();
    let effects = fixture.tools.runs().iter().filter(|run| run.id_ref == "b").count();
    assert_eq!(effects, 1, "'b' was never begun, so it is neither lost nor in doubt");
}

#[test]
fn p3_an_effect_that_ended_as_shutdown_came_keeps_its_result() {
    let fixture = Fixture::new(usual);
    let store = Arc::clone(&fixture.store);
    let seen = Arc::clone(&fixture.store);
    fixture.tools.on_call(move || {
        let in_effect = matches!(seen.records().last(), Some(Record::Mark(EngineMark::ToolStarted { .. })));
        if in_effect {
            store.raise(CancelReason::Shutdown);
        }
    });
    fixture.finish();
    for effect in ["b", "d"] {
        assert_eq!(fixture.tools.runs().iter().filter(|run| run.id_ref == effect).count(), 1, "{effect}");
    }
    assert_eq!(fixture.status(), JobStatus::Succeeded);
}
