//! One lease from claim to end, with a scripted store.

use super::fixture::{DeferredAction, Fixture, LIMITS, answer_with_calls, answers, call, two_batches};
use super::store::Op;
use crate::app::system::SystemClock;
use crate::domain::event::{Event, FailureCode, FinishReason};
use crate::domain::job::JobStatus;
use crate::engine::driver::{DriveOutcome, Driver};
use crate::ports::{CancelReason, CancelToken, Chunk, ModelError, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn unavailable(retry_after_ms: Option<u64>) -> ModelError {
    ModelError::Unavailable { message: "busy".into(), retry_after_ms }
}

#[test]
fn each_request_extends_the_previous_one() {
    let fixture = Fixture::new(two_batches);
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    let requests = fixture.model.requests();
    assert_eq!(requests.iter().map(|(_, r)| r.messages.len()).collect::<Vec<_>>(), [4, 8, 10]);
    for pair in requests.windows(2) {
        assert!(pair[1].1.messages.starts_with(&pair[0].1.messages));
        assert_eq!(pair[1].1.tools.len(), 2);
    }
}

#[test]
fn the_closing_call_offers_no_tools() {
    let fixture = Fixture::new(|_, _, sink| answer_with_calls(vec![call("", "pure")], sink));
    fixture.finish();
    let may_call: Vec<_> = fixture.model.requests().iter().map(|(_, request)| request.may_call).collect();
    assert_eq!(may_call, [true, true, true, false]);
    assert!(matches!(
        fixture.store.terminal_events()[..],
        [Event::Done { finish_reason: FinishReason::MaxSteps, .. }]
    ));
}

#[test]
fn a_request_after_a_restart_equals_the_uninterrupted_one() {
    let fixture = Fixture::new(two_batches);
    fixture.drive();
    let uninterrupted = fixture.model.requests().last().expect("the last call").1.clone();
    let interrupted = Fixture::new(two_batches);
    let (action, store) = (DeferredAction::default(), Arc::clone(&interrupted.store));
    action.set(move || store.cancel_lease(CancelReason::Shutdown));
    interrupted.tools.on_call(move || action.run_once());
    interrupted.finish();
    assert_eq!(interrupted.model.requests().last().expect("the last call").1, uninterrupted);
}

#[test]
fn retry_after_is_honoured() {
    for (retry_after_ms, waited_ms) in
        [(None, 1000), (Some(7000), 7000), (Some(0), 0), (Some(30_000), 30_000)]
    {
        let failed = AtomicBool::new(false);
        let fixture = Fixture::new(move |request, cancel, sink| {
            if !failed.swap(true, Ordering::SeqCst) {
                return Err(unavailable(retry_after_ms));
            }
            two_batches(request, cancel, sink)
        });
        assert_eq!(fixture.drive(), DriveOutcome::Finished);
        let second_ms = fixture.model.requests()[1].0;
        assert_eq!(second_ms, waited_ms, "{retry_after_ms:?}");
    }
}

#[test]
fn the_retry_delay_doubles_until_the_budget_fails_the_job() {
    let fixture = Fixture::new(|_, _, _| Err(unavailable(None)));
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    let times: Vec<_> = fixture.model.requests().iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 1000, 3000, 7000]);
    assert!(matches!(
        fixture.store.terminal_events()[..],
        [Event::Error { code: FailureCode::ProviderError, .. }]
    ));
}

#[test]
fn a_failed_job_is_retried_from_its_last_recorded_step() {
    let mut fixture = Fixture::new(|request, cancel, sink| match answers(request) {
        0 => two_batches(request, cancel, sink),
        _ => Err(unavailable(None)),
    });
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").allow_attempts(3);
    assert_eq!(fixture.drive(), DriveOutcome::Postponed);
    assert_eq!(fixture.drive(), DriveOutcome::Postponed);
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!(
        fixture.store.postponed_ms(),
        [2_500, 5_000],
        "half of 5 s, half of 10 s: there is no jitter here"
    );
    assert_eq!(fixture.model.requests().len(), 1 + 3 * 4, "the recorded answer is not requested again");
    assert_eq!(fixture.tools.runs().iter().filter(|call| call.id_ref == "b").count(), 1, "P3");
    assert!(matches!(
        fixture.store.terminal_events()[..],
        [Event::Error { code: FailureCode::ProviderError, .. }]
    ));
}

#[test]
fn a_permanent_failure_ends_the_job_at_once() {
    let mut fixture = Fixture::new(|_, _, _| Err(ModelError::Refused("no such account".into())));
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").allow_attempts(3);
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert!(fixture.store.postponed_ms().is_empty());
}

