//! Running jobs without progress, and how they are reported.

use super::fixture::{Fixture, answer_with_calls, answers, call};
use crate::domain::id::JobId;
use crate::engine::stall_detector::{StallChange, StallDetector};
use crate::ports::Clock;
use std::sync::{Arc, Mutex};

const STALLED_S: u64 = 300;
const STALLED_MS: u64 = STALLED_S * 1_000;

fn detector_for(fixture: &Fixture, stalled_s: u64) -> StallDetector {
    StallDetector::new(fixture.leases.clone(), Arc::clone(&fixture.clock) as Arc<dyn Clock>, stalled_s)
}

fn stalled(activity: &str, for_ms: u64) -> StallChange {
    StallChange::Stalled { job: JobId::from_bits(7), attempt: 1, activity: activity.to_owned(), for_ms }
}

fn resumed(after_ms: u64) -> StallChange {
    StallChange::Resumed { job: JobId::from_bits(7), attempt: 1, after_ms }
}

/// The changes that a detector reports for a job with a slow tool.
fn changes_of_slow_tool(stalled_s: u64) -> Vec<Vec<StallChange>> {
    let fixture = Fixture::new(|request, _, sink| {
        answer_with_calls(if answers(request) == 0 { vec![call("a", "pure")] } else { Vec::new() }, sink)
    });
    let (changes, mut detector) = (Arc::new(Mutex::new(Vec::new())), detector_for(&fixture, stalled_s));
    let (tool_changes, clock) = (Arc::clone(&changes), Arc::clone(&fixture.clock));
    let inner_detector = Arc::new(Mutex::new(detector_for(&fixture, stalled_s)));
    let tool_detector = Arc::clone(&inner_detector);
    fixture.tools.on_call(move || {
        let mut detector = tool_detector.lock().expect("no panic");
        let mut check = |later_ms| {
            clock.advance(later_ms);
            tool_changes.lock().expect("no panic").push(detector.check());
        };
        check(0);
        check(STALLED_MS - 1);
        check(1_000);
        check(999);
        check(STALLED_MS);
    });
    fixture.finish();
    fixture.clock.advance(1_000);
    assert_eq!(detector.check(), [], "no lease is active");
    let last_change = inner_detector.lock().expect("no panic").check();
    let mut changes = changes.lock().expect("no panic").clone();
    changes.push(last_change);
    changes
}

#[test]
fn a_stall_is_reported_once_and_its_end_once() {
    let changes = changes_of_slow_tool(STALLED_S);
    let expected = [
        vec![],
        vec![],
        vec![stalled("running pure", STALLED_MS + 999)],
        vec![], // too early to check again
        vec![], // reported already
        vec![resumed(2 * STALLED_MS + 2_998)],
    ];
    assert_eq!(changes, expected);
}

#[test]
fn no_stall_is_reported_when_detection_is_off() {
    assert!(changes_of_slow_tool(0).iter().all(Vec::is_empty));
}

#[test]
fn a_silent_model_is_named_and_each_piece_is_progress() {
    let detector: Arc<Mutex<Option<StallDetector>>> = Arc::default();
    let clock: Arc<Mutex<Option<Arc<super::fixture::FakeClock>>>> = Arc::default();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let (inner_detector, inner_clock, model_changes) =
        (Arc::clone(&detector), Arc::clone(&clock), Arc::clone(&changes));
    let fixture = Fixture::new(move |_, _, sink| {
        let mut detector = inner_detector.lock().expect("no panic");
        let (detector, clock) = (detector.as_mut().expect("detector"), inner_clock.lock().expect("no panic"));
        let clock = clock.as_ref().expect("a clock");
        let mut check = || {
            clock.advance(STALLED_MS / 2 + 1_000);
            model_changes.lock().expect("no panic").extend(detector.check());
        };
        // Each piece comes in time.
        for _ in 0..4 {
            check();
            assert!(sink(crate::ports::Chunk::Text("so ")).is_continue());
        }
        check();
        check();
        assert!(sink(crate::ports::Chunk::Text("on")).is_continue());
        check();
        answer_with_calls(Vec::new(), sink)
    });
    *detector.lock().expect("no panic") = Some(detector_for(&fixture, STALLED_S));
    *clock.lock().expect("no panic") = Some(Arc::clone(&fixture.clock));
    fixture.finish();
    let changes = changes.lock().expect("no panic").clone();
    let [StallChange::Stalled { activity, for_ms, .. }, StallChange::Resumed { .. }] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(activity.starts_with("asking the model '"), "{activity}");
    assert_eq!(*for_ms, STALLED_MS + 2_000);
}