#[test]
fn p4_a_model_that_stops_without_a_cancel_fails_the_job() {
    let fixture = Fixture::new(|_, _, sink| {
        assert!(sink(Chunk::Text("half")).is_continue());
        Err(ModelError::Stopped)
    });
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert!(matches!(
        fixture.store.terminal_events()[..],
        [Event::Error { code: FailureCode::ProviderError, .. }]
    ));
    assert_eq!(fixture.model.requests().len(), 1);
}

#[test]
fn nothing_is_written_after_a_lost_piece() {
    // A model must not ignore `Break`; this one does.
    let fixture = Fixture::new(|_, _, sink| {
        for piece in ["one ", "two ", "three ", "four "] {
            let _ignored = sink(Chunk::Text(piece));
        }
        answer_with_calls(Vec::new(), sink)
    });
    fixture.store.fail_when(|op, nth| (op == Op::Append && nth == 2).then(|| StoreError::Io("first".into())));
    let lease = fixture.store.claim(1).wait().expect("a claim").pop().expect("a job");
    let (ports, draining) = (fixture.ports(), CancelToken::new(Arc::new(SystemClock::new())));
    let driver = Driver::new(&ports, &LIMITS, &lease, &draining).expect("a readable job");
    assert_eq!(driver.run(), Err(StoreError::Io("first".into()).into()));
    assert_eq!(fixture.store.count(Op::Append), 2, "three and four must not follow a gap");
}

#[test]
fn p2_an_answer_is_not_sealed_after_a_late_write_error() {
    let fixture = Fixture::new(two_batches);
    fixture.store.linger();
    fixture.store.fail_when(|op, nth| (op == Op::Append && nth == 2).then(|| StoreError::Io("late".into())));
    assert_eq!(fixture.drive(), DriveOutcome::Released);
    assert_eq!(fixture.store.count(Op::Append), 3, "two pieces, the wish to commit them, and no seal");
    fixture.finish();
    assert_eq!(fixture.status(), JobStatus::Succeeded);
}

#[test]
fn the_last_pieces_of_an_answer_are_committed_at_its_end() {
    let fixture = Fixture::new(two_batches);
    fixture.store.linger();
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!(fixture.status(), JobStatus::Succeeded);
}

#[test]
fn an_answer_that_comes_whole_waits_for_no_commit_in_memory() {
    for is_in_memory in [false, true] {
        let fixture = Fixture::new(|_, _, sink| {
            assert!(sink(Chunk::Text("all of it")).is_continue());
            answer_with_calls(Vec::new(), sink)
        });
        fixture.model.send_at_once();
        if is_in_memory {
            fixture.store.lease_in_memory();
        }
        assert_eq!(fixture.drive(), DriveOutcome::Finished);
        assert_eq!(fixture.store.count(Op::Append), usize::from(is_in_memory), "before the end's commit");
    }
}

#[test]
fn p4_a_panic_in_the_model_or_a_tool_ends_the_job_and_keeps_its_partial_answer() {
    let model = Fixture::new(|_, _, sink| {
        assert!(sink(Chunk::Text("half")).is_continue());
        panic!("on purpose")
    });
    let tools = Fixture::new(two_batches);
    tools.tools.on_call(|| panic!("on purpose"));
    for fixture in [model, tools] {
        assert_eq!(fixture.drive(), DriveOutcome::Finished);
        assert!(matches!(
            fixture.store.terminal_events()[..],
            [Event::Error { code: FailureCode::Internal, .. }]
        ));
        assert_eq!(fixture.leases.count(), 0);
    }
}

#[test]
fn p4_a_job_leased_after_its_end_gets_no_second_end() {
    let fixture = Fixture::new(two_batches);
    fixture.store.insert_event(Event::Error {
        content: "over".into(),
        code: FailureCode::Poison,
        retry_after_ms: None,
    });
    assert_eq!(fixture.drive(), DriveOutcome::Abandoned);
    assert_eq!(fixture.store.terminal_events().len(), 1);
    assert_eq!(
        (fixture.store.count(Op::Append), fixture.store.count(Op::Release)),
        (0, 0),
        "no loop over the queue"
    );
    assert_eq!(fixture.leases.count(), 0);
}

#[test]
fn p4_a_second_panic_while_failing_a_job_still_ends_it() {
    let fixture = Fixture::new(two_batches);
    fixture.store.fail_when::<StoreError>(|op, _| if op == Op::Log { panic!("on purpose") } else { None });
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!(fixture.status(), JobStatus::Failed);
    assert_eq!(fixture.leases.count(), 0);
}
